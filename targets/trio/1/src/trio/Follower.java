package trio;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;

/**
 * Owns one stay with a leader: registration, sync, then entries and commits as they come. It ends
 * when the connection does; everything unsure is settled by the next registration.
 */
final class Follower implements Upstream {
    private static final Logger LOG = Logger.of(Follower.class);
    private static final int GROUP = 16;

    private final Node node;
    private final Config config;
    private final Log log;
    private final Store store;
    private final String leaderId;
    private final long term;
    private final List<Entry> group = new ArrayList<>();
    private volatile Link link;
    private boolean serving;
    private volatile boolean dropped;
    /** The last index that this stay has put in the log; nothing else may be acknowledged. */
    private volatile long logged = -1;
    private long committed;
    private volatile long busySince;

    Follower(Node node, String leaderId, long term) {
        this.node = node;
        this.leaderId = leaderId;
        this.term = term;
        config = node.config;
        log = node.log;
        store = node.store;
    }

    /** Follows until the leader is lost. With full set, asks for everything, not for the rest. */
    void follow(boolean full) {
        Socket socket = new Socket();
        try {
            node.ballot.observe(term);
            socket.bind(new InetSocketAddress(config.addr, 0));
            socket.connect(config.peerAddress(leaderId), config.connectMs);
            socket.setSoTimeout((int) config.silenceMs);
            socket.setTcpNoDelay(true);
            link = new Link(socket, leaderId, Link.input(socket), socket.getOutputStream());
            long last = full ? -1 : log.lastIndex();
            link.send(new Frame(Frame.REGISTER, term, last, config.id + " " + log.lastTerm()));
            link.start(config.heartbeatMs, this::pong);
            if (!begin(Frame.read(link.in))) {
                return;
            }
            node.setFollower(this);
            while (true) {
                Frame frame = Frame.read(link.in);
                busySince = System.nanoTime();
                receive(frame);
                busySince = 0;
            }
        } catch (IOException e) {
            if (!dropped) {
                LOG.warn("lost the leader " + leaderId + ": " + e);
            }
        } finally {
            node.stopServing(this);
            node.setFollower(null);
            Link.closeQuietly(socket);
            if (link != null) {
                link.close();
            }
        }
    }

    /** A sign of life for the leader; a follower that is stuck must not pretend to be well. */
    private Frame pong() {
        long since = busySince;
        if (since != 0 && System.nanoTime() - since > config.stallMs * 1_000_000L) {
            LOG.warn("stuck for " + config.stallMs + " ms, leaving " + leaderId);
            node.stopServing(this);
            link.close();
        }
        return new Frame(Frame.ACK, term, logged, "");
    }

    private boolean begin(Frame head) throws IOException {
        if (head.type == Frame.SNAPSHOT) {
            Snapshots.Loaded snapshot = Snapshots.receive(head, link.in);
            LOG.info("snapshot at " + snapshot.index + " from " + leaderId);
            node.setBroken();
            node.snapshots.save(snapshot.index, snapshot.term, snapshot.lines);
            log.reset(snapshot.index, snapshot.term);
            store.restore(snapshot.index, snapshot.term, snapshot.lines);
            logged = snapshot.index;
        } else if (head.type != Frame.DIFF) {
            LOG.info(leaderId + " refuses us in term " + term);
            return false;
        } else {
            logged = head.index;
        }
        node.resynced();
        acknowledge();
        return true;
    }

    private void receive(Frame frame) throws IOException {
        if (frame.type == Frame.APPEND) {
            if (frame.index > logged + group.size()) {
                group.add(new Entry(frame.index, frame.term, frame.text));
            }
            if (group.size() >= GROUP || link.in.available() == 0) {
                flush();
            }
            return;
        }
        flush();
        String[] words = frame.text.split(" ", 2);
        switch (frame.type) {
            case Frame.COMMIT:
                committed = Math.max(committed, frame.index);
                apply();
                break;
            case Frame.REPLY:
                node.pendings.complete(words[0], frame.index, words[1]);
                break;
            case Frame.TASK:
                node.worker.accept(words[0], words[1]);
                break;
            default:
                throw new IOException("unexpected frame " + frame.type);
        }
    }

    /** Logs the entries that have come in, then acknowledges them together. */
    private void flush() throws IOException {
        if (group.isEmpty()) {
            return;
        }
        if (log.full()) {
            try {
                log.roll();
                node.snapshots.request();
            } catch (IOException e) {
                LOG.warn("cannot roll the log now, the old file goes on", e);
            }
        }
        log.append(group);
        logged += group.size();
        group.clear();
        acknowledge();
        apply();
    }

    private void acknowledge() {
        link.send(new Frame(Frame.ACK, term, logged, ""));
    }

    /** Applies what is committed and here. The leader may commit before the entry arrives. */
    private void apply() throws IOException {
        List<Entry> entries = log.range(store.applied() + 1, Math.min(committed, logged));
        if (entries == null) {
            throw new IOException("the log no longer reaches back to " + store.applied());
        }
        for (Entry entry : entries) {
            String result = store.apply(entry);
            node.pendings.complete(entry.client, entry.id, result);
        }
        if (!serving && committed > 0 && store.applied() >= committed) {
            serving = true;
            LOG.info("serving as follower of " + leaderId + " in term " + term);
            node.startServing(this);
        }
    }

    @Override
    public void submit(Pendings.Pending pending) {
        link.send(new Frame(Frame.REQUEST, term, 0, pending.text()));
    }

    void report(String task, String result) {
        link.send(new Frame(Frame.RESULT, term, 0, task + " " + result));
    }

    /** Leaves the leader on purpose. */
    void drop() {
        dropped = true;
        link.send(new Frame(Frame.LEAVE, term, 0, ""));
    }
}
