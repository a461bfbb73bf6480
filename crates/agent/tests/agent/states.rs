//! Abstract states, visits, moves and timeouts, as a running JVM tells them.

use temblor_classfile::ClassFile;
use temblor_model::board::ARM_SET;
use temblor_model::board::record::RecordWhat;
use temblor_model::board::spec::{StepSpec, TriggerKind};
use temblor_model::board::table;
use temblor_model::catalog::{
    Place, SiteCatalog, State, Task, TaskKind, TimeUnit, Timeout, TimeoutKind,
};

use crate::jdk;
use crate::trial::{ANY, Trial, catalog, step, throw};

/// Where the program calls a method first.
fn call(method: &str, callee: &str) -> Place {
    let bytes = std::fs::read(jdk::programs().join("Tasks.class")).unwrap();
    let class = ClassFile::parse(&bytes).unwrap();
    let found = class.methods().iter().find(|m| m.name == method).unwrap();
    let code = class.code(found).unwrap().unwrap();
    let is_call = |i: &temblor_classfile::Instruction<'_>| {
        let invoke = i.invoke(class.pool()).unwrap();
        invoke.is_some_and(|i| i.name.to_str() == callee)
    };
    let at = code.instructions().map(Result::unwrap).find(is_call);
    place(method, &found.descriptor.to_string(), at.unwrap().pc.into())
}

fn place(method: &str, desc: &str, pc: u32) -> Place {
    Place {
        class: "Tasks".into(),
        method: method.into(),
        desc: desc.into(),
        pc,
        line: None,
    }
}

/// `outer` has two states, `inner` one.
fn tasks() -> SiteCatalog {
    let places = [place("outer", "()V", 0), place("inner", "(Z)V", 0)];
    let state = |id, task: u32, index, place: &Place| State {
        id,
        name: format!("{}:{index}", place.method),
        task,
        index,
        place: place.clone(),
        condition: String::new(),
    };
    let task = |(id, place): (u32, &Place)| Task {
        id,
        name: place.method.clone(),
        kind: TaskKind::Runnable,
        closure: false,
        place: place.clone(),
        variables: Vec::new(),
    };
    let timeout = |id, callee, above, unit| Timeout {
        id,
        kind: TimeoutKind::Wait,
        place: call("main", callee),
        above,
        wide: true,
        unit,
        constant: None,
        expression: String::new(),
    };
    SiteCatalog {
        states: vec![
            state(0, 0, 0, &places[0]),
            state(1, 0, 1, &call("outer", "b")),
            state(2, 1, 0, &places[1]),
        ],
        tasks: (0..).zip(&places).map(task).collect(),
        timeouts: vec![
            timeout(0, "wait", 0, TimeUnit::Milliseconds),
            timeout(1, "await", 1, TimeUnit::Argument),
        ],
        ..catalog("Tasks")
    }
}

fn trial() -> Trial {
    Trial::new(tasks(), |spec| {
        spec.points = tasks().points();
        spec.arms.fill(ARM_SET);
        (spec.tell_states, spec.tell_timeouts, spec.counts) = (true, true, true);
        // One that may strike anywhere and never does: stacks are told where a step may fire.
        spec.steps = vec![StepSpec {
            rate: 0.0,
            ..step(TriggerKind::Random, ANY)
        }];
        spec.faults = vec![throw("java/lang/IllegalStateException")];
    })
}

#[test]
fn hits_belong_to_the_task_on_top_also_after_an_exception() {
    for jdk in jdk::all() {
        let trial = trial();
        assert_eq!(
            trial.run(jdk, "n1", &["Tasks"]).lines(),
            ["caught", "made 7"]
        );
        let name = |site: u32| trial.catalog.sites[site as usize].name.as_str();
        let mut visits: Vec<_> = table::visits(trial.board().visits(0))
            .map(|one| (one.first, name(one.site), one.state, one.hits))
            .collect();
        visits.sort();
        let visits: Vec<_> = visits.into_iter().map(|(_, n, s, h)| (n, s, h)).collect();
        assert_eq!(
            visits,
            [
                ("Tasks.outer>a", Some(0), 1),
                // Twice, under two stacks: the two calls of `inner`.
                ("Tasks.inner>c", Some(2), 1),
                ("Tasks.outer>b", Some(1), 1),
                ("Tasks.inner>c", Some(2), 1),
                ("Tasks.inner>c", Some(2), 1),
                ("Tasks.outer>a", Some(1), 1),
                ("Tasks.main>b", None, 1),
            ],
            "JDK {}",
            jdk.feature
        );
        let mut moves: Vec<_> = table::moves(trial.board().moves(0)).collect();
        moves.sort();
        let expected = [(None, 0, 1), (None, 2, 2), (Some(0), 1, 1)];
        assert_eq!(moves, expected, "JDK {}", jdk.feature);
    }
}

#[test]
fn timeouts_are_told_with_their_unit() {
    for jdk in jdk::all() {
        let trial = trial();
        trial.run(jdk, "n1", &["Tasks"]).lines();
        let told: Vec<_> = trial
            .records(0)
            .into_iter()
            .filter_map(|r| match r {
                RecordWhat::Timeout { timeout, value } => Some((timeout, value)),
                _ => None,
            })
            .collect();
        assert_eq!(told, [(0, 5), (1, 7_000)], "JDK {}", jdk.feature);
    }
}

#[test]
fn a_fault_strikes_in_the_state_it_waits_for_and_says_so() {
    for jdk in jdk::all() {
        let trial = Trial::new(tasks(), |spec| {
            let mut first = step(TriggerKind::Random, ANY);
            first.state = 3;
            spec.points = tasks().points();
            spec.arms.fill(ARM_SET);
            (spec.tell_states, spec.counts) = (true, true);
            spec.steps = vec![first];
            spec.faults = vec![throw("java/lang/IllegalStateException")];
        });
        let said = trial.run(jdk, "n1", &["Tasks"]);
        // `inner` is left by the fault, and `outer` goes on.
        assert_eq!(said.lines(), ["caught", "made 6"]);
        let fired: Vec<_> = trial
            .records(0)
            .into_iter()
            .filter_map(|r| match r {
                RecordWhat::Fired {
                    site, state, nth, ..
                } => Some((trial.catalog.sites[site as usize].name.clone(), state, nth)),
                _ => None,
            })
            .collect();
        assert_eq!(fired, [("Tasks.inner>c".to_string(), 3, 1)]);
    }
}
