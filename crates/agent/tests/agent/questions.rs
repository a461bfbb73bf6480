//! The lab is asked: an answer, no answer, a fault that the lab itself makes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use temblor_agent::clock;
use temblor_model::board::ARM_SET;
use temblor_model::board::record::RecordWhat;
use temblor_model::board::spec::{FaultKind, StepSpec, TriggerKind};
use temblor_model::board::view::{Board, ask};

use crate::jdk;
use crate::trial::{ANY, Trial, catalog, fault, step, throw};

/// Answers questions until told to stop; gives (site, count, step) of each.
pub fn lab(
    board: Board,
    stop: &AtomicBool,
    mut answer: impl FnMut(u32, u32, u32) -> u32,
) -> Vec<(u32, u32, u32)> {
    let mut asked = Vec::new();
    let limit = Instant::now() + Duration::from_secs(120);
    while !stop.load(Ordering::Acquire) && Instant::now() < limit {
        let bell = board.header().doorbell.load(Ordering::Acquire);
        for cell in board.asks() {
            if cell.state.load(Ordering::Acquire) != ask::ASKED {
                continue;
            }
            let [site, count, step] =
                [&cell.site, &cell.count, &cell.step].map(|v| v.load(Ordering::Relaxed));
            asked.push((site, count, step));
            cell.answer
                .store(answer(site, count, step), Ordering::Relaxed);
            let (from, to) = (ask::ASKED, ask::ANSWERED);
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            let _ = cell.state.compare_exchange(from, to, order.0, order.1);
            clock::wake(&cell.state);
        }
        clock::wait(&board.header().doorbell, bell, Duration::from_millis(50));
    }
    asked
}

#[test]
fn the_lab_decides_at_each_hit() {
    for jdk in jdk::all() {
        let trial = Trial::new(catalog("Loop"), |spec| {
            spec.arms = vec![ARM_SET, 0, ARM_SET];
            spec.steps = vec![step(TriggerKind::Ask, ANY)];
            spec.faults = ["java/io/IOException", "java/io/EOFException"]
                .map(throw)
                .to_vec();
        });
        let stop = AtomicBool::new(false);
        let (said, asked) = std::thread::scope(|scope| {
            let lab = scope.spawn(|| {
                lab(trial.board(), &stop, |site, count, _| {
                    if (site, count) == (2, 2) { 2 } else { 0 }
                })
            });
            let said = trial.run(jdk, "n1", &["Loop", "4"]);
            stop.store(true, Ordering::Release);
            (said, lab.join().unwrap())
        });
        assert_eq!(said.lines(), ["c 2 EOFException", "made 11"]);
        assert_eq!(asked, [(0, 1, 0), (2, 1, 0), (0, 2, 0), (2, 2, 0)]);
    }
}

#[test]
fn without_an_answer_the_target_goes_on() {
    for jdk in jdk::all() {
        let trial = Trial::new(catalog("Loop"), |spec| {
            spec.steps = vec![step(TriggerKind::Ask, 1)];
            spec.faults = vec![throw("java/io/IOException")];
            spec.ask_deadline_ms = 50;
        });
        assert_eq!(trial.run(jdk, "n1", &["Loop", "2"]).lines(), ["made 6"]);
        let notices = |r: &RecordWhat| match r {
            RecordWhat::Notice { text } => text.contains("did not answer within 50 ms"),
            _ => false,
        };
        assert_eq!(trial.records(0).iter().filter(|r| notices(r)).count(), 2);
        let states = trial
            .board()
            .asks()
            .iter()
            .map(|c| c.state.load(Ordering::Relaxed));
        assert!(states.into_iter().all(|s| s == ask::FREE));
    }
}

#[test]
fn a_fault_of_the_lab_holds_the_target_until_it_is_done() {
    for jdk in jdk::all() {
        let trial = Trial::new(catalog("Loop"), |spec| {
            spec.steps = vec![StepSpec {
                nth: 2,
                ..step(TriggerKind::AtHit, 0)
            }];
            spec.faults = vec![fault(FaultKind::Lab, 0)];
        });
        let stop = AtomicBool::new(false);
        let (said, asked) = std::thread::scope(|scope| {
            let lab = scope.spawn(|| {
                lab(trial.board(), &stop, |_, _, _| {
                    let current = trial.board().header().current_step.load(Ordering::Acquire);
                    assert_eq!(current, 1, "the step is taken before the lab acts");
                    1
                })
            });
            let said = trial.run(jdk, "n1", &["Loop", "3"]);
            stop.store(true, Ordering::Release);
            (said, lab.join().unwrap())
        });
        assert_eq!(said.lines(), ["made 9"]);
        assert_eq!(asked, [(0, 2, 0)]);
        let fired = |r: &RecordWhat| {
            matches!(
                r,
                RecordWhat::Fired {
                    step: 0,
                    count: 2,
                    ..
                }
            )
        };
        assert!(trial.records(0).iter().any(fired));
    }
}
