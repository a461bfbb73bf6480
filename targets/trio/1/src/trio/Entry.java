package trio;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.zip.CRC32;

/** Owns one log entry and its checksummed form on disk. The text is "client id op args...". */
final class Entry {
    static final int HEAD_BYTES = 4 + 4;
    private static final int FIXED_BYTES = 8 + 8;
    static final int MAX_BYTES = 1 << 20;

    final long index;
    final long term;
    final String text;
    final String client;
    final long id;
    final String[] op;

    Entry(long index, long term, String text) {
        this.index = index;
        this.term = term;
        this.text = text;
        String[] words = text.split(" ");
        client = words[0];
        id = Long.parseLong(words[1]);
        op = new String[words.length - 2];
        System.arraycopy(words, 2, op, 0, op.length);
    }

    byte[] encode() {
        byte[] body = text.getBytes(StandardCharsets.UTF_8);
        ByteBuffer out = ByteBuffer.allocate(HEAD_BYTES + FIXED_BYTES + body.length);
        out.putInt(FIXED_BYTES + body.length).putInt(0).putLong(index).putLong(term).put(body);
        out.putInt(4, checksum(out.array(), HEAD_BYTES, FIXED_BYTES + body.length));
        return out.array();
    }

    /** The entry at the start of this content, or null when it is torn or damaged. */
    static Entry decode(ByteBuffer content) {
        if (content.remaining() < HEAD_BYTES) {
            return null;
        }
        int start = content.position();
        int length = content.getInt();
        int expected = content.getInt();
        if (length < FIXED_BYTES || length > MAX_BYTES || content.remaining() < length) {
            content.position(start);
            return null;
        }
        if (checksum(content.array(), content.position(), length) != expected) {
            content.position(start);
            return null;
        }
        long index = content.getLong();
        long term = content.getLong();
        byte[] body = new byte[length - FIXED_BYTES];
        content.get(body);
        return new Entry(index, term, new String(body, StandardCharsets.UTF_8));
    }

    static int checksum(byte[] bytes, int from, int length) {
        CRC32 crc = new CRC32();
        crc.update(bytes, from, length);
        return (int) crc.getValue();
    }
}
