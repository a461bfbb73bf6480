package temblor.zookeeper;

import org.apache.zookeeper.AsyncCallback;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/**
 * Owns the phase of many small writes that nobody waits for one by one: so many that a node which
 * misses them no longer gets them one by one either, but a snapshot.
 */
final class Flood {
    private final Settings settings;
    private final Journal journal;
    private final Store store;

    Flood(Settings settings, Journal journal, Store store) {
        this.settings = settings;
        this.journal = journal;
        this.store = store;
    }

    void run(int writes) {
        journal.phase("flood");
        String key = Store.key(settings.index, "flood");
        boolean done = false;
        while (!done && !journal.givenUp()) {
            done = store.mark("mark", key, CreateMode.PERSISTENT) && pour(key, writes);
        }
    }

    private boolean pour(String key, int writes) {
        ZooKeeper zooKeeper = store.session.ready();
        Operation operation = journal.invoke(store.session, "flood", Reg.NONE, key, null);
        Answers answers = new Answers(writes);
        try {
            for (int i = 0; i < writes; i++) {
                zooKeeper.setData(key, new byte[0], -1, answers, null);
            }
            answers.await(key);
            return operation.ok(null, 0);
        } catch (Exception e) {
            store.session.met(e);
            return operation.failed(e, true);
        }
    }

    /** Every write is answered, also when the connection is lost. */
    private static final class Answers implements AsyncCallback.StatCallback {
        private int left;
        private int code;

        Answers(int left) {
            this.left = left;
        }

        @Override
        public synchronized void processResult(int code, String path, Object context, Stat stat) {
            left--;
            this.code = this.code == 0 ? code : this.code;
            notifyAll();
        }

        synchronized void await(String path) throws KeeperException, InterruptedException {
            while (left > 0) {
                wait();
            }
            if (code != 0) {
                throw KeeperException.create(KeeperException.Code.get(code), path);
            }
        }
    }
}
