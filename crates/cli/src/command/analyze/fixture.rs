//! A small catalog made by hand, with one of everything, for tests of what is printed.

use temblor_analysis::{Analysis, Effort};
use temblor_model::catalog::*;
use temblor_model::site::*;

use super::Examined;

pub fn place(class: &str, method: &str, line: u32) -> Place {
    Place {
        class: format!("org/mine/{class}"),
        method: method.into(),
        desc: "(Ljava/lang/String;)V".into(),
        pc: line / 2,
        line: Some(line),
    }
}

fn site(id: u32, class: &str, method: &str, callee: &str) -> Site {
    Site {
        id,
        name: format!("org.mine.{class}.{method}(String)>{callee}#0"),
        class: format!("org/mine/{class}"),
        method: method.into(),
        desc: "(Ljava/lang/String;)V".into(),
        pc: 10 + id,
        line: Some(40 + id),
        callee: callee.into(),
        ..Site::default()
    }
}

fn origin(exception: &str, how: Raise, place: &str) -> Origin {
    Origin {
        exception: exception.into(),
        how,
        place: place.into(),
    }
}

fn io(medium: Medium, direction: Direction) -> Option<Io> {
    Some(Io { medium, direction })
}

fn sites() -> Vec<Site> {
    let reach = |state: u32, via: &[&str]| Reach {
        state,
        via: via.iter().map(|m| m.to_string()).collect(),
    };
    let guard = |by: GuardedBy, via: &[&str]| Guard {
        by,
        via: via.iter().map(|m| m.to_string()).collect(),
    };
    vec![
        Site {
            exceptions: vec!["java.io.IOException".into(), "org.mine.LogFull".into()],
            origins: vec![
                origin(
                    "java.io.IOException",
                    Raise::Declared,
                    "java.io.OutputStream.write",
                ),
                origin("org.mine.LogFull", Raise::Thrown, "org.mine.Log.room:88"),
            ],
            io: io(Medium::Disk, Direction::Write),
            io_target: Some("file this.logFile".into()),
            may_be_memory: true,
            states: vec![reach(1, &["org.mine.Log.append"]), reach(0, &[])],
            guards: vec![
                guard(GuardedBy::Region(0), &[]),
                guard(
                    GuardedBy::Timeout(0),
                    &["org.mine.Node.tick", "org.mine.Log.append"],
                ),
            ],
            group: Some(0),
            ..site(0, "Log", "append", "java.io.OutputStream.write")
        },
        Site {
            exceptions: vec!["java.io.IOException".into()],
            io: io(Medium::Disk, Direction::Control),
            guards: vec![guard(GuardedBy::Region(0), &[])],
            group: Some(0),
            ..site(1, "Log", "append", "java.io.FileDescriptor.sync")
        },
        Site {
            exceptions: vec!["java.io.IOException".into()],
            ..site(2, "Node", "parse", "org.mine.Codec.decode")
        },
        Site {
            kind: SiteKind::Entry,
            io: io(Medium::Network, Direction::Read),
            line: None,
            ..site(3, "Node", "tick", "java.net.SocketInputStream.read")
        },
    ]
}

/// One of everything: a log that appends under a lock, and a thread that does so in two states.
pub fn catalog() -> SiteCatalog {
    let state = |id: u32, condition: &str| State {
        id,
        name: format!("org.mine.Node.run():{id}"),
        task: 0,
        index: id,
        place: place("Node", "run", 20 + id),
        condition: condition.into(),
    };
    SiteCatalog {
        format: SiteCatalog::FORMAT,
        sites: sites(),
        classes: vec![ClassEntry {
            name: "org/mine/Log".into(),
            hash: 7,
            blocks: Vec::new(),
        }],
        block_count: 12_345,
        raised: Vec::new(),
        catches: Vec::new(),
        tasks: vec![Task {
            id: 0,
            name: "org.mine.Node.run()".into(),
            kind: TaskKind::Thread,
            closure: false,
            place: place("Node", "run", 20),
            variables: vec!["role".into(), "epoch".into()],
        }],
        states: vec![state(0, ""), state(1, "this.role == LEADER")],
        regions: vec![Region {
            id: 0,
            kind: RegionKind::SynchronizedMethod,
            place: place("Log", "append", 40),
            on: "this".into(),
            waiters: vec![place("Node", "status", 70)],
        }],
        timeouts: vec![Timeout {
            id: 0,
            kind: TimeoutKind::Wait,
            place: place("Node", "tick", 30),
            above: 0,
            wide: true,
            unit: TimeUnit::Milliseconds,
            constant: Some(500),
            expression: "this.acks.wait(500)".into(),
        }],
        groups: vec![Group {
            id: 0,
            sites: vec![0, 1],
        }],
        messages: vec![Message {
            side: MessageSide::Send,
            place: place("Peer", "send", 15),
            given: true,
        }],
        meta_accesses: vec![MetaAccess {
            id: 0,
            place: place("Peer", "join", 19),
            field: "org.mine.Peer.members".into(),
            write: true,
        }],
        removed: vec![Removed {
            name: "org.mine.Codec.decode(byte[])>java.io.InputStream.read#0".into(),
            line: Some(9),
            because: Because::Invalid,
            why: "the stream is a java.io.ByteArrayInputStream made in org.mine.Codec.decode:8"
                .into(),
        }],
    }
}

pub fn examined(catalog: SiteCatalog, diagnostics: usize) -> Examined {
    let diagnostic = |n: usize| Diagnostic {
        place: format!("lib/broken-{n}.jar!org/mine/Thing.class"),
        message: "the constant pool ends early".into(),
    };
    Examined {
        name: "mine@1".into(),
        jdk_major: 17,
        analysis: Analysis {
            catalog,
            diagnostics: (0..diagnostics).map(diagnostic).collect(),
            effort: Effort {
                classes: 1_042,
                methods: 9_800,
                code_bytes: 1_234_567,
                sources: 12,
                sources_from_cache: 3,
                from_cache: false,
                stages: vec![("read", 0.1), ("sites", 0.25)],
            },
        },
        seconds: 0.41,
        peak_mb: 212.4,
    }
}
