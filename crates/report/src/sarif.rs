//! `results.sarif`: the bugs of a campaign in the format code scanners share, SARIF 2.1.0. One
//! result per bug, at the site where its first fault was injected.

use std::collections::BTreeMap;

use serde::Serialize;
use temblor_model::bug::Bug;
use temblor_model::catalog::SiteCatalog;

use crate::escape::uri;
use crate::view::{CampaignView, Evidence, confirmation, site_class, site_method};

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
/// What paths are relative to: where the target's packages begin.
const SOURCE_ROOT: &str = "SRCROOT";
const RULE_OF_NONE: &str = "bug";

/// The faults that fired for each bug, by its id.
pub type EvidenceOf = BTreeMap<String, Vec<Evidence>>;

/// The file, whole.
pub fn campaign(
    view: &CampaignView,
    catalog: Option<&SiteCatalog>,
    evidence: &EvidenceOf,
) -> String {
    let log = log(view, catalog, evidence);
    // Strings, numbers and lists always serialise.
    let text = serde_json::to_string_pretty(&log).expect("a log is plain data");
    text + "\n"
}

fn log(view: &CampaignView, catalog: Option<&SiteCatalog>, evidence: &EvidenceOf) -> Log {
    let mut rules: Vec<Rule> = Vec::new();
    let mut results = Vec::new();
    for (bug, replay) in &view.bugs {
        let rule = bug.symptoms.first().map_or(RULE_OF_NONE, |s| &s.checker);
        let index = rules.iter().position(|r| r.id == rule);
        let index = index.unwrap_or_else(|| {
            rules.push(Rule::of(rule));
            rules.len() - 1
        });
        let fired = evidence.get(&bug.id).map_or(&[][..], Vec::as_slice);
        results.push(result(view, bug, replay, index, catalog, fired));
    }
    let run = Run {
        tool: Tool {
            driver: Driver {
                name: "Temblor",
                semantic_version: env!("CARGO_PKG_VERSION"),
                rules,
            },
        },
        // Scanners keep the results of one target apart from those of another by this.
        automation_details: Automation {
            id: format!("temblor/{}/", view.spec.target),
        },
        invocations: vec![Invocation {
            execution_successful: !view.unfinished,
        }],
        original_uri_base_ids: BTreeMap::from([(
            SOURCE_ROOT,
            UriBase {
                description: Text::of("The folder where the target's packages begin."),
            },
        )]),
        results,
    };
    Log {
        schema: SCHEMA,
        version: "2.1.0",
        runs: vec![run],
    }
}

fn result(
    view: &CampaignView,
    bug: &Bug,
    replay: &str,
    rule_index: usize,
    catalog: Option<&SiteCatalog>,
    fired: &[Evidence],
) -> Outcome {
    let mut text = format!("{}\n", bug.title);
    for symptom in &bug.symptoms {
        text.push_str(&format!(
            "{} checker: {}\n",
            symptom.checker, symptom.summary
        ));
    }
    text.push_str(&format!("Plan: {}\n", bug.plan));
    text.push_str(&format!(
        "{}\nReplay: {replay}",
        confirmation(bug.confirmed)
    ));
    let placed = fired.iter().find(|e| !e.site.is_empty());
    let location = match placed {
        Some(fault) => site_location(fault, catalog),
        // Faults of the lab happen in no line of the code.
        None => Location {
            logical_locations: vec![Logical {
                fully_qualified_name: view.spec.target.clone(),
                kind: "module",
            }],
            ..Location::default()
        },
    };
    Outcome {
        rule_id: bug
            .symptoms
            .first()
            .map_or(RULE_OF_NONE.into(), |s| s.checker.clone()),
        rule_index,
        level: "error",
        message: Text::of(&text),
        locations: vec![location],
        code_flows: fired.iter().filter_map(code_flow).collect(),
        partial_fingerprints: BTreeMap::from([("temblorSignature/v1", bug.signature.clone())]),
        properties: Properties {
            bug: bug.id.clone(),
            known: bug.known.clone(),
            confirmed: format!("{} of {}", bug.confirmed.times, bug.confirmed.of),
            trials: bug.trials.clone(),
        },
    }
}

/// Where the site is. The catalog knows the line; the injected stack knows the file's name. For
/// a site inside the JDK it is the call that led there, for the JDK is not what is tested.
fn site_location(fault: &Evidence, catalog: Option<&SiteCatalog>) -> Location {
    let class = site_class(&fault.site);
    let mut frames = fault.frames.iter().map(|f| Frame::parse(f));
    let caller = match is_jdk(&class) {
        true => frames.find(|f| !is_jdk(&f.class)),
        false => frames.find(|f| f.class == class),
    };
    let site = catalog.and_then(|c| c.sites.iter().find(|s| s.name == fault.site));
    let line = site.and_then(|s| s.line).filter(|_| !is_jdk(&class));
    let own = Frame {
        method: site_method(&fault.site),
        line: line.or(caller.as_ref().and_then(|f| f.line)),
        file: caller.as_ref().and_then(|f| f.file.clone()),
        class,
    };
    let physical = match (is_jdk(&own.class), &caller) {
        (true, Some(caller)) => caller.physical(),
        _ => own.physical(),
    };
    Location {
        physical_location: physical,
        ..own.location(None)
    }
}

/// Its sources are not among the target's.
fn is_jdk(class: &str) -> bool {
    let packages = ["java.", "javax.", "jdk.", "sun.", "com.sun."];
    packages.iter().any(|package| class.starts_with(package))
}

/// The way to an injection: the stack of the thread it hit, the outermost call first.
fn code_flow(fault: &Evidence) -> Option<CodeFlow> {
    if fault.frames.is_empty() {
        return None;
    }
    let last = fault.frames.len() - 1;
    let steps = fault.frames.iter().rev().enumerate();
    let steps = steps.map(|(i, frame)| {
        let said = (i == last).then(|| Text::of(&format!("injected here: {}", fault.words())));
        FlowStep {
            location: Frame::parse(frame).location(said),
        }
    });
    let thread = match fault.thread.is_empty() {
        true => fault.node.clone(),
        false => format!("{}, thread {}", fault.node, fault.thread),
    };
    Some(CodeFlow {
        message: Text::of(&fault.words()),
        thread_flows: vec![ThreadFlow {
            id: thread,
            locations: steps.collect(),
        }],
    })
}

/// A line of a stack: `pkg.Class.method:12` or `pkg.Class.method(File.java:12)`.
#[derive(Debug, PartialEq)]
struct Frame {
    class: String,
    method: String,
    file: Option<String>,
    line: Option<u32>,
}

impl Frame {
    fn parse(text: &str) -> Frame {
        let (name, place) = match text.split_once('(') {
            Some((name, place)) => (name, place.trim_end_matches(')')),
            None => text
                .split_once(':')
                .map_or((text, ""), |(name, _)| (name, &text[name.len()..])),
        };
        let (file, line) = place.split_once(':').unwrap_or((place, ""));
        // `java.base/java.lang.Thread.run`: modules have no place in a source tree.
        let name = name.rsplit('/').next().unwrap_or(name);
        let (class, method) = name.rsplit_once('.').unwrap_or(("", name));
        Frame {
            class: class.to_owned(),
            method: method.to_owned(),
            file: file.contains('.').then(|| file.to_owned()),
            line: line.parse().ok().filter(|line| *line > 0),
        }
    }

    /// `org/x/Y.java`, a guess where the class file does not name its source.
    fn path(&self) -> Option<String> {
        let (package, simple) = self.class.rsplit_once('.').unwrap_or(("", &self.class));
        let outer = simple.split('$').find(|part| !part.is_empty())?;
        let file = self.file.clone().unwrap_or_else(|| format!("{outer}.java"));
        Some(match package {
            "" => file,
            package => format!("{}/{file}", package.replace('.', "/")),
        })
    }

    fn physical(&self) -> Option<Physical> {
        let path = self.path().filter(|_| !is_jdk(&self.class))?;
        Some(Physical {
            artifact_location: Artifact {
                uri: uri(&path),
                uri_base_id: SOURCE_ROOT,
            },
            region: self.line.map(|start_line| Region { start_line }),
        })
    }

    fn location(&self, message: Option<Text>) -> Location {
        let name = match self.class.as_str() {
            "" => self.method.clone(),
            class => format!("{class}.{}", self.method),
        };
        Location {
            physical_location: self.physical(),
            logical_locations: vec![Logical {
                fully_qualified_name: name,
                kind: "function",
            }],
            message,
        }
    }
}

// The parts of the format that are used, by its own names.

#[derive(Serialize)]
struct Log {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: Vec<Run>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    tool: Tool,
    automation_details: Automation,
    invocations: Vec<Invocation>,
    original_uri_base_ids: BTreeMap<&'static str, UriBase>,
    results: Vec<Outcome>,
}

#[derive(Serialize)]
struct Tool {
    driver: Driver,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Driver {
    name: &'static str,
    semantic_version: &'static str,
    rules: Vec<Rule>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    id: String,
    short_description: Text,
    default_configuration: Configuration,
}

impl Rule {
    fn of(checker: &str) -> Rule {
        let words = match checker {
            "crash" => "A node exited by itself after an injected fault.".to_owned(),
            "client" => "Clients make no progress, or get wrong answers, after an injected fault \
                         that the cluster should survive."
                .to_owned(),
            "hang" => "Threads are stuck after an injected fault.".to_owned(),
            "consistency" => {
                "What clients saw together cannot have happened one after another, or \
                              nodes end with different state."
                    .to_owned()
            }
            "guarantees" => {
                "A session saw the past after the present, or a watch was lost.".to_owned()
            }
            "gray" => "A node says that it is well while its clients get nothing done, or two \
                       nodes claim one role."
                .to_owned(),
            "recovery" => "A node does not serve again after everything was healed.".to_owned(),
            "latency" => "Operations stay much slower than in clean runs.".to_owned(),
            "log" => {
                "A node logs an error that no clean run logs, after an injected fault.".to_owned()
            }
            other => format!("The {other} checker fails after an injected fault."),
        };
        Rule {
            id: checker.to_owned(),
            short_description: Text::of(&words),
            default_configuration: Configuration { level: "error" },
        }
    }
}

#[derive(Serialize)]
struct Configuration {
    level: &'static str,
}

#[derive(Serialize)]
struct Automation {
    id: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Invocation {
    execution_successful: bool,
}

#[derive(Serialize)]
struct UriBase {
    description: Text,
}

/// A result, in SARIF's words.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    rule_id: String,
    rule_index: usize,
    level: &'static str,
    message: Text,
    locations: Vec<Location>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    code_flows: Vec<CodeFlow>,
    partial_fingerprints: BTreeMap<&'static str, String>,
    properties: Properties,
}

#[derive(Serialize)]
struct Properties {
    bug: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    known: Option<String>,
    confirmed: String,
    trials: Vec<u64>,
}

#[derive(Serialize)]
struct Text {
    text: String,
}

impl Text {
    fn of(text: &str) -> Text {
        Text {
            text: text.to_owned(),
        }
    }
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Location {
    #[serde(skip_serializing_if = "Option::is_none")]
    physical_location: Option<Physical>,
    logical_locations: Vec<Logical>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Text>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Physical {
    artifact_location: Artifact,
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<Region>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Artifact {
    uri: String,
    uri_base_id: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Logical {
    fully_qualified_name: String,
    kind: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CodeFlow {
    message: Text,
    thread_flows: Vec<ThreadFlow>,
}

#[derive(Serialize)]
struct ThreadFlow {
    id: String,
    locations: Vec<FlowStep>,
}

#[derive(Serialize)]
struct FlowStep {
    location: Location,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_lead_to_source_files() {
        let check = |text: &str, path: &str, name: &str, line: Option<u32>| {
            let frame = Frame::parse(text);
            assert_eq!(frame.path().as_deref(), Some(path), "{text}");
            assert_eq!(format!("{}.{}", frame.class, frame.method), name, "{text}");
            assert_eq!(frame.line, line, "{text}");
        };
        check("a.b.C.m:19", "a/b/C.java", "a.b.C.m", Some(19));
        check("a.b.C.m(C.java:7)", "a/b/C.java", "a.b.C.m", Some(7));
        check("a.C$D.m(C.scala:7)", "a/C.scala", "a.C$D.m", Some(7));
        check("a.C$$Lambda.run", "a/C.java", "a.C$$Lambda.run", None);
        check("a.C.<init>:3", "a/C.java", "a.C.<init>", Some(3));
        check("a.C.m(Native Method)", "a/C.java", "a.C.m", None);
        check("a.C.m(Unknown Source)", "a/C.java", "a.C.m", None);
        check(
            "java.base/java.lang.Thread.run(Thread.java:840)",
            "java/lang/Thread.java",
            "java.lang.Thread.run",
            Some(840),
        );
        check("C.m:0", "C.java", "C.m", None);
        assert_eq!(Frame::parse("odd").path(), None);
    }
}
