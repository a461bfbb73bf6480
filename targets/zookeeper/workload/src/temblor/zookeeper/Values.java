package temblor.zookeeper;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Owns how a value becomes the bytes of a node: itself, or repeated up to a length. */
final class Values {
    private static final char BETWEEN = ';';

    private Values() {}

    /** All bytes follow from the value, so that every reader can tell damage. */
    static byte[] encode(String value, int length) {
        byte[] once = value.getBytes(StandardCharsets.US_ASCII);
        if (length <= once.length) {
            return once;
        }
        byte[] bytes = new byte[length];
        for (int i = 0; i < length; i++) {
            int at = i % (once.length + 1);
            bytes[i] = at == once.length ? (byte) BETWEEN : once[at];
        }
        return bytes;
    }

    /** Null when these bytes are of no value. */
    static String decode(byte[] bytes) {
        if (bytes == null) {
            return null;
        }
        String text = new String(bytes, StandardCharsets.ISO_8859_1);
        int between = text.indexOf(BETWEEN);
        String value = between < 0 ? text : text.substring(0, between);
        boolean whole = number(value) > 0 && Arrays.equals(bytes, encode(value, bytes.length));
        return whole ? value : null;
    }

    /** The count in a value such as `c1-17`; 0 when it is not one. */
    static long number(String value) {
        int dash = value.lastIndexOf('-');
        if (dash < 1 || dash == value.length() - 1 || value.length() - dash > 10) {
            return 0;
        }
        long number = 0;
        for (int i = dash + 1; i < value.length(); i++) {
            char c = value.charAt(i);
            if (c < '0' || c > '9') {
                return 0;
            }
            number = number * 10 + (c - '0');
        }
        return number;
    }
}
