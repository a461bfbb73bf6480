package temblor.zookeeper;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.apache.zookeeper.KeeperException;

/** Owns the question of what an exception says about the operation that met it. */
final class Failure {
    // By name: not every version has every code.
    private static final Set<String> CONTRADICTIONS = new HashSet<>(Arrays.asList(
            "DATAINCONSISTENCY", "RUNTIMEINCONSISTENCY"));
    /** Answers of the service: the operation was refused and has done nothing. */
    private static final Set<String> REFUSALS = new HashSet<>(Arrays.asList(
            "NONODE", "NODEEXISTS", "BADVERSION", "NOTEMPTY", "NOAUTH", "INVALIDACL",
            "BADARGUMENTS", "NOCHILDRENFOREPHEMERALS", "UNIMPLEMENTED", "SESSIONMOVED",
            "NOTREADONLY", "NEWCONFIGNOQUORUM", "RECONFIGINPROGRESS", "RECONFIGDISABLED",
            "QUOTAEXCEEDED", "THROTTLEDOP"));

    private Failure() {}

    static String event(Exception failure, boolean write) {
        String code = code(failure);
        if (CONTRADICTIONS.contains(code)) {
            return "wrong";
        }
        return write && !REFUSALS.contains(code) ? "timeout" : "fail";
    }

    /** Whether a write that met this may have happened all the same. */
    static boolean isUnknown(Exception failure) {
        return !REFUSALS.contains(code(failure));
    }

    static boolean is(Exception failure, KeeperException.Code code) {
        return code(failure).equals(code.name());
    }

    static String text(Exception failure) {
        String message = failure.getMessage();
        String name = failure.getClass().getName();
        name = name.substring(name.lastIndexOf('.') + 1);
        return message == null ? name : name + ": " + message;
    }

    private static String code(Exception failure) {
        return failure instanceof KeeperException ? ((KeeperException) failure).code().name() : "";
    }
}
