//! The JVM's own verdict on rewritten classes: with a hook before every call, a probe in every
//! block, a peek at every number in reach and every method watched for its end, `-Xverify:all` links
//! exactly what it linked before. A wrong rewrite is caught here too.

mod inserts;
mod sources;

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use inserts::peeks;
use sources::Source;
use temblor_classfile::opcode::RETURN;
use temblor_classfile::synth::{ClassBuilder, MethodSpec};
use temblor_classfile::{ClassEdit, ClassFile, Op, SkipReason, access, find_attribute};

const HOOK: &str = "java/lang/FaultHook";
const PEEKED: &str = "(Ljava/lang/Object;JI)V";
/// The bytes of a method's last frame, where it is watched for its end.
const LAST_FRAME: usize = 10;

/// A stand-in for the agent's class: every method just returns.
fn hook_class() -> Vec<u8> {
    let mut class =
        ClassBuilder::new(49, access::PUBLIC | access::SUPER, HOOK, "java/lang/Object").unwrap();
    for (name, descriptor) in [
        ("at", "(I)V"),
        ("probe", "(I)V"),
        ("born", "(Ljava/lang/Object;)V"),
        ("left", "(I)V"),
        ("peeked", PEEKED),
    ] {
        let mut code = class.code();
        code.op(RETURN);
        let code = code.finish().unwrap();
        let spec = MethodSpec::new(access::PUBLIC | access::STATIC, name, descriptor).locals(4);
        class.method(&spec, Some(&code)).unwrap();
    }
    class.finish().unwrap()
}

/// Sums over all rewritten classes.
#[derive(Default, Debug)]
struct Sums {
    classes: usize,
    inserts: usize,
    leavings: usize,
    peeks: usize,
    skipped: usize,
    old_bytes: usize,
    new_bytes: usize,
}

/// Hook before every call, probe in every block, `this` handed over before a constructor ends, all
/// other methods watched for theirs, and every number in reach peeked at.
fn instrument(bytes: &[u8], sums: &mut Sums) -> Vec<u8> {
    let class = ClassFile::parse(bytes).expect("a class of the JDK or of a jar reads");
    let mut edit = ClassEdit::new(&class);
    let hook = edit.static_method(HOOK, "at", "(I)V").unwrap();
    let probe = edit.static_method(HOOK, "probe", "(I)V").unwrap();
    let born = edit
        .static_method(HOOK, "born", "(Ljava/lang/Object;)V")
        .unwrap();
    let left = edit.static_method(HOOK, "left", "(I)V").unwrap();
    let peeked = edit.static_method(HOOK, "peeked", PEEKED).unwrap();
    for (index, method) in class.methods().iter().enumerate() {
        let Some(code) = class.code(method).unwrap() else {
            continue;
        };
        if method.name != "<init>" {
            let ops = [Op::PushInt(sums.inserts as i32), Op::InvokeStatic(left)];
            edit.on_leaving(index, &ops).unwrap();
            sums.inserts += 1;
            sums.leavings += 1;
        }
        for pc in code.block_starts().unwrap() {
            // Ids of all sizes: iconst, bipush, sipush, ldc.
            let id = (sums.inserts % 40_000) as i32;
            edit.insert(index, pc, &[Op::PushInt(id), Op::InvokeStatic(probe)])
                .unwrap();
            sums.inserts += 1;
        }
        for instruction in code.instructions() {
            let instruction = instruction.unwrap();
            if instruction.is_invoke() {
                let ops = [Op::PushInt(sums.inserts as i32), Op::InvokeStatic(hook)];
                edit.insert(index, instruction.pc, &ops).unwrap();
                sums.inserts += 1;
            }
            for value in peeks(&instruction, class.pool()) {
                edit.peek(index, instruction.pc, value, sums.peeks as i32, peeked)
                    .unwrap();
                sums.inserts += 1;
                sums.peeks += 1;
            }
            if instruction.opcode == RETURN && method.name == "<init>" {
                let ops = [Op::LoadRef(0), Op::InvokeStatic(born)];
                edit.insert(index, instruction.pc, &ops).unwrap();
                sums.inserts += 1;
            }
        }
    }
    let edited = edit.finish().unwrap();
    sums.classes += 1;
    sums.old_bytes += bytes.len();
    sums.new_bytes += edited.bytes.len();
    for skipped in &edited.skipped {
        if matches!(
            skipped.reason,
            SkipReason::EmptyFinalizer | SkipReason::Intrinsic
        ) {
            continue;
        }
        sums.skipped += 1;
        println!(
            "  skipped {}.{}: {}",
            class.name, skipped.name, skipped.reason
        );
    }
    edited.bytes
}

/// The rewrite with its one worst mistake: frames stay where they were. Only tables of unchanged
/// size, but for a last frame that is new, can be put back; that is plenty.
fn leave_frames_unmapped(original: &[u8], rewritten: &mut [u8]) -> usize {
    let old_class = ClassFile::parse(original).unwrap();
    let mut patches = Vec::new();
    {
        let new_class = ClassFile::parse(rewritten).unwrap();
        for (old, new) in old_class.methods().iter().zip(new_class.methods()) {
            let (Some(old), Some(new)) =
                (old_class.code(old).unwrap(), new_class.code(new).unwrap())
            else {
                continue;
            };
            let name = "StackMapTable";
            let old = find_attribute(old.attributes(), name);
            let new = find_attribute(new.attributes(), name);
            if let (Some(old), Some(new)) = (old, new)
                && [0, LAST_FRAME].contains(&(new.content.len() - old.content.len()))
                && old.content[2..] != new.content[2..old.content.len()]
            {
                // Behind the count.
                patches.push((new.offset + 2, &old.content[2..]));
            }
        }
    }
    for (offset, content) in &patches {
        rewritten[*offset..offset + content.len()].copy_from_slice(content);
    }
    patches.len()
}

/// A JDK with LinkAll compiled for it.
struct Jvm {
    home: PathBuf,
    folder: tempfile::TempDir,
}

/// Class name to "linked" or the error that linking gave.
type Verdicts = BTreeMap<String, String>;

impl Jvm {
    fn new(home: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        sources::compile(home, "LinkAll.java", folder.path());
        let jvm = Jvm {
            home: home.to_owned(),
            folder,
        };
        write_class(&jvm.hook_root(), HOOK, &hook_class());
        jvm
    }

    fn hook_root(&self) -> PathBuf {
        self.folder.path().join("hook/java.base")
    }

    /// Links `names`; `patched` holds a folder per module (on JDK 8 that is one).
    fn link(&self, names: &[String], patched: &Path, roots: Option<&Path>) -> Verdicts {
        let list = self.folder.path().join("names");
        let result = self.folder.path().join("verdicts");
        fs::write(&list, names.join("\n")).expect("the list is written");
        let mut java = Command::new(sources::tool(&self.home, "java"));
        java.current_dir(self.folder.path()); // where a crash report would land
        java.args([
            "-Xverify:all",
            "-Xmx700m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
        ]);
        java.arg("-Djava.awt.headless=true");
        let modules = patched.read_dir().expect("the patched folder is there");
        for module in modules.map(|entry| entry.expect("the patched folder lists").path()) {
            if sources::has_modules(&self.home) {
                let name = module
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                java.arg("--patch-module")
                    .arg(format!("{name}={}", module.display()));
            } else {
                java.arg(format!("-Xbootclasspath/p:{}", module.display()));
            }
        }
        if sources::has_modules(&self.home) {
            java.args(["--add-modules", "ALL-SYSTEM"]);
        }
        java.arg("-cp")
            .arg(self.folder.path())
            .arg("LinkAll")
            .arg(&list)
            .arg(&result);
        java.args(roots);
        let output = java.output().expect("java runs");
        assert!(
            output.status.success(),
            "LinkAll ended with {}: {}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        let verdicts = fs::read_to_string(&result).expect("LinkAll wrote its verdicts");
        let line = |line: &str| {
            let (name, verdict) = line.split_once('\t').expect("name, tab, verdict");
            (name.to_owned(), verdict.to_owned())
        };
        verdicts.lines().map(line).collect()
    }
}

fn write_class(root: &Path, name: &str, bytes: &[u8]) {
    let path = root.join(format!("{name}.class"));
    fs::create_dir_all(path.parent().expect("a class file has a folder")).expect("folder made");
    fs::write(path, bytes).expect("class written");
}

fn binary_names(classes: &[Source]) -> Vec<String> {
    let mut names: Vec<_> = classes.iter().map(|c| c.name.replace('/', ".")).collect();
    names.sort();
    names.dedup();
    names
}

fn linked(verdicts: &Verdicts) -> usize {
    verdicts
        .values()
        .filter(|verdict| *verdict == "linked")
        .count()
}

/// What the rewritten classes suffer that the original ones did not.
fn new_errors(before: &Verdicts, after: &Verdicts) -> Vec<String> {
    let kind = |verdict: &str| verdict.split('\t').next().map(str::to_owned);
    after
        .iter()
        .filter(|(name, verdict)| before.get(*name).and_then(|b| kind(b)) != kind(verdict))
        .map(|(name, verdict)| format!("{name}: {verdict}"))
        .collect()
}

fn is_module_info(class: &Source) -> bool {
    class.name.ends_with("module-info")
}

/// All classes of all jars, in one folder; the first of two equal names wins, as on a class path.
fn jar_classes() -> Vec<Source> {
    let mut seen = HashSet::new();
    let mut classes: Vec<_> = sources::jars()
        .iter()
        .flat_map(|jar| sources::jar_classes(jar))
        .collect();
    classes.retain(|class| !is_module_info(class) && seen.insert(class.name.clone()));
    classes
}

/// The classes of the jars, and a small one of our own so that the test never has nothing to test.
fn jars_and_small(jvm: &Jvm) -> Vec<Source> {
    let folder = jvm.folder.path().join("small");
    fs::create_dir(&folder).expect("folder made");
    sources::compile(&jvm.home, "Small.java", &folder);
    let bytes = fs::read(folder.join("Small.class")).expect("Small was compiled");
    let mut classes = jar_classes();
    classes.push(Source {
        module: String::new(),
        name: "Small".into(),
        bytes,
    });
    classes
}

#[test]
fn rewritten_jars_link_as_before_and_a_wrong_rewrite_is_caught() {
    for home in sources::jdk_homes() {
        let jvm = Jvm::new(&home);
        let classes = jars_and_small(&jvm);
        let names = binary_names(&classes);
        let root = |kind: &str| jvm.folder.path().join(kind).join("");
        let (plain, good, bad) = (root("plain"), root("good"), root("bad"));
        let mut sums = Sums::default();
        let mut sabotaged = 0;
        let started = Instant::now();
        for class in &classes {
            let mut rewritten = instrument(&class.bytes, &mut sums);
            write_class(&plain, &class.name, &class.bytes);
            write_class(&good, &class.name, &rewritten);
            sabotaged += leave_frames_unmapped(&class.bytes, &mut rewritten);
            write_class(&bad, &class.name, &rewritten);
        }
        println!(
            "{}: jars {sums:?} in {} ms",
            home.display(),
            started.elapsed().as_millis()
        );
        assert_eq!(sums.skipped, 0);

        let patched = jvm.hook_root();
        let patched = patched.parent().expect("the module's folder has a parent");
        let before = jvm.link(&names, patched, Some(&plain));
        let after = jvm.link(&names, patched, Some(&good));
        println!(
            "  linked {} of {}, before {}",
            linked(&after),
            after.len(),
            linked(&before)
        );
        assert_eq!(new_errors(&before, &after), Vec::<String>::new());
        assert!(linked(&after) > 0);

        let broken = jvm.link(&names, patched, Some(&bad));
        let caught = new_errors(&before, &broken);
        println!(
            "  negative control: {sabotaged} methods, {} classes caught",
            caught.len()
        );
        assert!(sabotaged > 0, "the control must break something");
        assert!(
            caught.iter().any(|e| e.contains("VerifyError")),
            "not caught: {caught:?}"
        );
    }
}

#[test]
fn the_rewritten_jdk_boots_and_links_as_before() {
    for home in sources::jdk_homes() {
        let jvm = Jvm::new(&home);
        let mut classes = sources::jdk_classes(&home);
        classes.retain(|class| !is_module_info(class));
        let names = binary_names(&classes);
        let patched = jvm.folder.path().join("patched");
        let mut sums = Sums::default();
        let started = Instant::now();
        let rewritten: Vec<_> = classes
            .iter()
            .map(|class| instrument(&class.bytes, &mut sums))
            .collect();
        println!(
            "{}: JDK {sums:?} in {} ms",
            home.display(),
            started.elapsed().as_millis()
        );
        for (class, bytes) in classes.iter().zip(&rewritten) {
            write_class(&patched.join(&class.module), &class.name, bytes);
        }
        write_class(&patched.join("java.base"), HOOK, &hook_class());
        drop((classes, rewritten));

        let hook_only = jvm.hook_root();
        let hook_only = hook_only
            .parent()
            .expect("the module's folder has a parent");
        let before = jvm.link(&names, hook_only, None);
        let after = jvm.link(&names, &patched, None);
        println!(
            "  linked {} of {}, before {}",
            linked(&after),
            after.len(),
            linked(&before)
        );
        assert_eq!(new_errors(&before, &after), Vec::<String>::new());
        assert!(linked(&after) > 10_000);
    }
}
