import java.io.ByteArrayOutputStream;
import java.io.InputStream;

/** Runs {@code Throws} again in a loader of its own, twice. */
public class Loaders {
    static class Own extends ClassLoader {
        Own() {
            super(Loaders.class.getClassLoader());
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (!name.startsWith("Throws") && !name.equals("Io")) {
                return super.loadClass(name, resolve);
            }
            synchronized (this) {
                Class<?> loaded = findLoadedClass(name);
                if (loaded != null) {
                    return loaded;
                }
                try (InputStream in = getResourceAsStream(name + ".class")) {
                    ByteArrayOutputStream out = new ByteArrayOutputStream();
                    byte[] buffer = new byte[4096];
                    for (int n = in.read(buffer); n > 0; n = in.read(buffer)) {
                        out.write(buffer, 0, n);
                    }
                    return defineClass(name, out.toByteArray(), 0, out.size());
                } catch (java.io.IOException e) {
                    throw new ClassNotFoundException(name, e);
                }
            }
        }
    }

    public static void main(String[] args) throws Exception {
        for (int i = 0; i < 2; i++) {
            Class<?> own = new Own().loadClass("Throws", true);
            System.out.println("own loader " + (own != Throws.class));
            own.getMethod("main", String[].class).invoke(null, (Object) new String[0]);
        }
    }
}
