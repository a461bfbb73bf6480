//! Damage to a node's files: bits flipped in the newest file that matches.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::glob;

/// No more bytes are shown in words.
const SHOWN_MAX_BYTES: usize = 16;
/// No more bytes are damaged at once.
const DAMAGE_MAX_BYTES: u64 = 1024 * 1024;

/// Why nothing was damaged.
#[derive(Debug, thiserror::Error)]
pub enum CorruptError {
    #[error("no file matches `{pattern}` in {}; nothing was damaged", dir.display())]
    NoMatch { pattern: String, dir: PathBuf },
    #[error("only empty files match `{pattern}` in {}; nothing was damaged", dir.display())]
    Empty { pattern: String, dir: PathBuf },
    #[error("cannot damage {}: {source}", file.display())]
    Io { file: PathBuf, source: io::Error },
}

/// What was damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub file: PathBuf,
    /// Where it begins in the file.
    pub offset: u64,
    pub before: Vec<u8>,
    pub after: Vec<u8>,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hex = |bytes: &[u8]| {
            let shown = &bytes[..bytes.len().min(SHOWN_MAX_BYTES)];
            let text: Vec<String> = shown.iter().map(|byte| format!("{byte:02x}")).collect();
            let more = if bytes.len() > SHOWN_MAX_BYTES {
                " ..."
            } else {
                ""
            };
            format!("{}{more}", text.join(" "))
        };
        let (before, after) = (hex(&self.before), hex(&self.after));
        let (file, count) = (self.file.display(), self.before.len());
        write!(
            f,
            "{file}: {count} byte(s) at {}: {before} became {after}",
            self.offset
        )
    }
}

/// Flips the bits of `bytes` bytes at `offset` (modulo the file's size) of the newest match.
pub fn corrupt(
    node_dir: &Path,
    pattern: &str,
    offset: u64,
    bytes: u32,
) -> Result<Damage, CorruptError> {
    let found = glob::matches(node_dir, pattern);
    let (pattern, dir) = (pattern.to_string(), node_dir.to_path_buf());
    if found.is_empty() {
        return Err(CorruptError::NoMatch { pattern, dir });
    }
    let age = |path: &PathBuf| -> Option<(SystemTime, PathBuf, u64)> {
        let facts = fs::metadata(path).ok().filter(|facts| facts.len() > 0)?;
        Some((facts.modified().ok()?, path.clone(), facts.len()))
    };
    let newest = found.iter().filter_map(age).max();
    let (_, file, size) = newest.ok_or(CorruptError::Empty { pattern, dir })?;
    let offset = offset % size;
    let count = u64::from(bytes.max(1))
        .min(size - offset)
        .min(DAMAGE_MAX_BYTES);
    flip(&file, offset, count as usize).map_err(|source| CorruptError::Io { file, source })
}

fn flip(file: &Path, offset: u64, count: usize) -> io::Result<Damage> {
    let mut stream = OpenOptions::new().read(true).write(true).open(file)?;
    let mut before = vec![0u8; count];
    stream.seek(SeekFrom::Start(offset))?;
    stream.read_exact(&mut before)?;
    let after: Vec<u8> = before.iter().map(|byte| !byte).collect();
    stream.seek(SeekFrom::Start(offset))?;
    stream.write_all(&after)?;
    Ok(Damage {
        file: file.to_path_buf(),
        offset,
        before,
        after,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn write(path: &Path, text: &str, age_seconds: u64) {
        fs::write(path, text).unwrap();
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age_seconds))
            .unwrap();
    }

    #[test]
    fn the_newest_match_is_damaged_at_the_offset() {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("log.1"), "old-old-old", 100);
        write(&dir.path().join("log.2"), "abcdef", 1);
        write(&dir.path().join("other"), "newest of all", 0);
        // 8 modulo 6 is 2; only four bytes are left there.
        let damage = corrupt(dir.path(), "log.*", 8, 10).unwrap();
        assert_eq!(damage.file, dir.path().join("log.2"));
        assert_eq!(
            (damage.offset, damage.before.as_slice()),
            (2, b"cdef".as_slice())
        );
        let now = fs::read(dir.path().join("log.2")).unwrap();
        assert_eq!(now, [b'a', b'b', !b'c', !b'd', !b'e', !b'f']);
        assert!(
            damage
                .to_string()
                .contains("4 byte(s) at 2: 63 64 65 66 became 9c 9b 9a 99")
        );
        assert_eq!(fs::read(dir.path().join("log.1")).unwrap(), b"old-old-old");
    }

    #[test]
    fn without_a_match_nothing_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let error = corrupt(dir.path(), "snap/*.bin", 0, 1)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("no file matches `snap/*.bin`"), "{error}");
        fs::write(dir.path().join("empty"), "").unwrap();
        let error = corrupt(dir.path(), "emp*", 0, 1).unwrap_err().to_string();
        assert!(error.starts_with("only empty files match"), "{error}");
    }
}
