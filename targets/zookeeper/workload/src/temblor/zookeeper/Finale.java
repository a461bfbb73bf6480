package temblor.zookeeper;

import org.apache.zookeeper.ZooKeeper;

/** Owns what happens when all is quiet: the client's node shows its whole tree once more. */
final class Finale {
    private static final int TRIES = 5;

    private final Session session;
    private final Journal journal;
    private final Store store;

    Finale(Session session, Journal journal, Store store) {
        this.session = session;
        this.journal = journal;
        this.store = store;
    }

    void run() {
        journal.phase("finale");
        boolean compared = false;
        for (int i = 0; i < TRIES && !compared && !journal.givenUp(); i++) {
            compared = sync() && tree();
        }
        for (String key : store.ledger.acknowledgedKeys()) {
            if (journal.givenUp()) {
                return;
            }
            store.readNewest("verify", key);
        }
    }

    private boolean sync() {
        session.ready();
        Operation operation = journal.invoke(session, "sync", Reg.NONE, "/", null);
        try {
            session.sync("/");
            return operation.ok(null, 0);
        } catch (Exception e) {
            session.met(e);
            return operation.failed(e, false);
        }
    }

    private boolean tree() {
        ZooKeeper zooKeeper = session.ready();
        Operation operation = journal.invoke(session, "tree", Reg.DIGEST, Store.rootPath(), null);
        try {
            return operation.ok(new Tree(zooKeeper).digest(Store.rootPath()), 0);
        } catch (Tree.BrokenException e) {
            operation.wrong(null, 0, e.getMessage());
            return true;
        } catch (Exception e) {
            session.met(e);
            return operation.failed(e, false);
        }
    }
}
