package temblor.zookeeper;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/** Owns the digest of a tree as one node has it. Equal trees have equal digests on every node. */
final class Tree {
    private static final int WALKS = 3;

    private final ZooKeeper zooKeeper;

    Tree(ZooKeeper zooKeeper) {
        this.zooKeeper = zooKeeper;
    }

    /** The tree lists a node that it does not have. */
    static final class BrokenException extends Exception {
        private static final long serialVersionUID = 1;

        BrokenException(String message) {
            super(message);
        }
    }

    /** "none" when there is no such tree. */
    String digest(String root) throws KeeperException, InterruptedException, BrokenException {
        for (int i = 1; ; i++) {
            MessageDigest digest = sha256();
            try {
                walk(root, digest);
                return hex(digest.digest());
            } catch (KeeperException.NoNodeException e) {
                if (root.equals(e.getPath())) {
                    return "none";
                }
                // Between list and read, ephemeral nodes of others may go. No other ones do.
                if (i == WALKS) {
                    throw new BrokenException(e.getPath() + " is listed but not there");
                }
            }
        }
    }

    private void walk(String path, MessageDigest digest)
            throws KeeperException, InterruptedException {
        Stat stat = new Stat();
        byte[] data = zooKeeper.getData(path, false, stat);
        if (stat.getEphemeralOwner() != 0) {
            return;
        }
        add(digest, path);
        digest.update(data == null ? new byte[0] : data);
        add(digest, "version " + stat.getVersion() + " acl " + stat.getAversion());
        for (ACL acl : zooKeeper.getACL(path, new Stat())) {
            add(digest, acl.getPerms() + " " + acl.getId().getScheme() + " "
                    + who(acl.getId().getId()));
        }
        List<String> names = new ArrayList<>(zooKeeper.getChildren(path, false));
        Collections.sort(names);
        for (String name : names) {
            walk(path + "/" + name, digest);
        }
        add(digest, "end");
    }

    /** Newer versions show the hash of a password only to some. */
    private static String who(String id) {
        int colon = id.indexOf(':');
        return colon < 0 ? id : id.substring(0, colon);
    }

    /** Ends with a byte that is in no text, so that no two sequences look the same. */
    private static void add(MessageDigest digest, String text) {
        digest.update((byte) 0);
        digest.update(text.getBytes(StandardCharsets.UTF_8));
        digest.update((byte) 0);
    }

    private static MessageDigest sha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder(bytes.length * 2);
        for (byte b : bytes) {
            text.append(Character.forDigit(b >> 4 & 15, 16)).append(Character.forDigit(b & 15, 16));
        }
        return text.toString();
    }
}
