//! Downloads packages of any suite of the machine's archive with a private apt root: own sources,
//! lists, state and cache, so the system's apt stays untouched and no root is needed.
//!
//! Signatures are always checked: an index that no trusted key signed is refused, and every
//! package must match the checksum in its signed index.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::cache::{Cache, Checksum, Origin, make_folder, remove};
use super::checksum::sha256_of;
use super::command::{Call, Progress, Tools, says_offline};
use super::error::{ArtifactError, Result, io_error};
use super::sources::Suite;

/// What to do where there is no apt.
pub(super) const BY_HAND: &str = "this way works on Debian and its relatives; elsewhere install it \
                                  by hand (a JDK: set JAVA_HOME to it; CRIU: on the PATH)";
/// Where Debian keeps the keys of all its suites, when a source names the keys of one suite only.
const ALL_SUITES_KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Indexes are asked for again when they are older.
const INDEX_AGE: Duration = Duration::from_secs(6 * 3600);

/// What apt-get prints when the archive answers and has no such suite or package.
const NOT_THERE: [&str; 8] = [
    "Unable to locate package",
    "has no installation candidate",
    "held broken packages",
    "Can't select",
    "Can't find a source",
    "does not have a Release file",
    "no longer has a Release file",
    GONE,
];

/// What apt-get prints when the index names a file that the archive no longer has.
const GONE: &str = "404  Not Found";

/// A private apt root for one suite.
pub(super) struct AptRoot<'a> {
    tools: &'a Tools,
    cache: &'a Cache,
    suite: String,
    stanzas: Suite,
    folder: PathBuf,
}

/// What to bring from a suite.
#[derive(Clone, Copy)]
pub(super) enum Wanted<'a> {
    /// These packages and nothing else.
    Only(&'a [&'a str]),
    /// A package and all it depends on, whatever is installed on the machine.
    WithDependencies(&'a str),
}

/// A downloaded package.
#[derive(Debug, Clone)]
pub(super) struct Deb {
    pub path: PathBuf,
    pub origin: Origin,
    pub checksum: Checksum,
}

impl<'a> AptRoot<'a> {
    pub fn new(tools: &'a Tools, cache: &'a Cache, suite: &str, stanzas: Suite) -> Self {
        Self {
            tools,
            cache,
            suite: suite.to_string(),
            stanzas,
            folder: cache.root().join("apt").join(suite),
        }
    }

    /// Brings the packages into `folder`; those that are there and whole are not asked for again.
    pub fn download(
        &self,
        wanted: Wanted<'_>,
        folder: &Path,
        progress: Progress<'_>,
    ) -> Result<Vec<Deb>> {
        let slot = self.cache.slot(
            &format!("index of {}", self.suite),
            Path::new("apt").join(&self.suite),
        );
        let _lock = slot.lock(progress)?;
        make_folder(folder)?;
        if !self.index_is_fresh() {
            self.update(progress)?;
        }
        match self.download_listed(wanted, folder, progress) {
            // The archive has moved on since the index was read. Not just the number: it may be
            // part of a checksum.
            Err(error) if error.tail().contains(GONE) => {
                self.update(progress)?;
                self.download_listed(wanted, folder, progress)
            }
            other => other,
        }
    }

    fn stamp(&self) -> PathBuf {
        self.folder.join("updated")
    }

    fn index_is_fresh(&self) -> bool {
        let age = fs::metadata(self.stamp())
            .and_then(|meta| meta.modified())
            .map(|time| time.elapsed().unwrap_or_default());
        age.is_ok_and(|age| age < INDEX_AGE)
    }

    /// Reads the suite's index; without its security archive or with the keyring of all suites
    /// where the first way is refused.
    fn update(&self, progress: Progress<'_>) -> Result<()> {
        remove(&self.stamp())?;
        let Some(main) = self.stanzas.main.clone() else {
            return Err(ArtifactError::MissingPackage {
                package: "(any)".to_string(),
                suite: self.suite.clone(),
                tail: "  apt knows no archive of this system".to_string(),
            });
        };
        let mut ways: Vec<String> = Vec::new();
        if let Some(security) = &self.stanzas.security {
            ways.push(format!("{main}\n{security}"));
        }
        ways.push(main.clone());
        if Path::new(ALL_SUITES_KEYRING).exists() {
            ways.push(with_keyring(&main, ALL_SUITES_KEYRING));
        }
        progress(&format!(
            "reading the package index of suite {}",
            self.suite
        ));
        let mut first_error = None;
        for sources in ways {
            match self.update_with(&sources, progress) {
                Ok(()) => {
                    let stamp = self.stamp();
                    return fs::write(&stamp, "").map_err(io_error("write", &stamp));
                }
                Err(error) if error.another_source_may_help() => {
                    first_error.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    fn update_with(&self, sources: &str, progress: Progress<'_>) -> Result<()> {
        for part in ["etc", "lists/partial", "cache/archives/partial", "state"] {
            make_folder(&self.folder.join(part))?;
        }
        for (name, text) in [
            ("etc/private.sources", sources.to_string()),
            ("etc/apt.conf", apt_conf(&self.folder)),
            ("status", String::new()),
        ] {
            let path = self.folder.join(name);
            fs::write(&path, text).map_err(io_error("write", &path))?;
        }
        let purpose = format!("read the package index of suite {}", self.suite);
        let call = self.apt_get(&purpose).arg("update");
        self.tools
            .run(call, progress)
            .map(|_| ())
            .map_err(|error| self.explain(error, "(index)"))
    }

    fn download_listed(
        &self,
        wanted: Wanted<'_>,
        folder: &Path,
        progress: Progress<'_>,
    ) -> Result<Vec<Deb>> {
        let mut debs = Vec::new();
        for listed in self.list(wanted, progress)? {
            let package = listed.package();
            let path = folder.join(&listed.file);
            if path.exists() && sha256_of(&path)? == listed.sha256 {
                progress(&format!("{package} {} is there already", listed.version()));
            } else {
                remove(&path)?;
                let megabytes = listed.bytes as f64 / 1e6;
                let version = listed.version();
                progress(&format!(
                    "downloading {package} {version} from suite {} ({megabytes:.1} MB)",
                    self.suite
                ));
                self.fetch_one(package, folder, progress)?;
            }
            debs.push(self.checked(package, &listed, &path)?);
        }
        Ok(debs)
    }

    /// What the signed index says about the packages.
    fn list(&self, wanted: Wanted<'_>, progress: Progress<'_>) -> Result<Vec<Listed>> {
        match wanted {
            Wanted::Only(packages) => {
                let mut all = Vec::new();
                for package in packages {
                    all.extend(self.list_as(package, &["download", package], progress)?);
                }
                Ok(all)
            }
            // apt itself says what belongs together: the private root has nothing installed, so
            // the answer is complete, and a fixed list would break with the next library's name.
            Wanted::WithDependencies(package) => {
                let words = ["install", package, "--no-install-recommends"];
                self.list_as(package, &words, progress)
            }
        }
    }

    fn list_as(
        &self,
        package: &str,
        words: &[&str],
        progress: Progress<'_>,
    ) -> Result<Vec<Listed>> {
        let purpose = format!("find {package} in suite {}", self.suite);
        let call = self
            .apt_get(&purpose)
            .arg("--print-uris")
            .args(words)
            // Without it `install` prints only MD5 sums.
            .args(["-o", "Acquire::ForceHash=SHA256"]);
        let output = self
            .tools
            .run(call, progress)
            .map_err(|error| self.explain(error, package))?;
        let lines = output.stdout.lines().filter(|line| line.starts_with('\''));
        let listed: Option<Vec<Listed>> = lines.map(parse_listed).collect();
        listed
            .filter(|listed| !listed.is_empty())
            .ok_or_else(|| ArtifactError::MissingPackage {
                package: package.to_string(),
                suite: self.suite.clone(),
                tail: format!("  apt-get printed no file with a sha256: {}", output.stdout),
            })
    }

    fn fetch_one(&self, package: &str, folder: &Path, progress: Progress<'_>) -> Result<()> {
        let purpose = format!("download {package} from suite {}", self.suite);
        let call = self
            .apt_get(&purpose)
            .args(["download", package])
            .folder(folder);
        self.tools
            .run(call, progress)
            .map(|_| ())
            .map_err(|error| self.explain(error, package))
    }

    fn checked(&self, package: &str, listed: &Listed, path: &Path) -> Result<Deb> {
        let found = sha256_of(path)?;
        if found != listed.sha256 {
            // A file that is not what was signed must not be taken for a download to resume.
            remove(path)?;
            return Err(ArtifactError::Command {
                purpose: format!("download {package} from suite {}", self.suite),
                command: format!("apt-get download {package}"),
                status: "a file that is not the signed one".to_string(),
                tail: format!("  sha256 is {found}, the index says {}", listed.sha256),
            });
        }
        Ok(Deb {
            path: path.to_path_buf(),
            origin: Origin {
                package: package.to_string(),
                version: listed.version(),
                from: self.suite.clone(),
            },
            checksum: Checksum {
                path: listed.file.clone().into(),
                sha256: found,
            },
        })
    }

    fn apt_get(&self, purpose: &str) -> Call {
        let config = self.folder.join("etc/apt.conf");
        Call::new("apt-get", purpose)
            .arg("-q")
            .arg("-c")
            .arg(config)
            .fix(BY_HAND)
    }

    /// Turns what apt-get prints into the error a user can act on.
    fn explain(&self, error: ArtifactError, package: &str) -> ArtifactError {
        let ArtifactError::Command { purpose, tail, .. } = &error else {
            return error;
        };
        let (purpose, tail) = (purpose.clone(), tail.clone());
        if says_offline(&tail) {
            return ArtifactError::Offline { purpose, tail };
        }
        let says = |signs: &[&str]| signs.iter().any(|sign| tail.contains(sign));
        let suite = self.suite.clone();
        if says(&["NO_PUBKEY", "is not signed", "EXPKEYSIG", "BADSIG"]) {
            return ArtifactError::Unverified { suite, tail };
        }
        if says(&NOT_THERE) {
            let package = package.to_string();
            return ArtifactError::MissingPackage {
                package,
                suite,
                tail,
            };
        }
        error
    }
}

/// The system's settings (proxies, certificates) stay; places and hooks are our own.
fn apt_conf(folder: &Path) -> String {
    let at = |name: &str| folder.join(name).display().to_string();
    format!(
        "#clear APT::Update::Pre-Invoke;\n\
         #clear APT::Update::Post-Invoke;\n\
         #clear APT::Update::Post-Invoke-Success;\n\
         #clear DPkg::Post-Invoke;\n\
         #clear APT::Default-Release;\n\
         Dir::Etc::SourceList \"{}\";\n\
         Dir::Etc::SourceParts \"/dev/null\";\n\
         Dir::Etc::Preferences \"/dev/null\";\n\
         Dir::Etc::PreferencesParts \"/dev/null\";\n\
         Dir::State \"{}\";\n\
         Dir::State::Lists \"{}\";\n\
         Dir::State::Status \"{}\";\n\
         Dir::Cache \"{}\";\n\
         Acquire::Languages \"none\";\n\
         Acquire::GzipIndexes \"true\";\n\
         Acquire::Retries \"3\";\n\
         // Old suites are signed, and no longer signed again.\n\
         Acquire::Check-Valid-Until \"false\";\n\
         // An index that could not be read is an error, not an older one used instead.\n\
         APT::Update::Error-Mode \"any\";\n\
         // The folder is the user's own: apt's download user could not write to it.\n\
         APT::Sandbox::User \"root\";\n",
        at("etc/private.sources"),
        at("state"),
        at("lists"),
        at("status"),
        at("cache"),
    )
}

/// The same stanza, signed by another keyring; an inline key goes with its continuation lines.
fn with_keyring(stanza: &str, keyring: &str) -> String {
    let kept: Vec<&str> = stanza
        .lines()
        .filter(|line| !line.starts_with("Signed-By:") && !line.starts_with(' '))
        .collect();
    format!("{}\nSigned-By: {keyring}\n", kept.join("\n"))
}

/// A line of `apt-get --print-uris download`.
#[derive(Debug, PartialEq, Eq)]
struct Listed {
    file: String,
    bytes: u64,
    sha256: String,
}

impl Listed {
    fn package(&self) -> &str {
        self.file.split('_').next().unwrap_or_default()
    }

    /// Of `name_version_architecture.deb`; apt writes the colon of an epoch as %3a.
    fn version(&self) -> String {
        let version = self.file.split('_').nth(1).unwrap_or_default();
        version.replace("%3a", ":")
    }
}

fn parse_listed(line: &str) -> Option<Listed> {
    let mut words = line.strip_prefix('\'')?.split_once("' ")?.1.split(' ');
    let file = words.next().filter(|file| !file.contains('/'))?.to_string();
    let bytes = words.next()?.parse().ok()?;
    let sha256 = words.next()?.strip_prefix("SHA256:")?.trim().to_string();
    Some(Listed {
        file,
        bytes,
        sha256,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listed_package_is_read() {
        let line = "'http://archive.test/pool/a_1%3a2-3_amd64.deb' a_1%3a2-3_amd64.deb 42 \
                    SHA256:abc";
        let listed = parse_listed(line).expect("read");
        assert_eq!(
            (listed.file.as_str(), listed.bytes),
            ("a_1%3a2-3_amd64.deb", 42)
        );
        assert_eq!(
            (listed.version().as_str(), listed.sha256.as_str()),
            ("1:2-3", "abc")
        );
        assert_eq!(listed.package(), "a");
        assert_eq!(parse_listed("Reading package lists..."), None);
        assert_eq!(parse_listed("'http://x' ../../etc/passwd 1 SHA256:a"), None);
        assert_eq!(parse_listed("'http://x' a.deb 1 MD5Sum:a"), None);
    }

    #[test]
    fn another_keyring_replaces_an_inline_key() {
        let stanza = "Types: deb\nURIs: http://a.test\nSigned-By:\n -----BEGIN\n .\n abc\n";
        let other = with_keyring(stanza, "/k/all.gpg");
        assert_eq!(
            other,
            "Types: deb\nURIs: http://a.test\nSigned-By: /k/all.gpg\n"
        );
    }

    #[test]
    fn the_private_configuration_names_only_private_places() {
        let text = apt_conf(Path::new("/cache/apt/sid"));
        for line in text.lines().filter(|line| line.starts_with("Dir::")) {
            let private = line.contains("\"/cache/apt/sid/") || line.contains("\"/dev/null\"");
            assert!(private, "{line}");
        }
    }
}
