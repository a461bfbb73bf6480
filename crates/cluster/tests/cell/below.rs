//! Delays below the program: a disk that holds operations back, a network that stalls.
//!
//! Times are only bounded from below: the delay happened. A busy machine may add any.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use temblor_cluster::cell::{DiskCache, DiskOp, HeldOp, SlowDisk};

use crate::bench::{Bench, CELL_PROGRAM, count_marked, open, wait_until};

const DELAY_MS: u64 = 1500;
/// As good as for ever; ends only when it is let go.
const AGES_MS: u64 = 3_600_000;

fn mounted(cache: DiskCache) -> (Bench, PathBuf) {
    let bench = open();
    let data = bench.cell.dir().join("data");
    fs::create_dir(&data).unwrap();
    bench.cell.slow_disk_mount(&data, cache).unwrap();
    (bench, data)
}

fn rule(ops: &[DiskOp], path: &str, delay_ms: u64) -> SlowDisk {
    SlowDisk {
        ops: ops.to_vec(),
        path: path.into(),
        delay_ms,
        skip: 0,
        count: None,
        for_ms: None,
    }
}

/// Runs a script in the folder, which must succeed; how long it took.
fn timed(bench: &Bench, folder: &Path, script: &str) -> Duration {
    let begun = Instant::now();
    let script = format!("set -e; cd {}; {script}", folder.display());
    let id = bench.shell("timed", &script);
    let ended = bench.end_of(id);
    let took = begun.elapsed();
    let said = fs::read_to_string(bench.log("timed")).unwrap();
    assert_eq!(ended.code, Some(0), "{script}: {said}");
    took
}

fn ops_held(held: &[HeldOp]) -> Vec<(DiskOp, &str)> {
    held.iter().map(|h| (h.op, h.path.as_str())).collect()
}

#[test]
fn a_held_fsync_makes_its_caller_wait_and_no_other() {
    let (bench, data) = mounted(DiskCache::Through);
    let delay = Duration::from_millis(DELAY_MS);
    bench
        .cell
        .slow_disk(&data, rule(&[DiskOp::Sync], "log.*", AGES_MS))
        .unwrap();
    let slow = format!(
        "cd {}; dd if=/dev/zero of=log.1 bs=512 count=2 conv=fsync",
        data.display()
    );
    let slow = bench.shell("slow", &slow);
    let held = || bench.cell.slow_disk_held(&data).unwrap();
    wait_until("the fsync", || !held().is_empty());
    // While it hangs, all else goes on, in the same folder too.
    let others = "dd if=/dev/zero of=other bs=512 count=2 conv=fsync 2>&1; cat log.1 | wc -c; \
        mv other another; mkdir d; ls; rm another";
    timed(&bench, &data, others);
    assert_eq!(
        held(),
        [HeldOp {
            op: DiskOp::Sync,
            path: "log.1".into(),
            held_ms: None
        }]
    );
    assert!(bench.cell.exit_of(slow).is_none());
    assert_eq!(bench.cell.slow_disk_free(&data).unwrap().len(), 1);
    assert_eq!(bench.end_of(slow).code, Some(0), "done, not failed");
    assert!(held()[0].held_ms.is_some());

    let once = SlowDisk {
        skip: 1,
        count: Some(1),
        ..rule(&[DiskOp::Sync], "log.*", DELAY_MS)
    };
    bench.cell.slow_disk(&data, once).unwrap();
    let sync = "dd if=/dev/zero of=log.2 bs=512 count=2 conv=fsync 2>&1";
    timed(&bench, &data, sync);
    assert_eq!(held().len(), 1, "the first was skipped");
    assert!(timed(&bench, &data, sync) >= delay);
    timed(&bench, &data, sync);
    assert_eq!(
        ops_held(&held()),
        [(DiskOp::Sync, "log.1"), (DiskOp::Sync, "log.2")],
        "and only one was held"
    );
    assert!(held()[1].held_ms.unwrap() >= DELAY_MS);
}

#[test]
fn every_kind_of_operation_can_be_held() {
    let (bench, data) = mounted(DiskCache::Through);
    timed(&bench, &data, "mkdir d; echo old >d/a; echo b >d/b");
    use DiskOp::*;
    for (op, path, script) in [
        (Open, "d/a", "cat d/a >/dev/null"),
        (Read, "d/a", "cat d/a >/dev/null"),
        (Write, "d/a", "echo new >>d/a"),
        (Resize, "d/a", "truncate -s 3 d/a"),
        (Create, "d/c", "echo c >d/c"),
        (Create, "e", "mkdir e"),
        (Create, "d/link", "ln d/a d/link"),
        (Rename, "d/b", "mv d/b d/x"),
        (Remove, "d/c", "rm d/c"),
        (List, "d", "ls d >/dev/null"),
    ] {
        let once = SlowDisk {
            count: Some(1),
            ..rule(&[op], path, 400)
        };
        bench.cell.slow_disk(&data, once).unwrap();
        let took = timed(&bench, &data, script);
        let held = bench.cell.slow_disk_held(&data).unwrap();
        let last = held.last().expect(script);
        assert_eq!((last.op, last.path.as_str()), (op, path), "{script}");
        assert!(took >= Duration::from_millis(400), "{script}: {took:?}");
    }
    let held = bench.cell.slow_disk_held(&data).unwrap();
    assert_eq!(held.len(), 10, "each rule held one: {held:?}");
}

/// What a careful program leaves behind is the same in the covered folder.
fn check_integrity(cache: DiskCache) {
    let (bench, data) = mounted(cache);
    let plain = bench.cell.dir().join("plain");
    fs::create_dir(&plain).unwrap();
    let script = r#"
        umask 022
        mkdir -p a/b/c
        i=0; while [ $i -lt 300 ]; do echo "line $i" >>a/log; : >a/b/f$i; i=$((i+1)); done
        dd if=/dev/zero of=journal bs=1M count=3 conv=fsync
        dd if=a/log of=journal bs=100 seek=7777 conv=notrunc,fdatasync
        dd if=a/log of=journal bs=1 seek=1048570 count=20 conv=notrunc,fsync
        fallocate -l 8M pre; dd if=a/log of=pre bs=4k seek=3 conv=notrunc,fsync
        cp a/log a/copy.tmp; sync a/copy.tmp; mv a/copy.tmp a/copy; sync a
        mv a/b a/moved; rm a/moved/f1*; ln a/copy hard; ln -s a/copy soft
        truncate -s 1000 hard; chmod 640 hard; touch -d 2001-02-03T04:05:06Z hard
        exec 5<>open; echo kept >&5; rm open; echo more >&5; cat /proc/self/fd/5 >seen; exec 5>&-
        mkfifo pipe; (echo through >pipe &); cat pipe >piped; rm pipe; rmdir a/moved/c
        (flock -n 9 && if flock -n locked true; then echo free; else echo taken; fi) 9>locked >by
    "#;
    for folder in [&data, &plain] {
        timed(&bench, folder, script);
    }
    let survey = "find . | sort; find . -type f | sort | xargs sha256sum; \
        stat -c '%n %s %a %h %Y' hard; readlink soft; cat seen piped by";
    let look = |name: &str, folder: &Path| {
        let script = format!("cd {}; {survey}", folder.display());
        let id = bench.shell(name, &script);
        assert_eq!(bench.end_of(id).code, Some(0));
        fs::read_to_string(bench.log(name)).unwrap()
    };
    let through = look("through", &data);
    assert!(through.contains("./a/moved/f299"), "{through}");
    assert!(
        through.ends_with("kept\nmore\nthrough\ntaken\n"),
        "{through}"
    );
    assert_eq!(through, look("plain", &plain));
    let id = bench.shell("flush", &format!("sync -f {}", data.display()));
    assert_eq!(bench.end_of(id).code, Some(0));
    bench.cell.close().unwrap();
    let backing = survey_outside(&data);
    assert_eq!(backing, survey_outside(&plain), "seen from outside");
    assert!(backing.len() > 100);
}

/// Names and contents below a folder, from this process.
fn survey_outside(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut left = vec![folder.to_path_buf()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else {
            let name = path.strip_prefix(folder).unwrap().to_path_buf();
            found.push((name, fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn files_are_the_same_as_without_it() {
    check_integrity(DiskCache::Through);
}

#[test]
fn files_are_the_same_as_without_it_behind_a_cache() {
    check_integrity(DiskCache::Back);
}

#[test]
fn a_cache_takes_writes_that_are_slow_below_it() {
    let (bench, data) = mounted(DiskCache::Back);
    bench
        .cell
        .slow_disk(&data, rule(&[DiskOp::Write], "log", AGES_MS))
        .unwrap();
    // The shell gets to the folder only when the write has returned. The next command's end
    // closes the file, which flushes it.
    let script = format!("cd {}; exec >>log; echo one; mkdir written", data.display());
    let id = bench.shell("writer", &script);
    wait_until("the write's return", || data.join("written").is_dir());
    let held = || bench.cell.slow_disk_held(&data).unwrap();
    wait_until("the flush", || !held().is_empty());
    assert_eq!(ops_held(&held()), [(DiskOp::Write, "log")]);
    let log = || fs::read_to_string(data.join("log")).unwrap();
    assert_eq!(log(), "", "not on the disk yet");
    bench.cell.slow_disk_free(&data).unwrap();
    assert_eq!(bench.end_of(id).code, Some(0));
    assert_eq!(log(), "one\n");
}

#[test]
fn a_cell_that_is_killed_leaves_no_mount_and_no_server() {
    let (bench, data) = mounted(DiskCache::Through);
    let place = data.canonicalize().unwrap().display().to_string();
    bench
        .cell
        .slow_disk(&data, rule(&[DiskOp::Write], "**", AGES_MS))
        .unwrap();
    let hung = bench.shell("hung", &format!("echo x >{place}/file"));
    wait_until("the write", || {
        !bench.cell.slow_disk_held(&data).unwrap().is_empty()
    });
    assert!(count_marked(&place) >= 2, "its server, the shell");
    // As the lab sees it, there is no mount even while the cell lives.
    let mounts = || fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts().contains(&place));
    bench.cell.close().unwrap();
    assert!(bench.cell.exit_of(hung).is_none());
    assert_eq!(count_marked(&place), 0);
    assert!(!mounts().contains(&place));
    assert_eq!(fs::read(data.join("file")).unwrap(), b"", "never done");
    fs::write(data.join("file"), "usable").unwrap();
    fs::remove_dir_all(&data).unwrap();
}

#[test]
fn orders_that_make_no_sense_are_refused() {
    let (bench, data) = mounted(DiskCache::Through);
    let text = |result: Result<(), _>| -> String {
        let error: temblor_cluster::cell::CellError = result.unwrap_err();
        error.to_string()
    };
    let again = text(bench.cell.slow_disk_mount(&data, DiskCache::Through));
    assert!(again.ends_with("data is already mounted"), "{again}");
    let any = rule(&[DiskOp::Read], "**", 1);
    let elsewhere = text(bench.cell.slow_disk(bench.cell.dir(), any.clone()));
    assert!(elsewhere.ends_with("is not mounted"), "{elsewhere}");
    let missing = text(bench.cell.slow_disk(&data.join("no"), any));
    assert!(missing.contains("No such file"), "{missing}");
}

fn addr(i: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, i)
}

/// An echo at 127.0.0.2 and a connection to it from 127.0.0.1 that sends a line whenever the file
/// `go` is there, and logs what comes back.
fn connected() -> Bench {
    let bench = open();
    assert!(
        bench.cell.stall_ready().unwrap() || !Path::new(RESEND_MAX).exists(),
        "allowed where the kernel knows it"
    );
    bench.start("n2", &[CELL_PROGRAM, "tcp-echo", "127.0.0.2:7100"]);
    bench.wait_for_text("n2", "listening");
    let script = "exec 3<>/dev/tcp/127.0.0.2/7100; n=0; \
        while :; do n=$((n+1)); until [ -e go ]; do sleep 0.01; done; rm go; \
        echo line$n >&3; echo sent$n; read -r answer <&3; echo got-$answer; done";
    bench.start("n1", &["/bin/bash", "-c", script]);
    let go = bench.cell.dir().join("go");
    fs::write(&go, "").unwrap();
    bench.wait_for_text("n1", "got-line1");
    bench
}

const RESEND_MAX: &str = "/proc/sys/net/ipv4/tcp_rto_max_ms";

#[test]
fn a_stall_holds_a_connection_and_lets_it_go_on() {
    let bench = connected();
    let log = || fs::read_to_string(bench.log("n1")).unwrap();
    // One direction each: the question is held, then the answer.
    for (line, from, to) in [(2, 1, 2), (3, 2, 1)] {
        bench
            .cell
            .stall(Some(addr(from)), Some(addr(to)), Some(7100))
            .expect("nft");
        let begun = Instant::now();
        fs::write(bench.cell.dir().join("go"), "").unwrap();
        bench.wait_for_text("n1", &format!("sent{line}"));
        thread::sleep(Duration::from_millis(DELAY_MS));
        let answer = format!("got-line{line}");
        assert!(!log().contains(&answer), "{}", log());
        assert!(bench.cell.unstall().unwrap() > 0, "packets were dropped");
        bench.wait_for_text("n1", &answer);
        assert!(begun.elapsed() >= Duration::from_millis(DELAY_MS));
        println!("a stall of {DELAY_MS} ms took {:?}", begun.elapsed());
    }
}

#[test]
fn a_stall_means_only_its_addresses_and_port() {
    let bench = connected();
    let ask = |source: &str, limit_ms: &str| {
        let argv = [
            CELL_PROGRAM,
            "tcp-ask",
            source,
            "127.0.0.2:7100",
            "hello",
            limit_ms,
        ];
        let id = bench.start("ask", &argv);
        bench.end_of(id).code == Some(0)
    };
    let stall = |from: Option<u8>, to: Option<u8>, port| {
        bench
            .cell
            .stall(from.map(addr), to.map(addr), port)
            .unwrap();
    };
    stall(Some(3), Some(2), Some(7200));
    assert!(ask("127.0.0.3", "30000"), "another port");
    stall(Some(3), Some(2), Some(7100));
    assert!(!ask("127.0.0.3", "300"));
    assert!(ask("127.0.0.1", "30000"), "another source");
    stall(None, Some(2), None);
    assert!(!ask("127.0.0.1", "300"), "everyone");
    assert!(ask("127.0.0.2", "30000"), "but itself");
    let at = std::net::SocketAddrV4::new(addr(2), 7100);
    assert_eq!(bench.probe(at, "ok?\n", 30_000).text(), Some("ok?\n"));
    // A partition is another matter.
    bench.cell.heal().unwrap();
    assert!(!ask("127.0.0.1", "300"));
    assert!(bench.cell.unstall().unwrap() > 0);
    assert!(ask("127.0.0.1", "30000"));
    assert!(ask("127.0.0.3", "30000"));
    assert_eq!(bench.cell.unstall().unwrap(), 0);
}
