import java.io.FileOutputStream;
import java.io.PrintWriter;

/** Reads both clocks, again and again: all into one file, and from threads that look for a step back. */
public class Watch {
    static final Object LOCK = new Object();
    static long lastNanos = Long.MIN_VALUE;
    static long lastMillis = Long.MIN_VALUE;
    static PrintWriter back;

    public static void main(String[] args) throws Exception {
        back = new PrintWriter(new FileOutputStream("back"), true);
        for (int i = 0; i < 3; i++) {
            boolean busy = i == 0;
            new Thread(() -> look(busy)).start();
        }
        PrintWriter log = new PrintWriter(new FileOutputStream("clocks"), true);
        while (true) {
            log.println(System.nanoTime() + " " + System.currentTimeMillis());
            Thread.sleep(20);
        }
    }

    static void look(boolean busy) {
        while (true) {
            synchronized (LOCK) {
                long nanos = System.nanoTime();
                long millis = System.currentTimeMillis();
                if (nanos < lastNanos || millis < lastMillis) {
                    back.println((nanos - lastNanos) + " ns, " + (millis - lastMillis) + " ms");
                }
                lastNanos = nanos;
                lastMillis = millis;
            }
            try {
                if (!busy) {
                    Thread.sleep(10);
                }
            } catch (InterruptedException gone) {
                return;
            }
        }
    }
}
