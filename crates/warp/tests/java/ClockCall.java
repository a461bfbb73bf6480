/**
 * Prints the real nanoseconds one System.nanoTime takes, best of many rounds. The argument is
 * the factor the clock runs at: what is measured with a fast clock looks that much longer.
 * Fails if the clock ever runs backwards, in this thread or between two.
 */
public class ClockCall {
    /** Rounds are short, so that on a busy machine some of them are not interrupted. */
    static final int CALLS = 10_000;
    static final int ROUNDS = 1_000;
    static volatile long latest;

    static double round() {
        long start = System.nanoTime();
        long before = start;
        for (int i = 0; i < CALLS; i++) {
            long now = System.nanoTime();
            if (now < before) {
                throw new IllegalStateException("backwards by " + (before - now));
            }
            before = now;
        }
        return (before - start) / (double) CALLS;
    }

    /** Each reads the clock after it saw what the other published, so it may never read less. */
    static void betweenThreads() throws Exception {
        Thread publisher = new Thread(() -> {
            for (int i = 0; i < 50 * CALLS; i++) {
                latest = System.nanoTime();
            }
        });
        latest = System.nanoTime();
        publisher.start();
        while (publisher.isAlive()) {
            long seen = latest;
            long now = System.nanoTime();
            if (now < seen) {
                throw new IllegalStateException("backwards between threads by " + (seen - now));
            }
        }
    }

    public static void main(String[] args) throws Exception {
        double factor = Double.parseDouble(args[0]);
        double best = Double.MAX_VALUE;
        for (int i = 0; i < ROUNDS; i++) {
            best = Math.min(best, round());
        }
        betweenThreads();
        System.out.printf(java.util.Locale.ROOT, "%.1f%n", best / factor);
    }
}
