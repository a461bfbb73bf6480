//! `temblor replay`: a bug's plan again, so many times.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use temblor_cluster::target::{Choice, KnownBug, known_bugs, list_targets};
use temblor_explore::triage::{self, Signature};
use temblor_lab::Past;
use temblor_model::bug::{Bug, Outcome};
use temblor_model::campaign::{CampaignEvent, CampaignSpec, EventSink, Purpose, WarpSpec};
use temblor_model::history::Baseline;
use temblor_model::plan::Plan;
use temblor_report::{Store, find_bug};

use super::campaign;
use super::run::read_plan;
use crate::args::ReplayArgs;
use crate::exit::{BadInput, Exit};
use crate::prepare;

/// What is to be replayed.
struct Wanted {
    /// A name or a folder.
    target: String,
    choice: Choice,
    plan: Plan,
    delay_ms: u64,
    jdk_sites: bool,
    /// The bug it should show; a bare plan has none.
    signature: Option<Signature>,
    baseline: Option<Baseline>,
    catalog_hash: Option<u64>,
}

pub fn run(root: &Path, args: &ReplayArgs) -> anyhow::Result<Exit> {
    let wanted = wanted(root, args)?;
    let prepared = prepare::prepare(&wanted.target, &wanted.choice, wanted.jdk_sites)?;
    let spec = CampaignSpec {
        format: CampaignSpec::FORMAT,
        target: prepared.target.full_name(),
        target_dir: prepare::given_by_folder(&wanted.target, &prepared.target),
        workload: wanted.choice.workload.clone(),
        nodes: wanted.choice.nodes,
        policy: "replay".into(),
        seed: wanted.plan.seed,
        trials: args.times,
        budget_s: 0,
        jobs: campaign::default_jobs().min(args.times as u32),
        warp: args.warp.0,
        faults: vec!["throw".into(), "delay".into(), "crash".into()],
        delay_ms: wanted.delay_ms,
        sites: String::new(),
        jdk_sites: wanted.jdk_sites,
        coverage: false,
        baselines: 2,
        confirm: 0,
        confirm_unwarped: 0,
        keep_mb: CampaignSpec::KEEP_MB,
        shrink: 0,
        plan: Some(wanted.plan.clone()),
    };
    let store = campaign::create_store(root, &spec, &prepared)?;
    // The bug's own clean runs serve again, unless the target or the clock is another one.
    let same = wanted.catalog_hash == Some(prepared.catalog.hash());
    let baseline = wanted
        .baseline
        .filter(|_| same && args.warp.0 == WarpSpec::Auto);
    let shown = Shown::default();
    let counter = Counter {
        signature: wanted.signature.clone(),
        shown: shown.clone(),
    };
    let past = Past {
        baseline,
        ..Past::default()
    };
    let summary = campaign::run(&prepared, store, past, args.json, Some(Box::new(counter)))?;
    let shown = *shown.0.lock().unwrap_or_else(PoisonError::into_inner);
    eprintln!();
    match &wanted.signature {
        Some(signature) => {
            eprintln!(
                "replay: shown {shown} of {} times: {}",
                summary.trials, signature.text
            );
        }
        None => eprintln!("replay: {shown} of {} trials failed", summary.trials),
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

fn wanted(root: &Path, args: &ReplayArgs) -> anyhow::Result<Wanted> {
    let file = Path::new(&args.bug);
    if file.is_file() && file.extension().is_some_and(|e| e == "toml") {
        let Some(target) = args.target.clone() else {
            let text = "a plan.toml says nothing of its target; add --target NAME";
            return Err(BadInput(text.into()).into());
        };
        let plan = read_plan(file)?;
        return Ok(Wanted {
            target,
            choice: Choice {
                workload: args.workload.clone(),
                nodes: None,
            },
            plan,
            delay_ms: 60_000,
            jdk_sites: true,
            signature: None,
            baseline: None,
            catalog_hash: None,
        });
    }
    if let Some(known) = known(args)? {
        return Ok(known);
    }
    let bad = |e: temblor_report::StoreError| BadInput(e.to_string());
    let folder = find_bug(root, &args.bug).map_err(bad)?;
    let store = Store::of_bug(&folder).map_err(bad)?;
    let id = folder
        .file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_default();
    let bug: Bug = store.bug(&id).map_err(bad)?;
    let spec = store.spec();
    Ok(Wanted {
        target: prepare::place_of(spec).to_string(),
        choice: prepare::choice_of(spec),
        plan: bug.plan.clone(),
        delay_ms: spec.delay_ms,
        jdk_sites: spec.jdk_sites,
        signature: Signature::from_text(&bug.signature),
        baseline: store.baseline()?,
        catalog_hash: store.catalog()?.map(|c| c.hash()),
    })
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
            return Ok(Some(Wanted {
                target: full,
                choice: Choice {
                    workload: args.workload.clone().or(bug.workload),
                    nodes: None,
                },
                plan: bug.plan,
                delay_ms: 60_000,
                jdk_sites: false,
                signature: None,
                baseline: None,
                catalog_hash: None,
            }));
        }
    }
    Ok(None)
}

/// How many replays showed the bug.
#[derive(Clone, Default)]
struct Shown(Arc<Mutex<u64>>);

struct Counter {
    signature: Option<Signature>,
    shown: Shown,
}

impl Counter {
    fn shows(&self, outcome: &Outcome) -> bool {
        match &self.signature {
            Some(signature) => triage::confirms(signature, outcome),
            None => outcome.verdict == temblor_model::bug::Verdict::Fail,
        }
    }
}

impl EventSink for Counter {
    fn event(&mut self, event: &CampaignEvent) {
        if let CampaignEvent::TrialDone {
            purpose: Purpose::Search,
            outcome,
            ..
        } = event
            && self.shows(outcome)
        {
            *self.shown.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        }
    }
}
