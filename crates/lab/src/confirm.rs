//! From a failing trial to a bug: replays tell a bug from an accident.
//!
//! A failing trial's plan is replayed on the campaign's clock; when most replays show the same
//! signature, it is replayed on the real clock too, beside the search, because such a replay
//! mostly waits. Only then it is a bug.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex};

use temblor_explore::triage::{self, BugFacts, Signature};
use temblor_model::bug::{Bug, Confirmation, Outcome};
use temblor_model::campaign::{CampaignEvent, Purpose};
use temblor_model::plan::Plan;

use crate::LabError;
use crate::campaign::{Campaign, Clean, lock};

/// Replays on the real clock that run side by side; they mostly sleep.
const REAL_CLOCK_JOBS: u32 = 3;

/// What became of a signature.
enum State {
    Confirming { trials: Vec<u64> },
    /// Could not be shown again.
    Unconfirmed,
    Found(Bug),
}

/// All signatures of a campaign.
pub(crate) struct Bugs {
    by_signature: Mutex<BTreeMap<String, State>>,
    failure: Mutex<Option<LabError>>,
    real_clock: Mutex<u32>,
    real_clock_free: Condvar,
}

/// A failing trial on its way to being a bug.
struct Candidate {
    signature: Signature,
    plan: Plan,
    outcome: Outcome,
    confirmed: Confirmation,
}

impl Bugs {
    pub fn new(found: Vec<Bug>) -> Bugs {
        let state = |bug: Bug| (bug.signature.clone(), State::Found(bug));
        Bugs {
            by_signature: Mutex::new(found.into_iter().map(state).collect()),
            failure: Mutex::new(None),
            real_clock: Mutex::new(0),
            real_clock_free: Condvar::new(),
        }
    }

    /// Bugs in the order of the trials that found them.
    pub fn all(&self) -> Vec<Bug> {
        let states = lock(&self.by_signature);
        let mut bugs: Vec<Bug> = states
            .values()
            .filter_map(|s| match s {
                State::Found(bug) => Some(bug.clone()),
                _ => None,
            })
            .collect();
        bugs.sort_by_key(|b| b.trials.first().copied());
        bugs
    }

    pub fn unconfirmed(&self) -> u64 {
        let states = lock(&self.by_signature);
        states.values().filter(|s| matches!(s, State::Unconfirmed)).count() as u64
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
        let Some(signature) = triage::signature(&outcome) else { return Ok(()) };
        if !self.is_new(campaign, &signature, outcome.trial) {
            return Ok(());
        }
        let mut candidate =
            Candidate { signature, plan, outcome, confirmed: Confirmation::default() };
        let of = campaign.spec.confirm;
        for _ in 0..of {
            let warp = clean.baseline.warp;
            let again = campaign.judged_trial(Purpose::Confirm, &candidate.plan, warp, clean)?;
            candidate.confirmed.of += 1;
            candidate.confirmed.times += u32::from(triage::confirms(&candidate.signature, &again));
            // Once half of them fail to show it, the rest cannot help.
            if (candidate.confirmed.of - candidate.confirmed.times) * 2 >= of.max(2) {
                break;
            }
        }
        if candidate.confirmed.times * 2 < of {
            self.give_up(campaign, &candidate);
            return Ok(());
        }
        if clean.unwarped.is_none() {
            self.found(campaign, candidate);
            return Ok(());
        }
        scope.spawn(move || {
            if let Err(e) = self.confirm_unwarped(campaign, clean, candidate) {
                lock(&self.failure).get_or_insert(e);
            }
        });
        Ok(())
    }

    /// Notes the trial under its signature; true for whoever came first.
    fn is_new(&self, campaign: &Campaign<'_>, signature: &Signature, trial: u64) -> bool {
        let mut states = lock(&self.by_signature);
        match states.get_mut(&signature.text) {
            None => {
                let state = State::Confirming { trials: vec![trial] };
                states.insert(signature.text.clone(), state);
                true
            }
            Some(State::Confirming { trials }) => {
                trials.push(trial);
                false
            }
            Some(State::Unconfirmed) => false,
            Some(State::Found(bug)) => {
                bug.trials.push(trial);
                let id = bug.id.clone();
                drop(states);
                campaign.emit(CampaignEvent::BugSeen { id, trial });
                false
            }
        }
    }

    fn confirm_unwarped(
        &self,
        campaign: &Campaign<'_>,
        clean: &Clean,
        mut candidate: Candidate,
    ) -> Result<(), LabError> {
        self.take_real_clock();
        let replayed = self.replay_unwarped(campaign, clean, &mut candidate);
        *lock(&self.real_clock) -= 1;
        self.real_clock_free.notify_one();
        replayed?;
        match candidate.confirmed.unwarped_times {
            0 => self.give_up(campaign, &candidate),
            _ => self.found(campaign, candidate),
        }
        Ok(())
    }

    fn take_real_clock(&self) {
        let mut busy = lock(&self.real_clock);
        while *busy >= REAL_CLOCK_JOBS {
            busy = self.real_clock_free.wait(busy).unwrap_or_else(|e| e.into_inner());
        }
        *busy += 1;
    }

    fn replay_unwarped(
        &self,
        campaign: &Campaign<'_>,
        clean: &Clean,
        candidate: &mut Candidate,
    ) -> Result<(), LabError> {
        for _ in 0..campaign.spec.confirm_unwarped {
            if campaign.stop.load(Ordering::Relaxed) {
                return Err(LabError::Interrupted);
            }
            let again = campaign.judged_trial(Purpose::Confirm, &candidate.plan, 1.0, clean)?;
            let confirmed = &mut candidate.confirmed;
            confirmed.unwarped_of += 1;
            let same = triage::confirms(&candidate.signature, &again);
            confirmed.unwarped_times += u32::from(same);
            if same {
                break;
            }
        }
        Ok(())
    }

    fn give_up(&self, campaign: &Campaign<'_>, candidate: &Candidate) {
        let signature = candidate.signature.text.clone();
        lock(&self.by_signature).insert(signature.clone(), State::Unconfirmed);
        let c = &candidate.confirmed;
        campaign.emit(CampaignEvent::NotConfirmed {
            trial: candidate.outcome.trial,
            signature,
            times: c.times + c.unwarped_times,
            of: c.of + c.unwarped_of,
        });
    }

    fn found(&self, campaign: &Campaign<'_>, candidate: Candidate) {
        let Candidate { signature, plan, outcome, confirmed } = candidate;
        let mut states = lock(&self.by_signature);
        let trials = match states.get(&signature.text) {
            Some(State::Confirming { trials }) => trials.clone(),
            _ => vec![outcome.trial],
        };
        let symptoms: Vec<_> = triage::symptoms(&outcome).into_iter().cloned().collect();
        let facts = BugFacts { fired: &outcome.fired, symptoms: &symptoms };
        let bug = Bug {
            format: 1,
            id: signature.id.clone(),
            title: signature.title(),
            known: triage::match_known(facts, &campaign.known).map(str::to_string),
            plan,
            symptoms,
            fired: outcome.fired.clone(),
            trials,
            confirmed,
            signature: signature.text.clone(),
        };
        states.insert(signature.text, State::Found(bug.clone()));
        drop(states);
        campaign.emit(CampaignEvent::BugFound { bug });
    }
}
