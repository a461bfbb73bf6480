//! The explanation says what the events say, in the cluster's own time, and nothing more.

use temblor_model::bug::{Bug, Confirmation};
use temblor_model::event::{Event, What};
use temblor_report::explain::explain;
use temblor_report::moments::{Tone, moments};
use temblor_report::timeline::{RoleSpan, Timeline};
use temblor_report::view::BugView;

use crate::sample;

fn view(bug: Bug, events: Vec<Event>, warp: f64) -> BugView {
    let replay = "./temblor replay b3f9c1d2".into();
    BugView::new(bug, sample::spec(), 12, warp, events, replay)
}

fn check(view: &BugView, expected: &[&str]) {
    assert_eq!(explain(view), expected);
}

#[test]
fn a_gray_failure_names_who_was_hurt_and_who_said_all_was_well() {
    check(
        &view(sample::delay_bug(), sample::delay_events(), sample::WARP),
        &[
            "15.2 s into the workload came a delay of 60 s on n1 at Snapshots.send > \
             DataOutputStream.writeUTF, in thread snapshot-sender-3.",
            "The first sign came 7.9 ms later: c1 get k3 → n1 begins and never ends.",
            "40.8 s after the fault the hang checker saw: threads blocked on trio.Store; one more \
             symptom was seen.",
            "It hurt c1 at n1 (of 1 operation, 1 never ended), c2 at n2 (of 5 operations, 4 timed \
             out and 1 got a wrong answer) and c3 at n3 (of 23 operations, 3 failed).",
            "24.0 s after the fault n3 said it was not healthy: no answer; 40.0 s after the fault \
             n3 said it was healthy again.",
            "n1 said all the time that it was healthy.",
            "The faults were healed 52.0 s after the first: no operation succeeded after that.",
            "Times are the cluster's own; its clock ran 8 times faster than the real one.",
            "Replays showed it 3 of 3 times, on the real clock 1 of 1.",
        ],
    );
}

#[test]
fn a_sequence_of_faults_tells_of_roles_and_of_nodes_that_stay_down() {
    check(
        &view(sample::crash_bug(), sample::crash_events(), sample::WARP),
        &[
            "11.2 s into the workload came a crash on n2 at Log.append > FileChannel.force, in \
             thread snapshot-sender-3, 4.00 s later “restart n2”, 6.00 s later “partition n1 | \
             n2,n3”, 12.0 s later “heal the network”.",
            "The first sign came 173 ms later: c2 put k1 v46 → n2 fails: no answer from the \
             leader.",
            "34.4 s after the fault the crash checker saw: a node exited by itself.",
            "It hurt c1 at n1 (of 174 operations, 47 failed) and c2 at n2 (of 174 operations, 24 \
             failed); c3 saw nothing of it.",
            "15.2 s after the fault n3 said it was leader, no longer follower; 24.0 s after the \
             fault n1 said it was follower, no longer leader; 34.4 s after the fault n3 exited \
             with code 1.",
            "n1 said all the time that it was healthy.",
            "The faults were healed 42.4 s after the first: by then the last operation of every \
             client had succeeded; n3 stayed down.",
            "Times are the cluster's own; its clock ran 8 times faster than the real one.",
            "Replays showed it 2 of 3 times.",
        ],
    );
}

#[test]
fn operations_that_succeed_after_the_heal_are_told() {
    let mut events = sample::delay_events();
    // c3 works again while the cluster recovers.
    let heal = 9_600_000;
    let template = events.iter().rev().find_map(|e| match &e.what {
        What::Op(op) if op.client == "c3" => Some(op.clone()),
        _ => None,
    });
    let mut op = template.expect("c3 made operations");
    op.id += 1000;
    for (at_us, ev) in [
        (heal + 100_000, temblor_model::op::OpEvent::Invoke),
        (heal + 120_000, temblor_model::op::OpEvent::Ok),
    ] {
        op.ev = ev;
        let what = What::Op(op.clone());
        events.push(Event { at_us, what });
    }
    let told = explain(&view(sample::delay_bug(), events, sample::WARP));
    let healed = "The faults were healed 52.0 s after the first: operations of c3 succeeded \
                  again, those of c1 did not.";
    assert!(told.iter().any(|s| s == healed), "{told:?}");
}

#[test]
fn who_was_not_well_before_the_fault_was_not_well_all_the_time() {
    let health = |at_us, ok| Event {
        at_us,
        what: What::Health {
            node: "n1".into(),
            ok,
            role: None,
            silent: false,
            answer: "not serving".into(),
        },
    };
    let always = "n1 said all the time that it was healthy.";
    for (ok, expected) in [(true, true), (false, false)] {
        let mut events = sample::delay_events();
        let is_fault = |e: &Event| matches!(e.what, What::Fired { .. });
        let at = events.iter().position(is_fault).expect("it fires");
        let before_us = events[at].at_us - 1;
        let answers = [health(before_us, false), health(before_us, ok)];
        events.splice(at..at, answers);
        let told = explain(&view(sample::delay_bug(), events, sample::WARP));
        assert_eq!(told.iter().any(|s| s == always), expected, "{told:?}");
    }
}

#[test]
fn on_the_real_clock_nothing_is_said_of_clocks() {
    let told = explain(&view(sample::delay_bug(), sample::delay_events(), 1.0));
    assert!(told[0].starts_with("1.90 s into the workload"), "{told:?}");
    assert!(!told.iter().any(|s| s.contains("clock ran")), "{told:?}");
}

#[test]
fn without_events_only_what_the_bug_knows_is_told() {
    let mut bug = sample::delay_bug();
    bug.symptoms.truncate(1);
    bug.confirmed = Confirmation::default();
    check(
        &view(bug.clone(), Vec::new(), 1.0),
        &[
            "3.10 s after the start came a delay of 60 s on n1 at Snapshots.send > \
             DataOutputStream.writeUTF.",
            "5.10 s after the fault the hang checker saw: threads blocked on trio.Store.",
            "No replay was made.",
        ],
    );
    bug.fired.clear();
    let told = explain(&view(bug, Vec::new(), 1.0));
    assert!(told[0].starts_with("No fault is recorded as fired under the plan “delay 60 s at"));
    assert_eq!(
        told[1],
        "The hang checker saw: threads blocked on trio.Store."
    );
}

#[test]
fn roles_are_spans_of_the_timeline_and_changes_are_moments() {
    let view = view(sample::crash_bug(), sample::crash_events(), sample::WARP);
    let timeline = Timeline::of(&view);
    let roles = |lane: usize| {
        let one = |r: &RoleSpan| (r.role.clone(), r.from_us / 1000, r.to_us / 1000, r.single);
        timeline.lanes[lane]
            .roles
            .iter()
            .map(one)
            .collect::<Vec<_>>()
    };
    let span = |role: &str, from, to, single| (role.to_owned(), from, to, single);
    let end = timeline.to_us / 1000;
    assert_eq!(
        roles(0),
        [
            span("leader", 1190, 5600, true),
            span("follower", 5600, end - 80, false)
        ]
    );
    // A node that is gone has no role, nor one it has not told of since.
    assert_eq!(roles(1), [span("follower", 1190, 2603, false)]);
    assert_eq!(
        roles(2),
        [
            span("follower", 1190, 4500, false),
            span("leader", 4500, 6900, true)
        ]
    );
    let rows = moments(&view, 1000);
    let said = rows.iter().filter(|m| m.what.starts_with("says it is"));
    let said: Vec<(&str, &str)> = said.map(|m| (m.who.as_str(), m.what.as_str())).collect();
    assert_eq!(
        said,
        [
            ("n1", "says it is leader"),
            ("n2", "says it is follower"),
            ("n3", "says it is follower"),
            ("n3", "says it is leader, no longer follower"),
            ("n1", "says it is follower, no longer leader"),
        ]
    );
    assert!(
        rows.iter()
            .any(|m| m.what == "clients look at what is left" && m.tone == Tone::Quiet)
    );
}
