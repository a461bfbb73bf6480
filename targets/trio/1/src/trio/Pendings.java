package trio;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;

/** Owns the requests that entered at this node and wait for their outcome. */
final class Pendings {
    static final class Pending {
        final String client;
        final long id;
        final String op;
        private String result;
        private volatile boolean submitted;

        Pending(String client, long id, String op) {
            this.client = client;
            this.id = id;
            this.op = op;
        }

        String text() {
            return client + " " + id + " " + op;
        }

        void markSubmitted() {
            submitted = true;
        }

        synchronized void complete(String outcome) {
            if (result == null) {
                result = outcome;
                notifyAll();
            }
        }

        /** The outcome; after the timeout "unknown", or "fail" when it never left this node. */
        synchronized String await(long timeoutMs) {
            long end = System.nanoTime() + timeoutMs * 1_000_000L;
            while (result == null) {
                long left = (end - System.nanoTime()) / 1_000_000L;
                if (left <= 0) {
                    return submitted ? "unknown no outcome in " + timeoutMs + " ms"
                            : "fail not serving";
                }
                try {
                    wait(left);
                } catch (InterruptedException e) {
                    continue;
                }
            }
            return result;
        }
    }

    private final ConcurrentHashMap<String, Pending> open = new ConcurrentHashMap<>();

    Pending add(String client, long id, String op) {
        Pending pending = new Pending(client, id, op);
        open.put(client + "/" + id, pending);
        return pending;
    }

    void remove(Pending pending) {
        open.remove(pending.client + "/" + pending.id, pending);
    }

    void complete(String client, long id, String result) {
        Pending pending = open.remove(client + "/" + id);
        if (pending != null) {
            pending.complete(result);
        }
    }

    List<Pending> all() {
        return new ArrayList<>(open.values());
    }
}
