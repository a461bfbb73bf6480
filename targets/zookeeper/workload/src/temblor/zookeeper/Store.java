package temblor.zookeeper;

import java.util.List;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/** Owns the operations on single nodes of the tree: each done, judged by the ledger, reported. */
final class Store {
    private static String root = "/temblor";
    private static final int CREATE_TRIES = 2;

    final Session session;
    final Journal journal;
    final Ledger ledger;
    private boolean rootThere;

    Store(Session session, Journal journal, Ledger ledger) {
        this.session = session;
        this.journal = journal;
        this.ledger = ledger;
    }

    /** Where all nodes are from now on; gives the place until now. */
    static String useRoot(String next) {
        String before = root;
        root = next;
        return before;
    }

    static String rootPath() {
        return root;
    }

    /** As good as it goes: nobody depends on it. */
    void remove(String key) {
        try {
            session.ready().delete(key, -1);
        } catch (Exception e) {
            session.met(e);
        }
    }

    /** The node of that name; `index` says whose it is, so that every client can name it. */
    static String key(int index, String name) {
        return root + "/" + name + "-" + index;
    }

    /** Every client creates the root: it does not matter who is first. */
    void root() {
        while (!rootThere && !journal.givenUp()) {
            rootThere = mark("root", root, CreateMode.PERSISTENT);
        }
    }

    /** A node without a value, there afterwards whoever created it. */
    boolean mark(String op, String key, CreateMode mode) {
        ZooKeeper zooKeeper = session.ready();
        Operation operation = journal.invoke(session, op, Reg.NONE, key, null);
        try {
            zooKeeper.create(key, new byte[0], Ids.OPEN_ACL_UNSAFE, mode);
            return operation.ok(null, 0);
        } catch (Exception e) {
            session.met(e);
            return Failure.is(e, Code.NODEEXISTS) ? operation.ok(null, 0)
                    : operation.failed(e, true);
        }
    }

    boolean create(String key, int length) {
        return create(key, length, Ids.OPEN_ACL_UNSAFE);
    }

    /** Once more with the same value when the outcome is unknown: that cannot do harm. */
    boolean create(String key, int length, List<ACL> acl) {
        String value = ledger.nextValue();
        for (int i = 1; i <= CREATE_TRIES; i++) {
            if (create(key, value, length, acl)) {
                return true;
            }
            if (!ledger.isMaybe(key, value)) {
                return false;
            }
        }
        return false;
    }

    private boolean create(String key, String value, int length, List<ACL> acl) {
        ZooKeeper zooKeeper = session.ready();
        Operation operation = journal.invoke(session, "create", Reg.CREATE, key, value);
        Stat stat = new Stat();
        try {
            byte[] data = Values.encode(value, length);
            NewerClient.create(zooKeeper, key, data, acl, CreateMode.PERSISTENT, stat);
        } catch (Exception e) {
            session.met(e);
            if (Failure.is(e, Code.NODEEXISTS) && ledger.isOnlyMaybe(key, value)) {
                stat = new Stat(); // An earlier try has made it.
            } else if (Failure.is(e, Code.NONODE) && rootThere) {
                return operation.wrong(null, 0, "no " + root + ", which was acknowledged");
            } else {
                return writeFailed(operation, e, key, value);
            }
        }
        ledger.acknowledge(key, value, 0, session.id());
        return operation.ok(value, stat.getCzxid());
    }

    boolean write(String key, int length) {
        return write("write", key, length, -1);
    }

    /** Only if the version is still the one that was acknowledged, where that is certain. */
    boolean update(String key, int length) {
        return write("update", key, length, ledger.certainVersion(key));
    }

    private boolean write(String op, String key, int length, int version) {
        ZooKeeper zooKeeper = session.ready();
        String value = ledger.nextValue();
        Operation operation = journal.invoke(session, op, Reg.WRITE, key, value);
        try {
            Stat stat = zooKeeper.setData(key, Values.encode(value, length), version);
            ledger.acknowledge(key, value, stat.getVersion(), session.id());
            return operation.ok(value, stat.getMzxid());
        } catch (Exception e) {
            session.met(e);
            if (Failure.is(e, Code.NONODE) && ledger.isThere(key)) {
                return operation.wrong(null, 0, "no node, which was acknowledged");
            }
            if (Failure.is(e, Code.BADVERSION) && version >= 0) {
                return operation.wrong(null, 0, "version " + version + " refused, which was"
                        + " acknowledged");
            }
            return writeFailed(operation, e, key, value);
        }
    }

    private boolean writeFailed(Operation operation, Exception failure, String key, String value) {
        if (Failure.isUnknown(failure)) {
            ledger.maybeWritten(key, value);
        }
        return operation.failed(failure, true);
    }

    boolean delete(String key) {
        ZooKeeper zooKeeper = session.ready();
        Operation operation = journal.invoke(session, "delete", Reg.DELETE, key, null);
        try {
            zooKeeper.delete(key, -1);
            ledger.acknowledge(key, null, 0, session.id());
            return operation.ok(null, 0);
        } catch (Exception e) {
            session.met(e);
            if (Failure.is(e, Code.NONODE) && ledger.isThere(key)) {
                return operation.wrong(null, 0, "no node, which was acknowledged");
            }
            if (Failure.isUnknown(e)) {
                ledger.maybeDeleted(key);
            }
            return operation.failed(e, true);
        }
    }

    /** What the node has at the moment. */
    boolean read(String key) {
        return read("read", key, false);
    }

    /** What is newest: the node catches up first. */
    boolean readNewest(String op, String key) {
        return read(op, key, true);
    }

    private boolean read(String op, String key, boolean synced) {
        ZooKeeper zooKeeper = session.ready();
        Operation operation = journal.invoke(session, op, synced ? Reg.READ : Reg.STALE_READ, key,
                null);
        try {
            if (synced) {
                session.sync(key);
            }
            Stat stat = new Stat();
            byte[] data = zooKeeper.getData(key, false, stat);
            return judged(operation, key, data, stat, synced);
        } catch (Exception e) {
            return readFailed(operation, e, key, synced);
        }
    }

    /** Reads and asks to be told of the next change. The watch is null when there is none now. */
    Watch watch(String key) {
        ZooKeeper zooKeeper = session.ready();
        Operation operation = journal.invoke(session, "read", Reg.STALE_READ, key, null);
        Watch watch = new Watch();
        try {
            Stat stat = new Stat();
            byte[] data = zooKeeper.getData(key, watch, stat);
            judged(operation, key, data, stat, false);
            watch.begin(journal.watch(session, key, stat.getMzxid()), stat.getMzxid());
            return watch;
        } catch (Exception e) {
            readFailed(operation, e, key, false);
            return null;
        }
    }

    private boolean judged(Operation operation, String key, byte[] data, Stat stat,
            boolean synced) {
        String value = Values.decode(data);
        if (value == null) {
            return operation.wrong(null, stat.getMzxid(), "damaged: "
                    + (data == null ? "null" : data.length + " bytes") + " of no value");
        }
        String error = ledger.judge(key, value, stat.getVersion(), stat.getMzxid(), session.id(),
                synced);
        return error == null ? operation.ok(value, stat.getMzxid())
                : operation.wrong(value, stat.getMzxid(), error);
    }

    private boolean readFailed(Operation operation, Exception failure, String key,
            boolean synced) {
        session.met(failure);
        if (!Failure.is(failure, Code.NONODE)) {
            return operation.failed(failure, false);
        }
        String error = ledger.judge(key, null, 0, 0, session.id(), synced);
        return error == null ? operation.ok(null, 0) : operation.wrong(null, 0, error);
    }

    /** Lists the root, which must have every node that is there for certain. */
    boolean list() {
        ZooKeeper zooKeeper = session.ready();
        Operation operation = journal.invoke(session, "list", Reg.NONE, root, null);
        try {
            session.sync(root);
            List<String> names = zooKeeper.getChildren(root, false);
            for (String key : ledger.acknowledgedKeys()) {
                if (ledger.isThere(key) && !names.contains(key.substring(root.length() + 1))) {
                    return operation.wrong(null, 0, key + " is missing, which was acknowledged");
                }
            }
            return operation.ok(null, 0);
        } catch (Exception e) {
            session.met(e);
            return operation.failed(e, false);
        }
    }

    /** Whether the node is there; throws what the library throws, for the caller's operation. */
    static boolean exists(ZooKeeper zooKeeper, String key)
            throws KeeperException, InterruptedException {
        return zooKeeper.exists(key, (Watcher) null) != null;
    }
}
