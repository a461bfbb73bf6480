//! Scripted histories for each rule of the checker, with those that must pass.

use super::*;
use crate::scripted::{baseline, check as check_script, history};

mod replicas;

#[track_caller]
fn check(script: &str, expected: &[&str]) {
    check_script(&Guarantees, &format!("up\n{script}"), expected);
}

/// An operation of session `s` on key `a`, 10 ms long: asked with `asked`, ended with `how`.
fn op(at: u64, client: &str, reg: &str, asked: &str, how: &str) -> String {
    let told = if how.contains('{') { "" } else { " {}" };
    let how = format!("{how}{told}").replace('}', " session=s}");
    format!(
        "{at} op {client} {reg} {at} invoke {{reg={reg} key=a session=s {asked}}}\n\
         {} op {client} {reg} {at} {how}\n",
        at + 10
    )
}

/// A stale read that gives a value with an order.
fn read(at: u64, client: &str, order: u64) -> String {
    op(
        at,
        client,
        "stale-read",
        "",
        &format!("ok {{value=v{order} order={order}}}"),
    )
}

fn write(at: u64, client: &str, order: u64) -> String {
    op(
        at,
        client,
        "write",
        "value=1",
        &format!("ok {{order={order}}}"),
    )
}

#[test]
fn reads_of_a_session_never_go_back() {
    let first = read(200, "c1", 9);
    check(&format!("{first}{}", read(300, "c1", 9)), &["pass"]);
    check(&format!("{first}{}", read(300, "c1", 8)), &[WENT_BACK]);
    // At once, in another session, of another client or key, or without an order: no rule.
    check(&format!("{first}{}", read(205, "c1", 8)), &["pass"]);
    check(&format!("{first}{}", read(300, "c2", 8)), &["pass"]);
    let other = |from: &str, to: &str| format!("{first}{}", read(300, "c1", 8).replace(from, to));
    check(&other("session=s", "session=t"), &["pass"]);
    check(&other("session=s", ""), &["pass"]);
    check(&other("key=a", "key=b"), &["pass"]);
    check(&other("order=8", ""), &["pass"]);
    // The line of an end follows that of a beginning, in the same millisecond.
    check(&format!("{first}{}", read(210, "c1", 8)), &[WENT_BACK]);
    // The newest counts, not the last.
    let mixed = format!("{first}{}{}", read(205, "c1", 5), read(300, "c1", 7));
    check(&mixed, &[WENT_BACK]);
    check(&mixed.replace("reg=stale-read", "reg=read"), &[WENT_BACK]);
}

#[test]
fn the_detail_shows_both() {
    let script = format!("up\n{}{}", read(200, "c1", 9), read(300, "c1", 8));
    let judgement = Guarantees.judge(&history(&script), Some(&baseline()));
    assert_eq!(
        judgement.symptoms,
        [Symptom {
            checker: "guarantees".into(),
            shows: Misbehaviour::Broken(WENT_BACK.into()),
            summary: WENT_BACK.into(),
            detail: vec![
                "200.0 to 210.0 ms: c1 of n1: stale-read a -> ok v9 order 9".into(),
                "300.0 to 310.0 ms: c1 of n1: stale-read a -> ok v8 order 8".into(),
            ],
            at_us: 310_000,
        }]
    );
}

#[test]
fn a_session_sees_its_own_writes() {
    let own = write(200, "c1", 9);
    check(&format!("{own}{}", read(300, "c1", 9)), &["pass"]);
    check(&format!("{own}{}", read(300, "c1", 8)), &[NOT_OWN_WRITE]);
    check(&format!("{own}{}", read(300, "c2", 8)), &["pass"]);
    let unsure = own.replace(" ok ", " timeout ");
    check(&format!("{unsure}{}", read(300, "c1", 8)), &["pass"]);
}

#[test]
fn what_was_there_is_there_unless_it_may_have_been_deleted() {
    let (own, seen) = (write(200, "c1", 9), read(200, "c1", 9));
    let nothing = op(300, "c1", "stale-read", "", "ok");
    check(&format!("{own}{nothing}"), &[NOT_OWN_WRITE]);
    check(&format!("{seen}{nothing}"), &[WENT_BACK]);
    let own_elsewhere = own.replace("session=s", "session=t");
    check(&format!("{own_elsewhere}{nothing}"), &["pass"]);
    for (delete, how, expected) in [
        (100, "ok", "pass"),
        (305, "timeout", "pass"),
        (305, "wrong: what", "pass"),
        (305, "fail: no", NOT_OWN_WRITE),
        (320, "ok", NOT_OWN_WRITE),
    ] {
        let delete = op(delete, "c2", "delete", "", how);
        check(&format!("{own}{nothing}{delete}"), &[expected]);
    }
    check(
        &format!("{own}{nothing} 150 op c2 del 1 invoke {{reg=delete key=a}}"),
        &["pass"],
    );
    check(
        &format!("{own}{nothing} 150 op c2 del 1 invoke {{reg=delete key=b}}"),
        &[NOT_OWN_WRITE],
    );
}

#[test]
fn writes_stand_in_the_order_of_their_times() {
    let first = write(200, "c1", 9);
    check(&format!("{first}{}", write(300, "c2", 10)), &["pass"]);
    for order in [8, 9] {
        check(
            &format!("{first}{}", write(300, "c2", order)),
            &[WRITES_SWAPPED],
        );
    }
    // At once, or within a millisecond for another client.
    check(&format!("{first}{}", write(205, "c2", 8)), &["pass"]);
    check(&format!("{first}{}", write(210, "c2", 8)), &["pass"]);
    check(
        &format!("{first}{}", write(211, "c2", 8)),
        &[WRITES_SWAPPED],
    );
    check(
        &format!("{first}{}", write(210, "c1", 8)),
        &[WRITES_SWAPPED],
    );
    // Whatever the session, but for the same key, and acknowledged.
    let other = |from: &str, to: &str| format!("{first}{}", write(300, "c2", 8).replace(from, to));
    check(&other("session=s", "session=t"), &[WRITES_SWAPPED]);
    check(&other("key=a", "key=b"), &["pass"]);
    check(&other(" ok ", " timeout "), &["pass"]);
    check(&other("order=8", ""), &["pass"]);
}

/// Set at 200 by client 1, at order 9; fires at `fires`.
fn watch(fires: Option<u64>) -> String {
    let set = "200 op c1 watch 7 invoke {reg=watch key=a order=9 session=s}\n";
    let fired = fires.map(|at| format!("{at} op c1 watch 7 ok {{reg=watch key=a session=s}}\n"));
    format!("{set}{}", fired.unwrap_or_default())
}

#[test]
fn a_watch_fires_once() {
    let once = watch(Some(400));
    check(&once, &["pass"]);
    check(
        &format!("{once} 500 op c1 watch 7 ok {{reg=watch key=a session=s}}"),
        &[FIRED_TWICE],
    );
    check(
        &format!("{once} 500 op c1 watch 8 ok {{reg=watch key=a session=s}}"),
        &["pass"],
    );
    check(
        &format!("{once} 500 op c2 watch 7 ok {{reg=watch key=a session=s}}"),
        &["pass"],
    );
    // The same number again, of another watch.
    check(
        &format!("{once}{}", watch(Some(600)).replace("200 op", "500 op")),
        &["pass"],
    );
}

#[test]
fn a_watch_fires_before_new_data_is_seen() {
    let late =
        |read_at: u64, order: u64| format!("{}{}", watch(Some(2_000)), read(read_at, "c1", order));
    check(&late(1_000, 10), &[NEW_BEFORE_WATCH]);
    check(&late(1_000, 9), &["pass"]);
    // A client may take a moment to report.
    check(&late(1_489, 10), &[NEW_BEFORE_WATCH]);
    check(&late(1_490, 10), &["pass"]);
    check(&late(2_100, 10), &["pass"]);
    // Begun before the watch, in another session, or of another key.
    let read = read(1_000, "c1", 10);
    let other = |from: &str, to: &str| format!("{}{}", watch(Some(2_000)), read.replace(from, to));
    check(&other("1000 op", "190 op"), &["pass"]);
    check(&other("session=s", "session=t"), &["pass"]);
    check(&other("key=a", "key=b"), &["pass"]);
}

#[test]
fn new_data_before_a_watch_that_never_fires_needs_a_session_that_lives_on() {
    let seen = format!(
        "{}{} 90000 stage stop\n",
        watch(None),
        read(1_000, "c1", 10)
    );
    check(&seen, &["pass"]);
    let later = |at: u64, client: &str| format!("{seen}{}", read(at, client, 10));
    check(&later(1_600, "c1"), &[NEW_BEFORE_WATCH]);
    check(&later(1_400, "c1"), &["pass"]);
    check(&later(1_600, "c2"), &["pass"]);
    check(
        &later(1_600, "c1").replace("{reg=watch", "{key=x reg=watch"),
        &["pass"],
    );
    // The watch failed, as when its session ends.
    let ended = "300 op c1 watch 7 fail: over {reg=watch key=a session=s}\n";
    check(&format!("{}{ended}", later(1_600, "c1")), &["pass"]);
}

/// A watch that never fires, a newer write, and a sign of life at `alive`.
fn unfired(order: u64, alive: u64) -> String {
    let alive = op(alive, "c1", "stale-read", "", "ok {value=v}");
    format!(
        "{}{}{alive} 95000 stage stop\n",
        watch(None),
        write(1_000, "c2", order)
    )
}

#[test]
fn a_watch_that_never_fires_though_the_key_changed_is_lost() {
    // Grace is five seconds.
    check(&unfired(10, 6_010), &[WATCH_LOST]);
    check(&unfired(10, 6_009), &["pass"]);
    check(&unfired(9, 60_000), &["pass"]);
    check(
        &unfired(10, 60_000).replace("1010 op c2 write 1000 ok", "1010 op c2 write 1000 timeout"),
        &["pass"],
    );
    let fired = "3000 op c1 watch 7 ok {reg=watch key=a session=s}\n";
    check(&format!("{}{fired}", unfired(10, 60_000)), &["pass"]);
    let failed = "3000 op c1 watch 7 fail: over {reg=watch key=a session=s}\n";
    check(&format!("{}{failed}", unfired(10, 60_000)), &["pass"]);
    // Waited for long enough, or not.
    let gave_up = |at: u64| format!("{at} op c1 watch 7 timeout {{reg=watch key=a session=s}}\n");
    check(
        &format!("{}{}", unfired(10, 7_000), gave_up(8_000)),
        &[WATCH_LOST],
    );
    check(
        &format!("{}{}", unfired(10, 7_000), gave_up(5_000)),
        &["pass"],
    );
    // The session that works later is another one.
    let moved = unfired(10, 60_000).replace(
        "60010 op c1 stale-read 60000 ok {value=v session=s}",
        "60010 op c1 stale-read 60000 ok {value=v session=t}",
    );
    check(&moved, &["pass"]);
}

#[test]
fn a_change_without_an_order_counts_when_it_began_after_the_watch() {
    let alive = op(60_000, "c1", "stale-read", "", "ok {value=v}");
    let deleted = |at: u64| format!("{}{}{alive}", watch(None), op(at, "c2", "delete", "", "ok"));
    check(&deleted(201), &[WATCH_LOST]);
    check(&deleted(200), &["pass"]);
    check(&deleted(150), &["pass"]);
}

#[test]
fn a_fault_gives_a_watch_more_time() {
    let fault = |at: u64| format!("{at} fired n2 t throw x.E\n");
    // Explained until 5 s after the fault, and 5 s of grace from there.
    check(
        &format!("{}{}", unfired(10, 12_900), fault(3_000)),
        &["pass"],
    );
    check(
        &format!("{}{}", unfired(10, 13_000), fault(3_000)),
        &[WATCH_LOST],
    );
    // Its own node is down until 20 s.
    let down = "2000 kill n1\n 19000 start n1\n 20000 ready n1\n";
    check(&format!("{}{down}", unfired(10, 29_000)), &["pass"]);
    check(&format!("{}{down}", unfired(10, 30_000)), &[WATCH_LOST]);
}

#[test]
fn an_end_without_a_beginning_has_no_place() {
    let first = read(200, "c1", 9);
    let alone = "300 op c1 get 1 ok {reg=read key=a value=v order=8 session=s}\n";
    check(&format!("{first}{alone}"), &["pass"]);
    check(&format!("{alone}{}", read(400, "c1", 7)), &[WENT_BACK]);
}
