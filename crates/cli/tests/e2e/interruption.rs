//! A campaign that is interrupted: nothing stored is lost, nothing is left running, and the rest
//! goes on as if nothing had happened.

use std::collections::BTreeMap;

use crate::mini::Mini;
use crate::program::{LIMIT, Turn, assert_nothing_runs};
use crate::watch::{assert_something_runs, signal, until};

const TRIALS: usize = 8;

/// What is stored of finished trials: number to plan and outcome.
type Stored = BTreeMap<u64, (temblor_model::plan::Plan, String)>;

fn assert_kept(before: &Stored, after: &Stored) {
    for (trial, stored) in before {
        assert_eq!(after.get(trial), Some(stored), "trial {trial} is as it was");
    }
}

/// Kills the lab once so many search trials are done; what was stored by then.
fn kill_in_mid_campaign(mini: &Mini, args: &[&str], done: usize) -> Stored {
    let mut running = mini.start(args);
    until(&format!("{done} trials are done"), || {
        assert!(!running.has_ended(), "ended too soon: {:?}", running.said());
        mini.searched().len() >= done
    });
    assert_something_runs(mini.folder());
    signal(&running, libc::SIGKILL);
    assert_eq!(running.wait(LIMIT).code, -libc::SIGKILL);
    assert_nothing_runs(mini.folder());
    mini.searched()
}

#[test]
fn a_lab_killed_twice_resumes_to_the_campaign_it_would_have_been() {
    let _turn = Turn::wait(2);
    let args = [
        "--policy", "survey", "--seed", "5", "--trials", "8", "--jobs", "2",
    ];
    let whole = Mini::new();
    let output = whole.run(&Mini::campaign(&args));
    assert!([0, 1, 2].contains(&output.code), "{output:#?}");
    let wanted = whole.plans();
    assert_eq!(wanted.len(), TRIALS);

    let mini = Mini::new();
    let first = kill_in_mid_campaign(&mini, &Mini::campaign(&args), 2);
    let second = kill_in_mid_campaign(&mini, &["resume"], 4);
    assert_kept(&first, &second);
    let resumed = mini.run(&["resume", "latest", "--json"]);
    assert_eq!(resumed.json()["trials"], TRIALS, "{resumed:#?}");
    let third = mini.searched();
    assert_kept(&second, &third);
    assert_eq!(third.len(), TRIALS, "each plan has one outcome");
    let in_some_order = |plans: &[temblor_model::plan::Plan]| {
        let mut texts: Vec<String> = plans.iter().map(|p| toml::to_string(p).unwrap()).collect();
        texts.sort();
        texts
    };
    // Those that were under way when the lab died are run again under later numbers.
    assert_eq!(in_some_order(&mini.plans()), in_some_order(&wanted));
    let seeds = |plans: &[temblor_model::plan::Plan]| plans.iter().map(|p| p.seed).next();
    assert_eq!(seeds(&mini.plans()), seeds(&wanted));
    // Once more there is nothing to do, and more can be asked for.
    let idle = mini.run(&["resume", "--json"]);
    assert_eq!(idle.json()["trials"], TRIALS, "{idle:#?}");
    assert_eq!(mini.searched(), third, "nothing was run");
    let more = mini.run(&["resume", "--trials", "10", "--json"]);
    assert_eq!(more.json()["trials"], TRIALS + 2, "{more:#?}");
}

#[test]
fn one_interrupt_ends_in_good_order() {
    let _turn = Turn::wait(1);
    for wanted in [libc::SIGINT, libc::SIGTERM] {
        let mini = Mini::new();
        let mut running = mini.start(&Mini::campaign(&["--trials", "500"]));
        until("a trial is done", || {
            assert!(!running.has_ended(), "ended too soon: {:?}", running.said());
            !mini.searched().is_empty()
        });
        signal(&running, wanted);
        let output = running.wait(LIMIT);
        assert_nothing_runs(mini.folder());
        assert!([1, 2].contains(&output.code), "not a pass: {output:#?}");
        assert!(output.stdout.contains("ended early"), "{output:#?}");
        assert!(output.stderr.contains("temblor resume"), "{output:#?}");
        let latest = mini.latest();
        assert!(
            latest.join("campaign.html").is_file(),
            "the report is written"
        );
        let log = latest.join("trials/1/logs/n1.log");
        assert!(
            std::fs::read_to_string(log)
                .unwrap()
                .contains("serving as n1")
        );
    }
}

#[test]
fn an_interrupt_in_the_clean_runs_is_no_error_of_the_program() {
    let _turn = Turn::wait(1);
    let mini = Mini::new();
    let running = mini.start(&Mini::campaign(&["--trials", "1"]));
    assert_something_runs(mini.folder());
    until("the first node has begun", || {
        mini.latest().join("trials/1/logs/n1.log").is_file()
    });
    signal(&running, libc::SIGINT);
    let output = running.wait(LIMIT);
    assert_nothing_runs(mini.folder());
    output.check(2, &["ended on request", "temblor resume"]);
    let resumed = mini.run(&["resume", "--json"]);
    assert_eq!(resumed.json()["trials"], 1, "{resumed:#?}");
}
