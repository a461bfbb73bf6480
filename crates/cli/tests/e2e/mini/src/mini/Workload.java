package mini;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/** One client: writes and reads its own keys. `mini.mode` makes it misbehave. */
public final class Workload {
    private static final int ROUNDS = 4;
    private final String client;
    private final String node;
    private final InetSocketAddress addr;
    private long id;
    private int ok;
    private int failed;
    private int wrong;
    private boolean stored;

    private Workload(String[] args) {
        client = args[0];
        node = args[1];
        addr = new InetSocketAddress(args[2], Integer.parseInt(args[3]));
    }

    public static void main(String[] args) {
        String mode = System.getProperty("mini.mode", "");
        if (mode.equals("garbage")) {
            System.out.println("Hello, this is not JSON");
        }
        if (mode.equals("quits")) {
            System.err.println("no quota left");
            System.exit(7);
        }
        Workload work = new Workload(args);
        for (int i = 0; i < ROUNDS; i++) {
            work.operation("put", "k" + i, "put " + work.client + i + " v" + i, "ok");
            work.operation("get", "k" + i, "get " + work.client + i, "ok v" + i);
        }
        System.out.printf("{\"client\":\"%s\",\"ok\":%d,\"fail\":%d,\"timeout\":0,\"wrong\":%d}%n",
                work.client, work.ok, work.failed, work.wrong);
    }

    private void operation(String op, String key, String request, String wanted) {
        id++;
        line(op, key, "invoke");
        String ev = "fail";
        try {
            String answer = ask(request);
            boolean lost = stored && !answer.startsWith("fail");
            ev = answer.equals(wanted) ? "ok" : lost ? "wrong" : "fail";
        } catch (IOException e) {
            // Not done: what the line says already.
        }
        stored = ev.equals("ok");
        ok += ev.equals("ok") ? 1 : 0;
        failed += ev.equals("fail") ? 1 : 0;
        wrong += ev.equals("wrong") ? 1 : 0;
        line(op, key, ev);
    }

    private String ask(String request) throws IOException {
        try (Socket socket = new Socket()) {
            socket.connect(addr, 5000);
            socket.setSoTimeout(30000);
            socket.getOutputStream().write((request + "\n").getBytes(StandardCharsets.UTF_8));
            String answer = new BufferedReader(new InputStreamReader(
                    socket.getInputStream(), StandardCharsets.UTF_8)).readLine();
            return answer == null ? "fail" : answer;
        }
    }

    private void line(String op, String key, String ev) {
        System.out.printf("{\"t\":%d,\"client\":\"%s\",\"node\":\"%s\",\"phase\":\"work\","
                + "\"op\":\"%s\",\"id\":%d,\"key\":\"%s\",\"ev\":\"%s\"}%n",
                System.currentTimeMillis(), client, node, op, id, key, ev);
    }
}
