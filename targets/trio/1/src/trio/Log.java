package trio;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;

/**
 * Owns the write-ahead log: files named log.FIRSTINDEX, each entry with a checksum, and the same
 * entries in memory. The monitor guards the files and is held during disk writes; the entries in
 * memory have a lock of their own, so that looking one up never waits for the disk.
 */
final class Log {
    private static final Logger LOG = Logger.of(Log.class);
    private static final int MAGIC = 0x744c4f47;
    private static final int HEAD_BYTES = 4 + 8 + 8;

    private final File dir;
    private final int rollEvery;
    private RandomAccessFile file;
    private int inFile;
    /** First index of each file, with the term of the entry before it. */
    private final TreeMap<Long, Long> files = new TreeMap<>();

    private final Object memory = new Object();
    private final ArrayList<Entry> entries = new ArrayList<>();
    private long baseIndex;
    private long baseTerm;
    private volatile long busySince;

    Log(File dir, int rollEvery) {
        this.dir = dir;
        this.rollEvery = rollEvery;
    }

    /** Where the good part of the newest file ends. */
    static final class Tail {
        final File file;
        final long length;

        Tail(File file, long length) {
            this.file = file;
            this.length = length;
        }
    }

    /** Reads all files, up to the first damaged entry, and tells where that is. */
    synchronized Tail scan(long snapshotIndex, long snapshotTerm) throws IOException {
        files.clear();
        Tail tail = null;
        synchronized (memory) {
            entries.clear();
            baseIndex = -1;
        }
        TreeMap<Long, File> found = new TreeMap<>();
        for (File f : listFiles()) {
            found.put(Long.parseLong(f.getName().substring(4)), f);
        }
        for (File f : found.values()) {
            ByteBuffer content = read(f);
            if (content.remaining() < HEAD_BYTES || content.getInt() != MAGIC) {
                LOG.warn("no log header in " + f.getName() + ", it is left out");
                continue;
            }
            long first = content.getLong();
            long previousTerm = content.getLong();
            if (tail == null) {
                if (first > snapshotIndex + 1) {
                    LOG.warn("the log starts at " + first + " after snapshot " + snapshotIndex
                            + ", it is left out");
                    break;
                }
                synchronized (memory) {
                    baseIndex = first - 1;
                    baseTerm = previousTerm;
                }
            } else if (first > lastIndex() + 1) {
                LOG.warn("gap in the log before " + first + ", the rest is left out");
                break;
            }
            inFile = 0;
            long good = HEAD_BYTES;
            Entry entry = Entry.decode(content);
            while (entry != null) {
                synchronized (memory) {
                    if (entry.index == lastIndex() + 1) {
                        entries.add(entry);
                    }
                }
                inFile++;
                good = content.position();
                entry = Entry.decode(content);
            }
            files.put(first, previousTerm);
            tail = new Tail(f, good);
        }
        if (tail == null || lastIndex() < snapshotIndex) {
            synchronized (memory) {
                entries.clear();
                baseIndex = snapshotIndex;
                baseTerm = snapshotTerm;
            }
            tail = null;
        }
        return tail;
    }

    /** Opens the newest file for appending, cut at its good length; or starts the first file. */
    synchronized void open(Tail tail) throws IOException {
        if (tail == null) {
            reset(lastIndex(), lastTerm());
            return;
        }
        for (File f : listFiles()) {
            if (Long.parseLong(f.getName().substring(4)) > files.lastKey() && !f.delete()) {
                throw new IOException("cannot delete " + f);
            }
        }
        RandomAccessFile opened = new RandomAccessFile(tail.file, "rw");
        if (opened.length() > tail.length) {
            LOG.warn("cutting " + tail.file.getName() + " at " + tail.length);
            opened.setLength(tail.length);
        }
        opened.seek(tail.length);
        file = opened;
    }

    /** Appends entries that continue the log, and returns when they are on disk. */
    synchronized void append(List<Entry> more) throws IOException {
        long next = lastIndex() + 1;
        int bytes = 0;
        List<byte[]> encoded = new ArrayList<>(more.size());
        for (Entry entry : more) {
            if (entry.index != next++) {
                throw new IOException("entry " + entry.index + " does not continue the log at "
                        + lastIndex());
            }
            byte[] one = entry.encode();
            encoded.add(one);
            bytes += one.length;
        }
        ByteBuffer block = ByteBuffer.allocate(bytes);
        for (byte[] one : encoded) {
            block.put(one);
        }
        busySince = System.nanoTime();
        try {
            write(block.array());
        } finally {
            busySince = 0;
        }
        inFile += more.size();
        synchronized (memory) {
            entries.addAll(more);
        }
    }

    private void write(byte[] block) throws IOException {
        long start = file.getFilePointer();
        try {
            file.write(block);
            file.getChannel().force(false);
        } catch (IOException e) {
            file.setLength(start);
            file.seek(start);
            throw e;
        }
    }

    synchronized boolean full() {
        return inFile >= rollEvery;
    }

    /** Goes on in a new file. */
    synchronized void roll() throws IOException {
        busySince = System.nanoTime();
        try {
            RandomAccessFile next = create(lastIndex() + 1, lastTerm());
            file.getChannel().force(true);
            file.close();
            file = next;
            files.put(lastIndex() + 1, lastTerm());
            inFile = 0;
        } finally {
            busySince = 0;
        }
    }

    /** Forgets everything: the log goes on after this index. */
    synchronized void reset(long index, long term) throws IOException {
        if (file != null) {
            file.close();
        }
        files.clear();
        TreeMap<Long, File> old = new TreeMap<>();
        for (File f : listFiles()) {
            old.put(Long.parseLong(f.getName().substring(4)), f);
        }
        for (long first : old.keySet()) {
            delete(first);
        }
        synchronized (memory) {
            entries.clear();
            baseIndex = index;
            baseTerm = term;
        }
        file = create(index + 1, term);
        files.put(index + 1, term);
        inFile = 0;
    }

    /** Deletes files whose entries are all at or below the index. */
    void purge(long index) throws IOException {
        List<Long> gone = new ArrayList<>();
        synchronized (this) {
            while (files.size() > 1 && files.higherKey(files.firstKey()) <= index + 1) {
                gone.add(files.pollFirstEntry().getKey());
                long first = files.firstKey();
                synchronized (memory) {
                    entries.subList(0, (int) (first - 1 - baseIndex)).clear();
                    baseTerm = files.get(first);
                    baseIndex = first - 1;
                }
            }
        }
        for (long first : gone) {
            delete(first);
        }
    }

    private RandomAccessFile create(long first, long previousTerm) throws IOException {
        ByteBuffer head = ByteBuffer.allocate(HEAD_BYTES);
        head.putInt(MAGIC).putLong(first).putLong(previousTerm);
        RandomAccessFile created = new RandomAccessFile(new File(dir, "log." + first), "rw");
        try {
            created.setLength(0);
            created.write(head.array());
            created.getChannel().force(true);
        } catch (IOException e) {
            created.close();
            throw e;
        }
        return created;
    }

    private void delete(long first) throws IOException {
        File old = new File(dir, "log." + first);
        if (old.exists() && !old.delete()) {
            throw new IOException("cannot delete " + old);
        }
    }

    private File[] listFiles() {
        File[] found = dir.listFiles((d, name) -> name.matches("log\\.\\d+"));
        return found == null ? new File[0] : found;
    }

    private static ByteBuffer read(File f) throws IOException {
        byte[] bytes = new byte[(int) f.length()];
        int at = 0;
        try (FileInputStream in = new FileInputStream(f)) {
            while (at < bytes.length) {
                int n = in.read(bytes, at, bytes.length - at);
                if (n < 0) {
                    break;
                }
                at += n;
            }
        }
        return ByteBuffer.wrap(bytes, 0, at);
    }

    /** True when a disk write has been under way for longer than this. */
    boolean stalled(long forMs) {
        long since = busySince;
        return since != 0 && System.nanoTime() - since > forMs * 1_000_000L;
    }

    long lastIndex() {
        synchronized (memory) {
            return baseIndex + entries.size();
        }
    }

    long lastTerm() {
        synchronized (memory) {
            return entries.isEmpty() ? baseTerm : entries.get(entries.size() - 1).term;
        }
    }

    /** The term of the entry at this index, or -1 when it is not here. */
    long termAt(long index) {
        synchronized (memory) {
            if (index == baseIndex) {
                return baseTerm;
            }
            if (index < baseIndex || index > baseIndex + entries.size()) {
                return -1;
            }
            return entries.get((int) (index - baseIndex - 1)).term;
        }
    }

    /** The entries from one index to another, both included; null when the first is gone. */
    List<Entry> range(long from, long to) {
        synchronized (memory) {
            if (from <= baseIndex) {
                return null;
            }
            long end = Math.min(to, baseIndex + entries.size());
            List<Entry> found = new ArrayList<>();
            for (long i = from; i <= end; i++) {
                found.add(entries.get((int) (i - baseIndex - 1)));
            }
            return found;
        }
    }
}
