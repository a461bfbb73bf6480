package trio;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/** Owns a node's settings: who it is, who its peers are, and every limit and interval. */
final class Config {
    final String id;
    final String addr;
    final int peerPort;
    final int clientPort;
    final File dataDir;
    /** All voters, this node included: name to address, in the order of the file. */
    final Map<String, String> peers = new LinkedHashMap<>();

    final long tickMs;
    final long heartbeatMs;
    final long silenceMs;
    final long electionMinMs;
    final long electionMaxMs;
    final long opTimeoutMs;
    final long sessionMs;
    final long gossipMs;
    final long forgetMs;
    final long workerGraceMs;
    final long stallMs;
    final int connectMs;
    final int rollEvery;
    final int spillOver;

    private Config(Properties p) {
        id = required(p, "id");
        addr = required(p, "addr");
        peerPort = Integer.parseInt(required(p, "peerPort"));
        clientPort = Integer.parseInt(required(p, "clientPort"));
        dataDir = new File(required(p, "dataDir"));
        for (String peer : required(p, "peers").split(",")) {
            String[] nameAt = peer.trim().split("@");
            peers.put(nameAt[0], nameAt[1]);
        }
        if (!peers.containsKey(id)) {
            throw new IllegalArgumentException("peers does not name this node: " + id);
        }
        tickMs = number(p, "tickMs", 1000);
        heartbeatMs = number(p, "heartbeatMs", 2000);
        silenceMs = number(p, "silenceMs", 12000);
        electionMinMs = number(p, "electionMinMs", 8000);
        electionMaxMs = number(p, "electionMaxMs", 16000);
        opTimeoutMs = number(p, "opTimeoutMs", 22000);
        sessionMs = number(p, "sessionMs", 20000);
        gossipMs = number(p, "gossipMs", 1000);
        forgetMs = number(p, "forgetMs", 30000);
        workerGraceMs = number(p, "workerGraceMs", 4000);
        stallMs = number(p, "stallMs", 8000);
        connectMs = (int) number(p, "connectMs", 4000);
        rollEvery = (int) number(p, "rollEvery", 25);
        spillOver = (int) number(p, "spillOver", 128);
    }

    static Config load(File file) throws IOException {
        Properties p = new Properties();
        try (InputStream in = new FileInputStream(file)) {
            p.load(in);
        }
        return new Config(p);
    }

    int quorum() {
        return peers.size() / 2 + 1;
    }

    List<String> others() {
        List<String> names = new ArrayList<>(peers.keySet());
        names.remove(id);
        return names;
    }

    InetSocketAddress peerAddress(String name) {
        return new InetSocketAddress(peers.get(name), peerPort);
    }

    private static String required(Properties p, String key) {
        String value = p.getProperty(key);
        if (value == null || value.trim().isEmpty()) {
            throw new IllegalArgumentException("missing setting: " + key);
        }
        return value.trim();
    }

    private static long number(Properties p, String key, long otherwise) {
        String value = p.getProperty(key);
        return value == null ? otherwise : Long.parseLong(value.trim());
    }
}
