//! The little that must be known of native files: is it a program with a loader, and which
//! versions of the C library does it ask for?

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::bytes::Regex;

use super::error::{Result, io_error};
use super::tree::files_below;

const MAGIC: &[u8] = b"\x7fELF";
const PT_INTERP: u32 = 3;

/// A version of the C library, such as 2.38.
pub(super) type Glibc = (u32, u32);

static NEEDED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?-u)GLIBC_(\d+)\.(\d+)").expect("a correct pattern"));

/// What the native files of a folder need.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Natives {
    /// Programs that name a loader, links left out.
    pub programs: Vec<PathBuf>,
    /// The newest C library that any of the files asks for.
    pub glibc: Option<Glibc>,
}

/// Reads all native files below a folder.
pub(super) fn natives_below(folder: &Path) -> Result<Natives> {
    let mut natives = Natives::default();
    for path in files_below(folder)? {
        if !path.symlink_metadata().is_ok_and(|meta| meta.is_file()) || !starts_as_elf(&path)? {
            continue;
        }
        let bytes = fs::read(&path).map_err(io_error("read", &path))?;
        natives.glibc = natives.glibc.max(newest_glibc(&bytes));
        if names_loader(&bytes) {
            natives.programs.push(path);
        }
    }
    Ok(natives)
}

fn starts_as_elf(path: &Path) -> Result<bool> {
    use std::io::Read;
    let mut start = Vec::new();
    let file = fs::File::open(path).map_err(io_error("open", path))?;
    file.take(MAGIC.len() as u64)
        .read_to_end(&mut start)
        .map_err(io_error("read", path))?;
    Ok(start == MAGIC)
}

/// The newest version among the names of the symbol versions; they stand as text in the file.
fn newest_glibc(bytes: &[u8]) -> Option<Glibc> {
    let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse::<u32>().ok();
    NEEDED
        .captures_iter(bytes)
        .filter_map(|found| Some((number(&found[1])?, number(&found[2])?)))
        .max()
}

/// Whether a 64-bit little-endian file has a program header that names a loader.
fn names_loader(bytes: &[u8]) -> bool {
    let is_64_bit_little_endian = bytes.get(4..6) == Some(&[2, 1]);
    if !is_64_bit_little_endian {
        return false;
    }
    let table = read_u64(bytes, 32).unwrap_or(0);
    let size = u64::from(read_u16(bytes, 54).unwrap_or(0));
    let count = u64::from(read_u16(bytes, 56).unwrap_or(0));
    (0..count).any(|index| {
        let offset = table
            .checked_add(index * size)
            .and_then(|at| usize::try_from(at).ok());
        offset.and_then(|at| read_u32(bytes, at)) == Some(PT_INTERP)
    })
}

fn read<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    read(bytes, at).map(u16::from_le_bytes)
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    read(bytes, at).map(u32::from_le_bytes)
}

fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    read(bytes, at).map(u64::from_le_bytes)
}

/// The C library this program runs with.
pub(super) fn host_glibc() -> Option<Glibc> {
    // SAFETY: the function takes nothing and returns a string that lives as long as the process.
    let text = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    parse_glibc(text.to_str().ok()?)
}

fn parse_glibc(text: &str) -> Option<Glibc> {
    let mut numbers = text.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_counts_by_number() {
        let bytes = b"\0GLIBC_2.4\0GLIBC_2.38\0GLIBC_PRIVATE\0GLIBC_2.9\0\xff";
        assert_eq!(newest_glibc(bytes), Some((2, 38)));
        assert_eq!(newest_glibc(b"GLIBCXX_3.4"), None);
        assert!(parse_glibc("2.36") < Some((2, 38)));
        assert!(host_glibc() > Some((2, 0)));
    }

    #[test]
    fn programs_of_this_machine_name_their_loader_and_suit_its_library() {
        let own = fs::read("/proc/self/exe").expect("own program");
        assert!(names_loader(&own));
        let shell = fs::read("/bin/sh").expect("the shell");
        assert!(newest_glibc(&shell) <= host_glibc());
    }

    #[test]
    fn hostile_headers_are_no_programs() {
        let own = fs::read("/proc/self/exe").expect("own program");
        assert!(!names_loader(b""));
        assert!(!names_loader(&own[..40]));
        let mut far = own[..64].to_vec();
        far[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        far[56..58].copy_from_slice(&u16::MAX.to_le_bytes());
        assert!(!names_loader(&far));
    }

    #[test]
    fn links_and_scripts_are_left_out() {
        let folder = tempfile::tempdir().expect("folder");
        fs::copy("/proc/self/exe", folder.path().join("program")).expect("copied");
        std::os::unix::fs::symlink("program", folder.path().join("link")).expect("link");
        fs::write(folder.path().join("script"), "#!/bin/sh\n").expect("file");
        let natives = natives_below(folder.path()).expect("read");
        assert_eq!(natives.programs, [folder.path().join("program")]);
    }
}
