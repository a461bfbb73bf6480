/** One branch runs, the other does not. */
public class Blocks {
    static int choose(int n) {
        if (n > 0) {
            return 1;
        }
        return 2;
    }

    public static void main(String[] args) {
        System.out.println(choose(args.length));
    }
}
