package temblor.zookeeper;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Owns what the client knows for certain, and judges answers by it. Of the keys that only this
 * client writes: the last acknowledged state, and the writes of unknown outcome, each of which may
 * take effect at any later time, or never. Of every key: what this session has seen.
 */
final class Ledger {
    private final String client;
    private final Map<String, Own> own = new LinkedHashMap<>();
    private final Map<String, Seen> seen = new HashMap<>();
    private long lastNumber;

    Ledger(String client) {
        this.client = client;
    }

    private static final class Own {
        boolean acknowledged;
        /** Null when it was deleted, or never created. */
        String value;
        int version;
        long session;
        final List<String> maybeWritten = new ArrayList<>();
        boolean maybeDeleted;
    }

    private static final class Seen {
        long session;
        long order;
    }

    String nextValue() {
        return client + "-" + ++lastNumber;
    }

    /** From now on `key` has this value and version, none when it is null. */
    void acknowledge(String key, String value, int version, long session) {
        acknowledge(entry(key), value, version, session);
    }

    private static void acknowledge(Own entry, String value, int version, long session) {
        entry.acknowledged = true;
        entry.value = value;
        entry.version = version;
        entry.session = session;
        entry.maybeWritten.remove(value);
    }

    void maybeWritten(String key, String value) {
        List<String> values = entry(key).maybeWritten;
        if (!values.contains(value)) {
            values.add(value);
        }
    }

    void maybeDeleted(String key) {
        entry(key).maybeDeleted = true;
    }

    boolean isMaybe(String key, String value) {
        Own entry = own.get(key);
        return entry != null && entry.maybeWritten.contains(value);
    }

    /** Whether, if the key is there, it has this value. */
    boolean isOnlyMaybe(String key, String value) {
        Own entry = own.get(key);
        return entry != null && entry.value == null && entry.maybeWritten.size() == 1
                && entry.maybeWritten.contains(value);
    }

    /** Whether it is there, and nothing of unknown outcome can have taken it away. */
    boolean isThere(String key) {
        Own entry = own.get(key);
        return entry != null && entry.value != null && !entry.maybeDeleted;
    }

    /** The version it has for certain; -1, for any, when a late write may change it. */
    int certainVersion(String key) {
        return isThere(key) && own.get(key).maybeWritten.isEmpty() ? own.get(key).version : -1;
    }

    /** The keys of which a state was acknowledged. */
    List<String> acknowledgedKeys() {
        List<String> keys = new ArrayList<>();
        for (Map.Entry<String, Own> entry : own.entrySet()) {
            if (entry.getValue().acknowledged) {
                keys.add(entry.getKey());
            }
        }
        return keys;
    }

    /**
     * Null when nothing is wrong with having read this. A plain read must be as new as what its own
     * session has seen and done; a `synced` one as anything that was acknowledged.
     */
    String judge(String key, String value, int version, long order, long session, boolean synced) {
        String backwards = judgeOrder(key, order, session);
        if (backwards != null) {
            return backwards;
        }
        Own entry = own.get(key);
        if (entry == null) {
            return null;
        }
        boolean newest = synced || entry.session == session;
        return value == null ? judgeNone(entry, newest)
                : judgeValue(entry, value, version, newest, session);
    }

    private String judgeOrder(String key, long order, long session) {
        if (order == 0) {
            return null;
        }
        Seen last = seen.get(key);
        if (last == null) {
            last = new Seen();
            seen.put(key, last);
        }
        if (last.session == session && order < last.order) {
            return "changed at zxid " + Long.toHexString(order) + ", but the session has seen "
                    + Long.toHexString(last.order);
        }
        last.session = session;
        last.order = order;
        return null;
    }

    private static String judgeNone(Own entry, boolean newest) {
        return entry.value == null || entry.maybeDeleted || !newest ? null
                : "no node, after acknowledged " + state(entry);
    }

    private String judgeValue(Own entry, String value, int version, boolean newest, long session) {
        if (value.equals(entry.value) && version == entry.version) {
            return null;
        }
        boolean later = entry.value == null || version > entry.version || entry.maybeDeleted;
        if (entry.maybeWritten.contains(value) && later) {
            acknowledge(entry, value, version, session);
            return null;
        }
        boolean mine = value.startsWith(client + "-") && Values.number(value) <= lastNumber;
        if (mine && !newest) {
            return null;
        }
        return (mine ? "" : "a value that nobody wrote: ") + "read " + value + " version "
                + version + ", after acknowledged " + state(entry);
    }

    private static String state(Own entry) {
        if (!entry.acknowledged) {
            return "nothing";
        }
        return entry.value == null ? "deletion" : entry.value + " version " + entry.version;
    }

    private Own entry(String key) {
        Own entry = own.get(key);
        if (entry == null) {
            entry = new Own();
            own.put(key, entry);
        }
        return entry;
    }
}
