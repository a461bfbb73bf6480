//! `temblor-cell slow-disk`: the process that serves one delaying file system. It takes orders from
//! init through its standard input and ends with the cell.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use fuser::{Config, MountOption, Session, SessionACL};

use super::super::kernel;
use super::super::message::{receive, send};
use super::files::Files;
use super::pass_through::{Disk, PassThrough};
use super::rules::Rules;
use super::{DiskCache, DiskOrder, HeldOp};

/// So many operations are done at once: one slow fsync of the real disk must not stop all.
const THREADS: usize = 8;

/// What the server says to each order, and once when it has mounted.
pub type Answer = Result<Vec<HeldOp>, String>;

/// The server's whole life.
pub fn serve_or_say(folder: &Path, cache: DiskCache) -> io::Result<()> {
    let mut control = UnixStream::from(kernel::own_fd(0)?);
    let disk = match mount(folder, cache) {
        Ok(disk) => disk,
        Err(error) => {
            let reason = format!(
                "cannot mount a file system over {}: {error}; `temblor doctor` says what FUSE needs",
                folder.display()
            );
            return send(&mut control, &Answer::Err(reason));
        }
    };
    send(&mut control, &Answer::Ok(Vec::new()))?;
    while let Some(order) = receive::<DiskOrder>(&mut control)? {
        match order {
            DiskOrder::Slow(rule) => disk.rules.add(rule, Instant::now()),
            DiskOrder::Free => disk.rules.free(),
            DiskOrder::Mount(_) | DiskOrder::Tell => {}
        }
        send(&mut control, &Answer::Ok(disk.rules.held()))?;
    }
    // Init is gone, and with it everything that could use the files.
    kernel::exit_now(0)
}

fn mount(folder: &Path, cache: DiskCache) -> io::Result<Arc<Disk>> {
    prepare()?;
    let disk = Arc::new(Disk {
        files: Files::new(folder)?,
        rules: Rules::default(),
        cache,
    });
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("temblor-slow-disk".into()),
        MountOption::DefaultPermissions,
    ];
    config.acl = SessionACL::All;
    config.n_threads = Some(THREADS);
    let session = Session::new(PassThrough(disk.clone()), folder, &config)?;
    thread::Builder::new()
        .name("slow-disk".into())
        .spawn(move || {
            if let Err(error) = session.run() {
                eprintln!("temblor-cell: slow disk: {error}");
            }
            kernel::exit_now(0)
        })?;
    Ok(disk)
}

/// Every known file takes a descriptor, and modes are to be as the kernel says.
fn prepare() -> io::Result<()> {
    // SAFETY: `limit` is a valid place for both calls; umask takes a number.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) < 0 {
            return Err(io::Error::last_os_error());
        }
        limit.rlim_cur = limit.rlim_max;
        if libc::setrlimit(libc::RLIMIT_NOFILE, &limit) < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::umask(0);
    }
    Ok(())
}
