//! Finding campaigns and bugs by what a user types: a path, an id, the beginning of one, `latest`.

use std::path::{Path, PathBuf};

use super::{Store, StoreError, names_in};

/// All campaigns below a root, the newest first (stamps sort by time).
pub fn campaigns(root: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut found: Vec<(String, PathBuf)> = Vec::new();
    for target in names_in(root)?.iter().filter(|n| *n != "latest") {
        let folder = root.join(target);
        if !folder.is_dir() {
            continue;
        }
        for stamp in names_in(&folder)?.into_iter().filter(|n| n != "latest") {
            let campaign = folder.join(&stamp);
            if campaign.join("campaign.toml").is_file() {
                found.push((stamp, campaign));
            }
        }
    }
    found.sort_by(|a, b| b.cmp(a));
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// The folder of a campaign: `latest`, a path, a target (its latest), a stamp or its beginning.
pub fn find_campaign(root: &Path, wanted: &str) -> Result<PathBuf, StoreError> {
    for direct in [PathBuf::from(wanted), root.join(wanted)] {
        for folder in [direct.clone(), direct.join("latest")] {
            if !wanted.is_empty() && folder.join("campaign.toml").is_file() {
                return Ok(resolved(folder));
            }
        }
    }
    let all = campaigns(root)?;
    let by_name = |c: &PathBuf| !wanted.is_empty() && label(root, c).contains(wanted);
    // A lost `latest` link is no reason to give up.
    let found = match wanted {
        "latest" => all.first(),
        _ => all.iter().find(|c| by_name(c)),
    };
    found.cloned().ok_or_else(|| StoreError::NotFound {
        what: "campaign",
        wanted: wanted.to_owned(),
        root: root.to_owned(),
        there: nearest(wanted, all.iter().map(|c| label(root, c)).collect()),
    })
}

/// The folder of a bug: a path (of the folder or a file in it), or its id or the beginning of it.
/// The newest campaign that has it wins.
pub fn find_bug(root: &Path, wanted: &str) -> Result<PathBuf, StoreError> {
    let direct = Path::new(wanted);
    for folder in [Some(direct), direct.parent()].into_iter().flatten() {
        if folder.join("bug.json").is_file() {
            return Ok(folder.to_owned());
        }
    }
    let mut exact = None;
    let mut begins = Vec::new();
    let mut there: Vec<String> = Vec::new();
    for campaign in campaigns(root)? {
        for id in names_in(&campaign.join("bugs"))? {
            let folder = campaign.join("bugs").join(&id);
            if !folder.join("bug.json").is_file() {
                continue;
            }
            if id == wanted {
                exact.get_or_insert(folder);
            } else if !wanted.is_empty() && id.starts_with(wanted) {
                begins.push((id.clone(), folder));
            }
            if !there.contains(&id) {
                there.push(id);
            }
        }
    }
    // A beginning must mean one bug, though several campaigns may have found it.
    let one = begins.first().filter(|b| begins.iter().all(|o| o.0 == b.0));
    let found = exact.or_else(|| one.map(|b| b.1.clone()));
    found.ok_or_else(|| StoreError::NotFound {
        what: "bug",
        wanted: wanted.to_owned(),
        root: root.to_owned(),
        there: nearest(wanted, there),
    })
}

impl Store {
    /// The campaign that a bug's folder belongs to.
    pub fn of_bug(bug_folder: &Path) -> Result<Store, StoreError> {
        let campaign = bug_folder.join("..").join("..");
        Store::open(&campaign.canonicalize().unwrap_or(campaign))
    }
}

/// Follows `latest`: a path that is stored or printed must mean the same campaign tomorrow.
fn resolved(folder: PathBuf) -> PathBuf {
    let Ok(link) = folder.read_link() else {
        return folder;
    };
    folder.parent().map_or(link.clone(), |p| p.join(&link))
}

fn label(root: &Path, campaign: &Path) -> String {
    let below = campaign.strip_prefix(root).unwrap_or(campaign);
    below.display().to_string()
}

/// Nearest first; the order of age stays among equals.
fn nearest(wanted: &str, mut names: Vec<String>) -> Vec<String> {
    names.sort_by_cached_key(|name| strsim::damerau_levenshtein(wanted, name));
    names
}
