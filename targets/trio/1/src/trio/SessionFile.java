package trio;

import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;

/** Owns the small file per session that says when it was last renewed, for operators. */
final class SessionFile {
    private final File dir;

    SessionFile(File dir) {
        this.dir = dir;
    }

    void touch(String sid, long atMs) throws IOException {
        try (RandomAccessFile file = new RandomAccessFile(path(sid), "rw")) {
            file.writeLong(atMs);
            file.getChannel().force(false);
        }
    }

    void remove(String sid) {
        path(sid).delete();
    }

    private File path(String sid) {
        return new File(dir, "session." + sid);
    }
}
