//! The house rules that can be checked: who depends on whom, how long files are, what words mean.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What each crate may depend on inside the workspace (DESIGN §3). Anything else is an error.
const MAY_USE: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("classfile", &[]),
    ("warp", &[]),
    ("analysis", &["model", "classfile"]),
    ("agent", &["model", "classfile"]),
    ("explore", &["model"]),
    ("cluster", &["model"]),
    ("lab", &["model", "explore", "cluster"]),
    ("report", &["model"]),
    (
        "cli",
        &["model", "analysis", "cluster", "explore", "lab", "report"],
    ),
];

/// Crates that need unsafe code; the others must do without.
const MAY_BE_UNSAFE: &[&str] = &["model", "agent", "warp", "cluster", "lab", "cli"];

/// Longer files are several things at once.
const MAX_LINES: usize = 700;

/// Names that explain nothing.
const EMPTY_NAMES: &[&str] = &[
    "util", "utils", "helper", "helpers", "common", "misc", "manager",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn crates() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("crates")).unwrap().flatten();
    let mut names: Vec<String> = entries
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn files(dir: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            out.extend(files(&path, endings));
        } else if endings.iter().any(|e| name.ends_with(e)) {
            out.push(path);
        }
    }
    out
}

fn manifest(path: &Path) -> toml::Table {
    std::fs::read_to_string(path).unwrap().parse().unwrap()
}

#[test]
fn crates_depend_only_in_the_agreed_direction() {
    let allowed: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    for name in crates() {
        let table = manifest(&root().join("crates").join(&name).join("Cargo.toml"));
        let may = allowed.get(name.as_str()).unwrap_or_else(|| {
            panic!("crate {name} is new: add it to MAY_USE and to docs/ARCHITECTURE.md")
        });
        let depends = table.get("dependencies").and_then(|d| d.as_table());
        for used in depends
            .into_iter()
            .flatten()
            .filter_map(|(k, _)| k.strip_prefix("temblor-"))
        {
            assert!(may.contains(&used), "{name} must not depend on {used}");
        }
    }
}

#[test]
fn every_dependency_says_why() {
    let text = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let section = text.split("[workspace.dependencies]").nth(1).unwrap();
    let section = section.split("\n[").next().unwrap();
    let mut seen = 0;
    for line in section
        .lines()
        .filter(|l| l.contains('=') && !l.starts_with("temblor-"))
    {
        assert!(
            line.contains('#'),
            "no reason beside the dependency: {line}"
        );
        seen += 1;
    }
    assert!(seen > 10, "the dependencies were not found");
}

#[test]
fn files_are_of_a_size_that_can_be_read() {
    let sources = files(&root(), &[".rs", ".java"]);
    assert!(sources.len() > 50, "the sources were not found");
    for path in sources {
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(
            lines <= MAX_LINES,
            "{} has {lines} lines: split it",
            path.display()
        );
    }
}

#[test]
fn every_module_says_what_it_owns() {
    for path in files(&root().join("crates"), &[".rs"]) {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            text.starts_with("//!"),
            "{} does not begin with //!",
            path.display()
        );
    }
}

#[test]
fn names_explain_something() {
    for path in files(&root(), &[".rs", ".java", ".md"]) {
        let stem = path.file_stem().unwrap().to_string_lossy().to_lowercase();
        assert!(!EMPTY_NAMES.contains(&stem.as_str()), "{}", path.display());
    }
}

#[test]
fn unsafe_code_stays_where_it_is_needed() {
    for name in crates()
        .iter()
        .filter(|n| !MAY_BE_UNSAFE.contains(&n.as_str()))
    {
        for path in files(&root().join("crates").join(name).join("src"), &[".rs"]) {
            let text = std::fs::read_to_string(&path).unwrap();
            let found = text
                .lines()
                .find(|l| l.contains("unsafe {") || l.contains("unsafe fn"));
            assert_eq!(found, None, "{}", path.display());
        }
    }
}

/// What is specific to a target is data in its folder: no rule may know a target.
#[test]
fn decisions_know_no_target() {
    let targets: Vec<String> = std::fs::read_dir(root().join("targets"))
        .unwrap()
        .flatten()
        .map(|e| e.file_name().to_string_lossy().to_lowercase())
        .collect();
    assert!(targets.contains(&"trio".to_string()));
    for name in [
        "explore", "analysis", "lab", "cluster", "agent", "report", "model",
    ] {
        for path in files(&root().join("crates").join(name).join("src"), &[".rs"]) {
            let text = std::fs::read_to_string(&path).unwrap();
            // Tests and examples in comments may name one.
            let code = text.split("#[cfg(test)]").next().unwrap();
            for line in code.lines().filter(|l| !l.trim_start().starts_with("//")) {
                let low = line.to_lowercase();
                let known = targets.iter().find(|t| low.contains(&format!("\"{t}")));
                assert_eq!(known, None, "{}: {line}", path.display());
            }
        }
    }
}
