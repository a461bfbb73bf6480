package temblor.zookeeper;

/** Owns the words for what an operation means to the store as a set of registers. */
final class Reg {
    static final String CREATE = "create";
    static final String WRITE = "write";
    static final String DELETE = "delete";
    static final String READ = "read";
    static final String STALE_READ = "stale-read";
    static final String WATCH = "watch";
    static final String DIGEST = "digest";
    /** It means nothing to the registers. */
    static final String NONE = null;

    private Reg() {}
}
