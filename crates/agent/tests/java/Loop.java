import java.io.IOException;

/** Hits a, b and c in turn: {@code Loop ROUNDS}; prints what was thrown and in which round. */
public class Loop {
    static void one(int round) {
        try {
            Io.a();
        } catch (IOException e) {
            System.out.println("a " + round + " " + e.getClass().getSimpleName());
        }
        try {
            Io.b();
        } catch (IOException e) {
            System.out.println("b " + round + " " + e.getClass().getSimpleName());
        }
        try {
            Io.c();
        } catch (IOException e) {
            System.out.println("c " + round + " " + e.getClass().getSimpleName());
        }
    }

    public static void main(String[] args) {
        int rounds = Integer.parseInt(args[0]);
        for (int round = 1; round <= rounds; round++) {
            one(round);
        }
        System.out.println("made " + Io.made);
        if (args.length > 1) {
            System.err.println("going");
            System.exit(Integer.parseInt(args[1]));
        }
    }
}
