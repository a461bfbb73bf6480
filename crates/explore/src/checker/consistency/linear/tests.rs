//! Small histories by hand, then many by chance against all permutations.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use super::*;

const PLENTY: u64 = 1_000_000;

/// A call of client `client` from `began` to `end`, in milliseconds; no end: unknown outcome.
fn call(client: &str, began: u64, end: Option<u64>, effect: Effect) -> Call<'_> {
    Call {
        id: began as usize,
        extent: Extent {
            client,
            began_us: 1_000 * began,
            began_at: 2 * began as usize + 1,
            end: end.map(|end| (1_000 * end, 2 * end as usize)),
        },
        effect,
    }
}

#[track_caller]
fn check(calls: &[Call<'_>], fits: bool) {
    let answer = search(calls, 1_000, &mut PLENTY.clone());
    assert_eq!(answer == Answer::Fits, fits, "{answer:?}");
    assert_ne!(answer, Answer::Unknown);
}

use Effect::{Create, Delete, Ensure, Read, Write};

#[test]
fn an_empty_register_gives_nothing() {
    check(&[], true);
    check(&[call("c1", 1, Some(2), Read(None))], true);
    check(&[call("c1", 1, Some(2), Read(Some(1)))], false);
}

#[test]
fn a_read_gives_what_was_written_last() {
    let write = call("c1", 1, Some(5), Write(1));
    check(&[write, call("c2", 6, Some(9), Read(Some(1)))], true);
    check(&[write, call("c2", 6, Some(9), Read(None))], false);
    // While it is written, both are right, but not the old one after the new one.
    let (new, old) = (
        call("c2", 2, Some(3), Read(Some(1))),
        call("c3", 2, Some(3), Read(None)),
    );
    check(&[write, new, old], true);
    check(&[write, new, call("c3", 4, Some(5), Read(None))], false);
}

#[test]
fn an_unknown_outcome_happens_late_or_never_but_not_early() {
    let unknown = call("c1", 5, None, Write(1));
    check(&[unknown, call("c2", 90, Some(91), Read(Some(1)))], true);
    check(&[unknown, call("c2", 90, Some(91), Read(None))], true);
    check(&[unknown, call("c2", 3, Some(4), Read(Some(1)))], false);
    check(
        &[
            unknown,
            call("c2", 10, Some(11), Read(Some(1))),
            call("c2", 12, Some(13), Read(None)),
        ],
        false,
    );
}

#[test]
fn a_creation_needs_absence_and_a_deletion_makes_it() {
    let (first, second) = (
        call("c1", 1, Some(2), Create(1)),
        call("c2", 9, Some(10), Create(2)),
    );
    check(&[first, second], false);
    check(&[first, second, call("c3", 4, Some(5), Delete)], true);
    check(&[first, second, call("c3", 4, None, Delete)], true);
    check(&[first, second, call("c3", 12, None, Delete)], false);
    check(&[first, call("c2", 9, Some(10), Ensure(2))], true);
}

#[test]
fn an_ensured_value_is_its_own_only_where_there_was_none() {
    let ensure = call("c1", 5, Some(6), Ensure(2));
    let read = |value| call("c2", 8, Some(9), Read(value));
    check(&[ensure, read(Some(2))], true);
    check(&[ensure, read(None)], false);
    let write = call("c3", 1, Some(2), Write(1));
    check(&[write, ensure, read(Some(1))], true);
    check(&[write, ensure, read(Some(2))], false);
}

#[test]
fn many_operations_one_after_another_cost_a_step_each() {
    let effect = |k: u64| match k % 3 {
        0 => Write(k as u32),
        _ => Read(Some((k - k % 3) as u32)),
    };
    let mut calls: Vec<Call<'_>> = (0..3_000)
        .map(|k| {
            call(
                ["c1", "c2"][k as usize % 2],
                10 * k,
                Some(10 * k + 8),
                effect(k),
            )
        })
        .collect();
    // Unknown writes that nobody saw cost nothing.
    calls.extend((0..100).map(|k| call("c3", 30 * k + 1, None, Write(9_000 + k as u32))));
    let mut steps = 3_000;
    assert_eq!(search(&calls, 1_000, &mut steps), Answer::Fits);
    assert_eq!(steps, 0);
}

#[test]
fn the_bound_in_steps_is_kept() {
    // All at once, and a read of what nobody wrote: every subset is tried.
    let mut calls: Vec<Call<'_>> = (0..24).map(|k| call("", 1, Some(90), Write(k))).collect();
    calls.push(call("", 1, Some(90), Read(Some(99))));
    let mut steps = 5_000;
    assert_eq!(search(&calls, 1_000, &mut steps), Answer::Unknown);
    assert_eq!(steps, 0);
    assert_eq!(smallest(&calls, 1_000, &mut steps).len(), calls.len());
}

#[test]
fn the_smallest_part_is_what_contradicts() {
    let mut calls: Vec<Call<'_>> = Vec::new();
    for k in 0..40 {
        let at = 20 * u64::from(k);
        calls.push(call("c1", at, Some(at + 3), Write(k)));
        calls.push(call("c2", at + 5, Some(at + 8), Read(Some(k))));
        calls.push(call("c3", at + 6, None, Delete));
    }
    calls.push(call("c2", 412, Some(414), Read(Some(17))));
    let small = smallest(&calls, 1_000, &mut PLENTY.clone());
    let effects: Vec<Effect> = small.iter().map(|call| call.effect).collect();
    assert_eq!(effects, [Write(17), Write(20), Read(Some(17))]);
}

/// Every subset of the unknown ones with the others, in every order.
fn fits_by_permutation(calls: &[Call<'_>], tick_us: u64) -> bool {
    fn extend(calls: &[Call<'_>], left: u32, state: State, tick_us: u64) -> bool {
        let is_left = |&i: &usize| left >> i & 1 == 1;
        let all = || (0..calls.len()).filter(is_left);
        if all().all(|i| calls[i].extent.end.is_none()) {
            return true;
        }
        all().any(|i| {
            let first = all().all(|o| !calls[o].extent.precedes(&calls[i].extent, tick_us));
            let state = calls[i].effect.apply(state).filter(|_| first);
            state.is_some_and(|state| extend(calls, left & !(1 << i), state, tick_us))
        })
    }
    extend(calls, (1 << calls.len()) - 1, None, tick_us)
}

fn random_calls(random: &mut ChaCha8Rng) -> Vec<Call<'static>> {
    let mut below = |bound: u64| random.next_u64() % bound;
    let count = 2 + below(5);
    let span = 4 + below(10);
    let calls = (0..count).map(|_| {
        let value = 1 + below(2) as u32;
        let effect = match below(10) {
            0..3 => Write(value),
            3 => Create(value),
            4 => Ensure(value),
            5 => Delete,
            6 => Read(None),
            _ => Read(Some(value)),
        };
        let (began, length) = (below(span), below(5));
        let unknown = below(3) == 0 && !matches!(effect, Read(_) | Ensure(_));
        let client = ["c1", "c2", "c3"][below(3) as usize];
        call(
            client,
            began,
            (!unknown).then_some(began + length + 1),
            effect,
        )
    });
    calls.collect()
}

#[test]
fn what_fits_still_fits_with_some_left_out() {
    let mut random = ChaCha8Rng::seed_from_u64(8);
    let (mut fitting, mut smaller) = (0, 0);
    for _ in 0..10_000 {
        let calls = random_calls(&mut random);
        let dropped = random.next_u64();
        if fits_by_permutation(&calls, 1_000) {
            let fewer = without(&calls, &|i, _| dropped >> i & 1 == 1);
            assert!(
                fits_by_permutation(&fewer, 1_000),
                "{fewer:#?} of {calls:#?}"
            );
            fitting += 1;
            smaller += usize::from(fewer.len() < calls.len());
        }
    }
    assert!(
        fitting > 3_000 && smaller > fitting / 2,
        "{smaller} of {fitting}"
    );
}

#[test]
fn the_search_agrees_with_all_permutations() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut fitting = 0;
    for round in 0..30_000 {
        let calls = random_calls(&mut random);
        let tick_us = [1, 1_000, 2_000][round % 3];
        let expected = fits_by_permutation(&calls, tick_us);
        fitting += usize::from(expected);
        let answer = search(&calls, tick_us, &mut PLENTY.clone());
        assert_ne!(answer, Answer::Unknown);
        assert_eq!(answer == Answer::Fits, expected, "{tick_us}: {calls:#?}");
        if !expected {
            let small = smallest(&calls, tick_us, &mut PLENTY.clone());
            assert!(
                !fits_by_permutation(&small, tick_us),
                "{small:#?} of {calls:#?}"
            );
        }
    }
    // Neither answer is right by chance alone.
    assert!((9_000..21_000).contains(&fitting), "{fitting}");
}
