//! Trials that differ only in the length of one delay are told side by side.

use temblor_model::bug::{FiredFault, Judgement, Misbehaviour, Symptom, Verdict};
use temblor_model::campaign::Purpose;
use temblor_report::html;
use temblor_report::lengths::{Swept, swept};
use temblor_report::view::{CampaignView, TrialLine};

use crate::folded::folded;
use crate::pages::{assert_balanced, assert_harmless};
use crate::sample;

/// A trial of the search: fault, site and verdict, and what the thread that was hit logs.
fn line(trial: u64, (fault, site, verdict): (&str, &str, Verdict), log: &[&str]) -> TrialLine {
    let mut outcome = sample::outcome(trial, verdict, true);
    outcome.fired = vec![FiredFault {
        state: Some(format!(
            "{} of {site}",
            if trial == 2 { "end" } else { "start" }
        )),
        ..sample::fired_fault("n1", site, fault, 1)
    }];
    let symptom = |shows, line: &str| Symptom {
        shows,
        ..sample::symptom("log", line, &[], 2)
    };
    let reaction = |line: &&str| symptom(Misbehaviour::Reaction((*line).into()), line);
    let noise = symptom(Misbehaviour::Log("noise".into()), &format!("noise {trial}"));
    let said = log.iter().map(reaction).chain([noise]);
    outcome.judgements.push(Judgement {
        checker: "log".into(),
        verdict: Verdict::Pass,
        symptoms: said.collect(),
        reason: None,
    });
    TrialLine {
        trial,
        purpose: Purpose::Search,
        plan: sample::delay_plan(),
        outcome,
        bugs: Vec::new(),
    }
}

fn view(trials: Vec<TrialLine>) -> CampaignView {
    CampaignView {
        trials,
        ..folded(sample::spec(), [])
    }
}

const READ: &str = "x.A.read()>y.In.read#0";
const WRITE: &str = "x.B.write()>y.Out.write#0";
const FLUSH: &str = "x.C.flush()>y.Out.flush#0";

fn some() -> CampaignView {
    use Verdict::{Fail, Pass};
    let mut replay = line(9, ("delay 5 s", FLUSH, Fail), &[]);
    replay.purpose = Purpose::Confirm;
    let mut two = line(10, ("delay 5 s", FLUSH, Fail), &[]);
    two.outcome.fired.push(two.outcome.fired[0].clone());
    view(vec![
        line(1, ("delay 300 s", READ, Pass), &["a closed key"]),
        line(
            2,
            ("delay 12 s", READ, Pass),
            &["a closed key", sample::HOSTILE],
        ),
        line(3, ("delay 60 s", WRITE, Fail), &["slow"]),
        line(4, ("delay 15 s", WRITE, Pass), &["slow"]),
        line(5, ("delay 15 s", WRITE, Pass), &[]),
        line(6, ("delay 60 s", FLUSH, Pass), &[]),
        line(7, ("delay 60 s", FLUSH, Pass), &["slow"]),
        line(8, ("throw java.io.IOException", FLUSH, Fail), &[]),
        replay,
        two,
    ])
}

fn told(place: &Swept) -> Vec<(u64, &[u64], Verdict, Vec<&str>)> {
    let lengths = place.lengths.iter();
    let told = lengths.map(|l| {
        let only = l.only.iter().map(String::as_str).collect();
        (l.ms, l.trials.as_slice(), l.verdict, only)
    });
    told.collect()
}

#[test]
fn lengths_that_make_a_difference_are_told_different_verdicts_first() {
    let swept = swept(&some());
    assert_eq!(
        swept.len(),
        2,
        "one length is nothing to compare: {swept:?}"
    );
    assert_eq!((swept[0].site.as_str(), swept[0].turns()), (WRITE, true));
    let failed: Vec<String> = sample::delay_bug()
        .symptoms
        .into_iter()
        .map(|s| s.summary)
        .collect();
    let mut failed: Vec<&str> = failed.iter().map(String::as_str).collect();
    failed.sort_unstable();
    assert_eq!(
        told(&swept[0]),
        [
            (15_000, &[4, 5][..], Verdict::Pass, vec![]),
            (60_000, &[3][..], Verdict::Fail, failed),
        ]
    );
    assert_eq!((swept[1].site.as_str(), swept[1].turns()), (READ, false));
    assert!(swept[0].state.is_some() && swept[1].state.is_none());
    // What the longer delay does not bring about any more.
    assert_eq!(
        told(&swept[1]),
        [
            (12_000, &[2][..], Verdict::Pass, vec![sample::HOSTILE]),
            (300_000, &[1][..], Verdict::Pass, vec![]),
        ]
    );
}

#[test]
fn the_page_tells_them_and_stays_silent_without_any() {
    let title = "What the length of a delay changes";
    let page = html::campaign(&some());
    assert_balanced(&page);
    assert_harmless(&page);
    for part in [
        title,
        "delay 15 s: pass",
        "delay 60 s: fail",
        "delay 300 s: pass",
        "trials 4, 5<",
        "in start of x.B.write",
        "B.write &gt; Out.write",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
    assert!(!html::campaign(&view(Vec::new())).contains(title));
}
