//! Triggers in real JVMs, alone and over several processes.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use temblor_model::board::record::RecordWhat;
use temblor_model::board::spec::{FaultKind, StepSpec, TriggerKind, context_key};
use temblor_model::board::{ANY_FAULT, ARM_RECORD, ARM_SET};
use temblor_model::fnv64;

use crate::jdk;
use crate::trial::{ANY, Said, Trial, catalog, fault, step, throw};

#[test]
fn the_nth_hit_on_the_right_node_is_the_one() {
    for jdk in jdk::all() {
        let trial = Trial::new(catalog("Loop"), |spec| {
            let at = step(TriggerKind::AtHit, 1);
            spec.steps = vec![StepSpec {
                nth: 3,
                node: fnv64(b"n2"),
                ..at
            }];
            spec.faults = vec![throw("java/io/EOFException")];
        });
        assert_eq!(trial.run(jdk, "n1", &["Loop", "5"]).lines(), ["made 15"]);
        let second = trial.run(jdk, "n2", &["Loop", "5"]);
        assert_eq!(second.lines(), ["b 3 EOFException", "made 14"]);
        assert_eq!(trial.board().joined(1).map(|j| j.0), Some("n2".to_owned()));
        assert_eq!((trial.counter(0, 1), trial.counter(1, 1)), (5, 5));
    }
}

#[test]
fn steps_go_on_over_two_processes_of_one_board() {
    for jdk in jdk::all() {
        let trial = Trial::new(catalog("Loop"), |spec| {
            let on = |node: &str, site| StepSpec {
                node: fnv64(node.as_bytes()),
                ..step(TriggerKind::AtHit, site)
            };
            spec.steps = vec![on("n1", 0), on("n2", 2), on("n2", 0), on("n1", 0)];
            spec.faults = vec![throw("java/io/IOException")];
        });
        // Site a of n1 fires first; its fourth step needs n2 to have gone before.
        assert_eq!(
            trial.run(jdk, "n1", &["Loop", "2"]).lines(),
            ["a 1 IOException", "made 5"]
        );
        let second = trial.run(jdk, "n2", &["Loop", "3"]);
        assert_eq!(
            second.lines(),
            ["c 1 IOException", "a 2 IOException", "made 7"]
        );
        assert_eq!(
            trial.run(jdk, "n1", &["Loop", "2"]).lines(),
            ["a 1 IOException", "made 5"]
        );
        assert_eq!(
            trial.board().header().current_step.load(Ordering::Relaxed),
            4
        );
    }
}

#[test]
fn two_processes_at_once_share_one_count() {
    for jdk in jdk::all() {
        let trial = Trial::new(catalog("Loop"), |spec| {
            spec.steps = vec![StepSpec {
                nth: 1500,
                ..step(TriggerKind::AtHit, 0)
            }];
            spec.faults = vec![throw("java/io/IOException")];
        });
        let nodes = ["n1", "n2"].map(|node| trial.spawn(jdk, node, &["Loop", "1000"]));
        let said = nodes.map(|node| Said::of(node.wait_with_output().unwrap()));
        let thrown = said
            .iter()
            .flat_map(|s| s.lines())
            .filter(|l| l.starts_with("a "))
            .count();
        assert_eq!(thrown, 1, "{said:?}");
        assert_eq!(trial.counter(0, 0) + trial.counter(1, 0), 2000);
    }
}

#[test]
fn random_faults_are_the_same_under_the_same_seed() {
    let run = |seed, jdk| {
        let trial = Trial::new(catalog("Loop"), |spec| {
            spec.seed = seed;
            spec.arms = vec![ARM_SET; 3];
            let random = step(TriggerKind::Random, ANY);
            spec.steps = vec![
                StepSpec {
                    rate: 0.05,
                    fault: ANY_FAULT,
                    ..random
                };
                5
            ];
            spec.faults = ["java/io/IOException", "java/io/EOFException"]
                .map(throw)
                .to_vec();
            spec.site_faults = vec![(0, 2), (0, 1), (1, 1)];
        });
        trial.run(jdk, "n1", &["Loop", "200"]).lines().join("\n")
    };
    let first = run(1, &jdk::all()[0]);
    assert_eq!(first.lines().count(), 6, "{first}");
    for jdk in jdk::all() {
        assert_eq!(run(1, jdk), first);
    }
    assert_ne!(run(2, &jdk::all()[0]), first);
}

#[test]
fn contexts_are_stable_and_new_ones_fire() {
    let mut seen = HashSet::new();
    for jdk in jdk::all() {
        let recorded = Trial::new(catalog("Contexts"), |spec| spec.arms = vec![ARM_RECORD]);
        recorded.run(jdk, "n1", &["Contexts"]).lines();
        let records = recorded.records(0);
        let contexts: Vec<(u64, &str)> = records
            .iter()
            .filter_map(|r| match r {
                RecordWhat::Context { stack, frames } => Some((*stack, frames.as_str())),
                _ => None,
            })
            .collect();
        assert_eq!(
            contexts.len(),
            4,
            "left, right, reflection, proxy: {contexts:#?}"
        );
        assert!(
            contexts[0]
                .1
                .starts_with("Contexts.site:12\nContexts.left:20\nContexts.main:")
        );
        seen.insert(contexts.iter().take(2).map(|c| c.0).collect::<Vec<_>>());
        let known = contexts.iter().filter(|c| !c.1.contains("Contexts.right"));
        let trial = Trial::new(catalog("Contexts"), |spec| {
            spec.arms = vec![ARM_SET];
            spec.steps = vec![step(TriggerKind::NewContext, ANY)];
            spec.faults = vec![throw("java/io/IOException")];
            spec.contexts = known.map(|c| context_key(0, c.0)).collect();
        });
        let said = trial.run(jdk, "n1", &["Contexts"]);
        assert_eq!(said.lines(), ["thrown by way of right"]);
        let at = StepSpec {
            stack: contexts[1].0,
            nth: 2,
            ..step(TriggerKind::AtHit, 0)
        };
        let trial = Trial::new(catalog("Contexts"), |spec| {
            spec.steps = vec![at];
            spec.faults = vec![throw("java/io/IOException")];
        });
        assert_eq!(
            trial.run(jdk, "n1", &["Contexts"]).lines(),
            ["thrown by way of right"]
        );
    }
    assert_eq!(seen.len(), 1, "the same on every JDK");
}

#[test]
fn recorded_hits_respect_their_limits() {
    for jdk in jdk::all() {
        let trial = Trial::new(catalog("Loop"), |spec| {
            spec.arms = vec![ARM_RECORD, 0, ARM_RECORD];
            spec.hits_per_site = 5;
            spec.stacks_per_site = 2;
        });
        trial.run(jdk, "n1", &["Loop", "9"]).lines();
        let records = trial.records(0);
        let hits: Vec<(u32, u32, bool, &str)> = records
            .iter()
            .filter_map(|r| match r {
                RecordWhat::Hit {
                    site,
                    count,
                    stack,
                    thread,
                } => Some((*site, *count, *stack != 0, thread.as_str())),
                _ => None,
            })
            .collect();
        let expected: Vec<(u32, u32, bool, &str)> = (1..=5)
            .flat_map(|n| [(0, n, n <= 2, "main"), (2, n, n <= 2, "main")])
            .collect();
        assert_eq!(hits, expected);
        assert_eq!([0, 1, 2].map(|site| trial.counter(0, site)), [9, 0, 9]);
        let contexts = records
            .iter()
            .filter(|r| matches!(r, RecordWhat::Context { .. }));
        assert_eq!(contexts.count(), 2);
    }
}

#[test]
fn a_full_ring_counts_what_it_drops() {
    for jdk in jdk::all() {
        let trial = Trial::new(catalog("Loop"), |spec| {
            spec.arms = vec![ARM_RECORD; 3];
            spec.ring_units = 16;
            spec.stacks_per_site = 0;
        });
        trial.run(jdk, "n1", &["Loop", "20"]).lines();
        let kept = trial.records(0).len() as u64;
        let dropped = trial.board().slot(0).dropped.load(Ordering::Relaxed);
        assert!(kept > 0 && dropped > 0, "{kept} {dropped}");
        assert_eq!(kept + dropped, 60);
    }
}

#[test]
fn virtual_threads_are_hooked_like_others() {
    for jdk in jdk::all() {
        let trial = Trial::new(catalog("Virtual"), |spec| {
            spec.arms = vec![ARM_RECORD | ARM_SET];
            let random = step(TriggerKind::Random, ANY);
            spec.steps = vec![
                StepSpec {
                    rate: 0.02,
                    fault: 0,
                    ..random
                };
                4
            ];
            spec.steps.push(StepSpec {
                fault: 1,
                ..random_always()
            });
            spec.faults = vec![throw("java/io/IOException"), fault(FaultKind::Delay, 20)];
        });
        let said = trial.run(jdk, "n1", &["Virtual"]);
        assert_eq!(said.lines(), ["thrown 4"], "JDK {}", jdk.feature);
        assert_eq!(trial.counter(0, 0), 1000);
    }
}

fn random_always() -> StepSpec {
    step(TriggerKind::Random, ANY)
}
