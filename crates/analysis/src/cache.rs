//! What was worked out before, by the hashes of what it was made from: the classes of each source,
//! so that one changed jar costs only that jar, and whole catalogs.
//!
//! A file that is damaged, or that another version wrote, counts as absent. Nothing here can fail
//! an analysis: what cannot be kept is worked out again.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use temblor_model::catalog::{Diagnostic, SiteCatalog};

use crate::Effort;
use crate::ir::Class;

/// Changes with every change of what is stored or of how it is found: see `build.rs`.
const VERSION: &str = concat!("analysis ", env!("TEMBLOR_ANALYSIS_SOURCES"));
/// The oldest files go when the folder grows beyond this.
const MAX_BYTES: u64 = 4 << 30;

/// Of everything an answer depends on.
pub type Hash = [u8; 32];

/// The hash of a list of parts; each is taken with its length, so that they cannot run together.
pub fn hash<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> Hash {
    let mut sha = Sha256::new();
    for part in parts {
        sha.update((part.len() as u64).to_le_bytes());
        sha.update(part);
    }
    sha.finalize().into()
}

/// The classes of one source, with names of their own.
#[derive(Serialize, Deserialize)]
pub struct StoredClasses {
    pub names: Vec<String>,
    pub classes: Vec<Class>,
    pub diagnostics: Vec<Diagnostic>,
}

/// A catalog with what was said beside it.
#[derive(Serialize, Deserialize)]
pub struct StoredCatalog {
    pub catalog: SiteCatalog,
    pub diagnostics: Vec<Diagnostic>,
    pub classes: usize,
    pub methods: usize,
    pub code_bytes: usize,
    pub sources: usize,
}

impl StoredCatalog {
    pub fn effort(&self, seconds: f64) -> Effort {
        Effort {
            classes: self.classes,
            methods: self.methods,
            code_bytes: self.code_bytes,
            sources: self.sources,
            sources_from_cache: self.sources,
            from_cache: true,
            stages: vec![("cache", seconds)],
        }
    }
}

/// A folder of answers.
pub struct Cache {
    dir: PathBuf,
}

impl Cache {
    pub fn new(dir: &Path) -> Cache {
        Cache {
            dir: dir.to_path_buf(),
        }
    }

    pub fn classes(&self, key: &Hash) -> Option<StoredClasses> {
        postcard::from_bytes(&self.read("classes", key)?).ok()
    }

    pub fn keep_classes(&self, key: &Hash, classes: &StoredClasses) {
        if let Ok(bytes) = postcard::to_stdvec(classes) {
            self.write("classes", key, &bytes);
        }
    }

    pub fn catalog(&self, key: &Hash) -> Option<StoredCatalog> {
        serde_json::from_slice(&self.read("catalog", key)?).ok()
    }

    pub fn keep_catalog(&self, key: &Hash, catalog: &StoredCatalog) {
        if let Ok(bytes) = serde_json::to_vec(catalog) {
            self.write("catalog", key, &bytes);
        }
    }

    fn path(&self, kind: &str, key: &Hash) -> PathBuf {
        let key = hash([VERSION.as_bytes(), kind.as_bytes(), key.as_slice()]);
        let name: String = key[..16].iter().map(|b| format!("{b:02x}")).collect();
        self.dir.join(format!("{name}.{kind}"))
    }

    /// The payload, if it is whole: its hash stands before it.
    fn read(&self, kind: &str, key: &Hash) -> Option<Vec<u8>> {
        let path = self.path(kind, key);
        let mut bytes = std::fs::read(&path).ok()?;
        if bytes.len() < 32 {
            return None;
        }
        let payload = bytes.split_off(32);
        if hash([payload.as_slice()]) != bytes.as_slice() {
            return None;
        }
        // Its age counts from its last use.
        if let Ok(file) = std::fs::File::options().append(true).open(&path) {
            let _ = file.set_modified(SystemTime::now());
        }
        Some(payload)
    }

    /// Written aside and renamed: a reader sees all of it or nothing.
    fn write(&self, kind: &str, key: &Hash, payload: &[u8]) {
        let path = self.path(kind, key);
        let part = path.with_extension(format!("part-{}", std::process::id()));
        let written = std::fs::create_dir_all(&self.dir)
            .and_then(|()| std::fs::File::create(&part))
            .and_then(|mut file| {
                file.write_all(&hash([payload]))?;
                file.write_all(payload)
            })
            .and_then(|()| std::fs::rename(&part, &path));
        if written.is_err() {
            let _ = std::fs::remove_file(&part);
        }
        self.prune();
    }

    fn prune(&self) {
        let Ok(list) = std::fs::read_dir(&self.dir) else {
            return;
        };
        let mut files: Vec<(SystemTime, u64, PathBuf)> = list
            .flatten()
            .filter_map(|item| {
                let meta = item.metadata().ok().filter(|m| m.is_file())?;
                Some((meta.modified().ok()?, meta.len(), item.path()))
            })
            .collect();
        files.sort();
        let mut total: u64 = files.iter().map(|f| f.1).sum();
        for (_, len, path) in files {
            if total <= MAX_BYTES {
                break;
            }
            if std::fs::remove_file(path).is_ok() {
                total -= len;
            }
        }
    }
}
