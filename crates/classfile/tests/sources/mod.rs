//! Where the tests' classes come from: the JDKs and jars of this machine.

#![allow(dead_code)] // each test binary uses its own part

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use jimage_rs::JImage;

/// A class with the module it lives in: empty in jars; JDK 8, which has none, counts as java.base.
pub struct Source {
    pub module: String,
    /// Internal name by its place: `java/lang/String`.
    pub name: String,
    pub bytes: Vec<u8>,
}

/// The JDKs to test with: `TEMBLOR_TEST_JDKS` (homes, colon-separated), else `JAVA_HOME`, else the
/// `java` on the path.
pub fn jdk_homes() -> Vec<PathBuf> {
    let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(list) = given("TEMBLOR_TEST_JDKS") {
        return std::env::split_paths(&list).collect();
    }
    if let Some(home) = given("JAVA_HOME") {
        return vec![home.into()];
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let java = std::env::split_paths(&path)
        .find_map(|folder| folder.join("java").canonicalize().ok())
        .expect(
            "no JDK found: set JAVA_HOME or TEMBLOR_TEST_JDKS, or install one with \
             `apt-get install openjdk-17-jdk-headless`",
        );
    let home = java
        .parent()
        .and_then(Path::parent)
        .expect("java lies in HOME/bin");
    // JDK 8 has its java in HOME/jre/bin.
    let home = if home.ends_with("jre") {
        home.parent().unwrap_or(home)
    } else {
        home
    };
    vec![home.to_owned()]
}

/// A tool of the JDK; its absence is an error that says what to install.
pub fn tool(home: &Path, name: &str) -> PathBuf {
    let tool = home.join("bin").join(name);
    assert!(
        tool.exists(),
        "{} has no bin/{name}: it is a JRE or no JDK at all; install one with \
         `apt-get install openjdk-17-jdk-headless` or set TEMBLOR_TEST_JDKS",
        home.display()
    );
    tool
}

/// Compiles one of `tests/java` into a folder; it may use what is there already.
pub fn compile(home: &Path, source: &str, folder: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/java")
        .join(source);
    let mut javac = Command::new(tool(home, "javac"));
    let output = javac
        .args(["-d".as_ref(), folder, "-cp".as_ref(), folder])
        .arg(source)
        .output()
        .expect("javac runs");
    assert!(
        output.status.success(),
        "javac: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// JDK 8 keeps its classes in rt.jar and friends, later ones in lib/modules.
pub fn has_modules(home: &Path) -> bool {
    home.join("lib/modules").exists()
}

/// Every class of the JDK.
pub fn jdk_classes(home: &Path) -> Vec<Source> {
    if !has_modules(home) {
        let lib = [home.join("jre/lib"), home.join("lib")]
            .into_iter()
            .find(|lib| lib.join("rt.jar").exists())
            .unwrap_or_else(|| panic!("{}: neither lib/modules nor rt.jar", home.display()));
        return ["rt.jar", "jsse.jar", "jce.jar", "charsets.jar"]
            .iter()
            .filter(|jar| lib.join(jar).exists())
            .flat_map(|jar| jar_classes(&lib.join(jar)))
            .map(|class| Source {
                module: "java.base".into(),
                ..class
            })
            .collect();
    }
    let image = JImage::open(home.join("lib/modules")).expect("lib/modules opens");
    let mut classes = Vec::new();
    for resource in image.resource_names_iter() {
        let resource = resource.expect("lib/modules lists its resources");
        if resource.extension != "class" {
            continue;
        }
        let name = format!("{}/{}", resource.parent, resource.base);
        let full = format!(
            "/{}/{}.class",
            resource.module,
            name.trim_start_matches('/')
        );
        let bytes = image.find_resource(&full).expect("lib/modules is readable");
        let bytes = bytes
            .unwrap_or_else(|| panic!("{full} is listed but absent"))
            .into_owned();
        let name = name.trim_start_matches('/').to_owned();
        classes.push(Source {
            module: resource.module.to_string(),
            name,
            bytes,
        });
    }
    classes
}

/// One class of the JDK.
pub fn jdk_class(home: &Path, module: &str, name: &str) -> Vec<u8> {
    if !has_modules(home) {
        let found = jdk_classes(home)
            .into_iter()
            .find(|class| class.name == name);
        return found
            .unwrap_or_else(|| panic!("{} has no {name}", home.display()))
            .bytes;
    }
    let image = JImage::open(home.join("lib/modules")).expect("lib/modules opens");
    let full = format!("/{module}/{name}.class");
    let bytes = image.find_resource(&full).expect("lib/modules is readable");
    bytes
        .unwrap_or_else(|| panic!("{} has no {full}", home.display()))
        .into_owned()
}

/// Every class of a jar that the class path shows: not the copies for newer JDKs.
pub fn jar_classes(jar: &Path) -> Vec<Source> {
    let file = File::open(jar).unwrap_or_else(|e| panic!("{}: {e}", jar.display()));
    let mut zip = zip::ZipArchive::new(file).unwrap_or_else(|e| panic!("{}: {e}", jar.display()));
    let mut classes = Vec::new();
    for index in 0..zip.len() {
        let mut entry = zip.by_index(index).expect("the jar's entry reads");
        let Some(name) = entry.name().strip_suffix(".class").map(str::to_owned) else {
            continue;
        };
        if name.starts_with("META-INF/") {
            continue;
        }
        let mut bytes = Vec::new();
        entry
            .read_to_end(&mut bytes)
            .expect("the jar's entry unpacks");
        classes.push(Source {
            module: String::new(),
            name,
            bytes,
        });
    }
    classes
}

/// The jars in the folders of `TEMBLOR_TEST_JARS` (colon-separated), sorted; none if it is unset.
pub fn jars() -> Vec<PathBuf> {
    let list = std::env::var_os("TEMBLOR_TEST_JARS").unwrap_or_default();
    let mut jars = Vec::new();
    for folder in std::env::split_paths(&list).filter(|folder| !folder.as_os_str().is_empty()) {
        let entries = folder.read_dir().unwrap_or_else(|e| {
            panic!(
                "TEMBLOR_TEST_JARS names {}, which cannot be read: {e}",
                folder.display()
            )
        });
        let paths = entries.map(|entry| entry.expect("the folder lists").path());
        jars.extend(paths.filter(|path| path.extension().is_some_and(|e| e == "jar")));
    }
    jars.sort();
    jars
}
