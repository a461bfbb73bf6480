//! Reads the machine's own apt sources, so that other suites of the same archive can be asked for
//! packages: no host is named in our code.

use std::fs;
use std::path::{Path, PathBuf};

/// One archive that apt knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Archive {
    pub uris: Vec<String>,
    pub suites: Vec<String>,
    pub components: Vec<String>,
    /// A keyring's path or, in deb822, the key itself: as the field's lines were.
    pub signed_by: Option<String>,
}

/// The system this machine runs, from os-release.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct System {
    pub id: String,
    pub codename: String,
}

impl System {
    pub fn parse(os_release: &str) -> Self {
        let value = |key: &str| {
            os_release
                .lines()
                .filter_map(|line| line.split_once('='))
                .find(|(name, _)| *name == key)
                .map(|(_, value)| value.trim_matches('"').to_string())
                .unwrap_or_default()
        };
        Self {
            id: value("ID"),
            codename: value("VERSION_CODENAME"),
        }
    }
}

/// All archives of `sources.list` and `sources.list.d`, in the order apt reads them.
pub(super) fn read_archives(apt_dir: &Path) -> Vec<Archive> {
    let mut files: Vec<PathBuf> = vec![apt_dir.join("sources.list")];
    let mut parts: Vec<PathBuf> = fs::read_dir(apt_dir.join("sources.list.d"))
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    parts.sort();
    files.extend(parts);
    let mut archives = Vec::new();
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("list") => archives.extend(parse_list(&text)),
            Some("sources") => archives.extend(parse_deb822(&text)),
            _ => {}
        }
    }
    archives
}

/// The one-line format: `deb [options] uri suite component...`.
pub(super) fn parse_list(text: &str) -> Vec<Archive> {
    text.lines().filter_map(parse_list_line).collect()
}

fn parse_list_line(line: &str) -> Option<Archive> {
    let line = line.split('#').next().unwrap_or_default().trim();
    let rest = line.strip_prefix("deb")?;
    let mut rest = rest.strip_prefix(char::is_whitespace)?.trim_start();
    let mut signed_by = None;
    if let Some(after) = rest.strip_prefix('[') {
        let (options, tail) = after.split_once(']')?;
        signed_by = options
            .split_whitespace()
            .find_map(|option| option.strip_prefix("signed-by="))
            .map(|keyrings| keyrings.replace(',', " "));
        rest = tail;
    }
    let mut words = rest.split_whitespace().map(str::to_string);
    let uri = words.next()?;
    let suite = words.next()?;
    Some(Archive {
        uris: vec![uri],
        suites: vec![suite],
        components: words.collect(),
        signed_by,
    })
}

/// The deb822 format: stanzas of `Key: value` with indented continuation lines.
pub(super) fn parse_deb822(text: &str) -> Vec<Archive> {
    let mut archives = Vec::new();
    let mut fields: Vec<(String, String)> = Vec::new();
    // One more empty line ends the last stanza.
    for line in text.lines().chain([""]) {
        if line.starts_with('#') {
            continue;
        }
        if line.trim().is_empty() {
            archives.extend(stanza_archive(&fields));
            fields.clear();
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = fields.last_mut() {
                value.push('\n');
                value.push_str(line);
            }
        } else if let Some((key, value)) = line.split_once(':') {
            fields.push((key.trim().to_lowercase(), value.trim().to_string()));
        }
    }
    archives
}

fn stanza_archive(fields: &[(String, String)]) -> Option<Archive> {
    let field = |key: &str| {
        fields
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    };
    let words = |key: &str| -> Vec<String> {
        let value = field(key).unwrap_or_default();
        value.split_whitespace().map(str::to_string).collect()
    };
    let off = field("enabled").is_some_and(|value| ["no", "false", "0"].contains(&value));
    let archive = Archive {
        uris: words("uris"),
        suites: words("suites"),
        components: words("components"),
        signed_by: field("signed-by").map(str::to_string),
    };
    let complete = !archive.uris.is_empty() && !archive.suites.is_empty();
    (!off && complete && words("types").iter().any(|kind| kind == "deb")).then_some(archive)
}

/// The stanzas that ask the machine's archive, and its security archive, for one suite.
///
/// Third-party archives name their suites in other ways or have no `main`, so the suite that is
/// the system's own tells which archive is the system's.
pub(super) fn suite_stanzas(archives: &[Archive], system: &System, suite: &str) -> Suite {
    let own: Vec<&str> = [
        system.codename.as_str(),
        "stable",
        "testing",
        "unstable",
        "sid",
    ]
    .into_iter()
    .filter(|name| !name.is_empty())
    .collect();
    let usable = |archive: &&Archive| {
        archive
            .components
            .iter()
            .any(|component| component == "main")
            && !archive.uris.iter().any(|uri| uri.starts_with("cdrom:"))
    };
    let main = archives.iter().filter(usable).find(|archive| {
        archive
            .suites
            .iter()
            .any(|name| own.contains(&name.as_str()))
    });
    let security = archives.iter().filter(usable).find(|archive| {
        let is_security = |name: &String| {
            name.strip_suffix("-security")
                .is_some_and(|base| own.contains(&base))
        };
        archive.suites.iter().any(is_security)
    });
    // The unstable suite has no security archive.
    let security = security.filter(|_| suite != "sid" && suite != "unstable");
    Suite {
        main: main.map(|archive| stanza(archive, suite)),
        security: security.map(|archive| stanza(archive, &format!("{suite}-security"))),
    }
}

/// What to write into a private sources file for one suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Suite {
    pub main: Option<String>,
    pub security: Option<String>,
}

fn stanza(archive: &Archive, suite: &str) -> String {
    let mut text = format!(
        "Types: deb\nURIs: {}\nSuites: {suite}\nComponents: main\nTargets: Packages\n",
        archive.uris.join(" ")
    );
    if let Some(signed_by) = &archive.signed_by {
        text.push_str(&format!("Signed-By: {signed_by}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_string).collect()
    }

    fn system() -> System {
        System::parse("ID=debian\nVERSION_CODENAME=bookworm\nVERSION_ID=\"12\"\n")
    }

    #[test]
    fn os_release_gives_id_and_codename() {
        assert_eq!(
            (system().id.as_str(), system().codename.as_str()),
            ("debian", "bookworm")
        );
        assert_eq!(System::parse("ID=\"alpine\"\n").codename, "");
    }

    #[test]
    fn one_line_sources_are_read() {
        let text = "# comment\n\
            deb http://archive.test/debian bookworm main contrib # why\n\
            deb-src http://archive.test/debian bookworm main\n\
            deb [arch=amd64 signed-by=/k/a.gpg,/k/b.gpg] http://other.test x-bookworm main\n\
            debris\n";
        let archives = parse_list(text);
        assert_eq!(archives.len(), 2);
        assert_eq!(archives[0].uris, words("http://archive.test/debian"));
        assert_eq!(archives[0].suites, words("bookworm"));
        assert_eq!(archives[0].components, words("main contrib"));
        assert_eq!(archives[0].signed_by, None);
        assert_eq!(archives[1].signed_by.as_deref(), Some("/k/a.gpg /k/b.gpg"));
    }

    #[test]
    fn deb822_sources_are_read() {
        let text = "Types: deb deb-src\n# an older place\nURIs: http://archive.test/debian\n\
            Suites: bookworm bookworm-updates\nComponents: main\nSigned-By: /k/a.gpg\n\n\
            Types: deb\nURIs: http://off.test\nSuites: bookworm\nComponents: main\nEnabled: no\n\n\
            Types: deb-src\nURIs: http://src.test\nSuites: bookworm\nComponents: main\n\n\
            types: deb\nuris: http://inline.test\nsuites: s\ncomponents: c\nSigned-By:\n \
            -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n";
        let archives = parse_deb822(text);
        assert_eq!(archives.len(), 2);
        assert_eq!(archives[0].suites, words("bookworm bookworm-updates"));
        assert_eq!(archives[0].signed_by.as_deref(), Some("/k/a.gpg"));
        let key = archives[1].signed_by.as_deref().expect("key");
        assert!(key.ends_with("\n .\n abc"), "{key:?}");
    }

    #[test]
    fn folders_are_read_in_apts_order_without_disabled_files() {
        let folder = tempfile::tempdir().expect("folder");
        let parts = folder.path().join("sources.list.d");
        fs::create_dir(&parts).expect("folder");
        fs::write(
            folder.path().join("sources.list"),
            "deb http://one.test s main\n",
        )
        .expect("1");
        let stanza = "Types: deb\nURIs: http://two.test\nSuites: s\nComponents: main\n";
        fs::write(parts.join("a.sources"), stanza).expect("2");
        fs::write(parts.join("b.list"), "deb http://three.test s main\n").expect("3");
        fs::write(
            parts.join("c.list.disabled"),
            "deb http://four.test s main\n",
        )
        .expect("4");
        let uris: Vec<String> = read_archives(folder.path())
            .into_iter()
            .flat_map(|archive| archive.uris)
            .collect();
        assert_eq!(
            uris,
            words("http://one.test http://two.test http://three.test")
        );
    }

    #[test]
    fn another_suite_is_asked_of_the_systems_own_archive() {
        let archives = parse_list(
            "deb http://vendor.test/apt tool-bookworm main\n\
             deb http://docker.test/linux bookworm stable\n\
             deb [signed-by=/k/d.gpg] http://archive.test/debian bookworm main\n\
             deb http://archive.test/debian-security bookworm-security main\n",
        );
        let suite = suite_stanzas(&archives, &system(), "trixie");
        let main = suite.main.expect("main");
        assert!(
            main.contains("URIs: http://archive.test/debian\nSuites: trixie\n"),
            "{main}"
        );
        assert!(main.contains("Signed-By: /k/d.gpg\n"), "{main}");
        let security = suite.security.expect("security");
        assert!(
            security.contains("debian-security\nSuites: trixie-security\n"),
            "{security}"
        );
        assert_eq!(suite_stanzas(&archives, &system(), "sid").security, None);
    }

    #[test]
    fn a_machine_without_an_archive_of_its_own_gives_none() {
        let archives = parse_list("deb http://docker.test/linux bookworm stable\n");
        assert_eq!(suite_stanzas(&archives, &system(), "sid").main, None);
    }
}
