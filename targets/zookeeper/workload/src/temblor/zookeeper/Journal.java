package temblor.zookeeper;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/** Owns the report on standard output: whole JSON lines, in order, and the totals of them. */
final class Journal {
    private static final int GIVE_UP_AFTER = 4;

    private final String client;
    private final String node;
    /** Null when nobody is to hear of anything. */
    private final FileOutputStream out;
    private String phase = "-";
    private long lastId;
    private int missesInRow;
    private long ok;
    private long fail;
    private long timeout;
    private long wrong;

    Journal(String client, String node) {
        this(client, node, new FileOutputStream(FileDescriptor.out));
    }

    private Journal(String client, String node, FileOutputStream out) {
        this.client = client;
        this.node = node;
        this.out = out;
    }

    static Journal silent(Settings settings) {
        return new Journal(settings.client, settings.node, null);
    }

    synchronized void phase(String next) {
        phase = next;
        missesInRow = 0;
    }

    /** Whether this phase has failed so often in a row that the next one should begin. */
    synchronized boolean givenUp() {
        return missesInRow >= GIVE_UP_AFTER;
    }

    /** An operation of the client's own thread, about to begin. */
    Operation invoke(Session session, String op, String reg, String key, String value) {
        Operation operation = operation(session, op, reg, key, true);
        operation.invoke(value, 0);
        return operation;
    }

    /** A watch that the node has taken; its end comes whenever it likes and is no one's failure. */
    Operation watch(Session session, String key, long order) {
        Operation operation = operation(session, "watch", Reg.WATCH, key, false);
        operation.invoke(null, order);
        return operation;
    }

    private synchronized Operation operation(Session session, String op, String reg, String key,
            boolean counts) {
        lastId++;
        return new Operation(this, head(op, key), tail(reg, session.id()), lastId, counts);
    }

    private String head(String op, String key) {
        StringBuilder head = new StringBuilder(160);
        head.append(",\"client\":");
        quote(head, client);
        head.append(",\"node\":");
        quote(head, node);
        head.append(",\"phase\":");
        quote(head, phase);
        head.append(",\"op\":");
        quote(head, op);
        head.append(",\"id\":").append(lastId);
        if (key != null) {
            head.append(",\"key\":");
            quote(head, key);
        }
        return head.toString();
    }

    private static String tail(String reg, long session) {
        StringBuilder tail = new StringBuilder(60);
        if (reg != null) {
            tail.append(",\"reg\":\"").append(reg).append('"');
        }
        if (session != 0) {
            tail.append(",\"session\":\"").append(Long.toHexString(session)).append('"');
        }
        return tail.toString();
    }

    synchronized void invoked(String line) {
        write(line);
    }

    synchronized void ended(String line, String event, boolean counts) {
        write(line);
        if (event.equals("ok")) {
            ok++;
        } else if (event.equals("fail")) {
            fail++;
        } else if (event.equals("timeout")) {
            timeout++;
        } else {
            wrong++;
        }
        if (counts) {
            missesInRow = event.equals("ok") ? 0 : missesInRow + 1;
        }
    }

    synchronized void done() {
        StringBuilder line = new StringBuilder("{\"client\":");
        quote(line, client);
        line.append(",\"ok\":").append(ok).append(",\"fail\":").append(fail);
        line.append(",\"timeout\":").append(timeout).append(",\"wrong\":").append(wrong);
        write(line.append('}').toString());
    }

    /** One write for the line: the reader never meets half of one between two writers. */
    private void write(String line) {
        if (out == null) {
            return;
        }
        try {
            out.write((line + "\n").getBytes(StandardCharsets.US_ASCII));
        } catch (IOException e) {
            // Nobody reads any more; going on would test for no one.
            Runtime.getRuntime().halt(3);
        }
    }

    static void quote(StringBuilder out, String text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ' || c > '~') {
                String hex = Integer.toHexString(c);
                out.append("\\u").append("0000", 0, 4 - hex.length()).append(hex);
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
