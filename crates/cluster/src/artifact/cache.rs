//! The per-user cache: where artifacts live, the marker that says one is finished, and the locks
//! that keep two processes from fetching the same.
//!
//! An artifact is finished when its `artifact.json` is there; that file is written last, by rename.
//! Downloads wait in `<artifact>.part` until then, so that a broken fetch goes on where it was.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::checksum::sha256_of;
use super::command::Progress;
use super::error::{ArtifactError, Result, io_error};

const MARKER: &str = "artifact.json";
const FORMAT: u32 = 1;
const LOCK_WAIT: Duration = Duration::from_secs(1800);
const LOCK_POLL: Duration = Duration::from_millis(200);

/// A package an artifact was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    pub package: String,
    pub version: String,
    /// Suite, repository or tool it came from.
    pub from: String,
}

/// A file and the checksum it had when it was fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checksum {
    pub path: PathBuf,
    pub sha256: String,
}

/// What `artifact.json` says about a finished artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Marker {
    pub format: u32,
    /// As a user names it: `jdk@8`, `zookeeper@3.6.2`.
    pub what: String,
    /// Where it was finished: patched programs name this folder and cannot be moved.
    pub folder: PathBuf,
    /// The part of `folder` that callers want: a JDK's home, the folder of jars.
    pub inside: PathBuf,
    pub origins: Vec<Origin>,
    /// What was downloaded; not kept.
    pub downloads: Vec<Checksum>,
    /// Files under `folder` that are checked on every use.
    pub files: Vec<Checksum>,
    pub notes: Vec<String>,
    pub finished_unix_seconds: u64,
}

impl Marker {
    /// A marker for `slot`, to be filled with what was fetched.
    pub fn new(slot: &Slot, inside: impl Into<PathBuf>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            format: FORMAT,
            what: slot.name.clone(),
            folder: slot.folder.clone(),
            inside: inside.into(),
            origins: Vec::new(),
            downloads: Vec::new(),
            files: Vec::new(),
            notes: Vec::new(),
            finished_unix_seconds: now.map_or(0, |since| since.as_secs()),
        }
    }
}

/// The folder that holds all artifacts of a user.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// A cache in a given folder; it is made when first written to.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// TEMBLOR_CACHE, else `temblor` in XDG_CACHE_HOME, else in `.cache` of HOME.
    pub fn of_user() -> Result<Self> {
        let folder = |key: &str| {
            std::env::var_os(key)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        root_from(&folder)
            .map(Self::at)
            .ok_or(ArtifactError::NoCacheRoot)
    }

    /// The cache's folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The place of one artifact, such as `jdk/8` for `jdk@8`.
    pub fn slot(&self, name: &str, place: impl AsRef<Path>) -> Slot {
        let folder = self.root.join(place);
        let suffixed = |suffix: &str| {
            let mut file_name = folder.file_name().unwrap_or_default().to_os_string();
            file_name.push(suffix);
            folder.with_file_name(file_name)
        };
        Slot {
            name: name.to_string(),
            part: suffixed(".part"),
            lock: suffixed(".lock"),
            folder,
        }
    }
}

fn root_from(folder: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let root = folder("TEMBLOR_CACHE")
        .or_else(|| folder("XDG_CACHE_HOME").map(|cache| cache.join("temblor")))
        .or_else(|| folder("HOME").map(|home| home.join(".cache/temblor")))?;
    // Patched programs name their loader by an absolute path.
    std::path::absolute(root).ok()
}

/// The place of one artifact in the cache.
#[derive(Debug, Clone)]
pub struct Slot {
    pub name: String,
    pub folder: PathBuf,
    pub part: PathBuf,
    lock: PathBuf,
}

/// Held while one process fetches an artifact; the kernel gives it up when the process ends.
#[derive(Debug)]
pub struct SlotLock {
    _file: File,
}

impl Slot {
    /// Waits until no other process fetches this artifact.
    pub fn lock(&self, progress: Progress<'_>) -> Result<SlotLock> {
        make_folder(self.lock.parent().unwrap_or(Path::new("/")))?;
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&self.lock)
            .map_err(io_error("open", &self.lock))?;
        let start = Instant::now();
        let mut told = false;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(SlotLock { _file: file }),
                Err(TryLockError::Error(source)) => {
                    return Err(io_error("lock", &self.lock)(source));
                }
                Err(TryLockError::WouldBlock) if start.elapsed() > LOCK_WAIT => {
                    return Err(ArtifactError::Locked {
                        name: self.name.clone(),
                        seconds: LOCK_WAIT.as_secs(),
                        lock: self.lock.clone(),
                    });
                }
                Err(TryLockError::WouldBlock) => {
                    if !told {
                        progress(&format!(
                            "{}: another process fetches it, waiting",
                            self.name
                        ));
                        told = true;
                    }
                    thread::sleep(LOCK_POLL);
                }
            }
        }
    }

    /// What the marker says, if the artifact is finished and where it was finished.
    pub fn marker(&self) -> Result<Marker> {
        let path = self.folder.join(MARKER);
        let refuse = |why: String| ArtifactError::NotFetched {
            name: self.name.clone(),
            why,
        };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(refuse(format!("{} does not exist", path.display())));
            }
            Err(error) => return Err(io_error("read", &path)(error)),
        };
        let marker: Marker = serde_json::from_str(&text)
            .map_err(|error| refuse(format!("{} is broken ({error})", path.display())))?;
        if marker.format != FORMAT {
            let format = marker.format;
            return Err(refuse(format!(
                "{} has format {format}, this version reads {FORMAT}",
                path.display()
            )));
        }
        if marker.folder != self.folder || marker.what != self.name {
            return Err(refuse(format!(
                "{} was made as {} in {}, and cannot be moved",
                path.display(),
                marker.what,
                marker.folder.display()
            )));
        }
        Ok(marker)
    }

    /// Checks every recorded file against its checksum.
    pub fn verify(&self, marker: &Marker) -> Result<()> {
        for file in &marker.files {
            let path = self.folder.join(&file.path);
            if !path.exists() {
                return Err(ArtifactError::NotFetched {
                    name: self.name.clone(),
                    why: format!("{} is missing", path.display()),
                });
            }
            let found = sha256_of(&path)?;
            if found != file.sha256 {
                return Err(ArtifactError::Damaged {
                    name: self.name.clone(),
                    path,
                    expected: file.sha256.clone(),
                    found,
                });
            }
        }
        Ok(())
    }

    /// Removes an artifact that is not finished or not good; downloads in the part folder stay.
    pub fn discard(&self) -> Result<()> {
        // The marker goes first: a removal that is cut short must not look finished.
        remove(&self.folder.join(MARKER))?;
        remove(&self.folder)
    }

    /// The part folder, made if it is not there.
    pub fn open_part(&self) -> Result<&Path> {
        make_folder(&self.part)?;
        Ok(&self.part)
    }

    /// Moves a folder of the part folder to the artifact's place, still without its marker.
    pub fn place(&self, unfinished: &Path) -> Result<()> {
        self.discard()?;
        fs::rename(unfinished, &self.folder).map_err(io_error("move", unfinished))
    }

    /// Says that the artifact is finished, and removes its part folder.
    pub fn finish(&self, marker: &Marker) -> Result<()> {
        let text = serde_json::to_string_pretty(marker).unwrap_or_default();
        let temporary = self.folder.join("artifact.json.part");
        let write = || {
            let mut file = File::create(&temporary)?;
            file.write_all(text.as_bytes())?;
            file.write_all(b"\n")?;
            // The content must be on disk before the name is.
            file.sync_all()
        };
        write().map_err(io_error("write", &temporary))?;
        let path = self.folder.join(MARKER);
        fs::rename(&temporary, &path).map_err(io_error("write", &path))?;
        remove(&self.part)
    }
}

/// Makes a folder with its parents.
pub(super) fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(io_error("make the folder", path))
}

/// Removes a file, link or folder; one that is not there is fine.
pub(super) fn remove(path: &Path) -> Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    };
    removed.map_err(io_error("remove", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(root: &Path) -> Slot {
        Cache::at(root).slot("jdk@8", "jdk/8")
    }

    /// A finished artifact with one file, `lib/a`, that is checked on use.
    fn finished(root: &Path) -> Slot {
        let slot = slot(root);
        let tree = slot.open_part().expect("part").join("tree");
        make_folder(&tree.join("lib")).expect("tree");
        fs::write(tree.join("lib/a"), "content").expect("file");
        let mut marker = Marker::new(&slot, "lib");
        marker.files.push(Checksum {
            path: "lib/a".into(),
            sha256: sha256_of(&tree.join("lib/a")).expect("sum"),
        });
        slot.place(&tree).expect("placed");
        slot.finish(&marker).expect("finished");
        slot
    }

    #[test]
    fn the_root_follows_the_environment_in_order() {
        let all = |key: &str| Some(PathBuf::from(format!("/{key}")));
        let no_own = |key: &str| all(key).filter(|_| key != "TEMBLOR_CACHE");
        let home = |key: &str| all(key).filter(|_| key == "HOME");
        assert_eq!(root_from(&all), Some("/TEMBLOR_CACHE".into()));
        assert_eq!(root_from(&no_own), Some("/XDG_CACHE_HOME/temblor".into()));
        assert_eq!(root_from(&home), Some("/HOME/.cache/temblor".into()));
        assert_eq!(root_from(&|_| None), None);
    }

    #[test]
    fn a_checksum_is_the_standard_one() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("abc");
        fs::write(&path, "abc").expect("file");
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_of(&path).expect("sum"), known);
    }

    #[test]
    fn finished_work_is_read_back_and_leaves_no_part() {
        let root = tempfile::tempdir().expect("folder");
        let slot = finished(root.path());
        let marker = slot.marker().expect("finished");
        slot.verify(&marker).expect("whole");
        assert_eq!(marker.what, "jdk@8");
        assert!(!slot.part.exists());
        assert!(!slot.folder.join("artifact.json.part").exists());
    }

    #[test]
    fn placed_but_unmarked_work_is_not_finished() {
        let root = tempfile::tempdir().expect("folder");
        let slot = slot(root.path());
        let tree = slot.open_part().expect("part").join("tree");
        make_folder(&tree).expect("tree");
        slot.place(&tree).expect("placed");
        // A marker that was being written when the process died.
        fs::write(slot.folder.join("artifact.json.part"), "{").expect("file");
        let text = slot.marker().expect_err("unfinished").to_string();
        assert!(text.contains("`./temblor targets fetch jdk@8`"), "{text}");
    }

    #[test]
    fn a_corrupt_marker_is_refused_with_the_way_out() {
        let root = tempfile::tempdir().expect("folder");
        let slot = finished(root.path());
        for broken in ["", "{\"format\": 1", "{\"format\": \"one\"}"] {
            fs::write(slot.folder.join(MARKER), broken).expect("file");
            let text = slot.marker().expect_err("corrupt").to_string();
            assert!(text.contains("is broken"), "{text}");
            assert!(text.contains("`./temblor targets fetch jdk@8`"), "{text}");
        }
    }

    #[test]
    fn a_moved_artifact_is_refused() {
        let root = tempfile::tempdir().expect("folder");
        finished(root.path());
        fs::rename(root.path().join("jdk"), root.path().join("moved")).expect("move");
        let moved = Cache::at(root.path()).slot("jdk@8", "moved/8");
        let text = moved.marker().expect_err("moved").to_string();
        assert!(text.contains("cannot be moved"), "{text}");
    }

    #[test]
    fn a_changed_or_missing_file_is_detected() {
        let root = tempfile::tempdir().expect("folder");
        let slot = finished(root.path());
        let marker = slot.marker().expect("finished");
        fs::write(slot.folder.join("lib/a"), "c0ntent").expect("file");
        let error = slot.verify(&marker).expect_err("changed");
        assert!(matches!(error, ArtifactError::Damaged { .. }), "{error}");
        fs::remove_file(slot.folder.join("lib/a")).expect("file");
        let error = slot.verify(&marker).expect_err("missing");
        assert!(error.to_string().contains("is missing"), "{error}");
    }

    #[test]
    fn discarding_keeps_the_downloads() {
        let root = tempfile::tempdir().expect("folder");
        let slot = finished(root.path());
        fs::write(slot.open_part().expect("part").join("x.deb"), "half").expect("file");
        slot.discard().expect("discarded");
        assert!(!slot.folder.exists());
        assert!(slot.part.join("x.deb").exists());
    }

    #[test]
    fn a_second_fetch_waits_for_the_first() {
        let root = tempfile::tempdir().expect("folder");
        let slot = slot(root.path());
        let held = slot.lock(&mut |_| {}).expect("free");
        let (sender, told) = std::sync::mpsc::channel();
        let other = slot.clone();
        let waiter = thread::spawn(move || {
            let lock = other.lock(&mut |line| sender.send(line.to_string()).expect("heard"));
            lock.map(|_| ())
        });
        let line = told
            .recv_timeout(Duration::from_secs(60))
            .expect("it says that it waits");
        assert!(line.contains("another process fetches it"), "{line}");
        drop(held);
        waiter.join().expect("no panic").expect("locked in turn");
    }
}
