package temblor.zookeeper;

import java.util.Arrays;
import java.util.List;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/** Owns the phase on transactions, whose parts happen all or not at all. */
final class Transactions {
    /** Far from any that a node of this workload gets. */
    private static final int NO_VERSION = 1_000_000;
    private static final String GONE = "a node is missing, which was acknowledged";

    private final Session session;
    private final Journal journal;
    private final Store store;
    private final Ledger ledger;
    private final String changed;
    private final String removed;
    private final String created;

    /** `changed` and `removed` should be there already, `created` should not. */
    Transactions(Journal journal, Store store, String changed, String removed, String created) {
        this.session = store.session;
        this.journal = journal;
        this.store = store;
        this.ledger = store.ledger;
        this.changed = changed;
        this.removed = removed;
        this.created = created;
    }

    void run() {
        journal.phase("multi");
        if (!ledger.isThere(changed) || !ledger.isThere(removed)) {
            return;
        }
        refused();
        store.readNewest("read", changed);
        String written = ledger.nextValue();
        String put = ledger.nextValue();
        multi(written, put);
        boolean unknown = ledger.isMaybe(changed, written);
        store.readNewest("read", changed);
        if (unknown && !ledger.isMaybe(changed, written)) {
            // This part turns out to have happened, so the others must have too.
            ledger.acknowledge(created, put, 0, session.id());
            ledger.acknowledge(removed, null, 0, session.id());
        }
        store.readNewest("read", created);
        store.readNewest("read", removed);
    }

    /** The second part fails, so the first one must not happen. */
    private void refused() {
        ZooKeeper zooKeeper = session.ready();
        Operation operation = journal.invoke(session, "multi-refused", Reg.NONE, changed, null);
        try {
            zooKeeper.multi(Arrays.asList(
                    Op.setData(changed, Values.encode(ledger.nextValue(), 0), -1),
                    Op.check(removed, NO_VERSION)));
            operation.wrong(null, 0, "done, though " + removed + " has no such version");
        } catch (Exception e) {
            session.met(e);
            if (Failure.is(e, Code.BADVERSION)) {
                operation.ok(null, 0);
            } else if (Failure.is(e, Code.NONODE)) {
                operation.wrong(null, 0, GONE);
            } else {
                operation.failed(e, false);
            }
        }
    }

    /** Reported as its parts, which begin and end together. */
    private void multi(String written, String put) {
        ZooKeeper zooKeeper = session.ready();
        Operation write = journal.invoke(session, "multi-write", Reg.WRITE, changed, written);
        Operation create = journal.invoke(session, "multi-create", Reg.CREATE, created, put);
        Operation delete = journal.invoke(session, "multi-delete", Reg.DELETE, removed, null);
        try {
            Stat stat = commit(zooKeeper, written, put);
            ledger.acknowledge(changed, written, stat.getVersion(), session.id());
            ledger.acknowledge(created, put, 0, session.id());
            ledger.acknowledge(removed, null, 0, session.id());
            write.ok(written, stat.getMzxid());
            create.ok(put, stat.getMzxid());
            delete.ok(null, stat.getMzxid());
        } catch (Exception e) {
            session.met(e);
            if (Failure.isUnknown(e)) {
                ledger.maybeWritten(changed, written);
                ledger.maybeWritten(created, put);
                ledger.maybeDeleted(removed);
            }
            if (Failure.is(e, Code.NONODE)) {
                write.wrong(null, 0, GONE);
            } else {
                write.failed(e, true);
            }
            create.failed(e, true);
            delete.failed(e, true);
        }
    }

    private Stat commit(ZooKeeper zooKeeper, String written, String put)
            throws KeeperException, InterruptedException {
        List<OpResult> results = zooKeeper.multi(Arrays.asList(
                Op.setData(changed, Values.encode(written, 0), -1),
                Op.create(created, Values.encode(put, 0), Ids.OPEN_ACL_UNSAFE,
                        CreateMode.PERSISTENT),
                Op.delete(removed, -1)));
        return ((OpResult.SetDataResult) results.get(0)).getStat();
    }
}
