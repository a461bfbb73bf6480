//! What is to be analysed: a target, or the jars and class folders of a user's own system.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use temblor_analysis::{Request, SourceError};
use temblor_cluster::artifact::{self, Depot, Jdk};
use temblor_cluster::target::{TargetCode, find_target};
use temblor_model::settings::AnalysisSettings;

use crate::args::AnalyzeArgs;
use crate::exit::BadInput;
use crate::prepare;

/// Folders nested deeper than this are a loop of links.
const MAX_DEPTH: u32 = 64;

/// Something that can be analysed.
pub struct Subject {
    /// `trio@1`, or the paths as they were given.
    pub name: String,
    pub jdk_major: u32,
    pub request: Request,
    is_target: bool,
}

impl Subject {
    /// Plain jars have no target.toml that could be mended: what names their own classes is an
    /// option.
    pub fn own_words(&self, error: anyhow::Error) -> anyhow::Error {
        let Some(SourceError::NoClasses(places)) = error.downcast_ref() else {
            return error;
        };
        let packages = self.request.settings.packages.join("` or `");
        match (self.is_target, packages.is_empty()) {
            (true, _) => error,
            (false, true) => BadInput(format!("no classes under {places}")).into(),
            (false, false) => BadInput(format!(
                "no class under {places} has a name that begins with `{packages}`; check --package"
            ))
            .into(),
        }
    }
}

/// Finds out what the words on the command line mean.
pub fn of_words(words: &[String], args: &AnalyzeArgs) -> anyhow::Result<Subject> {
    let mut subject = match words {
        [word] if is_target(word) || !Path::new(word).exists() => of_target(word, args)?,
        words => of_paths(words, args)?,
    };
    if !args.exceptions.is_empty() {
        subject.request.settings.exceptions = args.exceptions.clone();
    }
    if args.no_cache {
        subject.request.cache = None;
    }
    Ok(subject)
}

fn is_target(word: &str) -> bool {
    find_target(word, &prepare::roots()).is_ok()
}

fn bad<T>(text: String) -> anyhow::Result<T> {
    Err(BadInput(text).into())
}

fn of_target(word: &str, args: &AnalyzeArgs) -> anyhow::Result<Subject> {
    let dir = find_target(word, &prepare::roots()).or_else(|e| match looks_like_a_path(word) {
        true => bad(format!("there is no file or folder `{word}`")),
        false => bad(format!("{e}; and no file or folder has that name")),
    })?;
    let code = match args.jdk {
        None => prepare::resolve_code(word)?,
        Some(_) => {
            let (depot, wanted) = (Depot::of_user()?, jdk(args.jdk)?);
            let mut say = |line: &str| eprintln!("temblor: {line}");
            TargetCode::resolve_with(&dir, &depot, Some(wanted), &mut say)
                .or_else(|e| bad(e.to_string()))?
        }
    };
    if !args.packages.is_empty() {
        let text = "--package goes with jars and class folders";
        let (name, file) = (code.full_name(), code.dir.join("target.toml"));
        return bad(format!("{text}; {name} has its own in {}", file.display()));
    }
    Ok(Subject {
        name: code.full_name(),
        jdk_major: code.jdk.major,
        request: prepare::request_for(&code, args.jdk_sites),
        is_target: true,
    })
}

fn looks_like_a_path(word: &str) -> bool {
    word.contains('/') || word.ends_with(".jar")
}

fn of_paths(words: &[String], args: &AnalyzeArgs) -> anyhow::Result<Subject> {
    let mut class_path = Vec::new();
    for word in words {
        let path = Path::new(word);
        if !path.exists() && is_target(word) {
            return bad(format!(
                "`{word}` is a target, and targets are analysed one at a time; \
                 --diff A B compares two"
            ));
        }
        if !path.exists() {
            return bad(format!("there is no file or folder `{word}`"));
        }
        class_path.extend(entries(path)?);
    }
    let jdk = jdk(args.jdk)?;
    let settings = AnalysisSettings {
        packages: args.packages.clone(),
        ..AnalysisSettings::default()
    };
    Ok(Subject {
        name: words.join(" "),
        jdk_major: jdk.major,
        request: Request {
            class_path,
            jdk_home: jdk.home,
            settings,
            jdk_sites: args.jdk_sites,
            cache: prepare::analysis_cache(),
        },
        is_target: false,
    })
}

/// The class path entries that a file or folder stands for.
fn entries(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let shown = path.display();
    if !path.is_dir() {
        return match is_jar(path) {
            Ok(true) => Ok(vec![path.to_path_buf()]),
            Ok(false) => bad(format!(
                "{shown} is not a jar, or a damaged one; give jars, folders of jars, or folders \
                 of classes"
            )),
            Err(e) => bad(format!("{shown} cannot be read: {e}")),
        };
    }
    let inside = match list(path) {
        Ok(inside) => inside,
        Err(e) => return bad(format!("{shown} cannot be read: {e}")),
    };
    let is_jar_file = |p: &PathBuf| p.extension().is_some_and(|e| e == "jar") && p.is_file();
    let mut out: Vec<PathBuf> = inside.into_iter().filter(is_jar_file).collect();
    if has_classes(path, MAX_DEPTH) {
        out.insert(0, path.to_path_buf());
    }
    if out.is_empty() {
        return bad(format!("{shown} holds neither jars nor classes"));
    }
    Ok(out)
}

fn list(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        paths.push(entry?.path());
    }
    paths.sort();
    Ok(paths)
}

fn has_classes(dir: &Path, depth: u32) -> bool {
    let inside = list(dir).unwrap_or_default();
    let is_class = |p: &PathBuf| p.extension().is_some_and(|e| e == "class");
    let below = |p: &PathBuf| depth > 0 && p.is_dir() && has_classes(p, depth - 1);
    inside.iter().any(is_class) || inside.iter().any(below)
}

/// Jars are told by the record at their end; what comes before may be a script that starts them.
fn is_jar(path: &Path) -> std::io::Result<bool> {
    /// The record, and the longest comment that may follow it.
    const TAIL: u64 = 22 + 65_535;
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail)?;
    Ok(tail.windows(4).any(|w| w == b"PK\x05\x06"))
}

fn jdk(major: Option<u32>) -> anyhow::Result<Jdk> {
    if let Some(major) = major {
        return artifact::find_jdk(major).or_else(|e| bad(e.to_string()));
    }
    let newest = artifact::installed_jdks()?
        .into_iter()
        .max_by_key(|jdk| jdk.major);
    match newest {
        Some(jdk) => Ok(jdk),
        None => bad("there is no JDK here; get one: ./temblor targets fetch jdk@17".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty archive is only its end record.
    const EMPTY_JAR: &[u8] = b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        dir
    }

    fn names(dir: &Path) -> Vec<String> {
        let name = |p: &PathBuf| p.strip_prefix(dir).unwrap().display().to_string();
        entries(dir).unwrap().iter().map(name).collect()
    }

    fn refusal(path: &Path) -> String {
        let error = entries(path).unwrap_err();
        assert!(error.is::<BadInput>(), "{error}");
        error.to_string()
    }

    #[test]
    fn a_folder_of_jars_stands_for_its_jars_in_order() {
        let dir = folder(&[
            ("b.jar", EMPTY_JAR),
            ("a.jar", EMPTY_JAR),
            ("notes.txt", b""),
            ("deeper/c.jar", EMPTY_JAR),
        ]);
        assert_eq!(names(dir.path()), ["a.jar", "b.jar"]);
    }

    #[test]
    fn a_folder_of_classes_stands_for_itself_and_comes_before_its_jars() {
        let classes = folder(&[("org/mine/A.class", b"")]);
        assert_eq!(entries(classes.path()).unwrap(), [classes.path()]);
        let both = folder(&[("org/mine/A.class", b""), ("x.jar", EMPTY_JAR)]);
        assert_eq!(names(both.path()), ["", "x.jar"]);
    }

    #[test]
    fn what_holds_no_classes_is_refused_by_name() {
        let dir = folder(&[("text.jar", b"hello"), ("empty/readme", b"")]);
        assert!(refusal(&dir.path().join("text.jar")).contains("text.jar is not a jar"));
        let text = refusal(&dir.path().join("empty"));
        assert!(
            text.ends_with("empty holds neither jars nor classes"),
            "{text}"
        );
    }

    #[test]
    fn a_jar_behind_a_script_is_still_a_jar() {
        let script = [b"#!/bin/sh\nexec java -jar $0\n".as_slice(), EMPTY_JAR].concat();
        let dir = folder(&[("run.jar", &script)]);
        assert_eq!(names(dir.path()), ["run.jar"]);
        assert!(is_jar(&dir.path().join("run.jar")).unwrap());
    }
}
