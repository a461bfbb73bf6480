//! Java sources to a jar of classes, once per content and JDK, kept in the user's cache.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use temblor_model::{FNV_START, fnv64_from};

use super::error::TargetError;
use crate::artifact::{Jdk, Progress};

const COMPILE_LIMIT_MS: u64 = 180_000;
const POLL_MS: u64 = 5;
/// No more of javac's output is shown.
const OUTPUT_MAX_LINES: usize = 60;

/// One set of sources for one JDK.
pub struct Compilation<'a> {
    /// For messages.
    pub target: &'a str,
    pub sources: &'a Path,
    /// Classes that the sources may use.
    pub against: &'a [PathBuf],
    /// Where the classes of this target are kept.
    pub cache: &'a Path,
    pub jdk: &'a Jdk,
}

impl Compilation<'_> {
    /// The jar of classes; compiled unless the same sources were before. A jar, because a JVM
    /// keeps no archive of classes that come from a folder.
    pub fn jar(&self, progress: Progress<'_>) -> Result<PathBuf, TargetError> {
        let mut files = Vec::new();
        java_files(self.sources, &mut files).map_err(|source| TargetError::Read {
            path: self.sources.to_path_buf(),
            source,
        })?;
        files.sort();
        if files.is_empty() {
            return Err(TargetError::Read {
                path: self.sources.to_path_buf(),
                source: io::Error::new(io::ErrorKind::NotFound, "no .java file in it"),
            });
        }
        let place = self.cache.join(format!("{:016x}.jar", self.key(&files)?));
        if place.is_file() {
            return Ok(place);
        }
        progress(&format!(
            "compiling {} with JDK {}",
            self.target, self.jdk.full_version
        ));
        let part = self.cache.join(format!("part-{}", std::process::id()));
        let made = self.compile(&files, &part).and_then(|()| {
            let unwritable = |source| TargetError::Write {
                path: place.clone(),
                source,
            };
            fs::rename(part.join("classes.jar"), &place).map_err(unwritable)
        });
        let _ = fs::remove_dir_all(&part);
        made.map(|()| place)
    }

    /// Names and contents of the sources, and what compiles them.
    fn key(&self, files: &[PathBuf]) -> Result<u64, TargetError> {
        let mut hash = fnv64_from(FNV_START, self.jdk.full_version.as_bytes());
        for path in self.against {
            hash = fnv64_from(hash, path.as_os_str().as_encoded_bytes());
        }
        for file in files {
            let text = fs::read(file).map_err(|source| TargetError::Read {
                path: file.clone(),
                source,
            })?;
            let name = file.strip_prefix(self.sources).unwrap_or(file);
            hash = fnv64_from(hash, name.as_os_str().as_encoded_bytes());
            hash = fnv64_from(hash, &(text.len() as u64).to_le_bytes());
            hash = fnv64_from(hash, &text);
        }
        Ok(hash)
    }

    fn compile(&self, files: &[PathBuf], part: &Path) -> Result<(), TargetError> {
        let unwritable = |source| TargetError::Write {
            path: part.to_path_buf(),
            source,
        };
        let classes = part.join("classes");
        fs::create_dir_all(&classes).map_err(unwritable)?;
        let mut command = Command::new(self.jdk.home.join("bin/javac"));
        // JDK 8 has no --release, and is what it would stand for.
        let release: &[&str] = if self.jdk.major <= 8 {
            &["-source", "8", "-target", "8"]
        } else {
            &["--release", "8"]
        };
        command
            .args(release)
            .args(["-g", "-nowarn", "-Xlint:-options", "-encoding", "UTF-8"]);
        if !self.against.is_empty() {
            let paths: Vec<_> = self.against.iter().map(|p| p.as_os_str()).collect();
            command
                .arg("-cp")
                .arg(paths.join(std::ffi::OsStr::new(":")));
        }
        command.arg("-d").arg(&classes).args(files);
        self.run(command, part)?;
        let mut command = Command::new(self.jdk.home.join("bin/jar"));
        command.arg("cf").arg(part.join("classes.jar"));
        command.arg("-C").arg(&classes).arg(".");
        self.run(command, part)
    }

    /// Runs a tool of the JDK to its end.
    fn run(&self, mut command: Command, part: &Path) -> Result<(), TargetError> {
        // To a file: a pipe that nobody reads would block it.
        let output = part.join("tool.log");
        let log = File::create(&output).map_err(|source| TargetError::Write {
            path: part.to_path_buf(),
            source,
        })?;
        let unstartable = |source| TargetError::Read {
            path: self.jdk.home.clone(),
            source,
        };
        command.stdin(Stdio::null());
        command.stdout(log.try_clone().map_err(unstartable)?);
        command.stderr(log);
        let mut tool = command.spawn().map_err(unstartable)?;
        let deadline = Instant::now() + Duration::from_millis(COMPILE_LIMIT_MS);
        loop {
            match tool.try_wait().map_err(unstartable)? {
                Some(status) if status.success() => return Ok(()),
                Some(_) => return Err(self.refused(&output)),
                None if Instant::now() >= deadline => {
                    let _ = tool.kill();
                    let _ = tool.wait();
                    let target = self.target.to_string();
                    return Err(TargetError::CompileLate {
                        target,
                        limit_ms: COMPILE_LIMIT_MS,
                    });
                }
                None => thread::sleep(Duration::from_millis(POLL_MS)),
            }
        }
    }

    fn refused(&self, output: &Path) -> TargetError {
        let text = fs::read(output).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().take(OUTPUT_MAX_LINES).collect();
        TargetError::Compile {
            target: self.target.to_string(),
            folder: self.sources.to_path_buf(),
            output: lines.join("\n"),
        }
    }
}

fn java_files(dir: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            java_files(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "java")
        {
            files.push(path);
        }
    }
    Ok(())
}
