package temblor.zookeeper;

import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.List;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/** Owns what client libraries have only since 3.5, by reflection: one source for all versions. */
final class NewerClient {
    private static final Method CREATE = method(ZooKeeper.class, "create", String.class,
            byte[].class, List.class, CreateMode.class, Stat.class);

    private NewerClient() {}

    /** Creates, and fills `stat` where the library can. */
    static void create(ZooKeeper zooKeeper, String path, byte[] data, List<ACL> acl,
            CreateMode mode, Stat stat) throws KeeperException, InterruptedException {
        if (CREATE == null) {
            zooKeeper.create(path, data, acl, mode);
        } else {
            call(CREATE, zooKeeper, path, data, acl, mode, stat);
        }
    }

    static boolean canReconfigure() {
        return admin() != null;
    }

    static ZooKeeper openAdmin(String address, int sessionTimeoutMs, Watcher watcher)
            throws IOException {
        try {
            return (ZooKeeper) admin().getConstructor(String.class, int.class, Watcher.class)
                    .newInstance(address, sessionTimeoutMs, watcher);
        } catch (InvocationTargetException e) {
            throw new IOException(e.getCause());
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    static byte[] config(ZooKeeper zooKeeper, Stat stat)
            throws KeeperException, InterruptedException {
        Method getConfig = method(ZooKeeper.class, "getConfig", boolean.class, Stat.class);
        return (byte[]) call(getConfig, zooKeeper, false, stat);
    }

    /** `joining` a member's line or null, `leaving` a member's id or null. */
    static byte[] reconfigure(ZooKeeper admin, String joining, String leaving, Stat stat)
            throws KeeperException, InterruptedException {
        Method reconfigure = method(admin(), "reconfigure", String.class, String.class,
                String.class, long.class, Stat.class);
        return (byte[]) call(reconfigure, admin, joining, leaving, null, -1L, stat);
    }

    private static Class<?> admin() {
        try {
            return Class.forName("org.apache.zookeeper.admin.ZooKeeperAdmin");
        } catch (ClassNotFoundException e) {
            return null;
        }
    }

    private static Method method(Class<?> owner, String name, Class<?>... parameters) {
        try {
            return owner.getMethod(name, parameters);
        } catch (NoSuchMethodException e) {
            return null;
        }
    }

    private static Object call(Method method, Object target, Object... arguments)
            throws KeeperException, InterruptedException {
        try {
            return method.invoke(target, arguments);
        } catch (InvocationTargetException e) {
            Throwable cause = e.getCause();
            if (cause instanceof KeeperException) {
                throw (KeeperException) cause;
            }
            if (cause instanceof InterruptedException) {
                throw (InterruptedException) cause;
            }
            throw new IllegalStateException(cause);
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
    }
}
