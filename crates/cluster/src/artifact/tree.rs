//! Unpacked package trees: unpacking, and links that pointed to the root of the file system.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use super::apt::BY_HAND;
use super::cache::make_folder;
use super::command::{Call, Progress, Tools};
use super::error::{Result, io_error};

/// Links of one tree that are followed at most: a loop of folders is none of ours.
const DEPTH: usize = 64;

/// Unpacks a Debian package into `root`.
pub(super) fn unpack_deb(
    tools: &Tools,
    deb: &Path,
    root: &Path,
    progress: Progress<'_>,
) -> Result<()> {
    make_folder(root)?;
    let name = deb.file_name().unwrap_or_default().to_string_lossy();
    let call = Call::new("dpkg-deb", format!("unpack {name}"))
        .arg("-x")
        .arg(deb)
        .arg(root)
        .fix(BY_HAND);
    tools.run(call, progress).map(|_| ())
}

/// Points every absolute link of the tree whose target is in the tree there, relatively; the
/// others (such as the machine's certificates) stay. Gives the number of changed links.
pub(super) fn relink(root: &Path) -> Result<usize> {
    let mut changed = 0;
    for link in files_below(root)? {
        let Ok(target) = fs::read_link(&link) else {
            continue;
        };
        let Ok(inside) = target.strip_prefix("/") else {
            continue;
        };
        // The target may be a link itself, and one that is relinked later.
        if root.join(inside).symlink_metadata().is_err() {
            continue;
        }
        let Ok(place) = link.strip_prefix(root) else {
            continue;
        };
        fs::remove_file(&link).map_err(io_error("remove", &link))?;
        symlink(relative(place, inside), &link).map_err(io_error("write", &link))?;
        changed += 1;
    }
    Ok(changed)
}

/// The way from a link at `place` to `target`, both seen from the same root.
fn relative(place: &Path, target: &Path) -> PathBuf {
    let ups = place.parent().map_or(0, |folder| {
        folder
            .components()
            .filter(|part| matches!(part, Component::Normal(_)))
            .count()
    });
    let mut path: PathBuf = std::iter::repeat_n("..", ups).collect();
    path.push(target);
    path
}

/// All files and links below a folder, links not followed.
pub(super) fn files_below(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![(root.to_path_buf(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(io_error("read", &folder))? {
            let entry = entry.map_err(io_error("read", &folder))?;
            let kind = entry.file_type().map_err(io_error("read", &folder))?;
            if !kind.is_dir() {
                files.push(entry.path());
            } else if depth < DEPTH {
                folders.push((entry.path(), depth + 1));
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_links_into_the_tree_become_relative_and_others_stay() {
        let folder = tempfile::tempdir().expect("folder");
        let root = folder.path().join("root");
        let lib = root.join("usr/lib/jvm/java-11/conf");
        let etc = root.join("etc/java-11-openjdk/security");
        make_folder(&lib).expect("lib");
        make_folder(&etc).expect("etc");
        fs::write(etc.join("java.security"), "secure").expect("file");
        let inside = lib.join("java.security");
        let outside = lib.join("cacerts");
        let beside = lib.join("beside");
        let dir_link = root.join("usr/lib/jvm/conf-link");
        symlink("/etc/java-11-openjdk/security/java.security", &inside).expect("link");
        symlink("/etc/no/such/file/cacerts", &outside).expect("link");
        symlink("java.security", &beside).expect("link");
        symlink("/usr/lib/jvm/java-11/conf", &dir_link).expect("link");

        assert_eq!(relink(&root).expect("relinked"), 2);

        assert_eq!(fs::read_to_string(&inside).expect("reads"), "secure");
        assert_eq!(
            fs::read_to_string(dir_link.join("beside")).expect("reads"),
            "secure"
        );
        let kept = fs::read_link(&outside).expect("link");
        assert_eq!(kept, Path::new("/etc/no/such/file/cacerts"));
        // The tree can be moved, and a second call finds nothing to do.
        let moved = folder.path().join("moved");
        fs::rename(&root, &moved).expect("moved");
        let text = fs::read_to_string(moved.join("usr/lib/jvm/java-11/conf/java.security"));
        assert_eq!(text.expect("reads"), "secure");
        assert_eq!(relink(&moved).expect("relinked"), 0);
    }

    #[test]
    fn a_chain_of_links_and_a_loop_are_both_survived() {
        let folder = tempfile::tempdir().expect("folder");
        let root = folder.path();
        fs::write(root.join("c"), "end").expect("file");
        symlink("/b", root.join("a")).expect("link");
        symlink("/c", root.join("b")).expect("link");
        symlink("/loop", root.join("loop")).expect("link");
        assert_eq!(relink(root).expect("relinked"), 3);
        assert_eq!(fs::read_to_string(root.join("a")).expect("reads"), "end");
    }
}
