package temblor.zookeeper;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/** Owns the phase on access rights: closed to everyone, then open to who has the password. */
final class Permissions {
    private static final List<ACL> CLOSED = Collections.singletonList(
            new ACL(Perms.READ | Perms.ADMIN, Ids.ANYONE_ID_UNSAFE));
    /** All may read, so that every client can compare the whole tree. */
    private static final List<ACL> MINE = Arrays.asList(
            new ACL(Perms.ALL, Ids.AUTH_IDS), new ACL(Perms.READ, Ids.ANYONE_ID_UNSAFE));

    private final Settings settings;
    private final Journal journal;
    private final Store store;

    Permissions(Settings settings, Journal journal, Store store) {
        this.settings = settings;
        this.journal = journal;
        this.store = store;
    }

    /** Each step builds on the rights that the one before has set for certain. */
    void run(String key) {
        journal.phase("acl");
        boolean closed = store.ledger.isThere(key) && set(key, CLOSED, "closed")
                && get(key, "world", Perms.READ | Perms.ADMIN) && writeForbidden(key);
        if (!closed) {
            return;
        }
        store.session.ready();
        store.session.authenticate("secret");
        if (set(key, MINE, "mine") && get(key, "digest", Perms.ALL)) {
            store.write(key, 0);
            store.read(key);
        }
    }

    private boolean set(String key, List<ACL> acl, String name) {
        ZooKeeper zooKeeper = store.session.ready();
        Operation operation = journal.invoke(store.session, "set-acl", Reg.NONE, key, name);
        try {
            zooKeeper.setACL(key, acl, -1);
            return operation.ok(name, 0);
        } catch (Exception e) {
            store.session.met(e);
            return operation.failed(e, true);
        }
    }

    private boolean get(String key, String scheme, int rights) {
        ZooKeeper zooKeeper = store.session.ready();
        Operation operation = journal.invoke(store.session, "get-acl", Reg.NONE, key, null);
        try {
            List<ACL> acl = zooKeeper.getACL(key, new Stat());
            for (ACL entry : acl) {
                if (entry.getId().getScheme().equals(scheme) && entry.getPerms() == rights
                        && isWho(entry.getId().getId(), scheme)) {
                    return operation.ok(null, 0);
                }
            }
            return operation.wrong(null, 0, "no " + scheme + " entry with rights " + rights
                    + ", which was acknowledged: " + acl.toString().trim());
        } catch (Exception e) {
            store.session.met(e);
            return Failure.is(e, Code.NONODE)
                    ? operation.wrong(null, 0, "no node, which was acknowledged")
                    : operation.failed(e, false);
        }
    }

    private boolean isWho(String id, String scheme) {
        return scheme.equals("world") ? id.equals("anyone")
                : id.startsWith(settings.client + ":");
    }

    /** A write that has to be refused. */
    private boolean writeForbidden(String key) {
        ZooKeeper zooKeeper = store.session.ready();
        Operation operation = journal.invoke(store.session, "write-forbidden", Reg.NONE, key, null);
        try {
            zooKeeper.setData(key, Values.encode(store.ledger.nextValue(), 0), -1);
            return operation.wrong(null, 0, "written without the right to");
        } catch (Exception e) {
            store.session.met(e);
            return Failure.is(e, Code.NOAUTH) ? operation.ok(null, 0) : operation.failed(e, false);
        }
    }
}
