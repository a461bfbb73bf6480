package trio;

import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Owns one leadership, from election to step-down: the followers' links, what is committed, and
 * the thread that applies it. It steps down when it loses its majority or its disk stalls.
 */
final class Leader implements Upstream {
    private static final Logger LOG = Logger.of(Leader.class);

    final long term;
    private final Node node;
    private final Config config;
    private final Log log;
    private final Store store;
    private final Proposer proposer;
    private final Sessions sessions;
    private final Tasks tasks;
    private final ConcurrentHashMap<String, Link> links = new ConcurrentHashMap<>();
    private volatile boolean stopped;
    private volatile boolean established;
    private final Object ticks = new Object();
    private ServerSocket server;
    private long committed;
    private long sequence;

    Leader(Node node, long term) {
        this.node = node;
        this.term = term;
        config = node.config;
        log = node.log;
        store = node.store;
        proposer = new Proposer(this, node);
        sessions = new Sessions(this, store, config);
        tasks = new Tasks(this, store, config);
    }

    /** Leads until it must step down. */
    void lead() {
        try {
            server = new ServerSocket();
            server.setReuseAddress(true);
            server.bind(new InetSocketAddress(config.addr, config.peerPort));
        } catch (IOException e) {
            LOG.warn("cannot open the peer port, giving up the lead", e);
            Link.closeQuietly(server);
            return;
        }
        synchronized (this) {
            committed = store.applied();
        }
        node.setLeader(this);
        Node.spawn("peer-acceptor", this::acceptLoop);
        Node.spawn("proposer", proposer::loop);
        Node.spawn("applier", this::applyLoop);
        node.datagrams.sendAll("LEAD", Long.toString(term));
        propose("noop");
        long majoritySeen = System.nanoTime();
        while (!stopped) {
            if (live() + 1 >= config.quorum()) {
                majoritySeen = System.nanoTime();
            } else if (System.nanoTime() - majoritySeen > config.silenceMs * 1_000_000L) {
                stepDown("no majority for " + config.silenceMs + " ms");
            }
            if (log.stalled(config.stallMs)) {
                stepDown("the log's disk stalls");
            }
            if (established) {
                sessions.tick();
                tasks.tick();
            }
            synchronized (ticks) {
                if (!stopped) {
                    Node.waitOn(ticks, config.tickMs);
                }
            }
        }
        node.setLeader(null);
        node.stopServing(this);
        Link.closeQuietly(server);
        for (Link link : links.values()) {
            link.close();
        }
        sessions.stop();
    }

    void stepDown(String why) {
        synchronized (this) {
            if (stopped) {
                return;
            }
            stopped = true;
            notifyAll();
        }
        synchronized (ticks) {
            ticks.notifyAll();
        }
        LOG.warn("stepping down in term " + term + ": " + why);
    }

    boolean isStopped() {
        return stopped;
    }

    private int live() {
        int n = 0;
        for (String peer : links.keySet()) {
            n += isLive(peer) ? 1 : 0;
        }
        return n;
    }

    boolean isLive(String peer) {
        Link link = links.get(peer);
        return link != null && !link.isClosed();
    }

    void sendTo(String peer, Frame frame) {
        Link link = links.get(peer);
        if (link != null) {
            link.send(frame);
        }
    }

    private void acceptLoop() {
        try {
            while (!stopped) {
                final Socket socket = server.accept();
                Node.spawn("peer-" + socket.getInetAddress().getHostAddress(),
                        () -> serve(socket));
            }
        } catch (IOException e) {
            // The server socket is closed when this leadership ends.
            return;
        }
    }

    /** Serves one follower's connection: registration, sync, then its acks and requests. */
    private void serve(Socket socket) {
        Link link = null;
        try {
            socket.setSoTimeout((int) config.silenceMs);
            socket.setTcpNoDelay(true);
            DataInputStream in = Link.input(socket);
            Frame register = Frame.read(in);
            String[] words = register.text.split(" ");
            link = new Link(socket, words[0], in, socket.getOutputStream());
            if (register.type != Frame.REGISTER || register.term > term || stopped
                    || !config.others().contains(link.peer)) {
                link.out.write(new Frame(Frame.REFUSED, term, 0, "").encode());
                return;
            }
            sync(link, register.index, Long.parseLong(words[1]));
            LOG.info(link.peer + " follows from " + register.index);
            Frame frame = Frame.read(link.in);
            while (!stopped && frame.type != Frame.LEAVE) {
                receive(link, frame);
                frame = Frame.read(link.in);
            }
        } catch (EOFException e) {
            LOG.info("the connection of " + (link == null ? "a peer" : link.peer) + " has ended");
        } catch (IOException e) {
            if (!stopped) {
                LOG.warn("lost " + (link == null ? "a connection" : link.peer) + ": " + e);
            }
        } finally {
            if (link != null) {
                link.close();
                links.remove(link.peer, link);
            }
            Link.closeQuietly(socket);
        }
    }

    private void sync(final Link link, long lastIndex, long lastTerm) throws IOException {
        long from = lastIndex;
        if (lastIndex >= 0 && log.termAt(lastIndex) == lastTerm) {
            link.out.write(new Frame(Frame.DIFF, term, lastIndex, "").encode());
        } else {
            from = node.snapshots.send(link.out);
        }
        synchronized (links) {
            List<Entry> missing = log.range(from + 1, Long.MAX_VALUE);
            if (missing == null) {
                throw new IOException("the log no longer reaches back to " + from);
            }
            for (Entry entry : missing) {
                link.send(new Frame(Frame.APPEND, entry.term, entry.index, entry.text));
            }
            Link before = links.put(link.peer, link);
            if (before != null) {
                before.close();
            }
        }
        if (established) {
            link.send(new Frame(Frame.COMMIT, term, store.applied(), ""));
        }
        link.start(config.heartbeatMs, () -> heartbeat());
        tasks.joined(link.peer);
    }

    private Frame heartbeat() {
        return new Frame(Frame.COMMIT, term, established ? store.applied() : 0, "");
    }

    private void receive(Link link, Frame frame) throws IOException {
        String[] words = frame.text.split(" ", 3);
        switch (frame.type) {
            case Frame.ACK:
                if (frame.index > link.match) {
                    link.match = frame.index;
                    advance();
                }
                break;
            case Frame.REQUEST:
                accept(words[0], Long.parseLong(words[1]), words[2], link.peer);
                break;
            case Frame.RESULT:
                tasks.finished(words[0], words[1]);
                break;
            default:
                throw new IOException("unexpected frame " + frame.type);
        }
    }

    @Override
    public void submit(Pendings.Pending pending) {
        accept(pending.client, pending.id, pending.op, config.id);
    }

    private void accept(String client, long id, String op, String origin) {
        String[] words = op.split(" ");
        if (words[0].equals("renew")) {
            sessions.renewLater(words[1], words[2], result -> reply(origin, client, id, result));
        } else {
            proposer.add(new Proposer.Proposal(client, id, op, origin));
        }
    }

    /** Answers a request that does not end as a log entry. */
    void reply(String origin, String client, long id, String result) {
        if (origin.equals(config.id)) {
            node.pendings.complete(client, id, result);
        } else {
            sendTo(origin, new Frame(Frame.REPLY, term, id, client + " " + result));
        }
    }

    /** Proposes an operation of the leader itself. */
    synchronized void propose(String op) {
        proposer.add(new Proposer.Proposal("-" + config.id, ++sequence, op, config.id));
    }

    String proposeAndWait(String op) {
        Pendings.Pending pending;
        synchronized (this) {
            pending = node.pendings.add("-" + config.id, ++sequence, op);
        }
        pending.markSubmitted();
        proposer.add(new Proposer.Proposal(pending.client, pending.id, op, config.id));
        String result = pending.await(config.opTimeoutMs);
        node.pendings.remove(pending);
        return result;
    }

    /** Sends logged entries to all followers. The lock keeps them in order with a sync. */
    void replicate(List<Entry> entries) {
        synchronized (links) {
            for (Link link : links.values()) {
                for (Entry entry : entries) {
                    link.send(new Frame(Frame.APPEND, entry.term, entry.index, entry.text));
                }
            }
        }
        advance();
    }

    /** Commits what a majority has on disk, if it is of this term. */
    private synchronized void advance() {
        long[] have = new long[config.peers.size()];
        Arrays.fill(have, -1);
        int n = 0;
        have[n++] = proposer.durable();
        for (Link link : links.values()) {
            have[n++] = link.match;
        }
        Arrays.sort(have);
        long index = have[have.length - config.quorum()];
        if (index > committed && log.termAt(index) == term) {
            committed = index;
            notifyAll();
        }
    }

    private void applyLoop() {
        while (!stopped) {
            long upTo;
            synchronized (this) {
                while (committed <= store.applied() && !stopped) {
                    Node.waitOn(this, config.tickMs);
                }
                upTo = committed;
            }
            if (stopped) {
                return;
            }
            List<Entry> entries = log.range(store.applied() + 1, upTo);
            if (entries == null) {
                stepDown("the log no longer reaches back to " + store.applied());
                return;
            }
            for (Entry entry : entries) {
                String result = store.apply(entry);
                node.pendings.complete(entry.client, entry.id, result);
                proposer.applied(entry);
                tasks.applied(entry);
            }
            for (Link link : links.values()) {
                link.send(new Frame(Frame.COMMIT, term, upTo, ""));
            }
            if (!established && log.termAt(upTo) == term) {
                established = true;
                LOG.info("serving as leader of term " + term);
                node.startServing(this);
            }
        }
    }
}
