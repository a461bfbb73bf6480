//! Names of stack frames and the hash of a stack, stable across runs and JVM processes.

use temblor_model::{FNV_START, fnv64, fnv64_from};

/// Frames that a context remembers; deeper ones are cut off.
pub const MAX_DEPTH: usize = 64;

/// One frame as people and hashes see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// `pkg.Class.method:123`, without a line for the JDK's own frames.
    pub text: String,
    pub hash: u64,
    /// Not part of any context: the hook itself, and the JVM's ways of reflection, which change
    /// from interpreted to generated after some calls.
    pub skipped: bool,
}

/// `class` is an internal name, `line` 0 where unknown.
pub fn frame(class: &str, method: &str, line: i32) -> Frame {
    let name = stable_class(class);
    let text = match line {
        1.. if !is_jdk(class) && !name.ends_with(LAMBDA) => format!("{name}.{method}:{line}"),
        _ => format!("{name}.{method}"),
    };
    let hash = fnv64(text.as_bytes());
    Frame {
        text,
        hash,
        skipped: is_plumbing(class),
    }
}

/// The hash of a stack: FNV-1a over its frames' hashes (each FNV-1a of the frame's text), top
/// first. Never 0, which stands for "not walked".
pub fn stack_hash(frames: impl Iterator<Item = u64>) -> u64 {
    let hash = frames.fold(FNV_START, |hash, frame| {
        fnv64_from(hash, &frame.to_le_bytes())
    });
    hash.max(1)
}

const LAMBDA: &str = "$$Lambda";

/// Drops what the JVM numbers by order of creation.
fn stable_class(class: &str) -> String {
    if let Some(at) = class.find(LAMBDA) {
        return class[..at + LAMBDA.len()].replace('/', ".");
    }
    let simple = class.rsplit('/').next().unwrap_or(class);
    if simple.strip_prefix("$Proxy").is_some_and(is_number) {
        // The package is numbered too (`jdk.proxy2`), and differs between JDKs.
        return "$Proxy".into();
    }
    class.replace('/', ".")
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn is_jdk(class: &str) -> bool {
    ["java/", "javax/", "jdk/", "sun/", "com/sun/"]
        .iter()
        .any(|p| class.starts_with(p))
}

fn is_plumbing(class: &str) -> bool {
    [
        "java/lang/FaultHook",
        "jdk/internal/reflect/",
        "sun/reflect/",
        "java/lang/invoke/",
    ]
    .iter()
    .any(|p| class.starts_with(p))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_in_every_run() {
        let check = |class: &str, line, expected: &str| {
            assert_eq!(frame(class, "m", line).text, expected, "{class}");
        };
        check("a/b/C", 12, "a.b.C.m:12");
        check("a/b/C$D", 0, "a.b.C$D.m");
        check("java/net/Socket", 400, "java.net.Socket.m");
        check("a/C$$Lambda$14/0x0000000800c8d440", 0, "a.C$$Lambda.m");
        check("a/C$$Lambda.0x00007f1234", 1, "a.C$$Lambda.m");
        check("a/C$$Lambda/0x00007f1234", 0, "a.C$$Lambda.m");
        check("com/sun/proxy/$Proxy12", -1, "$Proxy.m");
        check("jdk/proxy2/$Proxy3", -1, "$Proxy.m");
        check("a/$ProxyMaker", 3, "a.$ProxyMaker.m:3");
    }

    #[test]
    fn reflection_and_the_hook_are_not_part_of_a_context() {
        let skipped = [
            "jdk/internal/reflect/GeneratedMethodAccessor12",
            "jdk/internal/reflect/DirectMethodHandleAccessor",
            "sun/reflect/NativeMethodAccessorImpl",
            "java/lang/invoke/LambdaForm$DMH",
            "java/lang/FaultHook",
        ];
        assert!(skipped.iter().all(|class| frame(class, "m", 1).skipped));
        assert!(!frame("java/lang/reflect/Method", "invoke", 1).skipped);
        assert!(!frame("a/C", "m", 1).skipped);
    }

    #[test]
    fn a_stack_is_its_frames_in_order() {
        let (a, b) = (frame("a/A", "m", 1).hash, frame("a/B", "m", 1).hash);
        assert_ne!(
            stack_hash([a, b].into_iter()),
            stack_hash([b, a].into_iter())
        );
        assert_eq!(
            stack_hash([a, b].into_iter()),
            stack_hash([a, b].into_iter())
        );
    }
}
