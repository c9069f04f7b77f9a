package postroom.driver;

import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.ObjectMessage;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.StreamMessage;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.TemporaryTopic;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.StringJoiner;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * Every type of message, both ways: {@code Kinds HOST:PORT} prints what it reads of the messages in the queue kinds.to.java
 * ("JMSType: what it is", a line each, until one of type "end"), then sends its own to kinds.to.python.
 */
public final class Kinds {
    private static final int WAIT_MS = 10_000;

    private final Session session;

    private Kinds(Session session) {
        this.session = session;
    }

    public static void main(String[] arguments) throws JMSException {
        try (Connection connection = new JmsConnectionFactory("amqp://" + arguments[0]).createConnection()) {
            connection.start();
            Kinds kinds = new Kinds(connection.createSession(Session.AUTO_ACKNOWLEDGE));
            kinds.read();
            kinds.write();
        }
    }

    private void read() throws JMSException {
        MessageConsumer consumer = session.createConsumer(session.createQueue("kinds.to.java"));
        Message message = consumer.receive(WAIT_MS);
        while (message != null && !"end".equals(message.getJMSType())) {
            System.out.println(message.getJMSType() + ": " + told(message));
            message = consumer.receive(WAIT_MS);
        }
    }

    private static String told(Message message) throws JMSException {
        if (message.getJMSType().startsWith("headers")) {
            return headers(message);
        }
        if (message.getJMSType().startsWith("properties")) {
            return properties(message);
        }
        if (message instanceof TextMessage text) {
            return "TextMessage " + text.getText();
        }
        if (message instanceof BytesMessage bytes) {
            return "BytesMessage " + (message.getJMSType().equals("bytes written") ? numbers(bytes) : hex(bytes));
        }
        if (message instanceof MapMessage map) {
            return "MapMessage " + items(map);
        }
        if (message instanceof StreamMessage stream) {
            return "StreamMessage " + values(stream);
        }
        if (message instanceof ObjectMessage object) {
            return "ObjectMessage " + typed(object.getObject());
        }
        return "Message";
    }

    private static String hex(BytesMessage bytes) throws JMSException {
        byte[] content = new byte[(int) bytes.getBodyLength()];
        bytes.readBytes(content);
        return HexFormat.of().formatHex(content);
    }

    private static String numbers(BytesMessage bytes) throws JMSException {
        return bytes.readBoolean() + " " + bytes.readByte() + " " + bytes.readShort() + " " + bytes.readChar() + " "
            + bytes.readInt() + " " + bytes.readLong() + " " + bytes.readFloat() + " " + bytes.readDouble() + " "
            + bytes.readUTF();
    }

    private static String items(MapMessage map) throws JMSException {
        List<?> names = Collections.list(map.getMapNames());
        StringJoiner told = new StringJoiner(" ");
        for (Object name : names.stream().sorted().toList()) {
            told.add(name + "=" + typed(map.getObject((String) name)));
        }
        return told.toString();
    }

    private static String values(StreamMessage stream) throws JMSException {
        StringJoiner told = new StringJoiner(" ");
        for (int count = 0; count < 11; count++) {
            told.add(typed(stream.readObject()));
        }
        return told.toString();
    }

    private static String typed(Object value) {
        if (value == null) {
            return "null";
        }
        return value.getClass().getSimpleName() + ":" + (value instanceof byte[] bytes ? HexFormat.of().formatHex(bytes) : value);
    }

    private static String headers(Message message) throws JMSException {
        return message.getJMSMessageID() + " " + message.getJMSCorrelationID() + " " + kind(message.getJMSDestination()) + " "
            + kind(message.getJMSReplyTo()) + " " + message.getJMSDeliveryMode() + " " + message.getJMSPriority() + " "
            + message.getStringProperty("JMSXGroupID") + " " + message.getObjectProperty("JMSXGroupSeq") + " "
            + message.getIntProperty("JMSXDeliveryCount") + " " + (message.getJMSExpiration() - message.getJMSTimestamp());
    }

    private static String kind(Destination destination) throws JMSException {
        if (destination instanceof TemporaryQueue queue) {
            return "TemporaryQueue:" + queue.getQueueName();
        }
        if (destination instanceof TemporaryTopic topic) {
            return "TemporaryTopic:" + topic.getTopicName();
        }
        if (destination instanceof Topic topic) {
            return "Topic:" + topic.getTopicName();
        }
        return destination instanceof Queue queue ? "Queue:" + queue.getQueueName() : "null";
    }

    private static String properties(Message message) throws JMSException {
        List<?> names = Collections.list(message.getPropertyNames());
        StringJoiner told = new StringJoiner(" ");
        for (Object name : names.stream().sorted().toList()) {
            told.add(name + "=" + typed(message.getObjectProperty((String) name)));
        }
        return told.toString();
    }

    private void write() throws JMSException {
        MessageProducer producer = session.createProducer(session.createQueue("kinds.to.python"));
        for (Message message : List.of(
            session.createMessage(), session.createTextMessage("Grüße 🚀"), session.createTextMessage(), bytes(), map(),
            stream(), object(true), object(false), session.createObjectMessage(), properties(), headers())) {
            producer.send(message);
        }
        replyTo(producer, session.createQueue("replies"));
        replyTo(producer, session.createTopic("replies"));
        replyTo(producer, session.createTemporaryQueue());
        replyTo(producer, session.createTemporaryTopic());
    }

    private Message bytes() throws JMSException {
        BytesMessage message = session.createBytesMessage();
        message.writeBoolean(true);
        message.writeByte((byte) -1);
        message.writeShort((short) -2);
        message.writeChar('é');
        message.writeInt(-3);
        message.writeLong(-4);
        message.writeFloat(1.5f);
        message.writeDouble(2.5);
        message.writeUTF("aé\0🚀");
        message.writeBytes(new byte[] {0, -1});
        return message;
    }

    private Message map() throws JMSException {
        MapMessage message = session.createMapMessage();
        message.setBoolean("boolean", true);
        message.setByte("byte", (byte) -1);
        message.setShort("short", (short) -2);
        message.setChar("char", 'é');
        message.setInt("int", -3);
        message.setLong("long", -4);
        message.setFloat("float", 1.5f);
        message.setDouble("double", 2.5);
        message.setString("string", "Grüße");
        message.setBytes("bytes", new byte[] {0, -1});
        message.setObject("null", null);
        return message;
    }

    private Message stream() throws JMSException {
        StreamMessage message = session.createStreamMessage();
        message.writeBoolean(true);
        message.writeByte((byte) -1);
        message.writeShort((short) -2);
        message.writeChar('é');
        message.writeInt(-3);
        message.writeLong(-4);
        message.writeFloat(1.5f);
        message.writeDouble(2.5);
        message.writeString("Grüße");
        message.writeBytes(new byte[] {0, -1});
        message.writeObject(null);
        return message;
    }

    private Message object(boolean typed) throws JMSException {
        ObjectMessage message = session.createObjectMessage();
        message.setBooleanProperty("JMS_AMQP_TYPED_ENCODING", typed);
        HashMap<String, Object> content = new HashMap<>();
        content.put("numbers", new ArrayList<>(List.of(1, 2L)));
        message.setObject(content);
        return message;
    }

    private Message properties() throws JMSException {
        Message message = session.createMessage();
        message.setBooleanProperty("boolean", true);
        message.setByteProperty("byte", (byte) -1);
        message.setShortProperty("short", (short) -2);
        message.setIntProperty("int", -3);
        message.setLongProperty("long", -4);
        message.setFloatProperty("float", 1.5f);
        message.setDoubleProperty("double", 2.5);
        message.setStringProperty("string", "Grüße");
        return message;
    }

    private Message headers() throws JMSException {
        Message message = session.createTextMessage("headers");
        message.setJMSCorrelationID("ID:AMQP_UUID:00112233-4455-6677-8899-aabbccddeeff");
        message.setJMSType("greeting");
        message.setStringProperty("JMSXGroupID", "g");
        message.setIntProperty("JMSXGroupSeq", 3);
        return message;
    }

    private void replyTo(MessageProducer producer, Destination destination) throws JMSException {
        Message message = session.createMessage();
        message.setJMSReplyTo(destination);
        producer.send(message);
    }
}
