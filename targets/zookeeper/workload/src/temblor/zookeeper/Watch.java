package temblor.zookeeper;

import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;

/** Owns one watch, which fires once at most. */
final class Watch implements Watcher {
    private Operation operation;
    private long order;
    private WatchedEvent fired;
    private boolean ended;

    /** The node has taken it. It may have fired already, on the library's thread. */
    synchronized void begin(Operation operation, long order) {
        this.operation = operation;
        this.order = order;
        end();
    }

    @Override
    public synchronized void process(WatchedEvent event) {
        boolean told = event.getType() != Event.EventType.None;
        boolean over = event.getState() == Event.KeeperState.Expired;
        if ((told || over) && fired == null) {
            fired = event;
            end();
        }
    }

    synchronized boolean isOver() {
        return ended;
    }

    private void end() {
        if (operation == null || fired == null || ended) {
            return;
        }
        ended = true;
        if (fired.getType() == Event.EventType.None) {
            operation.fail("the session expired");
        } else {
            operation.ok(null, order);
        }
    }
}
