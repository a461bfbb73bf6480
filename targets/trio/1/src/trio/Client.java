package trio;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Owns a client's connection to its node, and the report of each operation as two JSON lines. */
final class Client {
    private static final int OP_TIMEOUT_MS = 24_000;
    private static final int CONNECT_MS = 4_000;
    /** How long an operation tries to reach its node at all. */
    private static final long REACH_MS = 10_000;
    private static final long RETRY_MS = 250;
    private static final long POLL_MS = 20;
    /** What was asked for in vain is seen by then. */
    private static final long SEEN_MS = 45_000;
    /** A change of unknown outcome is made by then, or never. */
    private static final long CHANGED_MS = 75_000;

    private final String name;
    private final int home;
    private final List<String> nodes;
    private final Map<String, Integer> totals = new TreeMap<>();
    private final Socket[] sockets;
    private final BufferedReader[] readers;
    private String phase = "-";
    private long id;
    private int misses;
    private long settledAt;

    Client(String name, int home, List<String> nodes) {
        this.name = name;
        this.home = home;
        this.nodes = nodes;
        sockets = new Socket[nodes.size()];
        readers = new BufferedReader[nodes.size()];
        for (String outcome : Arrays.asList("ok", "fail", "timeout", "wrong")) {
            totals.put(outcome, 0);
        }
    }

    /** What came back for one operation. The caller of a read settles it: ok or wrong. */
    final class Reply {
        final String outcome;
        final String text;
        private final String head;

        private Reply(String outcome, String text, String head) {
            this.outcome = outcome;
            this.text = text;
            this.head = head;
        }

        boolean isOk() {
            return outcome.equals("ok");
        }

        void ok() {
            complete(head, "ok", text, null);
        }

        void wrong(String why) {
            complete(head, "wrong", text, why);
        }
    }

    /** Connects to its node, if that can be reached; else the first operation tries again. */
    void reach() {
        try {
            connect(home);
        } catch (IOException e) {
            System.err.println("not connected yet: " + e);
        }
    }

    void phase(String next) {
        phase = next;
        misses = 0;
    }

    int missesInPhase() {
        return misses;
    }

    /** When late effects of what timed out are over. */
    long settledAt() {
        return settledAt;
    }

    long nextId() {
        return id + 1;
    }

    boolean isFirst() {
        return home == 0;
    }

    boolean isLast() {
        return home == nodes.size() - 1;
    }

    /** An update, sent again under its id while the connection breaks: done at most once. */
    Reply update(String op, String key, String value, String request) {
        String head = invoke(home, op, key, value);
        Reply reply = call(home, "op " + name + " " + id + " " + request, head);
        completeChange(reply);
        return reply;
    }

    /** A read: the caller judges the answer and completes the reply. */
    Reply read(String op, String key, String request) {
        String head = invoke(home, op, key, null);
        Reply reply = call(home, request, head);
        if (!reply.isOk()) {
            completeUnlessRead(reply);
        }
        return reply;
    }

    /** A request to the node itself, safe to repeat. */
    Reply ask(String op, String key, String request) {
        String head = invoke(home, op, key, null);
        Reply reply = call(home, request, head);
        completeChange(reply);
        return reply;
    }

    void awaitMember(int node, String member, boolean present) {
        String head = invoke(node, present ? "await-member" : "await-gone", member, null);
        long end = System.nanoTime() + OP_TIMEOUT_MS * 1_000_000L;
        while (true) {
            Reply reply = call(node, "members", head);
            if (reply.isOk() && has(reply.text, member) == present) {
                reply.ok();
                return;
            }
            if (System.nanoTime() - end > 0) {
                complete(head, "timeout", reply.text, "members are " + reply.text);
                return;
            }
            Node.pause(POLL_MS);
        }
    }

    void checkGone(int node, String member) {
        String head = invoke(node, "members", member, null);
        Reply reply = call(node, "members", head);
        if (!reply.isOk()) {
            completeUnlessRead(reply);
        } else if (has(reply.text, member)) {
            reply.wrong("decommissioned member " + member + " is back");
        } else {
            reply.ok();
        }
    }

    private static boolean has(String members, String member) {
        return Arrays.asList(members.split(",")).contains(member);
    }

    /** Something that the client noticed outside of one answer. */
    void note(String outcome, String key, String why) {
        complete(invoke(home, "check", key, null), outcome, null, why);
    }

    private void completeUnlessRead(Reply reply) {
        complete(reply.head, reply.outcome, reply.isOk() ? null : "", reply.isOk() ? null
                : reply.text);
    }

    private void completeChange(Reply reply) {
        completeUnlessRead(reply);
        settle(reply.head, reply.outcome, CHANGED_MS);
    }

    private Reply call(int node, String request, String head) {
        long end = System.nanoTime() + OP_TIMEOUT_MS * 1_000_000L;
        long reachBy = System.nanoTime() + REACH_MS * 1_000_000L;
        boolean sent = false;
        String trouble = "";
        while (System.nanoTime() - (sent ? end : reachBy) < 0) {
            try {
                connect(node);
                int leftMs = (int) Math.max(1, (end - System.nanoTime()) / 1_000_000L);
                sockets[node].setSoTimeout(leftMs);
                sent = true;
                byte[] line = (request + "\n").getBytes(StandardCharsets.UTF_8);
                sockets[node].getOutputStream().write(line);
                String answer = readers[node].readLine();
                if (answer == null) {
                    throw new IOException("connection closed");
                }
                return reply(answer, head);
            } catch (IOException e) {
                trouble = e.toString();
                disconnect(node);
                Node.pause(RETRY_MS);
            }
        }
        return new Reply(sent ? "timeout" : "fail", trouble, head);
    }

    private Reply reply(String answer, String head) {
        int space = answer.indexOf(' ');
        String kind = space < 0 ? answer : answer.substring(0, space);
        String rest = space < 0 ? "" : answer.substring(space + 1);
        if (kind.equals("ok") || kind.equals("fail")) {
            return new Reply(kind, rest, head);
        }
        return new Reply("timeout", answer, head);
    }

    private void connect(int node) throws IOException {
        if (sockets[node] != null) {
            return;
        }
        Socket socket = new Socket();
        try {
            socket.bind(new InetSocketAddress(host(home), 0));
            socket.connect(new InetSocketAddress(host(node), port(node)), CONNECT_MS);
            socket.setTcpNoDelay(true);
            readers[node] = new BufferedReader(new InputStreamReader(socket.getInputStream(),
                    StandardCharsets.UTF_8));
            sockets[node] = socket;
        } finally {
            if (sockets[node] == null) {
                Link.closeQuietly(socket);
            }
        }
    }

    private void disconnect(int node) {
        Link.closeQuietly(sockets[node]);
        sockets[node] = null;
    }

    private String host(int node) {
        return nodes.get(node).split(":")[0];
    }

    private int port(int node) {
        return Integer.parseInt(nodes.get(node).split(":")[1]);
    }

    private String invoke(int node, String op, String key, String value) {
        id++;
        String head = ",\"client\":\"" + name + "\",\"node\":\"n" + (node + 1) + "\",\"phase\":\""
                + phase + "\",\"op\":\"" + op + "\",\"id\":" + id + ",\"key\":" + quote(key);
        print(head, value, "invoke", null);
        return head + "\u0000" + System.currentTimeMillis();
    }

    private void complete(String headAndTime, String outcome, String value, String error) {
        String[] parts = headAndTime.split("\u0000");
        totals.merge(outcome, 1, Integer::sum);
        misses += outcome.equals("ok") ? 0 : 1;
        settle(headAndTime, outcome, SEEN_MS);
        print(parts[0], value, outcome, error);
    }

    /** What timed out may still take effect for that long. */
    private void settle(String headAndTime, String outcome, long ms) {
        if (outcome.equals("timeout")) {
            long begun = Long.parseLong(headAndTime.split("\u0000")[1]);
            settledAt = Math.max(settledAt, begun + ms);
        }
    }

    private static void print(String head, String value, String event, String error) {
        StringBuilder line = new StringBuilder("{\"t\":").append(System.currentTimeMillis());
        line.append(head);
        if (value != null && !value.isEmpty()) {
            line.append(",\"value\":").append(quote(value));
        }
        line.append(",\"ev\":\"").append(event).append('"');
        if (error != null) {
            line.append(",\"error\":").append(quote(error));
        }
        System.out.println(line.append('}'));
        System.out.flush();
    }

    void finish() {
        StringBuilder line = new StringBuilder("{\"ev\":\"done\",\"client\":\"").append(name);
        line.append('"');
        for (Map.Entry<String, Integer> e : totals.entrySet()) {
            line.append(",\"").append(e.getKey()).append("\":").append(e.getValue());
        }
        System.out.println(line.append('}'));
        System.out.flush();
        for (int i = 0; i < sockets.length; i++) {
            disconnect(i);
        }
    }

    private static String quote(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ' || c > '~') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }
}
