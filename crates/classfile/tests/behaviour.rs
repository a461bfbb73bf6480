//! Rewritten programs do what they did before, and their hooks see what the comments of the
//! fixtures say: in each JDK, by both of its verifiers, interpreted and compiled.

mod inserts;
mod sources;

use std::fs;
use std::path::Path;
use std::process::Command;

use inserts::peeks;
use temblor_classfile::{ClassEdit, ClassFile, Op};

/// Version 49 is the last that is verified without stack map frames.
const WITHOUT_FRAMES: u16 = 49;

/// What the fixture's comments promise: one line for each case.
fn promised(fixture: &str) -> Vec<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/java/{fixture}.java"));
    let source = fs::read_to_string(source).expect("the fixture reads");
    source
        .lines()
        .filter(|line| line.trim_start().starts_with("case "))
        .filter_map(|line| Some(line.split_once("; // ")?.1.to_owned()))
        .collect()
}

fn run(home: &Path, folder: &Path, program: &str, mode: &str) -> Vec<String> {
    let mut java = Command::new(sources::tool(home, "java"));
    java.env_remove("JAVA_TOOL_OPTIONS").current_dir(folder);
    // All else stays interpreted: compiling the JDK's own methods would take most of the time.
    java.arg("-XX:CompileCommand=quiet");
    java.arg(format!("-XX:CompileCommand=compileonly,{program}::*"));
    java.args(["-Xverify:all", mode, "-cp", ".", program]);
    let output = java.output().expect("java runs");
    assert!(
        output.status.success(),
        "{program}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let said = String::from_utf8_lossy(&output.stdout);
    said.lines().map(str::to_owned).collect()
}

/// Runs the fixture as it is and rewritten, as compiled and as an old class; `silent` turns a
/// promise into what is said when nobody is watching.
fn check(fixture: &str, rewrite: fn(&[u8]) -> Vec<u8>, silent: fn(&str) -> String) {
    let promised = promised(fixture);
    assert!(promised.len() > 10, "{fixture} has cases");
    let unwatched: Vec<String> = promised.iter().map(|line| silent(line)).collect();
    assert_ne!(promised, unwatched);
    for home in sources::jdk_homes() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in ["Seen", fixture] {
            sources::compile(&home, &format!("{name}.java"), folder.path());
        }
        let at = folder.path().join(format!("{fixture}.class"));
        let mut original = fs::read(&at).expect("it was compiled");
        let before = run(&home, folder.path(), fixture, "-Xint");
        assert_eq!(before, unwatched, "{}", home.display());
        let compiled = u16::from_be_bytes([original[6], original[7]]);
        for version in [compiled, WITHOUT_FRAMES] {
            original[6..8].copy_from_slice(&version.to_be_bytes());
            fs::write(&at, rewrite(&original)).expect("it is written");
            for mode in ["-Xint", "-Xcomp"] {
                let after = run(&home, folder.path(), fixture, mode);
                let what = format!("{} version {version} {mode}", home.display());
                assert_eq!(after, promised, "{what}");
            }
        }
    }
}

fn is_watched(name: &str) -> bool {
    !["main", "scenario", "<init>"].contains(&name)
}

fn watch_leaving(bytes: &[u8]) -> Vec<u8> {
    let class = ClassFile::parse(bytes).unwrap();
    let mut edit = ClassEdit::new(&class);
    let entered = edit.static_method("Seen", "entered", "(I)V").unwrap();
    let left = edit.static_method("Seen", "left", "(I)V").unwrap();
    for (index, method) in class.methods().iter().enumerate() {
        if is_watched(&method.name.to_string()) {
            let call = |hook| [Op::PushInt(index as i32), Op::InvokeStatic(hook)];
            edit.on_leaving(index, &call(left)).unwrap();
            edit.insert(index, 0, &call(entered)).unwrap();
        }
    }
    let edited = edit.finish().unwrap();
    assert_eq!(edited.skipped, []);
    edited.bytes
}

fn watch_numbers(bytes: &[u8]) -> Vec<u8> {
    let class = ClassFile::parse(bytes).unwrap();
    let mut edit = ClassEdit::new(&class);
    let peeked = edit
        .static_method("Seen", "peeked", "(Ljava/lang/Object;JI)V")
        .unwrap();
    for (index, method) in class.methods().iter().enumerate() {
        if !is_watched(&method.name.to_string()) {
            continue;
        }
        let code = class.code(method).unwrap().unwrap();
        for instruction in code.instructions() {
            let instruction = instruction.unwrap();
            for value in peeks(&instruction, class.pool()) {
                edit.peek(index, instruction.pc, value, 100_000, peeked)
                    .unwrap();
            }
        }
    }
    let edited = edit.finish().unwrap();
    assert_eq!(edited.skipped, []);
    edited.bytes
}

#[test]
fn each_leaving_of_a_method_is_seen_once() {
    check("Leavings", watch_leaving, |line| {
        let (outcome, _) = line.rsplit_once(' ').expect("it ends with a count");
        format!("{outcome} 0")
    });
}

#[test]
fn numbers_on_the_stack_are_seen_as_they_are() {
    check("Peeks", watch_numbers, |line| {
        let (outcome, _) = line.split_once(" saw").expect("it says what was seen");
        format!("{outcome} saw")
    });
}
