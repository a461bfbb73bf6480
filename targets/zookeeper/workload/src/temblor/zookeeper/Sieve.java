package temblor.zookeeper;

import java.util.ArrayList;
import java.util.List;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.ZooKeeper;

/** Owns the workload that uses the whole interface: nodes, watches, permissions, transactions. */
final class Sieve {
    private static final int NODES = 6;
    private static final int UPDATES = 2;
    private static final int DELETED = 2;
    private static final String CHANGED = "changed";
    private static final String REMOVED = "removed";
    private static final long GATHER_WAIT_MS = 10_000;
    private static final long WATCH_WAIT_MS = 10_000;
    private static final long POLL_MS = 20;

    private final Settings settings;
    private final Journal journal;
    private final Store store;

    Sieve(Settings settings, Journal journal, Store store) {
        this.settings = settings;
        this.journal = journal;
        this.store = store;
    }

    void run() {
        create();
        read();
        update();
        delete();
        watch();
        new Permissions(settings, journal, store).run(own("guarded"));
        new Transactions(journal, store, own("first"), own("second"), own("third")).run();
        check();
    }

    private void create() {
        journal.phase("create");
        store.root();
        for (int i = 0; i < NODES && !journal.givenUp(); i++) {
            store.create(own("node" + i), 0);
        }
        String[] names = {CHANGED, REMOVED, "guarded", "first", "second"};
        for (int i = 0; i < names.length && !journal.givenUp(); i++) {
            store.create(own(names[i]), 0);
        }
        if (!journal.givenUp()) {
            store.mark("create-ephemeral", own("alive"), CreateMode.EPHEMERAL);
        }
    }

    private void read() {
        journal.phase("read");
        for (int i = 0; i < NODES && !journal.givenUp(); i++) {
            store.read(own("node" + i));
            store.read(Store.key(settings.index % settings.clients + 1, "node" + i));
        }
        if (!journal.givenUp()) {
            store.list();
        }
    }

    private void update() {
        journal.phase("update");
        for (int i = 0; i < NODES * UPDATES && !journal.givenUp(); i++) {
            String key = own("node" + i % NODES);
            store.update(key, 0);
            store.read(key);
        }
    }

    private void delete() {
        journal.phase("delete");
        for (int i = 0; i < DELETED && !journal.givenUp(); i++) {
            String key = own("node" + i);
            store.delete(key);
            store.read(key);
        }
        if (!journal.givenUp()) {
            store.list();
        }
    }

    /** Everyone watches two nodes of everyone; then each changes the one and deletes the other. */
    private void watch() {
        journal.phase("watch");
        gather("made");
        List<Watch> watches = new ArrayList<>();
        for (int i = 1; i <= settings.clients && !journal.givenUp(); i++) {
            add(watches, Store.key(i, CHANGED));
            add(watches, Store.key(i, REMOVED));
        }
        gather("watching");
        if (journal.givenUp()) {
            return;
        }
        store.write(own(CHANGED), 0);
        store.delete(own(REMOVED));
        long end = System.nanoTime() + WATCH_WAIT_MS * 1_000_000L;
        for (Watch watch : watches) {
            while (!watch.isOver() && System.nanoTime() - end < 0) {
                Session.pause(POLL_MS);
            }
        }
    }

    private void add(List<Watch> watches, String key) {
        Watch watch = store.watch(key);
        if (watch != null) {
            watches.add(watch);
        }
    }

    /** Waits a while until all clients have come here. That others are late is no failure. */
    private void gather(String what) {
        boolean marked = false;
        while (!marked && !journal.givenUp()) {
            marked = store.mark("mark", own(what), CreateMode.PERSISTENT);
        }
        if (!marked) {
            return;
        }
        ZooKeeper zooKeeper = store.session.ready();
        Operation operation = journal.invoke(store.session, "gather", Reg.NONE, null, null);
        long end = System.nanoTime() + GATHER_WAIT_MS * 1_000_000L;
        int here = 0;
        try {
            while (here < settings.clients && System.nanoTime() - end < 0) {
                if (Store.exists(zooKeeper, Store.key(here + 1, what))) {
                    here++;
                } else {
                    Session.pause(POLL_MS);
                }
            }
            operation.ok(null, 0);
        } catch (Exception e) {
            store.session.met(e);
            operation.failed(e, false);
        }
    }

    private void check() {
        journal.phase("check");
        for (String key : store.ledger.acknowledgedKeys()) {
            if (journal.givenUp()) {
                return;
            }
            store.readNewest("check", key);
        }
    }

    private String own(String name) {
        return Store.key(settings.index, name);
    }
}
