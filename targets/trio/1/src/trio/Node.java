package trio;

import java.io.File;
import java.io.IOException;

/** Owns the process: it starts the parts, then looks for a leader, leads or follows, forever. */
public final class Node {
    private static final Logger LOG = Logger.of(Node.class);
    private static final int START_ATTEMPTS = 3;
    private static final long RETRY_MS = 200;

    final Config config;
    final Pendings pendings = new Pendings();
    final Log log;
    final Store store;
    final Snapshots snapshots;
    final Worker worker;
    Ballot ballot;
    Membership membership;
    Datagrams datagrams;
    Gossip gossip;
    Election election;
    private final Recovery recovery;
    private volatile Leader leader;
    private volatile Follower follower;
    private volatile Upstream upstream;
    private volatile boolean resync;
    private volatile boolean broken;

    private Node(Config config) {
        this.config = config;
        log = new Log(config.dataDir, config.rollEvery);
        store = new Store(new Spill(config.dataDir), config.spillOver);
        snapshots = new Snapshots(config.dataDir, store, log);
        worker = new Worker(config.dataDir, this);
        recovery = new Recovery(config.dataDir);
    }

    public static void main(String[] args) {
        if (args.length != 1) {
            System.err.println("usage: trio.Node CONFIG.properties");
            System.exit(2);
        }
        try {
            Node node = new Node(Config.load(new File(args[0])));
            node.start();
            node.run();
        } catch (IOException | RuntimeException e) {
            LOG.error("cannot start", e);
            System.exit(1);
        }
    }

    private void start() throws IOException {
        if (!config.dataDir.isDirectory() && !config.dataDir.mkdirs()) {
            throw new IOException("cannot create " + config.dataDir);
        }
        for (int attempt = 1;; attempt++) {
            try {
                open();
                break;
            } catch (IOException e) {
                if (attempt == START_ATTEMPTS) {
                    throw e;
                }
                LOG.warn("attempt " + attempt + " to start failed", e);
                pause(RETRY_MS);
            }
        }
        Runtime.getRuntime().addShutdownHook(new Thread(recovery::stopped));
        gossip = new Gossip(config, membership, datagrams);
        election = new Election(this, ballot, log);
        spawn("datagrams", datagrams::receiveLoop);
        spawn("gossip", gossip::loop);
        spawn("snapshots", snapshots::loop);
        spawn("spill", store::spillLoop);
        spawn("worker", worker::loop);
        new ClientPort(this).start();
        LOG.info(config.id + " is up with log end " + log.lastIndex());
    }

    private void open() throws IOException {
        recovery.run(snapshots, log, store);
        ballot = new Ballot(config.dataDir);
        membership = new Membership(config);
        if (datagrams == null) {
            datagrams = new Datagrams(config, this);
        }
    }

    private void run() {
        while (true) {
            Election.Choice choice = election.elect();
            if (choice.leader.equals(config.id)) {
                new Leader(this, choice.term).lead();
            } else {
                LOG.info("following " + choice.leader + " in term " + choice.term);
                int attempt = 0;
                do {
                    new Follower(this, choice.leader, choice.term).follow(resync || broken);
                } while (resync && ++attempt < START_ATTEMPTS);
                resync = false;
            }
            pause(RETRY_MS / 10);
        }
    }

    /** Drops this node's copy and takes the leader's; returns when it serves again. */
    String resyncNow() {
        LOG.info("asked to resync");
        Follower current = follower;
        if (leader != null || current == null) {
            return leader != null ? "ok leader" : "fail not following";
        }
        resync = true;
        current.drop();
        long end = System.nanoTime() + config.opTimeoutMs * 1_000_000L;
        while (resync || upstream == null) {
            if (System.nanoTime() - end > 0) {
                return "unknown still syncing";
            }
            store.awaitChange(50);
        }
        return "ok";
    }

    /** True while this node's copy is half replaced: only a full sync makes it whole. */
    boolean isBroken() {
        return broken;
    }

    void setBroken() {
        broken = true;
    }

    void resynced() {
        resync = false;
        broken = false;
        for (Pendings.Pending pending : pendings.all()) {
            String result = store.outcome(pending.client, pending.id);
            if (result != null) {
                pendings.complete(pending.client, pending.id, result);
            }
        }
    }

    Leader leader() {
        return leader;
    }

    void setLeader(Leader leader) {
        this.leader = leader;
    }

    void setFollower(Follower follower) {
        this.follower = follower;
    }

    /** This way is open: requests go there, those that waited first. */
    void startServing(Upstream way) {
        upstream = way;
        for (Pendings.Pending pending : pendings.all()) {
            if (!pending.client.startsWith("-")) {
                pending.markSubmitted();
                way.submit(pending);
            }
        }
    }

    void stopServing(Upstream way) {
        if (upstream == way) {
            upstream = null;
        }
    }

    boolean isServing() {
        return upstream != null;
    }

    /** Sends a client's operation on its way and waits for the outcome. */
    String perform(String client, long id, String op) {
        Pendings.Pending pending = pendings.add(client, id, op);
        Upstream way = upstream;
        if (way != null) {
            pending.markSubmitted();
            way.submit(pending);
        }
        String result = pending.await(config.opTimeoutMs);
        pendings.remove(pending);
        return result;
    }

    /** A task is done: its result goes to the leader, who asks again if it gets lost. */
    void report(String task, String result) {
        Follower current = follower;
        if (current != null) {
            current.report(task, result);
        }
    }

    /** One line on how this node is, from fields that need no lock. */
    String health() {
        Upstream way = upstream;
        String role = way == null ? "looking" : way instanceof Leader ? "leader" : "follower";
        return (way == null ? "not-serving" : "ok") + " role=" + role + " epoch=" + ballot.term()
                + " applied=" + store.applied() + " members=" + membership.normal().size();
    }

    static Thread thread(String name, Runnable task) {
        Thread thread = new Thread(task, name);
        thread.setDaemon(true);
        thread.setUncaughtExceptionHandler((t, e) -> LOG.error("thread died", e));
        return thread;
    }

    static void spawn(String name, Runnable task) {
        thread(name, task).start();
    }

    static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            LOG.info("a pause was cut short");
        }
    }

    /** Waits on a monitor that the caller holds. */
    static void waitOn(Object monitor, long ms) {
        try {
            monitor.wait(ms);
        } catch (InterruptedException e) {
            LOG.info("a wait was cut short");
        }
    }
}
