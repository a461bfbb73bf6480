//! Who runs a campaign: one process at a time, and others can tell which.
//!
//! `lab.pid` in the campaign's folder is locked (flock) by the process that runs it, for as long
//! as it lives; the kernel lets go of it whatever ends the process. Inside are its number and the
//! time it was started, so that a number which went to another process is noticed. The file
//! stays: removing it would let two processes lock two files of one name.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Store, StoreError};

/// What a lab that was killed a moment ago may take to be gone.
const FREE_WITHIN_MS: u64 = 1_000;
const LOOK_EVERY_MS: u64 = 50;

/// The right to run a campaign; given back when the last clone of its store is dropped.
#[derive(Debug)]
pub struct Claim(#[allow(dead_code)] File); // held, never read

/// The process that runs a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runner {
    pub pid: u32,
    /// Clock ticks from the start of the machine to its own, as the kernel tells it.
    started: u64,
}

impl Store {
    /// Claims the campaign for this process, which must ask before it reads what it goes on from.
    /// Asking again is free.
    pub fn claim(&mut self) -> Result<Arc<Claim>, StoreError> {
        if let Some(claim) = &self.claim {
            return Ok(claim.clone());
        }
        let path = place(&self.folder);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(StoreError::io(&path, "cannot open"))?;
        lock(&file, &path)?;
        if let Some(own) = started(std::process::id()) {
            // As wide as can be, so that it overwrites in place: a full disk must not matter
            // here, and only `pause` needs it.
            let _ = file.write_all(format!("{:>10} {own:>20}\n", std::process::id()).as_bytes());
        }
        let claim = Arc::new(Claim(file));
        self.claim = Some(claim.clone());
        Ok(claim)
    }
}

fn lock(file: &File, path: &Path) -> Result<(), StoreError> {
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            // A file system without locks: nothing is protected, and nothing is refused.
            Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => return Ok(()),
            Err(TryLockError::Error(e)) => return Err(StoreError::io(path, "cannot lock")(e)),
            Err(TryLockError::WouldBlock) => {}
        }
        if began.elapsed() > Duration::from_millis(FREE_WITHIN_MS) {
            return Err(StoreError::Running {
                path: path.parent().unwrap_or(path).to_owned(),
                pid: read(path).map(|runner| runner.pid),
            });
        }
        std::thread::sleep(Duration::from_millis(LOOK_EVERY_MS));
    }
}

/// The process that runs the campaign in a folder, if one does.
pub fn running(folder: &Path) -> Result<Option<Runner>, StoreError> {
    let path = place(folder);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(StoreError::io(&path, "cannot open")(e)),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::Error(e)) => Err(StoreError::io(&path, "cannot lock")(e)),
        Err(TryLockError::WouldBlock) => match read(&path) {
            Some(runner) => Ok(Some(runner)),
            // Locked, and not said by whom: it is about to, or there was no room for it.
            None => Err(StoreError::Running {
                path: folder.to_owned(),
                pid: None,
            }),
        },
    }
}

impl Runner {
    /// Whether it lives, under this number, and has the lock's file open: only then may it be
    /// signalled.
    pub fn is_here(&self, folder: &Path) -> bool {
        let Ok(wanted) = fs::metadata(place(folder)) else {
            return false;
        };
        let same = |m: fs::Metadata| (m.dev(), m.ino()) == (wanted.dev(), wanted.ino());
        let open = fs::read_dir(format!("/proc/{}/fd", self.pid));
        let mut open = open.into_iter().flatten().flatten();
        started(self.pid) == Some(self.started)
            && open.any(|fd| fs::metadata(fd.path()).is_ok_and(same))
    }
}

fn place(folder: &Path) -> PathBuf {
    folder.join("lab.pid")
}

fn read(path: &Path) -> Option<Runner> {
    const BYTES_MOST: u64 = 64;
    let mut text = String::new();
    let file = File::open(path).ok()?;
    file.take(BYTES_MOST).read_to_string(&mut text).ok()?;
    let mut words = text.split_whitespace();
    Some(Runner {
        pid: words.next()?.parse().ok()?,
        started: words.next()?.parse().ok()?,
    })
}

/// When a process was started. Its name comes before and may hold anything but a last `)`.
fn started(pid: u32) -> Option<u64> {
    const FIELDS_AFTER_NAME: usize = 19;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after = &stat[stat.rfind(')')? + 1..];
    after
        .split_whitespace()
        .nth(FIELDS_AFTER_NAME)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_went_to_another_process_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let pid = std::process::id();
        let runner = |started| Runner { pid, started };
        let own = started(pid).unwrap();
        // It lives, and has not opened the file.
        fs::write(place(folder.path()), "").unwrap();
        assert!(!runner(own).is_here(folder.path()));
        let _open = File::open(place(folder.path())).unwrap();
        assert!(runner(own).is_here(folder.path()));
        assert!(!runner(own + 1).is_here(folder.path()));
    }
}
