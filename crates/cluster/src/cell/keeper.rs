//! The keeper: the one parent of all nodes and clients of a cell. It starts, signals and reaps.
//!
//! It holds nothing from outside the cell: init connects to its socket and may leave and come
//! again (before and after a snapshot); exits that happen meanwhile are told to the next comer.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::kernel;
use super::message::{ExitNotice, FromCell, ProcId, ProcessSpec, ToCell, receive, send};

struct Keeper {
    init: Option<UnixStream>,
    /// Running processes by their id inside; each leads a process group.
    running: HashMap<i32, ProcId>,
    /// Exits that no init has been told of.
    untold: Vec<ExitNotice>,
}

/// Where init's connections arrive: as standard input.
const LISTENER_FD: i32 = 3;

/// The keeper's whole life.
pub fn serve(dir: &Path) -> ! {
    let served = (|| {
        kernel::move_fd(0, LISTENER_FD)?;
        kernel::move_fd(File::open("/dev/null")?.as_raw_fd(), 0)?;
        let listener = UnixListener::from(kernel::own_fd(LISTENER_FD)?);
        kernel::close_from(LISTENER_FD + 1);
        serve_or_say(dir, &listener)
    })();
    let code = match served {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("temblor-cell: keeper: {error}");
            1
        }
    };
    kernel::exit_now(code)
}

fn serve_or_say(dir: &Path, listener: &UnixListener) -> io::Result<()> {
    kernel::new_session()?;
    // Daemons that fork twice stay below the keeper, and so in the snapshot.
    kernel::adopt_orphans()?;
    std::env::set_current_dir(dir)?;
    let child_ended = kernel::child_signals()?;
    let mut keeper = Keeper {
        init: None,
        running: HashMap::new(),
        untold: Vec::new(),
    };
    loop {
        let talk = keeper
            .init
            .as_ref()
            .map_or(listener.as_raw_fd(), AsRawFd::as_raw_fd);
        let ready = kernel::readable(&[child_ended.as_raw_fd(), talk], None)?;
        if ready[0] {
            kernel::drain(&child_ended);
            keeper.reap();
        }
        if ready[1] {
            keeper.hear(listener)?;
        }
    }
}

impl Keeper {
    fn reap(&mut self) {
        while let Some((pid, code, signal)) = kernel::reap() {
            // Others are orphans that were adopted.
            if let Some(id) = self.running.remove(&pid) {
                self.untold.push(ExitNotice { id, code, signal });
            }
        }
        self.tell_exits();
    }

    fn tell_exits(&mut self) {
        while let (Some(_), Some(&notice)) = (&self.init, self.untold.first()) {
            self.say(&FromCell::Exited(notice));
            if self.init.is_some() {
                self.untold.remove(0);
            }
        }
    }

    fn say(&mut self, message: &FromCell) {
        if let Some(stream) = &mut self.init
            && send(stream, message).is_err()
        {
            self.init = None;
        }
    }

    fn hear(&mut self, listener: &UnixListener) -> io::Result<()> {
        let Some(stream) = &mut self.init else {
            self.init = Some(listener.accept()?.0);
            self.tell_exits();
            return Ok(());
        };
        match receive::<ToCell>(stream) {
            Ok(Some(ToCell::Leave)) | Ok(None) | Err(_) => self.init = None,
            Ok(Some(message)) => self.obey(message),
        }
        Ok(())
    }

    fn obey(&mut self, message: ToCell) {
        let answer = match message {
            ToCell::Start { request, id, spec } => match start(&spec) {
                Ok(pid) => {
                    self.running.insert(pid, id);
                    FromCell::Started { request, pid }
                }
                Err(reason) => FromCell::Failed { request, reason },
            },
            ToCell::Signal {
                request,
                id,
                signal,
            } => match self.signal(id, signal) {
                Ok(()) => FromCell::Signalled { request },
                Err(reason) => FromCell::Failed { request, reason },
            },
            ToCell::Probe { request, .. }
            | ToCell::Nft { request, .. }
            | ToCell::Disk { request, .. }
            | ToCell::Freeze { request, .. }
            | ToCell::Thaw { request, .. }
            | ToCell::ResendSoon { request } => FromCell::Failed {
                request,
                reason: "not the keeper's business".into(),
            },
            // Heard before it comes here.
            ToCell::Leave => return,
        };
        self.say(&answer);
    }

    fn signal(&self, id: ProcId, signal: i32) -> Result<(), String> {
        let found = self.running.iter().find(|(_, running)| **running == id);
        let (&pid, _) = found.ok_or_else(|| format!("process {id} has already ended"))?;
        // The group: a node started by a script is more than one process.
        kernel::signal_group(pid, signal).map_err(|error| format!("process {id}: {error}"))
    }
}

fn start(spec: &ProcessSpec) -> Result<i32, String> {
    let (program, args) = spec.argv.split_first().ok_or("no program is given")?;
    if !spec.cwd.is_dir() {
        return Err(format!("its folder {} does not exist", spec.cwd.display()));
    }
    let open = |path: &Path| -> Result<File, String> {
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))
    };
    let stdout = open(&spec.stdout)?;
    let stderr = if spec.stderr == spec.stdout {
        stdout.try_clone().map_err(|error| error.to_string())?
    } else {
        open(&spec.stderr)?
    };
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(spec.env.iter().map(|(k, v)| (k, v)));
    command
        .current_dir(&spec.cwd)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr);
    // SAFETY: both calls are async-signal-safe and touch no memory of the parent.
    unsafe {
        command.pre_exec(|| {
            kernel::new_session()?;
            kernel::unblock_signals()
        });
    }
    match command.spawn() {
        Ok(child) => Ok(child.id() as i32),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(format!("the program `{program}` does not exist"))
        }
        Err(error) => Err(format!("cannot execute `{program}`: {error}")),
    }
}
