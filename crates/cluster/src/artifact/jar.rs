//! Whether a jar is whole: Maven does not look again at what lies in its own repository, where a
//! full disk or a crash may have cut a file short.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::error::{Result, io_error};
use super::tree::files_below;

/// What a zip file ends with; a comment of at most 65535 bytes may follow.
const END_MARK: [u8; 4] = *b"PK\x05\x06";
const END_BYTES: usize = 22;
const COMMENT_MAX_BYTES: u64 = 65_535;
/// What is too large for the end record stands in another record before it.
const ELSEWHERE: u32 = u32::MAX;

/// The first jar in a folder that is not whole.
pub(super) fn broken_jar(folder: &Path) -> Result<Option<PathBuf>> {
    for path in files_below(folder)? {
        let is_jar = path.extension().is_some_and(|extension| extension == "jar");
        if is_jar && !is_whole(&path)? {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

fn is_whole(path: &Path) -> Result<bool> {
    let mut file = File::open(path).map_err(io_error("open", path))?;
    let length = file.metadata().map_err(io_error("read", path))?.len();
    let tail_start = length.saturating_sub(END_BYTES as u64 + COMMENT_MAX_BYTES);
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(tail_start))
        .and_then(|_| file.read_to_end(&mut tail))
        .map_err(io_error("read", path))?;
    Ok(ends_well(&tail, tail_start))
}

/// Whether there is an end record that reaches the end of the file, with the table of contents it
/// tells of before it.
fn ends_well(tail: &[u8], tail_start: u64) -> bool {
    let Some(last) = tail.len().checked_sub(END_BYTES) else {
        return false;
    };
    (0..=last).rev().any(|at| {
        let record = &tail[at..];
        let number = |from: usize, bytes: usize| {
            let bytes = &record[from..from + bytes];
            bytes.iter().rfold(0, |sum, b| sum << 8 | u32::from(*b))
        };
        let (size, offset, comment) = (number(12, 4), number(16, 4), number(20, 2));
        let table_end = u64::from(size) + u64::from(offset);
        record.starts_with(&END_MARK)
            && record.len() == END_BYTES + comment as usize
            && (offset == ELSEWHERE || table_end <= tail_start + at as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contents of 50 bytes, a table of 30, and the end record.
    fn jar(comment: &str) -> Vec<u8> {
        let mut bytes = vec![b'x'; 80];
        bytes.extend(END_MARK);
        bytes.extend([0; 8]);
        bytes.extend([30, 0, 0, 0, 50, 0, 0, 0]);
        bytes.extend((comment.len() as u16).to_le_bytes());
        bytes.extend(comment.bytes());
        bytes
    }

    #[test]
    fn a_whole_jar_ends_well_with_and_without_a_comment() {
        assert!(ends_well(&jar(""), 0));
        assert!(ends_well(&jar("signed by nobody"), 0));
        assert!(ends_well(&jar("")[40..], 40), "only its tail was read");
    }

    #[test]
    fn a_jar_that_was_cut_anywhere_does_not() {
        for whole in [jar(""), jar("comment")] {
            for end in 0..whole.len() {
                assert!(!ends_well(&whole[..end], 0), "cut at {end}");
            }
            let front_missing = &whole[40..];
            assert!(!ends_well(front_missing, 0), "the contents are not there");
        }
    }
}
