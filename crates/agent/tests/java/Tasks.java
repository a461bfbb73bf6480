import java.io.IOException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** A task inside another that ends by an exception, and two timeouts. */
public class Tasks {
    static void outer() throws IOException {
        Io.a();
        try {
            inner(true);
        } catch (IllegalStateException e) {
            System.out.println("caught");
        }
        Io.b();
        inner(false);
        Io.a();
    }

    static void inner(boolean fails) throws IOException {
        Io.c();
        if (fails) {
            throw new IllegalStateException();
        }
        Io.c();
    }

    public static void main(String[] args) throws Exception {
        outer();
        Io.b();
        Object lock = new Object();
        synchronized (lock) {
            lock.wait(5);
        }
        new CountDownLatch(0).await(7, TimeUnit.SECONDS);
        System.out.println("made " + Io.made);
    }
}
