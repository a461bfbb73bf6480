package temblor.zookeeper;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.zookeeper.AsyncCallback;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooKeeper;

/** Owns the session with the client's node: opened again when it is lost, within bounds. */
final class Session {
    private static final int SESSION_TIMEOUT_MS = 10_000;
    private static final long CONNECT_WAIT_MS = 15_000;
    private static final int SESSIONS = 5;

    private final Settings settings;
    private final Journal journal;
    private final boolean admin;
    private ZooKeeper zooKeeper;
    private Connection connection;
    private String secret;
    private int opened;
    /** What `Connection.connects()` was when the current operation began. */
    private int connectsBefore;
    private boolean lost;

    Session(Settings settings, Journal journal) {
        this.settings = settings;
        this.journal = journal;
        admin = settings.workload.equals("reconfig") && settings.index == 1;
    }

    /** What the library's own thread tells about the connection. */
    private static final class Connection implements Watcher {
        private int connects;
        private boolean expired;

        @Override
        public synchronized void process(WatchedEvent event) {
            if (event.getState() == Event.KeeperState.SyncConnected
                    && event.getType() == Event.EventType.None) {
                connects++;
            } else if (event.getState() == Event.KeeperState.Expired) {
                expired = true;
            }
            notifyAll();
        }

        synchronized int connects() {
            return connects;
        }

        synchronized boolean isExpired() {
            return expired;
        }

        /** Waits until there was another connection; false when there is none in time. */
        synchronized boolean await(int before, long withinMs) {
            long end = System.nanoTime() + withinMs * 1_000_000L;
            try {
                while (connects == before && !expired) {
                    long leftMs = (end - System.nanoTime() + 999_999L) / 1_000_000L;
                    if (leftMs <= 0) {
                        return false;
                    }
                    wait(leftMs);
                }
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
            return !expired;
        }
    }

    /** The handle for the next operation: waits for a connection or a new session, not forever. */
    ZooKeeper ready() {
        if (zooKeeper == null || connection.isExpired() || !zooKeeper.getState().isAlive()) {
            reopen();
        } else if (lost) {
            connection.await(connectsBefore, CONNECT_WAIT_MS);
        }
        lost = false;
        connectsBefore = connection.connects();
        return zooKeeper;
    }

    /** The operation met this; the next one waits first if the connection is gone. */
    void met(Exception failure) {
        lost |= Failure.is(failure, KeeperException.Code.CONNECTIONLOSS);
    }

    /** 0 when there is none yet. */
    long id() {
        return zooKeeper == null ? 0 : zooKeeper.getSessionId();
    }

    /** Proves to be `settings.client` from now on, also in later sessions. */
    void authenticate(String password) {
        secret = settings.client + ":" + password;
        zooKeeper.addAuthInfo("digest", secret.getBytes(StandardCharsets.US_ASCII));
    }

    /** Returns when the node has caught up with the leader. Without a bound, as any operation. */
    void sync(String path) throws KeeperException, InterruptedException {
        Synced synced = new Synced();
        zooKeeper.sync(path, synced, null);
        synced.await();
    }

    private static final class Synced implements AsyncCallback.VoidCallback {
        private Integer code;
        private String path;

        @Override
        public synchronized void processResult(int code, String path, Object context) {
            this.code = code;
            this.path = path;
            notifyAll();
        }

        synchronized void await() throws KeeperException, InterruptedException {
            while (code == null) {
                wait();
            }
            if (code != 0) {
                throw KeeperException.create(KeeperException.Code.get(code), path);
            }
        }
    }

    /** A handle that has seen too many sessions die stays as it is: operations fail on it. */
    private void reopen() {
        if (opened >= SESSIONS) {
            return;
        }
        opened++;
        zooKeeper = null;
        Operation operation = journal.invoke(this, "connect", Reg.NONE, null, null);
        connection = new Connection();
        try {
            zooKeeper = admin
                    ? NewerClient.openAdmin(settings.address, SESSION_TIMEOUT_MS, connection)
                    : new ZooKeeper(settings.address, SESSION_TIMEOUT_MS, connection);
        } catch (IOException e) {
            // Only a wrong address or a lack of threads: nothing that another try would mend.
            operation.failed(e, false);
            throw new IllegalStateException(e);
        }
        if (secret != null) {
            authenticate(secret.substring(secret.indexOf(':') + 1));
        }
        if (connection.await(0, CONNECT_WAIT_MS)) {
            operation.ok(null, 0);
        } else {
            operation.fail("no session within " + CONNECT_WAIT_MS + " ms");
        }
    }

    static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
