package postroom.joram;

import java.util.Hashtable;
import javax.jms.JMSException;
import javax.naming.Context;
import javax.naming.InitialContext;
import javax.naming.NamingException;
import org.apache.qpid.jms.jndi.JmsInitialContextFactory;
import org.objectweb.jtests.jms.admin.Admin;

/** What the tests administer: destinations of the broker, and the names under which they look things up. */
public final class PostroomAdmin implements Admin {
    private final Hashtable<String, String> names = new Hashtable<>();
    private ManagementNode management;

    @Override
    public String getName() {
        return "Postroom";
    }

    @Override
    public Context createContext() throws NamingException {
        Hashtable<String, String> environment = new Hashtable<>(names);
        environment.put(Context.INITIAL_CONTEXT_FACTORY, JmsInitialContextFactory.class.getName());
        return new InitialContext(environment);
    }

    @Override
    public void createConnectionFactory(String name) {
        names.put("connectionfactory." + name, Main.url());
    }

    @Override
    public void deleteConnectionFactory(String name) {
        names.remove("connectionfactory." + name);
    }

    @Override
    public void createQueueConnectionFactory(String name) {
        createConnectionFactory(name);
    }

    @Override
    public void deleteQueueConnectionFactory(String name) {
        deleteConnectionFactory(name);
    }

    @Override
    public void createTopicConnectionFactory(String name) {
        createConnectionFactory(name);
    }

    @Override
    public void deleteTopicConnectionFactory(String name) {
        deleteConnectionFactory(name);
    }

    @Override
    public void createQueue(String name) {
        ask("CREATE", "queue", name);
        names.put("queue." + name, name);
    }

    @Override
    public void deleteQueue(String name) {
        names.remove("queue." + name);
        ask("DELETE", "queue", name);
    }

    @Override
    public void createTopic(String name) {
        ask("CREATE", "topic", name);
        names.put("topic." + name, name);
    }

    @Override
    public void deleteTopic(String name) {
        names.remove("topic." + name);
        ask("DELETE", "topic", name);
    }

    private void ask(String operation, String kind, String name) {
        try {
            management.ask(operation, "postroom." + kind, name);
        } catch (JMSException error) {
            throw new IllegalStateException(operation + " of " + kind + " " + name + ": " + error, error);
        }
    }

    @Override
    public void start() throws JMSException {
        management = new ManagementNode(Main.url());
    }

    @Override
    public void stop() throws JMSException {
        management.close();
    }

    /** The broker runs already, and goes on: a test's leftovers must not be able to hide behind a restart. */
    @Override
    public void startServer() {}

    @Override
    public void stopServer() {}
}
