package trio;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * Owns the leader's way from request to log entry: per client in order, checked against the store,
 * logged in small groups, then handed to the followers.
 */
final class Proposer {
    private static final Logger LOG = Logger.of(Proposer.class);
    private static final int GROUP = 16;

    static final class Proposal {
        final String client;
        final long id;
        final String op;
        final String origin;

        Proposal(String client, long id, String op, String origin) {
            this.client = client;
            this.id = id;
            this.op = op;
            this.origin = origin;
        }
    }

    private final Leader leader;
    private final Node node;
    private final Log log;
    private final LinkedBlockingQueue<Proposal> queue = new LinkedBlockingQueue<>();
    /** What each client has under way: the first is proposed, the others wait for it. */
    private final Map<String, Deque<Proposal>> underWay = new HashMap<>();
    private volatile long durable;

    Proposer(Leader leader, Node node) {
        this.leader = leader;
        this.node = node;
        log = node.log;
        durable = log.lastIndex();
    }

    /** The last index that is on this node's disk. */
    long durable() {
        return durable;
    }

    void add(Proposal proposal) {
        if (proposal.client.startsWith("-")) {
            queue.add(proposal);
            return;
        }
        synchronized (underWay) {
            Deque<Proposal> mine = underWay.get(proposal.client);
            if (mine == null) {
                mine = new ArrayDeque<>();
                underWay.put(proposal.client, mine);
                queue.add(proposal);
            }
            for (Proposal other : mine) {
                if (other.id == proposal.id) {
                    return;
                }
            }
            mine.add(proposal);
        }
    }

    /** An entry took effect: the client's next operation may go. */
    void applied(Entry entry) {
        release(entry.client, entry.id);
    }

    private void release(String client, long id) {
        synchronized (underWay) {
            Deque<Proposal> mine = underWay.get(client);
            if (mine == null || mine.peek().id != id) {
                return;
            }
            mine.poll();
            if (mine.isEmpty()) {
                underWay.remove(client);
            } else {
                queue.add(mine.peek());
            }
        }
    }

    void loop() {
        while (!leader.isStopped()) {
            Proposal first;
            try {
                first = queue.poll(node.config.tickMs, TimeUnit.MILLISECONDS);
            } catch (InterruptedException e) {
                continue;
            }
            if (first == null) {
                continue;
            }
            try {
                if (log.full()) {
                    log.roll();
                    node.snapshots.request();
                }
                propose(first);
            } catch (IOException e) {
                // The old file is still open and good: rolling is due again with the next one.
                continue;
            }
        }
    }

    private void propose(Proposal first) {
        List<Proposal> group = new ArrayList<>();
        group.add(first);
        queue.drainTo(group, GROUP - 1);
        List<Entry> entries = new ArrayList<>();
        long index = log.lastIndex();
        for (Proposal p : group) {
            String refusal = node.store.refusal(p.op.split(" "));
            if (refusal == null) {
                entries.add(new Entry(++index, leader.term, p.client + " " + p.id + " " + p.op));
            } else {
                leader.reply(p.origin, p.client, p.id, refusal);
                release(p.client, p.id);
            }
        }
        if (entries.isEmpty() || leader.isStopped()) {
            return;
        }
        try {
            append(entries);
            durable = index;
            leader.replicate(entries);
        } catch (IOException e) {
            LOG.warn("cannot append to the log", e);
            leader.stepDown("the log cannot be written");
        }
    }

    private void append(List<Entry> entries) throws IOException {
        try {
            log.append(entries);
        } catch (IOException e) {
            LOG.warn("appending failed once, trying again: " + e);
            log.append(entries);
        }
    }
}
