package temblor.zookeeper;

/**
 * Owns the work that nobody looks at, done once before a cluster is frozen: classes are loaded and
 * code is compiled in all processes, and nothing is left of it in the tree.
 */
final class WarmUp {
    private static final String ROOT = "/warm-up";
    private static final int WRITES = 600;
    private static final int READS = 600;
    private static final int FINALES = 8;

    private final Settings settings;
    private final Session session;

    WarmUp(Settings settings, Session session) {
        this.settings = settings;
        this.session = session;
    }

    void run() {
        Journal silent = Journal.silent(settings);
        Store store = new Store(session, silent, new Ledger(settings.client));
        String root = Store.useRoot(ROOT);
        Entries entries = new Entries(settings, silent, store, 0);
        entries.create();
        entries.mix("warm", WRITES, READS);
        entries.check();
        for (int i = 0; i < FINALES; i++) {
            new Finale(session, silent, store).run();
        }
        for (String key : store.ledger.acknowledgedKeys()) {
            store.remove(key);
        }
        store.remove(ROOT); // The last client succeeds.
        Store.useRoot(root);
    }
}
