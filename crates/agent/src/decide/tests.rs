//! Every trigger on a board in private memory.

use super::*;
use temblor_model::board::spec::{BoardSpec, FaultKind, FaultSpec, StepSpec};
use temblor_model::fnv64;

fn board_of(spec: &BoardSpec) -> Board {
    let (bytes, len) = spec.encode();
    let pages = vec![0u128; (len as usize).div_ceil(16)].leak();
    let base = pages.as_mut_ptr().cast::<u8>();
    // SAFETY: the memory is large enough, aligned for every record, and never freed.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), base, bytes.len());
        Board::at(base, len as usize).unwrap()
    }
}

fn step(trigger: TriggerKind) -> StepSpec {
    StepSpec {
        trigger,
        ..StepSpec::default()
    }
}

fn spec(steps: Vec<StepSpec>) -> BoardSpec {
    let fault = |kind| FaultSpec {
        kind,
        amount: 1,
        class: String::new(),
    };
    BoardSpec {
        seed: 7,
        arms: vec![0, ARM_STEP, ARM_SET, ARM_SET],
        steps,
        faults: vec![
            fault(FaultKind::Throw),
            fault(FaultKind::Delay),
            fault(FaultKind::Crash),
        ],
        site_faults: vec![(0, 0), (0, 1), (1, 2), (0, 0)],
        ring_units: 8,
        slots: 1,
        ..BoardSpec::default()
    }
}

fn hit(site: u32, arm: u8, count: u32) -> Hit {
    Hit {
        site,
        arm,
        count,
        state: None,
    }
}

/// Tests give the stack; of accesses there are none.
impl<F: FnMut() -> u64> Around for F {
    fn stack(&mut self) -> u64 {
        self()
    }

    fn accesses(&mut self, _: u64) -> Vec<u32> {
        Vec::new()
    }

    fn follows(&mut self, access: u32) {
        panic!("there was no access {access}")
    }
}

fn no_stack() -> u64 {
    panic!("the trigger does not need the stack")
}

#[test]
fn at_hit_fires_once_at_the_nth_matching_hit() {
    let at = StepSpec {
        site: 1,
        node: fnv64(b"n2"),
        nth: 3,
        ..step(TriggerKind::AtHit)
    };
    let board = board_of(&spec(vec![at]));
    let mut fired = Vec::new();
    for count in 1..=6 {
        for node in ["n1", "n2"] {
            let node = fnv64(node.as_bytes());
            let decision = decide(&board, node, hit(1, ARM_STEP, count), &mut no_stack);
            if decision != Decision::Pass {
                fired.push((count, node, decision));
            }
        }
    }
    assert_eq!(
        fired,
        [(3, fnv64(b"n2"), Decision::Fire { step: 0, fault: 0 })]
    );
}

#[test]
fn at_hit_with_a_stack_counts_only_that_context() {
    let at = StepSpec {
        site: 1,
        stack: 99,
        nth: 2,
        ..step(TriggerKind::AtHit)
    };
    let board = board_of(&spec(vec![at]));
    let stacks = [99, 5, 5, 99, 99];
    let fired = stacks.map(|s| decide(&board, 1, hit(1, ARM_STEP, 1), &mut || s) != Decision::Pass);
    assert_eq!(fired, [false, false, false, true, false]);
}

#[test]
fn steps_fire_strictly_in_order() {
    let first = StepSpec {
        site: 1,
        ..step(TriggerKind::AtHit)
    };
    let second = StepSpec {
        site: 2,
        fault: 1,
        ..step(TriggerKind::AtHit)
    };
    let board = board_of(&spec(vec![first, second]));
    let at = |site| decide(&board, 1, hit(site, ARM_STEP, 1), &mut no_stack);
    assert_eq!(at(2), Decision::Pass, "its turn comes later");
    assert_eq!(at(1), Decision::Fire { step: 0, fault: 0 });
    assert_eq!(at(1), Decision::Pass);
    assert_eq!(at(2), Decision::Fire { step: 1, fault: 1 });
    assert_eq!(at(2), Decision::Pass, "the plan is over");
}

#[test]
fn one_of_many_racing_threads_fires() {
    let at = StepSpec {
        site: 1,
        nth: 100,
        ..step(TriggerKind::AtHit)
    };
    let board = board_of(&spec(vec![at]));
    let fires = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for count in 0..1_000 {
                    let decision = decide(&board, 1, hit(1, ARM_STEP, count), &mut no_stack);
                    fires.fetch_add(u32::from(decision != Decision::Pass), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(fires.into_inner(), 1);
}

#[test]
fn random_is_the_same_under_the_same_seed_and_near_its_rate() {
    let first_hit = |seed, rate| {
        let random = StepSpec {
            rate,
            fault: ANY_FAULT,
            ..step(TriggerKind::Random)
        };
        let board = board_of(&BoardSpec {
            seed,
            ..spec(vec![random])
        });
        (1..100_000).find_map(
            |n| match decide(&board, 3, hit(2, ARM_SET, n), &mut no_stack) {
                Decision::Pass => None,
                fire => Some((n, fire)),
            },
        )
    };
    assert_eq!(first_hit(1, 0.01), first_hit(1, 0.01));
    let firsts: Vec<u32> = (0..200)
        .map(|seed| first_hit(seed, 0.01).unwrap().0)
        .collect();
    let mean = firsts.iter().sum::<u32>() as f64 / firsts.len() as f64;
    assert!((70.0..130.0).contains(&mean), "{mean}");
    assert_eq!(first_hit(5, 1.0).unwrap().0, 1);
    assert_eq!(first_hit(5, 0.0), None);
}

#[test]
fn a_step_concerns_hits_in_its_state_on_its_node_until_it_has_fired() {
    let random = StepSpec {
        rate: 1.0,
        node: 3,
        state: 6,
        ..step(TriggerKind::Random)
    };
    let board = board_of(&spec(vec![random]));
    let at = |state| Hit {
        state,
        ..hit(2, ARM_SET, 1)
    };
    assert!(concerns(&board, 3, at(Some(5))));
    assert!(!concerns(&board, 4, at(Some(5))));
    assert!(!concerns(&board, 3, at(Some(4))) && !concerns(&board, 3, at(None)));
    let decision = decide(&board, 3, at(Some(5)), &mut no_stack);
    assert_ne!(decision, Decision::Pass);
    assert!(!concerns(&board, 3, at(Some(5))));
}

#[test]
fn any_fault_is_drawn_from_the_site_and_only_from_it() {
    let fault = |seed, site| {
        let random = StepSpec {
            rate: 1.0,
            fault: ANY_FAULT,
            ..step(TriggerKind::Random)
        };
        let board = board_of(&BoardSpec {
            seed,
            ..spec(vec![random])
        });
        decide(&board, 3, hit(site, ARM_SET, 1), &mut no_stack)
    };
    let mut faults: Vec<Decision> = (0..50).map(|seed| fault(seed, 2)).collect();
    faults.dedup();
    assert!(faults.contains(&Decision::Fire { step: 0, fault: 1 }));
    assert!(faults.contains(&Decision::Fire { step: 0, fault: 2 }));
    assert_eq!(
        fault(1, 3),
        Decision::Pass,
        "a site without faults of its own"
    );
}

#[test]
fn sites_outside_the_set_are_not_drawn() {
    let random = StepSpec {
        rate: 1.0,
        ..step(TriggerKind::Random)
    };
    let board = board_of(&spec(vec![random]));
    assert_eq!(
        decide(&board, 1, hit(1, ARM_STEP, 1), &mut no_stack),
        Decision::Pass
    );
    assert_eq!(
        decide(&board, 1, hit(1, 1, 1), &mut no_stack),
        Decision::Pass
    );
}

#[test]
fn a_new_context_fires_a_known_one_does_not() {
    let known = vec![context_key(2, 50), context_key(3, 60)];
    let board = board_of(&BoardSpec {
        contexts: known,
        ..spec(vec![step(TriggerKind::NewContext)])
    });
    let at = |site, stack| decide(&board, 1, hit(site, ARM_SET, 1), &mut || stack);
    assert_eq!(at(2, 50), Decision::Pass);
    assert_eq!(at(3, 60), Decision::Pass);
    assert_eq!(at(3, 50), Decision::Fire { step: 0, fault: 0 });
    assert_eq!(at(2, 51), Decision::Pass, "taken");
}

#[test]
fn ask_asks_and_lab_steps_are_passed_by() {
    let ask = StepSpec {
        site: 2,
        ..step(TriggerKind::Ask)
    };
    let board = board_of(&spec(vec![ask, step(TriggerKind::Lab)]));
    assert_eq!(
        decide(&board, 1, hit(2, ARM_SET, 1), &mut no_stack),
        Decision::Ask { step: 0 }
    );
    assert_eq!(
        decide(&board, 1, hit(3, ARM_SET, 1), &mut no_stack),
        Decision::Pass
    );
    assert!(board.take_step(0));
    assert_eq!(
        decide(&board, 1, hit(2, ARM_SET, 1), &mut no_stack),
        Decision::Pass
    );
}

fn in_state(state: Option<u32>) -> Hit {
    Hit {
        state,
        ..hit(2, ARM_SET, 1)
    }
}

#[test]
fn a_state_is_asked_for_and_so_is_being_outside_all_tasks() {
    for (wanted, fires) in [(5, Some(4)), (0, None)] {
        let random = StepSpec {
            state: wanted,
            rate: 1.0,
            ..step(TriggerKind::Random)
        };
        let board = board_of(&spec(vec![random]));
        let at = |state| decide(&board, 1, in_state(state), &mut no_stack);
        assert_eq!(at(Some(5)), Decision::Pass);
        assert_eq!(at(Some(3)), Decision::Pass);
        assert_eq!(at(fires), Decision::Fire { step: 0, fault: 0 });
    }
}

#[test]
fn the_second_new_state_is_the_second_that_the_trial_comes_to() {
    let node = fnv64(b"n1");
    let second = StepSpec {
        nth: 2,
        ..step(TriggerKind::NewState)
    };
    let board = board_of(&BoardSpec {
        contexts: vec![state_key(node, Some(1))],
        ..spec(vec![second])
    });
    let at = |node, state| decide(&board, node, in_state(state), &mut no_stack);
    assert_eq!(at(node, Some(1)), Decision::Pass, "known");
    assert_eq!(at(node, None), Decision::Pass, "the first");
    assert_eq!(at(node, None), Decision::Pass, "the first again");
    // The same state of another node is another.
    let fire = Decision::Fire { step: 0, fault: 0 };
    assert_eq!(at(fnv64(b"n2"), Some(1)), fire);
}

#[test]
fn contexts_are_told_apart_by_what_the_step_says() {
    let first = (2, 1, None, 1);
    // Site, node, state, stack. The second context fires.
    for (by, fires) in [
        (Contexts::Site, [false, false, false, true]),
        (Contexts::State, [false, false, true, true]),
        (Contexts::Stack, [true, false, false, true]),
        (Contexts::Node, [true, true, false, true]),
    ] {
        let others = [
            (2, 1, None, 2),
            (2, 3, None, 1),
            (2, 1, Some(4), 1),
            (3, 1, None, 1),
        ];
        for (other, fires) in others.into_iter().zip(fires) {
            let second = StepSpec {
                by,
                nth: 2,
                ..step(TriggerKind::NewContext)
            };
            let board = board_of(&spec(vec![second]));
            let at = |(site, node, state, stack)| {
                let hit = Hit {
                    state,
                    ..hit(site, ARM_SET, 1)
                };
                decide(&board, node, hit, &mut || stack)
            };
            assert_eq!([at(first), at(first)], [Decision::Pass; 2]);
            let fired = at(other) == Decision::Fire { step: 0, fault: 0 };
            assert_eq!(fired, fires, "{by:?}: {other:?}");
        }
    }
}

#[test]
fn what_meets_only_memory_is_left_out_and_uses_nothing_up() {
    let any = StepSpec {
        rate: 1.0,
        ..step(TriggerKind::Random)
    };
    for first in [any, step(TriggerKind::NewContext), step(TriggerKind::AnyOf)] {
        let board = board_of(&BoardSpec {
            barred: vec![context_key(2, 8)],
            ..spec(vec![first])
        });
        let at = |stack| decide(&board, 1, hit(2, ARM_SET, 1), &mut || stack);
        assert_eq!(at(8), Decision::Pass);
        assert_eq!(at(9), Decision::Fire { step: 0, fault: 0 });
    }
}

#[test]
fn each_site_of_a_set_fires_once() {
    let board = board_of(&spec(vec![
        step(TriggerKind::AnyOf),
        step(TriggerKind::AnyOf),
    ]));
    let at = |site: u32| {
        let arm = board.arms()[site as usize].load(Ordering::Relaxed);
        decide(&board, 1, hit(site, arm, 1), &mut no_stack)
    };
    assert_eq!(at(3), Decision::Fire { step: 0, fault: 0 });
    assert_eq!(at(3), Decision::Pass);
    assert_eq!(at(2), Decision::Fire { step: 1, fault: 0 });
    assert_eq!(at(2), Decision::Pass);
}

/// Accesses, each so long ago, the latest first; and which of them a fault follows.
struct After(Vec<(u32, u64)>, Option<u32>);

impl Around for After {
    fn stack(&mut self) -> u64 {
        no_stack()
    }

    fn accesses(&mut self, within_ns: u64) -> Vec<u32> {
        let recent = self.0.iter().filter(|(_, ago_ns)| *ago_ns <= within_ns);
        recent.map(|(access, _)| *access).collect()
    }

    fn follows(&mut self, access: u32) {
        self.1 = Some(access);
    }
}

#[test]
fn only_what_follows_a_new_access_soon_enough_fires() {
    let after = StepSpec {
        within_ns: 5_000_000,
        ..step(TriggerKind::AfterAccess)
    };
    let check = |accesses: &[(u32, u64)], follows: Option<u32>| {
        let board = board_of(&BoardSpec {
            contexts: vec![access_key(7)],
            ..spec(vec![after.clone()])
        });
        let mut around = After(accesses.to_vec(), None);
        let decision = decide(&board, 1, hit(2, ARM_SET, 1), &mut around);
        assert_eq!(around.1, follows, "{accesses:?}");
        let fire = Decision::Fire { step: 0, fault: 0 };
        assert_eq!(decision == fire, follows.is_some(), "{accesses:?}");
    };
    check(&[], None);
    check(&[(7, 1_000)], None);
    check(&[(8, 5_000_001)], None);
    check(&[(8, 5_000_000)], Some(8));
    check(&[(9, 1_000), (8, 2_000)], Some(9));
    // What is known does not hide what is new.
    check(&[(7, 1_000), (8, 2_000)], Some(8));
}
