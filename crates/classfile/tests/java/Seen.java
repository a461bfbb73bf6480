import java.util.ArrayList;
import java.util.List;

/** What the inserted calls report; the fixtures read it. */
public class Seen {
    private static final List<Integer> inside = new ArrayList<Integer>();
    private static int left;
    private static final StringBuilder values = new StringBuilder();

    public static void entered(int method) {
        inside.add(method);
    }

    /** Methods are left in the reverse of the order in which they were entered, each once. */
    public static void left(int method) {
        if (inside.isEmpty() || inside.remove(inside.size() - 1) != method) {
            System.out.println("left " + method + " out of order");
        }
        left++;
    }

    public static void peeked(Object unit, long value, int id) {
        values.append(' ');
        if (id < 100000) { // an id that needs a constant, so that it is seen to arrive
            values.append("id ").append(id).append(' ');
        }
        if (unit != null) {
            values.append(unit).append('=');
        }
        values.append(value);
    }

    /** How many methods were left since the last question. */
    static int takeLeft() {
        int was = left;
        left = 0;
        if (!inside.isEmpty()) {
            System.out.println("still inside " + inside);
        }
        return was;
    }

    static String takeValues() {
        String was = values.toString();
        values.setLength(0);
        return was;
    }
}
