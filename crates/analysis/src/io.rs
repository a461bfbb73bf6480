//! Which calls do I/O, as a table over JDK classes, and the JDK's own I/O methods to hook.

use temblor_model::site::{Direction, Io, Medium};

/// Class prefixes (internal names) and what they touch; the first match counts.
const MEDIA: &[(&str, Medium)] = &[
    ("java/io/File", Medium::Disk), // File, FileInputStream, FileOutputStream, FileDescriptor...
    ("java/io/RandomAccessFile", Medium::Disk),
    ("java/nio/file/", Medium::Disk),
    ("java/nio/channels/FileChannel", Medium::Disk),
    ("java/nio/channels/AsynchronousFileChannel", Medium::Disk),
    ("java/nio/MappedByteBuffer", Medium::Disk),
    ("java/util/zip/ZipFile", Medium::Disk),
    ("java/util/jar/JarFile", Medium::Disk),
    ("java/net/", Medium::Network),
    ("javax/net/", Medium::Network),
    ("java/nio/channels/SocketChannel", Medium::Network),
    ("java/nio/channels/ServerSocketChannel", Medium::Network),
    ("java/nio/channels/DatagramChannel", Medium::Network),
    (
        "java/nio/channels/AsynchronousSocketChannel",
        Medium::Network,
    ),
    (
        "java/nio/channels/AsynchronousServerSocketChannel",
        Medium::Network,
    ),
    ("java/nio/channels/Selector", Medium::Network),
    ("io/netty/channel/", Medium::Network),
    ("java/io/", Medium::Stream),
    ("java/nio/channels/", Medium::Stream),
    ("java/util/zip/", Medium::Stream),
];

/// In memory by their very type: no I/O, whatever they declare.
const IN_MEMORY: &[&str] = &[
    "java/io/ByteArrayInputStream",
    "java/io/ByteArrayOutputStream",
    "java/io/StringReader",
    "java/io/StringWriter",
    "java/io/CharArrayReader",
    "java/io/CharArrayWriter",
    "java/io/Serializable",
    "java/io/PrintStream", // never throws, and is what logs go to
];

/// What a call to this class and method does, when that is I/O.
pub fn of_call(class: &str, method: &str) -> Option<Io> {
    if is_in_memory(class) || method == "<init>" && class.starts_with("java/io/") {
        return opening(class, method);
    }
    let medium = MEDIA
        .iter()
        .find(|(prefix, _)| class.starts_with(prefix))?
        .1;
    Some(Io {
        medium,
        direction: direction(method)?,
    })
}

pub fn is_in_memory(class: &str) -> bool {
    IN_MEMORY.contains(&class)
}

/// Constructors that open a file are I/O; those that wrap a stream are not.
fn opening(class: &str, method: &str) -> Option<Io> {
    let opens = [
        "java/io/FileInputStream",
        "java/io/FileOutputStream",
        "java/io/FileReader",
    ];
    let more = ["java/io/FileWriter", "java/io/RandomAccessFile"];
    (method == "<init>" && (opens.contains(&class) || more.contains(&class))).then_some(Io {
        medium: Medium::Disk,
        direction: Direction::Control,
    })
}

fn direction(method: &str) -> Option<Direction> {
    let is = |words: &[&str]| words.iter().any(|w| method.starts_with(w));
    if is(&[
        "read",
        "skip",
        "receive",
        "accept",
        "select",
        "lines",
        "newInputStream",
    ]) {
        Some(Direction::Read)
    } else if is(&[
        "write",
        "flush",
        "force",
        "sync",
        "send",
        "newOutputStream",
        "append",
    ]) {
        Some(Direction::Write)
    } else if is(&[
        "open",
        "connect",
        "bind",
        "close",
        "delete",
        "rename",
        "create",
        "move",
        "copy",
        "list",
        "mkdir",
        "truncate",
        "setLength",
        "transfer",
        "lock",
        "tryLock",
        "map",
        "seek",
        "getInputStream",
        "getOutputStream",
        "getByName",
        "getAllByName",
        "getChannel",
        "walk",
        "newByteChannel",
        "exists",
        "size",
        "length",
        "setSoTimeout",
        "setTcpNoDelay",
        "setSoLinger",
        "setKeepAlive",
        "setReuseAddress",
        "shutdown",
        "configureBlocking",
        "register",
    ]) {
        Some(Direction::Control)
    } else {
        None
    }
}

/// JDK methods whose entry can be hooked, whoever calls them: class, method, what it does. A
/// class or method that this JDK does not have, or has as native, is passed over.
pub const JDK_METHODS: &[(&str, &str, Medium, Direction)] = &[
    (
        "java/io/FileInputStream",
        "read",
        Medium::Disk,
        Direction::Read,
    ),
    (
        "java/io/FileOutputStream",
        "write",
        Medium::Disk,
        Direction::Write,
    ),
    (
        "java/io/RandomAccessFile",
        "read",
        Medium::Disk,
        Direction::Read,
    ),
    (
        "java/io/RandomAccessFile",
        "write",
        Medium::Disk,
        Direction::Write,
    ),
    (
        "sun/nio/ch/FileChannelImpl",
        "read",
        Medium::Disk,
        Direction::Read,
    ),
    (
        "sun/nio/ch/FileChannelImpl",
        "write",
        Medium::Disk,
        Direction::Write,
    ),
    (
        "sun/nio/ch/FileChannelImpl",
        "force",
        Medium::Disk,
        Direction::Write,
    ),
    (
        "sun/nio/ch/FileChannelImpl",
        "truncate",
        Medium::Disk,
        Direction::Control,
    ),
    (
        "sun/nio/ch/SocketChannelImpl",
        "read",
        Medium::Network,
        Direction::Read,
    ),
    (
        "sun/nio/ch/SocketChannelImpl",
        "write",
        Medium::Network,
        Direction::Write,
    ),
    (
        "sun/nio/ch/SocketChannelImpl",
        "connect",
        Medium::Network,
        Direction::Control,
    ),
    (
        "sun/nio/ch/ServerSocketChannelImpl",
        "accept",
        Medium::Network,
        Direction::Read,
    ),
    (
        "sun/nio/ch/NioSocketImpl",
        "read",
        Medium::Network,
        Direction::Read,
    ),
    (
        "sun/nio/ch/NioSocketImpl",
        "write",
        Medium::Network,
        Direction::Write,
    ),
    (
        "sun/nio/ch/NioSocketImpl",
        "connect",
        Medium::Network,
        Direction::Control,
    ),
    (
        "sun/nio/ch/NioSocketImpl",
        "accept",
        Medium::Network,
        Direction::Read,
    ),
    (
        "java/net/SocketInputStream",
        "read",
        Medium::Network,
        Direction::Read,
    ),
    (
        "java/net/SocketOutputStream",
        "write",
        Medium::Network,
        Direction::Write,
    ),
    (
        "java/net/AbstractPlainSocketImpl",
        "connect",
        Medium::Network,
        Direction::Control,
    ),
    (
        "java/net/AbstractPlainSocketImpl",
        "accept",
        Medium::Network,
        Direction::Read,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_apart() {
        let io = |medium, direction| Some(Io { medium, direction });
        for (class, method, expected) in [
            (
                "java/io/FileOutputStream",
                "write",
                io(Medium::Disk, Direction::Write),
            ),
            (
                "java/io/FileOutputStream",
                "<init>",
                io(Medium::Disk, Direction::Control),
            ),
            ("java/io/DataOutputStream", "<init>", None),
            (
                "java/io/DataOutputStream",
                "writeLong",
                io(Medium::Stream, Direction::Write),
            ),
            ("java/io/ByteArrayOutputStream", "write", None),
            (
                "java/net/ServerSocket",
                "accept",
                io(Medium::Network, Direction::Read),
            ),
            (
                "java/nio/channels/FileChannel",
                "force",
                io(Medium::Disk, Direction::Write),
            ),
            ("java/util/List", "add", None),
        ] {
            assert_eq!(of_call(class, method), expected, "{class}.{method}");
        }
    }
}
