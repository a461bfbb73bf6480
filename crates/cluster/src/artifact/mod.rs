//! Artifacts that trials need and a fresh machine lacks: JDKs, the jars of real systems, CRIU. They
//! are fetched once per user and kept in the user's cache, each marked when finished.
//!
//! Invariant: nothing outside the cache changes, no root is needed, and what no trusted key or
//! checksum vouches for is refused.

mod apt;
mod cache;
mod checksum;
mod command;
mod criu;
mod elf;
mod error;
mod jar;
mod jdk;
mod jdk_fetch;
mod maven;
mod runtime;
mod sources;
mod tree;
mod wheel;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

pub use cache::{Cache, Checksum, Marker, Origin};
pub use command::{Progress, Tools};
pub use criu::{CRIU_DOWNLOAD_MB, Criu};
pub use error::{ArtifactError, Result};
pub use jdk::{Jdk, JdkUse, KNOWN_MAJORS};
pub use maven::{Coordinate, Jars};

/// How long one external command may take.
const COMMAND_DEADLINE: Duration = Duration::from_secs(600);

/// What is looked at on the machine itself.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// apt's configuration, usually `/etc/apt`.
    pub apt_dir: PathBuf,
    /// The text of `/etc/os-release`.
    pub os_release: String,
    /// Where the system's JDKs are.
    pub jvm_dir: PathBuf,
    pub java_home: Option<PathBuf>,
    /// Where programs for root are; a user's PATH may lack them.
    pub sbin_dirs: Vec<PathBuf>,
}

impl Machine {
    /// The machine this process runs on.
    pub fn this() -> Self {
        Self {
            apt_dir: "/etc/apt".into(),
            os_release: fs::read_to_string("/etc/os-release").unwrap_or_default(),
            jvm_dir: "/usr/lib/jvm".into(),
            java_home: std::env::var_os("JAVA_HOME")
                .filter(|home| !home.is_empty())
                .map(PathBuf::from),
            sbin_dirs: ["/usr/local/sbin", "/usr/sbin", "/sbin"]
                .map(PathBuf::from)
                .into(),
        }
    }
}

/// Finds artifacts, and fetches what is missing.
#[derive(Debug, Clone)]
pub struct Depot {
    cache: Cache,
    tools: Tools,
    machine: Machine,
}

impl Depot {
    /// The user's cache on this machine.
    pub fn of_user() -> Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let tools = Tools::new(path, COMMAND_DEADLINE);
        Ok(Self::new(Cache::of_user()?, tools, Machine::this()))
    }

    /// A depot with everything chosen, as tests want it.
    pub fn new(cache: Cache, tools: Tools, machine: Machine) -> Self {
        Self {
            cache,
            tools,
            machine,
        }
    }

    /// Where artifacts are kept.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }
}

/// A JDK of this version that can run programs, wherever it is on this machine.
pub fn find_jdk(major: u32) -> Result<Jdk> {
    Depot::of_user()?.find_jdk(major, JdkUse::Run)
}

/// A JDK of this version for a use.
pub fn find_jdk_for(major: u32, wanted: JdkUse) -> Result<Jdk> {
    Depot::of_user()?.find_jdk(major, wanted)
}

/// All JDKs of this machine and of the user's cache, oldest version first.
pub fn installed_jdks() -> Result<Vec<Jdk>> {
    Ok(Depot::of_user()?.installed_jdks())
}

/// Gets a JDK (8, 11, 17, 21 or 25) into the user's cache, unless there is one already.
pub fn fetch_jdk(major: u32, progress: Progress<'_>) -> Result<Jdk> {
    Depot::of_user()?.fetch_jdk(major, progress)
}

/// A CRIU that is new enough: the machine's own, else the fetched one.
pub fn find_criu() -> Result<Criu> {
    Depot::of_user()?.find_criu()
}

/// Gets CRIU into the user's cache, unless there is one that is new enough.
pub fn fetch_criu(progress: Progress<'_>) -> Result<Criu> {
    Depot::of_user()?.fetch_criu(progress)
}

/// Whether this kernel lets CRIU do its work, by `criu check`; only root gets a yes.
pub fn check_criu(criu: &Criu) -> Result<()> {
    Depot::of_user()?.check_criu(criu)
}

/// Gets jars with their runtime dependencies into the user's cache, unless they are there.
pub fn fetch_maven(name: &str, coordinates: &[Coordinate], progress: Progress<'_>) -> Result<Jars> {
    Depot::of_user()?.fetch_maven(name, coordinates, progress)
}

/// The jars fetched under this name, checked.
pub fn find_jars(name: &str) -> Result<Jars> {
    Depot::of_user()?.find_jars(name)
}
