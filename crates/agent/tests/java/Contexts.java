import java.io.IOException;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;

/** Reaches the same site by different ways; reflection and proxies must not make new contexts. */
public class Contexts {
    static String way = "";

    static void site() {
        try {
            Io.a();
        } catch (IOException e) {
            System.out.println("thrown by way of " + way);
        }
    }

    static void left() {
        way = "left";
        site();
    }

    static void right() {
        way = "right";
        site();
    }

    public static void reflected() {
        way = "reflection";
        site();
    }

    public static void main(String[] args) throws Exception {
        for (int i = 0; i < 3; i++) {
            left();
        }
        for (int i = 0; i < 3; i++) {
            right();
        }
        Method method = Contexts.class.getMethod("reflected");
        for (int i = 0; i < 40; i++) {
            method.invoke(null);
        }
        for (int i = 0; i < 3; i++) {
            proxied();
        }
    }

    static void proxied() {
        way = "proxy";
        InvocationHandler handler = (proxy, method, arguments) -> {
            site();
            return null;
        };
        Runnable runnable = (Runnable) Proxy.newProxyInstance(
                Contexts.class.getClassLoader(), new Class<?>[] {Runnable.class}, handler);
        runnable.run();
    }
}
