//! A campaign as its pages see it, made from its stream without a disk between.

use temblor_model::campaign::{CampaignEvent, CampaignSpec};
use temblor_report::view::{CampaignView, TrialLine};

use crate::sample;

/// What a store would give back of these events.
pub fn folded(spec: CampaignSpec, events: impl IntoIterator<Item = CampaignEvent>) -> CampaignView {
    let mut view = CampaignView {
        spec,
        store: "store/trio@1/t".into(),
        trials: Vec::new(),
        bugs: Vec::new(),
        torn: Vec::new(),
        summary: sample::summary("store/trio@1/t"),
        unfinished: true,
        session_seconds: None,
        baseline: None,
    };
    for event in events {
        match event {
            CampaignEvent::BaselineDone { baseline } => view.baseline = Some(baseline),
            CampaignEvent::TrialDone {
                trial,
                purpose,
                plan,
                outcome,
                ..
            } => view.trials.push(TrialLine {
                trial,
                purpose,
                plan,
                outcome,
                bugs: Vec::new(),
            }),
            CampaignEvent::BugFound { bug } => {
                let replay = format!("./temblor replay {}", bug.id);
                view.bugs.push((bug, replay));
            }
            CampaignEvent::BugSeen { id, trial } => {
                let seen = view.bugs.iter_mut().filter(|(bug, _)| bug.id == id);
                seen.for_each(|(bug, _)| bug.trials.push(trial));
            }
            CampaignEvent::Finished { summary } => {
                view.unfinished = false;
                view.session_seconds = Some(summary.seconds);
                view.summary = summary;
            }
            _ => {}
        }
    }
    for line in &mut view.trials {
        let shown = view
            .bugs
            .iter()
            .filter(|(b, _)| b.trials.contains(&line.trial));
        line.bugs = shown.map(|(bug, _)| bug.id.clone()).collect();
    }
    view
}

/// The sample campaign, whole.
pub fn sample_view() -> CampaignView {
    folded(sample::spec(), sample::campaign("store/trio@1/t"))
}
