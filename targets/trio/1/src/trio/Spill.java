package trio;

import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;

/**
 * Owns the file that large values move to, so that they do not fill the heap. It is this node's
 * own copy: each start and each snapshot from the leader begin a new file.
 */
final class Spill {
    private static final Logger LOG = Logger.of(Spill.class);

    /** Where a value lies in its file, and its checksum. */
    static final class Ref {
        private final FileChannel channel;
        private final long offset;
        private final int length;
        private final int checksum;

        Ref(FileChannel channel, long offset, int length, int checksum) {
            this.channel = channel;
            this.offset = offset;
            this.length = length;
            this.checksum = checksum;
        }
    }

    private final File dir;
    private int generation;
    private FileChannel channel;
    private long end;

    Spill(File dir) {
        this.dir = dir;
    }

    /** Begins a new file. Values in the one before stay readable while somebody refers to them. */
    synchronized void begin() throws IOException {
        File[] old = dir.listFiles((d, name) -> name.startsWith("spill."));
        File next = new File(dir, "spill." + (++generation));
        FileChannel opened = new RandomAccessFile(next, "rw").getChannel();
        opened.truncate(0);
        channel = opened;
        end = 0;
        if (old != null) {
            for (File f : old) {
                if (!f.equals(next) && !f.delete()) {
                    LOG.warn("cannot delete " + f.getName());
                }
            }
        }
    }

    synchronized Ref write(String text) throws IOException {
        if (channel == null) {
            throw new IOException("there is no spill file");
        }
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        ByteBuffer block = ByteBuffer.wrap(bytes);
        long at = end;
        while (block.hasRemaining()) {
            channel.write(block, at + block.position());
        }
        end = at + bytes.length;
        return new Ref(channel, at, bytes.length, Entry.checksum(bytes, 0, bytes.length));
    }

    /** The value for one client's read. */
    static String read(Ref ref) throws IOException {
        return new String(bytes(ref), StandardCharsets.UTF_8);
    }

    /** The value for a snapshot, which must never carry damage to other nodes. */
    static String readVerified(Ref ref) throws IOException {
        byte[] bytes = bytes(ref);
        if (Entry.checksum(bytes, 0, bytes.length) != ref.checksum) {
            throw new IOException("a spilled value fails its checksum at " + ref.offset);
        }
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private static byte[] bytes(Ref ref) throws IOException {
        ByteBuffer block = ByteBuffer.allocate(ref.length);
        while (block.hasRemaining()) {
            if (ref.channel.read(block, ref.offset + block.position()) < 0) {
                throw new IOException("the spill file ends before " + ref.offset);
            }
        }
        return block.array();
    }
}
