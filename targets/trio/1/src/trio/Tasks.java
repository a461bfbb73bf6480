package trio;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;

/** Owns the leader's side of tasks: it places them on workers and looks after lost ones. */
final class Tasks {
    private static final Logger LOG = Logger.of(Tasks.class);
    private static final long SLOW_MS = 8_000;

    private final Leader leader;
    private final Store store;
    private final Config config;
    /** When each task was last proposed or sent, so that no tick does it again at once. */
    private final Map<String, Long> touched = new ConcurrentHashMap<>();
    private final Map<String, Long> missingSince = new ConcurrentHashMap<>();
    private final Set<String> suspending = ConcurrentHashMap.newKeySet();

    Tasks(Leader leader, Store store, Config config) {
        this.leader = leader;
        this.store = store;
        this.config = config;
    }

    /** Called after each applied entry, in the order of the log. */
    void applied(Entry entry) {
        switch (entry.op[0]) {
            case "task-add":
                place(entry.op[1]);
                break;
            case "task-assign":
                hand(entry.op[1], entry.op[2]);
                break;
            case "task-done":
                touched.remove(entry.op[1]);
                break;
            default:
                break;
        }
    }

    /** A worker has joined: it gets what is assigned to it, once more if need be. */
    void joined(String worker) {
        missingSince.remove(worker);
        for (Map.Entry<String, Store.Task> e : new TreeMap<>(store.tasks()).entrySet()) {
            Store.Task task = e.getValue();
            if (task.state.equals(Store.Task.ASSIGNED) && task.detail.equals(worker)) {
                hand(e.getKey(), worker);
            }
        }
    }

    void finished(String id, String result) {
        leader.propose("task-done " + id + " " + result);
    }

    void tick() {
        for (Map.Entry<String, Store.Task> e : new TreeMap<>(store.tasks()).entrySet()) {
            String id = e.getKey();
            Store.Task task = e.getValue();
            if (task.state.equals(Store.Task.PENDING)) {
                if (idleMs(id) > config.tickMs) {
                    place(id);
                }
            } else if (task.state.equals(Store.Task.ASSIGNED)) {
                lookAfter(id, task.detail);
            }
        }
    }

    private void lookAfter(String id, String worker) {
        if (leader.isLive(worker)) {
            missingSince.remove(worker);
            if (idleMs(id) > SLOW_MS) {
                String faster = pick(worker);
                if (faster == null) {
                    hand(id, worker);
                } else {
                    LOG.info("task " + id + " is slow on " + worker + ", it goes to " + faster);
                    touched.put(id, System.nanoTime());
                    leader.propose("task-assign " + id + " " + faster);
                }
            }
            return;
        }
        missingSince.putIfAbsent(worker, System.nanoTime());
        long missingMs = (System.nanoTime() - missingSince.get(worker)) / 1_000_000L;
        if (missingMs < config.workerGraceMs || idleMs(id) < config.workerGraceMs
                || suspending.contains(id)) {
            return;
        }
        touched.put(id, System.nanoTime());
        String other = pick(worker);
        if (other != null) {
            LOG.warn("worker " + worker + " is lost, task " + id + " goes to " + other);
            leader.propose("task-assign " + id + " " + other);
        } else {
            LOG.warn("no worker for task " + id + ", it is suspended");
            suspending.add(id);
            leader.propose("task-suspend " + id);
        }
    }

    private void place(String id) {
        String worker = pick(null);
        if (worker != null) {
            touched.put(id, System.nanoTime());
            leader.propose("task-assign " + id + " " + worker);
        }
    }

    private void hand(String id, String worker) {
        Store.Task task = store.tasks().get(id);
        if (task != null) {
            touched.put(id, System.nanoTime());
            leader.sendTo(worker, new Frame(Frame.TASK, leader.term, 0, id + " " + task.payload));
        }
    }

    /** The live worker but this one with the fewest open tasks, by name where equal; or null. */
    private String pick(String but) {
        Map<String, Integer> open = new HashMap<>();
        for (Store.Task task : store.tasks().values()) {
            if (task.state.equals(Store.Task.ASSIGNED)) {
                open.merge(task.detail, 1, Integer::sum);
            }
        }
        String best = null;
        for (String worker : config.others()) {
            if (leader.isLive(worker) && !worker.equals(but) && (best == null
                    || open.getOrDefault(worker, 0) < open.getOrDefault(best, 0))) {
                best = worker;
            }
        }
        return best;
    }

    private long idleMs(String id) {
        Long at = touched.get(id);
        return at == null ? Long.MAX_VALUE : (System.nanoTime() - at) / 1_000_000L;
    }
}
