package temblor.zookeeper;

import java.nio.charset.StandardCharsets;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/** Owns the phases on members: one server joins the cluster and leaves it again. */
final class Membership {
    private static final int WRITES = 20;
    private static final int TRIES = 3;
    private static final long RETRY_PAUSE_MS = 1_000;

    private final Journal journal;
    private final Store store;
    private final Entries entries;
    private final String member;
    private final String line;
    /** A change of unknown outcome may take effect later: nothing is certain any more. */
    private boolean unknown;

    Membership(Settings settings, Journal journal, Store store, Entries entries) {
        this.journal = journal;
        this.store = store;
        this.entries = entries;
        line = settings.option("join");
        member = line.substring(0, line.indexOf('='));
    }

    void run() {
        journal.phase("config");
        config(false);
        journal.phase("join");
        boolean joined = reconfigure(true);
        if (joined) {
            config(true);
        }
        entries.write("joined", WRITES);
        if (joined) {
            journal.phase("leave");
            if (reconfigure(false)) {
                config(false);
            }
        }
        entries.write("left", WRITES);
    }

    /** Again when it was refused, for instance while another change is under way. */
    private boolean reconfigure(boolean joins) {
        for (int i = 1; i <= TRIES && !journal.givenUp(); i++) {
            if (reconfigureOnce(joins)) {
                return true;
            }
            Session.pause(RETRY_PAUSE_MS);
        }
        return false;
    }

    private boolean reconfigureOnce(boolean joins) {
        ZooKeeper admin = store.session.ready();
        Operation operation = journal.invoke(store.session, joins ? "join" : "leave", Reg.NONE,
                member, joins ? line : null);
        try {
            Stat stat = new Stat();
            byte[] config = joins ? NewerClient.reconfigure(admin, line, null, stat)
                    : NewerClient.reconfigure(admin, null, id(), stat);
            return judged(operation, config, stat, joins);
        } catch (Exception e) {
            store.session.met(e);
            unknown |= Failure.isUnknown(e);
            return operation.failed(e, true);
        }
    }

    private void config(boolean has) {
        ZooKeeper zooKeeper = store.session.ready();
        Operation operation = journal.invoke(store.session, "config", Reg.NONE, member, null);
        try {
            Stat stat = new Stat();
            judged(operation, NewerClient.config(zooKeeper, stat), stat, has);
        } catch (Exception e) {
            store.session.met(e);
            operation.failed(e, false);
        }
    }

    private boolean judged(Operation operation, byte[] config, Stat stat, boolean has) {
        String text = new String(config, StandardCharsets.UTF_8);
        if (("\n" + text).contains("\n" + member + "=") == has || unknown) {
            return operation.ok(text, stat.getMzxid());
        }
        return operation.wrong(text, stat.getMzxid(), member + (has
                ? " is no member, though its join was acknowledged"
                : " is a member, though it has not joined or has left"));
    }

    private String id() {
        return member.substring(member.indexOf('.') + 1);
    }
}
