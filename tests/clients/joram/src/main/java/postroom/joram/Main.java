package postroom.joram;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/** Runs test classes and tells the result of each test as a line of JSON: url class…, see ../../README.md. */
public final class Main {
    private static String url;

    private Main() {}

    public static void main(String[] arguments) throws ClassNotFoundException {
        url = arguments[0];
        var results = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // the tests print
        var core = new JUnitCore();
        core.addListener(new Teller(results));
        for (int at = 1; at < arguments.length; at++) {
            core.run(Class.forName(arguments[at]));
        }
        System.exit(0);
    }

    /** Where the broker is. */
    static String url() {
        return url;
    }

    private static final class Teller extends RunListener {
        private static final ObjectMapper JSON = new ObjectMapper();
        private final PrintStream output;
        private Failure failure;
        private long startedNs;

        Teller(PrintStream output) {
            this.output = output;
        }

        @Override
        public void testStarted(Description test) {
            failure = null;
            startedNs = System.nanoTime();
        }

        @Override
        public void testFailure(Failure of) {
            failure = of;
        }

        @Override
        public void testFinished(Description test) {
            ObjectNode line = JSON.createObjectNode();
            line.put("class", test.getClassName());
            line.put("test", test.getMethodName());
            line.put("took_ms", (System.nanoTime() - startedNs) / 1_000_000);
            line.put("failure", failure == null ? null : failure.getTrimmedTrace());
            output.println(line);
        }
    }
}
