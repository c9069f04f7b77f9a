package postroom.joram;

import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Requests to the broker's management node, each of which has to succeed. */
final class ManagementNode implements AutoCloseable {
    private static final long ANSWER_MS = 20_000;

    private final Connection connection;
    private final Session session;
    private final MessageProducer requests;
    private final Queue replyTo;
    private final MessageConsumer answers;

    ManagementNode(String url) throws JMSException {
        connection = new JmsConnectionFactory(url).createConnection();
        session = connection.createSession(Session.AUTO_ACKNOWLEDGE);
        requests = session.createProducer(session.createQueue("$management"));
        replyTo = session.createTemporaryQueue();
        answers = session.createConsumer(replyTo);
        connection.start();
    }

    void ask(String operation, String type, String name) throws JMSException {
        MapMessage request = session.createMapMessage();
        request.setStringProperty("operation", operation);
        request.setStringProperty("type", type);
        request.setStringProperty("name", name);
        request.setJMSReplyTo(replyTo);
        requests.send(request);
        Message answer = answers.receive(ANSWER_MS);
        if (answer == null) {
            throw new JMSException("no answer within " + ANSWER_MS + " ms");
        }
        if (answer.getIntProperty("statusCode") / 100 != 2) {
            throw new JMSException(answer.getStringProperty("statusDescription"));
        }
    }

    @Override
    public void close() throws JMSException {
        connection.close();
    }
}
