//! `temblor demo`: a short campaign on the bundled target, and what it shows.

use std::path::Path;

use temblor_cluster::artifact;
use temblor_cluster::target::Choice;
use temblor_lab::Past;
use temblor_model::campaign::{CampaignSpec, StartSpec, StateLevel, Summary, WarpSpec};
use temblor_model::plan::Contexts;

use super::campaign;
use crate::args::DemoArgs;
use crate::exit::Exit;
use crate::prepare;

/// The demo did what it should when search found this many of the planted bugs.
const PLANTED_BUGS_TO_FIND: usize = 3;
/// Long against every time-out of the target, short enough to replay on the real clock.
const DELAY_MS: u64 = 32_000;

pub fn run(root: &Path, args: &DemoArgs) -> anyhow::Result<Exit> {
    let prepared = prepare::prepare("trio", &Choice::default(), false)?;
    get_criu();
    let spec = CampaignSpec {
        format: CampaignSpec::FORMAT,
        target: prepared.target.full_name(),
        target_dir: None,
        workload: None,
        nodes: None,
        policy: "survey".into(),
        seed: args.seed,
        trials: args.trials,
        budget_s: 0,
        jobs: args.jobs.unwrap_or_else(campaign::default_jobs),
        hook_clients: false,
        working: false,
        start: StartSpec::Snapshot,
        warp: WarpSpec::Auto,
        faults: vec!["throw".into(), "delay".into()],
        delay_ms: Some(DELAY_MS),
        level: StateLevel::default(),
        contexts: Contexts::default(),
        sweep: false,
        sites: String::new(),
        jdk_sites: false,
        coverage: false,
        baselines: 4,
        confirm: 3,
        confirm_unwarped: 1,
        keep_mb: CampaignSpec::KEEP_MB,
        shrink: 0,
        plan: None,
    };
    let store = campaign::create_store(root, &spec, &prepared)?;
    let summary = campaign::run(&prepared, store, Past::default(), args.json, None)?;
    Ok(conclude(&summary, prepared.target.known.len()))
}

/// Gets what trials fork from, if it is not there. Without it the demo takes longer, no more.
fn get_criu() {
    if artifact::find_criu().is_err() {
        eprintln!("temblor: fetching CRIU, so that trials need not start their clusters");
        if let Err(error) = artifact::fetch_criu(&mut |_| {}) {
            eprintln!("temblor: going on without it: {error}");
        }
    }
}

fn conclude(summary: &Summary, planted: usize) -> Exit {
    let mut known: Vec<&str> = summary
        .bugs
        .iter()
        .filter_map(|b| b.known.as_deref())
        .collect();
    known.sort_unstable();
    known.dedup();
    let found = known.len();
    eprintln!();
    if summary.interrupted {
        eprintln!(
            "demo: ended early; go on with ./temblor resume {}",
            summary.store
        );
        return Exit::Unknown;
    }
    eprintln!(
        "demo: search alone found {found} of the {planted} planted bugs (the others need several \
         faults, partitions or more trials)."
    );
    eprintln!("  try     ./temblor replay BUG --times 5");
    eprintln!("  look    {}/campaign.html", summary.store);
    match found >= PLANTED_BUGS_TO_FIND {
        true => Exit::Pass,
        false => {
            eprintln!("demo: expected at least {PLANTED_BUGS_TO_FIND}; this machine may be busy.");
            Exit::Unknown
        }
    }
}
