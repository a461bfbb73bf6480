package temblor.zookeeper;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/** Owns the phase on access rights: closed to everyone, then open to who has the password. */
final class Permissions {
    private static final List<ACL> CLOSED = Collections.singletonList(
            new ACL(Perms.READ | Perms.ADMIN, Ids.ANYONE_ID_UNSAFE));
    /** All may read, so that every client can compare the whole tree. */
    private static final List<ACL> MINE = Arrays.asList(
            new ACL(Perms.ALL, Ids.AUTH_IDS), new ACL(Perms.READ, Ids.ANYONE_ID_UNSAFE));

    private static final int TRIES = 20;
    private static final long SETTLE_MS = 100;

    private final Settings settings;
    private final Journal journal;
    private final Store store;

    Permissions(Settings settings, Journal journal, Store store) {
        this.settings = settings;
        this.journal = journal;
        this.store = store;
    }

    /**
     * Nodes that all may use, each with an access list that no other node has; every other one is
     * deleted again. So many after all clients have come, and before that, since one may be late.
     */
    void create(int count, int most, long pauseMs) {
        journal.phase("guarded");
        store.mark("mark", Store.key(settings.index, "come"), CreateMode.PERSISTENT);
        int left = count;
        for (int i = 0; i < most && left > 0 && !journal.givenUp(); i++) {
            left -= allCame() ? 1 : 0;
            create("guarded" + i, "10.1." + settings.index + "." + i);
            String brief = "brief" + i;
            if (create(brief, "10.2." + settings.index + "." + i)) {
                store.delete(Store.key(settings.index, brief));
            }
            Session.pause(pauseMs);
        }
    }

    private boolean create(String name, String address) {
        ACL nobody = new ACL(Perms.READ, new Id("ip", address));
        return store.create(Store.key(settings.index, name), 0,
                Arrays.asList(new ACL(Perms.ALL, Ids.ANYONE_ID_UNSAFE), nobody));
    }

    private boolean allCame() {
        try {
            ZooKeeper zooKeeper = store.session.ready();
            int come = 0;
            while (come < settings.clients
                    && Store.exists(zooKeeper, Store.key(come + 1, "come"))) {
                come++;
            }
            return come == settings.clients;
        } catch (Exception e) {
            store.session.met(e);
            return false;
        }
    }

    /** Rights that are taken away, and a write right after the answer: it has to be refused. */
    void close(int count) {
        journal.phase("close");
        for (int i = 0; i < count && !journal.givenUp(); i++) {
            String key = Store.key(settings.index, "closed" + i);
            if (store.create(key, 0) && set(key, CLOSED, "closed")) {
                writeForbidden(key, 1);
            }
        }
    }

    /** Each step builds on the rights that the one before has set for certain. */
    void run(String key) {
        journal.phase("acl");
        boolean closed = store.ledger.isThere(key) && set(key, CLOSED, "closed")
                && get(key, "world", Perms.READ | Perms.ADMIN) && writeForbidden(key, TRIES);
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

    /**
     * A write that has to be refused. ZooKeeper's leader judges by the old rights until it has
     * applied the new ones itself, although they were acknowledged: `tries` is how many writes may
     * slip through, but for the last.
     */
    private boolean writeForbidden(String key, int tries) {
        ZooKeeper zooKeeper = store.session.ready();
        String value = store.ledger.nextValue();
        Operation operation = journal.invoke(store.session, "write-forbidden", Reg.NONE, key, null);
        try {
            Stat stat = zooKeeper.setData(key, Values.encode(value, 0), -1);
            store.ledger.acknowledge(key, value, stat.getVersion(), store.session.id());
            if (tries == 1) {
                return operation.wrong(null, 0, "written without the right to");
            }
            operation.ok(value, 0);
        } catch (Exception e) {
            store.session.met(e);
            return Failure.is(e, Code.NOAUTH) ? operation.ok(null, 0) : operation.failed(e, false);
        }
        Session.pause(SETTLE_MS);
        return writeForbidden(key, tries - 1);
    }
}
