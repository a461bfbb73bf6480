//! The consumer that stores the stream, and writes the reports as bugs come in.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use temblor_model::campaign::{CampaignEvent, EventSink};
use temblor_model::event::{Event, What};

use super::index::{Index, Trouble, is_broken};
use super::keep::Keeper;
use super::{LineFile, Store, StoreError};
use crate::publish;

/// Hits come by the thousand and go to the disk in batches of this many; everything else at once.
const HIT_BATCH: usize = 256;

/// Stores a campaign's events. What cannot be stored is recorded in [`StoreFailure`]; the sink
/// goes on, so that one failed write does not lose what comes after it.
pub struct StoreSink {
    store: Store,
    campaign: Option<LineFile>,
    running: HashMap<u64, RunningTrial>,
    failure: StoreFailure,
    index: SinkIndex,
    keeper: Keeper,
}

/// The index is opened when the first trial is done, and given up when it breaks.
enum SinkIndex {
    Unopened,
    Open(Index),
    Without,
}

struct RunningTrial {
    lines: LineFile,
    batch: Vec<Event>,
}

/// The first thing that could not be stored, shared with whoever must stop the campaign.
#[derive(Clone, Debug, Default)]
pub struct StoreFailure(Arc<Mutex<Failure>>);

#[derive(Debug, Default)]
struct Failure {
    first: Option<Arc<StoreError>>,
    lost: u64,
}

impl StoreFailure {
    pub fn first(&self) -> Option<Arc<StoreError>> {
        self.lock().first.clone()
    }

    /// How many writes failed.
    pub fn lost(&self) -> u64 {
        self.lock().lost
    }

    fn record(&self, result: Result<(), StoreError>) {
        if let Err(error) = result {
            let mut failure = self.lock();
            failure.lost += 1;
            failure.first.get_or_insert_with(|| Arc::new(error));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Failure> {
        // A panic elsewhere leaves these two fields usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StoreSink {
    pub fn new(store: Store) -> StoreSink {
        StoreSink {
            store,
            campaign: None,
            running: HashMap::new(),
            failure: StoreFailure::default(),
            index: SinkIndex::Unopened,
            keeper: Keeper::new(),
        }
    }

    /// A handle that tells, also from other threads, whether everything was stored.
    pub fn failure(&self) -> StoreFailure {
        self.failure.clone()
    }

    pub fn path(&self) -> &Path {
        self.store.path()
    }

    fn store_files(&mut self, event: &CampaignEvent) -> Result<(), StoreError> {
        match event {
            CampaignEvent::Trial { trial, event } => self.trial_event(*trial, event),
            CampaignEvent::BaselineDone { baseline } => self.store.write_baseline(baseline),
            CampaignEvent::TrialStarted { trial, plan, .. } => {
                let lines = self.store.start_trial(*trial, plan)?;
                let batch = Vec::new();
                self.running.insert(*trial, RunningTrial { lines, batch });
                Ok(())
            }
            CampaignEvent::TrialDone { trial, outcome, .. } => {
                if let Some(mut running) = self.running.remove(trial) {
                    running.flush()?;
                    running.lines.sync()?;
                }
                // Last of the trial's files: where it is, the trial is whole.
                self.store.write_outcome(outcome)
            }
            CampaignEvent::BugFound { bug } => {
                self.store.write_bug(bug)?;
                publish::bug(&self.store, bug)
            }
            CampaignEvent::BugSeen { id, trial } => {
                let mut bug = self.store.bug(id)?;
                if bug.trials.contains(trial) {
                    return Ok(());
                }
                bug.trials.push(*trial);
                self.store.write_bug(&bug)
            }
            _ => Ok(()),
        }
    }

    /// Tells the index, which may fail: readers find in the files what is not in it.
    fn tell_index(&mut self, event: &CampaignEvent) {
        let tell: &dyn Fn(&mut Index) -> Result<(), Trouble> = match event {
            CampaignEvent::TrialDone { plan, outcome, .. } => {
                &|index| index.add_trial(&self.store, plan, outcome)
            }
            CampaignEvent::BugFound { .. } | CampaignEvent::BugSeen { .. } => {
                &|index| index.follow_bugs(&self.store)
            }
            _ => return,
        };
        if let SinkIndex::Unopened = self.index {
            let opened = Index::to_write(self.store.path());
            self.index = opened.map_or(SinkIndex::Without, SinkIndex::Open);
        }
        if let SinkIndex::Open(index) = &mut self.index
            && let Err(Trouble::Index(error)) = tell(index)
            && is_broken(&error)
        {
            self.index = SinkIndex::Without;
        }
    }

    fn trial_event(&mut self, trial: u64, event: &Event) -> Result<(), StoreError> {
        let Some(running) = self.running.get_mut(&trial) else {
            // Its start could not be stored, which is recorded already.
            return Ok(());
        };
        running.batch.push(event.clone());
        let frequent = matches!(event.what, What::Hit { .. } | What::Context { .. });
        match frequent && running.batch.len() < HIT_BATCH {
            true => Ok(()),
            false => running.flush(),
        }
    }

    fn campaign_line(&mut self, event: &CampaignEvent) -> Result<(), StoreError> {
        if self.campaign.is_none() {
            self.campaign = Some(self.store.campaign_lines()?);
        }
        match &mut self.campaign {
            Some(lines) => lines.append(std::slice::from_ref(event)),
            None => Ok(()),
        }
    }
}

impl RunningTrial {
    fn flush(&mut self) -> Result<(), StoreError> {
        let written = self.lines.append(&self.batch);
        // On failure the batch is given up: kept, it would grow without bound on a full disk.
        self.batch.clear();
        written
    }
}

impl EventSink for StoreSink {
    fn event(&mut self, event: &CampaignEvent) {
        let stored = self.store_files(event);
        let whole = stored.is_ok();
        self.failure.record(stored);
        if let CampaignEvent::Trial { .. } = event {
            return;
        }
        let line = self.campaign_line(event);
        self.failure.record(line);
        self.tell_index(event);
        if let CampaignEvent::TrialDone {
            trial,
            purpose,
            outcome,
            ..
        } = event
            && whole
        {
            self.keeper
                .done(&self.store, *trial, *purpose, outcome.verdict);
        }
        if let CampaignEvent::Finished { .. } = event {
            let published = publish::campaign(&self.store);
            self.failure.record(published);
        }
    }
}
