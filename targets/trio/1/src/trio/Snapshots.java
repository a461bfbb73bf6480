package trio;

import java.io.DataInputStream;
import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.TreeMap;
import java.util.zip.CRC32;

/** Owns snapshots: files named snapshot.INDEX on disk, and the stream to a joining follower. */
final class Snapshots {
    private static final Logger LOG = Logger.of(Snapshots.class);
    private static final int KEPT = 2;

    static final class Loaded {
        final long index;
        final long term;
        final List<String> lines;

        Loaded(long index, long term, List<String> lines) {
            this.index = index;
            this.term = term;
            this.lines = lines;
        }
    }

    private final File dir;
    private final Store store;
    private final Log log;
    private final Object request = new Object();
    private boolean wanted;

    Snapshots(File dir, Store store, Log log) {
        this.dir = dir;
        this.store = store;
        this.log = log;
    }

    void request() {
        synchronized (request) {
            wanted = true;
            request.notifyAll();
        }
    }

    /** Takes snapshots when asked, in a thread of its own. */
    void loop() {
        while (true) {
            synchronized (request) {
                while (!wanted) {
                    try {
                        request.wait();
                    } catch (InterruptedException e) {
                        continue;
                    }
                }
                wanted = false;
            }
            try {
                Store.Image image = store.image();
                save(image.index, image.term, image.lines());
                purge();
            } catch (IOException e) {
                LOG.warn("no snapshot this time", e);
            }
        }
    }

    synchronized void save(long index, long term, List<String> lines) throws IOException {
        StringBuilder text = new StringBuilder(lines.size() * 24);
        text.append(index).append(' ').append(term).append('\n');
        for (String line : lines) {
            text.append(line).append('\n');
        }
        byte[] bytes = text.toString().getBytes(StandardCharsets.UTF_8);
        AtomicFile.write(new File(dir, "snapshot." + index), bytes);
    }

    /** The newest snapshot that is whole; the empty one when there is none. */
    Loaded load() {
        for (File file : files().descendingMap().values()) {
            try {
                String text = new String(AtomicFile.read(file), StandardCharsets.UTF_8);
                List<String> lines = new ArrayList<>(Arrays.asList(text.split("\n")));
                String[] head = lines.remove(0).split(" ");
                return new Loaded(Long.parseLong(head[0]), Long.parseLong(head[1]), lines);
            } catch (IOException e) {
                LOG.warn("cannot use " + file.getName() + ", trying an older one: " + e);
            }
        }
        return new Loaded(0, 0, Collections.<String>emptyList());
    }

    private void purge() throws IOException {
        TreeMap<Long, File> found = files();
        while (found.size() > KEPT) {
            File oldest = found.pollFirstEntry().getValue();
            if (!oldest.delete()) {
                throw new IOException("cannot delete " + oldest);
            }
        }
        if (found.size() == KEPT) {
            log.purge(found.firstKey());
        }
    }

    private TreeMap<Long, File> files() {
        TreeMap<Long, File> found = new TreeMap<>();
        File[] all = dir.listFiles((d, name) -> name.matches("snapshot\\.\\d+"));
        if (all != null) {
            for (File f : all) {
                found.put(Long.parseLong(f.getName().substring(9)), f);
            }
        }
        return found;
    }

    /** Streams the current state to a follower; returns the index it stands at. */
    long send(OutputStream out) throws IOException {
        synchronized (store) {
            Store.Image image = store.image();
            CRC32 crc = new CRC32();
            out.write(new Frame(Frame.SNAPSHOT, image.term, image.index, "").encode());
            for (String line : image.lines()) {
                Frame item = new Frame(Frame.ITEM, 0, 0, line);
                crc.update(line.getBytes(StandardCharsets.UTF_8));
                out.write(item.encode());
            }
            out.write(new Frame(Frame.SNAPSHOT_END, 0, crc.getValue(), "").encode());
            return image.index;
        }
    }

    /** Reads the items that follow a SNAPSHOT frame. */
    static Loaded receive(Frame head, DataInputStream in) throws IOException {
        List<String> lines = new ArrayList<>();
        CRC32 crc = new CRC32();
        Frame frame = Frame.read(in);
        while (frame.type == Frame.ITEM) {
            crc.update(frame.text.getBytes(StandardCharsets.UTF_8));
            lines.add(frame.text);
            frame = Frame.read(in);
        }
        if (frame.type != Frame.SNAPSHOT_END || frame.index != crc.getValue()) {
            throw new IOException("the snapshot at " + head.index + " arrived damaged");
        }
        return new Loaded(head.index, head.term, lines);
    }
}
