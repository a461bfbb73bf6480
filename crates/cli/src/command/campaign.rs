//! What `run`, `compare`, `resume`, `replay` and `demo` share: a campaign from its store to its summary.

use std::path::Path;

use anyhow::Context;
use temblor_lab::{Campaign, LabError, Past};
use temblor_model::campaign::{CampaignSpec, EventSink, Summary};
use temblor_report::{Store, publish};

use crate::args::{CampaignArgs, During};
use crate::exit::{BadInput, EndedEarly, Exit};
use crate::prepare::{self, Prepared};
use crate::stop;
use crate::stream::{Show, Stream};

/// One trial per core: JVMs starting up are what a trial mostly costs.
pub fn default_jobs() -> u32 {
    temblor_lab::load::cores()
}

/// What the shared options ask for. Policy, seed, trials, replays and plan are the caller's to
/// fill in.
pub fn spec(target: &str, args: &CampaignArgs, prepared: &Prepared) -> CampaignSpec {
    CampaignSpec {
        format: CampaignSpec::FORMAT,
        target: prepared.target.full_name(),
        target_dir: prepare::given_by_folder(target, &prepared.target),
        workload: args.workload.clone(),
        nodes: args.nodes,
        policy: String::new(),
        seed: 0,
        trials: 0,
        budget_s: args.budget.map_or(0, |b| b.ms.div_ceil(1000)),
        jobs: args.jobs.unwrap_or(0),
        hook_clients: args.hook_clients,
        working: args.during == During::Workload,
        start: args.start.spec(),
        warp: args.warp.0,
        faults: args.faults.clone(),
        delay_ms: args.delay.map(|d| d.ms),
        level: args.states.level(),
        contexts: args.contexts.spec(),
        sweep: args.sweep,
        sites: args.sites.clone(),
        jdk_sites: args.jdk_sites,
        coverage: args.coverage,
        baselines: args.baselines,
        confirm: 0,
        confirm_unwarped: 0,
        keep_mb: args.keep.mb,
        shrink: 0,
        plan: None,
    }
}

/// A folder for a new campaign that makes sense, with what `resume` needs in it.
pub fn create_store(
    root: &Path,
    spec: &CampaignSpec,
    prepared: &Prepared,
) -> anyhow::Result<Store> {
    let nodes = prepared.target.cast.hooked(spec.hook_clients);
    let bad = |e: LabError| BadInput(e.to_string());
    temblor_lab::check(spec, &prepared.catalog, &nodes).map_err(bad)?;
    let store = Store::create(root, spec, &stamp())?;
    store.write_catalog(&prepared.catalog)?;
    Ok(store)
}

/// Runs a campaign in its store; the reports are written even when it ended early.
pub fn run(
    prepared: &Prepared,
    store: Store,
    past: Past,
    show: impl Into<Show>,
    also: Option<Box<dyn EventSink>>,
) -> anyhow::Result<Summary> {
    drive(prepared, store, show, also, |campaign| campaign.run(past))
}

/// Has a campaign do something in its store, and writes the reports.
pub fn drive<T>(
    prepared: &Prepared,
    mut store: Store,
    show: impl Into<Show>,
    also: Option<Box<dyn EventSink>>,
    work: impl FnOnce(Campaign<'_>) -> Result<T, LabError>,
) -> anyhow::Result<T> {
    let dir = store.path().to_path_buf();
    let spec = store.spec().clone();
    let setup = prepared.setup(&spec, &dir)?;
    // First the handlers, then the claim: whoever holds it may be sent the signal of `pause`.
    let stop = stop::on_request();
    let claim = store.claim()?;
    let mut stream = Stream::open(store, show.into(), stop);
    if let Some(sink) = also {
        stream.also(sink);
    }
    let known = prepared.known();
    let result = work(Campaign::new(
        &setup,
        &spec,
        dir.clone(),
        known,
        &mut stream,
        stop,
    ));
    if let Some(failure) = stream.store_failure().first() {
        return Err(anyhow::anyhow!(
            "{failure}\nwhat was stored before is safe: free some space, then \
             ./temblor resume {}",
            dir.display()
        ));
    }
    drop(stream);
    let published = Store::open(&dir).and_then(|store| publish::campaign(&store));
    drop(claim);
    let done = result.map_err(|e| match e {
        LabError::Plan(_) | LabError::Policy(_) | LabError::Command(_) => {
            BadInput(e.to_string()).into()
        }
        LabError::Interrupted => EndedEarly(format!(
            "{e}; go on with ./temblor resume {}",
            dir.display()
        ))
        .into(),
        other => anyhow::Error::new(other),
    })?;
    published.with_context(|| format!("could not write the reports of {}", dir.display()))?;
    Ok(done)
}

/// Bugs, else doubts, else a pass. A campaign none of whose faults fired proves nothing.
pub fn exit_of(summary: &Summary) -> Exit {
    let stopped = stop::was_requested();
    if stopped {
        eprintln!(
            "temblor: ended early; go on with ./temblor resume {}",
            summary.store
        );
    }
    if !summary.bugs.is_empty() {
        return Exit::BugsFound;
    }
    if stopped {
        return Exit::Unknown;
    }
    if summary.trials > 0 && summary.fired == 0 && summary.policy != "clean" {
        eprintln!("temblor: no fault fired in any trial: nothing was tested");
        return Exit::Unknown;
    }
    match summary.unknown > 0 || summary.trials == 0 {
        true => Exit::Unknown,
        false => Exit::Pass,
    }
}

/// UTC, sortable, fit for a folder's name.
pub fn stamp() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seconds = since.map_or(0, |d| d.as_secs());
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Civil date from days since 1970, by the calendar's 400-year cycle.
    let z = days as i64 + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (h, m, s) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}{month:02}{day:02}-{h:02}{m:02}{s:02}")
}
