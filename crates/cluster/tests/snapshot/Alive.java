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
 * `serve PORT COUNT` and `ask PORT COUNT` are the ends of connections that are always full of lines;
 * `all PORT` is both, with a timer and threads that wait in different ways.
 */
public class Alive {
    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[1]);
        switch (args[0]) {
            case "serve":
                for (int i = 0; i < Integer.parseInt(args[2]); i++) {
                    ServerSocket listener = listen(port + i);
                    String name = "served" + i;
                    start(name, () -> serve(listener, name));
                }
                break;
            case "ask":
                for (int i = 0; i < Integer.parseInt(args[2]); i++) {
                    Socket socket = new Socket(InetAddress.getLoopbackAddress(), port + i);
                    String name = "answered" + i;
                    start(name, () -> ask(socket, name));
                }
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

    static ServerSocket listen(int port) throws Exception {
        return new ServerSocket(port, 1, InetAddress.getLoopbackAddress());
    }

    /** Reads slowly, so that lines pile up on the way, and sends each back. */
    static void serve(ServerSocket listener, String name) throws Exception {
        PrintWriter log = file(name);
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
    static void ask(Socket socket, String name) throws Exception {
        start("sender", () -> {
            PrintWriter out = new PrintWriter(socket.getOutputStream(), true);
            for (long n = 1; ; n++) {
                out.println(n);
                if (out.checkError()) {
                    throw new IllegalStateException("cannot send " + n);
                }
            }
        });
        PrintWriter log = file(name);
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
        ServerSocket listener = listen(port);
        Socket socket = new Socket(InetAddress.getLoopbackAddress(), port);
        start("server", () -> serve(listener, "served"));
        start("asker", () -> ask(socket, "answered"));
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
