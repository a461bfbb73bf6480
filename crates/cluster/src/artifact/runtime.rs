//! Gives programs of a newer suite a C library of their own: a loader and libraries in a private
//! folder, named in the programs by patchelf. Nothing of the machine changes, and programs that
//! these programs start run with the machine's own libraries.

use std::path::{Path, PathBuf};

use super::command::{Call, Progress, Tools};
use super::elf::Natives;
use super::error::{ArtifactError, Result};
use super::tree::files_below;

/// What the private folder is unpacked from.
pub(super) const PACKAGES: [&str; 4] = ["libc6", "libgcc-s1", "libstdc++6", "zlib1g"];
pub(super) const PATCHELF: &str = "patchelf";

/// Named in every patched program, so that they are loaded at once and from the private folder: a
/// library with a search path of its own (the JDK's have one) would else find the machine's, which
/// do not go together with the private C library.
const ALWAYS_LOADED: [&str; 7] = [
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libgcc_s.so.1",
    "libstdc++.so.6",
    "libz.so.1",
];

/// An unpacked C library.
#[derive(Debug)]
pub(super) struct Runtime {
    loader: PathBuf,
    folders: Vec<PathBuf>,
    libraries: Vec<&'static str>,
    patchelf: Option<PathBuf>,
}

impl Runtime {
    /// Finds loader and libraries in a tree of unpacked packages.
    pub fn in_tree(root: &Path) -> Result<Self> {
        let files = files_below(root)?;
        let named = |wanted: &str| {
            let mut found = files.iter().filter(|path| path.is_file());
            found.find(|path| path.file_name().is_some_and(|name| name == wanted))
        };
        let loader = files.iter().find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_link = path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
            name.starts_with("ld-linux") && name.contains(".so.") && !is_link
        });
        let Some(loader) = loader else {
            return Err(ArtifactError::Command {
                purpose: "find the loader of the private C library".to_string(),
                command: format!("search of {}", root.display()),
                status: "no file ld-linux*.so.*".to_string(),
                tail: String::new(),
            });
        };
        let libraries: Vec<&str> = ALWAYS_LOADED
            .into_iter()
            .filter(|name| named(name).is_some())
            .collect();
        let mut folders: Vec<PathBuf> = libraries
            .iter()
            .chain(&["libc.so.6"])
            .filter_map(|name| named(name)?.parent().map(Path::to_path_buf))
            .collect();
        folders.sort();
        folders.dedup();
        Ok(Self {
            loader: loader.clone(),
            folders,
            libraries,
            patchelf: named(PATCHELF).cloned(),
        })
    }

    /// Makes the programs run with this library.
    pub fn patch(&self, tools: &Tools, natives: &Natives, progress: Progress<'_>) -> Result<()> {
        progress(&format!(
            "giving {} programs a C library of their own",
            natives.programs.len()
        ));
        for program in &natives.programs {
            let purpose = format!("read the search path of {}", program.display());
            let call = self
                .patchelf(tools, purpose)
                .arg("--print-rpath")
                .arg(program);
            let old = tools.run(call, progress)?.stdout;
            let purpose = format!("patch {}", program.display());
            let mut call = self
                .patchelf(tools, purpose)
                .arg("--set-interpreter")
                .arg(&self.loader)
                // The old kind of search path also serves libraries that are loaded later.
                .arg("--force-rpath")
                .arg("--set-rpath")
                .arg(self.search_path(old.trim()));
            for library in &self.libraries {
                call = call.arg("--add-needed").arg(library);
            }
            tools.run(call.arg(program), progress)?;
        }
        Ok(())
    }

    /// The program's own folders first, then the private ones, each once.
    fn search_path(&self, old: &str) -> String {
        let mut folders: Vec<String> = Vec::new();
        let private = self
            .folders
            .iter()
            .map(|folder| folder.display().to_string());
        let own = old.split(':').filter(|folder| !folder.is_empty());
        for folder in own.map(str::to_string).chain(private) {
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        folders.join(":")
    }

    /// The words before a program that is not patched.
    pub fn launch(&self) -> [String; 3] {
        let shown = |path: &PathBuf| path.display().to_string();
        let folders: Vec<String> = self.folders.iter().map(shown).collect();
        [
            shown(&self.loader),
            "--library-path".to_string(),
            folders.join(":"),
        ]
    }

    /// The machine's patchelf, else the unpacked one, which then needs the private loader too.
    fn patchelf(&self, tools: &Tools, purpose: String) -> Call {
        match (&self.patchelf, tools.locate(PATCHELF.as_ref())) {
            (Some(patchelf), None) => {
                let [loader, words @ ..] = self.launch();
                Call::new(loader, purpose).args(words).arg(patchelf)
            }
            _ => Call::new(PATCHELF, purpose).fix("install it: `apt-get install patchelf`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::cache::make_folder;
    use super::*;

    #[test]
    fn loader_and_folders_are_found_in_a_tree() {
        let folder = tempfile::tempdir().expect("folder");
        let root = folder.path();
        let lib = root.join("usr/lib/some-linux-gnu");
        make_folder(&lib).expect("lib");
        make_folder(&root.join("usr/lib64")).expect("lib64");
        for name in ["ld-linux-some.so.2", "libc.so.6", "libm.so.6"] {
            fs::write(lib.join(name), "").expect("file");
        }
        let link = root.join("usr/lib64/ld-linux-some.so.2");
        symlink("../lib/some-linux-gnu/ld-linux-some.so.2", link).expect("link");
        let runtime = Runtime::in_tree(root).expect("complete");
        assert_eq!(runtime.loader, lib.join("ld-linux-some.so.2"));
        assert_eq!(runtime.folders, std::slice::from_ref(&lib));
        assert_eq!(runtime.libraries, ["libm.so.6"]);
        let path = runtime.search_path("$ORIGIN/../lib:$ORIGIN");
        assert_eq!(path, format!("$ORIGIN/../lib:$ORIGIN:{}", lib.display()));
        let folder = lib.display().to_string();
        let words = [
            format!("{folder}/ld-linux-some.so.2"),
            "--library-path".to_string(),
            folder,
        ];
        assert_eq!(runtime.launch(), words);
        // Patching twice adds nothing.
        assert_eq!(runtime.search_path(&path), path);
    }

    #[test]
    fn a_tree_without_a_loader_is_an_error() {
        let folder = tempfile::tempdir().expect("folder");
        let text = Runtime::in_tree(folder.path())
            .expect_err("empty")
            .to_string();
        assert!(text.contains("ld-linux"), "{text}");
    }
}
