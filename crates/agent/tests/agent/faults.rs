//! Throw, delay, crash, and what stays behind.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use temblor_model::board::record::RecordWhat;
use temblor_model::board::spec::{FaultKind, TriggerKind};

use crate::jdk;
use crate::trial::{Said, Trial, catalog, catalog_of, fault, step, throw};

fn fired(records: &[RecordWhat]) -> Vec<&RecordWhat> {
    records
        .iter()
        .filter(|r| matches!(r, RecordWhat::Fired { .. }))
        .collect()
}

fn thrown(class: &str, program: &[&str]) -> Vec<(u32, Vec<String>)> {
    let run = |jdk| {
        let trial = Trial::new(catalog("Throws"), |spec| {
            spec.steps = vec![step(TriggerKind::AtHit, 0)];
            spec.faults = vec![throw(class)];
        });
        let said = trial.run(jdk, "n1", program);
        let records = trial.records(0);
        let [
            RecordWhat::Fired {
                step,
                site,
                count,
                fault,
                thread,
                frames,
                ..
            },
        ] = fired(&records)[..]
        else {
            panic!("{records:?} {said:?}")
        };
        assert_eq!(
            (*step, *site, *count, *fault, thread.as_str()),
            (0, 0, 1, 0, "main")
        );
        assert!(
            frames.starts_with("Throws.guarded:21\nThrows.main:29"),
            "{frames}"
        );
        said.lines().into_iter().map(str::to_owned).collect()
    };
    jdk::all()
        .iter()
        .map(|jdk| (jdk.feature, run(jdk)))
        .collect()
}

fn expect_thrown(class: &str) {
    let name = class.replace('/', ".");
    let expected = [
        "finally 0".to_owned(),
        format!("class {name}"),
        "message injected by Temblor".into(),
        "cause null".into(),
        "at Throws.guarded:21".into(),
        "at Throws.main:29".into(),
        "suppressed 1".into(),
        "cause now c".into(),
    ];
    for (jdk, lines) in thrown(class, &["Throws"]) {
        assert_eq!(lines, expected, "JDK {jdk}");
    }
}

#[test]
fn an_io_exception_has_the_true_stack() {
    expect_thrown("java/io/IOException");
}

#[test]
fn a_custom_type_needs_none_of_its_constructors() {
    expect_thrown("Throws$Custom");
}

#[test]
fn errors_and_runtime_exceptions_are_thrown_too() {
    expect_thrown("java/lang/OutOfMemoryError");
    expect_thrown("java/lang/IllegalStateException");
    expect_thrown("java/nio/channels/ClosedChannelException");
}

#[test]
fn every_loader_finds_its_own_classes() {
    for jdk in jdk::all() {
        let trial = Trial::new(catalog("Throws"), |spec| {
            spec.steps = vec![step(TriggerKind::AtHit, 0); 2];
            spec.faults = vec![throw("Throws$Custom")];
        });
        let said = trial.run(jdk, "n1", &["Loaders"]);
        let lines = said.lines();
        let count = |line| lines.iter().filter(|l| **l == line).count();
        assert_eq!(count("own loader true"), 2, "{lines:?}");
        assert_eq!(count("class Throws$Custom"), 2, "{lines:?}");
        assert_eq!(
            trial
                .board()
                .slot(0)
                .rewritten
                .load(std::sync::atomic::Ordering::Relaxed),
            3
        );
    }
}

/// The loader is asked for the exception's class by the agent itself; that is no hit.
#[test]
fn what_the_agent_calls_is_not_hooked() {
    let mut both = catalog_of("Loaders$Own", |_, name| name == "findLoadedClass");
    both.sites.extend(catalog("Throws").sites);
    both.classes.extend(catalog("Throws").classes);
    both.block_count = 0;
    for (id, site) in both.sites.iter_mut().enumerate() {
        site.id = id as u32;
    }
    for class in &mut both.classes {
        class.blocks.clear();
    }
    for jdk in jdk::all() {
        let trial = Trial::new(both.clone(), |spec| {
            spec.steps = vec![step(TriggerKind::AtHit, 1); 2];
            spec.faults = vec![throw("Throws$Custom")];
        });
        let said = trial.run(jdk, "n1", &["Loaders"]);
        let custom = |line: &&&str| **line == "class Throws$Custom";
        assert_eq!(said.lines().iter().filter(custom).count(), 2, "{said:?}");
        // Throws and Io in each of two loaders; Throws$Custom was loaded for the agent.
        assert_eq!([0, 1].map(|site| trial.counter(0, site)), [4, 2]);
    }
}

#[test]
fn every_collector_will_do() {
    for jdk in jdk::all() {
        let collectors = ["UseG1GC", "UseParallelGC", "UseZGC"];
        // ZGC is no experiment any more since 15.
        let known = if jdk.feature < 15 { 2 } else { 3 };
        for collector in &collectors[..known] {
            let trial = Trial::new(catalog("Throws"), |spec| {
                spec.steps = vec![step(TriggerKind::AtHit, 0)];
                spec.faults = vec![throw("Throws$Custom")];
            });
            let flag = format!("-XX:+{collector}");
            let said = trial.run(jdk, "n1", &["-XX:-UseSerialGC", &flag, "Throws"]);
            assert!(
                said.lines().contains(&"at Throws.guarded:21"),
                "{flag}: {said:?}"
            );
        }
    }
}

#[test]
fn an_unknown_exception_class_is_noticed_and_nothing_is_thrown() {
    for jdk in jdk::all() {
        for class in [
            "no/such/Exception",
            "java/lang/String",
            "java/lang/VirtualMachineError",
        ] {
            let trial = Trial::new(catalog("Throws"), |spec| {
                spec.steps = vec![step(TriggerKind::AtHit, 0)];
                spec.faults = vec![throw(class)];
            });
            let said = trial.run(jdk, "n1", &["Throws"]);
            assert_eq!(said.lines(), ["finally 1", "nothing thrown"]);
            let records = trial.records(0);
            let noticed =
                |r: &RecordWhat| matches!(r, RecordWhat::Notice { text } if text.contains(class));
            assert!(records.iter().any(noticed), "{records:?}");
        }
    }
}

#[test]
fn a_delay_lets_the_call_be_made_later() {
    for jdk in jdk::all() {
        let trial = Trial::new(catalog("Loop"), |spec| {
            spec.steps = vec![step(TriggerKind::AtHit, 1)];
            spec.faults = vec![fault(FaultKind::Delay, 700)];
        });
        let began = std::time::Instant::now();
        let said = trial.run(jdk, "n1", &["Loop", "2"]);
        assert_eq!(said.lines(), ["made 6"]);
        assert!(began.elapsed().as_millis() >= 700);
        assert_eq!(fired(&trial.records(0)).len(), 1);
    }
}

#[test]
fn healing_ends_a_delay_that_has_begun_and_none_that_begins_later() {
    for jdk in jdk::all() {
        let trial = Trial::new(catalog("Loop"), |spec| {
            spec.steps = vec![step(TriggerKind::AtHit, 1), step(TriggerKind::AtHit, 2)];
            spec.steps[1].fault = 1;
            spec.faults = [3_600_000, 500]
                .map(|ms| fault(FaultKind::Delay, ms))
                .into();
        });
        let program = trial.spawn(jdk, "n1", &["Loop", "2"]);
        let header = trial.board().header();
        let mut healed = Instant::now();
        let deadline = healed + Duration::from_secs(60);
        while header.current_step.load(Ordering::Acquire) < 2 {
            assert!(
                Instant::now() < deadline,
                "the delay of an hour does not end"
            );
            healed = Instant::now();
            header.heals.fetch_add(1, Ordering::AcqRel);
            std::thread::sleep(Duration::from_millis(50));
        }
        let said = Said::of(program.wait_with_output().unwrap());
        assert_eq!(said.lines(), ["made 6"]);
        assert!(healed.elapsed() >= Duration::from_millis(500));
        assert_eq!(fired(&trial.records(0)).len(), 2);
    }
}

#[test]
fn a_crash_kills_at_once_and_its_record_survives() {
    for jdk in jdk::all() {
        let trial = Trial::new(catalog("Loop"), |spec| {
            let at = step(TriggerKind::AtHit, 2);
            spec.steps = vec![temblor_model::board::spec::StepSpec { nth: 2, ..at }];
            spec.faults = vec![fault(FaultKind::Crash, 0)];
        });
        let said = trial.run(jdk, "n1", &["Loop", "5"]);
        assert_eq!((said.out.as_str(), said.code), ("", None), "{said:?}");
        let records = trial.records(0);
        assert!(matches!(
            fired(&records)[..],
            [RecordWhat::Fired {
                site: 2,
                count: 2,
                ..
            }]
        ));
        assert_eq!([0, 1, 2].map(|site| trial.counter(0, site)), [2, 2, 2]);
    }
}
