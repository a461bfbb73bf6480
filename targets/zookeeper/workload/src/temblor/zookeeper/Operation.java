package temblor.zookeeper;

/** Owns the two lines of one operation: its beginning and its one end. */
final class Operation {
    private final Journal journal;
    private final String head;
    private final String tail;
    private final long id;
    private final boolean counts;
    private boolean ended;

    Operation(Journal journal, String head, String tail, long id, boolean counts) {
        this.journal = journal;
        this.head = head;
        this.tail = tail;
        this.id = id;
        this.counts = counts;
    }

    void invoke(String value, long order) {
        journal.invoked(line("invoke", value, order, null));
    }

    /** Value null: there is none. Order 0: the answer does not tell. */
    boolean ok(String value, long order) {
        return end("ok", value, order, null);
    }

    boolean fail(String error) {
        return end("fail", null, 0, error);
    }

    boolean wrong(String value, long order, String error) {
        return end("wrong", value, order, error);
    }

    /** Ends as the failure says, of a write when `write`: that one may still have happened. */
    boolean failed(Exception failure, boolean write) {
        return end(Failure.event(failure, write), null, 0, Failure.text(failure));
    }

    /** True when it ended well. */
    private boolean end(String event, String value, long order, String error) {
        if (ended) {
            throw new IllegalStateException("operation " + id + " ends twice");
        }
        ended = true;
        journal.ended(line(event, value, order, error), event, counts);
        return event.equals("ok");
    }

    private String line(String event, String value, long order, String error) {
        StringBuilder line = new StringBuilder(320);
        line.append("{\"t\":").append(System.currentTimeMillis()).append(head);
        if (value != null) {
            line.append(",\"value\":");
            Journal.quote(line, value);
        }
        if (order != 0) {
            line.append(",\"order\":").append(order);
        }
        line.append(tail).append(",\"ev\":\"").append(event).append('"');
        if (error != null) {
            line.append(",\"error\":");
            Journal.quote(line, error);
        }
        return line.append('}').toString();
    }
}
