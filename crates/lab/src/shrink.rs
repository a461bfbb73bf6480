//! From a plan that shows a bug to the smallest one that still does.

use temblor_explore::replays::Proof;
use temblor_explore::shrink::shrink_candidates;
use temblor_model::campaign::Purpose;
use temblor_model::plan::Plan;

use crate::LabError;
use crate::campaign::Campaign;
use crate::clean::Clean;

/// A smaller plan counts when so many replays in a row show the bug.
const TIMES: u32 = 2;

/// What shrinking came to.
pub(crate) struct Shrunk {
    pub plan: Plan,
    /// Replays that it took.
    pub replays: u32,
    /// Nothing smaller shows the bug; else the replays were used up before that was known.
    pub minimal: bool,
}

/// Takes the first smaller plan that shows the bug, again and again, with at most `budget`
/// replays. The campaign's clock is used; whoever asks confirms the result as any other plan.
pub(crate) fn smallest(
    campaign: &Campaign<'_>,
    clean: &Clean,
    proof: &Proof,
    plan: &Plan,
    budget: u32,
) -> Result<Shrunk, LabError> {
    let can_do_less = campaign.setup.target.can_do_less();
    let mut shrunk = Shrunk {
        plan: plan.clone(),
        replays: 0,
        minimal: false,
    };
    // What failed once need not be tried again from a plan that is smaller still.
    let mut refuted: Vec<Plan> = Vec::new();
    'smaller: loop {
        for candidate in shrink_candidates(&shrunk.plan, can_do_less) {
            if refuted.contains(&candidate) {
                continue;
            }
            let mut shown = 0;
            while shown < TIMES {
                if shrunk.replays >= budget {
                    return Ok(shrunk);
                }
                let warp = clean.baseline.warp;
                let again = campaign.judged_trial(Purpose::Shrink, &candidate, warp, clean)?;
                shrunk.replays += 1;
                if !proof.is_in(&again) {
                    break;
                }
                shown += 1;
            }
            if shown == TIMES {
                shrunk.plan = candidate;
                continue 'smaller;
            }
            refuted.push(candidate);
        }
        shrunk.minimal = true;
        return Ok(shrunk);
    }
}
