//! The JDKs that are there: in the cache, in JAVA_HOME, among the system's, behind `java`.

use std::fs;
use std::path::{Path, PathBuf};

use super::Depot;
use super::command::{Call, Tools};
use super::error::{ArtifactError, Result};

/// The versions that targets need, and that can be fetched.
pub const KNOWN_MAJORS: [u32; 5] = [8, 11, 17, 21, 25];

/// A JDK that is installed or was fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jdk {
    pub home: PathBuf,
    pub major: u32,
    /// As the JDK says it: `1.8.0_504`, `17.0.15`.
    pub full_version: String,
}

/// What a JDK is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JdkUse {
    /// `java` is enough.
    Run,
    /// `javac` must be there too.
    Compile,
}

impl Jdk {
    /// The launcher.
    pub fn java(&self) -> PathBuf {
        self.home.join("bin/java")
    }

    /// The compiler, if this is more than a runtime.
    pub fn javac(&self) -> Option<PathBuf> {
        Some(self.home.join("bin/javac")).filter(|javac| javac.exists())
    }

    fn serves(&self, wanted: JdkUse) -> bool {
        wanted == JdkUse::Run || self.javac().is_some()
    }
}

impl Depot {
    /// A JDK of the given version for the given use.
    pub fn find_jdk(&self, major: u32, wanted: JdkUse) -> Result<Jdk> {
        let homes = self.jdk_homes(Some(major));
        let mut jdks = homes.iter().filter_map(|home| inspect(&self.tools, home));
        jdks.find(|jdk| jdk.major == major && jdk.serves(wanted))
            .ok_or_else(|| ArtifactError::NoJdk {
                major,
                need: match wanted {
                    JdkUse::Run => "",
                    JdkUse::Compile => " with javac",
                },
                looked: self.looked_at(),
            })
    }

    /// All JDKs there are, oldest version first, each home once.
    pub fn installed_jdks(&self) -> Vec<Jdk> {
        let homes = self.jdk_homes(None);
        let mut jdks: Vec<Jdk> = homes
            .iter()
            .filter_map(|home| inspect(&self.tools, home))
            .collect();
        jdks.sort_by(|a, b| (a.major, &a.home).cmp(&(b.major, &b.home)));
        jdks
    }

    /// The finished JDK of the cache.
    pub(super) fn cached_jdk(&self, major: u32) -> Result<Jdk> {
        let slot = self.jdk_slot(major);
        let marker = slot.marker()?;
        let home = slot.folder.join(&marker.inside);
        inspect(&self.tools, &home)
            .filter(|jdk| jdk.major == major)
            .ok_or_else(|| ArtifactError::NotFetched {
                name: slot.name,
                why: format!("{} holds no JDK {major}", home.display()),
            })
    }

    /// Where JDKs may be, best first: the cache before what happens to be installed.
    fn jdk_homes(&self, only: Option<u32>) -> Vec<PathBuf> {
        let mut homes: Vec<PathBuf> = KNOWN_MAJORS
            .into_iter()
            .filter(|major| only.is_none_or(|only| only == *major))
            .filter_map(|major| self.cached_jdk(major).ok())
            .map(|jdk| jdk.home)
            .collect();
        homes.extend(self.machine.java_home.clone());
        let mut installed: Vec<PathBuf> = fs::read_dir(&self.machine.jvm_dir)
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        installed.sort();
        homes.extend(installed);
        homes.extend(
            self.tools
                .locate("java".as_ref())
                .and_then(|java| home_of_java(&java)),
        );
        // A JDK often has several names; it is one.
        let mut real_homes: Vec<PathBuf> = Vec::new();
        for home in homes.iter().filter_map(|home| home.canonicalize().ok()) {
            if !real_homes.contains(&home) {
                real_homes.push(home);
            }
        }
        real_homes
    }

    fn looked_at(&self) -> String {
        let java_home = match &self.machine.java_home {
            Some(home) => format!("JAVA_HOME={}", home.display()),
            None => "JAVA_HOME (not set)".to_string(),
        };
        format!(
            "{}, {java_home}, {}/*, java on the PATH",
            self.cache.root().join("jdk").display(),
            self.machine.jvm_dir.display(),
        )
    }
}

/// What JDK a folder holds, by its `release` file or else by asking it.
pub(super) fn inspect(tools: &Tools, home: &Path) -> Option<Jdk> {
    tools.locate(home.join("bin/java").as_os_str())?;
    let release = fs::read_to_string(home.join("release")).unwrap_or_default();
    let full_version = match release_version(&release) {
        Some(version) => version,
        None => asked_version(tools, home).ok()?,
    };
    Some(Jdk {
        home: home.to_path_buf(),
        major: major_of(&full_version)?,
        full_version,
    })
}

/// What `java -version` says; an error if it does not run.
pub(super) fn asked_version(tools: &Tools, home: &Path) -> Result<String> {
    let fails = |tail: String| ArtifactError::JdkDoesNotRun {
        home: home.to_path_buf(),
        tail,
    };
    let purpose = format!("ask the JDK at {} for its version", home.display());
    let call = Call::new(home.join("bin/java"), purpose).arg("-version");
    match tools.run(call, &mut |_| {}) {
        Ok(output) => {
            let text = format!("{}\n{}", output.stderr, output.stdout);
            printed_version(&text).ok_or_else(|| fails(format!("  {}", text.trim())))
        }
        Err(error) => Err(fails(error.tail().to_string())),
    }
}

/// The launcher may be that of the runtime inside a JDK 8.
fn home_of_java(java: &Path) -> Option<PathBuf> {
    let real = java.canonicalize().ok()?;
    let home = real.parent()?.parent()?;
    match home.parent() {
        Some(outer) if home.ends_with("jre") && outer.join("bin/javac").exists() => {
            Some(outer.to_path_buf())
        }
        _ => Some(home.to_path_buf()),
    }
}

/// JAVA_VERSION of a `release` file.
fn release_version(text: &str) -> Option<String> {
    let value = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("JAVA_VERSION="))?;
    let version = value.trim().trim_matches('"');
    (!version.is_empty()).then(|| version.to_string())
}

/// The quoted version in `openjdk version "17.0.15" 2025-04-15`, whatever was printed before it.
fn printed_version(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.contains(" version \""))?;
    line.split('"').nth(1).map(str::to_string)
}

/// 8 of `1.8.0_504`, 17 of `17.0.15`, 25 of `25-ea`.
fn major_of(version: &str) -> Option<u32> {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit());
    match numbers.next()?.parse().ok()? {
        1 => numbers.next()?.parse().ok(),
        major => Some(major),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::time::Duration;

    use super::super::cache::{Cache, Marker, make_folder};
    use super::super::{Depot, Machine};
    use super::*;

    #[test]
    fn majors_of_all_spellings() {
        for (text, major) in [
            ("1.8.0_504", Some(8)),
            ("11.0.32.1", Some(11)),
            ("25", Some(25)),
            ("25-ea", Some(25)),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(major_of(text), major, "{text}");
        }
    }

    #[test]
    fn release_files_and_printed_versions_are_read() {
        let release = "IMPLEMENTOR=\"D\"\nJAVA_VERSION=\"17.0.15\"\n\
                       JAVA_VERSION_DATE=\"2025-04-15\"\n";
        assert_eq!(release_version(release).as_deref(), Some("17.0.15"));
        assert_eq!(release_version("JAVA_VERSION_DATE=\"2025\"\n"), None);
        assert_eq!(release_version("JAVA_VERSION=\"\"\n"), None);
        let printed = "Picked up JAVA_TOOL_OPTIONS: -Da=\"b\"\nopenjdk version \"1.8.0_504\"\n";
        assert_eq!(printed_version(printed).as_deref(), Some("1.8.0_504"));
        assert_eq!(printed_version("Error: no jvm"), None);
    }

    /// A folder that looks like a JDK.
    fn jdk_at(home: &Path, release: &str, script: &str, compiler: bool) {
        make_folder(&home.join("bin")).expect("folder");
        let names: &[&str] = if compiler {
            &["java", "javac"]
        } else {
            &["java"]
        };
        for name in names {
            let path = home.join("bin").join(name);
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("script");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("mode");
        }
        if !release.is_empty() {
            let text = format!("JAVA_VERSION=\"{release}\"\n");
            fs::write(home.join("release"), text).expect("release");
        }
    }

    fn depot(root: &Path) -> Depot {
        // The folder of the fake comes first, the machine's follow: the script needs a shell.
        let path = format!("{}:/usr/bin:/bin", root.join("nothing").display());
        Depot::new(
            Cache::at(root.join("cache")),
            Tools::new(path, Duration::from_secs(60)),
            Machine {
                jvm_dir: root.join("jvm"),
                java_home: Some(root.join("own")),
                ..Machine::default()
            },
        )
    }

    #[test]
    fn jdks_are_found_by_release_file_or_by_asking() {
        let folder = tempfile::tempdir().expect("folder");
        let root = &folder.path().canonicalize().expect("real");
        jdk_at(
            &root.join("jvm/old"),
            "",
            "echo 'openjdk version \"1.8.0_1\"' >&2",
            true,
        );
        jdk_at(&root.join("jvm/new"), "98.0.1", "exit 9", true);
        jdk_at(&root.join("jvm/bad"), "", "exit 9", true);
        symlink("new", root.join("jvm/default")).expect("link");
        jdk_at(&root.join("own"), "97.0.1", "exit 9", false);
        let depot = depot(root);
        let jdk = depot.find_jdk(8, JdkUse::Compile).expect("asked");
        assert_eq!(
            (jdk.full_version.as_str(), jdk.home),
            ("1.8.0_1", root.join("jvm/old"))
        );
        assert_eq!(depot.find_jdk(98, JdkUse::Run).expect("read").major, 98);
        assert!(depot.find_jdk(97, JdkUse::Run).is_ok());
        let ours = depot.installed_jdks();
        let count = ours.iter().filter(|jdk| jdk.home.starts_with(root)).count();
        assert_eq!(count, 3, "links and broken ones are left out: {ours:?}");
    }

    #[test]
    fn a_missing_jdk_names_the_command_that_gets_it() {
        let folder = tempfile::tempdir().expect("folder");
        jdk_at(&folder.path().join("own"), "97.0.1", "exit 9", false);
        let depot = depot(folder.path());
        let text = depot
            .find_jdk(97, JdkUse::Compile)
            .expect_err("runtime only")
            .to_string();
        assert!(text.contains("no JDK 97 with javac"), "{text}");
        assert!(text.contains("`./temblor targets fetch jdk@97`"), "{text}");
    }

    #[test]
    fn a_fetched_jdk_comes_before_an_installed_one() {
        let folder = tempfile::tempdir().expect("folder");
        let root = folder.path();
        jdk_at(&root.join("jvm/eight"), "1.8.0_1", "", true);
        let depot = depot(root);
        let slot = depot.jdk_slot(8);
        jdk_at(&slot.folder.join("root/home"), "1.8.0_2", "", true);
        let found = |depot: &Depot| depot.find_jdk(8, JdkUse::Run).expect("found").full_version;
        assert_eq!(found(&depot), "1.8.0_1", "unfinished ones do not count");
        slot.finish(&Marker::new(&slot, "root/home"))
            .expect("finished");
        assert_eq!(found(&depot), "1.8.0_2");
    }

    #[test]
    fn java_inside_a_jre_belongs_to_the_jdk_around_it() {
        let folder = tempfile::tempdir().expect("folder");
        let home = folder.path().canonicalize().expect("real").join("eight");
        jdk_at(&home, "", "", true);
        jdk_at(&home.join("jre"), "", "", false);
        let link = folder.path().join("java");
        symlink(home.join("jre/bin/java"), &link).expect("link");
        assert_eq!(home_of_java(&link), Some(home));
    }
}
