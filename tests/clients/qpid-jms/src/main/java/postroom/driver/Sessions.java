package postroom.driver;

import jakarta.jms.CompletionListener;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.util.Enumeration;
import java.util.StringJoiner;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.jms.JmsConnectionFactory;

/** What Qpid JMS makes of sessions and queues: {@code Sessions HOST:PORT} prints "name: what happened", a line each. */
public final class Sessions {
    private static final int WAIT_MS = 10_000;
    private static final int DELAY_MS = 300;

    private final Connection connection;
    private final Session session;
    private int queues;

    private Sessions(String address) throws JMSException {
        connection = new JmsConnectionFactory("amqp://" + address).createConnection();
        connection.start();
        session = connection.createSession(Session.AUTO_ACKNOWLEDGE);
    }

    public static void main(String[] arguments) throws Exception {
        Sessions sessions = new Sessions(arguments[0]);
        sessions.recover();
        sessions.rollback();
        sessions.unacknowledged();
        sessions.listener();
        sessions.times();
        sessions.delay();
        sessions.completion();
        sessions.headerSelectors();
        sessions.browserSelector();
        sessions.groups();
        sessions.connection.close();
    }

    private void recover() throws JMSException {
        Queue queue = filled("a", "b", "c");
        Session client = connection.createSession(Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = client.createConsumer(queue);
        consumer.receive(WAIT_MS).acknowledge();
        consumer.receive(WAIT_MS);
        client.recover();
        say("recover", seen(consumer.receive(WAIT_MS)) + " " + seen(consumer.receive(WAIT_MS)));
        client.close();
    }

    private void rollback() throws JMSException {
        Queue queue = filled("a", "b");
        Session transacted = connection.createSession(Session.SESSION_TRANSACTED);
        MessageConsumer consumer = transacted.createConsumer(queue);
        consumer.receive(WAIT_MS);
        consumer.receive(WAIT_MS);
        transacted.rollback();
        say("rollback", seen(consumer.receive(WAIT_MS)) + " " + seen(consumer.receive(WAIT_MS)));
        transacted.commit();
        transacted.close();
        say("committed", browsed(queue, null));
    }

    private void unacknowledged() throws JMSException {
        Queue queue = filled("a");
        Session client = connection.createSession(Session.CLIENT_ACKNOWLEDGE);
        client.createConsumer(queue).receive(WAIT_MS);
        client.close();
        say("closed unacknowledged", seen(session.createConsumer(queue).receive(WAIT_MS)));
    }

    private void listener() throws JMSException, InterruptedException {
        Queue queue = filled("a");
        var attempts = new CountDownLatch(2);
        var heard = new StringBuffer();
        Session own = connection.createSession(Session.AUTO_ACKNOWLEDGE);
        own.createConsumer(queue).setMessageListener(message -> {
            attempts.countDown();
            heard.append(seen(message)).append(' ');
            if (attempts.getCount() > 0) {
                throw new IllegalStateException("the first attempt fails");
            }
        });
        attempts.await(WAIT_MS, TimeUnit.MILLISECONDS);
        own.close();
        say("listener that throws", heard.toString().trim());
    }

    private void times() throws JMSException {
        Queue queue = filled();
        MessageProducer producer = session.createProducer(queue);
        producer.send(session.createTextMessage("for ever"));
        TextMessage gone = session.createTextMessage("gone");
        producer.send(gone, DeliveryMode.PERSISTENT, Message.DEFAULT_PRIORITY, 1);
        TextMessage timed = session.createTextMessage("timed");
        producer.send(timed, DeliveryMode.NON_PERSISTENT, 9, 60_000);
        while (System.currentTimeMillis() <= gone.getJMSExpiration()) {
            Thread.onSpinWait();
        }
        MessageConsumer consumer = session.createConsumer(queue);
        Message first = consumer.receive(WAIT_MS);
        say("priority first", seen(first) + (first.getJMSPriority() == 9 ? " 9" : ""));
        say("expiration", first.getJMSExpiration() == timed.getJMSExpiration() ? "as sent" : "another");
        say("delivery mode", first.getJMSDeliveryMode() == DeliveryMode.NON_PERSISTENT ? "non-persistent" : "other");
        Message second = consumer.receive(WAIT_MS);
        say("no expiration", seen(second) + " " + second.getJMSExpiration());
        consumer.close();
    }

    private void delay() throws JMSException {
        Queue queue = filled();
        MessageProducer producer = session.createProducer(queue);
        producer.setDeliveryDelay(DELAY_MS);
        TextMessage late = session.createTextMessage("late");
        producer.send(late);
        producer.setDeliveryDelay(0);
        producer.send(session.createTextMessage("early"));
        MessageConsumer consumer = session.createConsumer(queue);
        String order = seen(consumer.receive(WAIT_MS));
        Message born = consumer.receive(WAIT_MS);
        say("delivery delay", order + " " + seen(born));
        say("born", System.currentTimeMillis() >= late.getJMSDeliveryTime() ? "not before its time" : "too early");
        say("delivery time", born.getJMSDeliveryTime() == late.getJMSDeliveryTime() ? "as sent" : "another");
        consumer.close();
    }

    private void completion() throws JMSException, InterruptedException {
        var completed = new CountDownLatch(10);
        var listener = new CompletionListener() {
            @Override
            public void onCompletion(Message message) {
                completed.countDown();
            }

            @Override
            public void onException(Message message, Exception error) {
                say("completion", error.toString());
            }
        };
        MessageProducer producer = session.createProducer(filled());
        for (long left = completed.getCount(); left > 0; left--) {
            producer.send(session.createTextMessage("asynchronous"), listener);
        }
        say("completions", completed.await(WAIT_MS, TimeUnit.MILLISECONDS) ? "all" : "too few");
    }

    private void headerSelectors() throws JMSException {
        Queue queue = filled("other");
        TextMessage chosen = session.createTextMessage("chosen");
        chosen.setJMSType("order");
        chosen.setJMSCorrelationID("c-1");
        chosen.setStringProperty("JMSXGroupID", "g");
        session.createProducer(queue).send(chosen, DeliveryMode.NON_PERSISTENT, 7, 0);
        String[] selectors = {
            "JMSMessageID = '" + chosen.getJMSMessageID() + "'",
            "JMSCorrelationID LIKE 'c-_'",
            "JMSType IN ('order', 'bill')",
            "JMSDeliveryMode = 'NON_PERSISTENT'",
            "JMSPriority BETWEEN 5 AND 9",
            "JMSTimestamp = " + chosen.getJMSTimestamp() + " AND JMSType IS NOT NULL",
            "JMSXGroupID = 'g'",
        };
        for (String selector : selectors) {
            say(selector.split(" ")[0], browsed(queue, selector));
        }
    }

    private void browserSelector() throws JMSException {
        Queue queue = filled("a", "b", "c");
        say("browser with selector", browsed(queue, "text <> 'b'"));
        say("nothing taken", browsed(queue, null));
    }

    private void groups() throws JMSException {
        Queue queue = filled();
        MessageProducer producer = session.createProducer(queue);
        for (int number = 1; number <= 2; number++) {
            TextMessage message = session.createTextMessage("member");
            message.setStringProperty("JMSXGroupID", "g");
            message.setIntProperty("JMSXGroupSeq", number);
            producer.send(message);
        }
        MessageConsumer consumer = session.createConsumer(queue);
        consumer.receive(WAIT_MS);
        Message second = consumer.receive(WAIT_MS);
        say("group", second.getStringProperty("JMSXGroupID") + second.getIntProperty("JMSXGroupSeq"));
        consumer.close();
    }

    /** A queue of its own with these texts, each in a property, too. */
    private Queue filled(String... texts) throws JMSException {
        Queue queue = session.createQueue("jms.sessions." + queues++);
        MessageProducer producer = session.createProducer(queue);
        for (String text : texts) {
            TextMessage message = session.createTextMessage(text);
            message.setStringProperty("text", text);
            producer.send(message);
        }
        producer.close();
        return queue;
    }

    private String browsed(Queue queue, String selector) throws JMSException {
        var texts = new StringJoiner(" ");
        try (QueueBrowser browser = session.createBrowser(queue, selector)) {
            for (Enumeration<?> waiting = browser.getEnumeration(); waiting.hasMoreElements(); ) {
                texts.add(text((Message) waiting.nextElement()));
            }
        }
        return texts.toString();
    }

    /** Text, number of deliveries, and whether it is marked as redelivered. */
    private static String seen(Message message) {
        if (message == null) {
            return "nothing";
        }
        try {
            String again = message.getJMSRedelivered() ? " again" : "";
            return text(message) + "(" + message.getIntProperty("JMSXDeliveryCount") + again + ")";
        } catch (JMSException error) {
            return error.toString();
        }
    }

    private static String text(Message message) {
        try {
            return ((TextMessage) message).getText();
        } catch (JMSException error) {
            return error.toString();
        }
    }

    private static void say(String name, String what) {
        System.out.println(name + ": " + what);
    }
}
