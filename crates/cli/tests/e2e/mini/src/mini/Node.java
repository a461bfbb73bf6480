package mini;

import java.io.BufferedReader;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;

/** One node: keeps one value per key in a file. `mini.mode` makes it misbehave. */
public final class Node {
    private final File dir;

    private Node(File dir) {
        this.dir = dir;
    }

    public static void main(String[] args) throws Exception {
        String mode = System.getProperty("mini.mode", "");
        if (mode.equals("dies") && args[0].equals("n2")) {
            log("ERROR", "the vault is locked");
            System.exit(3);
        }
        InetAddress addr = InetAddress.getByName(args[1]);
        ServerSocket server = new ServerSocket(Integer.parseInt(args[2]), 50, addr);
        Node node = new Node(new File(args[3]));
        log("INFO", "serving as " + args[0]);
        boolean mute = mode.equals("mute") && args[0].equals("n2");
        while (true) {
            Socket client = server.accept();
            if (!mute) {
                new Thread(() -> node.serve(client), "client").start();
            }
        }
    }

    private void serve(Socket client) {
        try (Socket socket = client) {
            BufferedReader in = new BufferedReader(
                    new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String answer = answer(line.split(" ")) + "\n";
                socket.getOutputStream().write(answer.getBytes(StandardCharsets.UTF_8));
            }
        } catch (IOException e) {
            log("INFO", "a client left");
        }
    }

    private String answer(String[] words) {
        try {
            switch (words[0]) {
                case "health": return "ok well";
                case "put": put(words[1], words[2]); return "ok";
                case "get": return "ok " + get(words[1]);
                default: return "fail what is " + words[0];
            }
        } catch (IOException e) {
            return "fail " + e.getClass().getSimpleName();
        }
    }

    private synchronized void put(String key, String value) throws IOException {
        try (FileOutputStream file = new FileOutputStream(new File(dir, key))) {
            write(file, value);
            file.getFD().sync();
        }
    }

    /** The one bug there is: a write that fails is taken for one that did not. */
    private void write(FileOutputStream file, String value) {
        try {
            pour(file, value.getBytes(StandardCharsets.UTF_8));
        } catch (IOException e) {
            log("INFO", "wrote little");
        }
    }

    private void pour(FileOutputStream file, byte[] bytes) throws IOException {
        file.write(bytes[0]);
        pourRest(file, bytes);
    }

    private void pourRest(FileOutputStream file, byte[] bytes) throws IOException {
        file.write(bytes, 1, bytes.length - 1);
    }

    private synchronized String get(String key) throws IOException {
        return new String(Files.readAllBytes(new File(dir, key).toPath()), StandardCharsets.UTF_8);
    }

    private static void log(String level, String text) {
        System.out.println(level + " " + text);
    }
}
