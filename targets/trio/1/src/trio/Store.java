package trio;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * Owns the replicated state: values, sessions, leases, tasks and the last outcome per client.
 * Its monitor orders updates. Reads go to concurrent maps and never wait for an update.
 */
final class Store {
    private static final Logger LOG = Logger.of(Store.class);
    private static final int MAX_KEYS = 100_000;

    /** A value: in memory, or spilled to disk when it is large. */
    static final class Value {
        final String text;
        final Spill.Ref ref;

        Value(String text, Spill.Ref ref) {
            this.text = text;
            this.ref = ref;
        }
    }

    static final class Lease {
        final String owner;
        final long generation;
        final long renewals;

        Lease(String owner, long generation, long renewals) {
            this.owner = owner;
            this.generation = generation;
            this.renewals = renewals;
        }
    }

    static final class Task {
        static final String PENDING = "pending";
        static final String ASSIGNED = "assigned";
        static final String SUSPENDED = "suspended";
        static final String DONE = "done";

        final String payload;
        final String state;
        final String detail;

        Task(String payload, String state, String detail) {
            this.payload = payload;
            this.state = state;
            this.detail = detail;
        }
    }

    private static final class Outcome {
        final long id;
        final String result;

        Outcome(long id, String result) {
            this.id = id;
            this.result = result;
        }
    }

    /** The state at one index. Large values are still references. */
    static final class Image {
        final long index;
        final long term;
        private final List<String> lines = new ArrayList<>();
        private final Map<String, Value> values = new TreeMap<>();

        Image(long index, long term) {
            this.index = index;
            this.term = term;
        }

        List<String> lines() throws IOException {
            List<String> all = new ArrayList<>(lines);
            for (Map.Entry<String, Value> e : values.entrySet()) {
                all.add("kv " + e.getKey() + " " + verified(e.getValue()));
            }
            return all;
        }
    }

    private final int spillOver;
    private final Spill spill;
    private final LinkedBlockingQueue<String> toSpill = new LinkedBlockingQueue<>();
    private final ConcurrentHashMap<String, Value> values = new ConcurrentHashMap<>();
    private final ConcurrentHashMap<String, String> sessions = new ConcurrentHashMap<>();
    private final ConcurrentHashMap<String, Lease> leases = new ConcurrentHashMap<>();
    private final ConcurrentHashMap<String, Task> tasks = new ConcurrentHashMap<>();
    private final ConcurrentHashMap<String, Outcome> outcomes = new ConcurrentHashMap<>();
    private volatile long applied;
    private volatile long appliedTerm;
    private final Object change = new Object();

    Store(Spill spill, int spillOver) {
        this.spill = spill;
        this.spillOver = spillOver;
    }

    long applied() {
        return applied;
    }

    /** Applies the next entry and returns its outcome; entries out of order are left alone. */
    synchronized String apply(Entry entry) {
        if (entry.index != applied + 1) {
            return null;
        }
        String result;
        boolean internal = entry.client.startsWith("-");
        Outcome before = internal ? null : outcomes.get(entry.client);
        if (before != null && before.id >= entry.id) {
            result = before.id == entry.id ? before.result : "fail superseded";
        } else {
            result = execute(entry.client, entry.op);
            if (!internal) {
                outcomes.put(entry.client, new Outcome(entry.id, result));
            }
        }
        appliedTerm = entry.term;
        applied = entry.index;
        synchronized (change) {
            change.notifyAll();
        }
        return result;
    }

    private String execute(String client, String[] op) {
        switch (op[0]) {
            case "noop":
                return "ok";
            case "put":
                put(op[1], op[2]);
                return "ok";
            case "session-open":
                sessions.put(op[1], client);
                return "ok " + op[1];
            case "session-close":
                return closeSession(op[1]);
            case "lease-take":
                return takeLease(op[1], op[2]);
            case "lease-set":
                leases.put(op[1], new Lease(op[2], Long.parseLong(op[3]), Long.parseLong(op[4])));
                return "ok";
            case "lease-put":
                return putUnderLease(op);
            case "task-add":
                tasks.putIfAbsent(op[1], new Task(op[2], Task.PENDING, "-"));
                return "ok";
            case "task-assign":
                return moveTask(op[1], Task.ASSIGNED, op[2]);
            case "task-suspend":
                return moveTask(op[1], Task.SUSPENDED, "-");
            case "task-done":
                return moveTask(op[1], Task.DONE, op[2]);
            default:
                return "fail unknown operation " + op[0];
        }
    }

    private void put(String key, String text) {
        values.put(key, new Value(text, null));
        if (text.length() > spillOver) {
            toSpill.add(key);
        }
    }

    private String closeSession(String sid) {
        if (sessions.remove(sid) == null) {
            return "fail no session " + sid;
        }
        for (Map.Entry<String, Lease> e : leases.entrySet()) {
            if (e.getValue().owner.equals(sid)) {
                leases.put(e.getKey(), new Lease("-", e.getValue().generation + 1, 0));
            }
        }
        return "ok";
    }

    private String takeLease(String name, String sid) {
        if (!sessions.containsKey(sid)) {
            return "fail no session " + sid;
        }
        Lease lease = leases.get(name);
        if (lease != null && !lease.owner.equals("-") && sessions.containsKey(lease.owner)) {
            return "fail held by " + lease.owner;
        }
        long generation = lease == null ? 1 : lease.generation + 1;
        leases.put(name, new Lease(sid, generation, 0));
        return "ok " + generation;
    }

    private String putUnderLease(String[] op) {
        Lease lease = leases.get(op[1]);
        if (lease == null || !lease.owner.equals(op[2])
                || lease.generation != Long.parseLong(op[3])) {
            return "fail lease lost";
        }
        put(op[4], op[5]);
        return "ok";
    }

    private String moveTask(String id, String state, String detail) {
        Task task = tasks.get(id);
        if (task == null || task.state.equals(Task.DONE)) {
            return "fail no open task " + id;
        }
        tasks.put(id, new Task(task.payload, state, detail));
        return "ok";
    }

    /** Why the leader must not propose this operation, or null. */
    synchronized String refusal(String[] op) {
        if (op[0].equals("put") && values.size() >= MAX_KEYS && !values.containsKey(op[1])) {
            return "fail too many keys";
        }
        if (op[0].equals("lease-take") && !sessions.containsKey(op[2])) {
            return "fail no session " + op[2];
        }
        return null;
    }

    /** The state as it is now. */
    synchronized Image image() {
        Image image = new Image(applied, appliedTerm);
        for (Map.Entry<String, String> e : new TreeMap<>(sessions).entrySet()) {
            image.lines.add("session " + e.getKey() + " " + e.getValue());
        }
        for (Map.Entry<String, Lease> e : new TreeMap<>(leases).entrySet()) {
            Lease lease = e.getValue();
            image.lines.add("lease " + e.getKey() + " " + lease.owner + " " + lease.generation
                    + " " + lease.renewals);
        }
        for (Map.Entry<String, Task> e : new TreeMap<>(tasks).entrySet()) {
            Task task = e.getValue();
            image.lines.add("task " + e.getKey() + " " + task.payload + " " + task.state + " "
                    + task.detail);
        }
        for (Map.Entry<String, Outcome> e : new TreeMap<>(outcomes).entrySet()) {
            image.lines.add("outcome " + e.getKey() + " " + e.getValue().id + " "
                    + e.getValue().result);
        }
        image.values.putAll(values);
        return image;
    }

    /** Replaces everything by the state of a snapshot. */
    synchronized void restore(long index, long term, List<String> lines) {
        try {
            spill.begin();
        } catch (IOException e) {
            LOG.warn("no new spill file, the old one goes on", e);
        }
        toSpill.clear();
        values.clear();
        sessions.clear();
        leases.clear();
        tasks.clear();
        outcomes.clear();
        for (String line : lines) {
            String[] w = line.split(" ");
            switch (w[0]) {
                case "kv":
                    put(w[1], w[2]);
                    break;
                case "session":
                    sessions.put(w[1], w[2]);
                    break;
                case "lease":
                    leases.put(w[1], new Lease(w[2], Long.parseLong(w[3]), Long.parseLong(w[4])));
                    break;
                case "task":
                    tasks.put(w[1], new Task(w[2], w[3], w[4]));
                    break;
                default:
                    outcomes.put(w[1], new Outcome(Long.parseLong(w[2]),
                            line.split(" ", 4)[3]));
            }
        }
        appliedTerm = term;
        applied = index;
        synchronized (change) {
            change.notifyAll();
        }
    }

    /** Moves large values to disk, in a thread of its own: no update waits for it. */
    void spillLoop() {
        while (true) {
            String key = null;
            try {
                key = toSpill.take();
                Value value = values.get(key);
                if (value != null && value.text != null) {
                    values.replace(key, value, new Value(null, spill.write(value.text)));
                }
            } catch (InterruptedException e) {
                continue;
            } catch (IOException e) {
                LOG.warn("cannot spill " + key + ", it stays in memory: " + e);
            }
        }
    }

    String get(String key) throws IOException {
        Value value = values.get(key);
        if (value == null) {
            return null;
        }
        return value.text != null ? value.text : Spill.read(value.ref);
    }

    static String verified(Value value) throws IOException {
        return value.text != null ? value.text : Spill.readVerified(value.ref);
    }

    List<String> keys() {
        return new ArrayList<>(new TreeMap<>(values).keySet());
    }

    Map<String, String> sessions() {
        return sessions;
    }

    Lease lease(String name) {
        return leases.get(name);
    }

    Map<String, Task> tasks() {
        return tasks;
    }

    /** The outcome of a client's operation if it was the last one applied, else null. */
    String outcome(String client, long id) {
        Outcome outcome = outcomes.get(client);
        return outcome != null && outcome.id == id ? outcome.result : null;
    }

    /** Waits until something may have changed. */
    void awaitChange(long timeoutMs) {
        synchronized (change) {
            try {
                change.wait(timeoutMs);
            } catch (InterruptedException e) {
                LOG.info("a wait was interrupted");
            }
        }
    }
}
