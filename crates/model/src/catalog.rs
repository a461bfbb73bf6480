//! The catalog: everything the analysis found in a target. What is named by an id is an index
//! into the list of its kind.

use serde::{Deserialize, Serialize};

use crate::board::spec::Points;
use crate::names::{line_of_frame, method_of_frame};
use crate::plan::Among;
use crate::site::{Site, SiteId};

/// The basic blocks of one method, for coverage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodBlocks {
    pub method: String,
    pub desc: String,
    /// Id of the first block; the others follow in order.
    pub first: u32,
    pub pcs: Vec<u32>,
}

/// A class that is hooked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassEntry {
    /// Internal name, with slashes.
    pub name: String,
    /// Hash of the class bytes the analysis saw; 0 for JDK classes, which are retransformed.
    pub hash: u64,
    pub blocks: Vec<MethodBlocks>,
}

/// Everything the analysis found: what can be hooked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteCatalog {
    pub format: u32,
    pub sites: Vec<Site>,
    /// Classes with sites or blocks, sorted by name.
    pub classes: Vec<ClassEntry>,
    pub block_count: u32,
    /// Threads, runnables, callables, timers and the target's own workers.
    #[serde(default)]
    pub tasks: Vec<Task>,
    #[serde(default)]
    pub states: Vec<State>,
    #[serde(default)]
    pub regions: Vec<Region>,
    #[serde(default)]
    pub timeouts: Vec<Timeout>,
    #[serde(default)]
    pub groups: Vec<Group>,
    #[serde(default)]
    pub messages: Vec<Message>,
    #[serde(default)]
    pub meta_accesses: Vec<MetaAccess>,
    /// The exceptions that sites raise, with dots.
    #[serde(default)]
    pub raised: Vec<String>,
    /// Where they are handled, sorted.
    #[serde(default)]
    pub catches: Vec<Catch>,
    /// Sites that would have been invalid injections.
    #[serde(default)]
    pub removed: Vec<Removed>,
}

/// Where a method handles exceptions that come out of its calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Catch {
    /// `pkg.Class.method`, with dots; methods of one name share it, and differ by their lines.
    pub method: String,
    /// Places in the list of those that sites raise.
    pub exceptions: Vec<u32>,
    /// First and last line of each run of such calls.
    pub lines: Vec<(u32, u32)>,
}

impl Catch {
    fn is_at(&self, exception: u32, method: &str, line: u32) -> bool {
        let within = |(first, last): &(u32, u32)| (*first..=*last).contains(&line);
        self.method == method
            && self.exceptions.contains(&exception)
            && self.lines.iter().any(within)
    }
}

/// A place in the code, as the agent and people find it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// Internal name, with slashes.
    pub class: String,
    pub method: String,
    pub desc: String,
    pub pc: u32,
    pub line: Option<u32>,
}

/// What kind of task unit a class or closure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskKind {
    Thread,
    Runnable,
    Callable,
    Timer,
    /// A worker base that the target names in its data.
    Worker,
}

/// A task unit: a class with a method that a thread runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    pub id: u32,
    /// `pkg.Class.run()`: stable across builds that keep the method.
    pub name: String,
    pub kind: TaskKind,
    /// A lambda, a method reference or a Scala closure, not a class of its own.
    pub closure: bool,
    /// The entry of its method.
    pub place: Place,
    /// Fields that decide what it does, as `name`.
    pub variables: Vec<String>,
}

/// An abstract state of a task: it is entered where its block begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub id: u32,
    /// The task's name, `:`, its index in the task.
    pub name: String,
    pub task: u32,
    /// 0 is the entry of the task.
    pub index: u32,
    pub place: Place,
    /// The condition under which it is entered, as a reader would write it; empty for the entry.
    pub condition: String,
}

/// How a region makes others wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RegionKind {
    Monitor,
    SynchronizedMethod,
    Lock,
    /// A method that runs a closure under a lock, named in the target's data.
    Wrapper,
    /// What happens before a notify, a count-down, a signal that another thread waits for.
    Barrier,
    /// What a thread does that another joins.
    Join,
    /// What a consumer does between two elements of a queue that other threads fill.
    Queue,
}

/// Code that others wait for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    pub id: u32,
    pub kind: RegionKind,
    /// Where it is entered; for a barrier, where it is released.
    pub place: Place,
    /// The lock, the barrier or the queue: `this.dataTree`, `Foo.class`.
    pub on: String,
    /// Where others wait for it, where that was found.
    pub waiters: Vec<Place>,
}

/// How a timeout is expressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeoutKind {
    /// A wait, await, join, get or poll with a bound: what it waits for is protected.
    Wait,
    /// A lock that is only tried for a time.
    TryLock,
    /// The time between two readings of the clock, compared.
    Elapsed,
    /// An I/O call with a bound of its own: connect, select, a socket's read timeout.
    Io,
}

/// The unit of a timeout's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeUnit {
    Nanoseconds,
    Milliseconds,
    Seconds,
    /// Given by the `TimeUnit` argument that follows the value.
    Argument,
}

/// A timeout, and where its value can be read while the system runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeout {
    pub id: u32,
    pub kind: TimeoutKind,
    /// The instruction before which the value is on the operand stack.
    pub place: Place,
    /// How many stack slots lie above the value there.
    pub above: u32,
    /// The value is a `long`; otherwise an `int`.
    pub wide: bool,
    pub unit: TimeUnit,
    /// The value, where it is a constant.
    pub constant: Option<i64>,
    /// As a reader would write it: `now - start > this.syncLimit`.
    pub expression: String,
}

impl TimeUnit {
    /// Milliseconds; a value whose unit came with it is in these already.
    pub fn ms(self, value: u64) -> u64 {
        match self {
            TimeUnit::Nanoseconds => value / 1_000_000,
            TimeUnit::Milliseconds | TimeUnit::Argument => value,
            TimeUnit::Seconds => value.saturating_mul(1_000),
        }
    }
}

/// What guards a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuardedBy {
    Region(u32),
    Timeout(u32),
}

/// That a site lies in a region or under a timeout, and through which calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    pub by: GuardedBy,
    /// Methods between the guard and the site, outermost first; empty where the site stands in
    /// the guarded code itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<String>,
}

impl Guard {
    pub fn is_timeout(&self) -> bool {
        matches!(self.by, GuardedBy::Timeout(_))
    }
}

/// That a site is reached in a state of a task, and through which calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    pub state: u32,
    /// Methods between the task's method and the site, outermost first; empty where the site
    /// stands in the task's method itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<String>,
}

/// Guarded sites of one basic block; the last one stands for all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    pub id: u32,
    pub sites: Vec<SiteId>,
}

impl Group {
    pub fn representative(&self) -> Option<SiteId> {
        self.sites.last().copied()
    }
}

/// Which way a message method moves messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MessageSide {
    Send,
    Handle,
}

/// A method that sends or handles messages between nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub side: MessageSide,
    pub place: Place,
    /// Named in the target's data, not found by pattern.
    pub given: bool,
}

/// A read or write of a field that holds which nodes there are (CrashTuner's meta-info).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetaAccess {
    pub id: u32,
    pub place: Place,
    /// `pkg.Class.field`.
    pub field: String,
    pub write: bool,
}

/// Why a call that declares faults is no site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Because {
    /// The fault cannot happen there.
    Invalid,
    /// Nothing in the program reaches the method.
    Unreached,
}

/// A call that declares faults and is no site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// As a site's name.
    pub name: String,
    pub line: Option<u32>,
    pub because: Because,
    /// What shows it: where the in-memory stream is created.
    pub why: String,
}

impl SiteCatalog {
    pub const FORMAT: u32 = 2;

    pub fn site(&self, id: SiteId) -> Option<&Site> {
        self.sites.get(id as usize)
    }

    pub fn by_name(&self, name: &str) -> Option<&Site> {
        self.sites.iter().find(|s| s.name == name)
    }

    /// The last method that an exception leaves on its way up a stack, innermost first: the one
    /// above handles it. A method that handles what its own call raises counts itself. None where
    /// nobody is known to.
    pub fn thrown_out_of<'f>(&self, exception: &str, frames: &'f [String]) -> Option<&'f str> {
        let exception = self.raised.iter().position(|e| e == exception)? as u32;
        let handles = |frame: &String| {
            let (method, line) = (method_of_frame(frame), line_of_frame(frame));
            line.is_some_and(|line| {
                self.catches
                    .iter()
                    .any(|c| c.is_at(exception, method, line))
            })
        };
        let above = frames.iter().position(handles)?;
        // Compilers make a method of their own for a nested class to call a private one.
        let written = |method: &&str| !method.contains(".access$");
        let left = frames[..above].iter().rev().map(|f| method_of_frame(f));
        let mut left = left.filter(written);
        left.next()
            .or_else(|| Some(method_of_frame(frames.first()?)))
    }

    /// How many points can be hooked, of each kind.
    pub fn points(&self) -> Points {
        Points {
            sites: self.sites.len() as u32,
            states: self.states.len() as u32,
            tasks: self.tasks.len() as u32,
            accesses: self.meta_accesses.len() as u32,
            timeouts: self.timeouts.len() as u32,
        }
    }

    /// The sites that a trigger looks at.
    pub fn among(&self, among: Among) -> Vec<&Site> {
        let is_guarded = |s: &&Site| !s.guards.is_empty();
        match among {
            Among::All => self.sites.iter().collect(),
            Among::Guarded => self.sites.iter().filter(is_guarded).collect(),
            Among::Timed => self.timeout_sites().collect(),
            Among::Groups => {
                let sites = self.groups.iter().filter_map(Group::representative);
                sites.filter_map(|id| self.site(id)).collect()
            }
        }
    }

    /// Calls whose faults cannot happen.
    pub fn invalid_removed(&self) -> usize {
        let invalid = self.removed.iter();
        invalid.filter(|r| r.because == Because::Invalid).count()
    }

    /// Sites with a region that makes others wait for them.
    pub fn sync_sites(&self) -> impl Iterator<Item = &Site> {
        let has = |s: &&Site| s.guards.iter().any(|g| !g.is_timeout());
        self.sites.iter().filter(has)
    }

    /// Sites under a timeout.
    pub fn timeout_sites(&self) -> impl Iterator<Item = &Site> {
        let has = |s: &&Site| s.guards.iter().any(Guard::is_timeout);
        self.sites.iter().filter(has)
    }

    /// Identity of the catalog: board, hooks file and store must agree on it.
    pub fn hash(&self) -> u64 {
        let mut hash = crate::fnv64(&self.block_count.to_le_bytes());
        hash = crate::fnv64_from(hash, &self.points().total().to_le_bytes());
        for class in &self.classes {
            hash = crate::fnv64_from(hash, &class.hash.to_le_bytes());
        }
        for site in &self.sites {
            hash = crate::fnv64_from(hash, site.name.as_bytes());
            hash = crate::fnv64_from(hash, &site.pc.to_le_bytes());
        }
        hash
    }
}

/// Something the analysis could not use; the rest was analysed all the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// The jar, folder or class it is about.
    pub place: String,
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_is_out_of_the_last_method_that_somebody_wrote() {
        let catalog = SiteCatalog {
            raised: vec!["x.Bad".into(), "x.Worse".into()],
            catches: vec![Catch {
                method: "x.Loop.run".into(),
                exceptions: vec![0],
                lines: vec![(3, 5), (9, 9)],
            }],
            ..SiteCatalog::default()
        };
        let out_of = |exception: &str, frames: &[&str]| {
            let frames: Vec<String> = frames.iter().map(|f| f.to_string()).collect();
            let method = catalog.thrown_out_of(exception, &frames);
            method.map(str::to_string)
        };
        let sent = |line: &str| ["x.Link.put:7", "x.Link.access$1:1", line].map(str::to_string);
        for (exception, line, expected) in [
            ("x.Bad", "x.Loop.run:4", Some("x.Link.put")),
            ("x.Bad", "x.Loop.run:9", Some("x.Link.put")),
            ("x.Bad", "x.Loop.run:7", None),
            ("x.Bad", "x.Loop.run", None),
            ("x.Bad", "x.Other.run:4", None),
            ("x.Worse", "x.Loop.run:4", None),
            ("x.Unheard", "x.Loop.run:4", None),
        ] {
            let frames = sent(line);
            let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
            assert_eq!(out_of(exception, &frames).as_deref(), expected, "{line}");
        }
        let own = out_of("x.Bad", &["x.Loop.run:3", "x.Main.main:1"]);
        assert_eq!(own.as_deref(), Some("x.Loop.run"));
        assert_eq!(out_of("x.Bad", &[]), None);
    }
}
