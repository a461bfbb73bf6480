import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * What a hook costs: {@code HookBench PERCENT VARIANT...} prints one line {@code name nanoseconds}
 * for each measure. PERCENT scales the number of rounds (100 is a real measurement).
 *
 * Each variant is one method with one call of {@link #call}; hooked or not, that call is the
 * site. The state of the board decides what a hit there does:
 *
 * empty: not hooked. disarmed: arm byte 0. other: the current step waits for this site on another
 * node. record: hits are recorded without stacks (at most 60,000). asked: the current step asks,
 * the lab answers "go on" (7,500 times); prints asked-p50 and asked-p99.
 */
public class HookBench {
    private static final int ROUNDS = 25;
    static long sink;

    static long call(long value) {
        return value ^ (value << 1);
    }

    static void empty(int count) {
        long sum = sink;
        for (int i = 0; i < count; i++) {
            sum = call(sum + i);
        }
        sink = sum;
    }

    static void disarmed(int count) {
        long sum = sink;
        for (int i = 0; i < count; i++) {
            sum = call(sum + i);
        }
        sink = sum;
    }

    static void other(int count) {
        long sum = sink;
        for (int i = 0; i < count; i++) {
            sum = call(sum + i);
        }
        sink = sum;
    }

    static void record(int count) {
        long sum = sink;
        for (int i = 0; i < count; i++) {
            sum = call(sum + i);
        }
        sink = sum;
    }

    static void asked(int count) {
        long sum = sink;
        for (int i = 0; i < count; i++) {
            sum = call(sum + i);
        }
        sink = sum;
    }

    static void run(String variant, int count) {
        switch (variant) {
            case "empty":
                empty(count);
                break;
            case "disarmed":
                disarmed(count);
                break;
            case "other":
                other(count);
                break;
            case "record":
                record(count);
                break;
            case "asked":
                asked(count);
                break;
            default:
                throw new IllegalArgumentException("unknown variant " + variant);
        }
    }

    static int hitsPerRound(String variant, double scale) {
        int most = variant.equals("record") ? 2_400 : variant.equals("other") ? 400_000 : 4_000_000;
        return (int) Math.max(100, most * scale);
    }

    /**
     * The best round of each variant: what disturbs a round only ever makes it slower. Rounds take
     * turns, so that a busy spell of the machine does not hit one variant alone.
     */
    static double[] best(List<String> variants, double scale) {
        double[] best = new double[variants.size()];
        Arrays.fill(best, Double.MAX_VALUE);
        for (int round = 0; round < ROUNDS; round++) {
            for (int i = 0; i < best.length; i++) {
                int count = hitsPerRound(variants.get(i), scale);
                long start = System.nanoTime();
                run(variants.get(i), count);
                best[i] = Math.min(best[i], (double) (System.nanoTime() - start) / count);
            }
        }
        return best;
    }

    /** Each call timed by itself, after a quarter of them as warm-up. */
    static void percentiles(String variant, int count) {
        run(variant, Math.max(1, count / 4));
        long[] times = new long[count];
        for (int i = 0; i < count; i++) {
            long start = System.nanoTime();
            run(variant, 1);
            times[i] = System.nanoTime() - start;
        }
        Arrays.sort(times);
        System.out.println(variant + "-p50 " + times[count / 2]);
        System.out.println(variant + "-p99 " + times[(int) (count * 0.99)]);
    }

    public static void main(String[] args) {
        double scale = Double.parseDouble(args[0]) / 100;
        List<String> variants = new ArrayList<>(Arrays.asList(args).subList(1, args.length));
        boolean asks = variants.remove("asked");
        double[] best = best(variants, scale);
        for (int i = 0; i < best.length; i++) {
            System.out.println(variants.get(i) + " " + Math.round(best[i] * 1000) / 1000.0);
        }
        if (asks) {
            percentiles("asked", (int) Math.max(10, 6_000 * scale));
        }
    }
}
