//! How bytes reach the disk: whole files by rename, streams by appended lines, compressed once
//! nobody appends any more.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StoreError;

/// Writes a whole file so that a reader sees the old one or the new one, even after a crash.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(StoreError::io(folder, "cannot make the folder"))?;
    let temporary = temporary_name(path);
    let written = write_synced(&temporary, bytes);
    if let Err(source) = written {
        // Best effort: half a file under a temporary name would only take space.
        let _ = fs::remove_file(&temporary);
        return Err(StoreError::io(path, "cannot write")(source));
    }
    fs::rename(&temporary, path).map_err(StoreError::io(path, "cannot rename into place"))?;
    // The rename itself must survive a power cut; not every file system lets folders be synced.
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Beside the file, hidden, with the process id: two writers never share one.
fn temporary_name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}

pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), StoreError> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(|e| unstorable(path, e))?;
    bytes.push(b'\n');
    write_whole(path, &bytes)
}

pub(crate) fn write_toml<T: Serialize>(path: &Path, value: &T) -> Result<(), StoreError> {
    let text = toml::to_string(value).map_err(|e| unstorable(path, e))?;
    write_whole(path, text.as_bytes())
}

fn unstorable(path: &Path, reason: impl ToString) -> StoreError {
    StoreError::Unstorable {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

/// Reads a JSON file whose format is at most `known`; the version is looked at first, because a
/// newer format need not fit the types.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path, known: u32) -> Result<T, StoreError> {
    let bytes = fs::read(path).map_err(StoreError::io(path, "cannot read"))?;
    let value: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|e| StoreError::broken(path, e))?;
    let found = value.get("format").and_then(|f| f.as_u64());
    check_format(path, found, known)?;
    serde_json::from_value(value).map_err(|e| StoreError::broken(path, e))
}

/// As [`read_json`], for TOML.
pub(crate) fn read_toml<T: DeserializeOwned>(path: &Path, known: u32) -> Result<T, StoreError> {
    let text = fs::read_to_string(path).map_err(StoreError::io(path, "cannot read"))?;
    let table: toml::Table = text.parse().map_err(|e| StoreError::broken(path, e))?;
    let found = table.get("format").and_then(|f| f.as_integer());
    check_format(path, found.map(|f| f.max(0) as u64), known)?;
    toml::from_str(&text).map_err(|e| StoreError::broken(path, e))
}

fn check_format(path: &Path, found: Option<u64>, known: u32) -> Result<(), StoreError> {
    match found {
        Some(found) if found > u64::from(known) => Err(StoreError::Newer {
            path: path.to_owned(),
            found: u32::try_from(found).unwrap_or(u32::MAX),
            known,
        }),
        _ => Ok(()),
    }
}

/// A stream of JSON lines on disk. Each append is one `write`: a killed lab leaves whole lines,
/// a full disk at worst one torn last line, which readers leave out.
#[derive(Debug)]
pub struct LineFile {
    path: PathBuf,
    file: File,
    /// The last write did not get through whole: a line end is owed before the next one.
    torn: bool,
}

impl LineFile {
    pub(crate) fn append_to(path: &Path) -> Result<LineFile, StoreError> {
        let mut options = OpenOptions::new();
        let file = options
            .append(true)
            .create(true)
            .open(path)
            .map_err(StoreError::io(path, "cannot open for appending"))?;
        Ok(LineFile {
            path: path.to_owned(),
            file,
            torn: !ends_with_newline(path),
        })
    }

    /// Appends values, a line each, and hands them to the kernel in one write.
    pub fn append<T: Serialize>(&mut self, values: &[T]) -> Result<(), StoreError> {
        let mut lines = Vec::new();
        if self.torn {
            lines.push(b'\n');
        }
        for value in values {
            serde_json::to_writer(&mut lines, value).map_err(|e| unstorable(&self.path, e))?;
            lines.push(b'\n');
        }
        let written = self.file.write_all(&lines);
        self.torn = written.is_err();
        written.map_err(StoreError::io(&self.path, "cannot append"))
    }

    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        let synced = self.file.sync_data();
        synced.map_err(StoreError::io(&self.path, "cannot flush to the disk"))
    }
}

fn ends_with_newline(path: &Path) -> bool {
    use std::io::{Seek, SeekFrom};
    let last = || -> io::Result<bool> {
        let mut file = File::open(path)?;
        if file.metadata()?.len() == 0 {
            return Ok(true);
        }
        file.seek(SeekFrom::End(-1))?;
        let mut byte = [0];
        file.read_exact(&mut byte)?;
        Ok(byte[0] == b'\n')
    };
    last().unwrap_or(true)
}

/// The lines of a stream that could be read, and how many could not.
#[derive(Debug)]
pub struct Lines<T> {
    pub values: Vec<T>,
    /// Lines that are no JSON of this type: torn by a crash, or of a later version.
    pub torn: usize,
}

/// Reads a stream of JSON lines, compressed or not. A file that is not there is an empty stream.
pub(crate) fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Lines<T>, StoreError> {
    let mut lines = Lines {
        values: Vec::new(),
        torn: 0,
    };
    // The plain file first: it goes only when the other one is whole.
    let bytes = match read_bounded(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => match unpacked(&packed(path)) {
            Ok((bytes, cut_off)) => {
                lines.torn += usize::from(cut_off);
                bytes
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(StoreError::io(&packed(path), "cannot read")(e)),
        },
        other => other.map_err(StoreError::io(path, "cannot read"))?,
    };
    for line in bytes.split(|b| *b == b'\n') {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match serde_json::from_slice(line) {
            Ok(value) => lines.values.push(value),
            Err(_) => lines.torn += 1,
        }
    }
    Ok(lines)
}

/// More than fits into memory with ease is not read.
const BYTES_MOST: u64 = 512 << 20;

/// The beginning of a file. Devices and pipes never end and are refused.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?
        .take(BYTES_MOST)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn open_regular(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("not a regular file")),
    }
}

/// What is in a compressed file, as far as it is whole, and whether it was cut off.
fn unpacked(path: &Path) -> io::Result<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    let mut decoder = GzDecoder::new(open_regular(path)?).take(BYTES_MOST);
    let cut_off = decoder.read_to_end(&mut bytes).is_err();
    Ok((bytes, cut_off))
}

fn packed(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".gz");
    name.into()
}

/// Puts a compressed file in the place of a stream that has ended. One that is too long to be
/// read, or no file at all, is left as it is.
pub(crate) fn compress(path: &Path) -> Result<(), StoreError> {
    let cannot = |e| StoreError::io(path, "cannot compress")(e);
    let mut file = open_regular(path).map_err(cannot)?;
    if file.metadata().map_err(cannot)?.len() > BYTES_MOST {
        return Ok(());
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    io::copy(&mut file, &mut encoder).map_err(cannot)?;
    let bytes = encoder.finish().map_err(cannot)?;
    write_whole(&packed(path), &bytes)?;
    fs::remove_file(path).map_err(cannot)
}
