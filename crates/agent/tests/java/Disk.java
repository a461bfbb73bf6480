import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.StandardOpenOption;

/** File and socket I/O through the JDK, for hooks inside its own classes. */
public class Disk {
    interface Act {
        void run() throws IOException;
    }

    static void report(String what, Act act) {
        try {
            act.run();
            System.out.println(what + " fine");
        } catch (IOException e) {
            StackTraceElement top = e.getStackTrace()[0];
            System.out.println(what + " " + e.getClass().getName() + " " + e.getMessage()
                    + " in " + top.getClassName() + "." + top.getMethodName());
        }
    }

    public static void main(String[] args) throws Exception {
        File file = File.createTempFile("disk", "test");
        file.deleteOnExit();
        report("stream", () -> {
            try (FileOutputStream out = new FileOutputStream(file)) {
                out.write(new byte[] {1, 2, 3}, 0, 3);
            }
        });
        report("channel", () -> {
            try (FileChannel channel = FileChannel.open(file.toPath(), StandardOpenOption.WRITE)) {
                channel.write(ByteBuffer.wrap(new byte[] {1, 2, 3}));
            }
        });
        report("read", () -> {
            try (FileInputStream in = new FileInputStream(file)) {
                in.read(new byte[3], 0, 3);
            }
        });
        InetAddress loopback = InetAddress.getLoopbackAddress();
        report("socket", () -> {
            try (ServerSocketChannel server = ServerSocketChannel.open()) {
                server.bind(new InetSocketAddress(loopback, 0));
                try (SocketChannel client = SocketChannel.open(server.getLocalAddress())) {
                    client.write(ByteBuffer.wrap(new byte[] {1}));
                }
            }
        });
        report("connect", () -> {
            try (ServerSocket server = new ServerSocket(0, 5, loopback); Socket client = new Socket()) {
                client.connect(server.getLocalSocketAddress(), 5000);
            }
        });
    }
}
