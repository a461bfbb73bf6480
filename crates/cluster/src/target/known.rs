//! The bugs a target is known to have: `known/*.toml`.

use std::path::Path;

use regex::Regex;
use serde::Deserialize;
use temblor_model::plan::Plan;
use toml::Spanned;

use super::config::FORMAT;
use super::error::TargetError;
use super::source_text::SourceText;

/// A documented bug, how to know it again, and a plan that triggers it.
#[derive(Clone, Debug)]
pub struct KnownBug {
    pub id: String,
    pub title: String,
    /// Where its class of bugs is described.
    pub paper: String,
    pub about: String,
    /// What gives it away, for people.
    pub symptom: String,
    pub matches: KnownMatch,
    /// The workload that meets it, where the target has several.
    pub workload: Option<String>,
    pub plan: Plan,
}

/// All that is given must fit.
#[derive(Clone, Debug)]
pub struct KnownMatch {
    /// Any of these checkers.
    pub checkers: Vec<String>,
    /// What fired at a site, as it is told: `throw x.Rare`, `delay 60 s`.
    pub fault: Option<Regex>,
    pub site: Option<Regex>,
    pub symptom: Option<Regex>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownConfig {
    #[serde(default)]
    format: Option<Spanned<u32>>,
    id: String,
    title: String,
    #[serde(default)]
    paper: String,
    #[serde(default)]
    about: String,
    symptom: String,
    #[serde(rename = "match")]
    matches: MatchConfig,
    workload: Option<String>,
    plan: Plan,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MatchConfig {
    checker: OneOrList,
    fault: Option<Spanned<String>>,
    site: Option<Spanned<String>>,
    symptom: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
enum OneOrList {
    One(String),
    List(Vec<String>),
}

/// Reads all known bugs in a folder, by file name; none when there is no such folder.
pub fn read_known(folder: &Path) -> Result<Vec<KnownBug>, TargetError> {
    let unreadable = |source| TargetError::Read {
        path: folder.to_path_buf(),
        source,
    };
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            files.push(path);
        }
    }
    files.sort();
    let mut bugs: Vec<KnownBug> = Vec::new();
    for file in &files {
        let source = SourceText::read(file)?;
        let bug = parse(&source)?;
        if bugs.iter().any(|other| other.id == bug.id) {
            let problem = format!("another file has the id `{}` already", bug.id);
            return Err(source.error_at_text("id", problem, None).into());
        }
        bugs.push(bug);
    }
    Ok(bugs)
}

fn parse(source: &SourceText) -> Result<KnownBug, TargetError> {
    let config: KnownConfig = source.parse()?;
    if let Some(format) = config.format.filter(|format| *format.get_ref() != FORMAT) {
        let problem = format!(
            "format {} is unknown; this version reads {FORMAT}",
            format.get_ref()
        );
        return Err(source.error(format.span(), problem, None).into());
    }
    Ok(KnownBug {
        id: config.id,
        title: config.title,
        paper: config.paper,
        about: config.about,
        symptom: config.symptom,
        matches: KnownMatch {
            checkers: match config.matches.checker {
                OneOrList::One(checker) => vec![checker],
                OneOrList::List(checkers) => checkers,
            },
            fault: pattern(source, config.matches.fault)?,
            site: pattern(source, config.matches.site)?,
            symptom: pattern(source, config.matches.symptom)?,
        },
        workload: config.workload,
        plan: config.plan,
    })
}

fn pattern(
    source: &SourceText,
    text: Option<Spanned<String>>,
) -> Result<Option<Regex>, TargetError> {
    text.map(|text| regex_at(source, &text)).transpose()
}

/// Compiles a regular expression; a bad one is an error at its place.
pub(super) fn regex_at(source: &SourceText, text: &Spanned<String>) -> Result<Regex, TargetError> {
    Regex::new(text.get_ref()).map_err(|error| {
        let reason = error.to_string();
        let reason = reason
            .lines()
            .last()
            .unwrap_or_default()
            .trim_start_matches("error: ");
        let problem = format!("not a regular expression: {reason}");
        source.error(text.span(), problem, None).into()
    })
}
