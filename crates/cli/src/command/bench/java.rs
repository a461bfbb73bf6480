//! Compiles and runs the small Java programs the measurements are made with.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use temblor_cluster::artifact::Jdk;

/// A folder of its own that is gone when the measurement is over.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> anyhow::Result<Scratch> {
        let dir = std::env::temp_dir().join(format!("temblor-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir)
            .with_context(|| format!("could not make {}", dir.display()))?;
        Ok(Scratch(dir))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Compiles one source file into the folder.
pub fn compile(jdk: &Jdk, dir: &Path, name: &str, source: &str) -> anyhow::Result<()> {
    let file = dir.join(format!("{name}.java"));
    std::fs::write(&file, source).with_context(|| format!("could not write {}", file.display()))?;
    let javac = jdk
        .javac()
        .context("this JDK has no javac; ./temblor targets fetch jdk@17")?;
    let done = Command::new(javac).arg("-d").arg(dir).arg(&file).output()?;
    if !done.status.success() {
        bail!(
            "javac refuses {name}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
    Ok(())
}

/// Figures a program printed, one `name value` (or only a value) a line.
pub fn figures(command: &mut Command) -> anyhow::Result<Vec<(String, f64)>> {
    let done = command.output().context("could not start java")?;
    let text = String::from_utf8_lossy(&done.stdout);
    if !done.status.success() {
        bail!(
            "a measurement failed: {}{text}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
    let figure = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap_or(("", line));
        Some((name.to_string(), value.parse().ok()?))
    };
    Ok(text.lines().filter_map(figure).collect())
}

/// One of the figures by name.
pub fn figure(figures: &[(String, f64)], name: &str) -> anyhow::Result<f64> {
    let found = figures.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
    found.with_context(|| format!("the measurement did not print `{name}`"))
}
