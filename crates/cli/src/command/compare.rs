//! `temblor compare`: several policies on one target, each with several seeds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use temblor_cluster::target::Choice;
use temblor_lab::LabError;
use temblor_model::campaign::CampaignSpec;
use temblor_model::history::Baseline;
use temblor_report::console::{Look, Paint};
use temblor_report::contest::{Entry, Turn, resume_command};
use temblor_report::progress::plural;
use temblor_report::view::span;
use temblor_report::{Contest, Store, StoreError, find_contest, publish};

use super::{campaign, resume};
use crate::args::CompareArgs;
use crate::exit::{BadInput, EndedEarly, Exit};
use crate::prepare::{self, Prepared};
use crate::print::print;
use crate::stop;
use crate::stream::Show;

pub fn run(root: &Path, args: &CompareArgs) -> anyhow::Result<Exit> {
    let mut stage = match &args.resume {
        Some(wanted) => Stage::resume(root, wanted)?,
        None => Stage::begin(root, args)?,
    };
    stage.json = args.campaign.json;
    // A Ctrl-C between two campaigns counts as well.
    stop::on_request();
    for turn in stage.contest.left() {
        if stop::was_requested() {
            break;
        }
        stage.run(&turn)?;
    }
    let page = publish::contest(&stage.contest, &stage.folder)?;
    match stage.json {
        true => print(&stage.contest.json())?,
        false => {
            let paint = Paint(Look::of_stdout().colour);
            print(&format!("\n{}", stage.contest.lines(paint).join("\n")))?;
        }
    }
    eprintln!("  look    {}", page.display());
    if !stage.contest.left().is_empty() {
        eprintln!("temblor: ended early; go on with {}", stage.go_on());
    }
    Ok(exit_of(&stage.contest))
}

/// A contest in its folder, with the target it is about.
struct Stage {
    contest: Contest,
    folder: PathBuf,
    /// The store it lies in, wherever it is gone on with from: its campaigns lie beside it.
    root: PathBuf,
    prepared: Prepared,
    json: bool,
}

impl Stage {
    fn begin(root: &Path, args: &CompareArgs) -> anyhow::Result<Stage> {
        check_policies(&args.policies)?;
        let (shared, target) = (&args.campaign, args.target.as_deref().unwrap_or_default());
        let choice = Choice {
            workload: shared.workload.clone(),
            nodes: shared.nodes,
        };
        let prepared = prepare::prepare(target, &choice, shared.jdk_sites)?;
        let spec = CampaignSpec {
            trials: args.trials,
            confirm: args.confirm,
            confirm_unwarped: args.confirm_unwarped,
            shrink: args.shrink,
            ..campaign::spec(target, shared, &prepared)
        };
        let seeds = (0..args.seeds).collect();
        let contest = Contest::new(spec, args.policies.clone(), seeds);
        let nodes = prepared.target.cast.hooked(shared.hook_clients);
        for turn in contest.left() {
            let bad = |e: LabError| BadInput(e.to_string());
            let spec = contest.spec_of(&turn);
            temblor_lab::check(&spec, &prepared.catalog, &nodes).map_err(bad)?;
        }
        let folder = contest.create_folder(root, &campaign::stamp())?;
        publish::contest(&contest, &folder)?;
        Ok(Stage {
            contest,
            folder,
            root: root.to_owned(),
            prepared,
            json: false,
        })
    }

    fn resume(root: &Path, wanted: &str) -> anyhow::Result<Stage> {
        let bad = |e: StoreError| BadInput(e.to_string());
        let folder = find_contest(root, wanted).map_err(bad)?;
        let whole = std::fs::canonicalize(&folder).context("cannot find where the folder is")?;
        let root = whole.ancestors().nth(2).unwrap_or(root).to_owned();
        let contest = Contest::open(&folder).map_err(bad)?;
        let spec = &contest.spec;
        let choice = prepare::choice_of(spec);
        let prepared = prepare::prepare(prepare::place_of(spec), &choice, spec.jdk_sites)?;
        Ok(Stage {
            contest,
            folder,
            root,
            prepared,
            json: false,
        })
    }

    /// One campaign, from its beginning or from where it was left.
    fn run(&mut self, turn: &Turn) -> anyhow::Result<()> {
        let mut store = self.store(turn)?;
        resume::check_unchanged(&store, &self.prepared)?;
        let path = store.path().to_path_buf();
        // Known to `--resume` before anything of it runs.
        self.contest.put(Entry::gather(&store, false)?);
        publish::contest(&self.contest, &self.folder)?;
        let (done, of) = self.contest.done();
        let name = format!("{}, seed {}", turn.policy, turn.seed);
        self.tell(&format!(
            "campaign {} of {of}: {name} · {}",
            done + 1,
            path.display()
        ))?;
        store
            .claim()
            .map_err(|e: StoreError| BadInput(e.to_string()))?;
        let past = resume::past(&store)?;
        let ran = campaign::run(&self.prepared, store, past, Show::Aside, None);
        let finished = ran.is_ok() && !stop::was_requested();
        let entry = Entry::gather(&Store::open(&path)?, finished)?;
        self.tell(&format!("  {}", ended(&entry)))?;
        self.contest.put(entry);
        publish::contest(&self.contest, &self.folder)?;
        match ran {
            Ok(_) => Ok(()),
            Err(e) if e.is::<EndedEarly>() => {
                let text = format!("{name}: ended on request; go on with {}", self.go_on());
                Err(EndedEarly(text).into())
            }
            Err(e) => Err(e).with_context(|| format!("{name} (go on with {})", self.go_on())),
        }
    }

    /// The campaign's store: what was begun goes on, what is new needs no clean runs of its own.
    fn store(&self, turn: &Turn) -> anyhow::Result<Store> {
        let begun = turn.folder.as_ref().map(|name| self.beside(name));
        if let Some(path) = begun.filter(|p| p.join("campaign.toml").is_file()) {
            return Store::open(&path).map_err(|e| BadInput(e.to_string()).into());
        }
        let store =
            campaign::create_store(&self.root, &self.contest.spec_of(turn), &self.prepared)?;
        if let Some(baseline) = self.baseline()? {
            store.write_baseline(&baseline)?;
        }
        Ok(store)
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.folder.parent().unwrap_or(Path::new(".")).join(name)
    }

    /// What the clean runs of the first campaign taught.
    fn baseline(&self) -> anyhow::Result<Option<Baseline>> {
        for entry in &self.contest.campaigns {
            let Ok(store) = Store::open(&self.beside(&entry.folder)) else {
                continue;
            };
            if let Some(baseline) = store.baseline()? {
                return Ok(Some(baseline));
            }
        }
        Ok(None)
    }

    /// A line for people, off the way of JSON.
    fn tell(&self, text: &str) -> anyhow::Result<()> {
        match self.json {
            true => eprintln!("{text}"),
            false => print(text)?,
        }
        Ok(())
    }

    fn go_on(&self) -> String {
        resume_command(&self.folder.display().to_string())
    }
}

/// Names that no policy has, and names that are there twice, are told before anything runs.
fn check_policies(policies: &[String]) -> anyhow::Result<()> {
    let known: Vec<&str> = temblor_explore::policy::names().collect();
    let mut seen = BTreeSet::new();
    for policy in policies {
        if !known.contains(&policy.as_str()) {
            let known = known.join(", ");
            let text = format!("there is no policy `{policy}`; choose from {known}");
            return Err(BadInput(text).into());
        }
        if !seen.insert(policy) {
            let text = format!("policy `{policy}` is named twice; `--seeds` asks for more of each");
            return Err(BadInput(text).into());
        }
        if policy == "replay" {
            let text = "policy `replay` runs one given plan: there is nothing to compare";
            return Err(BadInput(text.into()).into());
        }
    }
    Ok(())
}

fn ended(entry: &Entry) -> String {
    let early = if entry.finished { "" } else { " (ended early)" };
    format!(
        "{} in {}, {}, {} fired{early}",
        plural(entry.bugs.len() as u64, "bug"),
        plural(entry.trials, "trial"),
        span(entry.seconds.round() as u64),
        plural(entry.injections, "fault")
    )
}

/// As of one campaign: bugs, else doubts, else a pass.
fn exit_of(contest: &Contest) -> Exit {
    let all = &contest.campaigns;
    if all.iter().any(|e| !e.bugs.is_empty()) {
        return Exit::BugsFound;
    }
    let untested = |e: &&Entry| e.trials > 0 && e.fired == 0 && e.policy != "clean";
    for entry in all.iter().filter(untested) {
        let Entry { policy, seed, .. } = entry;
        eprintln!("temblor: {policy}, seed {seed}: no fault fired, nothing was tested");
    }
    let doubtful = |e: &Entry| e.trials == 0 || e.unknown > 0 || untested(&e);
    match !contest.left().is_empty() || all.iter().any(doubtful) {
        true => Exit::Unknown,
        false => Exit::Pass,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(policies: &[&str]) -> Result<(), String> {
        let policies: Vec<String> = policies.iter().map(|p| p.to_string()).collect();
        check_policies(&policies).map_err(|e| e.to_string())
    }

    #[test]
    fn policies_are_checked_by_name() {
        assert_eq!(check(&["survey", "scatter"]), Ok(()));
        let unknown = check(&["scatter", "lucky"]).unwrap_err();
        assert!(unknown.contains("`lucky`") && unknown.contains("survey"));
        assert!(
            check(&["scatter", "scatter"])
                .unwrap_err()
                .contains("twice")
        );
        assert!(check(&["replay"]).unwrap_err().contains("nothing to"));
    }

    #[test]
    fn the_exit_code_is_that_of_the_worst_campaign() {
        let spec: CampaignSpec = toml::from_str(
            "format = 1\ntarget = \"x@1\"\npolicy = \"scatter\"\nseed = 0\ntrials = 2\n\
             budget_s = 0\njobs = 1\nwarp = \"off\"\nfaults = []\nsites = \"\"\n\
             baselines = 1\nconfirm = 0\nconfirm_unwarped = 0\n",
        )
        .unwrap();
        let policies = ["survey", "scatter"].map(String::from).to_vec();
        let mut contest = Contest::new(spec, policies, vec![0]);
        let entry = |policy: &str, fired, unknown| Entry {
            policy: policy.into(),
            finished: true,
            trials: 2,
            fired,
            unknown,
            ..Entry::default()
        };
        contest.put(entry("survey", 2, 0));
        assert_eq!(exit_of(&contest), Exit::Unknown, "one is left");
        contest.put(entry("scatter", 1, 0));
        assert_eq!(exit_of(&contest), Exit::Pass);
        contest.put(entry("scatter", 1, 1));
        assert_eq!(
            exit_of(&contest),
            Exit::Unknown,
            "a trial without a verdict"
        );
        contest.put(entry("scatter", 0, 0));
        assert_eq!(exit_of(&contest), Exit::Unknown, "nothing fired");
    }
}
