//! Writes the pages of bugs, campaigns and comparisons, and what CI systems read.

use std::fs;
use std::path::{Component, Path, PathBuf};

use temblor_model::bug::Bug;

use crate::compare::Comparison;
use crate::contest::Contest;
use crate::lengths::swept;
use crate::machines::Machines;
use crate::sarif::EvidenceOf;
use crate::store::{Store, StoreError, write_json, write_whole};
use crate::view::{BugView, CampaignView};
use crate::{html, junit, markdown, sarif};

/// Writes `report.md` and `report.html` of one bug.
pub fn bug(store: &Store, bug: &Bug) -> Result<(), StoreError> {
    bug_view(store, &BugView::gather(store, bug)?)
}

fn bug_view(store: &Store, view: &BugView) -> Result<(), StoreError> {
    let folder = store.bug_dir(&view.bug.id);
    write_whole(&folder.join("report.md"), markdown::bug(view).as_bytes())?;
    write_whole(&folder.join("report.html"), html::bug(view).as_bytes())
}

/// Writes `campaign.html`, `states.html`, `machines.json`, `lengths.json`, `report.md`, `junit.xml`
/// and `results.sarif` of a campaign, and the reports of all its bugs again: since they were found,
/// more trials may have shown them.
pub fn campaign(store: &Store) -> Result<(), StoreError> {
    let mut evidence = EvidenceOf::new();
    for found in store.bugs()? {
        let view = BugView::gather(store, &found)?;
        bug_view(store, &view)?;
        evidence.insert(found.id, view.evidence);
    }
    let view = CampaignView::gather(store)?;
    // Without the catalog, or with one that cannot be read, lines come from the stacks.
    let moves = view.baseline.as_ref().map_or(&[][..], |b| &b.moves);
    let catalog = match view.bugs.is_empty() && moves.is_empty() {
        true => None,
        false => store.catalog().unwrap_or_default(),
    };
    let machines = match &catalog {
        Some(catalog) => Machines::of(catalog, moves),
        None => Machines::default(),
    };
    write_json(&store.path().join("machines.json"), &machines)?;
    write_json(&store.path().join("lengths.json"), &swept(&view))?;
    for (name, text) in [
        ("states.html", html::machines(&view.spec.target, &machines)),
        ("campaign.html", html::campaign(&view)),
        ("report.md", markdown::campaign(&view)),
        ("junit.xml", junit::campaign(&view)),
        (
            "results.sarif",
            sarif::campaign(&view, catalog.as_ref(), &evidence),
        ),
    ] {
        write_whole(&store.path().join(name), text.as_bytes())?;
    }
    Ok(())
}

/// Writes `comparison.html`, `comparison.md` and `comparison.json` into a folder, which is made
/// if need be; returns the path of the page.
pub fn comparison(comparison: &Comparison, folder: &Path) -> Result<PathBuf, StoreError> {
    fs::create_dir_all(folder).map_err(StoreError::io(folder, "cannot make the folder"))?;
    let link = |store: &str| relative(folder, Path::new(store));
    let (a, b) = (link(&comparison.a.store), link(&comparison.b.store));
    let page = html::comparison(comparison, a.as_deref(), b.as_deref());
    let json = comparison.json() + "\n";
    write_whole(&folder.join("comparison.json"), json.as_bytes())?;
    let text = comparison.markdown();
    write_whole(&folder.join("comparison.md"), text.as_bytes())?;
    let path = folder.join("comparison.html");
    write_whole(&path, page.as_bytes())?;
    Ok(path)
}

/// Writes `compare.json`, `compare.html` and `compare.md` into a contest's folder; returns the
/// path of the page.
pub fn contest(contest: &Contest, folder: &Path) -> Result<PathBuf, StoreError> {
    // First what `compare --resume` needs.
    write_json(&folder.join("compare.json"), contest)?;
    let name = folder.display().to_string();
    let text = contest.markdown(&name);
    write_whole(&folder.join("compare.md"), text.as_bytes())?;
    let path = folder.join("compare.html");
    write_whole(&path, html::contest(contest, &name).as_bytes())?;
    Ok(path)
}

/// The way from one folder to another, so that pages may be moved together.
fn relative(from: &Path, to: &Path) -> Option<String> {
    let (from, to) = (fs::canonicalize(from).ok()?, fs::canonicalize(to).ok()?);
    let (from, to): (Vec<Component<'_>>, Vec<Component<'_>>) =
        (from.components().collect(), to.components().collect());
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = from[shared..].iter().map(|_| "..".into());
    let down = to[shared..].iter();
    let down = down.map(|c| c.as_os_str().to_string_lossy().into_owned());
    let parts: Vec<String> = up.chain(down).collect();
    match parts.is_empty() {
        true => Some(".".into()),
        false => Some(parts.join("/")),
    }
}
