package trio;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/** Owns the client port: one text line in, one line out, a thread per connection. */
final class ClientPort {
    private static final Logger LOG = Logger.of(ClientPort.class);
    private static final int BIND_ATTEMPTS = 5;

    private final Node node;
    private final Config config;
    private ServerSocket server;

    ClientPort(Node node) {
        this.node = node;
        config = node.config;
    }

    void start() throws IOException {
        for (int attempt = 1; server == null; attempt++) {
            try {
                bind();
            } catch (IOException e) {
                if (attempt == BIND_ATTEMPTS) {
                    throw e;
                }
                LOG.warn("attempt " + attempt + " to open the client port failed", e);
                Node.pause(config.tickMs);
            }
        }
        Node.spawn("client-acceptor", this::acceptLoop);
    }

    private void bind() throws IOException {
        ServerSocket opened = new ServerSocket();
        try {
            opened.setReuseAddress(true);
            opened.bind(new InetSocketAddress(config.addr, config.clientPort));
            server = opened;
        } finally {
            if (server == null) {
                Link.closeQuietly(opened);
            }
        }
    }

    private void acceptLoop() {
        while (true) {
            try {
                final Socket socket = server.accept();
                Node.spawn("client-" + socket.getPort(), () -> serve(socket));
            } catch (IOException e) {
                LOG.warn("cannot accept a client, going on", e);
                Node.pause(100);
            }
        }
    }

    private void serve(Socket socket) {
        try {
            socket.setTcpNoDelay(true);
            BufferedReader in = new BufferedReader(new InputStreamReader(socket.getInputStream(),
                    StandardCharsets.UTF_8));
            OutputStream out = socket.getOutputStream();
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String answer = answer(line.trim().split(" ")) + "\n";
                out.write(answer.getBytes(StandardCharsets.UTF_8));
            }
        } catch (IOException e) {
            LOG.info("a client went away: " + e);
        } finally {
            Link.closeQuietly(socket);
        }
    }

    private String answer(String[] w) {
        try {
            switch (w[0]) {
                case "health":
                    return node.health();
                case "dump":
                    return dump();
                case "members":
                    return "ok " + String.join(",", node.membership.normal());
                case "join":
                    return changeMembers(node.membership.join(w[1]));
                case "decommission":
                    return changeMembers(node.membership.decommission(w[1]));
                case "resync":
                    return node.resyncNow();
                case "op":
                    return operation(w);
                default:
                    return awaitServing() ? read(w) : "fail not serving";
            }
        } catch (IndexOutOfBoundsException | NumberFormatException e) {
            return "fail bad request";
        }
    }

    private String changeMembers(String result) {
        node.gossip.push();
        return result;
    }

    /** "op CLIENT ID OPERATION ARGS...": an update, which goes through the leader. */
    private String operation(String[] w) {
        StringBuilder op = new StringBuilder(w[3]);
        for (int i = 4; i < w.length; i++) {
            op.append(' ').append(w[i]);
        }
        return node.perform(w[1], Long.parseLong(w[2]), op.toString());
    }

    private boolean awaitServing() {
        long end = System.nanoTime() + config.opTimeoutMs * 1_000_000L;
        while (!node.isServing()) {
            if (System.nanoTime() - end > 0) {
                return false;
            }
            node.store.awaitChange(100);
        }
        return true;
    }

    private String read(String[] w) {
        switch (w[0]) {
            case "get":
                return get(w[1]);
            case "lease":
                Store.Lease lease = node.store.lease(w[1]);
                return lease == null ? "ok - 0" : "ok " + lease.owner + " " + lease.generation;
            case "await":
                return awaitTasks(w[1]);
            default:
                return "fail unknown request " + w[0];
        }
    }

    private String get(String key) {
        for (int attempt = 1;; attempt++) {
            try {
                String value = node.store.get(key);
                return "ok " + (value == null ? "-" : value);
            } catch (IOException e) {
                LOG.warn("attempt " + attempt + " to read " + key + " failed", e);
                if (attempt == 3) {
                    return "fail " + e.getMessage();
                }
            }
        }
    }

    /** Waits until the tasks with this prefix are done; answers with the last one's result. */
    private String awaitTasks(String prefix) {
        long end = System.nanoTime() + config.opTimeoutMs * 1_000_000L;
        while (true) {
            String open = null;
            String result = "none";
            for (Map.Entry<String, Store.Task> e : node.store.tasks().entrySet()) {
                if (e.getKey().startsWith(prefix)) {
                    boolean done = e.getValue().state.equals(Store.Task.DONE);
                    open = done ? open : e.getKey() + " " + e.getValue().state;
                    result = done ? e.getValue().detail : result;
                }
            }
            if (open == null) {
                return "ok " + result;
            }
            if (System.nanoTime() - end > 0) {
                return "unknown task " + open;
            }
            node.store.awaitChange(500);
        }
    }

    private String dump() {
        StringBuilder text = new StringBuilder("ok applied=" + node.store.applied());
        for (String key : node.store.keys()) {
            text.append('\n').append(key).append('=').append(get(key).substring(3));
        }
        return text.append("\nend").toString();
    }
}
