//! Init's side of the delaying file systems: starts a server for each and passes orders on.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::super::message::{receive, send};
use super::server::Answer;
use super::{DiskCache, DiskOrder, HeldOp};

/// For one order, mounting included.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// The servers by the folder they cover; each is asked one thing at a time.
#[derive(Default)]
pub struct Disks(Mutex<HashMap<PathBuf, Arc<Mutex<UnixStream>>>>);

impl Disks {
    /// Does what the lab wants; lists what was held so far.
    pub fn obey(&self, folder: &Path, order: &DiskOrder) -> Result<Vec<HeldOp>, String> {
        let mut disks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = disks.get(folder).cloned();
        match (order, known) {
            (DiskOrder::Mount(_), Some(_)) => {
                Err(format!("{} is already mounted", folder.display()))
            }
            (DiskOrder::Mount(cache), None) => {
                let control = start(folder, *cache)?;
                disks.insert(folder.to_path_buf(), Arc::new(Mutex::new(control)));
                Ok(Vec::new())
            }
            (_, None) => Err(format!("{} is not mounted", folder.display())),
            (order, Some(control)) => {
                drop(disks);
                let mut control = control.lock().unwrap_or_else(PoisonError::into_inner);
                send(&mut *control, order).map_err(|error| lost(folder, &error))?;
                hear(&mut control, folder)
            }
        }
    }
}

fn start(folder: &Path, cache: DiskCache) -> Result<UnixStream, String> {
    let failed = |error: io::Error| format!("cannot start a slow disk: {error}");
    let (mut ours, theirs) = UnixStream::pair().map_err(failed)?;
    ours.set_read_timeout(Some(ANSWER_WITHIN)).map_err(failed)?;
    // Nobody waits for it: it lives as long as the cell.
    Command::new("/proc/self/exe")
        .arg("slow-disk")
        .arg(folder)
        .arg(cache.name())
        .env_clear()
        .current_dir("/")
        .stdin(OwnedFd::from(theirs))
        // Standard output and errors go where init's do: into cell.log.
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(failed)?;
    hear(&mut ours, folder)?;
    Ok(ours)
}

fn hear(control: &mut UnixStream, folder: &Path) -> Answer {
    match receive::<Answer>(control) {
        Ok(Some(answer)) => answer,
        Ok(None) => Err(lost(folder, &io::ErrorKind::UnexpectedEof.into())),
        Err(error) => Err(lost(folder, &error)),
    }
}

fn lost(folder: &Path, error: &io::Error) -> String {
    format!(
        "the slow disk over {} does not answer: {error}; see cell.log",
        folder.display()
    )
}

impl DiskCache {
    fn name(self) -> &'static str {
        match self {
            DiskCache::Through => "through",
            DiskCache::Back => "back",
        }
    }

    /// As `name` says it.
    pub(in super::super) fn from_name(name: &str) -> Option<DiskCache> {
        [DiskCache::Through, DiskCache::Back]
            .into_iter()
            .find(|cache| cache.name() == name)
    }
}
