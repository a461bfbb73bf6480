import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Timer;
import java.util.TimerTask;
import java.util.concurrent.locks.LockSupport;

/**
 * Shows that it lives: each of its parts counts into a file of its own, from 1 on. Whatever does
 * not come as expected ends it.
 *
 * `serve PORT` and `ask PORT` are two ends of one connection that is always full of lines; `all PORT`
 * is both, with a timer and threads that wait in different ways.
 */
public class Alive {
    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[1]);
        switch (args[0]) {
            case "serve":
                serve(new ServerSocket(port, 1, InetAddress.getLoopbackAddress()));
                break;
            case "ask":
                ask(port);
                break;
            default:
                all(port);
        }
    }

    interface Part {
        void run() throws Exception;
    }

    static void start(String name, Part part) {
        new Thread(() -> {
            try {
                part.run();
            } catch (Throwable failure) {
                failure.printStackTrace();
                Runtime.getRuntime().halt(9);
            }
        }, name).start();
    }

    static PrintWriter file(String name) throws Exception {
        return new PrintWriter(new java.io.FileOutputStream(name), true);
    }

    /** Reads slowly, so that lines pile up on the way, and sends each back. */
    static void serve(ServerSocket listener) throws Exception {
        PrintWriter log = file("served");
        Socket socket = listener.accept();
        BufferedReader in = new BufferedReader(new InputStreamReader(socket.getInputStream()));
        PrintWriter out = new PrintWriter(socket.getOutputStream(), true);
        for (long n = 1; ; n++) {
            expect(n, in.readLine());
            log.println(n);
            out.println(n);
            Thread.sleep(1);
        }
    }

    /** Sends ahead as much as fits in, and reads the answers. */
    static void ask(int port) throws Exception {
        Socket socket = new Socket(InetAddress.getLoopbackAddress(), port);
        start("sender", () -> {
            PrintWriter out = new PrintWriter(socket.getOutputStream(), true);
            for (long n = 1; ; n++) {
                out.println(n);
                if (out.checkError()) {
                    throw new IllegalStateException("cannot send " + n);
                }
            }
        });
        PrintWriter log = file("answered");
        BufferedReader in = new BufferedReader(new InputStreamReader(socket.getInputStream()));
        for (long n = 1; ; n++) {
            expect(n, in.readLine());
            log.println(n);
        }
    }

    static void expect(long n, String line) {
        if (!Long.toString(n).equals(line)) {
            throw new IllegalStateException("wanted " + n + ", got " + line);
        }
    }

    static void all(int port) throws Exception {
        ServerSocket listener = new ServerSocket(port, 1, InetAddress.getLoopbackAddress());
        start("server", () -> serve(listener));
        start("asker", () -> ask(port));
        PrintWriter ticks = file("ticked");
        new Timer("ticker").scheduleAtFixedRate(new TimerTask() {
            long n;

            @Override
            public void run() {
                ticks.println(++n);
            }
        }, 0, 5);
        Object lock = new Object();
        start("waiter", () -> {
            PrintWriter log = file("waited");
            for (long n = 1; ; n++) {
                synchronized (lock) {
                    lock.wait(3);
                }
                log.println(n);
            }
        });
        start("parker", () -> {
            PrintWriter log = file("parked");
            for (long n = 1; ; n++) {
                LockSupport.parkNanos(3_000_000);
                log.println(n);
            }
        });
        // Garbage, and now and then a collection, in the middle of which it may be frozen.
        PrintWriter log = file("allocated");
        byte[][] kept = new byte[64][];
        for (long n = 1; ; n++) {
            for (int i = 0; i < 100; i++) {
                kept[(int) ((n + i) % kept.length)] = new byte[1000];
            }
            if (n % 50 == 0) {
                System.gc();
            }
            log.println(n);
            Thread.sleep(2);
        }
    }
}
