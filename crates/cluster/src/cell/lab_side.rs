//! The lab's handle of a cell: requests with answers, exits as they come, and the end of it all.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Shutdown};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::cpu;
use super::error::CellError;
use super::message::{
    Clocks, ExitNotice, FromCell, IceOrder, ProbeAnswer, ProbeSpec, ProcId, ProcessSpec, ToCell,
    receive, send,
};
use super::partition::{heal_script, partition_script, reset_script, unreset_script};
use super::program;
use super::{ice, kernel};

type Result<T> = std::result::Result<T, CellError>;

/// What a cell is made of.
#[derive(Clone, Debug)]
pub struct CellSpec {
    /// The trial's folder; made if it is not there, seen at the same path inside.
    pub dir: PathBuf,
    /// The folder of the snapshot whose processes will be thawed in it: they find this one there.
    pub thaws_at: Option<PathBuf>,
    /// How long building it may take.
    pub open_within_ms: u64,
    /// How long one request may take (a probe has its own time on top).
    pub answer_within_ms: u64,
    /// How long its processes may take to disappear.
    pub close_within_ms: u64,
}

impl CellSpec {
    /// A cell in `dir` with limits that suit a busy machine.
    pub fn new(dir: impl Into<PathBuf>) -> CellSpec {
        CellSpec {
            dir: dir.into(),
            thaws_at: None,
            open_within_ms: 30_000,
            answer_within_ms: 30_000,
            close_within_ms: 30_000,
        }
    }
}

/// An open cell. Share it in an `Arc`: all calls take `&self`, and none waits for another's answer.
#[derive(Debug)]
pub struct Cell {
    spec: CellSpec,
    writer: Mutex<UnixStream>,
    mail: Arc<Mail>,
    next: AtomicU64,
    init_pid: i32,
    init: OwnedFd,
    /// `None` once closed.
    outer: Mutex<Option<Child>>,
}

/// The answer to a probe that nobody waits for.
#[derive(Debug)]
pub struct LaterAnswer(Mutex<Receiver<FromCell>>);

impl LaterAnswer {
    /// The answer, once it is there; a probe that failed, or whose cell is gone, was refused.
    pub fn poll(&self) -> Option<ProbeAnswer> {
        let refused = |reason: &str| ProbeAnswer::Refused {
            reason: reason.to_string(),
        };
        match lock(&self.0).try_recv() {
            Ok(FromCell::Answer { answer, .. }) => Some(answer),
            Ok(FromCell::Failed { reason, .. }) => Some(refused(&reason)),
            Ok(_) | Err(TryRecvError::Disconnected) => Some(refused("the cell is gone")),
            Err(TryRecvError::Empty) => None,
        }
    }
}

/// What has come from the cell and who waits for it.
#[derive(Debug, Default)]
struct Mail {
    waiting: Mutex<Waiting>,
    exits: Mutex<Exits>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    by_request: HashMap<u64, Sender<FromCell>>,
    /// Set when no answer can come any more.
    closed: bool,
}

#[derive(Debug, Default)]
struct Exits {
    all: Vec<ExitNotice>,
    /// So many were handed out.
    told: usize,
    closed: bool,
}

// A thread that panicked while it held one of these locks left nothing half-done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cell {
    /// Builds a cell; returns when processes can be started in it.
    pub fn open(spec: CellSpec) -> Result<Cell> {
        let dir = folder(&spec.dir)?;
        let spec = CellSpec { dir, ..spec };
        let program = program::find()?;
        let cannot = |source| CellError::Spawn {
            program: program.clone(),
            source,
        };
        let (ours, theirs) = UnixStream::pair().map_err(cannot)?;
        let outer = Command::new(&program)
            .arg("open")
            .arg(&spec.dir)
            .args(&spec.thaws_at)
            .env_clear()
            .current_dir("/")
            // Ctrl-C is for the lab, which still wants to collect what is in the cell.
            .process_group(0)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(cannot)?;
        let outer = OuterGuard(Some(outer));
        let (init_pid, init) = await_ready(&ours, &spec)?;
        let mail = Arc::new(Mail::default());
        let reader = ours.try_clone().map_err(cannot)?;
        let delivered = mail.clone();
        thread::Builder::new()
            .name("cell-mail".into())
            .spawn(move || deliver(reader, &delivered))
            .map_err(cannot)?;
        Ok(Cell {
            spec,
            writer: Mutex::new(ours),
            mail,
            next: AtomicU64::new(1),
            init_pid,
            init,
            outer: Mutex::new(outer.keep()),
        })
    }

    /// The trial's folder, absolute.
    pub fn dir(&self) -> &Path {
        &self.spec.dir
    }

    /// The cell's init, as this process sees it.
    pub fn init_pid(&self) -> i32 {
        self.init_pid
    }

    /// Processor time used in the cell so far, by those too that have ended.
    pub fn cpu_seconds(&self) -> f64 {
        cpu::seconds_below(self.init_pid)
    }

    /// Memory of all processes in the cell; pages that they share with each other or with others
    /// are counted by their share.
    pub fn memory_bytes(&self) -> u64 {
        cpu::memory_below(self.init_pid)
    }

    /// Starts a process; its exit comes through `poll_exits` or `wait_exit`.
    pub fn start(&self, spec: ProcessSpec) -> Result<ProcId> {
        self.start_with_pid(spec).map(|(id, _)| id)
    }

    /// As `start`, with the process id as it is inside the cell.
    pub fn start_with_pid(&self, spec: ProcessSpec) -> Result<(ProcId, u32)> {
        let id = ProcId(self.number());
        let what = format!("start {}", spec.name);
        let ask = |request| ToCell::Start { request, id, spec };
        match self.request(&what, self.spec.answer_within_ms, ask)? {
            FromCell::Started { pid, .. } => Ok((id, pid as u32)),
            other => Err(unexpected(what, &other)),
        }
    }

    /// Freezes all processes into images and ends them. Gives the order that thaws them.
    pub fn freeze(&self, order: IceOrder) -> Result<IceOrder> {
        let what = "freeze its processes";
        match self.ask(what, |request| ToCell::Freeze { request, order })? {
            FromCell::Frozen { order, .. } => Ok(order),
            other => Err(unexpected(what.to_string(), &other)),
        }
    }

    /// Brings frozen processes back, in a cell opened for that. New ones are numbered from `next`
    /// on.
    pub fn thaw(&self, order: IceOrder, next: u64) -> Result<Clocks> {
        self.next.fetch_max(next, Ordering::Relaxed);
        let what = "thaw its processes";
        match self.ask(what, |request| ToCell::Thaw { request, order })? {
            FromCell::Thawed { clocks, .. } => {
                let own = std::fs::read_to_string("/proc/self/timens_offsets").ok();
                let own_ns = own.and_then(|text| ice::offset_of(&text)).unwrap_or(0);
                Ok(Clocks {
                    ahead_ns: clocks.ahead_ns - own_ns,
                    ..clocks
                })
            }
            other => Err(unexpected(what.to_string(), &other)),
        }
    }

    /// The number that the next process gets, at least.
    pub fn next_number(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Sends a signal to a process and its group.
    pub fn signal(&self, id: ProcId, signal: i32) -> Result<()> {
        if self.exit_of(id).is_some() {
            return Err(CellError::Ended { id });
        }
        let what = format!("send signal {signal} to process {id}");
        let ask = |request| ToCell::Signal {
            request,
            id,
            signal,
        };
        match self.request(&what, self.spec.answer_within_ms, ask) {
            Ok(FromCell::Signalled { .. }) => Ok(()),
            Ok(other) => Err(unexpected(what, &other)),
            // Its end and the signal crossed each other.
            Err(CellError::Request { .. }) if self.exit_of(id).is_some() => {
                Err(CellError::Ended { id })
            }
            Err(error) => Err(error),
        }
    }

    /// Ends a process as `kill -9` does.
    pub fn kill(&self, id: ProcId) -> Result<()> {
        self.signal(id, libc::SIGKILL)
    }

    /// Freezes a process.
    pub fn pause(&self, id: ProcId) -> Result<()> {
        self.signal(id, libc::SIGSTOP)
    }

    /// Lets a frozen process go on.
    pub fn resume(&self, id: ProcId) -> Result<()> {
        self.signal(id, libc::SIGCONT)
    }

    /// Asks a question over TCP inside the cell.
    pub fn probe(&self, spec: ProbeSpec) -> Result<ProbeAnswer> {
        let what = format!("ask {}", spec.to);
        let limit_ms = self.spec.answer_within_ms.saturating_add(spec.within_ms);
        match self.request(&what, limit_ms, |request| ToCell::Probe { request, spec })? {
            FromCell::Answer { answer, .. } => Ok(answer),
            other => Err(unexpected(what, &other)),
        }
    }

    /// As `probe`, without waiting: the answer is asked for later.
    pub fn probe_later(&self, spec: ProbeSpec) -> Result<LaterAnswer> {
        let (_, answer) = self.post(|request| ToCell::Probe { request, spec })?;
        Ok(LaterAnswer(Mutex::new(answer)))
    }

    /// Cuts the network between the groups; replaces an earlier partition.
    pub fn partition(&self, groups: &[Vec<Ipv4Addr>]) -> Result<()> {
        self.load_rules("partition the network", partition_script(groups))
            .map(drop)
    }

    /// Mends the network.
    pub fn heal(&self) -> Result<()> {
        self.load_rules("heal the network", heal_script()).map(drop)
    }

    /// Resets the connections between a node and the others, new ones too, until `unreset`.
    pub fn reset(&self, node: Ipv4Addr, others: &[Ipv4Addr]) -> Result<()> {
        self.load_rules("reset connections", reset_script(node, others))
            .map(drop)
    }

    /// The node's connections can be made again.
    pub fn unreset(&self, node: Ipv4Addr) -> Result<()> {
        self.load_rules("end the resets of connections", unreset_script(node))
            .map(drop)
    }

    pub(super) fn load_rules(&self, what: &str, script: String) -> Result<String> {
        match self.ask(what, |request| ToCell::Nft { request, script })? {
            FromCell::NftDone { printed, .. } => Ok(printed),
            other => Err(unexpected(what.to_string(), &other)),
        }
    }

    /// The exits nobody has been told of yet.
    pub fn poll_exits(&self) -> Vec<ExitNotice> {
        let mut exits = lock(&self.mail.exits);
        let news = exits.all[exits.told..].to_vec();
        exits.told = exits.all.len();
        news
    }

    /// The next exit nobody has been told of; `None` when the time is up or the cell is gone.
    pub fn wait_exit(&self, within: Duration) -> Option<ExitNotice> {
        let exits = self.wait_until(within, |exits| exits.told < exits.all.len());
        exits.and_then(|mut exits| {
            let next = exits.all.get(exits.told).copied();
            exits.told += usize::from(next.is_some());
            next
        })
    }

    /// How a process ended, if it has; told or not.
    pub fn exit_of(&self, id: ProcId) -> Option<ExitNotice> {
        lock(&self.mail.exits)
            .all
            .iter()
            .find(|notice| notice.id == id)
            .copied()
    }

    /// Waits for the end of one process; leaves `poll_exits` as it is.
    pub fn wait_exit_of(&self, id: ProcId, within: Duration) -> Option<ExitNotice> {
        let ended = |exits: &Exits| exits.all.iter().any(|notice| notice.id == id);
        drop(self.wait_until(within, ended));
        self.exit_of(id)
    }

    /// Whether the cell's init has ended.
    pub fn is_gone(&self) -> bool {
        lock(&self.mail.exits).closed
    }

    fn wait_until(
        &self,
        within: Duration,
        met: impl Fn(&Exits) -> bool,
    ) -> Option<MutexGuard<'_, Exits>> {
        let deadline = Instant::now() + within;
        let mut exits = lock(&self.mail.exits);
        while !met(&exits) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || exits.closed {
                return None;
            }
            let waited = self.mail.changed.wait_timeout(exits, left);
            exits = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(exits)
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// One request within the time that is usual.
    pub(super) fn ask(&self, what: &str, ask: impl FnOnce(u64) -> ToCell) -> Result<FromCell> {
        self.request(what, self.spec.answer_within_ms, ask)
    }

    fn request(
        &self,
        what: &str,
        limit_ms: u64,
        ask: impl FnOnce(u64) -> ToCell,
    ) -> Result<FromCell> {
        let (request, answer) = self.post(ask)?;
        let answered = answer.recv_timeout(Duration::from_millis(limit_ms));
        lock(&self.mail.waiting).by_request.remove(&request);
        let what = what.to_string();
        match answered {
            Ok(FromCell::Failed { reason, .. }) => Err(CellError::Request { what, reason }),
            Ok(message) => Ok(message),
            Err(RecvTimeoutError::Timeout) => Err(CellError::Late { what, limit_ms }),
            Err(RecvTimeoutError::Disconnected) => Err(self.gone()),
        }
    }

    /// Sends a request; its answer comes once.
    fn post(&self, ask: impl FnOnce(u64) -> ToCell) -> Result<(u64, Receiver<FromCell>)> {
        let request = self.number();
        let (sender, answer): (Sender<FromCell>, Receiver<FromCell>) = channel();
        {
            let mut waiting = lock(&self.mail.waiting);
            if waiting.closed {
                return Err(self.gone());
            }
            waiting.by_request.insert(request, sender);
        }
        if send(&mut *lock(&self.writer), &ask(request)).is_err() {
            lock(&self.mail.waiting).by_request.remove(&request);
            return Err(self.gone());
        }
        Ok((request, answer))
    }

    fn gone(&self) -> CellError {
        CellError::Gone {
            dir: self.spec.dir.clone(),
        }
    }

    /// Ends everything in the cell and waits until it is gone. A second call does nothing.
    pub fn close(&self) -> Result<()> {
        let mut outer = lock(&self.outer);
        let Some(child) = outer.as_mut() else {
            return Ok(());
        };
        let _ = kernel::kill_pidfd(&self.init);
        let limit = Duration::from_millis(self.spec.close_within_ms);
        let deadline = Instant::now() + limit;
        // Readable when init is dead; the kernel lets it die last, after all others inside.
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match kernel::readable(&[self.init.as_raw_fd()], Some(left)) {
                Ok(ready) if ready[0] => break,
                _ if left.is_zero() => {
                    return Err(CellError::StillAlive {
                        dir: self.spec.dir.clone(),
                        init_pid: self.init_pid,
                        limit_ms: self.spec.close_within_ms,
                    });
                }
                _ => {}
            }
        }
        // It waits for nothing but init, and ends when it has. Killed before that it would leave
        // init's remains to the machine's own init, which may be slow to clear them away.
        if let Ok(outer) = kernel::open_pidfd(child.id() as i32) {
            let left = deadline.saturating_duration_since(Instant::now());
            let _ = kernel::readable(&[outer.as_raw_fd()], Some(left));
        }
        let _ = child.kill();
        let _ = child.wait();
        *outer = None;
        // Ends the reader thread even if some process still held the other end.
        let _ = lock(&self.writer).shutdown(Shutdown::Both);
        Ok(())
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        // Nothing can be told from here; whoever wants to know calls `close`.
        let _ = self.close();
        let _ = lock(&self.writer).shutdown(Shutdown::Both);
    }
}

/// Kills the outer process when opening fails half-way; init dies with it.
struct OuterGuard(Option<Child>);

impl OuterGuard {
    fn keep(mut self) -> Option<Child> {
        self.0.take()
    }
}

impl Drop for OuterGuard {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn folder(dir: &Path) -> Result<PathBuf> {
    let unusable = |source| CellError::Folder {
        dir: dir.to_path_buf(),
        source,
    };
    std::fs::create_dir_all(dir).map_err(unusable)?;
    dir.canonicalize().map_err(unusable)
}

pub(super) fn unexpected(what: String, message: &FromCell) -> CellError {
    CellError::Request {
        what,
        reason: format!("unexpected answer {message:?}"),
    }
}

/// Reads the first messages: the namespaces stand, then init is ready; or the refusal.
fn await_ready(ours: &UnixStream, spec: &CellSpec) -> Result<(i32, OwnedFd)> {
    let deadline = Instant::now() + Duration::from_millis(spec.open_within_ms);
    let dir = || spec.dir.clone();
    let mut init = None;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let late = CellError::NotUp {
            dir: dir(),
            limit_ms: spec.open_within_ms,
        };
        if left.is_zero() || ours.set_read_timeout(Some(left)).is_err() {
            return Err(late);
        }
        match receive::<FromCell>(&mut &*ours) {
            Ok(Some(FromCell::Opened { init_pid })) => {
                let gone = |_| CellError::Gone { dir: dir() };
                init = Some((init_pid, kernel::open_pidfd(init_pid).map_err(gone)?));
            }
            Ok(Some(FromCell::Ready)) => {
                let _ = ours.set_read_timeout(None);
                return init.ok_or_else(|| CellError::Gone { dir: dir() });
            }
            Ok(Some(FromCell::Refused {
                step,
                errno,
                advice,
            })) => {
                let reason = std::io::Error::from_raw_os_error(errno);
                return Err(CellError::Refused {
                    step,
                    reason,
                    advice,
                });
            }
            Ok(Some(_) | None) => return Err(CellError::Gone { dir: dir() }),
            Err(error) => match error.kind() {
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => return Err(late),
                _ => return Err(CellError::Gone { dir: dir() }),
            },
        }
    }
}

/// The reader thread: answers to those who wait, exits to all.
fn deliver(mut from_cell: UnixStream, mail: &Mail) {
    while let Ok(Some(message)) = receive::<FromCell>(&mut from_cell) {
        if let FromCell::Exited(notice) = message {
            lock(&mail.exits).all.push(notice);
            mail.changed.notify_all();
        } else if let Some(request) = message.request()
            && let Some(sender) = lock(&mail.waiting).by_request.remove(&request)
        {
            // Whoever asked may have stopped waiting.
            let _ = sender.send(message);
        }
    }
    let mut waiting = lock(&mail.waiting);
    waiting.closed = true;
    waiting.by_request.clear();
    drop(waiting);
    lock(&mail.exits).closed = true;
    mail.changed.notify_all();
}
