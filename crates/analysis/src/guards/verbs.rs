//! What calls of the JDK (and of netty) mean to other threads, as a table: who locks, who waits,
//! who lets others go on, who hands over, who reads the clock.

use rustc_hash::FxHashMap;
use temblor_model::catalog::TimeUnit;

use crate::ir::{Call, Sym};
use crate::program::Program;

/// What a call does to other threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Lock,
    Unlock,
    /// Holds the lock only if it says so.
    TryLock,
    /// Lets those go on who wait on the same object.
    Release,
    Wait,
    /// Both: waits until all have come.
    Meet,
    /// Waits for the result of a task, or for somebody to complete it.
    Get,
    Join,
    Submit,
    AwaitTermination,
    /// Takes from a queue, adds to it.
    Take,
    Add,
    /// Does I/O with a bound of its own.
    BoundIo,
    /// Bounds the reads, or the connecting, of the object it is called on.
    BoundReads,
    BoundConnect,
    Clock(TimeUnit),
}

/// A call with a bound: which parameter (the receiver does not count) and its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    pub parameter: usize,
    pub unit: TimeUnit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    pub verb: Verb,
    pub bound: Option<Bound>,
}

const NONE: &str = "()";
const LONG: &str = "(J)";
const TIMED: &str = "(JLjava/util/concurrent/TimeUnit;)";
/// Whatever the parameters.
const ANY: &str = "";

const LOCK: &str = "java/util/concurrent/locks/Lock";
const STAMPED: &str = "java/util/concurrent/locks/StampedLock";
const CONDITION: &str = "java/util/concurrent/locks/Condition";
const OBJECT: &str = "java/lang/Object";
const LATCH: &str = "java/util/concurrent/CountDownLatch";
const SEMAPHORE: &str = "java/util/concurrent/Semaphore";
const BARRIER: &str = "java/util/concurrent/CyclicBarrier";
const PHASER: &str = "java/util/concurrent/Phaser";
const FUTURE: &str = "java/util/concurrent/Future";
const COMPLETABLE: &str = "java/util/concurrent/CompletableFuture";
const PROMISE: &str = "io/netty/util/concurrent/Promise";
const NETTY_FUTURE: &str = "io/netty/util/concurrent/Future";
const EXECUTOR: &str = "java/util/concurrent/ExecutorService";
const THREAD: &str = "java/lang/Thread";
const QUEUE: &str = "java/util/Queue";

type Row = (
    &'static str,
    &'static [&'static str],
    &'static str,
    Verb,
    Option<(usize, TimeUnit)>,
);

const ARGUMENT: Option<(usize, TimeUnit)> = Some((0, TimeUnit::Argument));
const MILLIS: Option<(usize, TimeUnit)> = Some((0, TimeUnit::Milliseconds));

/// Class (subtypes count), methods, parameters, what it does, its bound. The first match counts.
const ROWS: &[Row] = &[
    (LOCK, &["lock", "lockInterruptibly"], NONE, Verb::Lock, None),
    (LOCK, &["unlock"], NONE, Verb::Unlock, None),
    (LOCK, &["tryLock"], NONE, Verb::TryLock, None),
    (LOCK, &["tryLock"], TIMED, Verb::TryLock, ARGUMENT),
    (STAMPED, &["readLock", "writeLock"], NONE, Verb::Lock, None),
    (
        STAMPED,
        &["readLockInterruptibly", "writeLockInterruptibly"],
        NONE,
        Verb::Lock,
        None,
    ),
    (
        STAMPED,
        &["tryReadLock", "tryWriteLock"],
        NONE,
        Verb::TryLock,
        None,
    ),
    (
        STAMPED,
        &["tryReadLock", "tryWriteLock"],
        TIMED,
        Verb::TryLock,
        ARGUMENT,
    ),
    (
        STAMPED,
        &["unlock", "unlockRead", "unlockWrite"],
        LONG,
        Verb::Unlock,
        None,
    ),
    (OBJECT, &["notify", "notifyAll"], NONE, Verb::Release, None),
    (OBJECT, &["wait"], NONE, Verb::Wait, None),
    (OBJECT, &["wait"], LONG, Verb::Wait, MILLIS),
    (OBJECT, &["wait"], "(JI)", Verb::Wait, MILLIS),
    (
        CONDITION,
        &["signal", "signalAll"],
        NONE,
        Verb::Release,
        None,
    ),
    (
        CONDITION,
        &["await", "awaitUninterruptibly"],
        NONE,
        Verb::Wait,
        None,
    ),
    (CONDITION, &["await"], TIMED, Verb::Wait, ARGUMENT),
    (
        CONDITION,
        &["awaitNanos"],
        LONG,
        Verb::Wait,
        Some((0, TimeUnit::Nanoseconds)),
    ),
    (LATCH, &["countDown"], NONE, Verb::Release, None),
    (LATCH, &["await"], NONE, Verb::Wait, None),
    (LATCH, &["await"], TIMED, Verb::Wait, ARGUMENT),
    (SEMAPHORE, &["release"], ANY, Verb::Release, None),
    (
        SEMAPHORE,
        &["acquire", "acquireUninterruptibly"],
        ANY,
        Verb::Wait,
        None,
    ),
    (SEMAPHORE, &["tryAcquire"], TIMED, Verb::Wait, ARGUMENT),
    (
        SEMAPHORE,
        &["tryAcquire"],
        "(IJLjava/util/concurrent/TimeUnit;)",
        Verb::Wait,
        Some((1, TimeUnit::Argument)),
    ),
    (BARRIER, &["await"], NONE, Verb::Meet, None),
    (BARRIER, &["await"], TIMED, Verb::Meet, ARGUMENT),
    (PHASER, &["arriveAndAwaitAdvance"], NONE, Verb::Meet, None),
    (
        PHASER,
        &["arrive", "arriveAndDeregister"],
        NONE,
        Verb::Release,
        None,
    ),
    (PHASER, &["awaitAdvance"], ANY, Verb::Wait, None),
    (
        PHASER,
        &["awaitAdvanceInterruptibly"],
        "(IJLjava/util/concurrent/TimeUnit;)",
        Verb::Wait,
        Some((1, TimeUnit::Argument)),
    ),
    (
        COMPLETABLE,
        &["complete", "completeExceptionally"],
        ANY,
        Verb::Release,
        None,
    ),
    (COMPLETABLE, &["join"], NONE, Verb::Get, None),
    (COMPLETABLE, &["orTimeout"], TIMED, Verb::Get, ARGUMENT),
    (
        COMPLETABLE,
        &["supplyAsync", "runAsync"],
        ANY,
        Verb::Submit,
        None,
    ),
    (
        PROMISE,
        &["setSuccess", "trySuccess", "setFailure", "tryFailure"],
        ANY,
        Verb::Release,
        None,
    ),
    (NETTY_FUTURE, &["await"], TIMED, Verb::Get, ARGUMENT),
    (NETTY_FUTURE, &["await"], LONG, Verb::Get, MILLIS),
    (NETTY_FUTURE, &["sync", "await"], NONE, Verb::Get, None),
    (FUTURE, &["get"], NONE, Verb::Get, None),
    (FUTURE, &["get"], TIMED, Verb::Get, ARGUMENT),
    (THREAD, &["join"], NONE, Verb::Join, None),
    (THREAD, &["join"], LONG, Verb::Join, MILLIS),
    (THREAD, &["join"], "(JI)", Verb::Join, MILLIS),
    (
        "java/util/concurrent/Executor",
        &["execute", "submit", "schedule", "invoke"],
        ANY,
        Verb::Submit,
        None,
    ),
    (
        "java/util/concurrent/CompletionService",
        &["submit"],
        ANY,
        Verb::Submit,
        None,
    ),
    (
        EXECUTOR,
        &["awaitTermination"],
        TIMED,
        Verb::AwaitTermination,
        ARGUMENT,
    ),
    (
        QUEUE,
        &[
            "take",
            "poll",
            "remove",
            "takeFirst",
            "takeLast",
            "pollFirst",
        ],
        NONE,
        Verb::Take,
        None,
    ),
    (
        QUEUE,
        &["pollLast", "removeFirst", "removeLast", "pop"],
        NONE,
        Verb::Take,
        None,
    ),
    (
        QUEUE,
        &["poll", "pollFirst", "pollLast"],
        TIMED,
        Verb::Take,
        ARGUMENT,
    ),
    (QUEUE, &["drainTo"], ANY, Verb::Take, None),
    (
        QUEUE,
        &["offer", "offerFirst", "offerLast", "tryTransfer"],
        "(Ljava/lang/Object;JLjava/util/concurrent/TimeUnit;)",
        Verb::Add,
        Some((1, TimeUnit::Argument)),
    ),
    (
        QUEUE,
        &["put", "add", "offer", "addFirst", "addLast", "offerFirst"],
        ANY,
        Verb::Add,
        None,
    ),
    (
        QUEUE,
        &[
            "offerLast",
            "putFirst",
            "putLast",
            "push",
            "transfer",
            "addAll",
        ],
        ANY,
        Verb::Add,
        None,
    ),
    (
        "java/net/Socket",
        &["connect"],
        "(Ljava/net/SocketAddress;I)",
        Verb::BoundIo,
        Some((1, TimeUnit::Milliseconds)),
    ),
    (
        "java/nio/channels/Selector",
        &["select"],
        LONG,
        Verb::BoundIo,
        MILLIS,
    ),
    (
        "java/nio/channels/Selector",
        &["select"],
        "(Ljava/util/function/Consumer;J)",
        Verb::BoundIo,
        Some((1, TimeUnit::Milliseconds)),
    ),
    (
        "java/net/InetAddress",
        &["isReachable"],
        "(I)",
        Verb::BoundIo,
        MILLIS,
    ),
    (
        "java/net/Socket",
        &["setSoTimeout"],
        ANY,
        Verb::BoundReads,
        MILLIS,
    ),
    (
        "java/net/ServerSocket",
        &["setSoTimeout"],
        ANY,
        Verb::BoundReads,
        MILLIS,
    ),
    (
        "java/net/DatagramSocket",
        &["setSoTimeout"],
        ANY,
        Verb::BoundReads,
        MILLIS,
    ),
    (
        "java/net/URLConnection",
        &["setReadTimeout"],
        ANY,
        Verb::BoundReads,
        MILLIS,
    ),
    (
        "java/net/URLConnection",
        &["setConnectTimeout"],
        ANY,
        Verb::BoundConnect,
        MILLIS,
    ),
    (
        "java/lang/System",
        &["currentTimeMillis"],
        NONE,
        Verb::Clock(TimeUnit::Milliseconds),
        None,
    ),
    (
        "java/lang/System",
        &["nanoTime"],
        NONE,
        Verb::Clock(TimeUnit::Nanoseconds),
        None,
    ),
    (
        "java/time/Clock",
        &["millis"],
        NONE,
        Verb::Clock(TimeUnit::Milliseconds),
        None,
    ),
    (
        "java/time/Instant",
        &["toEpochMilli"],
        NONE,
        Verb::Clock(TimeUnit::Milliseconds),
        None,
    ),
    (
        "java/time/Instant",
        &["getEpochSecond"],
        NONE,
        Verb::Clock(TimeUnit::Seconds),
        None,
    ),
];

/// A class, none for all; the parameters; what it means.
type Known = (Option<Sym>, &'static str, Meaning);

/// The table, by the name of the method, for the names that a program has.
pub struct Verbs {
    by_name: FxHashMap<Sym, Vec<Known>>,
}

impl Verbs {
    pub fn new(program: &Program) -> Verbs {
        let mut by_name: FxHashMap<Sym, Vec<_>> = FxHashMap::default();
        for (class, names, parameters, verb, bound) in ROWS {
            let bound = bound.map(|(parameter, unit)| Bound { parameter, unit });
            let meaning = Meaning { verb: *verb, bound };
            // Everything is an object: no need to ask.
            let class = match *class {
                OBJECT => None,
                class => match program.sym(class) {
                    Some(class) => Some(class),
                    None => continue,
                },
            };
            for name in names.iter().filter_map(|name| program.sym(name)) {
                let rows = by_name.entry(name).or_default();
                rows.push((class, *parameters, meaning));
            }
        }
        Verbs { by_name }
    }

    pub fn of(&self, program: &Program, call: &Call) -> Option<Meaning> {
        let rows = self.by_name.get(&call.name)?;
        let desc = program.str(call.desc);
        let fits = |(class, parameters, _): &&Known| {
            desc.starts_with(parameters)
                && class.is_none_or(|class| program.is_subtype_named(call.class, class))
        };
        rows.iter().find(fits).map(|(.., meaning)| *meaning)
    }
}
