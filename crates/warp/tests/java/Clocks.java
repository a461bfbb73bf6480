import java.io.BufferedReader;
import java.io.InputStreamReader;

/** Answers each line on stdin with both clocks, so that the test can compare processes. */
public class Clocks {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        while (in.readLine() != null) {
            System.out.println(System.nanoTime() + " " + System.currentTimeMillis());
        }
    }
}
