package trio;

/** Owns nothing: the way a request takes from here, into the leader or over to it. */
interface Upstream {
    void submit(Pendings.Pending pending);
}
