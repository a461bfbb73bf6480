//! `temblor resume`: a campaign goes on where it was interrupted.

use std::path::Path;

use temblor_lab::Past;
use temblor_model::bug::Outcome;
use temblor_model::campaign::{CampaignEvent, Purpose};
use temblor_model::plan::Plan;
use temblor_report::{Store, find_campaign};

use super::campaign;
use crate::args::ResumeArgs;
use crate::exit::{BadInput, Exit};
use crate::prepare::{self, Prepared};
use crate::stop;

pub fn run(root: &Path, args: &ResumeArgs) -> anyhow::Result<Exit> {
    let bad = |e: temblor_report::StoreError| BadInput(e.to_string());
    let dir = find_campaign(root, &args.campaign).map_err(bad)?;
    let mut store = Store::open(&dir).map_err(bad)?;
    // Before anything of it is read: what it goes on from must not change any more.
    stop::on_request();
    store.claim().map_err(bad)?;
    if let Some(trials) = args.trials {
        store.change_spec(|spec| spec.trials = trials)?;
    }
    let spec = store.spec();
    let choice = prepare::choice_of(spec);
    let prepared = prepare::prepare(prepare::place_of(spec), &choice, spec.jdk_sites)?;
    check_unchanged(&store, &prepared)?;
    let past = past(&store)?;
    let summary = campaign::run(&prepared, store, past, args.json, None)?;
    Ok(campaign::exit_of(&summary))
}

/// A campaign goes on only with the code it began with.
pub fn check_unchanged(store: &Store, prepared: &Prepared) -> anyhow::Result<()> {
    let stored = store.catalog()?;
    if stored.is_some_and(|c| c.hash() != prepared.catalog.hash()) {
        let text = format!(
            "{} has changed since the campaign began, so its trials no longer compare; \
             begin a new one: ./temblor run {}",
            store.spec().target,
            store.spec().target
        );
        return Err(BadInput(text).into());
    }
    Ok(())
}

/// What the store knows: search trials in the order of their plans, bugs, the first free number.
pub fn past(store: &Store) -> anyhow::Result<Past> {
    let mut outcomes = store.outcomes()?;
    let mut past = Past {
        baseline: store.baseline()?,
        bugs: store.bugs()?,
        ..Past::default()
    };
    let mut sessions: Vec<Vec<(u64, Plan)>> = Vec::new();
    for event in store.campaign_events()?.values {
        match event {
            CampaignEvent::Started { .. } => sessions.push(Vec::new()),
            CampaignEvent::TrialStarted {
                trial,
                purpose,
                plan,
            } => {
                past.next_trial = past.next_trial.max(trial + 1);
                if purpose == Purpose::Search
                    && let Some(session) = sessions.last_mut()
                {
                    session.push((trial, plan));
                }
            }
            _ => {}
        }
    }
    for mut session in sessions {
        // The stream has them as they began, which is nearly the order of their numbers.
        session.sort_by_key(|(trial, _)| *trial);
        // A session first runs again what the one before it left unfinished.
        let unfinished = |(_, (_, outcome)): &(usize, &(Plan, Option<Outcome>))| outcome.is_none();
        let again: Vec<usize> = past
            .searched
            .iter()
            .enumerate()
            .filter(unfinished)
            .map(|(place, _)| place)
            .collect();
        let mut again = again.into_iter();
        for (trial, plan) in session {
            let outcome = outcomes.remove(&trial).map(|(_, outcome)| outcome);
            match again.next() {
                Some(place) => past.searched[place].1 = outcome,
                None => past.searched.push((plan, outcome)),
            }
        }
    }
    Ok(past)
}
