/** Small methods with stack map frames: what the negative control breaks even without any jar. */
public class Small {
    static int branch(int a) {
        if (a > 0) {
            a++;
        }
        return a;
    }

    static int loop(int[] values) {
        int sum = 0;
        for (int value : values) {
            sum += branch(value);
        }
        return sum;
    }

    static int choose(String text) {
        try {
            switch (Integer.parseInt(text)) {
                case 1: return 10;
                case 2: return 20;
                default: return new StringBuilder(text.isEmpty() ? "a" : "b").length();
            }
        } catch (NumberFormatException e) {
            return -1;
        }
    }
}
