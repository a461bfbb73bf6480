//! Server jars with their runtime dependencies, resolved by Maven from a generated project, kept
//! in one folder and checked by checksum on every use.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::Depot;
use super::cache::{Checksum, Marker, Origin, Slot, make_folder, remove};
use super::checksum::sha256_of;
use super::command::{Call, Progress, says_offline};
use super::error::{ArtifactError, Result, io_error};
use super::jar::broken_jar;
use super::tree::files_below;

/// Pinned: what is copied must not change with the machine's Maven.
const GOAL: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";

/// What Maven calls an artifact: `group:artifact:version`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coordinate {
    pub group: String,
    pub artifact: String,
    pub version: String,
}

impl FromStr for Coordinate {
    type Err = ArtifactError;

    fn from_str(text: &str) -> Result<Self> {
        let words: Vec<&str> = text.split(':').collect();
        match words.as_slice() {
            [group, artifact, version] if words.iter().all(|word| is_plain(word)) => Ok(Self {
                group: group.to_string(),
                artifact: artifact.to_string(),
                version: version.to_string(),
            }),
            _ => Err(ArtifactError::BadCoordinate {
                given: text.to_string(),
            }),
        }
    }
}

impl fmt::Display for Coordinate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.group, self.artifact, self.version)
    }
}

/// Letters, digits and what versions are made of: safe in a path and in XML.
fn is_plain(word: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-+@".contains(c);
    !word.is_empty() && !word.starts_with('.') && word.chars().all(allowed)
}

/// Jars that belong together, whole and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jars {
    /// As a user names them: `zookeeper@3.6.2`.
    pub name: String,
    pub folder: PathBuf,
    /// In the order of their names.
    pub paths: Vec<PathBuf>,
}

impl Depot {
    fn maven_slot(&self, name: &str) -> Result<Slot> {
        if !is_plain(name) {
            return Err(ArtifactError::BadName {
                given: name.to_string(),
            });
        }
        Ok(self.cache.slot(name, Path::new("maven").join(name)))
    }

    /// The fetched jars of that name, each checked against its checksum.
    pub fn find_jars(&self, name: &str) -> Result<Jars> {
        let slot = self.maven_slot(name)?;
        let marker = slot.marker()?;
        checked_jars(&slot, &marker)
    }

    /// As `find_jars`, if they were fetched for exactly these coordinates.
    pub fn find_jars_of(&self, name: &str, coordinates: &[Coordinate]) -> Result<Jars> {
        let slot = self.maven_slot(name)?;
        let marker = marker_of(&slot, coordinates)?;
        checked_jars(&slot, &marker)
    }

    /// Whether the jars of these coordinates are there. Sizes and checksums are not looked at:
    /// that is done on every use.
    pub fn has_jars(&self, name: &str, coordinates: &[Coordinate]) -> bool {
        let Ok(slot) = self.maven_slot(name) else {
            return false;
        };
        marker_of(&slot, coordinates).is_ok_and(|marker| {
            let mut files = marker.files.iter();
            files.all(|file| slot.folder.join(&file.path).is_file())
        })
    }

    /// Gets the jars of the coordinates and all they need at run time, unless they are there.
    pub fn fetch_maven(
        &self,
        name: &str,
        coordinates: &[Coordinate],
        progress: Progress<'_>,
    ) -> Result<Jars> {
        let slot = self.maven_slot(name)?;
        let _lock = slot.lock(progress)?;
        let origins = origins_of(coordinates);
        if let Ok(marker) = slot.marker() {
            match checked_jars(&slot, &marker) {
                Ok(jars) if marker.origins == origins => {
                    progress(&format!("{name} is there: {} jars", jars.paths.len()));
                    return Ok(jars);
                }
                Ok(_) => progress(&format!("{name} was made of other artifacts: again")),
                Err(error) => progress(&format!("fetching {name} again: {error}")),
            }
        }
        slot.discard()?;
        let tree = self.run_maven(&slot, coordinates, progress)?;
        let mut marker = Marker::new(&slot, "lib");
        marker.origins = origins;
        for jar in files_below(&tree.join("lib"))? {
            marker.files.push(Checksum {
                sha256: sha256_of(&jar)?,
                path: jar.strip_prefix(&tree).unwrap_or(&jar).to_path_buf(),
            });
        }
        slot.place(&tree)?;
        slot.finish(&marker)?;
        let jars = checked_jars(&slot, &marker)?;
        progress(&format!(
            "{name} is ready: {} jars in {}",
            jars.paths.len(),
            jars.folder.display()
        ));
        Ok(jars)
    }

    /// Runs Maven in the part folder; what it has downloaded stays in its own repository, so that
    /// a second try goes on where the first one broke.
    fn run_maven(
        &self,
        slot: &Slot,
        coordinates: &[Coordinate],
        progress: Progress<'_>,
    ) -> Result<PathBuf> {
        let tree = slot.open_part()?.join("tree");
        progress(&format!("resolving {} with Maven", listed(coordinates)));
        self.copy_jars(slot, coordinates, None, progress)?;
        let Some(broken) = broken_jar(&tree)? else {
            return Ok(tree);
        };
        let name = broken.file_name().unwrap_or_default().to_string_lossy();
        progress(&format!(
            "{name} in Maven's own repository is not whole: downloading all of it again"
        ));
        let repository = slot.part.join("repository");
        self.copy_jars(slot, coordinates, Some(&repository), progress)?;
        match broken_jar(&tree)? {
            None => Ok(tree),
            Some(path) => Err(ArtifactError::BrokenJar { path }),
        }
    }

    /// Lets Maven copy the jars to `tree/lib` of the part folder, from its own repository or from
    /// one that is given.
    fn copy_jars(
        &self,
        slot: &Slot,
        coordinates: &[Coordinate],
        repository: Option<&Path>,
        progress: Progress<'_>,
    ) -> Result<()> {
        let part = slot.open_part()?;
        let lib = part.join("tree/lib");
        remove(&part.join("tree"))?;
        make_folder(&lib)?;
        let pom = part.join("pom.xml");
        fs::write(&pom, project(coordinates)).map_err(io_error("write", &pom))?;
        let listed = listed(coordinates);
        let mut call = Call::new("mvn", format!("get the jars of {}", slot.name))
            // Batch mode, errors only; a broken checksum is an error; an earlier failure does not
            // count for now.
            .args(["-q", "-B", "-C", "-U", "-f"])
            .arg(&pom)
            .arg(GOAL)
            .arg("-DincludeScope=runtime")
            .arg(format!("-DoutputDirectory={}", lib.display()))
            .folder(part)
            .fix("install it: `apt-get install maven`");
        if let Some(repository) = repository {
            call = call.arg(format!("-Dmaven.repo.local={}", repository.display()));
        }
        self.tools
            .run(call, progress)
            .map_err(|error| explain(error, &listed))?;
        if files_below(&lib)?.is_empty() {
            return Err(ArtifactError::NoSuchJar {
                coordinates: listed,
                tail: "  Maven ended well and copied nothing".to_string(),
            });
        }
        Ok(())
    }
}

fn listed(coordinates: &[Coordinate]) -> String {
    let words: Vec<String> = coordinates.iter().map(Coordinate::to_string).collect();
    words.join(", ")
}

fn origins_of(coordinates: &[Coordinate]) -> Vec<Origin> {
    let origin = |coordinate: &Coordinate| Origin {
        package: format!("{}:{}", coordinate.group, coordinate.artifact),
        version: coordinate.version.clone(),
        from: "maven".to_string(),
    };
    coordinates.iter().map(origin).collect()
}

fn marker_of(slot: &Slot, coordinates: &[Coordinate]) -> Result<Marker> {
    let marker = slot.marker()?;
    if marker.origins == origins_of(coordinates) {
        return Ok(marker);
    }
    Err(ArtifactError::NotFetched {
        name: slot.name.clone(),
        why: "what was fetched is not what is asked for now".to_string(),
    })
}

fn checked_jars(slot: &Slot, marker: &Marker) -> Result<Jars> {
    slot.verify(marker)?;
    Ok(Jars {
        name: slot.name.clone(),
        folder: slot.folder.join(&marker.inside),
        paths: marker
            .files
            .iter()
            .map(|file| slot.folder.join(&file.path))
            .collect(),
    })
}

/// A project that needs the given artifacts and does nothing else.
fn project(coordinates: &[Coordinate]) -> String {
    let mut dependencies = String::new();
    for coordinate in coordinates {
        dependencies.push_str(&format!(
            "    <dependency>\n      <groupId>{}</groupId>\n      \
             <artifactId>{}</artifactId>\n      <version>{}</version>\n    </dependency>\n",
            coordinate.group, coordinate.artifact, coordinate.version
        ));
    }
    format!(
        "<project>\n  <modelVersion>4.0.0</modelVersion>\n  <groupId>temblor</groupId>\n  \
         <artifactId>jars</artifactId>\n  <version>1</version>\n  <packaging>pom</packaging>\n  \
         <dependencies>\n{dependencies}  </dependencies>\n</project>\n"
    )
}

/// Turns what Maven prints into the error a user can act on.
fn explain(error: ArtifactError, coordinates: &str) -> ArtifactError {
    let ArtifactError::Command { purpose, tail, .. } = &error else {
        return error;
    };
    if says_offline(tail) {
        return ArtifactError::Offline {
            purpose: purpose.clone(),
            tail: tail.clone(),
        };
    }
    if tail.contains("Could not find artifact") {
        return ArtifactError::NoSuchJar {
            coordinates: coordinates.to_string(),
            tail: tail.clone(),
        };
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(tail: &str) -> ArtifactError {
        ArtifactError::Command {
            purpose: "get the jars of a@1".to_string(),
            command: "mvn".to_string(),
            status: "exit status: 1".to_string(),
            tail: tail.to_string(),
        }
    }

    #[test]
    fn coordinates_are_read_and_shown() {
        let text = "org.apache.kafka:kafka_2.13:2.8.0";
        let coordinate: Coordinate = text.parse().expect("good");
        assert_eq!(coordinate.artifact, "kafka_2.13");
        assert_eq!(coordinate.to_string(), text);
        for bad in [
            "", "a:b", "a:b:c:d", "a::c", "a:b:<c>", "a:b:../c", "a b:c:d",
        ] {
            assert!(bad.parse::<Coordinate>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_project_names_every_artifact() {
        let coordinates = ["g:a:1", "h:b:2"].map(|text| text.parse().expect("good"));
        let text = project(&coordinates);
        assert_eq!(text.matches("<dependency>").count(), 2);
        assert!(text.contains("<groupId>h</groupId>"), "{text}");
        assert!(text.contains("<version>2</version>"), "{text}");
    }

    #[test]
    fn offline_and_unknown_artifacts_are_told_apart() {
        let offline = failed(
            "[ERROR] Could not transfer artifact g:a:pom:1 from/to central: Unknown host x: \
             Name or service not known",
        );
        let text = explain(offline, "g:a:1").to_string();
        assert!(text.contains("the network does not answer"), "{text}");
        let unknown = failed("[ERROR] Could not find artifact g:a:jar:1 in central");
        let text = explain(unknown, "g:a:1").to_string();
        assert!(
            text.contains("check group, artifact and version of g:a:1"),
            "{text}"
        );
        let other = explain(failed("[ERROR] out of memory"), "g:a:1");
        assert!(matches!(other, ArtifactError::Command { .. }), "{other}");
    }
}
