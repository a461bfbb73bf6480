package trio;

/** Owns the rounds in which this node tells its peers what it knows of the members. */
final class Gossip {
    private final Config config;
    private final Membership membership;
    private final Datagrams datagrams;
    private boolean news;

    Gossip(Config config, Membership membership, Datagrams datagrams) {
        this.config = config;
        this.membership = membership;
        this.datagrams = datagrams;
    }

    /** Asks for a round now, not at the end of the interval. */
    synchronized void push() {
        news = true;
        notifyAll();
    }

    void received(String digest) {
        if (membership.merge(digest)) {
            membership.save();
        }
    }

    void loop() {
        while (true) {
            membership.forget();
            datagrams.sendAll("GOSSIP", membership.digest());
            synchronized (this) {
                try {
                    if (!news) {
                        wait(config.gossipMs);
                    }
                } catch (InterruptedException e) {
                    continue;
                }
                news = false;
            }
        }
    }
}
