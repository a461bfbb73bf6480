//! `temblor analyze`: the catalog of a target or of plain jars, for people and machines.

mod diff;
mod explain;
#[cfg(test)]
mod fixture;
mod list;
mod subject;
mod summary;
mod text;

use std::path::Path;
use std::time::Instant;

use temblor_analysis::Analysis;
use temblor_model::catalog::SiteCatalog;

use crate::args::AnalyzeArgs;
use crate::exit::{BadInput, Exit};
use crate::prepare;
use crate::print::print;

/// What was analysed, what came of it, and what it took.
pub struct Examined {
    pub name: String,
    pub jdk_major: u32,
    pub analysis: Analysis,
    pub seconds: f64,
    /// The most memory this process has had so far.
    pub peak_mb: f64,
}

impl Examined {
    pub fn catalog(&self) -> &SiteCatalog {
        &self.analysis.catalog
    }
}

pub fn run(args: &AnalyzeArgs) -> anyhow::Result<Exit> {
    if let Some(pair) = &args.diff {
        let from = examine(&pair[..1], args)?;
        let to = examine(&pair[1..], args)?;
        let diff = diff::Diff::of(&from, &to);
        print(&if args.json { diff.json() } else { diff.text() })?;
        note_diagnostics(&from);
        note_diagnostics(&to);
        return Ok(Exit::Pass);
    }
    if let Some(path) = &args.out {
        check_folder_of(path)?;
    }
    let examined = examine(&args.subject, args)?;
    if let Some(path) = &args.out {
        write_whole(path, &serde_json::to_vec_pretty(examined.catalog())?)?;
    }
    let output = match (&args.explain, args.list) {
        (Some(wanted), _) => explain::explain(&examined, wanted, args.json)?,
        (None, Some(what)) => list::list(&examined, what, args.json),
        (None, None) if args.json => summary::json(&examined),
        (None, None) => summary::text(&examined),
    };
    print(&output)?;
    if args.explain.is_some() || args.list.is_some() {
        note_diagnostics(&examined);
    }
    Ok(Exit::Pass)
}

/// What is shown may be less than there is: only the summary says why.
fn note_diagnostics(examined: &Examined) {
    let (name, all) = (&examined.name, examined.analysis.diagnostics.len());
    if all > 0 {
        eprintln!("temblor: {all} diagnostics; `temblor analyze {name}` shows them");
    }
}

fn examine(words: &[String], args: &AnalyzeArgs) -> anyhow::Result<Examined> {
    let subject = subject::of_words(words, args)?;
    let began = Instant::now();
    let analysis =
        prepare::analyze(&subject.name, &subject.request).map_err(|e| subject.own_words(e))?;
    Ok(Examined {
        name: subject.name,
        jdk_major: subject.jdk_major,
        analysis,
        seconds: began.elapsed().as_secs_f64(),
        peak_mb: peak_mb(),
    })
}

/// Megabytes (of 2^20 bytes); 0 where the kernel does not tell.
fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kb = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
    kb.unwrap_or_default() / 1024.0
}

/// Says at once, not after the work, that there is no place to write to.
fn check_folder_of(path: &Path) -> anyhow::Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    match folder.is_none_or(Path::is_dir) && !path.is_dir() {
        true => Ok(()),
        false => Err(BadInput(format!("{} cannot be written to", path.display())).into()),
    }
}

/// Writes a file beside and renames it: who reads it sees all of it or none.
fn write_whole(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut beside = path.file_name().unwrap_or_default().to_os_string();
    beside.push(format!(".{}.part", std::process::id()));
    let beside = path.with_file_name(beside);
    let write = || {
        std::fs::write(&beside, bytes)?;
        std::fs::rename(&beside, path)
    };
    write().map_err(|e| {
        let _ = std::fs::remove_file(&beside);
        anyhow::Error::new(e).context(format!("could not write {}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_of_memory_is_what_this_process_has_had() {
        let block = vec![1u8; 64 << 20];
        assert!(block.iter().step_by(4096).all(|b| *b == 1));
        assert!((64.0..100_000.0).contains(&peak_mb()), "{}", peak_mb());
    }

    #[test]
    fn files_are_written_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("catalog.json");
        write_whole(&file, b"one").unwrap();
        write_whole(&file, b"two").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"two");
        let taken = dir.path().join("taken");
        std::fs::create_dir(&taken).unwrap();
        std::fs::write(taken.join("x"), "").unwrap();
        let error = write_whole(&taken, b"three").unwrap_err().to_string();
        assert!(
            error.contains("could not write") && error.contains("taken"),
            "{error}"
        );
        let left = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, 2, "nothing is left beside");
    }
}
