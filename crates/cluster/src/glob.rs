//! File patterns: `*` and `?` within one name, `**` for any number of folders.

use std::path::{Path, PathBuf};

/// Folders deeper than this are not entered; a link may lead in a circle.
const DEPTH_MAX: usize = 32;

/// The files below `dir` that match a relative pattern, sorted.
pub fn matches(dir: &Path, pattern: &str) -> Vec<PathBuf> {
    let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
    let mut found = Vec::new();
    if !parts.contains(&"..") {
        walk(dir, &parts, 0, &mut found);
    }
    found.sort();
    found.dedup();
    found
}

fn walk(dir: &Path, parts: &[&str], depth: usize, found: &mut Vec<PathBuf>) {
    let Some((first, rest)) = parts.split_first() else {
        return;
    };
    if depth > DEPTH_MAX {
        return;
    }
    if *first == "**" {
        walk(dir, rest, depth, found);
    }
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if *first == "**" {
            if path.is_dir() {
                walk(&path, parts, depth + 1, found);
            }
        } else if name_matches(first, &name) {
            if !rest.is_empty() {
                walk(&path, rest, depth + 1, found);
            } else if path.is_file() {
                found.push(path);
            }
        }
    }
}

/// Whether a relative path matches a pattern.
pub fn path_matches(pattern: &str, path: &str) -> bool {
    fn parts(text: &str) -> Vec<&str> {
        text.split('/').filter(|part| !part.is_empty()).collect()
    }
    parts_match(&parts(pattern), &parts(path))
}

fn parts_match(pattern: &[&str], path: &[&str]) -> bool {
    match pattern.split_first() {
        None => path.is_empty(),
        Some((&"**", [])) => !path.is_empty(),
        Some((&"**", rest)) => (0..=path.len()).any(|from| parts_match(rest, &path[from..])),
        Some((first, rest)) => path
            .split_first()
            .is_some_and(|(name, below)| name_matches(first, name) && parts_match(rest, below)),
    }
}

/// Whether one name matches one part of a pattern.
fn name_matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where the last star was, and how much of the name it has eaten.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if p < pattern.len() && pattern[p] == '*' {
            star = Some((p, n));
            p += 1;
        } else if p < pattern.len() && (pattern[p] == '?' || pattern[p] == name[n]) {
            p += 1;
            n += 1;
        } else if let Some((at, eaten)) = star {
            star = Some((at, eaten + 1));
            p = at + 1;
            n = eaten + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_patterns() {
        for (pattern, name, expected) in [
            ("*.log", "a.log", true),
            ("*.log", "a.logs", false),
            ("log-*-?.d*", "log-x-y-1.dat", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXcYb", false),
            ("", "", true),
            ("**", "anything", true),
            ("?", "", false),
        ] {
            assert_eq!(name_matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn paths_match_patterns() {
        for (pattern, path, expected) in [
            ("log.*", "log.1", true),
            ("log.*", "deep/log.1", false),
            ("*/log.*", "deep/log.1", true),
            ("**", "deep/log.1", true),
            ("**", "", false),
            ("**/log.*", "log.1", true),
            ("a/**/log.*", "a/b/c/log.1", true),
            ("a/**/log.*", "b/c/log.1", false),
            ("a/**", "a/b/c", true),
            ("a", "a/b", false),
        ] {
            assert_eq!(path_matches(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn files_are_found_below_folders() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["x.jar", "lib/a.jar", "lib/b.txt", "lib/deep/c.jar"] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let names = |pattern: &str| -> Vec<String> {
            let strip = |p: &PathBuf| p.strip_prefix(dir.path()).unwrap().display().to_string();
            matches(dir.path(), pattern).iter().map(strip).collect()
        };
        assert_eq!(names("lib/*.jar"), ["lib/a.jar"]);
        assert_eq!(names("**/*.jar"), ["lib/a.jar", "lib/deep/c.jar", "x.jar"]);
        assert!(names("../*").is_empty());
        assert!(names("nothing/*").is_empty());
    }
}
