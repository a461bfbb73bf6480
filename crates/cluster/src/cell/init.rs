//! Process number 1 of a cell. It passes requests about processes on to the keeper, asks probes,
//! loads network rules and starts slow disks itself, and ends, and with it the cell, when the lab is gone.
//!
//! The keeper is a process of its own because a snapshot freezes it with all its descendants,
//! while init, which holds the lab's socket, stays outside.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::below::Disks;
use super::message::{FromCell, ToCell, receive, send};
use super::namespaces::Furniture;
use super::{ice, kernel, probe};

/// The keeper's address: abstract, so it belongs to the cell's network namespace alone.
const KEEPER_NAME: &[u8] = b"temblor-keeper";
/// More probes or rule scripts at once are refused.
const TASKS_MAX: usize = 256;
const EXIT_BROKEN: i32 = 70;
/// The keeper hangs up at once; only a machine in trouble needs longer.
const LEAVE_LIMIT: Duration = Duration::from_secs(10);
/// The longest interval between TCP's attempts, where the kernel (6.15) lets it be set.
const RESEND_MAX: (&str, &str) = ("/proc/sys/net/ipv4/tcp_rto_max_ms", "1000");

/// The lab's end, written by several threads.
#[derive(Clone)]
struct ToLab(Arc<Mutex<UnixStream>>);

impl ToLab {
    fn say(&self, message: &FromCell) {
        let sent = match self.0.lock() {
            Ok(mut stream) => send(&mut *stream, message),
            Err(_) => Err(io::ErrorKind::Other.into()),
        };
        if sent.is_err() {
            // The lab is gone; so are we, and everything in the cell.
            kernel::exit_now(0);
        }
    }
}

/// Init's whole life after the cell is furnished.
pub fn serve(furniture: Furniture<'_>, control: UnixStream) -> ! {
    let code = match serve_or_say(furniture, control) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("temblor-cell: init: {error}");
            EXIT_BROKEN
        }
    };
    kernel::exit_now(code)
}

fn serve_or_say(furniture: Furniture<'_>, control: UnixStream) -> io::Result<()> {
    let mut keeper = match furniture.thaws_at {
        None => Some(fork_keeper(furniture.dir, &control)?),
        Some(_) => None,
    };
    let mut from_lab = control.try_clone()?;
    let to_lab = ToLab(Arc::new(Mutex::new(control)));
    if let Some(keeper) = &keeper {
        keeper.relay(&to_lab)?;
    }
    to_lab.say(&FromCell::Ready);
    let tasks = Arc::new(AtomicUsize::new(0));
    let disks = Arc::new(Disks::default());
    while let Some(message) = receive::<ToCell>(&mut from_lab)? {
        match message {
            ToCell::Start { request, .. } | ToCell::Signal { request, .. } => match &mut keeper {
                Some(keeper) => send(&mut keeper.stream, &message)?,
                None => to_lab.say(&FromCell::Failed {
                    request,
                    reason: "the cell is frozen".into(),
                }),
            },
            ToCell::Freeze { request, order } => {
                let frozen = match keeper.take() {
                    // Its clocks and folder are no longer what images would say of them.
                    Some(_) if furniture.thaws_at.is_some() => Err("it was thawed itself".into()),
                    Some(keeper) => keeper.leave().and_then(|pid| ice::freeze(order, pid)),
                    None => Err("it is frozen already".into()),
                };
                to_lab.say(&match frozen {
                    Ok(order) => FromCell::Frozen { request, order },
                    Err(reason) => FromCell::Failed { request, reason },
                });
            }
            ToCell::Thaw { request, order } => {
                let thawed = match keeper {
                    Some(_) => Err("there are processes in it".into()),
                    None => ice::thaw(&order).and_then(|clocks| {
                        let found = Keeper::find(order.keeper).and_then(|found| {
                            found.relay(&to_lab)?;
                            Ok(found)
                        });
                        keeper = Some(found.map_err(|error| format!("the keeper: {error}"))?);
                        Ok(clocks)
                    }),
                };
                to_lab.say(&match thawed {
                    Ok(clocks) => FromCell::Thawed { request, clocks },
                    Err(reason) => FromCell::Failed { request, reason },
                });
            }
            ToCell::Leave => {}
            ToCell::Probe { request, spec } => {
                in_background(&tasks, &to_lab, request, move || FromCell::Answer {
                    request,
                    answer: probe::ask(&spec),
                })
            }
            ToCell::Nft { request, script } => in_background(&tasks, &to_lab, request, move || {
                match load_rules(&script) {
                    Ok(printed) => FromCell::NftDone { request, printed },
                    Err(reason) => FromCell::Failed { request, reason },
                }
            }),
            ToCell::Disk {
                request,
                folder,
                order,
            } => {
                let disks = disks.clone();
                in_background(&tasks, &to_lab, request, move || {
                    match disks.obey(&folder, &order) {
                        Ok(held) => FromCell::Disk { request, held },
                        Err(reason) => FromCell::Failed { request, reason },
                    }
                })
            }
            ToCell::ResendSoon { request } => to_lab.say(&FromCell::ResendSoon {
                request,
                allowed: fs::write(RESEND_MAX.0, RESEND_MAX.1).is_ok(),
            }),
        }
    }
    Ok(())
}

/// Init's end of the line to the keeper.
struct Keeper {
    pid: i32,
    stream: UnixStream,
    /// Set before init hangs up: the end of the line is then no accident.
    leaving: Arc<AtomicBool>,
}

fn fork_keeper(dir: &Path, control: &UnixStream) -> io::Result<Keeper> {
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(KEEPER_NAME)?)?;
    match kernel::fork_single_threaded()? {
        Some(pid) => Keeper::find(pid),
        None => {
            // The keeper holds nothing from outside, not even the files its program was loaded
            // from: a snapshot could not name them.
            kernel::close_fd(control.as_raw_fd());
            let error = Command::new(std::env::current_exe()?)
                .arg("keep")
                .arg(dir)
                .stdin(OwnedFd::from(listener))
                .exec();
            eprintln!("temblor-cell: keeper: {error}");
            kernel::exit_now(EXIT_BROKEN)
        }
    }
}

impl Keeper {
    fn find(pid: i32) -> io::Result<Keeper> {
        let address = SocketAddr::from_abstract_name(KEEPER_NAME)?;
        Ok(Keeper {
            pid,
            stream: UnixStream::connect_addr(&address)?,
            leaving: Arc::default(),
        })
    }

    /// What the keeper says goes to the lab, from a thread of its own.
    fn relay(&self, to_lab: &ToLab) -> io::Result<()> {
        let (from_keeper, to_lab) = (self.stream.try_clone()?, to_lab.clone());
        let leaving = self.leaving.clone();
        thread::spawn(move || relay_keeper(from_keeper, &to_lab, &leaving));
        Ok(())
    }

    /// Hangs up and waits until the keeper has, too: a snapshot cannot hold half a connection.
    fn leave(mut self) -> Result<i32, String> {
        self.leaving.store(true, Ordering::Release);
        let left = send(&mut self.stream, &ToCell::Leave).and_then(|()| {
            let end = Instant::now() + LEAVE_LIMIT;
            while !self.leaving_is_done() {
                if Instant::now() > end {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        });
        left.map(|()| self.pid)
            .map_err(|error| format!("the keeper does not hang up: {error}"))
    }

    /// The relay has seen the end of the line.
    fn leaving_is_done(&self) -> bool {
        Arc::strong_count(&self.leaving) == 1
    }
}

fn relay_keeper(mut from_keeper: UnixStream, to_lab: &ToLab, leaving: &AtomicBool) {
    loop {
        match receive::<FromCell>(&mut from_keeper) {
            Ok(Some(message)) => to_lab.say(&message),
            Ok(None) if leaving.load(Ordering::Acquire) => return,
            Ok(None) => break eprintln!("temblor-cell: the keeper ended"),
            Err(error) => break eprintln!("temblor-cell: from the keeper: {error}"),
        }
    }
    kernel::exit_now(EXIT_BROKEN)
}

fn in_background(
    tasks: &Arc<AtomicUsize>,
    to_lab: &ToLab,
    request: u64,
    work: impl FnOnce() -> FromCell + Send + 'static,
) {
    let refuse = |reason: String| to_lab.say(&FromCell::Failed { request, reason });
    if tasks.fetch_add(1, Ordering::Relaxed) >= TASKS_MAX {
        tasks.fetch_sub(1, Ordering::Relaxed);
        return refuse(format!("more than {TASKS_MAX} requests at once"));
    }
    let (running, answer_to) = (tasks.clone(), to_lab.clone());
    let started = thread::Builder::new().spawn(move || {
        let answer = work();
        running.fetch_sub(1, Ordering::Relaxed);
        answer_to.say(&answer);
    });
    if let Err(error) = started {
        tasks.fetch_sub(1, Ordering::Relaxed);
        refuse(format!("no thread: {error}"));
    }
}

/// Where `nft` is; it lives outside the usual search path of ordinary users.
pub fn nft_program() -> Option<&'static str> {
    [
        "/usr/sbin/nft",
        "/sbin/nft",
        "/usr/bin/nft",
        "/usr/local/sbin/nft",
    ]
    .into_iter()
    .find(|path| Path::new(path).exists())
}

/// Runs `nft -f -` in this network namespace; what it printed.
pub(super) fn load_rules(script: &str) -> Result<String, String> {
    let missing = "`nft` is not installed; get it with `apt-get install nftables`";
    let program = nft_program().ok_or(missing)?;
    let run = || -> io::Result<std::process::Output> {
        let mut child = Command::new(program)
            .args(["-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(script.as_bytes())?;
        }
        child.wait_with_output()
    };
    let output = run().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{program} ended with {}: {}",
        output.status,
        text.trim()
    ))
}
