package postroom.driver;

import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import jakarta.jms.TransactionRolledBackException;
import java.util.Enumeration;
import java.util.StringJoiner;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * What Qpid JMS makes of transacted sessions, beside what the Joram tests try: {@code Transactions HOST:PORT} prints
 * "name: what happened", a line each.
 */
public final class Transactions {
    private static final int WAIT_MS = 10_000;
    private static final int MANY = 3_000;
    private static final int LARGE_BYTES = 1 << 20;
    private static final int LARGE_COUNT = 9;
    /** Longer than the broker of this test lets a transaction be open. */
    private static final int TIMEOUT_WAIT_MS = 6_500;

    private final String address;
    private final Connection connection;
    private final Session session;
    private int queues;

    private Transactions(String address) throws JMSException {
        this.address = address;
        connection = new JmsConnectionFactory("amqp://" + address).createConnection();
        connection.start();
        session = connection.createSession(Session.AUTO_ACKNOWLEDGE);
    }

    public static void main(String[] arguments) throws Exception {
        var transactions = new Transactions(arguments[0]);
        try {
            transactions.manyLinks();
            transactions.rollbackOrder();
            transactions.counts();
            transactions.closed();
            transactions.recover();
            transactions.manyMessages();
            transactions.largeMessages();
            transactions.refusedSend();
            transactions.timeOut();
            transactions.cutConnection();
            transactions.failOver();
        } finally {
            transactions.connection.close();
        }
    }

    /** Two consumers and two producers of one session, in one unit. */
    private void manyLinks() throws JMSException {
        Queue[] in = {filled("a"), filled("b")};
        Queue[] out = {filled(), filled()};
        Session transacted = connection.createSession(Session.SESSION_TRANSACTED);
        MessageConsumer[] consumers = {transacted.createConsumer(in[0]), transacted.createConsumer(in[1])};
        MessageProducer[] producers = {transacted.createProducer(out[0]), transacted.createProducer(out[1])};
        for (int each = 0; each < 2; each++) {
            producers[each].send(transacted.createTextMessage(text(consumers[each].receive(WAIT_MS)) + "!"));
        }
        say("before the commit", browsed(out[0]) + browsed(out[1]));
        transacted.rollback();
        say("after the rollback", browsed(out[0]) + browsed(out[1]));
        for (int each = 0; each < 2; each++) {
            producers[each].send(transacted.createTextMessage(text(consumers[each].receive(WAIT_MS)) + "!"));
        }
        transacted.commit();
        transacted.close();
        say("after the commit", browsed(out[0]) + " " + browsed(out[1]));
        say("left behind", browsed(in[0]) + browsed(in[1]));
    }

    private void rollbackOrder() throws JMSException {
        Queue queue = filled("a", "b", "c", "d");
        Session transacted = connection.createSession(Session.SESSION_TRANSACTED);
        MessageConsumer consumer = transacted.createConsumer(queue);
        consumer.receive(WAIT_MS);
        consumer.receive(WAIT_MS);
        consumer.receive(WAIT_MS);
        transacted.rollback();
        say("order after a rollback", taken(consumer, 4));
        transacted.commit();
        transacted.close();
    }

    private void counts() throws JMSException {
        Queue queue = filled("a");
        Session transacted = connection.createSession(Session.SESSION_TRANSACTED);
        MessageConsumer consumer = transacted.createConsumer(queue);
        var seen = new StringJoiner(" ");
        for (int attempt = 0; attempt < 3; attempt++) {
            seen.add(seen(consumer.receive(WAIT_MS)));
            transacted.rollback();
        }
        say("JMSXDeliveryCount", seen.toString());
        consumer.receive(WAIT_MS);
        transacted.commit();
        transacted.close();
        say("committed at last", browsed(queue));
    }

    /** A session that is closed rolls back; so does its connection. */
    private void closed() throws JMSException {
        Queue queue = filled("a");
        Session transacted = connection.createSession(Session.SESSION_TRANSACTED);
        transacted.createConsumer(queue).receive(WAIT_MS);
        transacted.createProducer(queue).send(transacted.createTextMessage("never"));
        transacted.close();
        say("closed session", taken(session.createConsumer(queue), 1));
        Queue another = filled();
        try (Connection own = new JmsConnectionFactory("amqp://" + address).createConnection()) {
            Session ending = own.createSession(Session.SESSION_TRANSACTED);
            ending.createProducer(another).send(ending.createTextMessage("never"));
        }
        say("closed connection", browsed(another));
    }

    private void recover() throws JMSException {
        Session transacted = connection.createSession(Session.SESSION_TRANSACTED);
        try {
            transacted.recover();
            say("recover", "allowed");
        } catch (jakarta.jms.IllegalStateException expected) {
            say("recover", "IllegalStateException");
        }
        transacted.close();
    }

    private void manyMessages() throws JMSException {
        Queue queue = filled();
        Session transacted = connection.createSession(Session.SESSION_TRANSACTED);
        MessageProducer producer = transacted.createProducer(queue);
        for (int number = 0; number < MANY; number++) {
            producer.send(transacted.createTextMessage("m" + number));
        }
        transacted.commit();
        MessageConsumer consumer = transacted.createConsumer(queue);
        int inOrder = 0;
        while (inOrder < MANY && ("m" + inOrder).equals(text(consumer.receive(WAIT_MS)))) {
            inOrder++;
        }
        transacted.commit();
        say("many messages", inOrder == MANY && consumer.receiveNoWait() == null ? "all in order" : "only " + inOrder);
        transacted.close();
    }

    /** More than any block of the ledger takes. */
    private void largeMessages() throws JMSException {
        Queue queue = filled();
        Session transacted = connection.createSession(Session.SESSION_TRANSACTED);
        MessageProducer producer = transacted.createProducer(queue);
        String body = "x".repeat(LARGE_BYTES);
        for (int number = 0; number < LARGE_COUNT; number++) {
            producer.send(transacted.createTextMessage(body + number));
        }
        transacted.commit();
        MessageConsumer consumer = transacted.createConsumer(queue);
        var last = new StringBuilder();
        for (int number = 0; number < LARGE_COUNT; number++) {
            last.append(text(consumer.receive(WAIT_MS)).charAt(LARGE_BYTES));
        }
        transacted.commit();
        transacted.close();
        say("large messages", last.toString());
    }

    /** Qpid JMS doesn't wait for the outcomes of sends in a transaction: who listens hears of one that is refused. */
    private void refusedSend() throws Exception {
        Queue queue = filled();
        var heard = new CompletableFuture<String>();
        try (Connection own = new JmsConnectionFactory("amqp://" + address).createConnection()) {
            own.setExceptionListener(error -> heard.complete(error.getClass().getSimpleName()));
            Session transacted = own.createSession(Session.SESSION_TRANSACTED);
            MessageProducer producer = transacted.createProducer(null);
            producer.send(session.createQueue("$reserved"), transacted.createTextMessage("nowhere"));
            say("refused send", heard.get(WAIT_MS, TimeUnit.MILLISECONDS));
            transacted.rollback();
            producer.send(queue, transacted.createTextMessage("after"));
            transacted.commit();
        }
        say("after a refused send", browsed(queue));
    }

    private void timeOut() throws JMSException, InterruptedException {
        Queue queue = filled("a");
        Session transacted = connection.createSession(Session.SESSION_TRANSACTED);
        MessageConsumer consumer = transacted.createConsumer(queue);
        transacted.createProducer(queue).send(transacted.createTextMessage("never"));
        consumer.receive(WAIT_MS);
        Thread.sleep(TIMEOUT_WAIT_MS);
        say("commit after the time-out", outcome(transacted));
        say("redelivered", seen(consumer.receive(WAIT_MS)));
        say("the next commit", outcome(transacted));
        transacted.close();
        say("after the time-out", browsed(queue));
    }

    /** The connection breaks, without fail-over. */
    private void cutConnection() throws Exception {
        Queue queue = filled("a");
        try (var wire = new Wire(address)) {
            Connection own = new JmsConnectionFactory("amqp://" + wire.address()).createConnection();
            own.start();
            Session transacted = own.createSession(Session.SESSION_TRANSACTED);
            transacted.createConsumer(queue).receive(WAIT_MS);
            transacted.createProducer(queue).send(transacted.createTextMessage("never"));
            wire.cut();
            say("commit of a cut connection", committed(transacted) ? "committed" : "JMSException");
            closeQuietly(own);
        }
        say("what a cut connection had", taken(session.createConsumer(queue), 1));
    }

    /** It breaks, with fail-over: what was in the transaction is lost, the session goes on. */
    private void failOver() throws Exception {
        Queue queue = filled("a");
        try (var wire = new Wire(address)) {
            String url = "failover:(amqp://" + wire.address() + ")";
            Connection own = new JmsConnectionFactory(url).createConnection();
            own.start();
            Session transacted = own.createSession(Session.SESSION_TRANSACTED);
            MessageConsumer consumer = transacted.createConsumer(queue);
            MessageProducer producer = transacted.createProducer(queue);
            consumer.receive(WAIT_MS);
            producer.send(transacted.createTextMessage("never"));
            wire.cut();
            producer.send(transacted.createTextMessage("never, either"));
            say("commit after fail-over", outcome(transacted));
            say("redelivered after fail-over", text(consumer.receive(WAIT_MS)));
            producer.send(transacted.createTextMessage("b"));
            say("the next commit after fail-over", outcome(transacted));
            own.close();
        }
        say("left after fail-over", browsed(queue));
    }

    private static void closeQuietly(Connection broken) {
        try {
            broken.close();
        } catch (JMSException expected) {
            // It is as good as closed.
        }
    }

    private static boolean committed(Session transacted) {
        try {
            transacted.commit();
            return true;
        } catch (JMSException error) {
            return false;
        }
    }

    private static String outcome(Session transacted) throws JMSException {
        try {
            transacted.commit();
            return "committed";
        } catch (TransactionRolledBackException rolledBack) {
            return "TransactionRolledBackException";
        } catch (JMSException error) {
            return error.getClass().getSimpleName();
        }
    }

    /** A queue of its own with these texts. */
    private Queue filled(String... texts) throws JMSException {
        Queue queue = session.createQueue("jms.transactions." + queues++);
        MessageProducer producer = session.createProducer(queue);
        for (String text : texts) {
            producer.send(session.createTextMessage(text));
        }
        producer.close();
        return queue;
    }

    private String browsed(Queue queue) throws JMSException {
        var texts = new StringJoiner(" ");
        try (QueueBrowser browser = session.createBrowser(queue)) {
            for (Enumeration<?> waiting = browser.getEnumeration(); waiting.hasMoreElements(); ) {
                texts.add(text((Message) waiting.nextElement()));
            }
        }
        return texts.toString();
    }

    private static String taken(MessageConsumer consumer, int count) throws JMSException {
        var seen = new StringJoiner(" ");
        for (int number = 0; number < count; number++) {
            seen.add(seen(consumer.receive(WAIT_MS)));
        }
        return seen.toString();
    }

    /** Text, number of deliveries, and whether it is marked as redelivered. */
    private static String seen(Message message) throws JMSException {
        if (message == null) {
            return "nothing";
        }
        String again = message.getJMSRedelivered() ? " again" : "";
        return text(message) + "(" + message.getIntProperty("JMSXDeliveryCount") + again + ")";
    }

    private static String text(Message message) throws JMSException {
        return message == null ? "nothing" : ((TextMessage) message).getText();
    }

    private static void say(String name, String what) {
        System.out.println(name + ": " + what);
    }
}
