/**
 * Ways to leave a method. Each comment says what its line gives, and how many methods were left on
 * the way; all methods but the constructor, main and scenario are watched.
 */
public class Leavings {
    static int finals;
    int field = 3;

    public static void main(String[] args) {
        for (int i = 0; i < 24; i++) {
            String outcome;
            finals = 0;
            try {
                outcome = String.valueOf(scenario(i));
            } catch (Throwable t) {
                outcome = t.getClass().getSimpleName();
            }
            StringBuilder line = new StringBuilder(outcome);
            line.append(" finals ").append(finals).append(" left ").append(Seen.takeLeft());
            System.out.println(line);
        }
    }

    static Object scenario(int number) {
        switch (number) {
            case 0: nothing(); return null; // null finals 0 left 1
            case 1: return number(4); // 8 finals 0 left 1
            case 2: return wide(1L << 40); // 1099511627777 finals 0 left 1
            case 3: return real(0.25); // 0.5 finals 0 left 1
            case 4: return new Leavings().text("a"); // a3 finals 0 left 1
            case 5: return choose(2); // 20 finals 0 left 1
            case 6: return choose(9); // -1 finals 0 left 1
            case 7: return thrower(); // IllegalStateException finals 0 left 1
            case 8: return outer(true); // IllegalStateException finals 0 left 3
            case 9: return catches(); // 5 finals 0 left 3
            case 10: return loop(8); // 4 finals 5 left 1
            case 11: return loop(3); // -3 finals 3 left 1
            case 12: return finallyWins(); // 7 finals 1 left 2
            case 13: return finallyThrows(); // UnsupportedOperationException finals 1 left 1
            case 14: return rethrows(); // IllegalStateException finals 1 left 2
            case 15: return endless(new int[5]); // ArrayIndexOutOfBoundsException finals 5 left 7
            case 16: return divide(1, 0); // ArithmeticException finals 0 left 1
            case 17: return length(null); // NullPointerException finals 0 left 1
            case 18: return depth(9); // 9 finals 0 left 10
            case 19: return locked(new Object(), true); // IllegalStateException finals 0 left 2
            case 20: return locked(new Object(), false); // 1 finals 0 left 1
            case 21: return wholly(1); // IllegalStateException finals 0 left 2
            case 22: return halfBuilt(); // IllegalStateException finals 0 left 2
            case 23: return cast("no number"); // ClassCastException finals 0 left 1
            default: throw new AssertionError();
        }
    }

    static void nothing() {}

    static int number(int a) { return a * 2; }

    static long wide(long a) { return a + 1; }

    static double real(double a) { return a * 2; }

    String text(String a) { return a.concat(String.valueOf(field)); }

    static int choose(int a) {
        switch (a) {
            case 1: return 10;
            case 2: return 20;
            case 3: return 30;
            default: return -1;
        }
    }

    static int thrower() { throw new IllegalStateException(); }

    static int outer(boolean deep) { return deep ? middle() : 0; }

    static int middle() { int a = 3; return a + thrower(); }

    static int catches() {
        try {
            return middle();
        } catch (IllegalStateException e) {
            return 5;
        }
    }

    static int loop(int to) {
        for (int i = 0; i < to; i++) {
            try {
                if (i == 2) {
                    continue;
                }
                if (i == 4) {
                    return i;
                }
            } finally {
                finals++;
            }
        }
        return -to;
    }

    @SuppressWarnings("finally")
    static int finallyWins() {
        try {
            return thrower();
        } finally {
            finals++;
            return 7;
        }
    }

    @SuppressWarnings("finally")
    static int finallyThrows() {
        try {
            return 1;
        } finally {
            finals++;
            throw new UnsupportedOperationException();
        }
    }

    static int rethrows() {
        try {
            return thrower();
        } catch (IllegalStateException e) {
            throw e;
        } finally {
            finals++;
        }
    }

    /** It has no return. */
    static int endless(int[] values) {
        for (int i = 0; ; i++) {
            values[i] = number(i);
            finals++;
        }
    }

    static int divide(int a, int b) { return a / b; }

    static int length(String a) { return a.length(); }

    static int depth(int a) { return a == 0 ? 0 : 1 + depth(a - 1); }

    static int locked(Object lock, boolean fail) {
        synchronized (lock) {
            long one = 1;
            return fail ? thrower() : (int) one;
        }
    }

    static synchronized int wholly(double a) {
        double b = a + 1;
        return (int) b + thrower();
    }

    /** An object that is not initialised lies on the stack. */
    static Object halfBuilt() { return new StringBuilder(thrower()); }

    static Integer cast(Object a) { return (Integer) a; }
}
