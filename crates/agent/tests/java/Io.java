import java.io.IOException;

/** Calls that can be hooked: every call of these methods is a site. */
class Io {
    static int made;

    static void a() throws IOException {
        made++;
    }

    static void b() throws IOException {
        made++;
    }

    static void c() throws IOException {
        made++;
    }
}
