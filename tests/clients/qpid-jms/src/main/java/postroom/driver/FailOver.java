package postroom.driver;

import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import java.util.LinkedHashSet;
import java.util.Set;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * Sends one message after the other, then takes them, whatever becomes of the brokers meanwhile: {@code FailOver URL COUNT} prints
 * "sent N" for each, then "received N different in order" or not.
 */
public final class FailOver {
    private static final int WAIT_MS = 2_000;

    private FailOver() {}

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[1]);
        try (Connection connection = new JmsConnectionFactory(arguments[0]).createConnection()) {
            connection.start();
            Session session = connection.createSession(Session.CLIENT_ACKNOWLEDGE);
            Queue queue = session.createQueue("q");
            MessageProducer producer = session.createProducer(queue);
            for (int number = 0; number < count; number++) {
                producer.send(session.createTextMessage(Integer.toString(number)));
                System.out.println("sent " + number);
            }
            Set<Integer> seen = new LinkedHashSet<>();
            MessageConsumer consumer = session.createConsumer(queue);
            Message message;
            while ((message = consumer.receive(WAIT_MS)) != null) {
                seen.add(Integer.valueOf(message.getBody(String.class)));
                message.acknowledge();
            }
            boolean inOrder = seen.stream().toList().equals(java.util.stream.IntStream.range(0, count).boxed().toList());
            System.out.println("received " + seen.size() + " different" + (inOrder ? " in order" : ""));
        }
    }
}
