//! Checkers judge histories. One file each, and the list of them all.
//!
//! A checker passes, fails with symptoms, or says that it cannot tell. All are fault-aware: what
//! must fail under the injected fault and failed is no bug (`effects.rs` has the rules).

mod client;
mod consistency;
mod crash;
mod gray;
mod guarantees;
mod hang;
mod latency;
mod log;
mod recovery;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use temblor_model::bug::{Judgement, Symptom, Verdict};
use temblor_model::catalog::SiteCatalog;
use temblor_model::event::What;
use temblor_model::history::{Baseline, History};
use temblor_model::plan::Fault;

pub use client::Client;
pub use consistency::Consistency;
pub use crash::Crash;
pub use gray::Gray;
pub use guarantees::Guarantees;
pub use hang::Hang;
pub use latency::Latency;
pub use log::Log;
pub use recovery::Recovery;

/// Says, in place of all checkers, that a trial's fault was none.
pub const FAULT: &str = "fault";

/// Judges one trial.
pub trait Checker: Send + Sync {
    fn name(&self) -> &'static str;

    /// Without a baseline (a clean run is judged), limits are generous assumptions.
    fn judge(&self, history: &History, baseline: Option<&Baseline>) -> Judgement;
}

/// All checkers, the most telling first: the first that fails names the bug.
pub fn all() -> Vec<Box<dyn Checker>> {
    vec![
        Box::new(Crash),
        Box::new(Client),
        Box::new(Consistency),
        Box::new(Guarantees),
        Box::new(Hang),
        Box::new(Gray),
        Box::new(Recovery),
        Box::new(Latency),
        Box::new(Log),
    ]
}

/// What all checkers say. One that panics says unknown, never pass.
pub fn judge_all(
    history: &History,
    baseline: Option<&Baseline>,
    checkers: &[Box<dyn Checker>],
) -> Vec<Judgement> {
    let judge = |checker: &dyn Checker| {
        let judged = catch_unwind(AssertUnwindSafe(|| checker.judge(history, baseline)));
        judged.unwrap_or_else(|panic| Judgement {
            checker: checker.name().into(),
            verdict: Verdict::Unknown,
            symptoms: Vec::new(),
            reason: Some(format!("the checker itself failed: {}", said(&*panic))),
        })
    };
    checkers
        .iter()
        .map(|checker| judge(checker.as_ref()))
        .collect()
}

/// What all checkers say of a trial with faults. An exception or a delay that struck a stream in
/// memory, where no call fails or is slow, tells nothing of the target: plans leave out such contexts, but know only
/// those of clean runs.
pub fn judge_fault(
    history: &History,
    baseline: Option<&Baseline>,
    catalog: &SiteCatalog,
    checkers: &[Box<dyn Checker>],
) -> Vec<Judgement> {
    let in_memory = history.events.iter().find_map(|event| match &event.what {
        What::Fired {
            site,
            frames,
            fault,
            ..
        } if is_of_the_call(fault) => {
            let site = catalog.site(*site)?;
            site.is_in_memory(frames).then_some(site)
        }
        _ => None,
    });
    match in_memory {
        None => judge_all(history, baseline, checkers),
        Some(site) => vec![Judgement {
            checker: FAULT.into(),
            verdict: Verdict::Unknown,
            symptoms: Vec::new(),
            reason: Some(format!(
                "the fault struck {} on a stream in memory, where nothing can fail",
                site.name
            )),
        }],
    }
}

/// Whether it is the call that fails or is slow. Crashes and faults of the lab only happen there.
fn is_of_the_call(fault: &str) -> bool {
    matches!(
        Fault::from_text(fault),
        Some(Fault::Throw { .. } | Fault::Delay { .. })
    )
}

/// Whether a trial that still runs has failed for good: every client whose work is not over waits
/// for something that nothing excuses, and has long waited.
pub fn is_decided(history: &History, baseline: Option<&Baseline>) -> bool {
    client::all_are_stuck(history, baseline)
}

/// The verdict of a trial: the worst of its judgements.
pub fn verdict(judgements: &[Judgement]) -> Verdict {
    let worst = judgements.iter().map(|j| j.verdict).max();
    worst.unwrap_or(Verdict::Unknown)
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}

/// Fail with symptoms, else unknown with a reason, else pass. Symptoms come in order of time,
/// equal ones once.
fn conclude(checker: &'static str, mut symptoms: Vec<Symptom>, reasons: &[String]) -> Judgement {
    symptoms.sort_by(|a, b| (a.at_us, &a.summary).cmp(&(b.at_us, &b.summary)));
    conclude_ranked(checker, symptoms, reasons)
}

/// As `conclude`, with the symptoms in the order they come in.
fn conclude_ranked(
    checker: &'static str,
    mut symptoms: Vec<Symptom>,
    reasons: &[String],
) -> Judgement {
    let mut seen = std::collections::BTreeSet::new();
    symptoms.retain(|s| seen.insert(s.summary.clone()));
    let verdict = match (symptoms.is_empty(), reasons.is_empty()) {
        (false, _) => Verdict::Fail,
        (true, false) => Verdict::Unknown,
        (true, true) => Verdict::Pass,
    };
    Judgement {
        checker: checker.into(),
        verdict,
        symptoms,
        reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
    }
}

/// Worth telling, and no failure: passes with what was seen.
fn observe(checker: &'static str, seen: Vec<Symptom>) -> Judgement {
    let mut judgement = conclude_ranked(checker, seen, &[]);
    judgement.verdict = Verdict::Pass;
    judgement
}

#[cfg(test)]
mod tests {
    use temblor_model::site::Site;

    use super::*;
    use crate::scripted::history;

    struct Broken;

    impl Checker for Broken {
        fn name(&self) -> &'static str {
            "broken"
        }

        fn judge(&self, history: &History, _: Option<&Baseline>) -> Judgement {
            panic!("index {} is out of range", history.events.len())
        }
    }

    #[test]
    fn a_fault_that_struck_memory_tells_nothing() {
        let broken = "up\n 300 fired n1 t throw java.io.IOException\n 400 exit n2 code 1\n \
                      9000 stage stop";
        let mut history = history(broken);
        let site = Site {
            memory_makers: vec!["x.Reply.pack".into()],
            ..Site::default()
        };
        let catalog = SiteCatalog {
            sites: vec![site; 2],
            ..SiteCatalog::default()
        };
        let mut judge = |stack: &[&str]| {
            for event in &mut history.events {
                if let What::Fired { frames, site, .. } = &mut event.what {
                    *frames = stack.iter().map(|f| f.to_string()).collect();
                    *site = 1;
                }
            }
            let judgements = judge_fault(&history, None, &catalog, &all());
            (verdict(&judgements), judgements[0].checker.clone())
        };
        assert_eq!(judge(&["x.Log.append:3"]), (Verdict::Fail, "crash".into()));
        let memory = judge(&["x.Record.write:1", "x.Reply.pack:9"]);
        assert_eq!(memory, (Verdict::Unknown, FAULT.into()));
        for (fault, expected) in [("delay 60 s", true), ("crash", false), ("heal", false)] {
            assert_eq!(is_of_the_call(fault), expected, "{fault}");
        }
    }

    #[test]
    fn a_checker_that_panics_says_unknown_and_why() {
        let checkers: Vec<Box<dyn Checker>> = vec![Box::new(Broken), Box::new(Crash)];
        let judgements = judge_all(&history(""), None, &checkers);
        assert_eq!(judgements[0].verdict, Verdict::Unknown);
        let reason = judgements[0].reason.as_deref().unwrap();
        assert!(reason.contains("out of range"), "{reason}");
        assert_eq!(judgements[1].verdict, Verdict::Pass);
        assert_eq!(verdict(&judgements), Verdict::Unknown);
    }

    #[test]
    fn nobody_asked_is_unknown() {
        assert_eq!(verdict(&[]), Verdict::Unknown);
    }

    #[test]
    fn names_are_those_of_the_list() {
        let names: Vec<&str> = all().iter().map(|c| c.name()).collect();
        assert_eq!(
            names.join(" "),
            "crash client consistency guarantees hang gray recovery latency log"
        );
    }
}
