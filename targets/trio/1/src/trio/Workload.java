package trio;

import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Owns the workload of one client, which talks to one node only: create, write and read, session,
 * tasks, membership, and a final check of everything it knows.
 */
public final class Workload {
    private static final int COUNTERS = 8;
    private static final int DOCUMENTS = 2;
    private static final int MIX = 30;
    private static final int RENEWALS = 3;
    private static final int TASKS = 5;
    private static final int GIVE_UP_AFTER = 4;
    private static final long RENEWAL_PAUSE_MS = 50;
    private static final long GO_POLL_MS = 20;
    /** The lease of a lost session is held until the session expires. */
    private static final long HELD_PAUSE_MS = 5_000;
    private static final String OBSERVER = "observer1";

    private final Client client;
    private final String name;
    private final List<String> nodes;
    private final Map<String, Long> acknowledged = new LinkedHashMap<>();
    private final Map<String, Long> attempted = new LinkedHashMap<>();
    private final List<String> submitted = new ArrayList<>();
    private long generation;
    private boolean decommissioned;
    private boolean impatient;
    private long counter;

    private Workload(String name, String address, List<String> nodes) {
        this.name = name;
        this.nodes = nodes;
        client = new Client(name, nodes.indexOf(address), nodes);
    }

    public static void main(String[] args) {
        if (args.length < 3 || !Arrays.asList(args[2].split(",")).contains(args[1])) {
            System.err.println("usage: trio.Workload CLIENT HOST:PORT HOST:PORT,HOST:PORT,...");
            System.exit(2);
        }
        new Workload(args[0], args[1], Arrays.asList(args[2].split(","))).run();
    }

    private void run() {
        client.reach();
        awaitGo();
        create();
        mix();
        session();
        tasks();
        membership();
        settle();
        check();
        client.finish();
    }

    /** Says that it is there, and waits until all are. */
    private static void awaitGo() {
        try {
            new File("here").createNewFile();
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
        while (!new File("go").exists()) {
            Node.pause(GO_POLL_MS);
        }
    }

    /** A client that has left one phase is less patient in the next ones. */
    private boolean givenUp() {
        boolean enough = client.missesInPhase() >= (impatient ? GIVE_UP_AFTER / 2 : GIVE_UP_AFTER);
        impatient |= enough;
        return enough;
    }

    private void create() {
        client.phase("create");
        for (int i = 0; i < COUNTERS && !givenUp(); i++) {
            put(name + "/k" + i);
        }
        for (int i = 0; i < DOCUMENTS && !givenUp(); i++) {
            String key = document(name, i);
            attempted.put(key, 1L);
            if (client.update("create", key, text(key), "put " + key + " " + text(key)).isOk()) {
                acknowledged.put(key, 1L);
            }
        }
    }

    private void mix() {
        client.phase("write");
        for (int i = 0; i < MIX && !givenUp(); i++) {
            put(name + "/k" + i % COUNTERS);
            get(name + "/k" + (i * 5 + 3) % COUNTERS);
            if (i % 10 == 9) {
                getDocument(document(name, i / 10 % DOCUMENTS));
            }
            if (i == MIX / 2 && client.isLast()) {
                client.ask("resync", "-", "resync");
            }
        }
    }

    private void put(String key) {
        long value = ++counter;
        attempted.put(key, value);
        if (client.update("put", key, "" + value, "put " + key + " " + value).isOk()) {
            acknowledged.put(key, value);
        }
    }

    private void get(String key) {
        Client.Reply reply = client.read("get", key, "get " + key);
        if (!reply.isOk()) {
            return;
        }
        long least = acknowledged.getOrDefault(key, 0L);
        long most = attempted.getOrDefault(key, 0L);
        long seen = -1;
        if (reply.text.equals("-")) {
            seen = 0;
        } else if (reply.text.matches("\\d{1,9}")) {
            seen = Long.parseLong(reply.text);
        }
        if (seen < least || seen > most) {
            reply.wrong("read " + reply.text + " after acknowledged " + least);
        } else {
            reply.ok();
        }
    }

    private void getDocument(String key) {
        Client.Reply reply = client.read("get", key, "get " + key);
        if (!reply.isOk()) {
            return;
        }
        boolean absent = reply.text.equals("-") && !acknowledged.containsKey(key);
        if (absent || reply.text.equals(text(key))) {
            reply.ok();
        } else {
            reply.wrong(reply.text.equals("-") ? "an acknowledged document is gone"
                    : "read a damaged document");
        }
    }

    private static String document(String owner, int i) {
        return owner + "/k" + (COUNTERS + i);
    }

    /** The content of a document follows from its key, so that every client can check it. */
    private static String text(String key) {
        StringBuilder text = new StringBuilder();
        while (text.length() < 300) {
            text.append(key).append('.').append(text.length()).append(';');
        }
        return text.toString();
    }

    private void session() {
        client.phase("session");
        String lease = "lease-" + name;
        for (int round = 0; round < 4 && !givenUp(); round++) {
            String sid = name + "-" + client.nextId();
            if (!client.update("open", sid, "", "session-open " + sid).isOk()) {
                continue;
            }
            Client.Reply taken = client.update("take", lease, "",
                    "lease-take " + lease + " " + sid);
            if (!taken.isOk()) {
                Node.pause(HELD_PAUSE_MS);
                continue;
            }
            long mine = Long.parseLong(taken.text);
            if (mine <= generation) {
                client.note("wrong", lease, "generation " + mine + " after " + generation);
            }
            generation = Math.max(generation, mine);
            if (holdLease(lease, sid)) {
                client.update("close", sid, "", "session-close " + sid);
                return;
            }
        }
    }

    /** Renews and uses the lease; false when a renewal did not come through. */
    private boolean holdLease(String lease, String sid) {
        for (int i = 0; i < RENEWALS; i++) {
            if (!client.update("renew", lease, "", "renew " + sid + " " + lease).isOk()) {
                return false;
            }
            String key = name + "/leased";
            long value = ++counter;
            attempted.put(key, value);
            if (client.update("leased-put", key, "" + value, "lease-put " + lease + " " + sid + " "
                    + generation + " " + key + " " + value).isOk()) {
                acknowledged.put(key, value);
            }
            checkLease(lease);
            Node.pause(RENEWAL_PAUSE_MS);
        }
        return true;
    }

    private void checkLease(String lease) {
        Client.Reply reply = client.read("lease", lease, "lease " + lease);
        if (!reply.isOk()) {
            return;
        }
        long seen = Long.parseLong(reply.text.split(" ")[1]);
        if (seen < generation) {
            reply.wrong("generation " + seen + " after " + generation);
        } else {
            generation = seen;
            reply.ok();
        }
    }

    private void tasks() {
        client.phase("tasks");
        for (int i = 0; i < TASKS && !givenUp(); i++) {
            String id = "task-" + name + "-" + i;
            String payload = "work-" + name + "-" + i;
            if (client.update("submit", id, payload, "task-add " + id + " " + payload).isOk()) {
                submitted.add(id);
            }
        }
        for (String id : submitted) {
            if (!givenUp()) {
                awaitTask(id);
            }
        }
    }

    private void awaitTask(String id) {
        Client.Reply reply = client.read("await", id, "await " + id);
        if (!reply.isOk()) {
            return;
        }
        byte[] payload = id.replace("task-", "work-").getBytes();
        String expected = Integer.toHexString(Entry.checksum(payload, 0, payload.length));
        if (reply.text.equals(expected)) {
            reply.ok();
        } else {
            reply.wrong("task result " + reply.text + ", not " + expected);
        }
    }

    /** The first client lets an observer join and leave, and sees to it that every node knows. */
    private void membership() {
        if (!client.isFirst()) {
            return;
        }
        client.phase("membership");
        boolean joined = client.ask("join", OBSERVER, "join " + OBSERVER).isOk();
        for (int i = 0; i < nodes.size() && joined; i++) {
            client.awaitMember(i, OBSERVER, true);
        }
        decommissioned = client.ask("decommission", OBSERVER, "decommission " + OBSERVER).isOk();
        for (int i = 0; i < nodes.size() && decommissioned; i++) {
            client.awaitMember(i, OBSERVER, false);
        }
    }

    /** Gives operations of unknown outcome the time to take effect, if there were any. */
    private void settle() {
        long left = client.settledAt() - System.currentTimeMillis();
        if (left > 0) {
            Node.pause(left);
        }
    }

    private void check() {
        client.phase("final");
        for (int i = 0; i < COUNTERS && !givenUp(); i++) {
            get(name + "/k" + i);
        }
        for (int c = 1; c <= nodes.size(); c++) {
            for (int i = 0; i < DOCUMENTS && !givenUp(); i++) {
                getDocument(document("c" + c, i));
            }
        }
        if (!givenUp()) {
            get(name + "/leased");
            checkLease("lease-" + name);
        }
        for (String id : submitted) {
            if (!givenUp()) {
                awaitTask(id);
            }
        }
        if (!givenUp()) {
            Client.Reply all = client.read("await", "all tasks", "await task-");
            if (all.isOk()) {
                all.ok();
            }
        }
        for (int i = 0; i < nodes.size() && decommissioned; i++) {
            client.checkGone(i, OBSERVER);
        }
    }
}
