import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.channels.SocketChannel;

/** Connects in every way and prints the address the other side sees. */
public class Peers {
    static void accepted(String name, ServerSocket server) throws Exception {
        try (Socket peer = server.accept()) {
            System.out.println(name + " " + peer.getInetAddress().getHostAddress());
        }
    }

    public static void main(String[] args) throws Exception {
        InetAddress loopback = InetAddress.getByName("127.0.0.1");
        try (ServerSocket server = new ServerSocket(0, 50, loopback)) {
            server.setSoTimeout(600_000);
            InetSocketAddress there = new InetSocketAddress(loopback, server.getLocalPort());
            try (Socket socket = new Socket()) {
                socket.connect(there);
                accepted("Socket", server);
            }
            try (Socket socket = new Socket()) {
                socket.connect(there, 600_000);
                accepted("SocketWithTimeout", server);
            }
            try (SocketChannel channel = SocketChannel.open(there)) {
                accepted("SocketChannel", server);
            }
            try (SocketChannel channel = SocketChannel.open()) {
                channel.configureBlocking(false);
                channel.connect(there);
                accepted("NonBlockingChannel", server);
                while (!channel.finishConnect()) {
                    Thread.sleep(1);
                }
            }
            try (Socket socket = new Socket()) {
                socket.bind(new InetSocketAddress("127.0.0.5", 0));
                socket.connect(there);
                accepted("BoundSocket", server);
            }
        }
    }
}
