//! Cells frozen and thawed, with real processes: forks go on exactly where they were, and nothing
//! is left behind, whatever happens.

mod bench;
mod java;
mod places;
mod time;
mod weather;

use std::fs;
use std::path::Path;
use std::thread;

use temblor_cluster::cell::{Cell, CellError};

use bench::{
    Bench, content, counted, end_of, mounts, namespace, open, population, read, shell, spec,
    wait_for_count, wait_until,
};

#[test]
fn forks_go_on_where_they_were_each_with_files_of_its_own() {
    let bench = Bench::counting();
    let mounted = mounts();
    let frozen = bench.freeze();
    let at = counted(frozen.dir(), "numbers");
    let (before, text) = (content(frozen.dir()), read(&frozen.dir().join("numbers")));
    let forks: Vec<Cell> = thread::scope(|scope| {
        let fork = || {
            let cell = frozen.fork();
            wait_for_count(cell.dir(), "numbers", at + 20);
            cell
        };
        let forks: Vec<_> = (0..3).map(|_| scope.spawn(fork)).collect();
        forks.into_iter().map(|fork| fork.join().unwrap()).collect()
    });
    for (number, cell) in forks.iter().enumerate() {
        let own = cell.dir().join("numbers");
        assert!(read(&own).starts_with(&text), "what was written stays");
        // Told apart: only one's file is changed, from inside its own cell.
        let id = shell(cell, "mark", &format!("echo {number} >mark; cat mark"));
        assert_eq!(end_of(cell, id).code, Some(0));
        assert_eq!(read(&cell.dir().join("mark")), format!("{number}\n"));
    }
    for cell in &forks {
        cell.close().unwrap();
        assert!(counted(cell.dir(), "numbers") >= at + 20);
    }
    assert_eq!(
        content(frozen.dir()),
        before,
        "nothing of the original moves"
    );
    assert_eq!(mounts(), mounted);
    frozen.discard();
}

#[test]
fn a_fork_of_the_same_snapshot_begins_at_the_same_line_each_time() {
    let frozen = Bench::counting().freeze();
    let at = counted(frozen.dir(), "numbers");
    for _ in 0..3 {
        let cell = frozen.fork();
        wait_for_count(cell.dir(), "numbers", at + 3);
        cell.close().unwrap();
    }
    assert_eq!(counted(frozen.dir(), "numbers"), at);
}

#[test]
fn a_thawed_cell_starts_signals_and_reaps() {
    let bench = open();
    let old = &bench.cell;
    let told_before = shell(old, "early", "exit 3");
    assert_eq!(old.wait_exit(bench::LIMIT).unwrap().id, told_before);
    let start = |name, script| {
        old.start_with_pid(spec(old, name, &["/bin/sh", "-c", script]))
            .unwrap()
    };
    let trapped = "trap 'exit 5' TERM; echo up; while :; do sleep 0.01; done";
    let (trapped, trapped_pid) = start("trapped", trapped);
    let waiting = "while [ ! -e go ]; do sleep 0.01; done; exit 6";
    let (waiting, waiting_pid) = start("waiting", waiting);
    let (lasting, lasting_pid) = start("lasting", "while :; do sleep 0.01; done");
    wait_until("the trap", || {
        read(&old.dir().join("trapped.log")).contains("up")
    });
    let frozen = bench.freeze();

    let cell = frozen.fork();
    assert!(cell.poll_exits().is_empty(), "nobody has ended since");
    assert!(cell.exit_of(told_before).is_none());
    let sleeper = ["/bin/sh", "-c", "while :; do sleep 0.01; done"];
    let mut new = Vec::new();
    for number in 0..20 {
        let spec = spec(&cell, &format!("new{number}"), &sleeper);
        new.push(cell.start_with_pid(spec).unwrap());
    }
    for (id, pid) in &new {
        assert!(*id > lasting, "{id} was given to another");
        let others = [trapped_pid, waiting_pid, lasting_pid];
        assert!(!others.contains(pid), "{pid} is another's");
    }
    cell.signal(trapped, libc::SIGTERM).unwrap();
    assert_eq!(end_of(&cell, trapped).code, Some(5));
    fs::write(cell.dir().join("go"), "").unwrap();
    assert_eq!(end_of(&cell, waiting).code, Some(6));
    cell.kill(new[0].0).unwrap();
    assert_eq!(end_of(&cell, new[0].0).signal, Some(libc::SIGKILL));
    let told: Vec<_> = cell.poll_exits().iter().map(|notice| notice.id).collect();
    assert_eq!(told, [trapped, waiting, new[0].0]);
    assert!(matches!(
        cell.signal(waiting, libc::SIGTERM),
        Err(CellError::Ended { .. })
    ));

    let inside = namespace(&cell);
    // Init, the keeper, one thawed and 19 new ones, some of them with a child.
    assert!(population(&inside) >= 22);
    cell.close().unwrap();
    assert_eq!(population(&inside), 0);
}

#[test]
fn freezing_ends_every_process_of_the_cell() {
    let bench = Bench::counting();
    let inside = namespace(&bench.cell);
    assert!(population(&inside) >= 3);
    let frozen = bench.freeze();
    assert_eq!(population(&inside), 0);
    assert!(frozen.snapshot().bytes() > 0);
}

#[test]
fn who_was_paused_is_paused_in_a_fork() {
    let bench = open();
    // Without children: one that is stopped before it runs its program holds its parent up.
    let ids = ["still", "going"].map(|name| {
        let pause = "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done";
        let script = format!("exec 3>{name}; while :; do n=$((n+1)); echo $n >&3; {pause}; done");
        shell(&bench.cell, name, &script)
    });
    for name in ["still", "going"] {
        wait_for_count(bench.cell.dir(), name, 5);
    }
    bench.cell.pause(ids[0]).unwrap();
    wait_until("the pause", || {
        let before = counted(bench.cell.dir(), "still");
        let going = counted(bench.cell.dir(), "going");
        wait_for_count(bench.cell.dir(), "going", going + 10);
        counted(bench.cell.dir(), "still") == before
    });
    let frozen = bench.freeze();
    let at = |dir: &Path| ["still", "going"].map(|name| counted(dir, name));
    let [still, going] = at(frozen.dir());
    let cell = frozen.fork();
    wait_for_count(cell.dir(), "going", going + 20);
    assert_eq!(counted(cell.dir(), "still"), still, "nobody resumed it");
    cell.resume(ids[0]).unwrap();
    wait_for_count(cell.dir(), "still", still + 3);
}
