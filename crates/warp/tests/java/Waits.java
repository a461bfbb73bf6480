import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.channels.Selector;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** Waits in every way a JVM can, all at once, and prints how long each took by both clocks. */
public class Waits {
    static final InetAddress LOOPBACK = InetAddress.getLoopbackAddress();

    interface Wait {
        void forMillis(int millis) throws Exception;
    }

    static final List<Thread> THREADS = new ArrayList<>();

    static void start(String name, int millis, Wait wait) {
        Thread thread = new Thread(() -> {
            try {
                long nanos = System.nanoTime();
                long wall = System.currentTimeMillis();
                wait.forMillis(millis);
                long byNanos = (System.nanoTime() - nanos) / 1_000_000;
                long byWall = System.currentTimeMillis() - wall;
                System.out.println(name + " " + byNanos + " " + byWall);
            } catch (Throwable t) {
                System.out.println(name + " failed: " + t);
            }
        });
        THREADS.add(thread);
        thread.start();
    }

    static void objectWait(int millis) throws Exception {
        Object lock = new Object();
        long end = System.nanoTime() + millis * 1_000_000L;
        synchronized (lock) {
            for (long left; (left = end - System.nanoTime()) > 0; ) {
                TimeUnit.NANOSECONDS.timedWait(lock, left);
            }
        }
    }

    static void parkNanos(int millis) {
        long end = System.nanoTime() + millis * 1_000_000L;
        for (long left; (left = end - System.nanoTime()) > 0; ) {
            LockSupport.parkNanos(left);
        }
    }

    static void parkUntil(int millis) {
        long end = System.currentTimeMillis() + millis;
        while (System.currentTimeMillis() < end) {
            LockSupport.parkUntil(end);
        }
    }

    static void scheduled(int millis) throws Exception {
        ScheduledExecutorService executor = Executors.newScheduledThreadPool(1);
        executor.schedule(() -> { }, millis, TimeUnit.MILLISECONDS).get();
        executor.shutdown();
    }

    static void expectTimeout(boolean timedOut) {
        if (!timedOut) {
            throw new IllegalStateException("it did not time out");
        }
    }

    static void accept(int millis) throws Exception {
        try (ServerSocket server = new ServerSocket(0, 1, LOOPBACK)) {
            server.setSoTimeout(millis);
            server.accept();
            expectTimeout(false);
        } catch (SocketTimeoutException expected) {
            expectTimeout(true);
        }
    }

    static void read(int millis) throws Exception {
        try (ServerSocket server = new ServerSocket(0, 1, LOOPBACK);
                Socket socket = new Socket(LOOPBACK, server.getLocalPort())) {
            socket.setSoTimeout(millis);
            socket.getInputStream().read();
            expectTimeout(false);
        } catch (SocketTimeoutException expected) {
            expectTimeout(true);
        }
    }

    static void receive(int millis) throws Exception {
        try (DatagramSocket socket = new DatagramSocket(0, LOOPBACK)) {
            socket.setSoTimeout(millis);
            socket.receive(new DatagramPacket(new byte[1], 1));
            expectTimeout(false);
        } catch (SocketTimeoutException expected) {
            expectTimeout(true);
        }
    }

    static void select(int millis) throws Exception {
        try (Selector selector = Selector.open()) {
            long end = System.nanoTime() + millis * 1_000_000L;
            for (long left; (left = end - System.nanoTime()) > 0; ) {
                selector.select((left + 999_999) / 1_000_000);
            }
        }
    }

    static void process(int millis) throws Exception {
        Process cat = new ProcessBuilder("cat").start();
        try {
            expectTimeout(!cat.waitFor(millis, TimeUnit.MILLISECONDS));
        } finally {
            cat.destroyForcibly().waitFor();
        }
    }

    public static void main(String[] args) throws Exception {
        int millis = Integer.parseInt(args[0]);
        start("Thread.sleep", millis, Thread::sleep);
        start("Object.wait", millis, Waits::objectWait);
        start("LockSupport.parkNanos", millis, Waits::parkNanos);
        start("LockSupport.parkUntil", millis, Waits::parkUntil);
        start("BlockingQueue.poll", millis,
            m -> expectTimeout(new LinkedBlockingQueue<>().poll(m, TimeUnit.MILLISECONDS) == null));
        start("ScheduledExecutor", millis, Waits::scheduled);
        start("Selector.select", millis, Waits::select);
        start("Socket.read", millis, Waits::read);
        start("ServerSocket.accept", millis, Waits::accept);
        start("DatagramSocket.receive", millis, Waits::receive);
        start("Process.waitFor", millis, Waits::process);
        for (Thread thread : THREADS) {
            thread.join();
        }
    }
}
