import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;

/**
 * Loads and links every class of a list, without initialising any, and writes one line for each.
 *
 * Arguments: the list (a binary name a line), the result file, and the class path to load from;
 * without a class path the system loader is asked. Asking for a class's declared fields makes the
 * JVM link it, which is when it verifies; the test's negative control shows that it does.
 */
public class LinkAll {
    public static void main(String[] args) throws Exception {
        ClassLoader loader = ClassLoader.getSystemClassLoader();
        if (args.length > 2) {
            String[] roots = args[2].split(File.pathSeparator);
            URL[] urls = new URL[roots.length];
            for (int i = 0; i < roots.length; i++) {
                urls[i] = new File(roots[i]).toURI().toURL();
            }
            loader = new URLClassLoader(urls, loader);
        }
        try (BufferedReader list = Files.newBufferedReader(Paths.get(args[0]), StandardCharsets.UTF_8);
                BufferedWriter out = Files.newBufferedWriter(Paths.get(args[1]), StandardCharsets.UTF_8)) {
            for (String name = list.readLine(); name != null; name = list.readLine()) {
                out.write(name + "\t" + link(name, loader) + "\n");
            }
        }
        // Loading the desktop classes may have started threads that would keep this JVM alive.
        Runtime.getRuntime().halt(0);
    }

    private static String link(String name, ClassLoader loader) {
        try {
            Class.forName(name, false, loader).getDeclaredFields();
            return "linked";
        } catch (Throwable t) {
            String message = String.valueOf(t.getMessage());
            return t.getClass().getSimpleName() + "\t" + message.replaceAll("\\s+", " ");
        }
    }
}
