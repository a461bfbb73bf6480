//! Java fixtures whose comments are the assertions, by line; and input that is no class at all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use temblor_analysis::{Request, analyze};
use temblor_model::catalog::SiteCatalog;
use temblor_model::site::{Site, SiteKind};

/// The JDK the fixtures are compiled and resolved with.
fn jdk() -> PathBuf {
    let listed = std::env::var("TEMBLOR_TEST_JDKS").unwrap_or_default();
    let home = std::env::var("JAVA_HOME").unwrap_or_default();
    let of_path = std::env::var("PATH").unwrap_or_default();
    let of_path = of_path.split(':').map(|dir| Path::new(dir).join("javac"));
    let of_path = of_path.filter_map(|javac| javac.canonicalize().ok());
    let homes = listed
        .split(':')
        .map(PathBuf::from)
        .chain([PathBuf::from(home)]);
    let of_path = of_path.filter_map(|javac| Some(javac.parent()?.parent()?.to_path_buf()));
    let mut homes = homes
        .chain(of_path)
        .filter(|h| h.join("lib/modules").exists());
    homes
        .find(|h| h.join("bin/javac").exists())
        .expect("no JDK 9 or newer with javac; run: apt-get install -y openjdk-17-jdk-headless")
}

fn compile(to: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/fixture/Calls.java");
    let javac = Command::new(jdk().join("bin/javac"))
        .args(["-g", "--release", "8", "-Xlint:-options", "-d"])
        .arg(to)
        .arg(source)
        .output()
        .expect("javac starts");
    assert!(
        javac.status.success(),
        "{}",
        String::from_utf8_lossy(&javac.stderr)
    );
}

fn catalog(class_path: Vec<PathBuf>) -> (SiteCatalog, Vec<String>) {
    let request = Request::new(class_path, &jdk(), vec!["fixture.".into()]);
    let analysis = analyze(&request).expect("the fixtures can be read");
    (
        analysis.catalog,
        analysis
            .diagnostics
            .into_iter()
            .map(|d| format!("{}: {}", d.place, d.message))
            .collect(),
    )
}

/// What a site's line must say.
fn said(site: &Site) -> String {
    let exceptions = site.exceptions.join(",");
    let exceptions = if exceptions.is_empty() {
        "-".to_string()
    } else {
        exceptions
    };
    match site.io {
        None => exceptions,
        Some(io) => {
            let io = format!("{:?} {:?}", io.medium, io.direction).to_lowercase();
            format!("{exceptions} {io}")
        }
    }
}

#[test]
fn every_line_is_a_site_exactly_where_its_comment_says() {
    let dir = tempfile::tempdir().unwrap();
    compile(dir.path());
    let (catalog, diagnostics) = catalog(vec![dir.path().to_path_buf()]);
    assert_eq!(diagnostics, Vec::<String>::new());
    let mut found: BTreeMap<u32, String> = BTreeMap::new();
    for site in &catalog.sites {
        // Try-with-resources closes its stream in code that carries the line of its head.
        if site.name.contains("FileInputStream.close") {
            continue;
        }
        let line = site.line.expect("fixtures have line numbers");
        let other = found.insert(line, said(site));
        assert_eq!(other, None, "two sites in line {line}: {}", site.name);
    }
    let text = include_str!("fixtures/fixture/Calls.java");
    let wanted = text.lines().enumerate().filter_map(|(i, line)| {
        let (_, said) = line.split_once("// SITE ")?;
        Some((i as u32 + 1, said.trim().to_string()))
    });
    let wanted: BTreeMap<u32, String> = wanted.collect();
    assert!(wanted.len() >= 15);
    assert_eq!(found, wanted);
}

#[test]
fn ids_and_names_are_stable_and_unique() {
    let dir = tempfile::tempdir().unwrap();
    compile(dir.path());
    let (first, _) = catalog(vec![dir.path().to_path_buf()]);
    let (again, _) = catalog(vec![dir.path().to_path_buf()]);
    assert_eq!(first, again);
    assert_eq!(first.hash(), again.hash());
    let mut names: Vec<&str> = first.sites.iter().map(|s| s.name.as_str()).collect();
    assert!(names.contains(&"fixture.Calls.network(ServerSocket)>java.net.ServerSocket.accept#0"));
    assert!(
        names.contains(&"fixture.Calls.lambda$lambda$0(OutputStream)>java.io.OutputStream.flush#0")
    );
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), first.sites.len());
    assert!(
        first
            .sites
            .iter()
            .enumerate()
            .all(|(i, s)| s.id == i as u32)
    );
    assert!(first.block_count > 20);
}

#[test]
fn jdk_sites_are_entries_of_io_methods() {
    let dir = tempfile::tempdir().unwrap();
    compile(dir.path());
    let mut request = Request::new(
        vec![dir.path().to_path_buf()],
        &jdk(),
        vec!["fixture.".into()],
    );
    request.jdk_sites = true;
    let catalog = analyze(&request).unwrap().catalog;
    let entries: Vec<&Site> = catalog
        .sites
        .iter()
        .filter(|s| s.kind == SiteKind::Entry)
        .collect();
    assert!(entries.len() > 10, "{}", entries.len());
    assert!(entries.iter().all(|s| s.pc == 0 && s.io.is_some()));
    let write = "java.io.FileOutputStream.write(byte[],int,int)>entry";
    assert!(
        entries
            .iter()
            .any(|s| s.name == write && s.exceptions == ["java.io.IOException"])
    );
}

#[test]
fn damaged_input_is_a_diagnostic_and_the_rest_is_analysed() {
    let dir = tempfile::tempdir().unwrap();
    compile(dir.path());
    let class = std::fs::read(dir.path().join("fixture/Calls.class")).unwrap();
    std::fs::write(
        dir.path().join("fixture/Cut.class"),
        &class[..class.len() / 2],
    )
    .unwrap();
    std::fs::write(dir.path().join("fixture/Text.class"), "not a class").unwrap();
    let jar = dir.path().join("cut.jar");
    std::fs::write(&jar, b"PK\x03\x04 and then nothing").unwrap();
    let (catalog, diagnostics) = catalog(vec![dir.path().to_path_buf(), jar]);
    assert!(catalog.sites.len() > 15);
    for place in ["Cut.class", "Text.class", "cut.jar"] {
        assert!(
            diagnostics.iter().any(|d| d.contains(place)),
            "{place}: {diagnostics:?}"
        );
    }
}

#[test]
fn nothing_to_analyse_is_an_error_that_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let request = Request::new(vec![dir.path().to_path_buf()], &jdk(), Vec::new());
    let error = analyze(&request).unwrap_err().to_string();
    assert!(
        error.contains("no classes under") && error.contains("target.toml"),
        "{error}"
    );
    let missing = Request::new(vec![dir.path().join("no.jar")], &jdk(), Vec::new());
    let error = analyze(&missing).unwrap_err().to_string();
    assert!(error.contains("no.jar"), "{error}");
    let no_jdk = Request::new(vec![dir.path().to_path_buf()], dir.path(), Vec::new());
    compile(dir.path());
    let error = analyze(&no_jdk).unwrap_err().to_string();
    assert!(
        error.contains("not a JDK") && error.contains("lib/modules"),
        "{error}"
    );
}
