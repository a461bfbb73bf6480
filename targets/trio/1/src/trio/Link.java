package trio;

import java.io.BufferedInputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.Socket;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** Owns one connection between leader and follower: frames in, and a queue of frames out. */
final class Link {
    private static final Logger LOG = Logger.of(Link.class);

    final String peer;
    final DataInputStream in;
    final OutputStream out;
    private final Socket socket;
    private final LinkedBlockingQueue<Frame> queue = new LinkedBlockingQueue<>();
    private volatile boolean closed;
    /** The last log index that the peer has on disk (leader's side only). */
    volatile long match = -1;

    Link(Socket socket, String peer, DataInputStream in, OutputStream out) {
        this.socket = socket;
        this.peer = peer;
        this.in = in;
        this.out = out;
    }

    static DataInputStream input(Socket socket) throws IOException {
        return new DataInputStream(new BufferedInputStream(socket.getInputStream()));
    }

    /** Starts the sender. When nothing is queued for idleMs it sends what idle says. */
    void start(final long idleMs, final Supplier<Frame> idle) {
        Node.spawn("send-" + peer, () -> {
            try {
                while (!closed) {
                    Frame frame = next(idleMs);
                    out.write((frame == null ? idle.get() : frame).encode());
                }
            } catch (IOException e) {
                if (!closed) {
                    LOG.warn("cannot send to " + peer + ": " + e);
                }
            } finally {
                close();
            }
        });
    }

    private Frame next(long idleMs) {
        try {
            return queue.poll(idleMs, TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            return null;
        }
    }

    void send(Frame frame) {
        queue.add(frame);
    }

    boolean isClosed() {
        return closed;
    }

    void close() {
        closed = true;
        closeQuietly(socket);
    }

    static void closeQuietly(Closeable open) {
        try {
            if (open != null) {
                open.close();
            }
        } catch (IOException e) {
            LOG.info("closing: " + e);
        }
    }
}
