package trio;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/** Owns the durable term and vote. No answer leaves the node before its ballot is on disk. */
final class Ballot {
    private final File file;
    private volatile long term;
    private String vote = "-";

    Ballot(File dir) throws IOException {
        file = new File(dir, "ballot");
        if (file.exists()) {
            String text = new String(AtomicFile.read(file), StandardCharsets.UTF_8);
            String[] words = text.split(" ");
            term = Long.parseLong(words[0]);
            vote = words[1];
        }
    }

    long term() {
        return term;
    }

    /** Takes over a newer term without a vote in it. */
    synchronized void observe(long newer) throws IOException {
        if (newer > term) {
            save(newer, "-");
        }
    }

    /** Votes for the candidate in this term; false when the vote is already given away. */
    synchronized boolean vote(long inTerm, String candidate) throws IOException {
        if (inTerm < term || inTerm == term && !vote.equals("-") && !vote.equals(candidate)) {
            return false;
        }
        if (inTerm > term || vote.equals("-")) {
            save(inTerm, candidate);
        }
        return true;
    }

    private void save(long newTerm, String newVote) throws IOException {
        String text = newTerm + " " + newVote;
        AtomicFile.write(file, text.getBytes(StandardCharsets.UTF_8));
        term = newTerm;
        vote = newVote;
    }
}
