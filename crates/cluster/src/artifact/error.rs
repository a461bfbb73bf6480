//! What can go wrong while an artifact is looked for or fetched: each message says what failed,
//! where, and what to do next.

use std::io;
use std::path::{Path, PathBuf};

use super::apt::BY_HAND;

/// The result of everything in this module.
pub type Result<T> = std::result::Result<T, ArtifactError>;

/// Why an artifact is not there.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    #[error(
        "no JDK {major}{need} on this machine (looked at: {looked}); \
         get it with `./temblor targets fetch jdk@{major}`"
    )]
    NoJdk {
        major: u32,
        need: &'static str,
        looked: String,
    },
    #[error("no way is known to get JDK {major}; known are 8, 11, 17, 21 and 25")]
    UnknownJdk { major: u32 },
    #[error("JDK at {} does not run; remove that folder and fetch again\n{tail}", home.display())]
    JdkDoesNotRun { home: PathBuf, tail: String },
    #[error(
        "the packages unpacked in {} hold no JDK (no usr/lib/jvm/*/bin/java); report this as a bug",
        root.display()
    )]
    NoJdkInPackages { root: PathBuf },
    #[error(
        "no CRIU {least} or newer on this machine ({looked}); \
         get it with `./temblor targets fetch criu`"
    )]
    NoCriu { least: String, looked: String },
    #[error("CRIU at {program} does not serve: {why}")]
    BadCriu { program: String, why: String },
    #[error("{name} is not there: {why}; get it with `./temblor targets fetch {name}`")]
    NotFetched { name: String, why: String },
    #[error(
        "{} is damaged: its sha256 is {found}, recorded was {expected}; \
         fetch it again with `./temblor targets fetch {name}`",
        path.display()
    )]
    Damaged {
        name: String,
        path: PathBuf,
        expected: String,
        found: String,
    },
    #[error("`{tool}` is not on the PATH, and it is needed to {purpose}; {fix}")]
    MissingTool {
        tool: String,
        purpose: String,
        fix: String,
    },
    #[error("could not {purpose}: `{command}` ended with {status}\n{tail}")]
    Command {
        purpose: String,
        command: String,
        status: String,
        tail: String,
    },
    #[error(
        "could not {purpose}: `{command}` was stopped after {seconds} s; \
         run the same command again to go on, what was downloaded is kept\n{tail}"
    )]
    Deadline {
        purpose: String,
        command: String,
        seconds: u64,
        tail: String,
    },
    #[error(
        "could not {purpose}: the network does not answer; check the connection and the proxy \
         settings, then run the same command again, what was downloaded is kept\n{tail}"
    )]
    Offline { purpose: String, tail: String },
    #[error("package {package} is not in suite {suite} of this machine's archive\n{tail}")]
    MissingPackage {
        package: String,
        suite: String,
        tail: String,
    },
    #[error(
        "suite {suite} is not signed by a key this machine trusts, so nothing was taken from it; \
         install a newer keyring (`apt-get install debian-archive-keyring`) and try again\n{tail}"
    )]
    Unverified { suite: String, tail: String },
    #[error(
        "no package archive with the component `main` in {}; {BY_HAND}",
        apt_dir.display()
    )]
    NoArchive { apt_dir: PathBuf },
    #[error("`{given}` names no Maven artifact; write it as group:artifact:version")]
    BadCoordinate { given: String },
    #[error("`{given}` cannot name an artifact; use letters, digits and . _ - @ +")]
    BadName { given: String },
    #[error(
        "Maven knows no such artifact; check group, artifact and version of {coordinates}\n{tail}"
    )]
    NoSuchJar { coordinates: String, tail: String },
    #[error(
        "Maven copied {} and it is not whole, even after a fresh download; \
         check the disk's space, then run the same command again",
        path.display()
    )]
    BrokenJar { path: PathBuf },
    #[error(
        "another process has been fetching {name} for more than {seconds} s; wait for it, \
         or end it, then run the same command again (lock: {})",
        lock.display()
    )]
    Locked {
        name: String,
        seconds: u64,
        lock: PathBuf,
    },
    #[error("no folder to keep artifacts in: set TEMBLOR_CACHE, XDG_CACHE_HOME or HOME")]
    NoCacheRoot,
    #[error(
        "could not {doing} {}: {source}; check the disk's space and permissions",
        path.display()
    )]
    Io {
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

impl ArtifactError {
    /// Whether another source of the same artifact may still give it. A broken download is not
    /// such a case: the same command goes on with it.
    pub(super) fn another_source_may_help(&self) -> bool {
        matches!(
            self,
            Self::JdkDoesNotRun { .. }
                | Self::BadCriu { .. }
                | Self::NoJdkInPackages { .. }
                | Self::NoArchive { .. }
                | Self::MissingPackage { .. }
                | Self::Unverified { .. }
        )
    }

    /// The end of what the failed command printed.
    pub(super) fn tail(&self) -> &str {
        match self {
            Self::Command { tail, .. }
            | Self::Deadline { tail, .. }
            | Self::Offline { tail, .. }
            | Self::MissingPackage { tail, .. }
            | Self::Unverified { tail, .. } => tail,
            _ => "",
        }
    }
}

/// Names the file and the act in an I/O error.
pub(super) fn io_error<'a>(
    doing: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> ArtifactError + 'a {
    move |source| ArtifactError::Io {
        doing,
        path: path.to_path_buf(),
        source,
    }
}
