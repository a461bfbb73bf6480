package trio;

import java.io.IOException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.function.Consumer;

/** Owns the leader's side of sessions: who was heard when, renewal, and expiry. */
final class Sessions {
    private static final Logger LOG = Logger.of(Sessions.class);
    private static final int ATTEMPTS = 2;

    private final Leader leader;
    private final Store store;
    private final Config config;
    private final SessionFile files;
    private final Map<String, Long> heard = new ConcurrentHashMap<>();
    private final ExecutorService renewals;

    Sessions(Leader leader, Store store, Config config) {
        this.leader = leader;
        this.store = store;
        this.config = config;
        files = new SessionFile(config.dataDir);
        renewals = Executors.newFixedThreadPool(4, task -> Node.thread("renewal", task));
    }

    /** Renews a session and its lease in the background; answer gets the outcome. */
    void renewLater(String sid, String lease, Consumer<String> answer) {
        try {
            renewals.execute(() -> answer.accept(renewWithRetry(sid, lease)));
        } catch (RejectedExecutionException e) {
            LOG.info("no renewal of " + sid + ": this leadership has ended");
        }
    }

    private String renewWithRetry(String sid, String lease) {
        for (int attempt = 1; attempt <= ATTEMPTS; attempt++) {
            try {
                return renew(sid, lease);
            } catch (IOException e) {
                LOG.warn("attempt " + attempt + " to renew " + sid + " failed", e);
            }
        }
        return "fail cannot record the renewal";
    }

    private String renew(String sid, String name) throws IOException {
        Store.Lease lease = store.lease(name);
        if (!store.sessions().containsKey(sid)) {
            return "fail session expired";
        }
        if (lease == null || !lease.owner.equals(sid)) {
            return "fail lease lost";
        }
        files.touch(sid, System.currentTimeMillis());
        heard.put(sid, System.nanoTime());
        return leader.proposeAndWait("lease-set " + name + " " + sid + " " + lease.generation + " "
                + (lease.renewals + 1));
    }

    /** Closes the sessions that were silent for too long. */
    void tick() {
        long now = System.nanoTime();
        for (String sid : store.sessions().keySet()) {
            Long last = heard.putIfAbsent(sid, now);
            if (last != null && (now - last) / 1_000_000L > config.sessionMs) {
                LOG.warn("session " + sid + " expired");
                heard.put(sid, now);
                files.remove(sid);
                leader.propose("session-close " + sid);
            }
        }
    }

    void stop() {
        renewals.shutdown();
    }
}
