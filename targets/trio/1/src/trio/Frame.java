package trio;

import java.io.DataInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/** Owns the wire format between leader and followers: type, term, index, text. */
final class Frame {
    static final byte REGISTER = 1;
    static final byte SNAPSHOT = 2;
    static final byte ITEM = 3;
    static final byte SNAPSHOT_END = 4;
    static final byte DIFF = 5;
    static final byte APPEND = 6;
    static final byte ACK = 7;
    static final byte COMMIT = 8;
    static final byte REQUEST = 9;
    static final byte REPLY = 10;
    static final byte TASK = 11;
    static final byte RESULT = 12;
    static final byte REFUSED = 13;
    static final byte LEAVE = 14;

    private static final int HEAD_BYTES = 4 + 1 + 8 + 8;
    private static final int MAX_BYTES = 1 << 20;

    final byte type;
    final long term;
    final long index;
    final String text;

    Frame(byte type, long term, long index, String text) {
        this.type = type;
        this.term = term;
        this.index = index;
        this.text = text;
    }

    byte[] encode() {
        byte[] body = text.getBytes(StandardCharsets.UTF_8);
        ByteBuffer out = ByteBuffer.allocate(HEAD_BYTES + body.length);
        out.putInt(body.length).put(type).putLong(term).putLong(index).put(body);
        return out.array();
    }

    static Frame read(DataInputStream in) throws IOException {
        int length = in.readInt();
        if (length < 0 || length > MAX_BYTES) {
            throw new IOException("frame of " + length + " bytes");
        }
        byte[] rest = new byte[HEAD_BYTES - 4 + length];
        in.readFully(rest);
        ByteBuffer head = ByteBuffer.wrap(rest);
        byte type = head.get();
        long term = head.getLong();
        long index = head.getLong();
        String text = new String(rest, HEAD_BYTES - 4, length, StandardCharsets.UTF_8);
        return new Frame(type, term, index, text);
    }
}
