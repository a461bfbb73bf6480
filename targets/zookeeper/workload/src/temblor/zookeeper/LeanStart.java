package temblor.zookeeper;

import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/** Owns what keeps a client's start cheap. A trial starts several, on the cores of its cluster. */
final class LeanStart {
    private static final String PROVIDERS = "providers.security";
    /** As many as any JDK lists. */
    private static final int PROVIDER_COUNT = 20;

    private LeanStart() {}

    /** Has to come before anything that uses the library, or security of any kind. */
    static void prepare() {
        // A client that logs in would look up the names of addresses.
        System.setProperty("zookeeper.sasl.client", "false");
        leaveOutTls();
    }

    /**
     * Newer libraries set up TLS even for plain connections: a fourth of all that a client does.
     * Where no provider has it they go on without. The first one, with the digests, stays; the
     * others are replaced by it. In a file, as each change by a call would start the JDK's logging.
     */
    private static void leaveOutTls() {
        StringBuilder lines = new StringBuilder();
        for (int i = 2; i <= PROVIDER_COUNT; i++) {
            lines.append("security.provider.").append(i).append("=SUN\n");
        }
        try (FileOutputStream file = new FileOutputStream(PROVIDERS)) {
            file.write(lines.toString().getBytes(StandardCharsets.US_ASCII));
            System.setProperty("java.security.properties", PROVIDERS);
        } catch (IOException e) {
            // Slower, but not wrong.
            System.err.println("cannot write " + PROVIDERS + ": " + e);
        }
    }
}
