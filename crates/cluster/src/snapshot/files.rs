//! Copies of a frozen cell's files: shared blocks where the file system can, else only the parts
//! of files that hold data (logs are laid out ahead as holes of many megabytes).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::cell::{clone_blocks, free_bytes_at, next_data};

/// How files were copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyWay {
    /// Blocks are shared until somebody writes.
    Reflink,
    /// The data of files, without their holes.
    Data,
}

impl std::fmt::Display for CopyWay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            CopyWay::Reflink => "shared blocks",
            CopyWay::Data => "copies of their data",
        })
    }
}

/// What went wrong, and with which file.
type Failure = (PathBuf, io::Error);

/// Copies a folder's content into another one, without the top entries that are named.
pub fn copy_tree(from: &Path, to: &Path, without: &[&str]) -> Result<CopyWay, Failure> {
    let mut way = CopyWay::Reflink;
    copy_folder(from, to, without, &mut way)?;
    Ok(way)
}

fn copy_folder(from: &Path, to: &Path, without: &[&str], way: &mut CopyWay) -> Result<(), Failure> {
    let at = |path: &Path| {
        let path = path.to_path_buf();
        move |error| (path, error)
    };
    fs::create_dir_all(to).map_err(at(to))?;
    for entry in fs::read_dir(from).map_err(at(from))? {
        let entry = entry.map_err(at(from))?;
        let (name, kind) = (entry.file_name(), entry.file_type().map_err(at(from))?);
        if without.iter().any(|left_out| name == **left_out) {
            continue;
        }
        let (from, to) = (entry.path(), to.join(&name));
        if kind.is_dir() {
            copy_folder(&from, &to, &[], way)?;
        } else if kind.is_symlink() {
            let target = fs::read_link(&from).map_err(at(&from))?;
            std::os::unix::fs::symlink(target, &to).map_err(at(&to))?;
        } else if kind.is_file() {
            copy_file(&from, &to, way).map_err(at(&from))?;
        }
        // Sockets and pipes belong to the processes, which bring their own.
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path, way: &mut CopyWay) -> io::Result<()> {
    let mut source = File::open(from)?;
    let facts = source.metadata()?;
    let mut target = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .open(to)?;
    target.set_permissions(facts.permissions())?;
    if *way == CopyWay::Reflink && facts.len() > 0 && clone_blocks(&source, &target).is_ok() {
        return Ok(());
    }
    if facts.len() > 0 {
        *way = CopyWay::Data;
    }
    target.set_len(facts.len())?;
    let mut at = 0;
    while let Some((start, end)) = next_data(&source, at, facts.len())? {
        source.seek(SeekFrom::Start(start))?;
        target.seek(SeekFrom::Start(start))?;
        copy_bytes(&mut source, &mut target, end - start)?;
        at = end;
    }
    Ok(())
}

fn copy_bytes(from: &mut File, to: &mut File, count: u64) -> io::Result<()> {
    let mut buffer = vec![0; count.min(1 << 20) as usize];
    let mut left = count;
    while left > 0 {
        let part = left.min(buffer.len() as u64) as usize;
        from.read_exact(&mut buffer[..part])?;
        to.write_all(&buffer[..part])?;
        left -= part as u64;
    }
    Ok(())
}

/// The files in a folder with their sizes.
pub fn sizes_in(dir: &Path) -> Vec<(PathBuf, u64)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let size = |entry: fs::DirEntry| Some((entry.path(), entry.metadata().ok()?.len()));
    entries.filter_map(size).collect()
}

/// What is free where a folder is.
pub fn free_bytes(dir: &Path) -> u64 {
    free_bytes_at(dir).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_stay_holes_and_content_stays_content() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("deep")).unwrap();
        let mut log = File::create(from.join("deep/log")).unwrap();
        log.write_all(b"head").unwrap();
        log.seek(SeekFrom::Start(64 << 20)).unwrap();
        log.write_all(b"tail").unwrap();
        fs::write(from.join("board"), "not this").unwrap();
        fs::write(from.join("empty"), "").unwrap();
        std::os::unix::fs::symlink("deep/log", from.join("link")).unwrap();

        copy_tree(&from, &to, &["board"]).unwrap();

        let (ours, theirs) = (
            fs::read(to.join("link")).unwrap(),
            fs::read(from.join("link")).unwrap(),
        );
        assert!(ours == theirs && ours.ends_with(b"tail"));
        let used = fs::metadata(to.join("deep/log")).unwrap().blocks() * 512;
        assert!(used < 1 << 20, "{used} bytes for two words");
        assert_eq!(fs::metadata(to.join("empty")).unwrap().len(), 0);
        assert!(!to.join("board").exists());
    }

    #[test]
    fn a_missing_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone");
        let (path, _) = copy_tree(&gone, &folder.path().join("to"), &[]).unwrap_err();
        assert_eq!(path, gone);
    }
}
