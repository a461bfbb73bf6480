//! From a finished trial to its outcome.

use temblor_explore::checker::{self, Checker};
use temblor_model::bug::{FiredFault, Judgement, Outcome, Verdict};
use temblor_model::catalog::SiteCatalog;
use temblor_model::event::What;
use temblor_model::history::{Baseline, History};
use temblor_model::plan::Plan;
use temblor_model::visit::{self, Visit};

use crate::trial::Finished;

/// Judges a trial: every checker speaks, the worst verdict counts.
pub fn outcome(
    trial: u64,
    finished: &Finished,
    baseline: &Baseline,
    catalog: &SiteCatalog,
    checkers: &[Box<dyn Checker>],
) -> Outcome {
    let judgements = checker::judge_fault(&finished.history, Some(baseline), catalog, checkers);
    let verdict = checker::verdict(&judgements);
    Outcome {
        format: Outcome::FORMAT,
        trial,
        verdict,
        judgements,
        fired: fired(&finished.history, catalog),
        unreached: finished.unreached.clone(),
        warp: finished.history.warp,
        seconds: finished.seconds,
        cpu_seconds: finished.cpu_seconds,
        visits: visits(&finished.history),
        from: finished.from.map(|point| point.to_string()),
    }
}

/// Of a trial that broke down, through no fault of the target's: nobody can tell.
pub(crate) fn broken(trial: u64, plan: &Plan, warp: f64, reason: String) -> Outcome {
    Outcome {
        format: Outcome::FORMAT,
        trial,
        verdict: Verdict::Unknown,
        judgements: vec![Judgement {
            checker: "lab".into(),
            verdict: Verdict::Unknown,
            symptoms: Vec::new(),
            reason: Some(reason),
        }],
        fired: Vec::new(),
        unreached: (0..plan.steps.len() as u32).collect(),
        warp,
        seconds: 0.0,
        cpu_seconds: 0.0,
        visits: Vec::new(),
        from: None,
    }
}

/// What the trial came by, where that was counted. A node that was started again is one node.
pub(crate) fn visits(history: &History) -> Vec<Visit> {
    let mut visits: Vec<Visit> = Vec::new();
    for event in &history.events {
        if let What::Visited { visits: more, .. } = &event.what {
            visits.extend(more.iter().cloned());
        }
    }
    visit::summed(visits)
}

/// Of an exception, the last method that it leaves.
fn out_of(fault: &str, frames: &[String], catalog: &SiteCatalog) -> Option<String> {
    let exception = fault.strip_prefix("throw ")?.split(' ').next()?;
    let method = catalog.thrown_out_of(exception, frames)?;
    Some(method.to_string())
}

/// The evidence: each fault that fired, in order.
pub fn fired(history: &History, catalog: &SiteCatalog) -> Vec<FiredFault> {
    let mut out = Vec::new();
    for event in &history.events {
        match &event.what {
            What::Fired {
                step,
                node,
                site,
                fault,
                stack,
                state,
                nth,
                access,
                frames,
                ..
            } => out.push(FiredFault {
                step: *step,
                node: node.clone(),
                site: catalog
                    .site(*site)
                    .map(|s| s.name.clone())
                    .unwrap_or_default(),
                fault: fault.clone(),
                stack: stack.clone(),
                at_us: event.at_us,
                state: state.and_then(|s| Some(catalog.states.get(s as usize)?.name.clone())),
                nth: *nth,
                access: *access,
                out_of: out_of(fault, frames, catalog),
            }),
            // A lab fault at a hit was told by the agent already.
            What::LabFault { step, fault, .. }
                if !out.iter().any(|f: &FiredFault| f.step == *step) =>
            {
                out.push(FiredFault {
                    step: *step,
                    fault: fault.clone(),
                    at_us: event.at_us,
                    ..FiredFault::default()
                });
            }
            _ => {}
        }
    }
    out
}
