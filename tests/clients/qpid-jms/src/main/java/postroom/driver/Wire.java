package postroom.driver;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** A wire to the broker that can be cut: a port of this machine, from which bytes go to and fro. */
final class Wire implements AutoCloseable {
    private final ServerSocket listening = new ServerSocket(0, 16, InetAddress.getLoopbackAddress());
    private final Set<Socket> sockets = ConcurrentHashMap.newKeySet();
    private final String host;
    private final int port;

    Wire(String address) throws IOException {
        host = address.substring(0, address.lastIndexOf(':'));
        port = Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
        start(this::accept);
    }

    String address() {
        return "127.0.0.1:" + listening.getLocalPort();
    }

    /** Every connection that there is breaks, at both ends; later ones work. */
    void cut() throws IOException {
        for (Socket socket : sockets) {
            socket.close();
        }
        sockets.clear();
    }

    @Override
    public void close() throws IOException {
        listening.close();
        cut();
    }

    private void accept() {
        try {
            while (true) {
                Socket client = listening.accept();
                Socket broker = new Socket(host, port);
                sockets.add(client);
                sockets.add(broker);
                start(() -> carry(client, broker));
                start(() -> carry(broker, client));
            }
        } catch (IOException closed) {
            // This wire is closed, or the broker is not there.
        }
    }

    private static void carry(Socket from, Socket to) {
        try (from; to) {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            in.transferTo(out);
        } catch (IOException cut) {
            // Whoever is at the ends sees it.
        }
    }

    private static void start(Runnable work) {
        var thread = new Thread(work, "wire");
        thread.setDaemon(true);
        thread.start();
    }
}
