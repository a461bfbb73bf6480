//! Words without what varies: log templates and normalised symptoms.

use std::sync::LazyLock;

use regex::Regex;

/// Stands where something varying stood.
pub const HOLE: &str = "<*>";

/// The longest template kept, characters: a log line can hold a whole document.
const LONGEST: usize = 300;

/// Quoted strings, paths, addresses, ids, hex, then any number. Order matters: the first
/// alternative that matches at a place wins.
static VARYING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r#""[^"]*"|\B'[^']*'|`[^`]*`"#,
        r"|\b[A-Za-z]+://[^\s,;)\]}]+",
        r"|(?:/[\w.@+<>*-]+){2,}/?|\B/[\w.@+-]+:\d+",
        r"|\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b",
        r"|\b0x[0-9a-fA-F]+\b",
        r"|@[0-9a-f]{4,}\b",
        r"|\b(?:[0-9]+[a-fA-F]|[a-fA-F]+[0-9])[0-9a-fA-F]{5,}\b",
        r"|[+-]?\d+(?:[.,:]\d+)*",
    ))
    .expect("the pattern is constant")
});

/// Varying parts of a text replaced by holes, adjacent holes joined.
pub fn normalise(text: &str) -> String {
    let cut: String = text.trim().chars().take(LONGEST).collect();
    let mut out = VARYING.replace_all(&cut, HOLE).into_owned();
    for twice in ["<*><*>", "<*>, <*>", "<*> <*>", "<*>.<*>", "<*>:<*>"] {
        while out.contains(twice) {
            out = out.replace(twice, HOLE);
        }
    }
    out
}

/// The key of a log line: what it says, wherever and whenever it says it.
pub fn template(level: &str, logger: &str, message: &str) -> String {
    format!("{level} {}: {}", normalise(logger), normalise(message))
}

/// Severity of a level as logging frameworks write it: 3 for the end, 2 for errors, 1 for warnings.
pub fn severity(level: &str) -> u8 {
    match level.to_ascii_uppercase().as_str() {
        "FATAL" | "CRITICAL" => 3,
        "ERROR" | "SEVERE" => 2,
        "WARN" | "WARNING" => 1,
        _ => 0,
    }
}

/// What loggers of exceptions that nobody caught say, beside the JVM's own words.
static UNCAUGHT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i)\b(?:uncaught|unhandled) (?:exception|error|throwable)\b.*\bthread\b",
        r"|\bthread\b.*\b(?:uncaught|unhandled) (?:exception|error|throwable)\b",
        r"|\bexception (?:occurred |thrown )?(?:from|in) thread\b",
    ))
    .expect("the pattern is constant")
});
static CAUGHT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)\bcaught\b").expect("the pattern is constant"));

/// Whether a log line tells of an exception that ended a thread: the JVM's own words at any
/// level, a logger's at WARN and worse.
pub fn ends_thread(level: &str, message: &str, more: &[String]) -> bool {
    let jvm = |line: &str| line.starts_with("Exception in thread \"");
    let logger = severity(level) > 0 && UNCAUGHT.is_match(message) && !CAUGHT.is_match(message);
    jvm(message) || more.iter().any(|line| jvm(line)) || logger
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_that_end_threads_are_told_from_those_that_are_caught() {
        for (level, message, expected) in [
            ("", r#"Exception in thread "t-3" x.E"#, true),
            ("ERROR", "Uncaught exception in thread 'net-1'", true),
            ("ERROR", "Thread t-1 threw an uncaught exception", true),
            ("WARN", "Exception occurred from thread t-1", true),
            ("INFO", "Uncaught exception in thread handler is set", false),
            (
                "ERROR",
                "Caught exception in thread t-1, trying again",
                false,
            ),
            ("ERROR", "Uncaught exception in scheduled task flush", false),
        ] {
            assert_eq!(ends_thread(level, message, &[]), expected, "{message}");
        }
        let more = [r#"Exception in thread "t" x.E"#.to_owned()];
        assert!(ends_thread("INFO", "started", &more));
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(normalise(text), expected);
    }

    #[test]
    fn varying_parts_become_holes() {
        check("took 15 ms", "took <*> ms");
        check("took -1.5 ms (12:03:44,123)", "took <*> ms (<*>)");
        check("node n2 left", "node n<*> left");
        check("lock <0x00000007ab> of Foo@1b2c3d", "lock <<*>> of Foo<*>");
        check("session 0xdeadbeef expired", "session <*> expired");
        check("txn 5fa3c09be1 lost", "txn <*> lost");
        check(
            "cannot open /var/lib/x/log.17: no such file",
            "cannot open <*>: no such file",
        );
        check("to /127.0.0.1:2181 failed", "to <*> failed");
        check("key \"a b\" has 'x'", "key <*> has <*>");
        check("id 123e4567-e89b-12d3-a456-426614174000!", "id <*>!");
        check("got 1, 2, 3", "got <*>");
    }

    #[test]
    fn plain_words_stay() {
        check("bad face added to a decade", "bad face added to a decade");
        check("and/or", "and/or");
    }

    #[test]
    fn a_template_names_level_and_logger() {
        assert_eq!(template("WARN", "a.B", "lost n3"), "WARN a.B: lost n<*>");
    }

    #[test]
    fn long_lines_are_cut() {
        assert!(normalise(&"word ".repeat(1_000)).len() <= LONGEST);
    }
}
