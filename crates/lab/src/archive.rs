//! Archives of loaded classes (HotSpot's class-data sharing): a JVM that maps one starts in two
//! thirds of the processor time.
//!
//! An archive is made by one clean run without the agent, kept in the user's cache and used by
//! all later campaigns with the same JDK, jars and options. A JVM that finds it unfit ignores it.

use std::path::{Path, PathBuf};

use temblor_cluster::artifact::Jdk;
use temblor_cluster::target::{Program, Target};
use temblor_model::{FNV_START, fnv64_from};

use crate::trial::Jvms;

/// The first JDK that writes an archive of what it loaded when it ends.
const FIRST_MAJOR: u32 = 13;

/// An archive is mapped where it was made for. Elsewhere, which newer JDKs choose for the sake of
/// security, every page of it has to be changed: time at every start, and memory that is not shared.
const WHERE_IT_WAS: [&str; 3] = [
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:ArchiveRelocationMode=0",
];

/// The archives of a target.
#[derive(Clone, Debug, Default)]
pub struct Archives {
    pub node: Archive,
    pub client: Archive,
}

/// One program's archive.
#[derive(Clone, Debug, Default)]
pub struct Archive {
    /// None where the JDK has no such thing.
    path: Option<PathBuf>,
}

impl Archives {
    /// Those of a target, below `cache`.
    pub fn of(target: &Target, cache: &Path) -> Archives {
        let jdk = &target.code.jdk;
        let archive = |program: &Program| Archive {
            path: (jdk.major >= FIRST_MAJOR).then(|| {
                let name = format!("{:016x}.jsa", key(target, jdk, program));
                cache.join(target.full_name()).join(name)
            }),
        };
        Archives {
            node: archive(&target.node),
            client: archive(&target.workload),
        }
    }

    /// Whether a training run would make something that is not there.
    pub fn are_missing(&self) -> bool {
        let missing = |archive: &Archive| archive.path.as_ref().is_some_and(|p| !p.exists());
        missing(&self.node) || missing(&self.client)
    }

    /// What a training run left becomes the archives; nothing changes where it left nothing.
    pub fn keep_trained(&self) {
        for path in [&self.node, &self.client]
            .into_iter()
            .filter_map(|a| a.path.as_ref())
        {
            let _ = std::fs::rename(trained(path), path);
        }
    }
}

impl Archive {
    /// The JVM's options; in training only the first process of a kind writes one.
    pub(crate) fn options(&self, jvms: Jvms, index: usize) -> Vec<String> {
        let Some(path) = &self.path else {
            return Vec::new();
        };
        match jvms {
            Jvms::Training if index == 0 => {
                if let Some(dir) = path.parent() {
                    let _ = std::fs::create_dir_all(dir);
                }
                let path = trained(path);
                let _ = std::fs::remove_file(&path);
                vec![format!("-XX:ArchiveClassesAtExit={}", path.display())]
            }
            Jvms::Training => Vec::new(),
            Jvms::Hooked | Jvms::Lasting | Jvms::Bare if path.exists() => {
                let mut options = WHERE_IT_WAS.map(str::to_string).to_vec();
                options.push(format!("-XX:SharedArchiveFile={}", path.display()));
                options
            }
            Jvms::Hooked | Jvms::Lasting | Jvms::Bare => Vec::new(),
        }
    }
}

/// Where a JVM of this process writes an archive before it counts.
fn trained(path: &Path) -> PathBuf {
    path.with_extension(format!("{}.part", std::process::id()))
}

/// All that makes an archive fit: the JVM, its options, the class path and the age of its files.
fn key(target: &Target, jdk: &Jdk, program: &Program) -> u64 {
    let mut hash = fnv64_from(FNV_START, jdk.full_version.as_bytes());
    let mut add = |text: &[u8]| {
        hash = fnv64_from(hash, &(text.len() as u64).to_le_bytes());
        hash = fnv64_from(hash, text);
    };
    for path in target.code.classpath.iter().chain(&program.classpath) {
        add(path.as_os_str().as_encoded_bytes());
        if let Ok(file) = path.metadata() {
            add(&file.len().to_le_bytes());
            let since = file.modified().ok();
            let since = since.and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
            add(&since.map_or(0, |d| d.as_nanos() as u64).to_le_bytes());
        }
    }
    for option in &program.jvm {
        add(option.as_bytes());
    }
    add(program.main.as_bytes());
    hash
}
