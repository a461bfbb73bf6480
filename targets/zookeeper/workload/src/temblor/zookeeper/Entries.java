package temblor.zookeeper;

import java.util.Random;

/** Owns the phases on plain entries: every client writes its own ones and reads those of all. */
final class Entries {
    private static final int ENTRIES = 10;

    private final Settings settings;
    private final Journal journal;
    private final Store store;
    private final int length;
    private final Random random;

    /** Entries of `length` bytes; 0 for as short as can be. */
    Entries(Settings settings, Journal journal, Store store, int length) {
        this.settings = settings;
        this.journal = journal;
        this.store = store;
        this.length = length;
        random = new Random(settings.seed * 1_000_003 + settings.index);
    }

    void create() {
        journal.phase("create");
        store.root();
        for (int i = 0; i < ENTRIES && !journal.givenUp(); i++) {
            store.create(key(settings.index, i), length);
        }
    }

    void mix(String phase, int writes, int reads) {
        journal.phase(phase);
        for (boolean write : shuffled(settings.share(writes), settings.share(reads))) {
            if (journal.givenUp()) {
                return;
            }
            if (write) {
                write(key(settings.index, random.nextInt(ENTRIES)));
            } else {
                int owner = 1 + random.nextInt(settings.clients);
                store.read(key(owner, random.nextInt(ENTRIES)));
            }
        }
    }

    void write(String phase, int writes) {
        mix(phase, writes, 0);
    }

    /** Created first if that has not worked yet: the node may have been away. */
    private void write(String key) {
        if (store.ledger.isThere(key) || !store.create(key, length)) {
            store.write(key, length);
        }
    }

    void check() {
        journal.phase("check");
        for (int i = 0; i < ENTRIES && !journal.givenUp(); i++) {
            store.readNewest("check", key(settings.index, i));
        }
    }

    private boolean[] shuffled(int writes, int reads) {
        boolean[] order = new boolean[writes + reads];
        for (int i = 0; i < order.length; i++) {
            int other = random.nextInt(i + 1);
            order[i] = order[other];
            order[other] = i < writes;
        }
        return order;
    }

    private static String key(int index, int i) {
        return Store.key(index, "entry" + i);
    }
}
