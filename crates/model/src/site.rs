//! Sites: the places in the code where a fault may happen.

use serde::{Deserialize, Serialize};

use crate::catalog::{Guard, Reach};
use crate::names::method_of_frame;

/// A site's index in its catalog: what the board and the agent speak.
pub type SiteId = u32;

/// Where the hook of a site stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SiteKind {
    /// Just before a call, inside the same try range.
    #[default]
    Call,
    /// At the entry of a JDK method that does I/O, whoever calls it.
    Entry,
}

/// What an I/O site touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Medium {
    Disk,
    Network,
    /// I/O, but which of the two cannot be told from the call alone.
    Stream,
}

/// Which way the bytes of an I/O site go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    Read,
    Write,
    /// Opening, connecting, renaming and the like.
    Control,
    /// A setting of a socket, its close: it can fail, but waits for no device and no peer.
    Local,
}

/// The I/O a site does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Io {
    pub medium: Medium,
    pub direction: Direction,
}

/// One place where a fault may happen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// Index in the catalog; stable for the same class files.
    pub id: SiteId,
    /// `pkg.Class.method(Params)>pkg.Callee.method#k`: stable across builds that keep the method.
    pub name: String,
    pub kind: SiteKind,
    /// Internal name of the class that holds the site, with slashes.
    pub class: String,
    pub method: String,
    pub desc: String,
    /// Position in the unmodified code.
    pub pc: u32,
    pub line: Option<u32>,
    /// `pkg.Callee.method`, with dots.
    pub callee: String,
    /// Exceptions the call can raise, most general first, with dots.
    pub exceptions: Vec<String>,
    /// Why: where each of them comes from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<Origin>,
    /// Present where the call does I/O.
    pub io: Option<Io>,
    /// What the I/O goes to, as far as it can be told: `file this.logFile`, `peer sock`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_target: Option<String>,
    /// Some callers pass a stream that is in memory only; others do not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_be_memory: bool,
    /// Methods that make the streams which are in memory only, `pkg.Class.method`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_makers: Vec<String>,
    /// Methods that make the others, as far as they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub real_makers: Vec<String>,
    /// States of tasks in which the site is reached, nearest first; a few of many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<Reach>,
    /// Regions and timeouts around it, nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guards: Vec<Guard>,
    /// The group of guarded sites of its basic block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
}

impl Site {
    /// Whether a hit in this context only meets memory, so that no I/O can fail there: of the
    /// methods on the stack, innermost first, the first that makes a stream for the site makes
    /// one in memory.
    pub fn is_in_memory(&self, frames: &[String]) -> bool {
        let is_in = |makers: &[String], frame: &str| makers.iter().any(|maker| maker == frame);
        let mut methods = frames.iter().map(|frame| method_of_frame(frame));
        let maker = methods.find_map(|method| {
            let real = is_in(&self.real_makers, method);
            (real || is_in(&self.memory_makers, method)).then_some(real)
        });
        maker == Some(false)
    }

    /// Whether the call waits for a device or a peer, so that a delay makes sense.
    pub fn can_be_slow(&self) -> bool {
        self.io.is_some_and(|io| io.direction != Direction::Local)
    }

    /// The exceptions worth injecting. One of the target's own that a body throws by hand, where
    /// no I/O is done, speaks of the target's state: thrown in another state it only misleads.
    pub fn throwable(&self) -> impl Iterator<Item = &String> {
        self.exceptions.iter().filter(|exception| {
            let own = !exception.starts_with("java.") && !exception.starts_with("javax.");
            let mut origins = self.origins.iter().filter(|o| o.exception == **exception);
            let thrown = |o: &Origin| o.how == Raise::Thrown;
            let thrown = origins.next().is_some_and(thrown) && origins.all(thrown);
            !(own && thrown && self.io.is_none())
        })
    }
}

/// Where an exception of a site comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// With dots.
    pub exception: String,
    pub how: Raise,
    /// `pkg.Class.method`, and the line where it is thrown if it is.
    pub place: String,
}

/// How the analysis knows that an exception can be raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Raise {
    /// The callee has no body here and declares it.
    Declared,
    /// A body throws it and nothing on the way handles it.
    Thrown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_about_the_targets_own_state_are_not_injected() {
        let site = |exception: &str, how: Raise, io: Option<Io>| Site {
            exceptions: vec![exception.into()],
            origins: vec![Origin {
                exception: exception.into(),
                how,
                place: "x.Sessions.touch:3".into(),
            }],
            io,
            ..Site::default()
        };
        let io = Io {
            medium: Medium::Network,
            direction: Direction::Write,
        };
        let own = "x.NoSessionException";
        for (site, expected) in [
            (site(own, Raise::Thrown, None), 0),
            (site(own, Raise::Declared, None), 1),
            (site(own, Raise::Thrown, Some(io)), 1),
            (site("java.io.IOException", Raise::Thrown, None), 1),
        ] {
            assert_eq!(site.throwable().count(), expected, "{site:?}");
        }
    }

    #[test]
    fn the_nearest_maker_on_the_stack_says_what_a_stream_is() {
        let site = Site {
            memory_makers: vec!["x.Reply.pack".into(), "x.Both.open".into()],
            real_makers: vec!["x.Snapshot.save".into(), "x.Both.open".into()],
            ..Site::default()
        };
        let check = |frames: &[&str], expected: bool| {
            let frames: Vec<String> = frames.iter().map(|f| f.to_string()).collect();
            assert_eq!(site.is_in_memory(&frames), expected, "{frames:?}");
        };
        let write = "x.Record.write(Record.java:3)";
        check(&[write, "x.Reply.pack(Reply.java:9)"], true);
        check(
            &[
                write,
                "x.Reply.pack(Reply.java:9)",
                "x.Snapshot.save(S.java:1)",
            ],
            true,
        );
        check(
            &[
                write,
                "x.Snapshot.save(S.java:1)",
                "x.Reply.pack(Reply.java:9)",
            ],
            false,
        );
        // Nobody on the stack made it, or one that makes both kinds: it may be real.
        check(&["x.Record.write:3", "x.Reply.pack:9"], true);
        check(&[write, "x.Reply.packed(Reply.java:9)"], false);
        check(&[write, "x.Both.open(B.java:1)"], false);
        check(&[], false);
    }
}
