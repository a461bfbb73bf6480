//! Networks of cells: ports, probes, partitions.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use temblor_cluster::cell::{CellError, ProbeAnswer, ProbeSpec};

use crate::bench::{CELL_PROGRAM, open, wait_until};

#[test]
fn two_cells_use_the_same_port_at_once() {
    let (left, right) = (open(), open());
    let at: SocketAddrV4 = "127.0.0.1:7200".parse().unwrap();
    for bench in [&left, &right] {
        bench.start("echo", &[CELL_PROGRAM, "tcp-echo", "127.0.0.1:7200"]);
    }
    for bench in [&left, &right] {
        bench.wait_for_text("echo", "listening");
        let answer = bench.probe(at, "hello\n", 30_000);
        assert_eq!(
            answer,
            ProbeAnswer::Text {
                text: "hello\n".into()
            }
        );
    }
}

#[test]
fn probes_say_what_happened() {
    let bench = open();
    let at: SocketAddrV4 = "127.0.0.3:7300".parse().unwrap();
    let refused = bench.probe(at, "x\n", 30_000);
    assert!(matches!(&refused, ProbeAnswer::Refused { reason } if reason.contains("refused")));
    bench.start("echo", &[CELL_PROGRAM, "tcp-echo", "127.0.0.3:7300"]);
    bench.wait_for_text("echo", "listening");
    assert_eq!(bench.probe(at, "ruok\n", 30_000).text(), Some("ruok\n"));
    // No line end, so no answer comes.
    assert_eq!(
        bench.probe(at, "half", 200),
        ProbeAnswer::Late {
            text: String::new()
        }
    );
}

#[test]
fn calls_do_not_wait_for_each_other() {
    let bench = open();
    bench.start("echo", &[CELL_PROGRAM, "tcp-echo", "127.0.0.1:7000"]);
    bench.wait_for_text("echo", "listening");
    let cell = Arc::new(bench.cell);
    let at: SocketAddrV4 = "127.0.0.1:7000".parse().unwrap();
    let slow = ProbeSpec {
        to: at,
        send: String::new(),
        within_ms: 3_600_000,
        one_line: true,
    };
    // They would hang for an hour; the quick ones must still be answered.
    let waiting: Vec<_> = (0..8)
        .map(|_| {
            let (cell, slow) = (cell.clone(), slow.clone());
            thread::spawn(move || cell.probe(slow))
        })
        .collect();
    let quick: Vec<_> = (0..8)
        .map(|i| {
            let cell = cell.clone();
            let send = format!("{i}\n");
            let spec = ProbeSpec {
                to: at,
                send,
                within_ms: 30_000,
                one_line: true,
            };
            thread::spawn(move || cell.probe(spec).unwrap())
        })
        .collect();
    for (i, thread) in quick.into_iter().enumerate() {
        assert_eq!(
            thread.join().unwrap().text(),
            Some(format!("{i}\n").as_str())
        );
    }
    cell.close().unwrap();
    for thread in waiting {
        assert!(matches!(
            thread.join().unwrap(),
            Err(CellError::Gone { .. })
        ));
    }
}

#[test]
fn a_partition_cuts_nodes_from_each_other_but_not_clients() {
    let bench = open();
    bench.start("n2", &[CELL_PROGRAM, "tcp-echo", "127.0.0.2:7100"]);
    bench.wait_for_text("n2", "listening");
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
    assert!(ask("127.0.0.1", "30000"), "whole at first");
    let addr = |i| Ipv4Addr::new(127, 0, 0, i);
    bench
        .cell
        .partition(&[vec![addr(1)], vec![addr(2), addr(3)]])
        .expect("nft");
    assert!(!ask("127.0.0.1", "300"), "n1 is cut from n2");
    assert!(ask("127.0.0.3", "30000"), "n3 is on n2's side");
    assert!(ask("127.0.0.101", "30000"), "c1 still reaches n2");
    let at = SocketAddrV4::new(addr(2), 7100);
    assert_eq!(bench.probe(at, "ok?\n", 30_000).text(), Some("ok?\n"));
    bench
        .cell
        .partition(&[vec![addr(2)], vec![addr(3)]])
        .unwrap();
    assert!(
        ask("127.0.0.1", "30000"),
        "the second partition replaces the first"
    );
    assert!(!ask("127.0.0.3", "300"));
    bench.cell.heal().unwrap();
    assert!(ask("127.0.0.3", "30000"), "healed");
    bench.cell.heal().unwrap();
}

#[test]
fn a_partition_holds_back_connections_that_stand() {
    let bench = open();
    bench.start("n2", &[CELL_PROGRAM, "tcp-echo", "127.0.0.2:7100"]);
    bench.wait_for_text("n2", "listening");
    // Without a bound source the kernel takes 127.0.0.1, the first node's address.
    let script = "exec 3<>/dev/tcp/127.0.0.2/7100; n=0; \
        while :; do n=$((n+1)); echo line$n >&3; read -r answer <&3; echo $answer; \
        sleep 0.01; done";
    bench.start("n1", &["/bin/bash", "-c", script]);
    bench.wait_for_text("n1", "line3");
    let addr = |i| Ipv4Addr::new(127, 0, 0, i);
    bench
        .cell
        .partition(&[vec![addr(1)], vec![addr(2)]])
        .expect("nft");
    let lines = || fs::read_to_string(bench.log("n1")).unwrap().lines().count();
    // What was already on its way may still arrive; uncut, the log would never come to rest.
    wait_until("silence", || {
        let before = lines();
        thread::sleep(Duration::from_millis(500));
        lines() == before
    });
    let before = lines();
    bench.cell.heal().unwrap();
    wait_until("the connection to go on", || lines() > before + 2);
}

#[test]
fn a_reset_ends_connections_that_stand_and_refuses_new_ones() {
    let bench = open();
    bench.start("n2", &[CELL_PROGRAM, "tcp-echo", "127.0.0.2:7100"]);
    bench.wait_for_text("n2", "listening");
    // Without a bound source the kernel takes 127.0.0.1, the first node's address.
    let script = "exec 3<>/dev/tcp/127.0.0.2/7100; \
        while echo line >&3 && read -r answer <&3; do echo $answer; sleep 0.01; done; echo over";
    bench.start("n1", &["/bin/bash", "-c", script]);
    bench.wait_for_text("n1", "line");
    let addr = |i| Ipv4Addr::new(127, 0, 0, i);
    let others = [addr(2), addr(3)];
    bench.cell.reset(addr(1), &others).expect("nft");
    bench.wait_for_text("n1", "over");
    let ask = |source: &str| {
        let to = "127.0.0.2:7100";
        let argv = [CELL_PROGRAM, "tcp-ask", source, to, "hello", "30000"];
        bench.end_of(bench.start("ask", &argv)).code == Some(0)
    };
    assert!(!ask("127.0.0.1"), "n1 is refused");
    assert!(ask("127.0.0.3"), "n3 is not");
    assert!(ask("127.0.0.101"), "nor is a client");
    bench.cell.reset(addr(3), &[addr(1), addr(2)]).unwrap();
    assert!(!ask("127.0.0.3") && !ask("127.0.0.1"), "both are refused");
    bench.cell.unreset(addr(3)).unwrap();
    assert!(!ask("127.0.0.1"), "n1 is refused still");
    assert!(ask("127.0.0.3"), "n3 can connect again");
    bench.cell.unreset(addr(1)).unwrap();
    assert!(ask("127.0.0.1"), "both can");
}
