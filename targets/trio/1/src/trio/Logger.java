package trio;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.text.SimpleDateFormat;
import java.util.Date;

/** Owns the node's log output: one line per event on stdout, stack traces on the lines after it. */
final class Logger {
    private static final SimpleDateFormat TIME = new SimpleDateFormat("yyyy-MM-dd HH:mm:ss,SSS");

    private final String name;

    private Logger(String name) {
        this.name = name;
    }

    static Logger of(Class<?> owner) {
        return new Logger(owner.getSimpleName());
    }

    void info(String message) {
        write("INFO ", message, null);
    }

    void warn(String message) {
        write("WARN ", message, null);
    }

    void warn(String message, Throwable cause) {
        write("WARN ", message, cause);
    }

    void error(String message, Throwable cause) {
        write("ERROR", message, cause);
    }

    private void write(String level, String message, Throwable cause) {
        StringBuilder line = new StringBuilder(160);
        String thread = Thread.currentThread().getName();
        synchronized (TIME) {
            line.append(TIME.format(new Date(System.currentTimeMillis())));
            line.append(' ').append(level).append(" [").append(thread).append("] ");
            line.append(name).append(" - ").append(message).append('\n');
            if (cause != null) {
                StringWriter trace = new StringWriter();
                cause.printStackTrace(new PrintWriter(trace));
                line.append(trace);
            }
            System.out.print(line);
            System.out.flush();
        }
    }
}
