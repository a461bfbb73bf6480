//! The places behind known bugs are in the catalogs of their targets, by analysis alone: each with
//! the fault that shows the bug, the region or timeout around it, and the task that gets there.

use std::path::Path;
use std::process::Command;

use temblor_model::catalog::{GuardedBy, SiteCatalog};
use temblor_model::site::Site;

/// The catalog of a target that has been fetched.
fn catalog(target: &str) -> SiteCatalog {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let out = dir.path().join("catalog.json");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let run = Command::new(env!("CARGO_BIN_EXE_temblor"))
        .args(["analyze", target, "--no-cache", "--json", "--out"])
        .arg(&out)
        .env("TEMBLOR_ROOT", root)
        .output()
        .expect("temblor starts");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(
        run.status.success(),
        "{said}\nrun: ./temblor targets fetch {target}"
    );
    let bytes = std::fs::read(&out).expect("the catalog was written");
    serde_json::from_slice(&bytes).expect("the catalog reads")
}

/// What must be known of a place: part of a site's name; an exception, or `-`; medium and
/// direction, or `-`; a kind of guard, or `-`; part of the name of a task that reaches it.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

fn check(target: &str, rows: &[Row]) {
    let catalog = catalog(target);
    for row in rows {
        let named: Vec<&Site> = catalog
            .sites
            .iter()
            .filter(|s| s.name.contains(row.0))
            .collect();
        let fits = named.iter().any(|site| is_as(&catalog, site, row));
        assert!(fits, "{target}: none is as {row:?}: {named:#?}");
    }
}

fn is_as(catalog: &SiteCatalog, site: &Site, row: &Row) -> bool {
    let (_, exception, io, guard, task) = row;
    let raises = *exception == "-" || site.exceptions.iter().any(|e| e == exception);
    let does = site
        .io
        .map(|io| format!("{:?} {:?}", io.medium, io.direction).to_lowercase());
    let kind = |by: GuardedBy| match by {
        GuardedBy::Region(id) => format!("{:?}", catalog.regions[id as usize].kind),
        GuardedBy::Timeout(id) => format!("{:?}", catalog.timeouts[id as usize].kind),
    };
    let is_guarded = *guard == "-" || site.guards.iter().any(|g| kind(g.by) == *guard);
    let reached = site.states.iter().any(|reach| {
        let task_id = catalog.states[reach.state as usize].task;
        catalog.tasks[task_id as usize].name.contains(task)
    });
    raises && (*io == "-" || does.as_deref() == Some(io)) && is_guarded && reached
}

#[test]
fn zookeeper_has_the_sites_that_the_papers_name() {
    const IO: &str = "java.io.IOException";
    const SOCKET: &str = "java.net.SocketException";
    check(
        "zookeeper@3.6.2",
        &[
            (
                ".Learner.writePacket(",
                IO,
                "network write",
                "Monitor",
                "SyncRequestProcessor.run",
            ),
            (
                "AcceptorHandler.acceptConnections()>java.net.ServerSocket.accept#0",
                IO,
                "network read",
                "-",
                "LearnerCnxAcceptorHandler.run",
            ),
            (
                "AcceptorHandler.acceptConnections()>java.net.Socket.setSoTimeout#0",
                SOCKET,
                "network local",
                "-",
                "LearnerCnxAcceptorHandler.run",
            ),
            (
                ".Learner.createSocket()",
                SOCKET,
                "network local",
                "-",
                "LeaderConnector.run",
            ),
            (
                ".DataTree.serializeNode",
                IO,
                "stream write",
                "SynchronizedMethod",
                "LearnerHandler.run",
            ),
            (
                ".FileTxnLog.commit()>java.nio.channels.FileChannel.force#0",
                IO,
                "disk write",
                "SynchronizedMethod",
                "SyncRequestProcessor.run",
            ),
            (
                ".FileTxnLog.commit()>java.nio.channels.FileChannel.force#0",
                IO,
                "disk write",
                "Elapsed",
                "SyncRequestProcessor.run",
            ),
            (
                ".QuorumPeer.writeLongToFile(",
                "-",
                "disk control",
                "Monitor",
                "QuorumPeer.run",
            ),
            (
                ".ReferenceCountedACLCache.serialize(",
                IO,
                "stream write",
                "SynchronizedMethod",
                "LearnerHandler.run",
            ),
            (
                ".NIOServerCnxn.doIO(",
                IO,
                "network read",
                "-",
                "IOWorkRequest.doWork",
            ),
        ],
    );
}

#[test]
fn trio_has_the_sites_of_its_planted_bugs() {
    const IO: &str = "java.io.IOException";
    check(
        "trio",
        &[
            (
                "trio.Leader.acceptLoop()>java.net.ServerSocket.accept#0",
                IO,
                "network read",
                "-",
                "Leader.acceptLoop",
            ),
            (
                "trio.SessionFile.touch(String,long)>java.nio.channels.FileChannel.force#0",
                IO,
                "disk write",
                "Elapsed",
                "renewLater",
            ),
            (
                "trio.Membership.decommission(String)>java.io.FileOutputStream.write#0",
                IO,
                "disk write",
                "-",
                "ClientPort",
            ),
            (
                "trio.Worker.execute(String,String)>java.io.FileOutputStream.write#0",
                IO,
                "disk write",
                "Queue",
                "Worker.loop",
            ),
            (
                "trio.Log.write(byte[])>java.nio.channels.FileChannel.force#0",
                IO,
                "disk write",
                "SynchronizedMethod",
                "Proposer.loop",
            ),
            (
                "trio.Log.roll()>java.nio.channels.FileChannel.force#0",
                IO,
                "disk write",
                "SynchronizedMethod",
                "Proposer.loop",
            ),
            (
                "trio.Snapshots.send(OutputStream)>java.io.OutputStream.write#1",
                IO,
                "network write",
                "Monitor",
                "Leader",
            ),
            (
                "trio.Spill.write(String)>java.nio.channels.FileChannel.write#0",
                IO,
                "disk write",
                "SynchronizedMethod",
                "Store.spillLoop",
            ),
        ],
    );
    // Recovery runs on the main thread: no task reaches it.
    let catalog = catalog("trio");
    let record = "trio.Recovery.record(String,long)>java.io.RandomAccessFile.writeUTF#0";
    let site = catalog
        .by_name(record)
        .expect("recovery's record is a site");
    assert_eq!(site.exceptions, [IO]);
}
