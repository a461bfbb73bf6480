package trio;

import java.io.IOException;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;

/** Owns the datagram socket: votes and gossip go out here and come in by one thread. */
final class Datagrams {
    private static final Logger LOG = Logger.of(Datagrams.class);
    private static final int MAX_BYTES = 8192;

    private final Config config;
    private final Node node;
    private final DatagramSocket socket;

    Datagrams(Config config, Node node) throws IOException {
        this.config = config;
        this.node = node;
        socket = new DatagramSocket(new InetSocketAddress(config.addr, config.peerPort));
    }

    /** Sends a message to one peer. Like the network, it may fail to. */
    void send(String peer, String kind, String body) {
        byte[] bytes = (kind + " " + config.id + " " + body).getBytes(StandardCharsets.UTF_8);
        try {
            socket.send(new DatagramPacket(bytes, bytes.length, config.peerAddress(peer)));
        } catch (IOException e) {
            LOG.warn("cannot send " + kind + " to " + peer + ": " + e);
        }
    }

    void sendAll(String kind, String body) {
        for (String peer : config.others()) {
            send(peer, kind, body);
        }
    }

    void receiveLoop() {
        byte[] buffer = new byte[MAX_BYTES];
        while (true) {
            try {
                DatagramPacket packet = new DatagramPacket(buffer, buffer.length);
                socket.receive(packet);
                String text = new String(buffer, 0, packet.getLength(), StandardCharsets.UTF_8);
                String[] words = text.split(" ", 3);
                if (words.length == 3 && config.peers.containsKey(words[1])) {
                    dispatch(words[0], words[1], words[2]);
                }
            } catch (IOException e) {
                LOG.warn("a datagram is lost: " + e);
                Node.pause(100);
            }
        }
    }

    private void dispatch(String kind, String from, String body) throws IOException {
        if (kind.equals("GOSSIP")) {
            node.gossip.received(body);
        } else {
            node.election.received(kind, from, body.split(" "));
        }
    }
}
