//! `temblor check`: the stored trials of a campaign judged again, with today's checkers.
//!
//! Every trial meets the baseline it met in its campaign: clean runs none, trials on the real
//! clock the clean run on it that came before them, all others the stored one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use temblor_explore::{checker, learn_baseline};
use temblor_model::bug::{Outcome, Verdict};
use temblor_model::campaign::Purpose;
use temblor_model::history::{Baseline, History};
use temblor_model::plan::Plan;
use temblor_report::{Store, StoreError, find_campaign};

use crate::args::CheckArgs;
use crate::exit::{BadInput, Exit};
use crate::print::print;

/// The object that `--json` prints.
#[derive(Debug, Default, Serialize)]
struct Checked {
    format: u32,
    store: String,
    /// Finished trials in the store.
    trials: usize,
    judged: usize,
    /// Trials that cannot be judged again, and why.
    unjudged: Vec<Unjudged>,
    changed: Vec<Change>,
    /// Trials whose new judgements were stored.
    written: usize,
}

#[derive(Debug, PartialEq, Serialize)]
struct Unjudged {
    trial: u64,
    why: String,
}

/// A trial that is seen differently now.
#[derive(Debug, PartialEq, Serialize)]
struct Change {
    trial: u64,
    purpose: Purpose,
    before: Verdict,
    after: Verdict,
    /// `checker: summary` of failures that are no longer seen, and that were not seen then.
    gone: Vec<String>,
    new: Vec<String>,
}

/// A trial judged again: what changed for its reader, and its outcome if that is another one.
struct Rejudged {
    change: Option<Change>,
    outcome: Option<Outcome>,
}

const FORMAT: u32 = 1;

pub fn run(root: &Path, args: &CheckArgs) -> anyhow::Result<Exit> {
    let bad = |e: StoreError| BadInput(e.to_string());
    let dir = find_campaign(root, &args.campaign).map_err(bad)?;
    let mut store = Store::open(&dir).map_err(bad)?;
    if args.write {
        store.claim().map_err(bad)?;
    }
    let checked = check(&store, args.write)?;
    match args.json {
        true => print(&serde_json::to_string(&checked)?)?,
        false => print(&checked.lines(args.write).join("\n"))?,
    }
    Ok(checked.exit())
}

fn check(store: &Store, write: bool) -> anyhow::Result<Checked> {
    let trials: Vec<(u64, (Plan, Outcome))> = store.outcomes()?.into_iter().collect();
    let purposes = store.purposes()?;
    let purpose = |trial: u64| purposes.get(&trial).copied().unwrap_or(Purpose::Search);
    let clean = Clean::of(store, &trials, purpose)?;
    let next = AtomicUsize::new(0);
    let results = Mutex::new(BTreeMap::new());
    let work = || {
        while let Some((trial, (plan, outcome))) = trials.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let judged = judge(store, &clean, purpose(*trial), plan, outcome);
            let mut results = results.lock().unwrap_or_else(|e| e.into_inner());
            results.insert(*trial, judged);
        }
    };
    let jobs = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(work);
        }
    });
    let mut checked = Checked {
        format: FORMAT,
        store: store.path().display().to_string(),
        trials: trials.len(),
        ..Checked::default()
    };
    for (trial, judged) in results.into_inner().unwrap_or_else(|e| e.into_inner()) {
        match judged {
            Err(why) => checked.unjudged.push(Unjudged { trial, why }),
            Ok(rejudged) => {
                checked.judged += 1;
                checked.changed.extend(rejudged.change);
                if let Some(outcome) = rejudged.outcome.filter(|_| write) {
                    store.rejudge(&outcome)?;
                    checked.written += 1;
                }
            }
        }
    }
    Ok(checked)
}

/// The baselines a campaign judged by.
struct Clean {
    stored: Option<Baseline>,
    /// Clean runs on the real clock beside those on the campaign's own: they are not stored, but
    /// learned from one run each.
    real: BTreeMap<u64, Baseline>,
}

impl Clean {
    fn of(
        store: &Store,
        trials: &[(u64, (Plan, Outcome))],
        purpose: impl Fn(u64) -> Purpose,
    ) -> Result<Clean, StoreError> {
        let stored = store.baseline()?;
        let mut real = BTreeMap::new();
        let warped = stored.as_ref().is_some_and(|b| b.warp > 1.0);
        for (trial, (plan, outcome)) in trials.iter().filter(|_| warped) {
            let clean = purpose(*trial) == Purpose::Baseline && outcome.warp == 1.0;
            if clean
                && outcome.verdict == Verdict::Pass
                && let Some(history) =
                    History::from_events(plan.clone(), store.events(*trial)?.values)
            {
                real.insert(*trial, learn_baseline(&[history]));
            }
        }
        Ok(Clean { stored, real })
    }

    fn at(&self, outcome: &Outcome) -> Option<&Baseline> {
        let before = self.real.range(..outcome.trial).next_back();
        let real = before.filter(|_| outcome.warp == 1.0);
        real.map(|(_, baseline)| baseline).or(self.stored.as_ref())
    }
}

fn judge(
    store: &Store,
    clean: &Clean,
    purpose: Purpose,
    plan: &Plan,
    before: &Outcome,
) -> Result<Rejudged, String> {
    let events = store.events(before.trial).map_err(|e| e.to_string())?;
    if events.values.is_empty() {
        return Err("its events are gone".into());
    }
    if events.torn > 0 {
        return Err(format!("{} of its events cannot be read", events.torn));
    }
    let Some(history) = History::from_events(plan.clone(), events.values) else {
        return Err("its events do not say who took part: an older Temblor stored them".into());
    };
    let baseline = match purpose {
        Purpose::Baseline => None,
        _ => Some(clean.at(before).ok_or("the baseline is gone")?),
    };
    // That a fault was none is for the analysis to say, not for checkers.
    let judgements = match before
        .judgements
        .iter()
        .any(|j| j.checker == checker::FAULT)
    {
        true => before.judgements.clone(),
        false => checker::judge_all(&history, baseline, &checker::all()),
    };
    Ok(compared(
        purpose,
        before,
        Outcome {
            verdict: checker::verdict(&judgements),
            judgements,
            ..before.clone()
        },
    ))
}

fn compared(purpose: Purpose, before: &Outcome, after: Outcome) -> Rejudged {
    let (then, now) = (failures(before), failures(&after));
    let change = Change {
        trial: before.trial,
        purpose,
        before: before.verdict,
        after: after.verdict,
        gone: then.difference(&now).cloned().collect(),
        new: now.difference(&then).cloned().collect(),
    };
    let same = change.before == change.after && change.gone.is_empty() && change.new.is_empty();
    Rejudged {
        change: (!same).then_some(change),
        outcome: (after != *before).then_some(after),
    }
}

/// What failing checkers saw, as words.
fn failures(outcome: &Outcome) -> BTreeSet<String> {
    let failing = outcome.judgements.iter();
    let failing = failing.filter(|j| j.verdict == Verdict::Fail);
    let symptoms = failing.flat_map(|j| &j.symptoms);
    symptoms
        .map(|s| format!("{}: {}", s.checker, s.summary))
        .collect()
}

impl Checked {
    /// As `diff`: 1 says that something changed.
    fn exit(&self) -> Exit {
        match self.changed.is_empty() {
            false => Exit::BugsFound,
            true if self.judged == 0 || !self.unjudged.is_empty() => Exit::Unknown,
            true => Exit::Pass,
        }
    }

    fn lines(&self, write: bool) -> Vec<String> {
        let mut lines = Vec::new();
        for change in &self.changed {
            let (before, after) = (name(&change.before), name(&change.after));
            let turn = match before == after {
                true => format!("still {before}"),
                false => format!("{before} → {after}"),
            };
            let purpose = name(&change.purpose);
            lines.push(format!("trial {} ({purpose}): {turn}", change.trial));
            lines.extend(change.gone.iter().map(|s| format!("  - {}", plain(s))));
            lines.extend(change.new.iter().map(|s| format!("  + {}", plain(s))));
        }
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.push(format!(
            "{} of {} trials judged again, {} changed{}",
            self.judged,
            self.trials,
            self.changed.len(),
            self.turns()
        ));
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for unjudged in &self.unjudged {
            *reasons.entry(&unjudged.why).or_default() += 1;
        }
        let cannot = |(why, trials): (&str, usize)| format!("{trials} not judged: {}", plain(why));
        lines.extend(reasons.into_iter().map(cannot));
        match (write, self.changed.is_empty()) {
            (true, _) => lines.push(format!(
                "{} outcomes written, the first ones kept as outcome.json.before; bugs are as \
                 they were; ./temblor report {} writes the pages again",
                self.written, self.store
            )),
            (false, false) => {
                lines.push("nothing was written; --write stores the new judgements".into());
            }
            (false, true) => {}
        }
        lines
    }

    /// ` (2 pass → fail, 1 fail → pass)`: changes of verdicts.
    fn turns(&self) -> String {
        let mut turns: BTreeMap<(Verdict, Verdict), usize> = BTreeMap::new();
        for change in self.changed.iter().filter(|c| c.before != c.after) {
            *turns.entry((change.before, change.after)).or_default() += 1;
        }
        let turns = turns.into_iter();
        let turns: Vec<String> = turns
            .map(|((before, after), n)| format!("{n} {} → {}", name(&before), name(&after)))
            .collect();
        match turns.is_empty() {
            true => String::new(),
            false => format!(" ({})", turns.join(", ")),
        }
    }
}

/// The word that stands for a verdict or a purpose in every stored form.
fn name<T: Serialize>(value: &T) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// Summaries come from logs of foreign systems; a terminal must not obey them.
fn plain(text: &str) -> String {
    text.replace(char::is_control, "?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use temblor_model::event::Event;

    const SPEC: &str = r#"
        format = 1
        target = "sample@1"
        policy = "survey"
        seed = 1
        trials = 4
        budget_s = 0
        jobs = 1
        warp = "off"
        faults = ["throw"]
        delay_ms = 1000
        sites = ""
        baselines = 1
        confirm = 0
        confirm_unwarped = 0
    "#;
    const BEGAN: &str = r#"{"at_us":1,"event":"began","nodes":["n1"],"clients":[],"warp":1.0}"#;
    const DIES: &str = r#"
        {"at_us":10,"event":"node-started","node":"n1","incarnation":1,"pid":7}
        {"at_us":20,"event":"node-ready","node":"n1"}
        {"at_us":30,"event":"stage","stage":"workload"}
        {"at_us":40,"event":"node-exited","node":"n1","code":1,"signal":null,"injected":false}
        {"at_us":90,"event":"stage","stage":"stop"}"#;

    fn outcome(trial: u64, warp: f64) -> Outcome {
        Outcome {
            format: Outcome::FORMAT,
            trial,
            verdict: Verdict::Pass,
            judgements: Vec::new(),
            fired: Vec::new(),
            unreached: Vec::new(),
            warp,
            seconds: 1.0,
            cpu_seconds: 1.0,
            visits: Vec::new(),
            from: None,
        }
    }

    /// A trial that is stored as passed, whatever its events say.
    fn passed(store: &Store, trial: u64, events: &str) {
        let lines = events.lines().map(str::trim).filter(|l| !l.is_empty());
        let events = lines.map(|l| serde_json::from_str(l).unwrap());
        let events: Vec<Event> = events.collect();
        let mut lines = store.start_trial(trial, &Plan::clean()).unwrap();
        lines.append(&events).unwrap();
        store.write_outcome(&outcome(trial, 1.0)).unwrap();
    }

    fn sample(root: &Path) -> Store {
        let store = Store::create(root, &toml::from_str(SPEC).unwrap(), "t").unwrap();
        let baseline = Baseline {
            format: 1,
            warp: 1.0,
            ready_ms: 100,
            ..Baseline::default()
        };
        store.write_baseline(&baseline).unwrap();
        passed(&store, 1, &format!("{BEGAN}\n{DIES}"));
        passed(&store, 2, DIES);
        passed(&store, 3, "");
        store
    }

    #[test]
    fn what_changed_is_told_and_stored_only_on_request() {
        let root = tempfile::tempdir().unwrap();
        let store = sample(root.path());
        let file = store.trial_dir(1).join("outcome.json");
        let before = std::fs::read(&file).unwrap();
        let checked = check(&store, false).unwrap();
        assert_eq!((checked.trials, checked.judged), (3, 1));
        let change = &checked.changed[0];
        assert_eq!((change.trial, &change.gone), (1, &Vec::new()));
        assert_eq!(
            (change.before, change.after),
            (Verdict::Pass, Verdict::Fail)
        );
        assert!(change.new[0].starts_with("crash: "), "{change:?}");
        assert_eq!(checked.exit(), Exit::BugsFound);
        let text = checked.lines(false).join("\n");
        for words in [
            "trial 1 (search): pass → fail\n  + crash: ",
            "1 of 3 trials judged again, 1 changed (1 pass → fail)",
            "1 not judged: its events are gone",
            "1 not judged: its events do not say who took part",
            "nothing was written",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert_eq!(std::fs::read(&file).unwrap(), before);

        assert_eq!(check(&store, true).unwrap().written, 1);
        let kept = std::fs::read(file.with_file_name("outcome.json.before")).unwrap();
        assert_eq!(kept, before);
        let again = check(&store, true).unwrap();
        assert_eq!((again.changed.len(), again.written), (0, 0));
        assert_eq!(again.exit(), Exit::Unknown, "not all could be judged");
    }

    #[test]
    fn trials_on_the_real_clock_meet_the_clean_run_before_them() {
        let known = |runs| Baseline {
            runs,
            ..Baseline::default()
        };
        let clean = Clean {
            stored: Some(known(8)),
            real: BTreeMap::from([(3, known(3)), (9, known(9))]),
        };
        for (trial, warp, runs) in [
            (2, 1.0, 8),
            (5, 1.0, 3),
            (5, 10.0, 8),
            (9, 1.0, 3),
            (12, 1.0, 9),
        ] {
            let met = clean.at(&outcome(trial, warp)).unwrap();
            assert_eq!(met.runs, runs, "trial {trial} at {warp}");
        }
    }

    #[test]
    fn a_terminal_is_not_obeyed() {
        assert_eq!(plain("a\x1b[31m\nb"), "a?[31m?b");
    }
}
