package postroom.driver;

import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.TemporaryTopic;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.util.concurrent.Callable;
import org.apache.qpid.jms.JmsConnectionFactory;

/** What Qpid JMS makes of topics: {@code Topics HOST:PORT} prints "name: what happened", a line each. */
public final class Topics {
    private static final int WAIT_MS = 10_000;

    private final JmsConnectionFactory factory;
    private final Connection own;
    private final Connection other;
    private final Session session;
    private final Session others;
    private final Topic topic;
    private final MessageProducer producer;

    private Topics(String address) throws JMSException {
        factory = new JmsConnectionFactory("amqp://" + address);
        own = factory.createConnection();
        own.setClientID("topics-own");
        own.start();
        other = factory.createConnection();
        other.start();
        session = own.createSession(false, Session.AUTO_ACKNOWLEDGE);
        others = other.createSession(false, Session.AUTO_ACKNOWLEDGE);
        topic = session.createTopic("jms.topic");
        producer = session.createProducer(topic);
    }

    public static void main(String[] arguments) throws JMSException {
        Topics topics = new Topics(arguments[0]);
        topics.subscribers();
        topics.durable();
        topics.shared();
        topics.temporary();
        topics.anonymous();
        topics.refusals();
        topics.own.close();
        topics.other.close();
    }

    private void subscribers() throws JMSException {
        MessageConsumer first = session.createConsumer(topic);
        MessageConsumer second = others.createConsumer(topic);
        MessageConsumer remote = session.createConsumer(topic, null, true);
        send("a");
        others.createProducer(topic).send(others.createTextMessage("b"));
        say("subscribers", next(first) + next(first) + " " + next(second) + next(second));
        say("no local", next(remote));
        close(first, second, remote);
    }

    private void durable() throws JMSException {
        session.createDurableSubscriber(topic, "durable").close();
        send("kept");
        MessageConsumer again = session.createDurableConsumer(topic, "durable");
        say("durable", next(again));
        again.close();
        send("replaced");
        MessageConsumer choosy = session.createDurableConsumer(topic, "durable", "x = 1", false);
        send("not chosen");
        TextMessage chosen = session.createTextMessage("chosen");
        chosen.setIntProperty("x", 1);
        producer.send(chosen);
        say("another selector", next(choosy));
        choosy.close();
        say("unsubscribe", attempt(() -> unsubscribed(session, "durable")));
        say("unsubscribe again", attempt(() -> unsubscribed(session, "durable")));
    }

    private void shared() throws JMSException {
        MessageConsumer one = session.createSharedConsumer(topic, "shared");
        MessageConsumer two = session.createSharedConsumer(topic, "shared");
        MessageConsumer global = others.createSharedDurableConsumer(topic, "shared");
        send("1");
        send("2");
        say("shared", next(one).length() + next(two).length() + " of 2");
        say("global", next(global) + next(global));
        say("in use", attempt(this::withAnotherSelector));
        close(one, two, global);
        say("unsubscribe global", attempt(() -> unsubscribed(others, "shared")));
    }

    private Object withAnotherSelector() throws JMSException {
        try (Connection third = factory.createConnection()) {
            Session theirs = third.createSession(false, Session.AUTO_ACKNOWLEDGE);
            return theirs.createSharedDurableConsumer(topic, "shared", "a = 1");
        }
    }

    private void temporary() throws JMSException {
        TemporaryQueue replies = session.createTemporaryQueue();
        MessageConsumer reader = session.createConsumer(replies);
        MessageConsumer requests = others.createConsumer(topic);
        TextMessage question = session.createTextMessage("question");
        question.setJMSReplyTo(replies);
        producer.send(question);
        Message asked = requests.receive(WAIT_MS);
        others.createProducer(asked.getJMSReplyTo()).send(others.createTextMessage("answer"));
        say("reply", next(reader));
        String name = replies.getQueueName();
        say("foreign consumer", attempt(() -> others.createConsumer(others.createQueue(name))));
        close(reader, requests);
        replies.delete();
        say("deleted", attempt(() -> others.createProducer(others.createQueue(name))));
        TemporaryTopic temporary = session.createTemporaryTopic();
        MessageConsumer listener = session.createConsumer(temporary);
        others.createProducer(null).send(temporary, others.createTextMessage("heard"));
        say("temporary topic", next(listener));
        listener.close();
        temporary.delete();
    }

    private void anonymous() throws JMSException {
        Topic made = others.createTopic("jms.made");
        MessageProducer relay = others.createProducer(null);
        relay.send(made, others.createTextMessage("makes it"));
        MessageConsumer all = session.createConsumer(session.createTopic("jms.#"));
        relay.send(made, others.createTextMessage("heard"));
        Message heard = all.receive(WAIT_MS);
        say("pattern", ((Topic) heard.getJMSDestination()).getTopicName());
        Session transacted = other.createSession(true, Session.SESSION_TRANSACTED);
        MessageProducer sender = transacted.createProducer(made);
        sender.send(transacted.createTextMessage("rolled back"));
        transacted.rollback();
        sender.send(transacted.createTextMessage("committed"));
        transacted.commit();
        say("transacted", next(all));
        all.close();
    }

    private void refusals() throws JMSException {
        session.createProducer(session.createQueue("jms.queue"));
        say("queue as topic", attempt(() -> session.createConsumer(session.createTopic("jms.queue"))));
        say("publish to a pattern", attempt(() -> session.createProducer(session.createTopic("a.*"))));
    }

    private void send(String text) throws JMSException {
        producer.send(session.createTextMessage(text));
    }

    private static String next(MessageConsumer consumer) throws JMSException {
        Message message = consumer.receive(WAIT_MS);
        return message == null ? "nothing" : ((TextMessage) message).getText();
    }

    private static Object unsubscribed(Session session, String name) throws JMSException {
        session.unsubscribe(name);
        return null;
    }

    private static void close(MessageConsumer... consumers) throws JMSException {
        for (MessageConsumer consumer : consumers) {
            consumer.close();
        }
    }

    private static String attempt(Callable<?> action) {
        try {
            action.call();
            return "done";
        } catch (Exception refused) {
            return refused.getClass().getSimpleName();
        }
    }

    private static void say(String name, String what) {
        System.out.println(name + ": " + what);
    }
}
