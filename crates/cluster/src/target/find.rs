//! Which targets there are: `targets/<name>/<version>/target.toml` below given roots.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use super::error::TargetError;

/// The name of a target's file.
pub const TARGET_FILE: &str = "target.toml";

/// A target that exists; whether it is any good only `resolve` tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetPlace {
    pub name: String,
    pub version: String,
    pub dir: PathBuf,
}

/// All targets below the roots, by name, newest version first; the first root wins.
pub fn list_targets(roots: &[PathBuf]) -> Vec<TargetPlace> {
    let mut places: Vec<TargetPlace> = Vec::new();
    for root in roots {
        for (name, named) in folders(&root.join("targets")) {
            for (version, dir) in folders(&named) {
                let known = places
                    .iter()
                    .any(|p| p.name == name && p.version == version);
                if !known && dir.join(TARGET_FILE).is_file() {
                    places.push(TargetPlace {
                        name: name.clone(),
                        version,
                        dir,
                    });
                }
            }
        }
    }
    places.sort_by(|a, b| {
        a.name
            .cmp(&b.name)
            .then_with(|| compare_versions(&b.version, &a.version))
    });
    places
}

/// Finds `trio`, `trio@1` or a path; without a version, the newest. Yields the target's folder.
pub fn find_target(wanted: &str, roots: &[PathBuf]) -> Result<PathBuf, TargetError> {
    let path = Path::new(wanted);
    if path.join(TARGET_FILE).is_file() {
        return Ok(path.to_path_buf());
    }
    if path.file_name().is_some_and(|name| name == TARGET_FILE) && path.is_file() {
        let dir = path.parent().unwrap_or(Path::new(""));
        return Ok(if dir.as_os_str().is_empty() {
            ".".into()
        } else {
            dir.to_path_buf()
        });
    }
    let (name, version) = match wanted.split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (wanted, None),
    };
    let mut places = list_targets(roots);
    let fits = |p: &TargetPlace| p.name == name && version.is_none_or(|v| p.version == v);
    if let Some(place) = places.iter().find(|place| fits(place)) {
        return Ok(place.dir.clone());
    }
    let likeness = |p: &TargetPlace| {
        strsim::jaro_winkler(name, &p.name)
            + version.map_or(0.0, |v| strsim::jaro_winkler(v, &p.version)) / 10.0
    };
    places.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)));
    let known = places
        .iter()
        .map(|p| format!("{}@{}", p.name, p.version))
        .collect();
    Err(TargetError::NotFound {
        wanted: wanted.to_string(),
        known,
    })
}

fn folders(dir: &Path) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut folders: Vec<(String, PathBuf)> = entries
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .collect();
    folders.sort();
    folders
}

/// Numbers by value, other parts by letters: 3.10 is newer than 3.9.
fn compare_versions(a: &str, b: &str) -> Ordering {
    let part = |text: &str| text.parse::<u64>().ok();
    let (mut left, mut right) = (a.split(['.', '-']), b.split(['.', '-']));
    loop {
        let order = match (left.next(), right.next()) {
            (None, None) => return a.cmp(b),
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(l), Some(r)) => match (part(l), part(r)) {
                (Some(l), Some(r)) => l.cmp(&r),
                _ => l.cmp(r),
            },
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(places: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for place in places {
            let dir = root.path().join("targets").join(place);
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join(TARGET_FILE), "").unwrap();
        }
        root
    }

    #[test]
    fn the_newest_version_is_found_unless_one_is_named() {
        let root = tree(&["kafka/2.8.0", "zookeeper/3.9.1", "zookeeper/3.10.0"]);
        let roots = [root.path().to_path_buf()];
        let found = |wanted: &str| find_target(wanted, &roots).unwrap();
        assert!(found("zookeeper").ends_with("zookeeper/3.10.0"));
        assert!(found("zookeeper@3.9.1").ends_with("zookeeper/3.9.1"));
        let path = root.path().join("targets/kafka/2.8.0");
        assert_eq!(found(path.to_str().unwrap()), path);
        assert_eq!(found(path.join(TARGET_FILE).to_str().unwrap()), path);
    }

    #[test]
    fn what_is_not_there_lists_what_is_nearest_first() {
        let root = tree(&["kafka/2.8.0", "zookeeper/3.9.1"]);
        let error = find_target("zokeeper", &[root.path().to_path_buf()]).unwrap_err();
        let text = error.to_string();
        assert_eq!(
            text,
            "there is no target `zokeeper`; there are: zookeeper@3.9.1, kafka@2.8.0"
        );
        let none = find_target("x", &[]).unwrap_err().to_string();
        assert!(none.contains("none at all"), "{none}");
    }
}
