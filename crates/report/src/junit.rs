//! `junit.xml`: a campaign as CI systems show tests. One suite per campaign, one case per search
//! trial under the class of its site; a trial that shows a bug fails.
//!
//! The writer is our own: six elements and one escaping rule, which `escape` has already, weigh
//! less than an XML library and the five crates that come with one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use temblor_model::bug::{Bug, Verdict};
use temblor_model::plan::{Plan, Trigger};

use crate::escape::{html, line, shorten};
use crate::tally::search;
use crate::view::{CampaignView, TrialLine, confirmation, short_plan, site_class};

const NAME_MOST: usize = 300;
const BODY_MOST: usize = 20_000;
/// Class of cases whose plan names no site: faults of the lab, random hits.
const NO_SITE: &str = "cluster";

/// One test case.
struct Case {
    class: String,
    name: String,
    seconds: f64,
    end: End,
}

enum End {
    Pass,
    /// It tells nothing, and why.
    Skipped(String),
    Failure {
        message: String,
        checker: String,
        body: String,
    },
}

/// The file, whole.
pub fn campaign(view: &CampaignView) -> String {
    let cases = cases(view);
    let failures = cases
        .iter()
        .filter(|c| matches!(c.end, End::Failure { .. }));
    let failures = failures.count();
    let skipped = cases.iter().filter(|c| matches!(c.end, End::Skipped(_)));
    let skipped = skipped.count();
    let seconds: f64 = cases.iter().map(|c| c.seconds).sum();
    let counts = format!(
        "tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\" \
         time=\"{seconds:.3}\"",
        cases.len()
    );
    let name = attribute(&format!("temblor {}", view.spec.target));
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"temblor\" {counts}>\n\
         <testsuite name=\"{name}\" {counts}>\n<properties>\n"
    );
    for (name, value) in properties(view) {
        let value = attribute(&value);
        let _ = writeln!(out, "<property name=\"{name}\" value=\"{value}\"/>");
    }
    out.push_str("</properties>\n");
    for case in &cases {
        out.push_str(&element(case));
    }
    out.push_str("</testsuite>\n</testsuites>\n");
    out
}

fn properties(view: &CampaignView) -> Vec<(&'static str, String)> {
    let s = &view.summary;
    let ended = match (view.unfinished, s.interrupted) {
        (true, _) => "not finished",
        (false, true) => "early",
        (false, false) => "all trials run",
    };
    let mut all = vec![
        ("target", view.spec.target.clone()),
        ("policy", view.spec.policy.clone()),
        ("seed", view.spec.seed.to_string()),
        ("faults", view.spec.faults.join(",")),
        ("jobs", view.spec.jobs.to_string()),
        ("store", view.store.clone()),
        ("ended", ended.to_owned()),
        ("fired", s.fired.to_string()),
        ("unreached", s.unreached.to_string()),
        ("not-confirmed", s.unconfirmed.to_string()),
        ("bugs", view.bugs.len().to_string()),
    ];
    if let Some((covered, of)) = s.covered {
        all.push(("blocks-covered", format!("{covered} of {of}")));
    }
    all
}

fn cases(view: &CampaignView) -> Vec<Case> {
    let bugs: BTreeMap<&str, (&Bug, &str)> = view
        .bugs
        .iter()
        .map(|(bug, replay)| (bug.id.as_str(), (bug, replay.as_str())))
        .collect();
    let mut cases = Vec::new();
    let mut names = BTreeSet::new();
    let mut shown = BTreeSet::new();
    for trial in search(view) {
        shown.extend(trial.bugs.iter().map(String::as_str));
        let class = class_of(&trial.plan);
        let mut name = name_of(&trial.plan);
        // A name stands for one test: CI systems follow it from run to run. It is the plan, and
        // only where a plan was run twice the trial's number tells them apart.
        if !names.insert((class.clone(), name.clone())) {
            name = format!("{name} (trial {})", trial.trial);
        }
        cases.push(Case {
            class,
            name,
            seconds: trial.outcome.seconds.max(0.0),
            end: end_of(trial, &bugs),
        });
    }
    // A bug whose own trial is not whole still fails the build.
    for (id, (bug, replay)) in bugs.iter().filter(|(id, _)| !shown.contains(*id)) {
        cases.push(Case {
            class: class_of(&bug.plan),
            name: format!("{} (bug {id})", name_of(&bug.plan)),
            seconds: 0.0,
            end: failure(bug, replay),
        });
    }
    cases.sort_by(|a, b| a.class.cmp(&b.class));
    cases
}

fn end_of(trial: &TrialLine, bugs: &BTreeMap<&str, (&Bug, &str)>) -> End {
    let shown = trial.bugs.iter().find_map(|id| bugs.get(id.as_str()));
    if let Some((bug, replay)) = shown {
        return failure(bug, replay);
    }
    let outcome = &trial.outcome;
    match outcome.verdict {
        Verdict::Unknown => {
            let reason = outcome.judgements.iter().find_map(|j| j.reason.as_deref());
            let reason = reason.unwrap_or("no checker could tell");
            End::Skipped(format!("unknown: {reason}"))
        }
        Verdict::Fail => {
            let what = outcome.symptoms().next().map_or("", |s| &s.summary);
            End::Skipped(format!("failed once, not confirmed by replays: {what}"))
        }
        Verdict::Pass if outcome.fired.is_empty() && !trial.plan.steps.is_empty() => {
            End::Skipped("the fault was never reached".into())
        }
        Verdict::Pass => End::Pass,
    }
}

fn failure(bug: &Bug, replay: &str) -> End {
    let first = bug.symptoms.first();
    let mut body = format!(
        "{}\n\nbug:       {}\nsignature: {}\nplan:      {}\n",
        bug.title, bug.id, bug.signature, bug.plan
    );
    if let Some(known) = &bug.known {
        let _ = writeln!(body, "known:     {known}");
    }
    let _ = writeln!(body, "confirmed: {}", confirmation(bug.confirmed));
    for symptom in &bug.symptoms {
        let _ = writeln!(body, "\n{} checker: {}", symptom.checker, symptom.summary);
        for detail in &symptom.detail {
            let _ = writeln!(body, "  {detail}");
        }
    }
    // The command is last, whatever had to be cut before it.
    let body = format!(
        "{}\n\nreplay: {replay}",
        shorten(body.trim_end(), BODY_MOST)
    );
    End::Failure {
        message: bug.title.clone(),
        checker: first.map_or("bug", |s| s.checker.as_str()).to_owned(),
        body,
    }
}

/// The class that holds the first site the plan names.
fn class_of(plan: &Plan) -> String {
    let site = plan.steps.iter().find_map(|step| match &step.when {
        Trigger::Hit { site, .. } => Some(site),
        _ => None,
    });
    site.map_or(NO_SITE.into(), |site| site_class(site))
}

/// The plan in words, with the beginnings of its contexts: one site is reached in many ways.
fn name_of(plan: &Plan) -> String {
    let mut name = shorten(&short_plan(plan), NAME_MOST);
    for step in &plan.steps {
        if let Trigger::Hit {
            stack: Some(stack), ..
        } = &step.when
        {
            let _ = write!(name, " [{}]", stack.get(..8).unwrap_or(stack));
        }
    }
    name
}

fn element(case: &Case) -> String {
    let mut out = format!(
        "<testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\"",
        attribute(&case.class),
        attribute(&case.name),
        case.seconds
    );
    match &case.end {
        End::Pass => out.push_str("/>\n"),
        End::Skipped(why) => {
            let why = attribute(why);
            let _ = writeln!(out, "><skipped message=\"{why}\"/></testcase>");
        }
        End::Failure {
            message,
            checker,
            body,
        } => {
            let _ = writeln!(
                out,
                "><failure message=\"{}\" type=\"{}\">{}</failure></testcase>",
                attribute(message),
                attribute(checker),
                html(body)
            );
        }
    }
    out
}

/// Text in an attribute: one line, for XML readers turn line ends there into spaces.
fn attribute(text: &str) -> String {
    html(&line(text))
}
