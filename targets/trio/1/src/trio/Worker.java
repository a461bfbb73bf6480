package trio;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;

/** Owns the execution of tasks on this node: one at a time, with a scratch file each. */
final class Worker {
    private static final Logger LOG = Logger.of(Worker.class);
    private static final int ATTEMPTS = 3;

    private final File dir;
    private final Node node;
    private final LinkedBlockingQueue<String[]> queue = new LinkedBlockingQueue<>();
    private final Set<String> accepted = ConcurrentHashMap.newKeySet();

    Worker(File dir, Node node) {
        this.dir = dir;
        this.node = node;
    }

    /** Takes a task from the leader; one that is already here is not taken twice. */
    void accept(String id, String payload) {
        if (accepted.add(id)) {
            queue.add(new String[] {id, payload});
        }
    }

    void loop() {
        while (true) {
            String[] task;
            try {
                task = queue.take();
            } catch (InterruptedException e) {
                continue;
            }
            String result = "failed";
            for (int attempt = 1; attempt <= ATTEMPTS; attempt++) {
                try {
                    result = execute(task[0], task[1]);
                    break;
                } catch (IOException e) {
                    LOG.warn("attempt " + attempt + " of task " + task[0] + " failed", e);
                }
            }
            accepted.remove(task[0]);
            node.report(task[0], result);
        }
    }

    private String execute(String id, String payload) throws IOException {
        File scratch = new File(dir, "task." + id.replace('/', '_'));
        byte[] bytes = payload.getBytes(StandardCharsets.UTF_8);
        try (FileOutputStream out = new FileOutputStream(scratch)) {
            out.write(bytes);
        }
        int sum = Entry.checksum(bytes, 0, bytes.length);
        if (!scratch.delete()) {
            LOG.warn("cannot delete " + scratch.getName());
        }
        return Integer.toHexString(sum);
    }
}
