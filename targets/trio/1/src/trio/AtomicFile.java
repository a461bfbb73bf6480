package trio;

import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;

/** Owns the way small files are replaced: checksummed, synced, then renamed over the old one. */
final class AtomicFile {
    private static final int MAGIC = 0x7452494f;
    private static final int HEAD_BYTES = 12;

    private AtomicFile() {
    }

    static void write(File file, byte[] content) throws IOException {
        File tmp = new File(file.getPath() + ".tmp");
        ByteBuffer out = ByteBuffer.allocate(HEAD_BYTES + content.length);
        out.putInt(MAGIC).putInt(content.length);
        out.putInt(Entry.checksum(content, 0, content.length)).put(content);
        try (FileOutputStream stream = new FileOutputStream(tmp)) {
            stream.write(out.array());
            stream.getChannel().force(true);
        }
        Files.move(tmp.toPath(), file.toPath(), StandardCopyOption.ATOMIC_MOVE,
                StandardCopyOption.REPLACE_EXISTING);
    }

    static byte[] read(File file) throws IOException {
        byte[] bytes = new byte[(int) file.length()];
        try (FileInputStream stream = new FileInputStream(file)) {
            int at = 0;
            while (at < bytes.length) {
                int n = stream.read(bytes, at, bytes.length - at);
                if (n < 0) {
                    throw new IOException(file.getName() + " is shorter than it was");
                }
                at += n;
            }
        }
        if (bytes.length < HEAD_BYTES) {
            throw new IOException(file.getName() + " is too short");
        }
        ByteBuffer in = ByteBuffer.wrap(bytes);
        int magic = in.getInt();
        int length = in.getInt();
        int expected = in.getInt();
        if (magic != MAGIC || length != in.remaining()
                || Entry.checksum(bytes, HEAD_BYTES, length) != expected) {
            throw new IOException(file.getName() + " fails its checksum");
        }
        byte[] content = new byte[length];
        in.get(content);
        return content;
    }
}
