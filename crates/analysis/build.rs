//! Names an analysis by its own sources: what another version kept in the cache is not taken for
//! its own answer.

use std::path::{Path, PathBuf};

/// What the answers depend on besides the target.
const SOURCES: [&str; 3] = ["src", "../classfile/src", "../model/src"];

fn main() {
    let mut files = Vec::new();
    for dir in SOURCES {
        println!("cargo:rerun-if-changed={dir}");
        list(Path::new(dir), &mut files);
    }
    files.sort();
    // FNV-1a: no dependency is worth it.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for file in files {
        let text = std::fs::read(&file).expect("cargo can read the sources");
        for byte in file.as_os_str().as_encoded_bytes().iter().chain(&text) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    println!("cargo:rustc-env=TEMBLOR_ANALYSIS_SOURCES={hash:016x}");
}

fn list(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("the folder of the sources") {
        let path = entry.expect("a file of the sources").path();
        match path.is_dir() {
            true => list(&path, files),
            false => files.push(path),
        }
    }
}
