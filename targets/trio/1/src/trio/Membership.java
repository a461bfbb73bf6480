package trio;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Owns what this node knows of the members: voters, and observers that join and leave. Records
 * carry a version and spread by gossip; a member that left is forgotten after a while.
 */
final class Membership {
    private static final Logger LOG = Logger.of(Membership.class);
    private static final String NORMAL = "normal";
    private static final String LEFT = "left";

    private static final class Record {
        final long version;
        final String status;
        final long since;

        Record(long version, String status) {
            this.version = version;
            this.status = status;
            since = System.nanoTime();
        }
    }

    private final Config config;
    private final File file;
    private final File audit;
    private final Map<String, Record> members = new TreeMap<>();

    Membership(Config config) throws IOException {
        this.config = config;
        file = new File(config.dataDir, "members");
        audit = new File(config.dataDir, "decommissioned");
        for (String voter : config.peers.keySet()) {
            members.put(voter, new Record(1, NORMAL));
        }
        if (file.exists()) {
            load();
        }
    }

    private void load() {
        try {
            String text = new String(AtomicFile.read(file), StandardCharsets.UTF_8);
            merge(text);
        } catch (IOException e) {
            LOG.warn("cannot use the saved members, gossip will bring them: " + e);
        }
    }

    synchronized List<String> normal() {
        List<String> names = new ArrayList<>();
        for (Map.Entry<String, Record> e : members.entrySet()) {
            if (e.getValue().status.equals(NORMAL)) {
                names.add(e.getKey());
            }
        }
        return names;
    }

    String join(String name) {
        synchronized (this) {
            Record known = members.get(name);
            if (known != null && known.status.equals(NORMAL)) {
                return "ok already a member";
            }
            members.put(name, new Record(known == null ? 1 : known.version + 1, NORMAL));
        }
        LOG.info(name + " joins");
        save();
        return "ok";
    }

    String decommission(String name) {
        long version;
        synchronized (this) {
            Record known = members.get(name);
            if (known == null || known.status.equals(LEFT)) {
                return "ok no such member";
            }
            version = known.version + 1;
        }
        if (config.peers.containsKey(name)) {
            return "fail " + name + " is a voter";
        }
        try (FileOutputStream out = new FileOutputStream(audit, true)) {
            out.write((name + " " + version + "\n").getBytes(StandardCharsets.UTF_8));
        } catch (IOException e) {
            LOG.warn("no audit line for " + name + ": " + e);
        }
        synchronized (this) {
            members.put(name, new Record(version, LEFT));
        }
        LOG.info(name + " is decommissioned");
        save();
        return "ok";
    }

    /** Takes over what a peer knows better; true when something changed here. */
    synchronized boolean merge(String digest) {
        boolean changed = false;
        for (String item : digest.split(",")) {
            String[] w = item.split(":");
            if (w.length != 3) {
                continue;
            }
            long version = Long.parseLong(w[1]);
            Record known = members.get(w[0]);
            boolean news = known == null ? w[2].equals(NORMAL) : version > known.version;
            if (news) {
                members.put(w[0], new Record(version, w[2]));
                changed = true;
            }
        }
        return changed;
    }

    /** Forgets members that left long enough ago for every peer to know. */
    synchronized void forget() {
        long before = System.nanoTime() - config.forgetMs * 1_000_000L;
        members.values().removeIf(r -> r.status.equals(LEFT) && r.since - before < 0);
    }

    synchronized String digest() {
        StringBuilder text = new StringBuilder();
        for (Map.Entry<String, Record> e : members.entrySet()) {
            text.append(text.length() == 0 ? "" : ",").append(e.getKey()).append(':');
            text.append(e.getValue().version).append(':').append(e.getValue().status);
        }
        return text.toString();
    }

    void save() {
        try {
            AtomicFile.write(file, digest().getBytes(StandardCharsets.UTF_8));
        } catch (IOException e) {
            LOG.warn("cannot save the members: " + e);
        }
    }
}
