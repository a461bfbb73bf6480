//! Bad weather: killed labs, full disks, broken images. Each time the error says what failed, and
//! no process, mount or image is left.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use temblor_cluster::cell::{CellError, ProbeAnswer, ProbeSpec};
use temblor_cluster::snapshot::SnapshotError;

use crate::bench::{
    Bench, COUNTER, Frozen, content, counted, criu, marked, mounts, namespace, namespace_of, open,
    open_in, population, read, shell, spec, stopped, take, wait_for_count, wait_until,
};
use crate::places::{LAB, Lab, wait_to_be_killed};

/// CRIU that announces one of its works by a file and waits for another file before it begins.
fn announced(work: &str, home: &Path) -> Vec<String> {
    let script = format!(
        "case \"$*\" in *\" {work} \"*) cd {}; echo >begun; \
         while [ ! -e go ]; do sleep 0.01; done;; esac; exec \"$@\"",
        home.display()
    );
    let mut words = ["/bin/sh", "-c", &script, "criu"]
        .map(String::from)
        .to_vec();
    words.extend(criu());
    words
}

/// The life of a lab: freezes a counting cell, forks it, and stays.
fn freeze_and_fork(order: &str) -> ! {
    let (work, home) = order.split_once(' ').unwrap();
    let home = Path::new(home);
    let words = announced(work, home);
    let cell = open_in(home);
    shell(&cell, "counter", COUNTER);
    wait_for_count(cell.dir(), "numbers", 5);
    let snapshot = take(&cell, &words, &home.join("images")).unwrap();
    let fork = home.join("fork");
    snapshot.copy_files(&fork, &[]).unwrap();
    let _thawed = snapshot.thaw(&fork).unwrap();
    wait_to_be_killed();
}

/// Kills labs before CRIU does one of its works, and at different times after it has begun.
fn kill_in_the_middle_of(work: &str, test: &str) {
    let mounted = mounts();
    let own = namespace_of("self").unwrap();
    for after_ms in [None, Some(0), Some(15), Some(40), Some(100)] {
        let home = tempfile::tempdir().unwrap();
        let (begun, go) = (home.path().join("begun"), home.path().join("go"));
        let lab = Lab::start(test, &format!("{work} {}", home.path().display()));
        wait_until("CRIU", || begun.exists());
        let cells: BTreeSet<PathBuf> = marked(home.path())
            .iter()
            .filter_map(|pid| namespace_of(pid))
            .filter(|namespace| *namespace != own)
            .collect();
        assert!(!cells.is_empty(), "a cell is there");
        if let Some(after_ms) = after_ms {
            fs::write(&go, "").unwrap();
            thread::sleep(Duration::from_millis(after_ms));
        }
        lab.kill();
        fs::write(&go, "").unwrap();
        wait_until("the end of all", || {
            marked(home.path()).is_empty() && cells.iter().all(|cell| population(cell) == 0)
        });
        assert!(counted(&home.path().join("cell"), "numbers") >= 5);
        assert_eq!(mounts(), mounted);
    }
}

#[test]
fn a_lab_killed_while_it_freezes_leaves_nothing() {
    if let Ok(order) = std::env::var(LAB) {
        freeze_and_fork(&order);
    }
    kill_in_the_middle_of(
        "dump",
        "weather::a_lab_killed_while_it_freezes_leaves_nothing",
    );
}

#[test]
fn a_lab_killed_while_it_thaws_leaves_nothing() {
    if let Ok(order) = std::env::var(LAB) {
        freeze_and_fork(&order);
    }
    kill_in_the_middle_of(
        "restore",
        "weather::a_lab_killed_while_it_thaws_leaves_nothing",
    );
}

/// Freezing must fail; what it says.
fn freeze_fails(bench: &Bench, criu: &[String], images: &Path) -> String {
    let inside = namespace(&bench.cell);
    let error = take(&bench.cell, criu, images).unwrap_err();
    assert!(
        matches!(error, SnapshotError::Cell(CellError::Request { .. })),
        "{error:?}"
    );
    assert_eq!(population(&inside), 0, "the cell is closed all the same");
    assert!(!images.exists(), "half an image is none");
    error.to_string()
}

#[test]
fn a_full_disk_is_a_clear_error() {
    // In a mount namespace of this thread alone: nobody else sees the small disk.
    let in_private = || {
        // SAFETY: takes a number only.
        let left = unsafe { libc::unshare(libc::CLONE_NEWNS) };
        assert_eq!(left, 0, "root may do this");
        let small = tempfile::tempdir().unwrap();
        mount_small(small.path());
        let mounted = mounts();
        let text = freeze_fails(&Bench::counting(), &criu(), &small.path().join("images"));
        assert!(text.contains("No space left on device"), "{text}");
        assert_eq!(mounts(), mounted);
        assert_eq!(fs::read_dir(small.path()).unwrap().count(), 0);
    };
    let mounted = mounts();
    thread::scope(|scope| scope.spawn(in_private).join().unwrap());
    assert_eq!(mounts(), mounted);
}

fn mount_small(at: &Path) {
    use std::os::unix::ffi::OsStrExt;
    let mount = |kind: &std::ffi::CStr, at: &Path, flags, data: &std::ffi::CStr| {
        let at = std::ffi::CString::new(at.as_os_str().as_bytes()).unwrap();
        // SAFETY: strings that end with NUL and outlive the call.
        let done = unsafe {
            libc::mount(
                kind.as_ptr(),
                at.as_ptr(),
                kind.as_ptr(),
                flags,
                data.as_ptr().cast(),
            )
        };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    };
    let private = libc::MS_REC | libc::MS_PRIVATE;
    mount(c"none", Path::new("/"), private, c"");
    mount(c"tmpfs", at, 0, c"size=256k");
}

#[test]
fn a_criu_that_is_missing_or_fails_is_a_clear_error() {
    let bench = Bench::counting();
    let images = bench.home().join("images");
    let text = freeze_fails(&bench, &["/no/such/criu".into()], &images);
    let expected = "could not freeze its processes: criu dump (/no/such/criu): No such file";
    assert!(text.starts_with(expected), "{text}");

    let bench = Bench::counting();
    let words = ["/bin/sh", "-c", "echo 'Error: not today' >&2; exit 3"].map(String::from);
    let text = freeze_fails(&bench, &words, &bench.home().join("images"));
    assert!(
        text.contains("criu dump ended with exit status: 3"),
        "{text}"
    );
    assert!(text.contains("not today"), "{text}");
}

#[test]
fn images_that_cannot_be_written_are_a_clear_error() {
    let bench = Bench::counting();
    let file = bench.home().join("file");
    fs::write(&file, "no folder").unwrap();
    let text = freeze_fails(&bench, &criu(), &file.join("images"));
    assert!(text.contains("cannot make"), "{text}");
    assert!(text.contains("Not a directory"), "{text}");
}

#[test]
fn a_connection_that_nobody_has_accepted_is_a_clear_error() {
    let bench = open();
    let cell = &bench.cell;
    let program = env!("CARGO_BIN_EXE_temblor-cell");
    let echo = spec(cell, "echo", &[program, "tcp-echo", "127.0.0.1:4711"]);
    let id = cell.start(echo).unwrap();
    wait_until("the server", || {
        read(&cell.dir().join("echo.log")).contains("listening")
    });
    cell.pause(id).unwrap();
    wait_until("the pause", || stopped(&namespace(cell)) == 1);
    let ask = ProbeSpec {
        to: "127.0.0.1:4711".parse().unwrap(),
        send: "hello\n".into(),
        within_ms: 300,
        one_line: true,
    };
    let answer = cell.probe(ask).unwrap();
    assert!(matches!(answer, ProbeAnswer::Late { .. }), "{answer:?}");
    let text = freeze_fails(&bench, &criu(), &bench.home().join("images"));
    assert!(text.contains("In-flight connection"), "{text}");
}

/// Thawing must fail and leave nothing; what it says.
fn thaw_fails(frozen: &Frozen, dir: &Path) -> String {
    let before = content(frozen.dir());
    let mounted = mounts();
    let error = frozen.snapshot().thaw(dir).unwrap_err().to_string();
    assert!(marked(dir).is_empty(), "{error}: its processes are gone");
    assert_eq!(mounts(), mounted);
    assert_eq!(content(frozen.dir()), before);
    error
}

#[test]
fn a_broken_image_is_a_clear_error_and_a_whole_one_serves_again() {
    let frozen = Bench::counting().freeze();
    let names: Vec<String> = content(&frozen.images()).into_keys().collect();
    let spoil = |path: &Path, way: &str, whole: &[u8]| match way {
        "missing" => fs::remove_file(path).unwrap(),
        "cut" => fs::write(path, &whole[..whole.len() / 2]).unwrap(),
        _ => fs::write(path, vec![0xa5; whole.len()]).unwrap(),
    };
    let dir = frozen.copy();
    for (kind, ways) in [
        ("inventory", &["missing", "cut", "garbage"][..]),
        ("pstree", &["missing", "cut", "garbage"]),
        ("core-", &["missing", "cut", "garbage"]),
        ("mm-", &["missing", "cut", "garbage"]),
        ("pagemap-", &["missing", "cut", "garbage"]),
        ("files", &["missing", "cut", "garbage"]),
        // There is no telling good memory from bad.
        ("pages-", &["missing", "cut"]),
    ] {
        let name = names.iter().find(|name| name.starts_with(kind)).unwrap();
        let path = frozen.images().join(name);
        let whole = fs::read(&path).unwrap();
        for way in ways {
            spoil(&path, way, &whole);
            let error = thaw_fails(&frozen, &dir);
            assert!(error.contains(name), "{way}: {error}");
            match *way {
                "missing" => assert!(error.starts_with("cannot find the image "), "{error}"),
                "cut" => assert!(error.starts_with("the image "), "{error}"),
                _ => assert!(error.contains("criu restore ended with"), "{error}"),
            }
            fs::write(&path, &whole).unwrap();
        }
    }
    let at = counted(frozen.dir(), "numbers");
    let cell = frozen.fork();
    wait_for_count(cell.dir(), "numbers", at + 3);
    drop(cell);
    frozen.discard();
}

#[test]
fn a_missing_file_of_the_frozen_folder_is_a_clear_error() {
    let frozen = Bench::counting().freeze();
    for name in ["numbers", "counter.log", "clock"] {
        let dir = frozen.copy();
        fs::remove_file(dir.join(name)).unwrap();
        let error = thaw_fails(&frozen, &dir);
        assert!(error.contains(name), "{error}");
    }
    let dir = frozen.copy();
    let short = fs::read(dir.join("numbers")).unwrap();
    fs::write(dir.join("numbers"), &short[1..]).unwrap();
    let error = thaw_fails(&frozen, &dir);
    assert!(error.contains("numbers"), "{error}");
    let empty = frozen.home().join("empty");
    fs::create_dir(&empty).unwrap();
    thaw_fails(&frozen, &empty);
    frozen.discard();
}

#[test]
fn a_frozen_folder_that_is_gone_is_a_clear_error() {
    let frozen = Bench::counting().freeze();
    let dir = frozen.copy();
    let error = frozen.snapshot().copy_files(Path::new("/proc/no"), &[]);
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("cannot copy /proc/no: "), "{error}");
    fs::remove_dir_all(frozen.dir()).unwrap();
    let mounted = mounts();
    let error = frozen.snapshot().thaw(&dir).unwrap_err().to_string();
    let gone = frozen.dir().display().to_string();
    let expected = format!("cannot find the frozen folder {gone}: ");
    assert!(error.starts_with(&expected), "{error}");
    assert!(marked(&dir).is_empty());
    assert_eq!(mounts(), mounted);
    let error = frozen.snapshot().copy_files(&dir, &[]).unwrap_err();
    let expected = format!("cannot copy {gone}: ");
    assert!(error.to_string().starts_with(&expected), "{error}");
}
