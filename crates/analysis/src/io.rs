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
    ("java/io/", Medium::Stream),
    ("java/nio/channels/", Medium::Stream),
    ("java/util/zip/", Medium::Stream),
];

/// Never raises, and is what logs go to: no fault there means anything.
const NEVER_RAISES: &[&str] = &[
    "java/io/PrintStream",
    "java/io/PrintWriter",
    "java/io/Serializable",
    "java/io/Console",
];

/// Of the I/O packages, but only names of things, and what was learned of them before.
const NAMES: &[&str] = &[
    "java/net/URI",
    "java/net/URL",
    "java/net/URLEncoder",
    "java/nio/channels/SelectionKey",
];
/// What does I/O all the same.
const NAMES_OPEN: &[&str] = &["openStream", "openConnection"];

/// Shaded copies keep the tail of the name.
const ANYWHERE: &[(&str, Medium)] = &[
    ("io/netty/channel/", Medium::Network),
    ("org/jboss/netty/channel/", Medium::Network),
];

/// Charsets that every JVM has: naming one of them cannot fail.
const CHARSETS: &[&str] = &[
    "UTF-8",
    "UTF8",
    "US-ASCII",
    "ASCII",
    "ISO-8859-1",
    "UTF-16",
    "UTF-16BE",
    "UTF-16LE",
];

pub fn is_standard_charset(name: &str) -> bool {
    CHARSETS
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
}

/// What a call to this method of a class outside the target does, when that is I/O.
pub fn of_call(class: &str, method: &str, raises: bool) -> Option<Io> {
    let is_name = NAMES.contains(&class) && !NAMES_OPEN.contains(&method);
    if never_raises(class) || is_name {
        return None;
    }
    let by_prefix = MEDIA.iter().find(|(prefix, _)| class.starts_with(prefix));
    let anywhere = || ANYWHERE.iter().find(|(part, _)| class.contains(part));
    let medium = by_prefix.or_else(anywhere)?.1;
    // Constructors that open something declare that it may fail; those that wrap do not.
    if method == "<init>" {
        let opens = raises && medium != Medium::Stream;
        return opens.then_some(Io {
            medium,
            direction: Direction::Control,
        });
    }
    Some(Io {
        medium,
        direction: direction(medium, method)?,
    })
}

pub fn never_raises(class: &str) -> bool {
    NEVER_RAISES.contains(&class)
}

/// Of a socket, a channel to a peer or a selector: these wait for nobody.
const LOCAL: &[&str] = &[
    "bind",
    "close",
    "configureBlocking",
    "register",
    "selectNow",
    "setKeepAlive",
    "setReuseAddress",
    "setSoLinger",
    "setSoTimeout",
    "setTcpNoDelay",
    "shutdown",
];

/// Which way a method of this name moves bytes, if it does.
pub fn direction(medium: Medium, method: &str) -> Option<Direction> {
    let is = |words: &[&str]| words.iter().any(|w| method.starts_with(w));
    if method == "selectedKeys" {
        None // what was selected before
    } else if medium == Medium::Network && is(LOCAL) {
        Some(Direction::Local)
    } else if is(&[
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
        "walk",
        "newByteChannel",
        "exists",
        "lastModified",
        "getCanonical",
        "setLastModified",
        "size",
        "length",
        "shutdown",
        "startHandshake",
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
        let (disk, network, stream) = (Medium::Disk, Medium::Network, Medium::Stream);
        let (read, write) = (Direction::Read, Direction::Write);
        let (control, local) = (Direction::Control, Direction::Local);
        for (class, method, raises, expected) in [
            ("java/io/FileOutputStream", "write", true, io(disk, write)),
            (
                "java/io/FileOutputStream",
                "<init>",
                true,
                io(disk, control),
            ),
            ("java/io/File", "<init>", false, None),
            ("java/io/DataOutputStream", "<init>", false, None),
            ("java/io/ObjectInputStream", "<init>", true, None),
            (
                "java/io/DataOutputStream",
                "writeLong",
                true,
                io(stream, write),
            ),
            ("java/io/PrintStream", "write", true, None),
            ("java/net/ServerSocket", "accept", true, io(network, read)),
            ("java/net/Socket", "<init>", true, io(network, control)),
            ("java/net/Socket", "connect", true, io(network, control)),
            ("java/net/Socket", "setSoTimeout", true, io(network, local)),
            ("java/net/Socket", "close", true, io(network, local)),
            ("java/io/FileOutputStream", "close", true, io(disk, control)),
            (
                "java/nio/channels/Selector",
                "select",
                true,
                io(network, read),
            ),
            (
                "java/nio/channels/Selector",
                "selectNow",
                true,
                io(network, local),
            ),
            ("java/nio/channels/Selector", "selectedKeys", false, None),
            ("java/nio/channels/SelectionKey", "selector", false, None),
            ("java/nio/channels/SelectionKey", "readyOps", false, None),
            (
                "java/nio/channels/FileChannel",
                "force",
                true,
                io(disk, write),
            ),
            (
                "shaded/io/netty/channel/Channel",
                "writeAndFlush",
                false,
                io(network, write),
            ),
            ("java/util/List", "add", false, None),
            ("java/net/URI", "create", false, None),
            ("java/net/URL", "<init>", true, None),
            ("java/net/URL", "openStream", true, io(network, control)),
        ] {
            assert_eq!(of_call(class, method, raises), expected, "{class}.{method}");
        }
    }
}
