import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Numbers on the operand stack. Each comment says what its line gives, and which values its method
 * had within reach on the way; all methods but main and scenario are peeked at.
 */
public class Peeks {
    static final long START = 1000, LIMIT = 30, SINCE = 1040;

    public static void main(String[] args) throws Exception {
        for (int i = 0; i < 14; i++) {
            Object outcome = scenario(i);
            System.out.println(new StringBuilder().append(outcome).append(" saw").append(Seen.takeValues()));
        }
    }

    static Object scenario(int number) throws Exception {
        switch (number) {
            case 0: return waits(new Object()); // true saw 3
            case 1: return waitsFinely(new Object()); // true saw 2 500000
            case 2: return gets(new FutureTask<String>(new Callee(), "done")); // late saw MILLISECONDS=4
            case 3: return joins(new Thread()); // true saw 5
            case 4: return over(SINCE, START, LIMIT); // true saw 40 30
            case 5: return over(START, SINCE, LIMIT); // false saw -40 30
            case 6: return under(SINCE, START, LIMIT); // true saw 30 40
            case 7: return overInt(1040, 1000, 30); // true saw 40 30
            case 8: return overInt(1000, 1000, 30); // false saw 0 30
            case 9: return longAndInts(new Callee()); // 1099511627786 saw 1099511627776 3 7
            case 10: return intAndWide(); // 6.5 saw 4
            case 11: return intAndTwo(); // 9ab saw 9
            case 12: return intAndUnit(); // 5SECONDS saw SECONDS=5
            case 13: return longs(); // -2 saw -5 3
            default: throw new AssertionError();
        }
    }

    static boolean waits(Object on) throws InterruptedException {
        synchronized (on) {
            on.wait(3);
        }
        return true;
    }

    static boolean waitsFinely(Object on) throws InterruptedException {
        synchronized (on) {
            on.wait(2, 500000);
        }
        return true;
    }

    static String gets(FutureTask<String> task) throws Exception {
        try {
            return task.get(4, TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            return "late";
        }
    }

    static boolean joins(Thread thread) throws InterruptedException {
        thread.join(5);
        return true;
    }

    static boolean over(long now, long start, long limit) {
        if (now - start > limit) {
            return true;
        }
        return false;
    }

    static boolean under(long now, long start, long limit) {
        if (limit < now - start) {
            return true;
        }
        return false;
    }

    static boolean overInt(int now, int start, int limit) {
        if (now - start > limit) {
            return true;
        }
        return false;
    }

    static long longAndInts(Callee on) { return on.add(1L << 40, 3, 7); }

    static double intAndWide() { return Callee.mix(4, 2.5); }

    static String intAndTwo() { return Callee.join(9, "a", "b"); }

    static String intAndUnit() { return Callee.span(5, TimeUnit.SECONDS); }

    static long longs() { return Callee.sum(-5, 3); }
}

class Callee implements Runnable {
    public void run() {}

    long add(long a, int b, int c) { return a + b + c; }

    static double mix(int a, double b) { return a + b; }

    static String join(int a, String b, String c) {
        return Integer.toString(a).concat(b).concat(c);
    }

    static String span(int a, TimeUnit unit) {
        return Integer.toString(a).concat(unit.toString());
    }

    static long sum(long a, long b) { return a + b; }
}
