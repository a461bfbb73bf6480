//! What can go wrong with the store: each error names the path, what failed and what to do next.

use std::io;
use std::path::{Path, PathBuf};

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{}: {what}: {source}; {}", path.display(), next_step(source))]
    Io {
        path: PathBuf,
        what: &'static str,
        source: io::Error,
    },
    #[error(
        "{}: not what Temblor writes there: {reason}; restore the file, or run the campaign again",
        path.display()
    )]
    Broken { path: PathBuf, reason: String },
    #[error(
        "{}: written in format {found}, this Temblor reads up to {known}; use a newer Temblor",
        path.display()
    )]
    Newer {
        path: PathBuf,
        found: u32,
        known: u32,
    },
    #[error("{}: cannot be stored: {reason}; this is a bug of Temblor", path.display())]
    Unstorable { path: PathBuf, reason: String },
    #[error("no {what} {wanted:?} in {}; {}", root.display(), listing(there))]
    NotFound {
        what: &'static str,
        wanted: String,
        root: PathBuf,
        /// What exists, nearest first.
        there: Vec<String>,
    },
    #[error(
        "{}: trial {trial} is there already, with its outcome; \
         start a new campaign, or resume with the next number",
        path.display()
    )]
    TrialExists { path: PathBuf, trial: u64 },
    #[error(
        "{}: {} runs this campaign already; watch it there, or end it with `./temblor pause {}`",
        path.display(),
        pid.map_or("another process".into(), |pid| format!("process {pid}")),
        path.display()
    )]
    Running { path: PathBuf, pid: Option<u32> },
}

impl StoreError {
    pub(crate) fn io(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> StoreError {
        move |source| StoreError::Io {
            path: path.to_owned(),
            what,
            source,
        }
    }

    pub(crate) fn broken(path: &Path, reason: impl ToString) -> StoreError {
        StoreError::Broken {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }

    /// The disk has no room: nothing that comes later can be stored either.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, StoreError::Io { source, .. } if full(source))
    }
}

fn full(source: &io::Error) -> bool {
    matches!(
        source.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

fn next_step(source: &io::Error) -> &'static str {
    match source.kind() {
        _ if full(source) => {
            "the disk is full: free some space and go on with `./temblor resume latest`"
        }
        io::ErrorKind::PermissionDenied => {
            "make the folder writable for you, or name another one with --store"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "the file system is read-only: name another folder with --store"
        }
        io::ErrorKind::NotFound => "look whether the store was moved or deleted",
        _ => "check the disk, then go on with `./temblor resume latest`",
    }
}

fn listing(there: &[String]) -> String {
    const MOST: usize = 8;
    if there.is_empty() {
        return "nothing is there yet: `./temblor demo` makes a first campaign".into();
    }
    let mut text = format!("there is: {}", there[..there.len().min(MOST)].join(", "));
    if there.len() > MOST {
        text.push_str(&format!(" and {} more", there.len() - MOST));
    }
    text
}
