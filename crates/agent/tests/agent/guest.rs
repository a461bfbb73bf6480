//! A polite guest: an idle agent changes nothing, and bad input costs one line.

use std::sync::atomic::Ordering;

use temblor_model::board::record::RecordWhat;
use temblor_model::board::spec::{StepSpec, TriggerKind};
use temblor_model::board::view::Header;
use temblor_model::board::{ARM_RECORD, ARM_SET};

use crate::jdk;
use crate::trial::{ANY, Said, Trial, catalog, fresh_path, jdk_catalog, plain, step, throw};

#[test]
fn an_idle_agent_changes_nothing() {
    for jdk in jdk::all() {
        let programs: [&[&str]; 4] = [
            &["Loop", "5", "7"],
            &["Contexts"],
            &["Throws"],
            &["NoSuchClass"],
        ];
        for program in programs {
            let without = Said::of(plain(jdk, program).output().unwrap());
            let class = if program[0] == "NoSuchClass" {
                "Loop"
            } else {
                program[0]
            };
            let trial = Trial::new(catalog(class), |spec| spec.arms.fill(0));
            let with = trial.run(jdk, "n1", program);
            assert_eq!(with, without, "JDK {}", jdk.feature);
            assert!(trial.records(0).is_empty());
        }
    }
}

#[test]
fn an_empty_table_is_idle_too() {
    for jdk in jdk::all() {
        let trial = Trial::new(jdk_catalog(&[]), |_| {});
        let without = Said::of(plain(jdk, &["Loop", "3"]).output().unwrap());
        assert_eq!(trial.run(jdk, "n1", &["Loop", "3"]), without);
        assert!(trial.board().joined(0).is_some());
    }
}

#[test]
fn bad_input_costs_one_line_and_the_target_runs_on() {
    let missing = fresh_path("missing").display().to_string();
    let other = Trial::new(catalog("Contexts"), |_| {});
    let other_hooks = other.folder.path().join("hooks").display().to_string();
    for jdk in jdk::all() {
        let trial = Trial::new(catalog("Loop"), |spec| {
            spec.arms.fill(ARM_RECORD);
            spec.slots = 1;
        });
        let good = trial.options("n1");
        let board = trial.folder.path().join("board").display().to_string();
        let hooks = trial.folder.path().join("hooks").display().to_string();
        let old = trial.folder.path().join("old");
        let mut bytes = std::fs::read(&board).unwrap();
        bytes[std::mem::offset_of!(Header, version)] = 99;
        std::fs::write(&old, bytes).unwrap();
        let old = old.display();
        let cases = [
            (String::new(), "option board is missing"),
            (format!("{good},speed=9"), "unknown option \"speed\""),
            (format!("hooks={hooks},node=n"), "option board is missing"),
            (format!("board={board},node=n"), "option hooks is missing"),
            (
                format!("board={missing},hooks={hooks},node=n"),
                "cannot open the board",
            ),
            (
                format!("board={board},hooks={missing},node=n"),
                "cannot open the hooks",
            ),
            (
                format!("board={hooks},hooks={hooks},node=n"),
                "cannot use the board",
            ),
            (
                format!("board={old},hooks={hooks},node=n"),
                "board version 99",
            ),
            (
                format!("board={board},hooks={board},node=n"),
                "cannot use the hooks",
            ),
            (
                format!("board={board},hooks={other_hooks},node=n"),
                "different catalogs",
            ),
        ];
        let run = |options: &str| {
            let agent = format!("-agentpath:{}={options}", jdk::agent().display());
            Said::of(plain(jdk, &[&agent, "Loop", "1"]).output().unwrap())
        };
        for (options, expected) in &cases {
            check_one_line(&run(options), expected);
        }
        assert_eq!(run(&good).err, "", "none of them took the place");
        check_one_line(&run(&good), "all 1 places on the board are taken");
    }
}

fn check_one_line(said: &Said, expected: &str) {
    assert_eq!(
        (said.out.as_str(), said.code),
        ("made 3\n", Some(0)),
        "{said:?}"
    );
    let lines: Vec<&str> = said.err.lines().collect();
    let [line] = lines[..] else {
        panic!("{said:?}")
    };
    assert!(
        line.starts_with("temblor-agent: ") && line.contains(expected),
        "{line}"
    );
}

#[test]
fn a_class_that_differs_is_left_alone() {
    for jdk in jdk::all() {
        let mut wrong = catalog("Loop");
        wrong.classes[0].hash ^= 1;
        let trial = Trial::new(wrong, |spec| {
            spec.steps = vec![step(TriggerKind::AtHit, 0)];
            spec.faults = vec![throw("java/io/IOException")];
        });
        let said = trial.run(jdk, "n1", &["Loop", "1"]);
        assert_eq!((said.out.as_str(), said.code), ("made 3\n", Some(0)));
        let line = "temblor-agent: class Loop differs from the analysed one; left alone\n";
        assert_eq!(said.err, line);
        assert_eq!(trial.board().slot(0).left_alone.load(Ordering::Relaxed), 1);
        let text = "class Loop differs from the analysed one; left alone".to_owned();
        assert_eq!(trial.records(0), [RecordWhat::Notice { text }]);
    }
}

#[test]
fn hooks_that_do_not_fit_leave_the_class_alone() {
    for jdk in jdk::all() {
        let mut off = catalog("Loop");
        off.sites[1].pc += 1; // inside an instruction
        let trial = Trial::new(off, |_| {});
        let said = trial.run(jdk, "n1", &["Loop", "1"]);
        assert_eq!(
            (said.out.as_str(), said.code),
            ("made 3\n", Some(0)),
            "{said:?}"
        );
        assert!(said.err.contains("no instruction at pc"), "{}", said.err);
        let trial = Trial::new(catalog("Loop"), |spec| spec.arms.truncate(1));
        let said = trial.run(jdk, "n1", &["Loop", "1"]);
        assert_eq!(
            (said.out.as_str(), said.code),
            ("made 3\n", Some(0)),
            "{said:?}"
        );
        assert!(said.err.contains("not on the board"), "{}", said.err);
    }
}

#[test]
fn the_jni_checker_has_nothing_to_say() {
    for jdk in jdk::all() {
        let trial = Trial::new(catalog("Contexts"), |spec| {
            spec.arms = vec![ARM_RECORD | ARM_SET];
            let random = step(TriggerKind::Random, ANY);
            spec.steps = vec![
                StepSpec {
                    rate: 0.5,
                    ..random
                };
                10
            ];
            spec.steps.push(StepSpec {
                fault: 1,
                ..step(TriggerKind::Random, ANY)
            });
            spec.faults = ["java/io/IOException", "no/such/Class"].map(throw).to_vec();
        });
        // Without its signals: under `nohup` the checker would have something to say of those.
        let flags = ["-Xrs", "-Xcheck:jni", "-Xverify:all", "Contexts"];
        let said = trial.run(jdk, "n1", &flags);
        let without = Said::of(plain(jdk, &flags).output().unwrap());
        assert_eq!(said.err, without.err);
        assert_eq!(said.code, Some(0));
        let thrown = |line: &&str| line.starts_with("thrown by way of");
        assert_eq!(said.out.lines().filter(thrown).count(), 10, "{}", said.out);
        assert_eq!(
            said.out.lines().count(),
            10 + without.out.lines().count(),
            "{}",
            said.out
        );
    }
}
