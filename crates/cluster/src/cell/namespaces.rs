//! Building a cell from the inside: `temblor-cell open` runs this, freshly executed and with one
//! thread, because a process with several cannot enter most namespaces.
//!
//! The outer process leaves the namespaces it was started in and forks init, the cell's process
//! number 1. It then only waits: when init is gone, the kernel has ended everything in the cell.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::message::{FromCell, send};
use super::{init, kernel};

/// Process ids inside start above this, so that a restored snapshot, whose processes keep their
/// ids, never meets an id of the processes that restore it.
const LAST_PID_AT_START: &str = "1000";
/// Where the lab's end arrives: as standard input.
const CONTROL_FD: i32 = 3;

/// A step that the machine did not allow.
#[derive(Debug)]
pub struct Refusal {
    pub step: &'static str,
    pub error: io::Error,
    pub advice: &'static str,
}

/// One kind of namespace.
pub struct Kind {
    pub name: &'static str,
    pub flag: libc::c_int,
    pub advice: &'static str,
}

const USER_ADVICE: &str = "run as root, or allow user namespaces: \
    `sysctl kernel.unprivileged_userns_clone=1`, `sysctl user.max_user_namespaces=10000` and, \
    on Ubuntu, `sysctl kernel.apparmor_restrict_unprivileged_userns=0`";
const CONTAINER_ADVICE: &str = "in a container, start it with `--privileged` or with \
    `--cap-add SYS_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined`";

pub const USER: Kind = Kind {
    name: "user namespaces",
    flag: libc::CLONE_NEWUSER,
    advice: USER_ADVICE,
};

/// The kinds every cell has.
pub const KINDS: [Kind; 4] = [
    Kind {
        name: "mount namespaces",
        flag: libc::CLONE_NEWNS,
        advice: CONTAINER_ADVICE,
    },
    Kind {
        name: "network namespaces",
        flag: libc::CLONE_NEWNET,
        advice: CONTAINER_ADVICE,
    },
    Kind {
        name: "pid namespaces",
        flag: libc::CLONE_NEWPID,
        advice: CONTAINER_ADVICE,
    },
    Kind {
        name: "time namespaces",
        flag: libc::CLONE_NEWTIME,
        advice: "they need Linux 5.6 or newer with CONFIG_TIME_NS; in a container also \
                 `--cap-add SYS_ADMIN --security-opt seccomp=unconfined`",
    },
];

/// Leaves every namespace of the list, through a user namespace where root's rights are missing.
pub fn leave() -> Result<(), Refusal> {
    let (uid, _) = kernel::ids();
    if uid != 0 {
        become_root_inside()?;
    }
    for kind in &KINDS {
        kernel::unshare(kind.flag).map_err(|error| Refusal {
            step: kind.name,
            error,
            advice: kind.advice,
        })?;
    }
    Ok(())
}

/// A user namespace in which this user is root.
pub fn become_root_inside() -> Result<(), Refusal> {
    let (uid, gid) = kernel::ids();
    let enter = || -> io::Result<()> {
        kernel::unshare(USER.flag)?;
        // Without this an unprivileged process may not write its gid_map.
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("0 {uid} 1"))?;
        fs::write("/proc/self/gid_map", format!("0 {gid} 1"))
    };
    enter().map_err(|error| Refusal {
        step: USER.name,
        error,
        advice: USER.advice,
    })
}

/// What a cell is furnished with.
#[derive(Clone, Copy, Debug)]
pub struct Furniture<'a> {
    /// The cell's folder.
    pub dir: &'a Path,
    /// Where a snapshot's processes look for it; such a cell begins without a keeper.
    pub thaws_at: Option<&'a Path>,
}

/// The whole life of the outer process.
pub fn open(furniture: Furniture<'_>) -> ! {
    let code = match open_or_say(furniture) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("temblor-cell: {error}");
            1
        }
    };
    std::process::exit(code)
}

fn open_or_say(furniture: Furniture<'_>) -> io::Result<()> {
    kernel::move_fd(0, CONTROL_FD)?;
    kernel::close_from(CONTROL_FD + 1);
    let mut control = UnixStream::from(kernel::own_fd(CONTROL_FD)?);
    if let Err(refusal) = leave() {
        return refuse(&mut control, &refusal);
    }
    let (mut go_outer, go_inner) = UnixStream::pair()?;
    match kernel::fork_single_threaded()? {
        None => {
            drop(go_outer);
            be_init(furniture, control, go_inner)
        }
        Some(init_pid) => {
            drop(go_inner);
            send(&mut control, &FromCell::Opened { init_pid })?;
            // From here on only init holds the cell's end: when it dies, the lab sees it.
            drop(control);
            go_outer.write_all(b"g")?;
            kernel::wait_for(init_pid)
        }
    }
}

fn refuse(control: &mut UnixStream, refusal: &Refusal) -> io::Result<()> {
    let message = FromCell::Refused {
        step: refusal.step.to_string(),
        errno: refusal.error.raw_os_error().unwrap_or(0),
        advice: refusal.advice.to_string(),
    };
    send(control, &message)
}

/// Init's first steps: everything a process of the cell may rely on.
fn be_init(furniture: Furniture<'_>, mut control: UnixStream, mut go: UnixStream) -> ! {
    // The outer process has one thread, so its death is the death that is meant. The lab's is
    // noticed by the end of `control`; a death signal would come when the lab's *thread* ends.
    let _ = kernel::die_with_parent();
    // Nothing arrives when the outer process died before the line above.
    if !matches!(go.read(&mut [0u8; 1]), Ok(1)) {
        kernel::exit_now(1);
    }
    drop(go);
    if let Err(refusal) = furnish(furniture) {
        let _ = refuse(&mut control, &refusal);
        kernel::exit_now(1);
    }
    init::serve(furniture, control)
}

fn furnish(Furniture { dir, thaws_at }: Furniture<'_>) -> Result<(), Refusal> {
    let step = |step: &'static str, advice: &'static str| {
        move |error: io::Error| Refusal {
            step,
            error,
            advice,
        }
    };
    kernel::new_session().map_err(step("a new session", CONTAINER_ADVICE))?;
    let root = Path::new("/");
    kernel::mount("none", root, "none", libc::MS_REC | libc::MS_PRIVATE)
        .map_err(step("private mounts", CONTAINER_ADVICE))?;
    let quiet = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    kernel::mount("proc", Path::new("/proc"), "proc", quiet)
        .map_err(step("mounting /proc", CONTAINER_ADVICE))?;
    kernel::loopback_up().map_err(step("setting the loopback interface up", CONTAINER_ADVICE))?;
    // Nothing of the machine's own daemons is of use here, and CRIU keeps its notes there.
    kernel::mount(
        "tmpfs",
        Path::new("/run"),
        "tmpfs",
        libc::MS_NOSUID | libc::MS_NODEV,
    )
    .map_err(step("mounting /run", CONTAINER_ADVICE))?;
    match thaws_at {
        None => fs::write("/proc/sys/kernel/ns_last_pid", LAST_PID_AT_START)
            .map_err(step("writing ns_last_pid", CONTAINER_ADVICE))?,
        Some(at) => {
            let source = dir.to_string_lossy();
            kernel::mount(&source, at, "none", libc::MS_BIND)
                .map_err(step("mounting the trial's folder", CONTAINER_ADVICE))?;
        }
    }
    open_stdio(dir).map_err(step(
        "opening cell.log in the cell's folder",
        "check its rights",
    ))
}

/// Standard streams of files opened inside this mount namespace: a snapshot cannot name others.
fn open_stdio(dir: &Path) -> io::Result<()> {
    let null = File::open("/dev/null")?;
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(dir.join("cell.log"))?;
    kernel::move_fd(null.as_raw_fd(), 0)?;
    kernel::move_fd(log.as_raw_fd(), 1)?;
    kernel::move_fd(log.as_raw_fd(), 2)
}
