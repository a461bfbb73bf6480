//! Reads classes: from jars, from folders, and from the JDK, whatever shape it has.
//!
//! Opening a source lists its classes; their bytes are read when asked for. Everything hostile
//! (lengths that lie, entries that inflate without end, jars cut short) ends in a diagnostic.

use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use jimage_rs::JImage;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use temblor_model::catalog::Diagnostic;

use crate::cache::{Hash, hash};

/// A class file larger than this is no class file.
const MAX_CLASS_BYTES: u64 = 16 << 20;
/// A jar with more entries than this is not a jar of a program.
const MAX_ENTRIES: usize = 1 << 20;

/// Input that cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error(
        "no classes under {0}: expected jars or class folders; check `[source]` and \
         `analysis.packages` in target.toml"
    )]
    NoClasses(String),
    #[error("{path} cannot be read: {cause}; is it a class path entry of the target?")]
    Unreadable {
        path: PathBuf,
        cause: std::io::Error,
    },
    #[error(
        "{home} is not a JDK this analysis can read ({cause}); \
         expected lib/modules (9 and newer) or jre/lib/rt.jar (8)"
    )]
    NotAJdk { home: PathBuf, cause: String },
}

/// One class of a source.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The class's internal name, if it lies where it belongs.
    pub class: String,
    at: usize,
}

type Jar = zip::ZipArchive<Cursor<Arc<[u8]>>>;

enum Shape {
    /// Only its directory is read until classes are asked for.
    Jar {
        file: Mutex<zip::ZipArchive<BufReader<File>>>,
    },
    Folder {
        files: Vec<PathBuf>,
    },
}

/// A jar or a class folder.
pub struct Source {
    pub path: PathBuf,
    pub entries: Vec<Entry>,
    shape: Shape,
}

impl Source {
    /// Lists the classes of a jar or folder. A damaged jar is a diagnostic and no classes.
    pub fn open(path: &Path) -> Result<(Option<Source>, Vec<Diagnostic>), SourceError> {
        let meta = std::fs::metadata(path).map_err(|cause| SourceError::Unreadable {
            path: path.to_path_buf(),
            cause,
        })?;
        let mut diagnostics = Vec::new();
        let source = match meta.is_dir() {
            true => Some(open_folder(path, &mut diagnostics)),
            false => match open_jar(path, &mut diagnostics) {
                Ok(source) => Some(source),
                Err(message) => {
                    diagnostics.push(diagnostic(path, message));
                    None
                }
            },
        };
        Ok((source, diagnostics))
    }

    /// Of everything in it.
    pub fn hash(&self) -> Option<Hash> {
        match &self.shape {
            Shape::Jar { .. } => Some(hash([std::fs::read(&self.path).ok()?.as_slice()])),
            Shape::Folder { files } => {
                let mut parts = Vec::new();
                for file in files {
                    parts.push(file.as_os_str().as_encoded_bytes().to_vec());
                    parts.push(std::fs::read(file).ok()?);
                }
                Some(hash(parts.iter().map(Vec::as_slice)))
            }
        }
    }

    fn place(&self, entry: &Entry) -> String {
        match &self.shape {
            Shape::Jar { .. } => format!("{}!{}.class", self.path.display(), entry.class),
            Shape::Folder { files } => files[entry.at].display().to_string(),
        }
    }

    /// Gives the bytes of many classes to `use_bytes`, on every core.
    pub fn read_all<T: Send>(
        &self,
        entries: &[&Entry],
        use_bytes: impl Fn(&Entry, String, &[u8]) -> T + Sync,
    ) -> (Vec<T>, Vec<Diagnostic>) {
        let read: Vec<Result<T, Diagnostic>> = match &self.shape {
            Shape::Folder { files } => entries
                .par_iter()
                .map(|entry| {
                    let bytes = std::fs::read(&files[entry.at]);
                    let place = self.place(entry);
                    match bytes {
                        Ok(bytes) => Ok(use_bytes(entry, place, &bytes)),
                        Err(e) => Err(Diagnostic {
                            place,
                            message: e.to_string(),
                        }),
                    }
                })
                .collect(),
            Shape::Jar { .. } => match self.whole_jar() {
                Ok(jar) => entries
                    .par_chunks(64)
                    .flat_map_iter(|chunk| {
                        let mut jar = jar.clone();
                        let use_bytes = &use_bytes;
                        chunk.iter().map(move |entry| {
                            let place = self.place(entry);
                            match read_entry(&mut jar, entry.at) {
                                Ok(bytes) => Ok(use_bytes(entry, place, &bytes)),
                                Err(message) => Err(Diagnostic { place, message }),
                            }
                        })
                    })
                    .collect(),
                Err(message) => return (Vec::new(), vec![diagnostic(&self.path, message)]),
            },
        };
        let mut out = Vec::with_capacity(read.len());
        let mut diagnostics = Vec::new();
        for item in read {
            match item {
                Ok(item) => out.push(item),
                Err(diagnostic) => diagnostics.push(diagnostic),
            }
        }
        (out, diagnostics)
    }

    /// Reads one class without the rest of its jar.
    pub fn read(&self, entry: &Entry) -> Result<Vec<u8>, String> {
        match &self.shape {
            Shape::Folder { files } => std::fs::read(&files[entry.at]).map_err(|e| e.to_string()),
            Shape::Jar { file } => match file.lock() {
                Ok(mut jar) => read_entry(&mut jar, entry.at),
                Err(_) => Err("another reader of this jar failed".into()),
            },
        }
    }

    fn whole_jar(&self) -> Result<Jar, String> {
        let bytes: Arc<[u8]> = std::fs::read(&self.path).map_err(|e| e.to_string())?.into();
        zip::ZipArchive::new(Cursor::new(bytes)).map_err(|e| e.to_string())
    }
}

fn diagnostic(path: &Path, message: String) -> Diagnostic {
    Diagnostic {
        place: path.display().to_string(),
        message,
    }
}

fn read_entry<R: Read + std::io::Seek>(
    jar: &mut zip::ZipArchive<R>,
    at: usize,
) -> Result<Vec<u8>, String> {
    let entry = jar.by_index(at).map_err(|e| e.to_string())?;
    let expected = entry.size().min(MAX_CLASS_BYTES) as usize;
    let mut bytes = Vec::with_capacity(expected.min(1 << 20));
    let mut bounded = entry.take(MAX_CLASS_BYTES + 1);
    bounded.read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > MAX_CLASS_BYTES {
        return Err(format!(
            "inflates to more than {} MiB: no class file is that large; left out",
            MAX_CLASS_BYTES >> 20
        ));
    }
    Ok(bytes)
}

fn open_folder(dir: &Path, diagnostics: &mut Vec<Diagnostic>) -> Source {
    let mut files = Vec::new();
    let mut pending = vec![dir.to_path_buf()];
    while let Some(folder) = pending.pop() {
        match std::fs::read_dir(&folder) {
            Ok(list) => {
                for item in list.flatten() {
                    // A link is not followed: it may lead back up.
                    let is_dir = item.file_type().is_ok_and(|t| t.is_dir());
                    let path = item.path();
                    if is_dir {
                        pending.push(path);
                    } else if path.extension().is_some_and(|e| e == "class") {
                        files.push(path);
                    }
                }
            }
            Err(e) => diagnostics.push(diagnostic(&folder, e.to_string())),
        }
    }
    files.sort();
    let entries = files.iter().enumerate().map(|(at, path)| {
        let inside = path.strip_prefix(dir).unwrap_or(path).with_extension("");
        let class = inside.to_string_lossy().replace('\\', "/");
        Entry { class, at }
    });
    Source {
        path: dir.to_path_buf(),
        entries: entries
            .filter(|e| !e.class.ends_with("module-info"))
            .collect(),
        shape: Shape::Folder { files },
    }
}

/// The directory's end record stands in the last 64 KiB and a few bytes. The zip reader would
/// look for it through the whole of a file that is no jar, however large.
fn has_end_record(file: &mut File) -> std::io::Result<bool> {
    let tail = file.metadata()?.len().min((1 << 16) + 64);
    file.seek(SeekFrom::End(-(tail as i64)))?;
    let mut bytes = Vec::with_capacity(tail as usize);
    file.by_ref().take(tail).read_to_end(&mut bytes)?;
    file.rewind()?;
    Ok(bytes.windows(4).any(|w| w == b"PK\x05\x06"))
}

fn open_jar(path: &Path, diagnostics: &mut Vec<Diagnostic>) -> Result<Source, String> {
    let mut file = File::open(path).map_err(|e| e.to_string())?;
    if !has_end_record(&mut file).map_err(|e| e.to_string())? {
        return Err("not a readable jar: it has no directory at its end; cut short?".into());
    }
    let jar = zip::ZipArchive::new(BufReader::with_capacity(1 << 16, file))
        .map_err(|e| format!("not a readable jar: {e}"))?;
    if jar.len() > MAX_ENTRIES {
        return Err(format!("has {} entries; left out", jar.len()));
    }
    let mut entries = Vec::new();
    for at in 0..jar.len() {
        let name = jar.name_for_index(at).unwrap_or_default();
        if name.ends_with(".jar") {
            diagnostics.push(Diagnostic {
                place: format!("{}!{name}", path.display()),
                message: "a jar inside a jar, which a plain JVM does not read either; unpack it \
                          and name it on the class path to have it analysed"
                    .into(),
            });
        }
        // Multi-release copies and module descriptors are not what the JVM's first look finds.
        let is_class = name.ends_with(".class")
            && !name.starts_with("META-INF/")
            && !name.ends_with("module-info.class");
        if is_class {
            let class = name.trim_end_matches(".class").to_string();
            entries.push(Entry { class, at });
        }
    }
    Ok(Source {
        path: path.to_path_buf(),
        entries,
        shape: Shape::Jar {
            file: Mutex::new(jar),
        },
    })
}

/// The JDK's classes, found by name when asked for.
pub enum JdkClasses {
    /// Since 9: `lib/modules`, with the module of each package.
    Image {
        image: Box<JImage>,
        modules: FxHashMap<String, String>,
    },
    /// 8: rt.jar and its companions, by class name.
    Jars {
        sources: Vec<Source>,
        index: FxHashMap<String, (usize, usize)>,
    },
}

impl JdkClasses {
    pub fn open(home: &Path) -> Result<JdkClasses, SourceError> {
        let bad = |cause: String| SourceError::NotAJdk {
            home: home.to_path_buf(),
            cause,
        };
        let modules_file = home.join("lib/modules");
        if modules_file.exists() {
            let image = JImage::open(&modules_file).map_err(|e| bad(e.to_string()))?;
            let mut modules = FxHashMap::default();
            for name in image.resource_names_iter() {
                let name = name.map_err(|e| bad(e.to_string()))?;
                let (module, full) = name.get_full_name();
                if let Some((package, file)) = full.rsplit_once('/')
                    && file.ends_with(".class")
                    && !modules.contains_key(package)
                {
                    modules.insert(package.to_string(), module);
                }
            }
            return Ok(JdkClasses::Image {
                image: Box::new(image),
                modules,
            });
        }
        let mut sources = Vec::new();
        let mut index = FxHashMap::default();
        for base in ["jre/lib", "lib"] {
            for jar in ["rt.jar", "jce.jar", "jsse.jar"] {
                let path = home.join(base).join(jar);
                if path.exists() {
                    let source = open_jar(&path, &mut Vec::new()).map_err(&bad)?;
                    for (at, entry) in source.entries.iter().enumerate() {
                        index
                            .entry(entry.class.clone())
                            .or_insert((sources.len(), at));
                    }
                    sources.push(source);
                }
            }
        }
        if sources.is_empty() {
            return Err(bad("neither is there".into()));
        }
        Ok(JdkClasses::Jars { sources, index })
    }

    /// What tells one JDK from another: its release and the size and age of its classes.
    pub fn identity(home: &Path) -> Vec<u8> {
        let mut out = std::fs::read(home.join("release")).unwrap_or_default();
        for file in ["lib/modules", "jre/lib/rt.jar", "lib/rt.jar"] {
            if let Ok(meta) = std::fs::metadata(home.join(file)) {
                let age = meta.modified().ok();
                out.extend(format!("{} {age:?}", meta.len()).into_bytes());
            }
        }
        out
    }

    /// Every class of the JDK, for checks that want much code.
    #[cfg(test)]
    pub fn class_names(&self) -> Vec<String> {
        let mut out: Vec<String> = match self {
            JdkClasses::Image { image, .. } => image
                .resource_names_iter()
                .flatten()
                .map(|name| name.get_full_name().1)
                .filter_map(|name| name.strip_suffix(".class").map(String::from))
                .collect(),
            JdkClasses::Jars { index, .. } => index.keys().cloned().collect(),
        };
        out.sort();
        out
    }

    /// The bytes of a class by internal name.
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        match self {
            JdkClasses::Image { image, modules } => {
                let package = name.rsplit_once('/')?.0;
                let module = modules.get(package)?;
                let resource = format!("/{module}/{name}.class");
                image
                    .find_resource(&resource)
                    .ok()
                    .flatten()
                    .map(|b| b.into_owned())
            }
            JdkClasses::Jars { sources, index } => {
                let (source, entry) = index.get(name)?;
                let source = &sources[*source];
                source.read(&source.entries[*entry]).ok()
            }
        }
    }
}
