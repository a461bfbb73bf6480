//! A machine of scripts: `apt-get`, `dpkg-deb` and `mvn` on a private PATH, which die in
//! mid-download, miss packages or lie about bytes when they are told to.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use temblor_cluster::artifact::{ArtifactError, Cache, Coordinate, Depot, Machine, Tools};

/// Asks its folder what to do: `offline`, `unsigned`, `break-PACKAGE` (once), `lie-PACKAGE` (once),
/// `torn-SUITE` for packages that do not go together. `depends-PACKAGE` names what else it needs.
const APT_GET: &str = r#"
suite=$(basename "${3%/etc/apt.conf}")
shift 3 # -q -c CONFIGURATION
case "$1" in
update)
    echo update >> "$STATE/log"
    if [ -e "$STATE/offline" ]; then
        echo "E: Failed to fetch http://a.test  Temporary failure resolving 'a.test'" >&2
        exit 100
    fi
    if [ -e "$STATE/unsigned" ]; then
        echo "E: The repository 'http://archive.test sid InRelease' is not signed." >&2
        exit 100
    fi ;;
--print-uris)
    packages="$3"
    if [ "$2" = install ]; then
        if [ -e "$STATE/torn-$suite" ]; then
            echo "E: Unable to correct problems, you have held broken packages." >&2
            exit 100
        fi
        echo "The following NEW packages will be installed:"
        packages="$(cat "$STATE/depends-$3") $3"
    fi
    for package in $packages; do
        deb="$STATE/pool/$package.deb"
        if [ ! -e "$deb" ]; then
            echo "E: Unable to locate package $package" >&2
            exit 100
        fi
        sum=$(sha256sum < "$deb")
        case "$2 $*" in
        download*|*ForceHash=SHA256) sum="SHA256:${sum%% *}" ;;
        *) sum=MD5Sum:0 ;;
        esac
        file="${package}_1.0-1_all.deb"
        echo "'http://archive.test/$file' $file $(wc -c < "$deb") $sum"
    done ;;
download)
    echo "download $2" >> "$STATE/log"
    if [ -e "$STATE/break-$2" ]; then
        rm "$STATE/break-$2"
        head -c 100 "$STATE/pool/$2.deb" > "$2_1.0-1_all.deb"
        kill -9 $$
    fi
    if [ -e "$STATE/lie-$2" ]; then
        rm "$STATE/lie-$2"
        echo other bytes > "$2_1.0-1_all.deb"
        exit 0
    fi
    if [ -e "$STATE/full" ]; then
        echo "E: Write error - write (28: No space left on device)" >&2
        exit 100
    fi
    cp "$STATE/pool/$2.deb" "$2_1.0-1_all.deb" ;;
esac
"#;

const DPKG_DEB: &str = r#"exec tar -xf "$2" -C "$3""#;

const MVN: &str = r#"
echo mvn >> "$STATE/log"
for word in "$@"; do
    case "$word" in
    -DoutputDirectory=*) lib="${word#*=}" ;;
    -Dmaven.repo.local=*) fresh=yes ;;
    esac
done
# An empty zip file with a comment of three letters.
jar() {
    printf 'PK\005\006\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\003\0%s' "$1"
}
if [ -e "$STATE/offline" ]; then
    echo "[ERROR] Could not transfer artifact g:a:pom:1 from/to central: Unknown host archive.test"
    exit 1
fi
if [ -e "$STATE/unknown" ]; then
    echo "[ERROR] Could not find artifact g:a:jar:1 in central"
    exit 1
fi
jar one > "$lib/a-1.jar"
if [ -e "$STATE/break" ]; then
    rm "$STATE/break"
    echo half > "$lib/half-1.jar"
    kill -9 $$
fi
[ -e "$STATE/empty" ] && rm "$lib/a-1.jar"
jar two > "$lib/b-2.jar"
if [ -e "$STATE/cut" ] && [ -z "${fresh:-}" ] || [ -e "$STATE/always-cut" ]; then
    jar two | head -c 23 > "$lib/b-2.jar"
fi
[ -e "$STATE/empty" ] && rm "$lib/b-2.jar"
exit 0
"#;

/// A machine of scripts in a folder of its own.
pub struct Bench {
    pub folder: tempfile::TempDir,
    pub depot: Depot,
}

impl Bench {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a private folder");
        let root = folder.path().canonicalize().expect("a real path");
        let scripts = root.join("scripts");
        for name in ["scripts", "state/pool", "apt", "jvm", "sbin"] {
            fs::create_dir_all(root.join(name)).expect("folder");
        }
        for (name, text) in [("apt-get", APT_GET), ("dpkg-deb", DPKG_DEB), ("mvn", MVN)] {
            let state = root.join("state").display().to_string();
            script(&scripts.join(name), &format!("STATE='{state}'\n{text}"));
        }
        let sources = "deb http://archive.test/debian bookworm main\n";
        fs::write(root.join("apt/sources.list"), sources).expect("sources");
        for (kind, program) in [("jre", "java"), ("jdk", "javac")] {
            pack_fake_jdk(&root, kind, program);
        }
        pack_fake_criu(&root, "4.2.1");
        let machine = Machine {
            apt_dir: root.join("apt"),
            os_release: "ID=debian\nVERSION_CODENAME=bookworm\n".to_string(),
            jvm_dir: root.join("jvm"),
            java_home: None,
            sbin_dirs: vec![root.join("sbin")],
        };
        // The machine's own tools without its java, which would end the search early.
        let path = format!("{}:{}", scripts.display(), shell_tools(&root).display());
        let tools = Tools::new(path, Duration::from_secs(120));
        let depot = Depot::new(Cache::at(root.join("cache")), tools, machine);
        Self { folder, depot }
    }

    pub fn set(&self, condition: &str) {
        fs::write(self.state().join(condition), "").expect("condition");
    }

    pub fn unset(&self, condition: &str) {
        fs::remove_file(self.state().join(condition)).expect("condition");
    }

    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// What the scripts were asked for, so far.
    pub fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.state().join("log")).unwrap_or_default();
        text.lines().map(str::to_string).collect()
    }

    pub fn count(&self, line: &str) -> usize {
        self.log().iter().filter(|logged| *logged == line).count()
    }

    pub fn fetch_11(&self) -> Result<PathBuf, ArtifactError> {
        self.depot.fetch_jdk(11, &mut |_| {}).map(|jdk| jdk.home)
    }

    pub fn fetch_jars(&self) -> Result<Vec<String>, ArtifactError> {
        let coordinates = ["g:a:1".parse::<Coordinate>()?];
        let jars = self.depot.fetch_maven("a@1", &coordinates, &mut |_| {})?;
        Ok(jars.paths.iter().map(|path| file_name(path)).collect())
    }
}

pub fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

pub fn script(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}\n")).expect("script");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("mode");
}

/// Links to the few programs that the scripts use.
fn shell_tools(root: &Path) -> PathBuf {
    let folder = root.join("shell-tools");
    fs::create_dir_all(&folder).expect("folder");
    for name in [
        "sha256sum",
        "wc",
        "head",
        "cp",
        "rm",
        "tar",
        "cat",
        "dirname",
        "basename",
    ] {
        let real = ["/usr/bin", "/bin"].map(|bin| Path::new(bin).join(name));
        let real = real
            .iter()
            .find(|path| path.exists())
            .expect("a Unix machine has it");
        std::os::unix::fs::symlink(real, folder.join(name)).expect("link");
    }
    folder
}

/// A "package": a tar of a JDK whose programs are scripts, with a link as Debian's have.
fn pack_fake_jdk(root: &Path, kind: &str, program: &str) {
    let tree = root.join("trees").join(kind);
    let home = tree.join("usr/lib/jvm/java-11-fake");
    let etc = tree.join("etc/java-11-fake");
    fs::create_dir_all(home.join("bin")).expect("folder");
    fs::create_dir_all(&etc).expect("folder");
    script(
        &home.join("bin").join(program),
        "cat \"$(dirname \"$0\")/../security-$(basename \"$0\")\" >&2 || exit 1\n\
         echo 'openjdk version \"11.0.1\"' >&2",
    );
    fs::write(etc.join(program), "settings\n").expect("file");
    let link = home.join(format!("security-{program}"));
    std::os::unix::fs::symlink(format!("/etc/java-11-fake/{program}"), link).expect("link");
    pack(root, &tree, &format!("openjdk-11-{kind}-headless"));
}

/// CRIU and the one package it depends on, whose loader insists on its libraries.
pub fn pack_fake_criu(root: &Path, version: &str) {
    let tree = root.join("trees/libc-fake");
    let lib = tree.join("usr/lib/some-linux-gnu");
    fs::create_dir_all(&lib).expect("folder");
    fs::write(lib.join("libc.so.6"), "").expect("file");
    script(
        &lib.join("ld-linux-some.so.2"),
        "[ \"$1\" = --library-path ] && [ -e \"$2/libc.so.6\" ] || exit 127\n\
         shift 2\n\
         exec \"$@\"",
    );
    pack(root, &tree, "libc-fake");
    let tree = root.join("trees/criu");
    let completions = tree.join("usr/share/completions");
    fs::create_dir_all(tree.join("usr/sbin")).expect("folder");
    fs::create_dir_all(&completions).expect("folder");
    fs::write(completions.join("criu"), "not the program").expect("file");
    script(
        &tree.join("usr/sbin/criu"),
        &format!("echo 'Version: {version}'"),
    );
    pack(root, &tree, "criu");
    fs::write(root.join("state/depends-criu"), "libc-fake").expect("file");
}

fn pack(root: &Path, tree: &Path, name: &str) {
    let status = Command::new("tar")
        .arg("-cf")
        .arg(root.join(format!("state/pool/{name}.deb")))
        .args(["-C".as_ref(), tree.as_os_str(), ".".as_ref()])
        .status();
    assert!(status.expect("tar runs").success());
}
