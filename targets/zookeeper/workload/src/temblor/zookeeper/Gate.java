package temblor.zookeeper;

import java.io.BufferedReader;
import java.io.File;
import java.io.FileReader;
import java.io.IOException;

/**
 * Owns the wait between connecting and the first operation. The cluster may be warmed and frozen
 * meanwhile and go on as many; each is told its own seed when it is let in.
 */
final class Gate {
    private static final File HERE = new File("here");
    private static final File WARM = new File("warm");
    private static final File WARMED = new File("warmed");
    private static final File GO = new File("go");
    private static final long POLL_MS = 20;

    private Gate() {}

    static void pass(Settings settings, Session session) {
        try {
            HERE.createNewFile();
            boolean warmed = false;
            while (!GO.exists()) {
                if (!warmed && WARM.exists()) {
                    warmed = true;
                    new WarmUp(settings, session).run();
                    WARMED.createNewFile();
                }
                Session.pause(POLL_MS);
            }
            try (BufferedReader go = new BufferedReader(new FileReader(GO))) {
                settings.update(go.readLine());
            }
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }
}
