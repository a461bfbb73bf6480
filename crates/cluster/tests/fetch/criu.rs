//! CRIU out of packages of scripts: with all it depends on, started by its own loader.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use temblor_cluster::artifact::{ArtifactError, Criu};

use super::bench::{Bench, pack_fake_criu, script};

impl Bench {
    fn fetch_criu(&self) -> Result<Criu, ArtifactError> {
        self.depot.fetch_criu(&mut |_| {})
    }

    fn install_criu(&self, text: &str) -> PathBuf {
        let root = self.folder.path().canonicalize().expect("a real path");
        let path = root.join("sbin/criu");
        script(&path, text);
        path
    }

    fn marker(&self) -> serde_json::Value {
        let path = self.depot.cache().root().join("criu/artifact.json");
        let text = fs::read_to_string(path).expect("finished");
        serde_json::from_str(&text).expect("JSON")
    }
}

#[test]
fn criu_is_fetched_once_with_all_it_depends_on_and_runs_with_its_own_loader() {
    let bench = Bench::new();
    let text = bench.depot.find_criu().expect_err("none").to_string();
    assert!(text.contains("no CRIU 4.2 or newer"), "{text}");
    assert!(text.contains("`./temblor targets fetch criu`"), "{text}");

    let criu = bench.fetch_criu().expect("fetched");
    assert_eq!(criu.version, "4.2.1");
    let root = bench.depot.cache().root().join("criu/root/usr");
    let lib = root.join("lib/some-linux-gnu");
    let argv: Vec<&Path> = criu.argv().iter().map(Path::new).collect();
    let (loader, program) = (lib.join("ld-linux-some.so.2"), root.join("sbin/criu"));
    assert_eq!(
        argv,
        [&*loader, Path::new("--library-path"), &*lib, &*program]
    );
    assert_eq!(Path::new(criu.program()), program);
    let output = Command::new(argv[0]).args(&argv[1..]).output();
    let output = output.expect("starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Version: 4.2.1\n");

    let marker = bench.marker();
    for (i, package) in ["libc-fake", "criu"].into_iter().enumerate() {
        let origin = &marker["origins"][i];
        assert_eq!(
            (&origin["package"], &origin["from"]),
            (&package.into(), &"sid".into())
        );
        let sha256 = marker["downloads"][i]["sha256"].as_str();
        assert_eq!(sha256.map(str::len), Some(64), "{marker}");
    }
    assert_eq!(bench.fetch_criu().expect("there"), criu);
    assert_eq!(bench.depot.find_criu().expect("there"), criu);
    assert_eq!(bench.count("download criu"), 1);
}

#[test]
fn a_killed_download_of_criu_goes_on_where_it_broke() {
    let bench = Bench::new();
    bench.set("break-criu");
    let text = bench.fetch_criu().expect_err("killed").to_string();
    assert!(text.contains("download criu from suite sid"), "{text}");
    bench.depot.find_criu().expect_err("half of it is none");
    bench.fetch_criu().expect("resumed");
    assert_eq!(bench.count("download libc-fake"), 1, "kept");
    assert_eq!(bench.count("download criu"), 2);
}

#[test]
fn a_criu_that_no_longer_starts_is_fetched_again() {
    let bench = Bench::new();
    let criu = bench.fetch_criu().expect("fetched");
    script(Path::new(criu.program()), "echo torn >&2; exit 3");
    let text = bench.depot.find_criu().expect_err("broken").to_string();
    assert!(text.contains("torn"), "{text}");
    assert_eq!(bench.fetch_criu().expect("made again"), criu);
    fs::remove_file(&criu.argv()[0]).expect("the loader is lost");
    bench.depot.find_criu().expect_err("no loader");
    assert_eq!(bench.fetch_criu().expect("made again"), criu);
    assert_eq!(bench.count("download criu"), 3);
}

#[test]
fn an_installed_criu_is_taken_if_it_is_new_enough() {
    let bench = Bench::new();
    let path = bench.install_criu("echo 'Version: 4.1'");
    let text = bench.depot.find_criu().expect_err("old").to_string();
    assert!(text.contains("sbin/criu does not serve"), "{text}");
    assert!(text.contains("it is version 4.1"), "{text}");
    let fetched = bench.fetch_criu().expect("fetched");
    assert_eq!(bench.depot.find_criu().expect("the fetched one"), fetched);

    bench.install_criu("echo 'Version: 4.2'");
    let own = bench.depot.find_criu().expect("the installed one");
    assert_eq!(own.argv(), [path.display().to_string()]);
    assert_eq!(bench.fetch_criu().expect("there"), own);
    assert_eq!(bench.count("download criu"), 1);
}

#[test]
fn another_suite_serves_where_packages_do_not_go_together() {
    let bench = Bench::new();
    bench.set("torn-sid");
    bench.fetch_criu().expect("from the other suite");
    assert_eq!(bench.marker()["origins"][1]["from"], "forky");
    let bench = Bench::new();
    bench.set("torn-sid");
    bench.set("torn-forky");
    let text = bench.fetch_criu().expect_err("torn").to_string();
    assert!(text.contains("held broken packages"), "{text}");
}

#[test]
fn packages_that_are_too_old_or_not_the_signed_ones_are_refused() {
    let bench = Bench::new();
    pack_fake_criu(bench.folder.path(), "4.1.1");
    let text = bench.fetch_criu().expect_err("old").to_string();
    assert!(text.contains("it is version 4.1.1"), "{text}");
    bench.depot.find_criu().expect_err("not finished");
    pack_fake_criu(bench.folder.path(), "4.3");
    bench.set("lie-criu");
    let text = bench.fetch_criu().expect_err("lied to").to_string();
    assert!(text.contains("not the signed one"), "{text}");
    assert_eq!(bench.fetch_criu().expect("good now").version, "4.3");
}

#[test]
fn a_machine_without_apt_is_told_how_to_do_without() {
    let bench = Bench::new();
    fs::remove_file(bench.folder.path().join("scripts/apt-get")).expect("removed");
    let text = bench.fetch_criu().expect_err("no apt").to_string();
    assert!(text.contains("`apt-get` is not on the PATH"), "{text}");
    assert!(text.contains("CRIU: on the PATH"), "{text}");
    fs::remove_file(bench.folder.path().join("apt/sources.list")).expect("removed");
    let text = bench.fetch_criu().expect_err("no archive").to_string();
    assert!(text.contains("no package archive"), "{text}");
    assert!(text.contains("CRIU: on the PATH"), "{text}");
}
