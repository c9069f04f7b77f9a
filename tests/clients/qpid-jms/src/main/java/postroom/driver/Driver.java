package postroom.driver;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import jakarta.jms.CompletionListener;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Enumeration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Driver of Qpid JMS: commands and answers as in ../../README.md. */
public final class Driver {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final String STORE_PASSWORD = "changeit";
    private static final long COMMAND_MS = 15_000;
    private static final int DEFAULT_PRIORITY = 4;
    /** Qpid JMS's own session mode: each message is disposed of alone, with the outcome that a property names. */
    private static final int INDIVIDUAL_ACKNOWLEDGE = 101;
    private static final String ACK_TYPE = "JMS_AMQP_ACK_TYPE";

    private JsonNode connectCommand;
    private Connection plain;
    private Connection presettled;
    private Session sending;

    public static void main(String[] arguments) throws Exception {
        Driver driver = new Driver();
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            output.println(JSON.writeValueAsString(driver.answer(line)));
        }
        System.exit(0);
    }

    private ObjectNode answer(String line) {
        try {
            JsonNode command = JSON.readTree(line);
            return switch (command.get("op").textValue()) {
                case "connect" -> connect(command);
                case "send" -> send(command);
                case "receive" -> receive(command);
                case "browse" -> browse(command);
                case "close" -> close();
                default -> throw new NotExpressible("operation " + command.get("op"));
            };
        } catch (Exception error) {
            ObjectNode told = JSON.createObjectNode();
            told.putObject("error")
                .put("type", error.getClass().getSimpleName())
                .put("condition", condition(error))
                .put("description", String.valueOf(error.getMessage()));
            return told;
        }
    }

    /** Qpid JMS puts the AMQP condition at the end of the message, as "[condition = amqp:not-found]". */
    private static String condition(Throwable error) {
        String text = String.valueOf(error.getMessage());
        int start = text.indexOf("[condition = ");
        return start < 0 ? null : text.substring(start + "[condition = ".length(), text.indexOf(']', start));
    }

    private ObjectNode connect(JsonNode command) throws JMSException {
        connectCommand = command;
        plain = open(false);
        sending = plain.createSession(Session.AUTO_ACKNOWLEDGE);
        return JSON.createObjectNode();
    }

    private String scheme() {
        String plainly = connectCommand.has("websocket") ? "amqpws" : "amqp";
        return connectCommand.has("ca") ? plainly + "s" : plainly;
    }

    private Connection open(boolean presettle) throws JMSException {
        String address = scheme() + "://" + connectCommand.get("host").textValue() + ":" + connectCommand.get("port").asInt();
        address += connectCommand.path("websocket").asText();
        if (connectCommand.has("ca")) {
            address += "?transport.trustStoreLocation=" + connectCommand.get("ca").textValue()
                + "&transport.trustStorePassword=" + STORE_PASSWORD;
        }
        if (connectCommand.has("certificate")) {
            address += "&transport.keyStoreLocation=" + connectCommand.get("certificate").textValue()
                + "&transport.keyStorePassword=" + STORE_PASSWORD + "&amqp.saslMechanisms=EXTERNAL";
        }
        if (connectCommand.has("token")) {
            address += (connectCommand.has("ca") ? "&" : "?") + "amqp.saslMechanisms=XOAUTH2";
        }
        if (connectCommand.path("reconnect").asBoolean()) {
            address = "failover:(" + address + ")?failover.reconnectDelay=50&failover.useReconnectBackOff=false";
        }
        String separator = address.contains("?") ? "&" : "?";
        // Without prefetch, receiveNoWait asks the broker and drains, so an empty queue is known without a wait.
        String options = "jms.prefetchPolicy.all=0&jms.presettlePolicy.presettleAll=" + presettle;
        var factory = new JmsConnectionFactory(address + separator + options);
        if (connectCommand.has("user")) {
            factory.setUsername(connectCommand.get("user").textValue());
            String secret = connectCommand.has("token") ? "token" : "password";
            factory.setPassword(connectCommand.get(secret).textValue());
        }
        if (connectCommand.has("container") && !presettle) {
            factory.setClientID(connectCommand.get("container").textValue());
        }
        Connection connection = factory.createConnection();
        connection.start();
        return connection;
    }

    /** Qpid JMS decides on pre-settling by connection, so pre-settled work has a connection of its own. */
    private Connection presettledConnection() throws JMSException {
        if (presettled == null) {
            presettled = open(true);
        }
        return presettled;
    }

    private ObjectNode send(JsonNode command) throws Exception {
        boolean settled = command.path("settled").asBoolean();
        Session session = settled ? presettledConnection().createSession(Session.AUTO_ACKNOWLEDGE) : sending;
        JsonNode specs = command.get("messages");
        ObjectNode[] outcomes = new ObjectNode[specs.size()];
        var finished = new CountDownLatch(specs.size());
        try (MessageProducer producer = session.createProducer(session.createQueue(command.get("address").textValue()))) {
            for (int index = 0; index < specs.size(); index++) {
                Message message = Messages.fromJson(session, specs.get(index));
                put(producer, message, specs.get(index), new Outcome(outcomes, index, finished, settled));
            }
            if (!finished.await(COMMAND_MS, TimeUnit.MILLISECONDS)) {
                throw new JMSException("no outcome for " + finished.getCount() + " messages");
            }
        }
        ObjectNode told = JSON.createObjectNode();
        ArrayNode list = told.putArray("outcomes");
        for (ObjectNode outcome : outcomes) {
            list.add(outcome);
        }
        return told;
    }

    private static void put(MessageProducer producer, Message message, JsonNode spec, Outcome outcome) throws JMSException {
        int mode = spec.path("durable").asBoolean() ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT;
        int priority = spec.path("priority").asInt(DEFAULT_PRIORITY);
        producer.send(message, mode, priority, spec.path("ttl_ms").asLong(0), outcome);
    }

    /** Takes the end of one asynchronous send. */
    private record Outcome(ObjectNode[] outcomes, int index, CountDownLatch finished, boolean settled)
            implements CompletionListener {
        @Override
        public void onCompletion(Message message) {
            outcomes[index] = JSON.createObjectNode().put("state", settled ? "settled" : "accepted");
            finished.countDown();
        }

        @Override
        public void onException(Message message, Exception error) {
            String text = String.valueOf(error.getMessage());
            String state = text.contains("RELEASED") ? "released" : text.contains("MODIFIED") ? "modified" : "rejected";
            outcomes[index] = JSON.createObjectNode().put("state", state)
                .put("condition", condition(error)).put("description", text);
            finished.countDown();
        }
    }

    private ObjectNode receive(JsonNode command) throws JMSException {
        if (command.path("second").asBoolean()) {
            throw new NotExpressible("receiver settle mode second");
        }
        boolean presettle = command.path("presettled").asBoolean();
        Connection connection = presettle ? presettledConnection() : plain;
        int ackType = ackType(command.path("outcome"));
        ObjectNode told = JSON.createObjectNode();
        ArrayNode messages = told.putArray("messages");
        Session session = connection.createSession(INDIVIDUAL_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(session.createQueue(command.get("address").textValue()));
        while (messages.size() < command.get("count").asInt()) {
            Message message = next(consumer, command);
            if (message == null) {
                break;
            }
            messages.add(Messages.toJson(message));
            if (ackType != AckType.NONE && !presettle) {
                message.setIntProperty(ACK_TYPE, ackType);
                message.acknowledge();
            }
        }
        if (!command.path("keep").asBoolean()) {
            consumer.close();
            session.close();
        }
        return told;
    }

    private static Message next(MessageConsumer consumer, JsonNode command) throws JMSException {
        if (command.path("wait").asBoolean()) {
            return consumer.receive(command.path("timeout_ms").asLong(10_000));
        }
        return consumer.receiveNoWait();
    }

    /** The values of Qpid JMS's property JMS_AMQP_ACK_TYPE. */
    private static final class AckType {
        static final int NONE = 0;
        static final int ACCEPTED = 1;
        static final int REJECTED = 2;
        static final int RELEASED = 3;
        static final int MODIFIED_FAILED = 4;
        static final int MODIFIED_FAILED_UNDELIVERABLE = 5;
    }

    private static int ackType(JsonNode outcome) {
        String name = outcome.isObject() ? outcome.fieldNames().next() : outcome.asText("accept");
        JsonNode detail = outcome.path(name);
        return switch (name) {
            case "none" -> AckType.NONE;
            case "", "accept" -> AckType.ACCEPTED;
            case "release" -> AckType.RELEASED;
            case "reject" -> rejected(detail);
            case "modify" -> modified(detail);
            default -> throw new NotExpressible("outcome " + name);
        };
    }

    private static int rejected(JsonNode detail) {
        if (detail.has("condition")) {
            throw new NotExpressible("rejected with an error");
        }
        return AckType.REJECTED;
    }

    private static int modified(JsonNode detail) {
        if (!detail.path("failed").asBoolean()) {
            throw new NotExpressible("modified without delivery-failed");
        }
        boolean elsewhere = detail.path("undeliverable_here").asBoolean();
        return elsewhere ? AckType.MODIFIED_FAILED_UNDELIVERABLE : AckType.MODIFIED_FAILED;
    }

    private ObjectNode browse(JsonNode command) throws JMSException {
        ObjectNode told = JSON.createObjectNode();
        ArrayNode messages = told.putArray("messages");
        try (QueueBrowser browser = sending.createBrowser(sending.createQueue(command.get("address").textValue()))) {
            Enumeration<?> found = browser.getEnumeration();
            while (found.hasMoreElements()) {
                messages.add(Messages.toJson((Message) found.nextElement()));
            }
        }
        return told;
    }

    private ObjectNode close() throws JMSException {
        plain.close();
        if (presettled != null) {
            presettled.close();
            presettled = null;
        }
        return JSON.createObjectNode();
    }
}
