//! From a failing trial to a bug: replays tell a bug from an accident.
//!
//! A failing trial's plan is replayed on the campaign's clock. When half of the replays show the
//! same signature, or the same known bug, the plan is made smaller, and the smallest one is confirmed in the same way;
//! then, beside the search, on the real clock too: such a replay mostly waits. When one of these
//! shows it as well, it is a bug.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex};

use temblor_explore::exact;
use temblor_explore::replays::{Enough, Proof, Replays};
use temblor_explore::triage::{self, Signature, Told};
use temblor_model::bug::{Bug, Confirmation, FiredFault, Outcome, ShrunkFrom};
use temblor_model::campaign::{CampaignEvent, Purpose};
use temblor_model::history::Reached;
use temblor_model::plan::Plan;

use crate::LabError;
use crate::campaign::{Campaign, lock};
use crate::clean::Clean;
use crate::frozen::Point;
use crate::shrink;

/// Replays on the real clock that run side by side; they mostly sleep.
const REAL_CLOCK_JOBS: u32 = 3;

/// So many trials with one cause are replayed in vain before others have to be seen: another place
/// or moment may do better.
const TRIES: u32 = 3;

/// What became of a cause.
enum State {
    Confirming {
        trials: Vec<u64>,
    },
    /// Could not be shown again so far.
    Unconfirmed(Vain),
    Found(Box<Bug>),
}

/// Trials with one signature, none of which could be shown again.
#[derive(Clone, Copy, Debug, Default)]
struct Vain {
    /// How many were replayed.
    tries: u32,
    /// How many there are.
    seen: u32,
    /// How many there were at the last try.
    seen_then: u32,
}

impl Vain {
    /// Whether the newest of them is worth replays: the first ones are, and then the more often it
    /// shows in the search, the less likely is it an accident.
    fn is_due(&self) -> bool {
        self.tries < TRIES || self.seen >= 2 * self.seen_then
    }

    /// One more was replayed, while so many more were seen.
    fn and_one(self, seen: u32) -> Vain {
        Vain {
            tries: self.tries + 1,
            seen: self.seen + seen,
            seen_then: self.seen,
        }
    }
}

/// What failed in a campaign, by cause: the known bug it matches, else its signature.
pub(crate) struct Bugs {
    by_cause: Mutex<BTreeMap<String, State>>,
    failure: Mutex<Option<LabError>>,
    real_clock: Mutex<u32>,
    real_clock_free: Condvar,
}

/// A failing trial on its way to being a bug.
struct Candidate {
    told: Told,
    /// The known bug, else the signature's text.
    cause: String,
    plan: Plan,
    outcome: Outcome,
    shrunk: Option<ShrunkFrom>,
    /// Trials with its signature, it included, none of which was shown again before.
    vain: Vain,
}

impl Candidate {
    /// Who bears a name has to show what the name is for.
    fn proof(&self, campaign: &Campaign<'_>) -> Proof {
        let Told {
            signature, known, ..
        } = &self.told;
        let symptoms = triage::symptoms(&self.outcome);
        Proof::of(Some(signature), symptoms, known.as_deref(), &campaign.known)
    }
}

impl Bugs {
    pub fn new(found: Vec<Bug>) -> Bugs {
        let state = |bug: Bug| {
            let cause = bug.known.clone().unwrap_or_else(|| bug.signature.clone());
            (cause, State::Found(Box::new(bug)))
        };
        Bugs {
            by_cause: Mutex::new(found.into_iter().map(state).collect()),
            failure: Mutex::new(None),
            real_clock: Mutex::new(0),
            real_clock_free: Condvar::new(),
        }
    }

    /// Bugs in the order of the trials that found them.
    pub fn all(&self) -> Vec<Bug> {
        let states = lock(&self.by_cause);
        let mut bugs: Vec<Bug> = states
            .values()
            .filter_map(|s| match s {
                State::Found(bug) => Some(bug.as_ref().clone()),
                _ => None,
            })
            .collect();
        bugs.sort_by_key(|b| b.trials.first().copied());
        bugs
    }

    pub fn unconfirmed(&self) -> u64 {
        let states = lock(&self.by_cause);
        states
            .values()
            .filter(|s| matches!(s, State::Unconfirmed(_)))
            .count() as u64
    }

    pub fn failure(&self) -> Option<LabError> {
        lock(&self.failure).take()
    }

    pub fn has_failed(&self) -> bool {
        lock(&self.failure).is_some()
    }

    /// A trial failed: the same bug again, or one to be confirmed now.
    pub fn consider<'scope, 'env, 'c: 'env>(
        &'env self,
        campaign: &'env Campaign<'c>,
        scope: &'scope std::thread::Scope<'scope, 'env>,
        clean: &'env Clean,
        plan: Plan,
        outcome: Outcome,
    ) -> Result<(), LabError> {
        let Some(told) = triage::tell(&outcome, &campaign.known) else {
            return Ok(());
        };
        let cause = told.known.as_ref().unwrap_or(&told.signature.text).clone();
        let Some(vain) = self.is_new(campaign, &cause, &told.signature, outcome.trial) else {
            return Ok(());
        };
        let plan = exact(campaign, clean, plan, &outcome);
        let mut candidate = Candidate {
            told,
            cause,
            plan,
            outcome,
            shrunk: None,
            vain,
        };
        let proof = candidate.proof(campaign);
        let mut warped = replay_warped(campaign, clean, &proof, candidate.plan.clone())?;
        if warped.confirm() && campaign.spec.shrink > 0 {
            let (smaller, from) = shrink(campaign, clean, &proof, warped)?;
            candidate.shrunk = Some(from);
            warped = smaller;
        }
        candidate.plan = warped.plan().clone();
        if !warped.confirm() || clean.unwarped.is_none() {
            self.settle(campaign, &candidate, &warped, None);
            return Ok(());
        }
        scope.spawn(move || {
            match self.replay_unwarped(campaign, clean, &candidate) {
                Ok(unwarped) => self.settle(campaign, &candidate, &warped, Some(unwarped)),
                Err(error) => {
                    lock(&self.failure).get_or_insert(error);
                }
            };
        });
        Ok(())
    }

    /// Replays on the real clock until one shows it.
    fn replay_unwarped(
        &self,
        campaign: &Campaign<'_>,
        clean: &Clean,
        candidate: &Candidate,
    ) -> Result<Replays, LabError> {
        self.take_real_clock();
        let wanted = campaign.spec.confirm_unwarped;
        let replays = Replays::new(candidate.plan.clone(), wanted, Enough::One);
        let result = replay(campaign, clean, &candidate.proof(campaign), replays, 1.0);
        *lock(&self.real_clock) -= 1;
        self.real_clock_free.notify_one();
        result
    }

    /// All replays of a candidate are known: it is a bug, or it is not.
    fn settle(
        &self,
        campaign: &Campaign<'_>,
        candidate: &Candidate,
        warped: &Replays,
        unwarped: Option<Replays>,
    ) {
        let is_real = unwarped.as_ref().is_none_or(Replays::confirm);
        let (unwarped_times, unwarped_of) = unwarped.map_or((0, 0), |u| (u.times, u.of));
        let confirmed = Confirmation {
            times: warped.times,
            of: warped.of,
            unwarped_times,
            unwarped_of,
        };
        match warped.confirm() && is_real {
            true => self.found(campaign, candidate, confirmed),
            false => self.give_up(campaign, candidate, confirmed),
        }
    }

    /// Notes the trial under its signature. For whoever is to be replayed: what was in vain so far.
    fn is_new(
        &self,
        campaign: &Campaign<'_>,
        cause: &str,
        signature: &Signature,
        trial: u64,
    ) -> Option<Vain> {
        let mut states = lock(&self.by_cause);
        let vain = match states.get_mut(&signature.text) {
            Some(State::Unconfirmed(vain)) => {
                vain.seen += 1;
                *vain
            }
            _ => Vain {
                seen: 1,
                ..Vain::default()
            },
        };
        match states.get_mut(cause) {
            None | Some(State::Unconfirmed(_)) if !vain.is_due() => None,
            None | Some(State::Unconfirmed(_)) => {
                let state = State::Confirming {
                    trials: vec![trial],
                };
                states.insert(cause.to_string(), state);
                Some(vain)
            }
            Some(State::Confirming { trials }) => {
                trials.push(trial);
                None
            }
            Some(State::Found(bug)) => {
                bug.trials.push(trial);
                let id = bug.id.clone();
                // Still under the lock: nobody may see a bug again before it is told.
                campaign.emit(CampaignEvent::BugSeen { id, trial });
                None
            }
        }
    }

    fn take_real_clock(&self) {
        let mut busy = lock(&self.real_clock);
        while *busy >= REAL_CLOCK_JOBS {
            busy = self
                .real_clock_free
                .wait(busy)
                .unwrap_or_else(|e| e.into_inner());
        }
        *busy += 1;
    }

    fn give_up(&self, campaign: &Campaign<'_>, candidate: &Candidate, c: Confirmation) {
        let signature = candidate.told.signature.text.clone();
        let mut states = lock(&self.by_cause);
        // Another way to the same known bug may do better.
        let meanwhile = match states.remove(&candidate.cause) {
            Some(State::Confirming { trials }) => trials.len() as u32 - 1,
            _ => 0,
        };
        // Others with the signature may be a bug already, or on the way to it.
        if let None | Some(State::Unconfirmed(_)) = states.get(&signature) {
            let vain = candidate.vain.and_one(meanwhile);
            states.insert(signature.clone(), State::Unconfirmed(vain));
        }
        drop(states);
        campaign.emit(CampaignEvent::NotConfirmed {
            trial: candidate.outcome.trial,
            signature,
            times: c.times + c.unwarped_times,
            of: c.of + c.unwarped_of,
        });
    }

    fn found(&self, campaign: &Campaign<'_>, candidate: &Candidate, confirmed: Confirmation) {
        let Candidate {
            told,
            cause,
            plan,
            outcome,
            shrunk,
            vain: _,
        } = candidate;
        let mut states = lock(&self.by_cause);
        let trials = match states.get(cause) {
            Some(State::Confirming { trials }) => trials.clone(),
            _ => vec![outcome.trial],
        };
        let Told {
            signature,
            known,
            title,
        } = told;
        let bug = Bug {
            format: 1,
            id: signature.bug_id(known.as_deref()),
            title: title.clone(),
            known: known.clone(),
            plan: plan.clone(),
            shrunk: shrunk.clone(),
            symptoms: triage::symptoms(outcome).into_iter().cloned().collect(),
            fired: outcome.fired.clone(),
            trials,
            confirmed,
            below: None,
            signature: signature.text.clone(),
        };
        // Earlier tries that were in vain no longer count.
        if let Some(State::Unconfirmed(_)) = states.get(&signature.text) {
            states.remove(&signature.text);
        }
        states.insert(cause.clone(), State::Found(Box::new(bug.clone())));
        campaign.emit(CampaignEvent::BugFound { bug });
    }
}

/// Replays as long as they are wanted, on a clock that runs so fast.
fn replay(
    campaign: &Campaign<'_>,
    clean: &Clean,
    proof: &Proof,
    mut replays: Replays,
    warp: f64,
) -> Result<Replays, LabError> {
    while let Some(plan) = replays.next() {
        if campaign.stop.load(Ordering::Relaxed) {
            return Err(LabError::Interrupted);
        }
        let again = campaign.judged_trial(Purpose::Confirm, plan, warp, clean)?;
        replays.learn(proof.is_in(&again), again.unreached.is_empty());
    }
    Ok(replays)
}

fn replay_warped(
    campaign: &Campaign<'_>,
    clean: &Clean,
    proof: &Proof,
    plan: Plan,
) -> Result<Replays, LabError> {
    let replays = Replays::new(plan, campaign.spec.confirm, Enough::Half);
    replay(campaign, clean, proof, replays, clean.baseline.warp)
}

/// Makes a confirmed plan smaller; with the replays of the one it ends with.
fn shrink(
    campaign: &Campaign<'_>,
    clean: &Clean,
    proof: &Proof,
    confirmed: Replays,
) -> Result<(Replays, ShrunkFrom), LabError> {
    let plan = confirmed.plan();
    let shrunk = shrink::smallest(campaign, clean, proof, plan, campaign.spec.shrink)?;
    let mut from = ShrunkFrom {
        plan: plan.clone(),
        replays: shrunk.replays,
        minimal: shrunk.minimal,
    };
    if shrunk.plan == *plan {
        return Ok((confirmed, from));
    }
    let again = replay_warped(campaign, clean, proof, shrunk.plan)?;
    if again.confirm() {
        return Ok((again, from));
    }
    // Luck made it look smaller: the plan that was confirmed before stays.
    from.minimal = false;
    Ok((confirmed, from))
}

/// A stored bug's plan made smaller, and confirmed.
pub(crate) fn shrink_stored(
    campaign: &Campaign<'_>,
    clean: &Clean,
    bug: &Bug,
    signature: &Signature,
) -> Result<Bug, LabError> {
    let before = Replays::made(bug.plan.clone(), bug.confirmed.times, bug.confirmed.of);
    let known = bug.known.as_deref();
    let proof = Proof::of(Some(signature), &bug.symptoms, known, &campaign.known);
    let (after, from) = shrink(campaign, clean, &proof, before)?;
    let mut smaller = bug.clone();
    smaller.shrunk = Some(from);
    if *after.plan() != bug.plan {
        // What was replayed on the real clock was another plan.
        smaller.confirmed = Confirmation {
            times: after.times,
            of: after.of,
            ..Confirmation::default()
        };
        smaller.plan = after.plan().clone();
    }
    Ok(smaller)
}

/// The plan with what the agent chose in the place of what was left to it.
fn exact(campaign: &Campaign<'_>, clean: &Clean, plan: Plan, outcome: &Outcome) -> Plan {
    if !plan.steps.iter().any(|s| s.when.is_online()) {
        return plan;
    }
    // Where the node comes to the place only in some clean runs, another has its role in others.
    let roams = |fired: &FiredFault| {
        let site = campaign.setup.catalog.by_name(&fired.site).map(|s| s.id);
        let here = |r: &&Reached| Some(r.site) == site && r.stack == fired.stack;
        let mut on = clean.baseline.reached.iter().filter(here).peekable();
        let always = |r: &Reached| r.node == fired.node && r.runs >= clean.baseline.runs;
        on.peek().is_some() && !on.any(always)
    };
    // A fork of a ready cluster counts from there.
    let ready = outcome.from == Some(Point::Ready.to_string());
    exact::exact(&plan, &outcome.fired, plan.working || ready, roams)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trials that were replayed, of those that showed the same, if none is shown again and so many
    /// more come during each replay.
    fn tried(trials: u32, meanwhile: u32) -> Vec<u32> {
        let (mut vain, mut tried) = (Vain::default(), Vec::new());
        while vain.seen < trials {
            vain.seen += 1;
            if vain.is_due() {
                tried.push(vain.seen);
                vain = vain.and_one(meanwhile);
            }
        }
        tried
    }

    #[test]
    fn what_shows_again_and_again_is_not_given_up() {
        assert_eq!(tried(30, 0), [1, 2, 3, 6, 12, 24]);
        assert_eq!(tried(30, 2), [1, 4, 7, 14, 28]);
        assert_eq!(tried(2, 0), [1, 2]);
    }
}
