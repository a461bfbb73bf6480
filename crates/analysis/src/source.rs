//! Reads classes: from jars, from folders, and from the JDK, whatever shape it has.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use jimage_rs::JImage;
use rustc_hash::FxHashMap;
use temblor_model::catalog::Diagnostic;

/// A class file larger than this is no class file.
const MAX_CLASS_BYTES: u64 = 16 << 20;

/// The bytes of one class and where they came from.
pub struct ClassBytes {
    pub place: String,
    pub bytes: Vec<u8>,
}

/// Input that cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error(
        "no classes under {0}: expected jars or class folders; check `[source]` in target.toml"
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

/// Reads every class of a class path; damaged jars and entries become diagnostics.
pub fn read_class_path(
    class_path: &[PathBuf],
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Vec<ClassBytes>, SourceError> {
    let mut out = Vec::new();
    for path in class_path {
        let meta = std::fs::metadata(path).map_err(|cause| SourceError::Unreadable {
            path: path.clone(),
            cause,
        })?;
        if meta.is_dir() {
            read_folder(path, &mut out, diagnostics);
        } else if let Err(message) = read_jar(path, &mut out, diagnostics) {
            diagnostics.push(Diagnostic {
                place: path.display().to_string(),
                message,
            });
        }
    }
    if out.is_empty() {
        let paths: Vec<String> = class_path.iter().map(|p| p.display().to_string()).collect();
        let damaged: Vec<String> = diagnostics
            .iter()
            .map(|d| format!(" ({}: {})", d.place, d.message))
            .collect();
        return Err(SourceError::NoClasses(paths.join(", ") + &damaged.join("")));
    }
    Ok(out)
}

fn read_folder(dir: &Path, out: &mut Vec<ClassBytes>, diagnostics: &mut Vec<Diagnostic>) {
    let mut entries: Vec<PathBuf> = match std::fs::read_dir(dir) {
        Ok(entries) => entries.flatten().map(|e| e.path()).collect(),
        Err(e) => {
            let place = dir.display().to_string();
            diagnostics.push(Diagnostic {
                place,
                message: e.to_string(),
            });
            return;
        }
    };
    entries.sort();
    for path in entries {
        if path.is_dir() {
            read_folder(&path, out, diagnostics);
        } else if path.extension().is_some_and(|e| e == "class") {
            let place = path.display().to_string();
            match std::fs::read(&path) {
                Ok(bytes) => out.push(ClassBytes { place, bytes }),
                Err(e) => diagnostics.push(Diagnostic {
                    place,
                    message: e.to_string(),
                }),
            }
        }
    }
}

fn read_jar(
    path: &Path,
    out: &mut Vec<ClassBytes>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<(), String> {
    let file = File::open(path).map_err(|e| e.to_string())?;
    let mut jar = zip::ZipArchive::new(std::io::BufReader::new(file))
        .map_err(|e| format!("not a readable jar: {e}"))?;
    for i in 0..jar.len() {
        let mut entry = match jar.by_index(i) {
            Ok(entry) => entry,
            Err(e) => {
                let place = format!("{}!entry {i}", path.display());
                diagnostics.push(Diagnostic {
                    place,
                    message: e.to_string(),
                });
                continue;
            }
        };
        // Multi-release copies and module descriptors are not what the JVM's first look finds.
        if !entry.name().ends_with(".class")
            || entry.name().starts_with("META-INF/")
            || entry.name().ends_with("module-info.class")
        {
            continue;
        }
        let place = format!("{}!{}", path.display(), entry.name());
        let mut bytes = Vec::new();
        match (&mut entry).take(MAX_CLASS_BYTES).read_to_end(&mut bytes) {
            Ok(_) => out.push(ClassBytes { place, bytes }),
            Err(e) => diagnostics.push(Diagnostic {
                place,
                message: e.to_string(),
            }),
        }
    }
    Ok(())
}

/// The JDK's classes, found by name when asked for.
pub enum JdkClasses {
    /// Since 9: `lib/modules`, with the module of each package.
    Image {
        image: Box<JImage>,
        modules: FxHashMap<String, String>,
    },
    /// 8: rt.jar and its companions.
    Jars(Vec<zip::ZipArchive<std::io::BufReader<File>>>),
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
        let mut jars = Vec::new();
        for base in ["jre/lib", "lib"] {
            for jar in ["rt.jar", "jce.jar", "jsse.jar"] {
                if let Ok(file) = File::open(home.join(base).join(jar)) {
                    let reader = std::io::BufReader::new(file);
                    jars.push(zip::ZipArchive::new(reader).map_err(|e| bad(e.to_string()))?);
                }
            }
        }
        if jars.is_empty() {
            return Err(bad("neither is there".into()));
        }
        Ok(JdkClasses::Jars(jars))
    }

    /// The bytes of a class by internal name.
    pub fn read(&mut self, name: &str) -> Option<Vec<u8>> {
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
            JdkClasses::Jars(jars) => jars.iter_mut().find_map(|jar| {
                let mut entry = jar.by_name(&format!("{name}.class")).ok()?;
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes).ok()?;
                Some(bytes)
            }),
        }
    }
}
