//! Input that is damaged, hostile or merely odd: what can be analysed is, the rest is reported.

#[path = "fixture/compile.rs"]
mod compile;

use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use temblor_analysis::{Analysis, Request, analyze};
use temblor_classfile::synth::{ClassBuilder, MethodSpec};
use temblor_classfile::{access, opcode};
use tempfile::TempDir;
use zip::write::SimpleFileOptions;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn analysed(class_path: Vec<PathBuf>) -> Analysis {
    let request = Request::new(class_path, &compile::jdk(17), Vec::new());
    analyze(&request).expect("there is something to analyse")
}

/// A class with one site: `run` calls `File.delete`.
fn class_with_site(major: u16, name: &str, super_name: &str) -> Vec<u8> {
    class_of(major, name, super_name, &["run"])
}

fn class_of(major: u16, name: &str, super_name: &str, methods: &[&str]) -> Vec<u8> {
    let flags = access::PUBLIC | access::SUPER;
    let mut class = ClassBuilder::new(major, flags, name, super_name).expect("a class");
    for method in methods {
        let mut code = class.code();
        code.load_ref(0);
        code.invoke(opcode::INVOKEVIRTUAL, "java/io/File", "delete", "()Z")
            .expect("a call");
        code.op(opcode::POP).op(opcode::RETURN);
        let code = code.finish().expect("code");
        let flags = access::PUBLIC | access::STATIC;
        let spec = MethodSpec::new(flags, method, "(Ljava/io/File;)V");
        class
            .method(&spec.stack(1).locals(1), Some(&code))
            .expect("a method");
    }
    class.finish().expect("class bytes")
}

fn plain(name: &str) -> Vec<u8> {
    class_with_site(52, name, "java/lang/Object")
}

fn jar(path: &Path, entries: &[(&str, &[u8])]) {
    let mut zip = zip::ZipWriter::new(std::fs::File::create(path).expect("the jar is created"));
    for (name, bytes) in entries {
        zip.start_file(*name, SimpleFileOptions::default())
            .expect("an entry starts");
        zip.write_all(bytes).expect("the entry is written");
    }
    zip.finish().expect("the jar is finished");
}

/// Names of the sites' classes, with dots, in order.
fn classes_with_sites(analysis: &Analysis) -> Vec<String> {
    let sites = analysis.catalog.sites.iter();
    let mut names: Vec<String> = sites.map(|s| s.class.replace('/', ".")).collect();
    names.sort();
    names
}

/// A diagnostic about this place that says all these words.
fn says(analysis: &Analysis, place: &str, words: &[&str]) {
    let fits = |d: &&temblor_model::catalog::Diagnostic| {
        d.place.contains(place) && words.iter().all(|w| d.message.to_lowercase().contains(w))
    };
    assert!(
        analysis.diagnostics.iter().any(|d| fits(&d)),
        "no diagnostic about {place} with {words:?} in {:#?}",
        analysis.diagnostics
    );
}

#[test]
fn a_good_class_has_its_site_and_no_diagnostic() {
    let dir = folder();
    let path = dir.path().join("good.jar");
    jar(&path, &[("a/Good.class", &plain("a/Good"))]);
    let analysis = analysed(vec![path]);
    assert_eq!(classes_with_sites(&analysis), ["a.Good"]);
    assert_eq!(analysis.diagnostics, []);
}

#[test]
fn a_truncated_jar_is_a_diagnostic_and_the_others_are_analysed() {
    let dir = folder();
    let (whole, cut) = (dir.path().join("whole.jar"), dir.path().join("cut.jar"));
    jar(&whole, &[("a/Good.class", &plain("a/Good"))]);
    let bytes = std::fs::read(&whole).expect("the jar reads");
    for length in [0, 3, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&cut, &bytes[..length]).expect("the jar is written");
        let analysis = analysed(vec![cut.clone(), whole.clone()]);
        assert_eq!(classes_with_sites(&analysis), ["a.Good"], "{length} bytes");
        says(&analysis, "cut.jar", &[]);
    }
}

#[test]
fn a_jar_in_a_jar_is_not_passed_over_silently() {
    let dir = folder();
    let (inner, outer) = (dir.path().join("inner.jar"), dir.path().join("outer.jar"));
    jar(&inner, &[("b/Inner.class", &plain("b/Inner"))]);
    let bytes = std::fs::read(&inner).expect("the jar reads");
    let entries: [(&str, &[u8]); 2] = [
        ("a/Outer.class", &plain("a/Outer")),
        ("lib/inner.jar", &bytes),
    ];
    jar(&outer, &entries);
    let analysis = analysed(vec![outer]);
    let found = classes_with_sites(&analysis);
    assert!(found.contains(&"a.Outer".to_string()), "{found:?}");
    // Either its classes are there, or the user is told that they are not.
    if !found.contains(&"b.Inner".to_string()) {
        says(&analysis, "inner.jar", &["jar"]);
    }
}

#[test]
fn of_two_classes_of_one_name_the_first_wins() {
    let dir = folder();
    let (first, second) = (dir.path().join("first.jar"), dir.path().join("second.jar"));
    let twice = class_of(52, "a/Twice", "java/lang/Object", &["run", "again"]);
    jar(&first, &[("a/Twice.class", &plain("a/Twice"))]);
    jar(&second, &[("a/Twice.class", &twice)]);
    let analysis = analysed(vec![first.clone(), second.clone()]);
    assert_eq!(classes_with_sites(&analysis), ["a.Twice"]);
    says(&analysis, "second.jar", &[]);
    let swapped = analysed(vec![second, first]);
    assert_eq!(classes_with_sites(&swapped), ["a.Twice", "a.Twice"]);
    says(&swapped, "first.jar", &[]);
}

#[test]
fn a_missing_superclass_does_not_hide_a_class() {
    let dir = folder();
    let orphan = class_with_site(52, "a/Orphan", "missing/Parent");
    let path = dir.path().join("orphan.jar");
    jar(&path, &[("a/Orphan.class", &orphan)]);
    let analysis = analysed(vec![path]);
    assert_eq!(classes_with_sites(&analysis), ["a.Orphan"]);
}

#[test]
fn a_class_that_is_its_own_ancestor_ends_the_search() {
    let dir = folder();
    let path = dir.path().join("cycle.jar");
    let (one, two) = (
        class_with_site(52, "a/One", "a/Two"),
        class_with_site(52, "a/Two", "a/One"),
    );
    let selfish = class_with_site(52, "a/Self", "a/Self");
    let entries: [(&str, &[u8]); 3] = [
        ("a/One.class", &one),
        ("a/Two.class", &two),
        ("a/Self.class", &selfish),
    ];
    jar(&path, &entries);
    let analysis = analysed(vec![path]);
    assert_eq!(classes_with_sites(&analysis), ["a.One", "a.Self", "a.Two"]);
}

#[test]
fn obfuscated_names_are_names_like_any_other() {
    let dir = folder();
    let path = dir.path().join("obfuscated.jar");
    let names = ["a/a/a", "a/a/A", "a/a", "\u{e9}/-", "a/b c", "a/if", "I"];
    let classes: Vec<(String, Vec<u8>)> = names
        .iter()
        .map(|n| {
            (
                format!("{n}.class"),
                class_of(52, n, "java/lang/Object", &["a", "A"]),
            )
        })
        .collect();
    let entries: Vec<(&str, &[u8])> = classes.iter().map(|(n, b)| (&**n, &**b)).collect();
    jar(&path, &entries);
    let analysis = analysed(vec![path]);
    assert_eq!(classes_with_sites(&analysis).len(), 2 * names.len());
    let mut site_names: Vec<&str> = analysis.catalog.sites.iter().map(|s| &*s.name).collect();
    site_names.sort_unstable();
    site_names.dedup();
    assert_eq!(
        site_names.len(),
        2 * names.len(),
        "names that differ by case only stay apart"
    );
}

#[test]
fn a_newer_class_file_is_analysed_with_a_word_of_warning() {
    let dir = folder();
    let path = dir.path().join("newer.jar");
    let newer = class_with_site(200, "a/Newer", "java/lang/Object");
    jar(
        &path,
        &[("a/Newer.class", &newer), ("a/Now.class", &plain("a/Now"))],
    );
    let analysis = analysed(vec![path]);
    assert_eq!(classes_with_sites(&analysis), ["a.Newer", "a.Now"]);
    says(&analysis, "Newer", &["200"]);
}

#[test]
fn an_entry_that_lies_about_its_size_is_a_diagnostic() {
    let dir = folder();
    let path = dir.path().join("liar.jar");
    let liar = plain("a/Liar");
    jar(
        &path,
        &[("a/Liar.class", &liar), ("a/Good.class", &plain("a/Good"))],
    );
    let mut bytes = std::fs::read(&path).expect("the jar reads");
    // The sizes in the local header and in the directory of the first entry: 3 GiB, they say.
    let local = position(&bytes, b"PK\x03\x04");
    let central = position(&bytes, b"PK\x01\x02");
    for at in [local + 22, central + 24] {
        bytes[at..at + 4].copy_from_slice(&0xC000_0000_u32.to_le_bytes());
    }
    std::fs::write(&path, &bytes).expect("the jar is written");
    let analysis = analysed(vec![path]);
    let found = classes_with_sites(&analysis);
    assert!(found.contains(&"a.Good".to_string()), "{found:?}");
    if !found.contains(&"a.Liar".to_string()) {
        says(&analysis, "Liar", &[]);
    }
}

fn position(bytes: &[u8], of: &[u8]) -> usize {
    let found = bytes.windows(of.len()).position(|w| w == of);
    found.expect("the jar has this part")
}

/// Less than the least that an unbounded reader would need for any of these inputs.
const MAX_PEAK_MIB: u64 = 512;

/// The peak of this process's memory, in MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    kib.expect("a number of kB") / 1024
}

/// A class that inflates to 1 GiB of zeros: some 1 MiB in the jar.
#[test]
fn a_zip_bomb_is_bounded_and_reported() {
    let dir = folder();
    let path = dir.path().join("bomb.jar");
    let file = std::fs::File::create(&path).expect("the jar is created");
    let mut zip = zip::ZipWriter::new(file);
    let options = SimpleFileOptions::default().large_file(true);
    zip.start_file("a/Bomb.class", options)
        .expect("an entry starts");
    let zeros = vec![0; 1 << 20];
    for _ in 0..1024 {
        zip.write_all(&zeros).expect("the entry is written");
    }
    zip.start_file("a/Good.class", SimpleFileOptions::default())
        .expect("an entry starts");
    zip.write_all(&plain("a/Good"))
        .expect("the entry is written");
    zip.finish().expect("the jar is finished");
    let analysis = analysed(vec![path]);
    assert_eq!(classes_with_sites(&analysis), ["a.Good"]);
    says(&analysis, "Bomb", &["mib"]);
    assert!(peak_mib() < MAX_PEAK_MIB, "{} MiB", peak_mib());
}

/// One large resource, not compressed, before the class: its bytes need not be in memory twice.
#[test]
fn a_jar_of_100_mb_is_read_in_bounded_memory() {
    let dir = folder();
    let path = dir.path().join("large.jar");
    let file = std::fs::File::create(&path).expect("the jar is created");
    let mut zip = zip::ZipWriter::new(file);
    let stored = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    zip.start_file("data.bin", stored).expect("an entry starts");
    let noise: Vec<u8> = (0..1 << 20).map(|i: u32| ((i * 31) >> 7) as u8).collect();
    for _ in 0..100 {
        zip.write_all(&noise).expect("the entry is written");
    }
    zip.start_file("a/Good.class", stored)
        .expect("an entry starts");
    zip.write_all(&plain("a/Good"))
        .expect("the entry is written");
    zip.finish().expect("the jar is finished");
    let analysis = analysed(vec![path]);
    assert_eq!(classes_with_sites(&analysis), ["a.Good"]);
    assert_eq!(analysis.diagnostics, []);
    assert!(peak_mib() < MAX_PEAK_MIB, "{} MiB", peak_mib());
}

/// A sparse file of 3 GiB that begins like a jar and has no directory at its end: the end is where
/// to look, not the whole file.
#[test]
fn a_huge_file_that_is_no_jar_is_soon_refused() {
    let dir = folder();
    let (huge, good) = (dir.path().join("huge.jar"), dir.path().join("good.jar"));
    let mut file = std::fs::File::create(&huge).expect("the file is created");
    file.write_all(b"PK\x03\x04").expect("it is written");
    file.seek(SeekFrom::Start(3 << 30)).expect("it is sparse");
    file.write_all(b"end").expect("it is written");
    drop(file);
    jar(&good, &[("a/Good.class", &plain("a/Good"))]);
    let start = std::time::Instant::now();
    let analysis = analysed(vec![huge, good]);
    let took = start.elapsed();
    assert!(took.as_secs() < 10, "{took:?} for a file that is no jar");
    assert_eq!(classes_with_sites(&analysis), ["a.Good"]);
    says(&analysis, "huge.jar", &[]);
    assert!(peak_mib() < MAX_PEAK_MIB, "{} MiB", peak_mib());
}

#[test]
fn corrupt_classes_are_diagnostics_and_the_rest_is_analysed() {
    let dir = folder();
    let good = plain("a/Good");
    let write = |name: &str, bytes: &[u8]| {
        let folder = dir.path().join("a");
        std::fs::create_dir_all(&folder).expect("the folder is made");
        std::fs::write(folder.join(name), bytes).expect("the class is written");
    };
    write("Good.class", &good);
    write("Cut.class", &good[..good.len() / 2]);
    write("Text.class", b"not a class");
    write("Empty.class", b"");
    let mut flipped = plain("a/Flipped");
    flipped[8] = 0xFF; // the count of constants
    write("Flipped.class", &flipped);
    let analysis = analysed(vec![dir.path().to_path_buf()]);
    assert_eq!(classes_with_sites(&analysis), ["a.Good"]);
    for place in ["Cut.class", "Text.class", "Empty.class", "Flipped.class"] {
        says(&analysis, place, &[]);
    }
}

#[test]
fn garbage_in_one_method_leaves_the_others_analysed() {
    let dir = folder();
    let flags = access::PUBLIC | access::SUPER;
    let mut class = ClassBuilder::new(52, flags, "a/Half", "java/lang/Object").expect("a class");
    // Good, garbage, good; the garbage jumps far outside and ends in mid-instruction.
    let garbage: &[u8] = &[
        opcode::GOTO,
        0x7F,
        0xFF,
        0xFE,
        0xFE,
        opcode::INVOKESTATIC,
        0,
    ];
    for (name, bad) in [("first", false), ("second", true), ("third", false)] {
        let mut code = class.code();
        code.load_ref(0);
        code.invoke(opcode::INVOKEVIRTUAL, "java/io/File", "delete", "()Z")
            .expect("a call");
        code.op(opcode::POP).op(opcode::RETURN);
        let code = code.finish().expect("code");
        let spec = MethodSpec::new(access::STATIC, name, "(Ljava/io/File;)V");
        let body = if bad { garbage } else { &code };
        class
            .method(&spec.stack(1).locals(1), Some(body))
            .expect("a method");
    }
    let path = dir.path().join("half.jar");
    let half = class.finish().expect("class bytes");
    jar(&path, &[("a/Half.class", &half)]);
    let analysis = analysed(vec![path]);
    let methods: Vec<&str> = analysis.catalog.sites.iter().map(|s| &*s.method).collect();
    assert_eq!(methods, ["first", "third"]);
    says(&analysis, "Half", &["second"]);
}

#[test]
fn a_class_in_the_wrong_place_is_taken_by_its_own_name() {
    let dir = folder();
    let path = dir.path().join("moved.jar");
    jar(
        &path,
        &[("WEB-INF/classes/x/Other.class", &plain("a/Moved"))],
    );
    let request = Request::new(vec![path], &compile::jdk(17), Vec::new());
    // Taken, or refused with a reason: never lost in silence.
    match analyze(&request) {
        Ok(analysis) if !analysis.catalog.sites.is_empty() => {
            assert_eq!(classes_with_sites(&analysis), ["a.Moved"]);
        }
        Ok(analysis) => says(&analysis, "moved.jar", &[]),
        Err(error) => assert!(error.to_string().contains("moved.jar"), "{error}"),
    }
}

#[test]
fn nothing_to_analyse_is_an_error_that_says_so() {
    let dir = folder();
    let error_of = |class_path: Vec<PathBuf>, jdk: &Path| {
        let request = Request::new(class_path, jdk, Vec::new());
        analyze(&request).expect_err("there is nothing").to_string()
    };
    let jdk = compile::jdk(17);
    let without_classes = dir.path().join("resources");
    std::fs::create_dir(&without_classes).expect("the folder is made");
    std::fs::write(without_classes.join("a.txt"), "text").expect("it is written");
    let error = error_of(vec![without_classes], &jdk);
    assert!(
        error.contains("no classes under") && error.contains("resources"),
        "{error}"
    );
    assert!(error.contains("target.toml"), "{error}");
    let empty = dir.path().join("empty.jar");
    jar(&empty, &[]);
    let error = error_of(vec![empty], &jdk);
    assert!(
        error.contains("no classes under") && error.contains("empty.jar"),
        "{error}"
    );
    let error = error_of(vec![dir.path().join("no.jar")], &jdk);
    assert!(error.contains("no.jar"), "{error}");
    let good = dir.path().join("good.jar");
    jar(&good, &[("a/Good.class", &plain("a/Good"))]);
    let error = error_of(vec![good], dir.path());
    assert!(
        error.contains("not a JDK") && error.contains("lib/modules"),
        "{error}"
    );
}
