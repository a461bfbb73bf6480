package trio;

import java.io.IOException;
import java.util.HashSet;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;

/**
 * Owns the choice of a leader. Nodes that look for one say hello; as soon as a majority looks, the
 * one with the newest log (then the lowest name) asks for votes in the next term.
 */
final class Election {
    private static final Logger LOG = Logger.of(Election.class);
    private static final long HELLO_MS = 200;
    /** How long a majority waits for the rest: longer when everybody is just starting. */
    private static final long LATECOMERS_MS = 500;
    private static final long LATECOMERS_AT_START_MS = 10_000;
    private static final long VOTES_MS = 8_000;
    private static final long FRESH_MS = 6_000;

    /** Another node that looks for a leader. */
    private static final class Looking {
        final long lastTerm;
        final long lastIndex;
        final long heard;

        Looking(long lastTerm, long lastIndex) {
            this.lastTerm = lastTerm;
            this.lastIndex = lastIndex;
            heard = System.nanoTime();
        }
    }

    static final class Choice {
        final String leader;
        final long term;

        Choice(String leader, long term) {
            this.leader = leader;
            this.term = term;
        }
    }

    private final Node node;
    private final Config config;
    private final Ballot ballot;
    private final Log log;
    private final Random random;
    private final Map<String, Looking> looking = new TreeMap<>();
    private final Set<String> granted = new HashSet<>();
    private long candidacy;
    private Choice announced;
    private boolean active;
    private long latecomersMs = LATECOMERS_AT_START_MS;

    Election(Node node, Ballot ballot, Log log) {
        this.node = node;
        this.config = node.config;
        this.ballot = ballot;
        this.log = log;
        random = new Random(config.id.hashCode());
    }

    /** Blocks until a leader is known: this node or another. */
    Choice elect() {
        synchronized (this) {
            active = true;
            announced = null;
            looking.clear();
        }
        long patienceMs = patienceMs();
        long majoritySince = 0;
        long helloDue = now();
        while (true) {
            if (now() - helloDue >= 0) {
                helloDue = now() + HELLO_MS * 1_000_000L;
                node.datagrams.sendAll(isStalled() ? "SEEK" : "HELLO", hello());
            }
            boolean stand;
            synchronized (this) {
                waitFor(Math.max(1, (helloDue - now()) / 1_000_000L));
                if (announced != null) {
                    active = false;
                    latecomersMs = LATECOMERS_MS;
                    return announced;
                }
                long now = now();
                looking.values().removeIf(l -> sinceMs(now, l.heard) > FRESH_MS);
                boolean majority = looking.size() + 1 >= config.quorum();
                if (!majority) {
                    majoritySince = 0;
                } else if (majoritySince == 0) {
                    majoritySince = now;
                }
                boolean all = looking.size() + 1 == config.peers.size();
                stand = majority && !isStalled() && !node.isBroken() && (
                        sinceMs(now, majoritySince) >= latecomersMs + patienceMs
                        || best() && (all || sinceMs(now, majoritySince) >= latecomersMs));
            }
            if (stand) {
                if (candidate()) {
                    return new Choice(config.id, candidacy);
                }
                patienceMs = patienceMs();
                majoritySince = 0;
            }
        }
    }

    /** A node with a stalled disk seeks a leader but can be of no help in electing one. */
    private boolean isStalled() {
        return log.stalled(config.stallMs);
    }

    private String hello() {
        return ballot.term() + " " + log.lastTerm() + " " + log.lastIndex();
    }

    private static long now() {
        return System.nanoTime();
    }

    private static long sinceMs(long now, long since) {
        return (now - since) / 1_000_000L;
    }

    /** How long this node lets a better one stand first; random, so that few stand at once. */
    private long patienceMs() {
        long span = config.electionMaxMs - config.electionMinMs;
        return config.electionMinMs + (long) (random.nextDouble() * span);
    }

    private boolean best() {
        for (Map.Entry<String, Looking> e : looking.entrySet()) {
            Looking other = e.getValue();
            int order = compare(other.lastTerm, other.lastIndex);
            if (order > 0 || order == 0 && e.getKey().compareTo(config.id) < 0) {
                return false;
            }
        }
        return true;
    }

    /** Positive when a log that ends like this is newer than ours. */
    private int compare(long lastTerm, long lastIndex) {
        int byTerm = Long.compare(lastTerm, log.lastTerm());
        return byTerm != 0 ? byTerm : Long.compare(lastIndex, log.lastIndex());
    }

    private boolean candidate() {
        long term = ballot.term() + 1;
        try {
            if (!ballot.vote(term, config.id)) {
                return false;
            }
        } catch (IOException e) {
            LOG.warn("cannot save the vote for myself", e);
            return false;
        }
        synchronized (this) {
            candidacy = term;
            granted.clear();
            granted.add(config.id);
        }
        node.datagrams.sendAll("ASK", term + " " + log.lastTerm() + " " + log.lastIndex());
        long end = now() + VOTES_MS * 1_000_000L;
        synchronized (this) {
            while (granted.size() < config.quorum()) {
                long left = (end - now()) / 1_000_000L;
                if (left <= 0 || announced != null || ballot.term() > term) {
                    LOG.info("no majority in term " + term);
                    return false;
                }
                waitFor(left);
            }
            active = false;
            latecomersMs = LATECOMERS_MS;
        }
        LOG.info("elected in term " + term + " by " + granted);
        return true;
    }

    private void waitFor(long ms) {
        try {
            wait(ms);
        } catch (InterruptedException e) {
            LOG.info("the election was interrupted, it goes on");
        }
    }

    /** Handles one message about elections. */
    void received(String kind, String from, String[] body) throws IOException {
        long term = Long.parseLong(body[0]);
        switch (kind) {
            case "HELLO":
            case "SEEK":
                hello(kind, from, term, Long.parseLong(body[1]), Long.parseLong(body[2]));
                break;
            case "ASK":
                asked(from, term, Long.parseLong(body[1]), Long.parseLong(body[2]));
                break;
            case "VOTE":
                synchronized (this) {
                    if (active && term == candidacy) {
                        granted.add(from);
                        notifyAll();
                    }
                }
                break;
            default:
                if (term >= ballot.term()) {
                    synchronized (this) {
                        announced = new Choice(from, term);
                        notifyAll();
                    }
                }
        }
    }

    private void hello(String kind, String from, long term, long lastTerm, long lastIndex)
            throws IOException {
        Leader leader = node.leader();
        if (leader != null) {
            if (term > leader.term) {
                leader.stepDown(from + " looks for a leader in the later term " + term);
            } else {
                node.datagrams.send(from, "LEAD", Long.toString(leader.term));
            }
            return;
        }
        boolean first;
        synchronized (this) {
            if (!active || kind.equals("SEEK")) {
                return;
            }
            first = looking.put(from, new Looking(lastTerm, lastIndex)) == null;
            if (first) {
                notifyAll();
            }
        }
        ballot.observe(term);
        if (first && !isStalled()) {
            node.datagrams.send(from, "HELLO", hello());
        }
    }

    private void asked(String from, long term, long lastTerm, long lastIndex) throws IOException {
        synchronized (this) {
            if (!active) {
                return;
            }
        }
        if (compare(lastTerm, lastIndex) >= 0 && ballot.vote(term, from)) {
            node.datagrams.send(from, "VOTE", Long.toString(term));
        }
    }
}
