//! SHA-256 of files, as lower-case hexadecimal.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::error::{Result, io_error};

const CHUNK_BYTES: usize = 1 << 18;

/// The checksum of a file's bytes.
pub(super) fn sha256_of(path: &Path) -> Result<String> {
    let mut file = File::open(path).map_err(io_error("open", path))?;
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = file.read(&mut chunk).map_err(io_error("read", path))?;
        if read == 0 {
            break;
        }
        hasher.update(&chunk[..read]);
    }
    Ok(hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}
