package temblor.zookeeper;

import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Owns what the command line says, verified. */
final class Settings {
    private static final String USAGE = "usage: temblor.zookeeper.Workload WORKLOAD CLIENT INDEX"
            + " CLIENTS NODE HOST:PORT HOST:PORT,HOST:PORT,... SEED [KEY=VALUE...]";
    private static final List<String> WORKLOADS =
            Arrays.asList("legolas", "sieve", "rights", "snapshot", "late", "rejoin", "restart",
                    "election", "bare", "reconfig");
    private static final List<String> OPTIONS = Arrays.asList("join", "load", "pause-ms");

    final String workload;
    final String client;
    /** Counted from 1. */
    final int index;
    final int clients;
    final String node;
    final String address;
    long seed;
    private final Map<String, String> options = new HashMap<>();

    private Settings(String[] args) {
        workload = args[0];
        client = args[1];
        index = (int) number(args[2]);
        clients = (int) number(args[3]);
        node = args[4];
        address = args[5];
        seed = number(args[7]);
    }

    static Settings parse(String[] args) {
        if (args.length < 8) {
            throw new IllegalArgumentException(USAGE);
        }
        Settings settings = new Settings(args);
        if (!WORKLOADS.contains(settings.workload)) {
            throw new IllegalArgumentException("no workload " + settings.workload + "; there are "
                    + WORKLOADS);
        }
        if (settings.index < 1 || settings.index > settings.clients) {
            throw new IllegalArgumentException("index " + settings.index + " of "
                    + settings.clients + " clients");
        }
        if (!Arrays.asList(args[6].split(",")).contains(settings.address)) {
            throw new IllegalArgumentException(settings.address + " is not one of " + args[6]);
        }
        for (int i = 8; i < args.length; i++) {
            settings.addOption(args[i]);
        }
        if (settings.workload.equals("reconfig")) {
            settings.checkReconfig();
        }
        return settings;
    }

    private void addOption(String option) {
        int equals = option.indexOf('=');
        if (equals < 0 || !OPTIONS.contains(option.substring(0, equals))) {
            throw new IllegalArgumentException("no option " + option + "; there are " + OPTIONS
                    + ", each as KEY=VALUE");
        }
        options.put(option.substring(0, equals), option.substring(equals + 1));
    }

    private void checkReconfig() {
        if (!NewerClient.canReconfigure()) {
            throw new IllegalArgumentException("this version of ZooKeeper cannot change its members"
                    + " at run time: reconfig needs 3.5 or newer");
        }
        String join = option("join");
        if (join == null || !join.startsWith("server.") || join.indexOf('=') < 0) {
            throw new IllegalArgumentException("reconfig needs the option"
                    + " join=server.ID=HOST:PORT:PORT:ROLE;PORT");
        }
    }

    /** What only the trial knows that the client goes on in: SEED LOAD. */
    void update(String text) {
        String[] words = text.trim().split(" ");
        seed = number(words[0]);
        options.put("load", words[1]);
    }

    /** Null when it is not given. */
    String option(String key) {
        return options.get(key);
    }

    long number(String key, long otherwise) {
        String text = options.get(key);
        return text == null ? otherwise : number(text);
    }

    /** As much of an amount of work as is asked for; some of it at least. */
    int share(int amount) {
        return amount == 0 ? 0 : (int) Math.max(1, amount * number("load", 100) / 100);
    }

    private static long number(String text) {
        try {
            return Long.parseLong(text);
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException(text + " is not a number; " + USAGE);
        }
    }
}
