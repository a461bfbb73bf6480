//! Hooks inside the JDK's own classes, most of them loaded before the agent can see them.

use std::sync::atomic::Ordering;

use temblor_model::board::ARM_RECORD;
use temblor_model::board::record::RecordWhat;
use temblor_model::board::spec::{StepSpec, TriggerKind};

use crate::jdk::{self, Jdk};
use crate::trial::{Trial, jdk_catalog, step, throw};

const STREAM: (&str, &str, &str) = ("java/io/FileOutputStream", "write", "([BII)V");
const READ: (&str, &str, &str) = ("java/io/FileInputStream", "read", "([BII)I");
const CHANNEL: (&str, &str, &str) = (
    "sun/nio/ch/FileChannelImpl",
    "write",
    "(Ljava/nio/ByteBuffer;)I",
);
const SOCKET: (&str, &str, &str) = (
    "sun/nio/ch/SocketChannelImpl",
    "write",
    "(Ljava/nio/ByteBuffer;)I",
);
const CONNECT: (&str, &str, &str) = ("java/net/Socket", "connect", "(Ljava/net/SocketAddress;I)V");
const ALL: [(&str, &str, &str); 5] = [STREAM, READ, CHANNEL, SOCKET, CONNECT];

/// The program writes to stdout by `FileOutputStream` too: the first write is that of the file.
fn outcome(jdk: &Jdk, entry: (&str, &str, &str), class: &str) -> Vec<String> {
    let catalog = jdk_catalog(&ALL);
    let name = format!("{}.{}", entry.0.replace('/', "."), entry.1);
    let site = catalog.by_name(&name).unwrap().id;
    let trial = Trial::new(catalog, |spec| {
        spec.steps = vec![step(TriggerKind::AtHit, site)];
        spec.faults = vec![throw(class)];
    });
    let said = trial.run(jdk, "n1", &["Disk"]);
    assert_eq!(trial.board().slot(0).left_alone.load(Ordering::Relaxed), 0);
    said.lines().into_iter().map(str::to_owned).collect()
}

#[test]
fn file_and_socket_io_fails_where_it_is_told_to() {
    let cases = [
        (STREAM, "java/io/IOException", "stream"),
        (
            CHANNEL,
            "java/nio/channels/ClosedByInterruptException",
            "channel",
        ),
        (SOCKET, "java/net/SocketTimeoutException", "socket"),
        (CONNECT, "java/net/ConnectException", "connect"),
    ];
    for jdk in jdk::all() {
        for (entry, class, what) in cases {
            let lines = outcome(jdk, entry, class);
            let top = format!("{}.{}", entry.0, entry.1).replace('/', ".");
            let expected = format!(
                "{what} {} injected by Temblor in {top}",
                class.replace('/', ".")
            );
            assert!(
                lines.contains(&expected),
                "JDK {}: {expected} not in {lines:?}",
                jdk.feature
            );
            assert_eq!(
                lines.iter().filter(|l| l.ends_with("fine")).count(),
                4,
                "{lines:?}"
            );
        }
    }
}

#[test]
fn hits_in_the_jdk_are_recorded_with_their_callers() {
    for jdk in jdk::all() {
        let trial = Trial::new(jdk_catalog(&ALL), |spec| spec.arms = vec![ARM_RECORD; 5]);
        let lines = trial.run(jdk, "n1", &["Disk"]);
        assert_eq!(lines.lines().len(), 5);
        let records = trial.records(0);
        let caller = "sun.nio.ch.SocketChannelImpl.write\nDisk.lambda";
        let seen = |r: &RecordWhat| match r {
            RecordWhat::Context { frames, .. } => frames.starts_with(caller),
            _ => false,
        };
        assert!(records.iter().any(seen), "{records:#?}");
        let counts: Vec<u32> = (0..5).map(|site| trial.counter(0, site)).collect();
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    }
}

#[test]
fn the_nth_write_counts_every_stream() {
    for jdk in jdk::all() {
        let catalog = jdk_catalog(&[STREAM]);
        let trial = Trial::new(catalog, |spec| {
            spec.steps = vec![StepSpec {
                nth: 1_000_000,
                ..step(TriggerKind::AtHit, 0)
            }];
            spec.faults = vec![throw("java/io/IOException")];
        });
        assert_eq!(trial.run(jdk, "n1", &["Disk"]).lines().len(), 5);
        let hits = trial.board().steps()[0].count.load(Ordering::Relaxed);
        assert_eq!(hits, trial.counter(0, 0));
        assert!(hits >= 6, "{hits}");
    }
}
