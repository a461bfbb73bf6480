import java.io.IOException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;

/** Hits from many virtual threads (plain ones before Java 21). */
public class Virtual {
    static final AtomicInteger thrown = new AtomicInteger();

    static void work() {
        for (int i = 0; i < 20; i++) {
            try {
                Io.a();
                Thread.yield();
            } catch (IOException e) {
                thrown.incrementAndGet();
            }
        }
    }

    public static void main(String[] args) throws Exception {
        CountDownLatch done = new CountDownLatch(50);
        Runnable task = () -> {
            work();
            done.countDown();
        };
        for (int i = 0; i < 50; i++) {
            try {
                Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, task);
            } catch (NoSuchMethodException e) {
                new Thread(task).start();
            }
        }
        done.await();
        System.out.println("thrown " + thrown);
    }
}
