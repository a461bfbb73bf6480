//! Scripted histories for each rule of the checker, with those that must pass.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use temblor_model::bug::Verdict;

use super::*;
use crate::scripted::{baseline, check as check_script, history};

fn judge(script: &str) -> Judgement {
    Consistency.judge(&history(script), Some(&baseline()))
}

#[track_caller]
fn check(script: &str, expected: &[&str]) {
    check_script(&Consistency, script, expected);
}

/// Operations on key `a`, one a line: `client begin-end what how`, where `what` is `w1` (write
/// 1), `c1` (create 1), `d` (delete), `r1` or `r` (read 1, nothing), `s1` or `s` (stale), and
/// `how` is ok if not told. No end: never ended.
fn ops(lines: &str) -> String {
    let mut script = String::from("up\n");
    let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
    for (id, line) in lines.enumerate() {
        let mut words = line.splitn(4, ' ');
        let mut word = || words.next().unwrap_or("");
        let (client, when, what, how) = (word(), word(), word(), word());
        let how = if how.is_empty() { "ok" } else { how };
        let (began, ended) = when.split_once('-').unwrap();
        let (reg, value) = what.split_at(1);
        let reg = match reg {
            "w" => "write",
            "c" => "create",
            "d" => "delete",
            "r" => "read",
            "s" => "stale-read",
            _ => panic!("what is {line}"),
        };
        let is_read = reg.ends_with("read");
        let fact = |told: bool| match value {
            "" => String::new(),
            value if told => format!(" value={value}"),
            _ => String::new(),
        };
        let asked = fact(!is_read);
        script += &format!("{began} op {client} {reg} {id} invoke {{reg={reg} key=a{asked}}}\n");
        if !ended.is_empty() {
            let answered = fact(is_read && how == "ok");
            script += &format!("{ended} op {client} {reg} {id} {how} {{key=a{answered}}}\n");
        }
    }
    script
}

#[track_caller]
fn check_ops(lines: &str, expected: &str) {
    check(&ops(lines), &[expected]);
}

#[test]
fn what_was_written_last_is_read() {
    check("up", &["pass"]);
    check_ops("c1 200-210 w1\n c2 220-230 r1", "pass");
    check_ops(
        "c1 200-210 r\n c1 220-230 w1\n c1 240-250 d\n c2 260-270 r",
        "pass",
    );
    check_ops("c1 200-300 w1\n c2 220-230 r\n c2 240-250 r1", "pass");
}

#[test]
fn a_value_that_nobody_wrote_fails() {
    check_ops("c1 200-210 w1\n c2 220-230 r7", NOBODY_WROTE);
    check_ops("c1 200-210 w1\n c2 220-230 s7", NOBODY_WROTE);
    check_ops("c1 200-210 w7 fail: refused\n c2 220-230 r7", FAILED_WRITE);
    check_ops("c1 200-210 w7 timeout\n c2 220-230 r7", "pass");
    check_ops("c1 200- w7\n c2 220-230 r7", "pass");
    check_ops("c2 220-230 r7\n c1 240-250 w7", FROM_THE_FUTURE);
    check_ops("c2 220-230 s7\n c1 240-250 w7 timeout", FROM_THE_FUTURE);
}

#[test]
fn a_stale_read_may_give_anything_that_was_there() {
    let writes = "c1 200-210 w1\n c1 220-230 w2\n c1 240-250 d\n";
    for read in ["s", "s1", "s2"] {
        check_ops(&format!("{writes} c2 260-270 {read}"), "pass");
    }
}

#[test]
fn a_read_of_what_was_overwritten_fails() {
    let writes = "c1 200-210 w1\n c1 220-230 w2\n";
    let last = "\n c3 300-310 r2";
    check_ops(&format!("{writes} c2 240-250 r1{last}"), OVERWRITTEN);
    check_ops(&format!("{writes} c2 240-250 r{last}"), OVERWRITTEN);
    // Not while it is being overwritten, nor within a millisecond of that.
    check_ops(&format!("{writes} c2 225-250 r1{last}"), "pass");
    check_ops(&format!("{writes} c2 230-250 r1{last}"), "pass");
    check_ops(&format!("{writes} c2 231-250 r1{last}"), OVERWRITTEN);
    // One client's own operations follow each other, however fast.
    check_ops(&format!("{writes} c1 230-250 r1{last}"), OVERWRITTEN);
    // It may have been written again.
    check_ops(
        &format!("{writes} c3 205-212 w1 timeout\n c2 240-250 r1"),
        "pass",
    );
    // Somebody saw the new value already, acknowledged or not.
    let unknown = "c1 200-210 w1\n c1 220-240 w2 timeout\n c2 250-260 r2\n";
    check_ops(&format!("{unknown} c3 270-280 r1"), OVERWRITTEN);
    check_ops(&format!("{unknown} c3 255-280 r1"), "pass");
}

#[test]
fn an_update_that_even_the_last_read_does_not_show_is_lost() {
    let writes = "c1 200-210 w1\n c1 220-230 w2\n";
    check_ops(
        &format!("{writes} c2 240-250 r2\n c2 300-310 r1\n c3 320-330 r1"),
        LOST_WRITE,
    );
    check_ops("c1 200-210 c1\n c2 240-250 r", LOST_WRITE);
    check_ops(
        "c1 200-210 c1\n c3 205-230 d timeout\n c2 240-250 r",
        "pass",
    );
    check_ops("c1 200-210 w1\n c1 220-230 d\n c2 240-250 r1", LOST_DELETE);
    // Not acknowledged: it need not be there.
    check_ops("c1 200-210 w1 timeout\n c2 240-250 r", "pass");
    check_ops("c1 200-210 w1 wrong: what\n c2 240-250 r", "pass");
}

#[test]
fn a_creation_where_a_value_was_fails() {
    let first = "c1 200-210 c1\n";
    check_ops(&format!("{first} c2 240-250 c2"), CREATED_TWICE);
    check_ops(&format!("{first} c3 220-230 d\n c2 240-250 c2"), "pass");
    check_ops(
        &format!("{first} c3 220-230 d fail: no\n c2 240-250 c2"),
        CREATED_TWICE,
    );
    check_ops(&format!("{first} c3 150- d\n c2 240-250 c2"), "pass");
    check_ops(
        &format!("{first} c3 260-270 d\n c2 240-250 c2"),
        CREATED_TWICE,
    );
}

#[test]
fn a_creation_that_finds_something_may_have_found_its_own() {
    check_ops("c1 200-210 c1 fail: it exists\n c2 240-250 r1", "pass");
    check_ops("c1 200-210 c1 fail: KeyExists\n c2 240-250 r", LOST_WRITE);
    check_ops(
        "c3 100-120 w2\n c1 200-210 c1 fail: it exists\n c2 240-250 r2",
        "pass",
    );
    check_ops(
        "c1 200-210 c1 fail: the parent does not exist\n c2 240-250 r",
        "pass",
    );
    check_ops(
        "c1 200-210 c1 fail: the parent does not exist\n c2 240-250 r1",
        FAILED_WRITE,
    );
}

#[test]
fn a_second_try_may_be_told_of_the_first() {
    let tries = "c1 200-210 c1 timeout\n c2 220-230 r1\n c1 240-250 c1\n";
    check_ops(&format!("{tries} c2 260-270 r1"), "pass");
    check_ops(&format!("{tries} c2 260-270 r"), LOST_WRITE);
    check_ops(
        &tries.replace("c1 240-250 c1", "c3 240-250 c1"),
        CREATED_TWICE,
    );
    check_ops(&tries.replace("timeout", "fail: no"), FROM_THE_FUTURE);
}

#[test]
fn operations_that_only_a_search_tells_apart() {
    // Two writes at once, and two readers at odds over which was the last.
    let writes = "c1 200-300 w1\n c2 200-300 w2\n";
    let odds = format!("{writes} c3 310-320 r1\n c3 330-340 r2\n c3 350-360 r1");
    check(&ops(&odds), &[OVERWRITTEN]);
    let hidden = "c1 200-300 w1\n c2 200-300 w2\n c1 210-220 r2\n c2 230-240 r1\n c3 250-260 r2";
    check_ops(hidden, NO_ORDER);
    check_ops(&hidden.replace("c3 250-260 r2", "c3 250-260 r1"), "pass");
    let judgement = judge(&ops(&format!("c1 100-110 w9\n c3 120-130 r9\n{hidden}")));
    assert_eq!(
        judgement.symptoms[0].detail,
        [
            "key a",
            "200.0 to 300.0 ms: c1 of n1: write a = 1 -> ok",
            "200.0 to 300.0 ms: c2 of n2: write a = 2 -> ok",
            "210.0 to 220.0 ms: c1 of n1: read a -> ok 2",
            "230.0 to 240.0 ms: c2 of n2: read a -> ok 1",
            "250.0 to 260.0 ms: c3 of n3: read a -> ok 2",
        ]
    );
    assert_eq!(judgement.symptoms[0].at_us, 300_000);
}

#[test]
fn a_contradiction_is_shown_by_its_operations() {
    let judgement = judge(&ops(
        "c3 150-160 w8\n c1 200-210 w1\n c1 220-230 w2\n c2 240-250 r1\n c2 260-270 r2",
    ));
    assert_eq!(
        judgement.symptoms,
        [Symptom {
            checker: "consistency".into(),
            shows: Misbehaviour::Broken(OVERWRITTEN.into()),
            summary: OVERWRITTEN.into(),
            detail: vec![
                "key a".into(),
                "200.0 to 210.0 ms: c1 of n1: write a = 1 -> ok".into(),
                "220.0 to 230.0 ms: c1 of n1: write a = 2 -> ok".into(),
                "240.0 to 250.0 ms: c2 of n2: read a -> ok 1".into(),
            ],
            at_us: 250_000,
        }]
    );
}

#[test]
fn keys_do_not_mix() {
    let two = "up\n 200 op c1 put 1 invoke {reg=write key=a value=1}\n\
               210 op c1 put 1 ok {}\n 220 op c1 get 2 invoke {reg=read key=b}\n";
    check(&format!("{two} 230 op c1 get 2 ok {{}}"), &["pass"]);
    check(
        &format!("{two} 230 op c1 get 2 ok {{value=1}}"),
        &[NOBODY_WROTE],
    );
}

#[test]
fn operations_that_mean_nothing_to_a_register_do_not_count() {
    check(
        "up\n 200 op c1 get 1 invoke {key=a}\n 210 op c1 get 1 ok {key=a value=7}",
        &["pass"],
    );
}

#[test]
fn a_read_whose_beginning_was_lost_may_have_begun_any_time_before() {
    let write = "up\n 200 op c1 put 1 invoke {reg=write key=a value=1}\n 210 op c1 put 1 ok\n";
    check(
        &format!("{write} 300 op c2 get 1 ok {{reg=read key=a}}"),
        &["pass"],
    );
}

#[test]
fn a_search_that_is_given_up_is_unknown() {
    // Of so many writes at once, no two can have come around a third; each order is tried.
    let mut lines: String = (1..=20).map(|k| format!("c1 200-900 w{k}\n")).collect();
    lines += "c1 210-220 r2\n c2 230-240 r1\n c3 250-260 r2";
    let judgement = judge(&ops(&lines));
    assert_eq!(judgement.verdict, Verdict::Unknown, "{judgement:#?}");
    assert_eq!(
        judgement.reason.as_deref(),
        Some("too many orders to try: 1 of 1 keys are not told")
    );
}

fn digests(values: [&str; 3]) -> String {
    let digest = |(k, value): (usize, &&str)| {
        let how = match *value {
            "" => "timeout".to_owned(),
            value => format!("ok {{value={value}}}"),
        };
        let c = format!("c{}", k + 1);
        let began = format!("90000 op {c} digest@finale 99 invoke {{reg=digest}}\n");
        began + &format!("90010 op {c} digest@finale 99 {how}\n")
    };
    let digests: String = values.iter().enumerate().map(digest).collect();
    format!("up\n 89000 stage finale\n{digests} 95000 stage stop\n")
}

#[test]
fn nodes_that_end_alike_pass_as_far_as_they_tell() {
    check(&digests(["x", "x", "x"]), &["pass"]);
    check(&digests(["x", "", "x"]), &["pass"]);
    check(&digests(["x", "", ""]), &["pass"]);
    check(&digests(["", "", ""]), &["pass"]);
}

#[test]
fn nodes_that_end_with_different_state_fail() {
    check(&digests(["x", "x", "y"]), &[DIFFERENT_ENDS]);
    let judgement = judge(&digests(["x", "", "y"]));
    assert_eq!(
        judgement.symptoms[0].detail,
        ["90010.0 ms: n1: x", "90010.0 ms: n3: y"]
    );
    // Before the finale nothing is quiet.
    let early = digests(["x", "x", "y"]).replace("@finale", "@write");
    check(&early.replace("89000 stage finale", ""), &["pass"]);
    check(&early, &[DIFFERENT_ENDS]);
}

#[test]
fn a_difference_that_an_update_on_its_way_may_mend_is_unknown() {
    let differ = digests(["x", "x", "y"]);
    let with = |lines: &str| format!("{differ}{lines}");
    let put = |reg: &str, ended: u64| {
        format!(
            "50000 op c1 put 1 invoke {{reg={reg} key=a value=1}}\n {ended} op c1 put 1 timeout\n"
        )
    };
    check(&with(&put("write", 61_000)), &["unknown"]);
    check(&with(&put("write", 59_000)), &[DIFFERENT_ENDS]);
    check(&with(&put("read", 61_000)), &[DIFFERENT_ENDS]);
    check(
        &with("61000 op c1 put 1 invoke\n 62000 op c1 put 1 timeout"),
        &["unknown"],
    );
    let pending = "1000 op c1 put 1 invoke {reg=write key=a value=1}\n";
    check(&with(pending), &["unknown"]);
    check(
        &with(&format!("{pending} 9000 client c1 exit 1")),
        &[DIFFERENT_ENDS],
    );
    check(
        &with(&put("write", 61_000).replace("timeout", "fail")),
        &[DIFFERENT_ENDS],
    );
}

#[test]
fn thirty_seconds_are_virtual() {
    let script = digests(["x", "x", "y"])
        + "80000 op c1 put 1 invoke {reg=write key=a value=1}\n 81000 op c1 put 1 timeout";
    let mut history = history(&script);
    let verdict = |h: &History| Consistency.judge(h, Some(&baseline())).verdict;
    assert_eq!(verdict(&history), Verdict::Unknown);
    history.warp = 10.0;
    assert_eq!(verdict(&history), Verdict::Fail);
}

#[test]
fn what_is_called_a_contradiction_fits_no_order_either() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let mut below = |bound: u64| random.next_u64() % bound;
    let (mut contradictions, mut only_by_search) = (0, 0);
    for _ in 0..4_000 {
        let mut lines = String::new();
        for _ in 0..3 + below(5) {
            let what = ["w1", "w2", "c1", "c2", "d", "r1", "r2", "r"][below(8) as usize];
            let how = ["ok", "ok", "ok", "timeout", "fail: exists"][below(5) as usize];
            let (client, began, length) = (1 + below(3), 100 + below(20), below(6));
            lines += &format!("c{client} {began}-{} {what} {how}\n", began + length);
        }
        let history = history(&ops(&lines));
        let spans = spans(&history);
        let spans: Vec<&Span<'_>> = spans.iter().collect();
        let register = Register::of("a", &spans, tick_us(&history));
        let by_search = register.search(&mut STEPS.clone()).unwrap();
        if let Some(symptom) = register.contradiction() {
            assert!(by_search.is_some(), "{lines}{symptom:#?}");
            contradictions += 1;
        } else {
            only_by_search += usize::from(by_search.is_some());
        }
    }
    // Both ways are taken often, and few need the search.
    assert!(contradictions > 1_000, "{contradictions}");
    assert!(
        (1..contradictions / 4).contains(&only_by_search),
        "{only_by_search}"
    );
}
