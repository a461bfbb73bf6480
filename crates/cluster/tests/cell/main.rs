//! Cells with real processes: isolation, exits, signals, and that nothing outlives them.

mod below;
mod bench;
mod network;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use bench::{CELL_PROGRAM, LIMIT, count_marked, marker, open, wait_until};
use temblor_cluster::cell::{Cell, CellError, CellSpec, ExitNotice, ProcessSpec, doctor};

#[test]
fn a_cell_sees_only_its_own_processes() {
    let bench = open();
    let text = bench.output(
        "ps",
        &["/bin/sh", "-c", "echo me $$; cat /proc/[0-9]*/comm; exit 0"],
    );
    let (first, others) = text.split_once('\n').unwrap();
    let own: u32 = first.strip_prefix("me ").unwrap().parse().unwrap();
    assert!(own > 1000, "ids start above 1000, for snapshots: {own}");
    let mut names: Vec<&str> = others.lines().collect();
    names.sort();
    assert_eq!(names, ["sh", "temblor-cell", "temblor-cell"]);
}

#[test]
fn a_cell_has_namespaces_of_its_own() {
    let bench = open();
    for kind in ["pid", "net", "mnt", "time"] {
        let path = format!("/proc/self/ns/{kind}");
        let inside = bench.output(kind, &["readlink", &path]);
        assert!(inside.starts_with(&format!("{kind}:[")), "{inside}");
        assert_ne!(
            inside.trim(),
            fs::read_link(&path).unwrap().to_str().unwrap()
        );
    }
}

#[test]
fn processes_hold_no_descriptor_from_outside() {
    let bench = open();
    let text = bench.output(
        "fds",
        &[
            "/bin/sh",
            "-c",
            "for fd in /proc/$$/fd/*; do readlink $fd; done; exit 0",
        ],
    );
    let log = bench.log("fds").display().to_string();
    let mut open: Vec<&str> = text.lines().collect();
    open.sort();
    let mut expected = ["/dev/null", log.as_str(), log.as_str()];
    expected.sort();
    assert_eq!(open, expected);
}

#[test]
fn exits_are_told_with_code_or_signal() {
    let bench = open();
    let id = bench.shell("seven", "exit 7");
    assert_eq!(
        bench.end_of(id),
        ExitNotice {
            id,
            code: Some(7),
            signal: None
        }
    );
    let id = bench.shell("self", "kill -ABRT $$");
    assert_eq!(
        bench.end_of(id),
        ExitNotice {
            id,
            code: None,
            signal: Some(libc::SIGABRT)
        }
    );
    let id = bench.shell("sleep", "sleep 1000");
    bench.cell.kill(id).unwrap();
    assert_eq!(
        bench.end_of(id),
        ExitNotice {
            id,
            code: None,
            signal: Some(libc::SIGKILL)
        }
    );
    assert!(matches!(
        bench.cell.signal(id, 15),
        Err(CellError::Ended { .. })
    ));
    let told: Vec<Option<i32>> = bench.cell.poll_exits().iter().map(|n| n.signal).collect();
    assert_eq!(told, [None, Some(libc::SIGABRT), Some(libc::SIGKILL)]);
    assert!(bench.cell.poll_exits().is_empty(), "each exit is told once");
}

#[test]
fn a_node_that_dies_at_once_is_told_like_any_other() {
    let bench = open();
    let id = bench.start("false", &["/bin/false"]);
    assert_eq!(
        bench.cell.wait_exit(LIMIT).unwrap(),
        ExitNotice {
            id,
            code: Some(1),
            signal: None
        }
    );
    assert!(bench.cell.wait_exit(Duration::from_millis(1)).is_none());
}

#[test]
fn what_cannot_be_started_is_a_clear_error() {
    let bench = open();
    let reason = |spec: ProcessSpec| bench.cell.start(spec).unwrap_err().to_string();
    let text = reason(bench.spec("n1", &["/no/such/java", "-version"]));
    assert_eq!(
        text,
        "could not start n1: the program `/no/such/java` does not exist"
    );
    let text = reason(ProcessSpec {
        cwd: "/no/where".into(),
        ..bench.spec("n1", &["/bin/true"])
    });
    assert!(
        text.contains("its folder /no/where does not exist"),
        "{text}"
    );
    let text = reason(ProcessSpec {
        stdout: "/no/where/x".into(),
        ..bench.spec("n1", &["true"])
    });
    assert!(text.contains("cannot write /no/where/x"), "{text}");
    let plain = bench.cell.dir().join("plain.txt");
    fs::write(&plain, "no program").unwrap();
    let text = reason(bench.spec("n1", &[plain.to_str().unwrap()]));
    assert!(text.contains("plain.txt`: Permission denied"), "{text}");
    assert!(reason(bench.spec("n1", &[])).contains("no program is given"));
    let id = bench.start("path", &["true"]);
    assert_eq!(
        bench.end_of(id).code,
        Some(0),
        "found in its PATH; the cell works on"
    );
}

#[test]
fn output_of_a_restarted_process_is_appended() {
    let bench = open();
    for word in ["first", "second"] {
        let id = bench.shell("n1", &format!("echo {word}; echo {word}-error >&2"));
        bench.end_of(id);
    }
    let text = fs::read_to_string(bench.log("n1")).unwrap();
    assert_eq!(text, "first\nfirst-error\nsecond\nsecond-error\n");
}

#[test]
fn a_paused_process_stands_still_until_resumed() {
    let bench = open();
    let id = bench.shell("beat", "while :; do echo beat; sleep 0.02; done");
    bench.wait_for_text("beat", "beat");
    bench.cell.pause(id).unwrap();
    let state = |wanted: char| {
        let script = format!(
            "for p in /proc/[0-9]*; do read -r s < $p/stat; echo \"$s\"; done \
            | grep -c '(sh) {wanted} '; rm -f x"
        );
        bench.end_of(bench.shell("state", &script));
        fs::read_to_string(bench.log("state"))
            .unwrap()
            .lines()
            .last()
            .unwrap_or("0")
            != "0"
    };
    wait_until("the stop", || state('T'));
    let lines = || {
        fs::read_to_string(bench.log("beat"))
            .unwrap()
            .lines()
            .count()
    };
    let before = lines();
    thread::sleep(Duration::from_millis(300));
    assert_eq!(lines(), before, "no beat while paused");
    bench.cell.resume(id).unwrap();
    wait_until("the next beat", || lines() > before);
    bench.cell.kill(id).unwrap();
    bench.end_of(id);
}

#[test]
fn signals_reach_what_a_script_has_started() {
    let bench = open();
    let mark = marker("group");
    let script = format!("sh -c 'while :; do sleep 1; done' {mark} & wait");
    let id = bench.shell("script", &script);
    wait_until("the inner process", || {
        count_marked(&format!("{mark}\0")) > 0
    });
    bench.cell.kill(id).unwrap();
    bench.end_of(id);
    wait_until("the inner process's end", || count_marked(&mark) == 0);
}

#[test]
fn closing_ends_daemons_too() {
    let bench = open();
    let mark = marker("daemon");
    let script = format!("setsid sh -c 'setsid sh -c \"while :; do sleep 1; done\" {mark} & exit'");
    let id = bench.shell("forker", &script);
    bench.end_of(id);
    wait_until("the daemon", || count_marked(&format!("\0{mark}\0")) > 0);
    bench.cell.close().unwrap();
    assert_eq!(count_marked(&mark), 0);
    assert!(bench.cell.is_gone() || bench.cell.start(bench.spec("x", &["true"])).is_err());
    bench.cell.close().unwrap();
    let error = bench
        .cell
        .start(bench.spec("late", &["/bin/true"]))
        .unwrap_err();
    assert!(matches!(error, CellError::Gone { .. }), "{error}");
}

#[test]
fn a_closed_cell_leaves_no_remains() {
    let bench = open();
    let init = PathBuf::from(format!("/proc/{}", bench.cell.init_pid()));
    assert!(init.exists());
    bench.cell.close().unwrap();
    // Not even as a zombie, unless the number was given to another process since.
    let stat = fs::read_to_string(init.join("stat")).unwrap_or_default();
    assert!(!stat.contains("(temblor-cell) Z"), "{stat}");
}

#[test]
fn dropping_a_cell_ends_its_processes() {
    let mark = marker("drop");
    let bench = open();
    bench.start("n1", &["/bin/sh", "-c", "while :; do sleep 1; done", &mark]);
    wait_until("the process", || count_marked(&mark) > 0);
    drop(bench);
    assert_eq!(count_marked(&mark), 0);
}

#[test]
fn a_lab_killed_by_force_leaves_no_process() {
    let dir = tempfile::tempdir().unwrap();
    let mark = marker("lab");
    let daemon =
        format!("setsid sh -c 'while :; do sleep 1; done' {mark} & while :; do sleep 1; done");
    let mut lab = Command::new(CELL_PROGRAM)
        .args([
            "run",
            dir.path().to_str().unwrap(),
            "/bin/sh",
            "-c",
            &daemon,
            "node",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(lab.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "running\n");
    let place = dir.path().canonicalize().unwrap().display().to_string();
    wait_until("all its processes", || {
        count_marked(&format!("\0{mark}\0")) > 0
    });
    assert!(
        count_marked(&place) >= 3,
        "lab, outer process, init, keeper"
    );
    lab.kill().unwrap();
    lab.wait().unwrap();
    wait_until("the end of all of them", || {
        count_marked(&mark) == 0 && count_marked(&place) == 0
    });
}

#[test]
fn a_killed_init_is_noticed_and_takes_all_along() {
    let bench = open();
    let mark = marker("init");
    let id = bench.start("n1", &["/bin/sh", "-c", "while :; do sleep 1; done", &mark]);
    wait_until("the process", || count_marked(&mark) > 0);
    // SAFETY: takes numbers only; the process is this test's own.
    let killed = unsafe { libc::kill(bench.cell.init_pid(), libc::SIGKILL) };
    assert_eq!(killed, 0);
    wait_until("the notice", || bench.cell.is_gone());
    wait_until("the end of all", || count_marked(&mark) == 0);
    assert!(matches!(
        bench.cell.signal(id, 9),
        Err(CellError::Gone { .. })
    ));
    assert!(
        bench.cell.wait_exit(LIMIT).is_none(),
        "does not wait for what cannot come"
    );
    bench.cell.close().unwrap();
}

#[test]
fn the_death_of_the_outer_process_ends_the_cell() {
    let bench = open();
    let mark = marker("outer");
    bench.start("n1", &["/bin/sh", "-c", "while :; do sleep 1; done", &mark]);
    wait_until("the process", || count_marked(&mark) > 0);
    // Field 4 of stat; no name here has a space in it.
    let stat = fs::read_to_string(format!("/proc/{}/stat", bench.cell.init_pid())).unwrap();
    let outer: i32 = stat.split(' ').nth(3).unwrap().parse().unwrap();
    // SAFETY: takes numbers only; the process is this test's own.
    let killed = unsafe { libc::kill(outer, libc::SIGKILL) };
    assert_eq!(killed, 0);
    wait_until("the notice", || bench.cell.is_gone());
    wait_until("the end of all", || count_marked(&mark) == 0);
    bench.cell.close().unwrap();
}

#[test]
fn an_ordinary_user_can_open_cells() {
    const NOBODY: u32 = 65534;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    // The build folder may be closed to others.
    let program = dir.path().join("temblor-cell");
    fs::copy(CELL_PROGRAM, &program).unwrap();
    let trial = dir.path().join("trial");
    let mut command = Command::new(&program);
    // SAFETY: geteuid cannot fail and takes nothing.
    if unsafe { libc::geteuid() } == 0 {
        command.uid(NOBODY).gid(NOBODY);
    }
    let script = "id -u; cat /proc/[0-9]*/comm | grep -c .; \
        printf 'add table ip x\\n' | /usr/sbin/nft -f - && echo rules; exit 3";
    let output = command
        .current_dir("/")
        .args(["run", trial.to_str().unwrap(), "/bin/sh", "-c", script])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    let text = fs::read_to_string(trial.join("out.log")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "0", "root inside: {text}");
    assert!(
        text.ends_with("rules\n"),
        "nft works inside (apt-get install nftables): {text}"
    );
}

#[test]
fn the_doctor_finds_what_these_tests_need() {
    let findings = doctor();
    let names: Vec<&str> = findings
        .iter()
        .map(|finding| finding.what.as_str())
        .collect();
    for wanted in [
        "rights",
        "pid namespaces",
        "network namespaces",
        "time namespaces",
    ] {
        assert!(names.contains(&wanted), "{names:?}");
    }
    for finding in findings {
        assert!(
            finding.ok,
            "{}: {}; {:?}",
            finding.what, finding.detail, finding.fix
        );
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_a_clear_error() {
    let error = Cell::open(CellSpec::new("/proc/no/cell"))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("cannot use /proc/no/cell as a cell's folder"),
        "{error}"
    );
}
