package trio;

import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;

/**
 * Owns start-up from disk: the newest snapshot, then the log. After an unclean stop it first
 * records what it is about to cut, so that an interrupted recovery is finished by the next one.
 */
final class Recovery {
    private static final Logger LOG = Logger.of(Recovery.class);
    private static final int MAGIC = 0x74524543;

    private final File running;
    private final File record;
    private final File dir;

    Recovery(File dir) {
        this.dir = dir;
        running = new File(dir, "running");
        record = new File(dir, "recovery");
    }

    void run(Snapshots snapshots, Log log, Store store) throws IOException {
        if (record.exists()) {
            finishInterrupted();
        }
        boolean unclean = running.exists();
        Snapshots.Loaded snapshot = snapshots.load();
        Log.Tail tail = log.scan(snapshot.index, snapshot.term);
        if (unclean) {
            LOG.info("unclean stop, recovering from snapshot " + snapshot.index);
            if (tail != null) {
                prepareCut(tail);
            }
        }
        log.open(tail);
        store.restore(snapshot.index, snapshot.term, snapshot.lines);
        if (record.exists() && !record.delete()) {
            LOG.warn("cannot delete the recovery record");
        }
        if (!running.exists() && !running.createNewFile()) {
            LOG.warn("the mark of a running node was there already");
        }
    }

    void stopped() {
        if (!running.delete()) {
            LOG.warn("cannot delete the mark of a running node");
        }
    }

    private void prepareCut(Log.Tail tail) {
        try {
            record(tail.file.getName(), tail.length);
        } catch (IOException e) {
            LOG.warn("recovering without a record: " + e);
            if (record.exists() && !record.delete()) {
                LOG.warn("cannot delete the recovery record");
            }
        }
    }

    private void record(String name, long length) throws IOException {
        try (RandomAccessFile out = new RandomAccessFile(record, "rw")) {
            out.setLength(0);
            out.writeInt(MAGIC);
            out.writeUTF(name);
            out.writeLong(length);
            out.getChannel().force(true);
        }
    }

    private void finishInterrupted() throws IOException {
        String name;
        long length;
        try (RandomAccessFile in = new RandomAccessFile(record, "r")) {
            if (in.readInt() != MAGIC) {
                throw new IOException("the recovery record is damaged");
            }
            name = in.readUTF();
            length = in.readLong();
        }
        LOG.info("finishing an interrupted recovery: " + name + " ends at " + length);
        File file = new File(dir, name);
        if (file.exists()) {
            try (RandomAccessFile log = new RandomAccessFile(file, "rw")) {
                if (log.length() > length) {
                    log.setLength(length);
                }
            }
        }
    }
}
