//! CRIU, which freezes running processes and thaws them again: the machine's own where it is new
//! enough, else one of a newer suite for the user alone, with its libraries and its own loader.

use std::path::{Path, PathBuf};

use super::Depot;
use super::apt::Wanted;
use super::cache::{Marker, Slot, remove};
use super::command::{Call, Progress};
use super::error::{ArtifactError, Result};
use super::runtime::Runtime;
use super::tree::files_below;

/// The program, its package and its name in the cache.
const NAME: &str = "criu";
/// Older ones fail on new kernels.
const LEAST: (u32, u32) = (4, 2);
/// Newest first: a new kernel needs a new CRIU. The other one serves while the packages of the
/// moving suite do not go together.
const SUITES: [&str; 2] = ["sid", "forky"];
/// Where packages are unpacked in the artifact's folder.
const ROOT: &str = "root";

/// What a fetch downloads at most, half of it the package index; unpacked it is 30 MB.
pub const CRIU_DOWNLOAD_MB: u32 = 20;

/// A CRIU that starts and is new enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Criu {
    /// As it says it: `4.2.1`.
    pub version: String,
    argv: Vec<String>,
}

impl Criu {
    /// The words before CRIU's own arguments: a fetched one is started by its own loader.
    pub fn argv(&self) -> &[String] {
        &self.argv
    }

    /// The path of the program itself.
    pub fn program(&self) -> &str {
        program(&self.argv)
    }
}

fn program(argv: &[String]) -> &str {
    argv.last().map_or(NAME, String::as_str)
}

impl Depot {
    fn criu_slot(&self) -> Slot {
        self.cache.slot(NAME, NAME)
    }

    /// The machine's own CRIU if it is new enough, else the fetched one.
    pub fn find_criu(&self) -> Result<Criu> {
        let mut looked = Vec::new();
        for path in self.installed_criu() {
            match self.asked_criu(vec![path.display().to_string()]) {
                Ok(criu) => return Ok(criu),
                Err(error) => looked.push(error.to_string()),
            }
        }
        if looked.is_empty() {
            looked.push("none is installed".to_string());
        }
        match self.cached_criu() {
            Ok(criu) => return Ok(criu),
            Err(ArtifactError::NotFetched { why, .. }) => looked.push(why),
            Err(error) => looked.push(error.to_string()),
        }
        Err(ArtifactError::NoCriu {
            least: format!("{}.{}", LEAST.0, LEAST.1),
            looked: looked.join("; "),
        })
    }

    /// Gets CRIU, unless there is one already; a fetched one that does not start is made again.
    pub fn fetch_criu(&self, progress: Progress<'_>) -> Result<Criu> {
        let slot = self.criu_slot();
        let _lock = slot.lock(progress)?;
        match self.find_criu() {
            Ok(criu) => {
                progress(&format!("{NAME} is there: {}", criu.program()));
                return Ok(criu);
            }
            Err(error) if slot.marker().is_ok() => {
                progress(&format!("fetching {NAME} again: {error}"));
            }
            Err(_) => {}
        }
        let mut first_error = None;
        for suite in SUITES {
            match self.criu_from_suite(&slot, suite, progress) {
                Ok(criu) => {
                    let (version, program) = (&criu.version, criu.program());
                    progress(&format!("{NAME} is ready: {version} in {program}"));
                    return Ok(criu);
                }
                Err(error) if error.another_source_may_help() => {
                    progress(&format!("not this way: {error}"));
                    first_error.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        first_error.map_or_else(|| self.cached_criu(), Err)
    }

    /// Whether this kernel lets CRIU do its work; only root gets a yes.
    pub fn check_criu(&self, criu: &Criu) -> Result<()> {
        let call = call(&criu.argv, "check what the kernel offers CRIU").arg("check");
        self.tools.run(call, &mut |_| {}).map(|_| ())
    }

    /// The machine's own, each once.
    fn installed_criu(&self) -> Vec<PathBuf> {
        let beside_path = self.machine.sbin_dirs.iter().map(|dir| dir.join(NAME));
        let on_path = self.tools.locate(NAME.as_ref());
        let mut found: Vec<PathBuf> = Vec::new();
        for path in on_path.into_iter().chain(beside_path) {
            let Ok(real) = path.canonicalize() else {
                continue;
            };
            if !found.contains(&real) {
                found.push(real);
            }
        }
        found
    }

    fn cached_criu(&self) -> Result<Criu> {
        let slot = self.criu_slot();
        let marker = slot.marker()?;
        self.unpacked_criu(&slot, &marker.inside)
    }

    /// The one unpacked in its place, tried.
    fn unpacked_criu(&self, slot: &Slot, inside: &Path) -> Result<Criu> {
        let runtime = Runtime::in_tree(&slot.folder.join(ROOT))?;
        let mut argv = runtime.launch().to_vec();
        argv.push(slot.folder.join(inside).display().to_string());
        self.asked_criu(argv)
    }

    fn criu_from_suite(&self, slot: &Slot, suite: &str, progress: Progress<'_>) -> Result<Criu> {
        let part = slot.open_part()?;
        let tree = part.join("tree");
        let root = tree.join(ROOT);
        let wanted = Wanted::WithDependencies(NAME);
        let debs = self
            .apt_root(suite)?
            .download(wanted, &part.join("debs"), progress)?;
        remove(&tree)?;
        progress("unpacking");
        self.unpack(&debs, &root, progress)?;
        let inside = Path::new(ROOT).join(program_in(&root)?);
        slot.place(&tree)?;
        self.unpacked_criu(slot, &inside)?;
        let mut marker = Marker::new(slot, inside);
        for deb in debs {
            marker.origins.push(deb.origin);
            marker.downloads.push(deb.checksum);
        }
        slot.finish(&marker)?;
        self.cached_criu()
    }

    /// What it says about itself; an error if it does not start or is too old.
    fn asked_criu(&self, argv: Vec<String>) -> Result<Criu> {
        let bad = |why: String| ArtifactError::BadCriu {
            program: program(&argv).to_string(),
            why,
        };
        let call = call(&argv, "ask it for its version").arg("--version");
        let output = self.tools.run(call, &mut |_| {});
        let output = output.map_err(|error| bad(error.to_string()))?;
        let version = printed_version(&output.stdout)
            .ok_or_else(|| bad(format!("it tells no version: {}", output.stdout.trim())))?;
        if numbers(version) < Some(LEAST) {
            return Err(bad(format!("it is version {version}")));
        }
        Ok(Criu {
            version: version.to_string(),
            argv,
        })
    }
}

fn call(argv: &[String], purpose: &str) -> Call {
    let (first, rest) = argv.split_first().expect("argv names a program");
    Call::new(first, purpose).args(rest)
}

/// The program in a tree of unpacked packages, seen from its root.
fn program_in(root: &Path) -> Result<PathBuf> {
    let is_program = |path: &&PathBuf| {
        let folder = path.parent().unwrap_or(Path::new(""));
        path.ends_with(NAME) && (folder.ends_with("sbin") || folder.ends_with("bin"))
    };
    let files = files_below(root)?;
    let found = files.iter().find(is_program);
    found
        .and_then(|path| path.strip_prefix(root).ok())
        .map(Path::to_path_buf)
        .ok_or_else(|| ArtifactError::BadCriu {
            program: root.display().to_string(),
            why: "the packages hold no such program".to_string(),
        })
}

/// `4.2.1` of `Version: 4.2.1`, whatever is printed beside it.
fn printed_version(text: &str) -> Option<&str> {
    let mut lines = text.lines();
    let version = lines.find_map(|line| line.strip_prefix("Version:"))?.trim();
    numbers(version).map(|_| version)
}

/// The first two numbers of a version.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit());
    let major = numbers.next()?.parse().ok()?;
    let minor = numbers.next().and_then(|minor| minor.parse().ok());
    Some((major, minor.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared_as_numbers() {
        let printed = "Version: 4.10\nGitID: v4.10\n";
        assert_eq!(printed_version(printed), Some("4.10"));
        assert_eq!(printed_version("Version: unknown"), None);
        assert_eq!(printed_version("criu 4.2"), None);
        for (version, new_enough) in [
            ("3.17.1", false),
            ("4", false),
            ("4.1.1", false),
            ("4.2", true),
            ("4.2.1", true),
            ("4.10", true),
            ("5.0-rc1", true),
        ] {
            assert_eq!(numbers(version) >= Some(LEAST), new_enough, "{version}");
        }
    }
}
