import java.io.IOException;

/** Prints everything a handler can learn about what was thrown at the call in line 21. */
public class Throws {
    static class Custom extends IOException {
        final Object reason;

        Custom(Object reason, int code, long[] more) {
            super("never runs");
            this.reason = reason.toString() + code + more.length;
        }

        @Override
        public synchronized Throwable fillInStackTrace() {
            throw new IllegalStateException("must not be called");
        }
    }

    static void guarded() throws IOException {
        try {
            Io.a();
        } finally {
            System.out.println("finally " + Io.made);
        }
    }

    public static void main(String[] args) {
        try {
            guarded();
            System.out.println("nothing thrown");
        } catch (Throwable t) {
            System.out.println("class " + t.getClass().getName());
            System.out.println("message " + t.getMessage());
            System.out.println("cause " + t.getCause());
            for (StackTraceElement e : t.getStackTrace()) {
                System.out.println("at " + e.getClassName() + "." + e.getMethodName() + ":" + e.getLineNumber());
            }
            t.addSuppressed(new RuntimeException("s"));
            System.out.println("suppressed " + t.getSuppressed().length);
            t.initCause(new RuntimeException("c"));
            System.out.println("cause now " + t.getCause().getMessage());
        }
    }
}
