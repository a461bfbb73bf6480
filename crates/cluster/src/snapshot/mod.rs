//! A frozen cell: its processes as images, its files as they were. Any number of new cells can be
//! forked from it, each with files of its own.
//!
//! The folder of the frozen cell stays where it was and as it was: forks copy it, and inside a fork
//! the copy is mounted over it, because that is where the processes look.

mod files;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

pub use files::{CopyWay, copy_tree};

use crate::cell::{Cell, CellError, CellSpec, Clocks, IceOrder};

/// Where memory-backed files are.
const MEMORY: &str = "/dev/shm";
const OWNER_FILE: &str = "owner.lock";
/// Held by whoever makes a place.
const MAKER_FILE: &str = "maker.lock";
/// Images take this much at the most, by default: a quarter of the machine's memory.
const MEMORY_SHARE: u64 = 4;

/// Why a cell could not be frozen or forked.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error(transparent)]
    Cell(#[from] CellError),
    #[error("cannot {what} {}: {source}", path.display())]
    Files {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(
        "the image {} has {found} bytes, and had {bytes} when it was frozen",
        path.display()
    )]
    Image {
        path: PathBuf,
        bytes: u64,
        found: u64,
    },
}

/// A frozen cell.
#[derive(Debug)]
pub struct Snapshot {
    /// The frozen cell's folder.
    dir: PathBuf,
    order: IceOrder,
    next_process: u64,
    /// The images with their sizes.
    images: Vec<(PathBuf, u64)>,
}

impl Snapshot {
    /// Freezes a cell, which is closed then. `images` is a folder for the images.
    /// `clock_page` is the file in which the virtual clock is told how long it stood still.
    pub fn take(
        cell: &Cell,
        criu: &[String],
        images: &Path,
        clock_page: &Path,
    ) -> Result<Snapshot, SnapshotError> {
        let order = IceOrder {
            criu: criu.to_vec(),
            images: images.to_path_buf(),
            clock_page: clock_page.to_path_buf(),
            keeper: 0,
            paused: Vec::new(),
            stopped_ns: 0,
        };
        let frozen = cell.freeze(order);
        let next_process = cell.next_number();
        let closed = cell.close();
        let order = frozen
            .and_then(|order| closed.map(|()| order))
            .inspect_err(|_| drop(fs::remove_dir_all(images)))?;
        Ok(Snapshot {
            dir: cell.dir().to_path_buf(),
            order,
            next_process,
            images: files::sizes_in(images),
        })
    }

    /// The size of its images.
    pub fn bytes(&self) -> u64 {
        self.images.iter().map(|(_, bytes)| bytes).sum()
    }

    /// The frozen files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Puts a copy of the files into a folder; those named in `without` are left to the caller.
    pub fn copy_files(&self, to: &Path, without: &[&str]) -> Result<CopyWay, SnapshotError> {
        files::copy_tree(&self.dir, to, without).map_err(|(path, source)| SnapshotError::Files {
            what: "copy",
            path,
            source,
        })
    }

    /// A new cell with the processes as they were, and what became of their clocks. `dir` has a
    /// copy of the files.
    pub fn thaw(&self, dir: &Path) -> Result<(Cell, Clocks), SnapshotError> {
        self.check()?;
        let cell = Cell::open(CellSpec {
            thaws_at: Some(self.dir.clone()),
            ..CellSpec::new(dir)
        })?;
        let clocks = cell.thaw(self.order.clone(), self.next_process)?;
        Ok((cell, clocks))
    }

    /// What CRIU could only name in riddles, or would wait for without end.
    fn check(&self) -> Result<(), SnapshotError> {
        let facts = |what, path: &Path| {
            let path = path.to_path_buf();
            fs::metadata(&path).map_err(|source| SnapshotError::Files { what, path, source })
        };
        facts("find the frozen folder", &self.dir)?;
        for (path, bytes) in &self.images {
            let found = facts("find the image", path)?.len();
            if found != *bytes {
                return Err(SnapshotError::Image {
                    path: path.clone(),
                    bytes: *bytes,
                    found,
                });
            }
        }
        Ok(())
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // What cannot be removed now goes with the whole place.
        let _ = fs::remove_dir_all(&self.order.images);
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// A folder for images that goes with the process that made it: at its end, or, if it was killed,
/// when the next one is made.
#[derive(Debug)]
pub struct ImagePlace {
    dir: PathBuf,
    in_memory: bool,
    /// Held as long as this process lives.
    _owner: File,
}

impl ImagePlace {
    /// In memory where the machine has such a place, else in `otherwise`, which is for nothing else.
    pub fn make(otherwise: &Path) -> Result<ImagePlace, SnapshotError> {
        let in_memory = Path::new(MEMORY).is_dir();
        let base = match in_memory {
            true => Path::new(MEMORY).join(format!("temblor-{}", crate::cell::user_id())),
            false => otherwise.to_path_buf(),
        };
        let failed = |what, path: &Path| {
            let path = path.to_path_buf();
            move |source| SnapshotError::Files { what, path, source }
        };
        fs::create_dir_all(&base).map_err(failed("make", &base))?;
        let _maker = locked(&base.join(MAKER_FILE))?;
        remove_orphans(&base);
        for number in 0.. {
            let dir = base.join(format!("{}-{number}", std::process::id()));
            match fs::create_dir(&dir) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => {
                    made.map_err(failed("make", &dir))?;
                    return Ok(ImagePlace {
                        _owner: locked(&dir.join(OWNER_FILE))?,
                        dir,
                        in_memory,
                    });
                }
            }
        }
        unreachable!("the numbers do not end")
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether images take memory and no disk.
    pub fn is_in_memory(&self) -> bool {
        self.in_memory
    }

    /// How many bytes of images there may be: a share of the memory, and never more than half of
    /// what is free.
    pub fn budget(&self) -> u64 {
        let total = crate::cell::memory_bytes();
        (total / MEMORY_SHARE).min(files::free_bytes(&self.dir) / 2)
    }
}

impl Drop for ImagePlace {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// A file that belongs to this process as long as it is open.
fn locked(path: &Path) -> Result<File, SnapshotError> {
    let failed = |what| {
        let path = path.to_path_buf();
        move |source| SnapshotError::Files { what, path, source }
    };
    let file = File::create(path).map_err(failed("write"))?;
    file.lock().map_err(failed("lock"))?;
    Ok(file)
}

/// Removes the places whose owners were killed. Nobody makes one meanwhile: one without an owner
/// will never have one.
fn remove_orphans(base: &Path) {
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    for dir in entries.map(|entry| entry.path()).filter(|dir| dir.is_dir()) {
        let is_orphan = match File::open(dir.join(OWNER_FILE)) {
            Ok(owner) => owner.try_lock().is_ok(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if is_orphan {
            let _ = fs::remove_dir_all(&dir);
        }
    }
}
