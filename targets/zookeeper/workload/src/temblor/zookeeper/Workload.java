package temblor.zookeeper;

import java.io.File;
import java.util.Arrays;
import java.util.List;

/**
 * Owns the life of one client, which talks to one node only: the phases of its workload, the line
 * that says it is done, and the finale once it is called for.
 */
public final class Workload {
    private static final int ENTRY_BYTES = 1024;
    private static final int WRITES = 40;
    private static final int READS = 40;
    private static final int SNAPSHOT_WRITES = 150;
    private static final int LATER = 20;
    private static final List<String> LATER_TOO =
            Arrays.asList("late", "rejoin", "restart", "election", "bare");
    private static final List<String> GUARDED_TOO = Arrays.asList("late", "bare");
    private static final int FLOOD = 600;
    private static final int FLOODS = 2;
    private static final int CLOSED = 100;
    private static final int GUARDED = 8;
    private static final int GUARDED_MOST = 60;
    private static final long GUARDED_PAUSE_MS = 1_500;
    private static final File FINALE = new File("finale");
    private static final long FINALE_POLL_MS = 50;
    private static final long FINALE_POLL_MOST_MS = 1_000;
    private static final long FINALE_WAIT_MS = 600_000;

    private Workload() {}

    public static void main(String[] args) {
        LeanStart.prepare();
        Settings settings;
        try {
            settings = Settings.parse(args);
        } catch (IllegalArgumentException e) {
            System.err.println(e.getMessage());
            System.exit(2);
            return;
        }
        Journal journal = new Journal(settings.client, settings.node);
        Session session = new Session(settings, journal);
        Store store = new Store(session, journal, new Ledger(settings.client));
        journal.phase("connect");
        session.ready();
        Gate.pass(settings, session);
        run(settings, journal, store);
        journal.done();
        if (awaitFinale()) {
            new Finale(session, journal, store).run();
        }
        // Not closed: that would wait for an answer, and the finale of others is still going on.
        System.exit(0);
    }

    private static void run(Settings settings, Journal journal, Store store) {
        String workload = settings.workload;
        if (workload.equals("sieve")) {
            new Sieve(settings, journal, store).run();
            return;
        }
        boolean big = workload.equals("snapshot");
        Entries entries = new Entries(settings, journal, store, big ? ENTRY_BYTES : 0);
        entries.create();
        if (workload.equals("reconfig") && settings.index == 1) {
            new Membership(settings, journal, store, entries).run();
        } else {
            entries.mix("mix", big ? SNAPSHOT_WRITES : WRITES, READS);
        }
        if (workload.equals("bare") && settings.index == FLOODS) {
            new Flood(settings, journal, store).run(FLOOD);
        }
        Permissions permissions = new Permissions(settings, journal, store);
        if (workload.equals("rights")) {
            permissions.close(CLOSED);
        }
        if (GUARDED_TOO.contains(workload)) {
            permissions.create(GUARDED, GUARDED_MOST,
                    settings.number("pause-ms", GUARDED_PAUSE_MS));
        }
        if (LATER_TOO.contains(workload)) {
            entries.mix("later", LATER, LATER);
        }
        entries.check();
    }

    /** Looks ever more rarely: clients that are done wait long for one that is stuck. */
    private static boolean awaitFinale() {
        long end = System.nanoTime() + FINALE_WAIT_MS * 1_000_000L;
        long pauseMs = FINALE_POLL_MS;
        while (!FINALE.exists()) {
            if (System.nanoTime() - end > 0) {
                return false;
            }
            Session.pause(pauseMs);
            pauseMs = Math.min(pauseMs + pauseMs / 4, FINALE_POLL_MOST_MS);
        }
        return true;
    }
}
