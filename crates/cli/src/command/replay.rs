//! `temblor replay`: a bug's plan again, so many times.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use temblor_cluster::target::{Choice, KnownBug, known_bugs, list_targets};
use temblor_explore::replays::Proof;
use temblor_explore::triage::Signature;
use temblor_lab::{Past, below};
use temblor_model::bug::{Bug, Symptom};
use temblor_model::campaign::{
    CampaignEvent, CampaignSpec, EventSink, Purpose, StartSpec, StateLevel, Summary, WarpSpec,
};
use temblor_model::history::Baseline;
use temblor_model::plan::{Contexts, Plan};
use temblor_report::{Store, find_bug};

use super::campaign;
use super::run::read_plan;
use crate::args::ReplayArgs;
use crate::exit::{BadInput, Exit};
use crate::prepare::{self, Prepared};

/// What is to be replayed.
pub struct Wanted {
    /// A name or a folder.
    pub target: String,
    pub choice: Choice,
    pub plan: Plan,
    pub delay_ms: Option<u64>,
    pub jdk_sites: bool,
    pub hook_clients: bool,
    /// The bug it should show, and the target's own name for it; a bare plan has neither.
    pub signature: Option<Signature>,
    pub symptoms: Vec<Symptom>,
    pub known: Option<String>,
    pub baseline: Option<Baseline>,
    pub catalog_hash: Option<u64>,
}

/// What replays came to.
pub struct Played {
    pub summary: Summary,
    /// Trials that showed the bug.
    pub shown: u64,
    /// Trials whose delays below the program held something.
    pub met: u64,
}

pub fn run(root: &Path, args: &ReplayArgs) -> anyhow::Result<Exit> {
    let wanted = wanted(root, args)?;
    let prepared = wanted.prepare()?;
    let Played { summary, shown, .. } =
        wanted.play(root, &prepared, args.times, args.warp.0, args.json)?;
    eprintln!();
    match wanted.proof(&prepared) {
        Proof::Failure => eprintln!("replay: {shown} of {} trials failed", summary.trials),
        proof => eprintln!("replay: shown {shown} of {} times: {proof}", summary.trials),
    }
    if summary.unreached > 0 {
        let (unreached, trials) = (summary.unreached, summary.trials);
        eprintln!("replay: in {unreached} of {trials} trials a planned fault was never reached");
    }
    let doubtful = summary.unknown + summary.unreached > 0 || summary.fired == 0;
    Ok(match shown {
        0 if doubtful => Exit::Unknown,
        0 => Exit::Pass,
        _ => Exit::BugsFound,
    })
}

impl Wanted {
    /// A bug of a store.
    pub fn of_bug(store: &Store, bug: &Bug) -> anyhow::Result<Wanted> {
        let spec = store.spec();
        Ok(Wanted {
            target: prepare::place_of(spec).to_string(),
            choice: prepare::choice_of(spec),
            plan: bug.plan.clone(),
            delay_ms: spec.delay_ms,
            jdk_sites: spec.jdk_sites,
            hook_clients: spec.hook_clients,
            signature: Signature::from_text(&bug.signature),
            symptoms: bug.symptoms.clone(),
            known: bug.known.clone(),
            baseline: store.baseline()?,
            catalog_hash: store.catalog()?.map(|c| c.hash()),
        })
    }

    /// Runs of a target without faults.
    pub fn clean(target: &str, choice: Choice) -> Wanted {
        Wanted {
            target: target.to_string(),
            choice,
            plan: Plan::clean(),
            delay_ms: None,
            jdk_sites: false,
            hook_clients: false,
            signature: None,
            symptoms: Vec::new(),
            known: None,
            baseline: None,
            catalog_hash: None,
        }
    }

    /// What a replay has to show.
    pub fn proof(&self, prepared: &Prepared) -> Proof {
        let (signature, name) = (self.signature.as_ref(), self.known.as_deref());
        Proof::of(signature, &self.symptoms, name, &prepared.known())
    }

    pub fn prepare(&self) -> anyhow::Result<Prepared> {
        prepare::prepare(&self.target, &self.choice, self.jdk_sites)
    }

    /// What a campaign of such replays is asked to do.
    pub fn spec(&self, prepared: &Prepared, times: u64, warp: WarpSpec) -> CampaignSpec {
        CampaignSpec {
            format: CampaignSpec::FORMAT,
            target: prepared.target.full_name(),
            target_dir: prepare::given_by_folder(&self.target, &prepared.target),
            workload: self.choice.workload.clone(),
            nodes: self.choice.nodes,
            policy: "replay".into(),
            seed: self.plan.seed,
            trials: times,
            budget_s: 0,
            jobs: campaign::default_jobs().min(times.max(1) as u32),
            hook_clients: self.hook_clients,
            working: false,
            start: StartSpec::Cold,
            warp,
            faults: vec!["throw".into(), "delay".into(), "crash".into()],
            delay_ms: self.delay_ms,
            level: StateLevel::default(),
            contexts: Contexts::default(),
            sweep: false,
            sites: String::new(),
            jdk_sites: self.jdk_sites,
            coverage: false,
            baselines: 2,
            confirm: 0,
            confirm_unwarped: 0,
            keep_mb: CampaignSpec::KEEP_MB,
            shrink: 0,
            plan: Some(self.plan.clone()),
        }
    }

    /// What is known already: the bug's own clean runs serve again, unless the target or the
    /// clock is another one.
    pub fn past(&self, prepared: &Prepared, warp: WarpSpec) -> Past {
        let same = self.catalog_hash == Some(prepared.catalog.hash());
        let baseline = self.baseline.clone();
        Past {
            baseline: baseline.filter(|_| same && warp == WarpSpec::Auto),
            ..Past::default()
        }
    }

    /// Runs the plan so often, in a store of its own.
    pub fn play(
        &self,
        root: &Path,
        prepared: &Prepared,
        times: u64,
        warp: WarpSpec,
        json: bool,
    ) -> anyhow::Result<Played> {
        let spec = self.spec(prepared, times, warp);
        let store = campaign::create_store(root, &spec, prepared)?;
        let count = Arc::new(Mutex::new(Count::default()));
        let counter = Counter {
            proof: self.proof(prepared),
            count: count.clone(),
        };
        let past = self.past(prepared, warp);
        let summary = campaign::run(prepared, store, past, json, Some(Box::new(counter)))?;
        let count = count.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Played {
            summary,
            shown: count.shown,
            met: count.met.len() as u64,
        })
    }
}

/// The bug that a word names, with its store.
pub fn stored_bug(root: &Path, name: &str) -> anyhow::Result<(Store, Bug)> {
    let bad = |e: temblor_report::StoreError| BadInput(e.to_string());
    let folder = find_bug(root, name).map_err(bad)?;
    let store = Store::of_bug(&folder).map_err(bad)?;
    let id = folder.file_name().unwrap_or_default().to_string_lossy();
    let bug = store.bug(&id).map_err(bad)?;
    Ok((store, bug))
}

fn wanted(root: &Path, args: &ReplayArgs) -> anyhow::Result<Wanted> {
    let file = Path::new(&args.bug);
    if file.is_file() && file.extension().is_some_and(|e| e == "toml") {
        let Some(target) = args.target.clone() else {
            let text = "a plan.toml says nothing of its target; add --target NAME";
            return Err(BadInput(text.into()).into());
        };
        let choice = Choice {
            workload: args.workload.clone(),
            nodes: None,
        };
        return Ok(Wanted {
            plan: read_plan(file)?,
            jdk_sites: true,
            ..Wanted::clean(&target, choice)
        });
    }
    if let Some(known) = known(args)? {
        return Ok(known);
    }
    let (store, bug) = stored_bug(root, &args.bug)?;
    Wanted::of_bug(&store, &bug)
}

/// The plan of a bug that a target documents, by the id it has there.
fn known(args: &ReplayArgs) -> anyhow::Result<Option<Wanted>> {
    for place in list_targets(&prepare::roots()) {
        let full = format!("{}@{}", place.name, place.version);
        let asked = args
            .target
            .as_ref()
            .is_none_or(|t| *t == place.name || *t == full);
        let file_has = |bug: &KnownBug| bug.id == args.bug;
        let bugs = known_bugs(&place.dir.join("known")).map_err(|e| BadInput(e.to_string()))?;
        let Some(bug) = bugs.into_iter().find(file_has) else {
            continue;
        };
        if asked {
            let choice = Choice {
                workload: args.workload.clone().or(bug.workload),
                nodes: None,
            };
            return Ok(Some(Wanted {
                plan: bug.plan,
                known: Some(bug.id),
                ..Wanted::clean(&full, choice)
            }));
        }
    }
    Ok(None)
}

/// What has been seen of the replays.
#[derive(Default)]
struct Count {
    shown: u64,
    met: BTreeSet<u64>,
}

struct Counter {
    proof: Proof,
    count: Arc<Mutex<Count>>,
}

impl EventSink for Counter {
    fn event(&mut self, event: &CampaignEvent) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            CampaignEvent::TrialDone {
                purpose: Purpose::Search,
                outcome,
                ..
            } => count.shown += u64::from(self.proof.is_in(outcome)),
            CampaignEvent::Trial { trial, event }
                if below::met_something(std::slice::from_ref(event)) =>
            {
                count.met.insert(*trial);
            }
            _ => {}
        }
    }
}
