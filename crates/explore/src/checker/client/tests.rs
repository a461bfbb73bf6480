//! Scripted histories for each rule of the checker, with those that must pass.

use temblor_model::bug::Verdict;

use super::*;
use crate::scripted::{self, baseline, history};

#[track_caller]
fn check(script: &str, expected: &[&str]) {
    scripted::check(&Client, script, expected);
}

const THROW: &str = "up\n 300 fired n1 t throw java.io.IOException\n";

fn ops(client: &str, kind: &str, from: u64, how: &str) -> String {
    scripted::ops(client, kind, from, 100, how)
}

fn done() -> String {
    "90000 done c1\n90000 done c2\n90000 done c3\n90001 client c1 exit 0\n90002 stage stop".into()
}

#[test]
fn operations_that_succeed_pass() {
    check(
        &format!("up\n{}{}", ops("c1", "put", 200, "ok"), done()),
        &["pass"],
    );
}

#[test]
fn an_operation_that_never_ends_is_stuck() {
    let stuck = format!("{THROW} 200 op c2 put 1 invoke\n 30000 deadline\n 30001 stage stop");
    check(
        &stuck,
        &["a client of another node is stuck: put in phase write never ended"],
    );
    let own = format!("{THROW} 9000 op c1 get@read 1 invoke\n 30000 deadline\n 30001 stage stop");
    check(
        &own,
        &["a client of the faulted node is stuck: get in phase read never ended"],
    );
    // Without a deadline, what counts is that the lab stopped it.
    let stopped = format!("{THROW} 200 op c2 put 1 invoke\n 30000 stage stop");
    check(
        &stopped,
        &["a client of another node is stuck: put in phase write never ended"],
    );
}

#[test]
fn an_operation_that_ends_late_is_not_stuck() {
    let late = format!(
        "{THROW} 200 op c2 put 1 invoke\n 29000 op c2 put 1 ok\n{}",
        done()
    );
    check(&late, &["pass"]);
}

#[test]
fn an_operation_begun_just_before_the_deadline_is_unknown() {
    check(
        &format!("{THROW} 29000 op c2 put 1 invoke\n 30000 deadline\n 30001 stage stop"),
        &["unknown"],
    );
}

#[test]
fn a_client_that_begins_nothing_more_may_sleep() {
    let script = format!(
        "{THROW} 200 op c2 put 1 invoke\n 210 op c2 put 1 ok\n 90000 done c1\n\
         90000 done c3\n 90001 deadline\n 90002 stage stop"
    );
    check(&script, &["unknown"]);
}

#[test]
fn different_operations_of_one_phase_count_together() {
    let op = |at: u64, kind: &str| {
        format!(
            "{at} op c3 {kind} {at} invoke\n {} op c3 {kind} {at} timeout\n",
            at + 50
        )
    };
    let fails = op(9_000, "put") + &op(9_100, "get") + &op(9_200, "put");
    let others = ops("c2", "put", 9_000, "ok");
    check(
        &format!("{THROW}{fails}{others}{}", done()),
        &["a client of another node makes no progress: \
            get and put in phase write keeps failing"],
    );
}

#[test]
fn two_late_time_outs_are_no_accident() {
    let late = |client: &str, at: u64, how: &str| {
        format!(
            "{at} op {client} await@final {at} invoke\n\
             {} op {client} await@final {at} {how}\n",
            at + 50
        )
    };
    let (a, b) = (
        late("c1", 50_000, "timeout"),
        late("c3", 50_100, "timeout: suspended"),
    );
    let said = ["time-outs long after the fault: await in phase final"];
    check(&format!("{THROW}{a}{b}{}", done()), &said);
    check(&format!("{THROW}{a}{}", done()), &["pass"]);
    check(&format!("up\n{a}{b}{}", done()), &["pass"]);
    let early = late("c1", 20_000, "timeout") + &late("c3", 20_100, "timeout");
    check(&format!("{THROW}{early}{}", done()), &["pass"]);
    let refused = late("c1", 50_000, "fail") + &late("c3", 50_100, "fail");
    check(&format!("{THROW}{refused}{}", done()), &["pass"]);
}

#[test]
fn a_delay_explains_what_waits_for_it() {
    let delay = "up\n 300 fired n1 t delay 60000\n";
    let waits = " 400 op c2 put 1 invoke\n";
    check(
        &format!("{delay}{waits} 61000 op c2 put 1 timeout\n{}", done()),
        &["pass"],
    );
    check(
        &format!("{delay}{waits} 62000 deadline\n 62001 stage stop"),
        &["unknown"],
    );
    // Over at 60.3 s, 5 s of grace, 2 s of patience: here it should have ended.
    let stuck = ["a client of another node is stuck: put in phase write never ended"];
    check(
        &format!("{delay}{waits} 68000 deadline\n 68001 stage stop"),
        &stuck,
    );
}

#[test]
fn warp_shortens_what_a_delay_explains() {
    let script = "up\n 300 fired n1 t delay 60000\n 400 op c2 put 1 invoke\n\
     20000 deadline\n 20001 stage stop";
    let mut warped = history(script);
    let unwarped = Client.judge(&warped, Some(&baseline()));
    assert_eq!(unwarped.verdict, Verdict::Unknown);
    warped.warp = 10.0;
    let judgement = Client.judge(&warped, Some(&baseline()));
    assert_eq!(judgement.verdict, Verdict::Fail);
}

#[test]
fn a_crashed_node_excuses_its_clients_until_it_is_back() {
    let crash = "up\n 300 fired n1 t crash\n 301 kill n1\n";
    let fails = ops("c1", "put", 8_000, "fail: refused");
    check(&format!("{crash}{fails}{}", done()), &["pass"]);
    let hangs = " 8000 op c1 put 1 invoke\n 90000 done c2\n 90000 done c3\n\
     90001 deadline\n 90002 stage stop";
    check(&format!("{crash}{hangs}"), &["pass"]);
    let back = " 1000 start n1\n 1100 ready n1\n";
    let others = ops("c2", "put", 8_000, "ok");
    check(
        &format!("{crash}{back}{fails}{others}{}", done()),
        &["a client of the faulted node makes no progress: put in phase write keeps failing"],
    );
}

#[test]
fn a_crash_excuses_other_nodes_only_for_a_while() {
    let crash = "up\n 300 fired n1 t crash\n 301 kill n1\n";
    let soon = ops("c2", "put", 400, "timeout") + &ops("c2", "put", 6_000, "ok");
    check(&format!("{crash}{soon}{}", done()), &["pass"]);
    let late = ops("c2", "put", 8_000, "timeout") + &ops("c3", "put", 8_000, "ok");
    check(
        &format!("{crash}{late}{}", done()),
        &["a client of another node makes no progress: put in phase write keeps failing"],
    );
}

#[test]
fn without_a_majority_nobody_can_work() {
    let crashes = "up\n 300 fired n1 t crash\n 301 kill n1\n 400 fired n2 t crash\n 401 kill n2\n";
    check(
        &format!("{crashes}{}{}", ops("c3", "put", 20_000, "timeout"), done()),
        &["pass"],
    );
}

#[test]
fn a_service_that_is_gone_for_all_is_no_progress() {
    let all: String = ["c1", "c2", "c3"]
        .map(|c| ops(c, "put", 9_000, "timeout"))
        .concat();
    check(
        &format!("{THROW}{all}{}", done()),
        &["every client makes no progress: put in phase write keeps failing"],
    );
}

#[test]
fn failures_around_the_fault_and_single_ones_pass() {
    let around = ops("c1", "put", 310, "fail: injected") + &ops("c1", "put", 6_000, "ok");
    check(&format!("{THROW}{around}{}", done()), &["pass"]);
    let two = "20000 op c1 put 1 invoke\n20010 op c1 put 1 fail\n\
               20020 op c1 put 2 invoke\n20030 op c1 put 2 fail\n";
    check(&format!("{THROW}{two}{}", done()), &["pass"]);
    let recovered = ops("c1", "put", 9_000, "fail") + &ops("c1", "put", 12_000, "ok");
    check(&format!("{THROW}{recovered}{}", done()), &["pass"]);
    // In recovery everything is healed: two are enough.
    check(
        &format!("{THROW} 15000 stage recovery\n{two}{}", done()),
        &["every client makes no progress: put in phase write keeps failing"],
    );
}

#[test]
fn failing_writes_are_seen_beside_reads_that_work() {
    let mixed = ops("c1", "put", 9_000, "timeout")
        + &ops("c1", "get", 9_050, "ok")
        + &ops("c2", "put", 9_000, "ok");
    check(
        &format!("{THROW}{mixed}{}", done()),
        &["a client of the faulted node makes no progress: put in phase write keeps failing"],
    );
}

#[test]
fn a_partition_excuses_until_it_is_mended() {
    let cut = "up\n 300 lab partition n1 | n2,n3\n";
    let fails = ops("c1", "put", 20_000, "timeout");
    check(
        &format!("{cut} 40000 stage heal\n{fails}{}", done()),
        &["pass"],
    );
    let others = ops("c2", "put", 20_000, "ok");
    check(
        &format!("{cut} 5000 lab heal\n{fails}{others}{}", done()),
        &["a client of another node makes no progress: put in phase write keeps failing"]
            .map(|s| s.replace("another node", "a node"))
            .each_ref()
            .map(String::as_str),
    );
}

#[test]
fn a_wrong_answer_always_fails() {
    let wrong = "310 op c2 get@check 1 invoke\n\
     320 op c2 get@check 1 wrong: expected \"v17\" got \"v16\"\n";
    let said = ["a wrong answer: get in phase check: expected <*> got <*>"];
    check(&format!("{THROW}{wrong}{}", done()), &said);
    check(&format!("up\n{wrong}{}", done()), &said);
}

#[test]
fn a_client_that_breaks_is_unknown_unless_the_fault_explains_it() {
    let ok = ops("c1", "put", 200, "ok");
    check(
        &format!("up\n{ok} 2000 client c2 exit 1\n{}", done()),
        &["unknown"],
    );
    check(
        &format!("up\n{ok} 2000 garbage c2 Segmentation fault\n{}", done()),
        &["unknown"],
    );
    check(
        &format!("{THROW}{ok} 2000 client c2 exit 1\n{}", done()),
        &["pass"],
    );
    let killed = "up\n 1900 fired c2 main crash\n 2000 client c2 signal 9\n";
    check(&format!("{killed}{ok}{}", done()), &["pass"]);
    check("up\n 9000 stage stop", &["unknown"]);
}

#[test]
fn a_watch_that_is_never_told_is_not_stuck() {
    let watch = " 9000 op c2 watch 1 invoke {reg=watch key=a}\n";
    let worked = ops("c1", "put", 200, "ok");
    check(&format!("{THROW}{worked}{watch}{}", done()), &["pass"]);
}

#[test]
fn the_finale_is_not_the_workload_but_a_wrong_answer_counts_there_too() {
    let worked = ops("c1", "put", 200, "ok") + " 20000 stage recovery\n 20001 stage finale\n";
    let fails = ops("c1", "get@finale", 30_000, "fail");
    check(&format!("{THROW}{worked}{fails}{}", done()), &["pass"]);
    let wrong = "30000 op c1 get@finale 9 invoke\n30010 op c1 get@finale 9 wrong: gone\n";
    check(
        &format!("{THROW}{worked}{wrong}{}", done()),
        &["a wrong answer: get in phase finale: gone"],
    );
}

#[test]
fn a_trial_is_decided_when_all_that_are_left_have_long_been_stuck() {
    let decided = |script: &str| all_are_stuck(&history(script), Some(&baseline()));
    let stuck = |at: u64| {
        format!("{THROW} 200 op c2 put 1 invoke\n 400 done c1\n 400 done c3\n {at} hit n1 1 aa")
    };
    // The fault is over at 5.3 s; three times the patience of 2 s later it is decided.
    assert!(!decided(&stuck(11_000)));
    assert!(decided(&stuck(11_400)));
    let others_work = stuck(20_000).replace("400 done c3", "19000 op c3 get 1 invoke");
    assert!(!decided(&others_work));
    assert!(!decided(&format!("{THROW} 20000 hit n1 1 aa")));
}
