//! From a finished trial to its outcome.

use temblor_explore::checker::{self, Checker};
use temblor_model::bug::{FiredFault, Outcome, Verdict};
use temblor_model::catalog::SiteCatalog;
use temblor_model::event::What;
use temblor_model::history::{Baseline, History};

use crate::trial::Finished;

/// Judges a trial: every checker speaks, the worst verdict counts.
pub fn outcome(
    trial: u64,
    finished: &Finished,
    baseline: &Baseline,
    catalog: &SiteCatalog,
    checkers: &[Box<dyn Checker>],
) -> Outcome {
    let judgements = checker::judge_all(&finished.history, Some(baseline), checkers);
    let verdict = judgements
        .iter()
        .map(|j| j.verdict)
        .max()
        .unwrap_or(Verdict::Unknown);
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
    }
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
            }),
            // A lab fault at a hit was told by the agent already.
            What::LabFault { step, fault, .. }
                if !out.iter().any(|f: &FiredFault| f.step == *step) =>
            {
                out.push(FiredFault {
                    step: *step,
                    node: String::new(),
                    site: String::new(),
                    fault: fault.clone(),
                    stack: String::new(),
                    at_us: event.at_us,
                });
            }
            _ => {}
        }
    }
    out
}
