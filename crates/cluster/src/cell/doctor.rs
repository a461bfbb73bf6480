//! What this machine allows, before a trial depends on it.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::{kernel, namespaces, program};
use crate::artifact::{CRIU_DOWNLOAD_MB, Depot};

/// One thing that a trial needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub what: String,
    pub ok: bool,
    /// How it is here.
    pub detail: String,
    /// What to do, where it is not ok.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

fn good(what: &str, detail: impl Into<String>) -> Finding {
    Finding {
        what: what.into(),
        ok: true,
        detail: detail.into(),
        fix: None,
    }
}

fn bad(what: &str, detail: impl Into<String>, fix: &str) -> Finding {
    Finding {
        what: what.into(),
        ok: false,
        detail: detail.into(),
        fix: Some(fix.into()),
    }
}

/// Looks at the machine. Namespaces are tried in a process of their own.
pub fn doctor() -> Vec<Finding> {
    let mut findings = match program::ask_doctor() {
        Ok(findings) => findings,
        Err(error) => vec![bad(
            "temblor-cell",
            error,
            "build it with `cargo build --release -p temblor-cluster`",
        )],
    };
    findings.push(nft());
    findings.push(fuse());
    findings.push(dm_delay());
    findings
}

fn nft() -> Finding {
    match super::init::nft_program() {
        Some(path) => good("nft, for partitions and stalls", path),
        None => bad(
            "nft, for partitions and stalls",
            "not installed",
            "apt-get install nftables",
        ),
    }
}

const CRIU: &str = "CRIU, for trials that start warm";
const CRIU_RIGHTS: &str = "CRIU, what it may do";
const COLD: &str = "trials start cold, several times slower";

/// Apart from what trials need: without CRIU they only take longer.
pub fn criu_findings() -> Vec<Finding> {
    match Depot::of_user() {
        Ok(depot) => criu_of(&depot, kernel::ids().0),
        Err(error) => vec![bad(CRIU, "not looked for", &error.to_string())],
    }
}

fn criu_of(depot: &Depot, uid: u32) -> Vec<Finding> {
    let criu = match depot.find_criu() {
        Ok(criu) => criu,
        Err(error) => {
            let fix = format!(
                "without it {COLD}; get it with `./temblor targets fetch criu`, \
                 {CRIU_DOWNLOAD_MB} MB to download"
            );
            return vec![bad(CRIU, error.to_string(), &fix)];
        }
    };
    let found = good(CRIU, format!("{} in {}", criu.version, criu.program()));
    let rights = if uid != 0 {
        let fix = format!("only root may freeze and thaw processes; as user {uid} {COLD}");
        bad(CRIU_RIGHTS, format!("user {uid}"), &fix)
    } else {
        match depot.check_criu(&criu) {
            Ok(()) => good(CRIU_RIGHTS, "root, and `criu check` is content"),
            Err(error) => {
                let fix = format!(
                    "use a kernel with CONFIG_CHECKPOINT_RESTORE, in a container `--privileged`; \
                     until then {COLD}\n{error}"
                );
                bad(CRIU_RIGHTS, "`criu check` complains", &fix)
            }
        }
    };
    vec![found, rights]
}

const FUSE: &str = "FUSE, for slow disks";

fn fuse() -> Finding {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !known
        .lines()
        .any(|line| line.trim_start_matches("nodev").trim() == "fuse")
    {
        let fix = "`modprobe fuse`, or a kernel with CONFIG_FUSE_FS; only `--below` needs it";
        return bad(FUSE, "not in this kernel", fix);
    }
    let device = "/dev/fuse";
    match OpenOptions::new().read(true).write(true).open(device) {
        Ok(_) => good(FUSE, device),
        Err(error) => bad(
            FUSE,
            format!("{device}: {error}"),
            "`chmod 666 /dev/fuse`, in a container `--device /dev/fuse`; only `--below` needs it",
        ),
    }
}

/// Nothing depends on it: FUSE delays single operations, this would delay a whole disk.
fn dm_delay() -> Finding {
    let there = Path::new("/sys/module/dm_delay").exists();
    let state = if there { "loaded" } else { "not loaded" };
    good(
        "dm-delay",
        format!("{state}; not needed, slow disks are made by FUSE"),
    )
}

/// Nothing depends on it: it cannot let packets go early, nft with TCP's own repetition can.
/// Tried in the network namespace that was just entered.
fn netem() -> Finding {
    let tried = ["/usr/sbin/tc", "/sbin/tc", "/usr/bin/tc"]
        .into_iter()
        .find(|path| Path::new(path).exists())
        .and_then(|tc| {
            Command::new(tc)
                .args(["qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .ok()
        });
    let state = match tried {
        Some(status) if status.success() => "in this kernel",
        Some(_) => "not in this kernel",
        None => "unknown without `tc`",
    };
    good(
        "netem",
        format!("{state}; not needed, stalls are made by nft"),
    )
}

/// Tries every kind of namespace; leaves this process unfit for anything else.
pub(super) fn try_namespaces() -> Vec<Finding> {
    let mut findings = Vec::new();
    let (uid, _) = kernel::ids();
    if uid == 0 {
        findings.push(good("rights", "root"));
    } else {
        match namespaces::become_root_inside() {
            Ok(()) => findings.push(good("rights", format!("user {uid}, user namespaces"))),
            Err(refusal) => {
                let detail = format!("user {uid}, no user namespaces: {}", refusal.error);
                findings.push(bad("rights", detail, refusal.advice));
            }
        }
    }
    for kind in &namespaces::KINDS {
        match kernel::unshare(kind.flag) {
            Ok(()) => {
                findings.push(good(kind.name, "allowed"));
                // Only here: elsewhere it would slow the machine's own network down.
                if kind.flag == libc::CLONE_NEWNET {
                    findings.push(netem());
                }
            }
            Err(error) => findings.push(bad(kind.name, error.to_string(), kind.advice)),
        }
    }
    let last_pid = Path::new("/proc/sys/kernel/ns_last_pid");
    findings.push(if last_pid.exists() {
        good("ns_last_pid", "there")
    } else {
        bad(
            "ns_last_pid",
            "missing",
            "use a kernel with CONFIG_CHECKPOINT_RESTORE",
        )
    });
    findings
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::*;
    use crate::artifact::{Cache, Machine, Tools};

    /// A machine whose CRIU is a script, or that has none.
    fn findings(script: Option<&str>, uid: u32) -> Vec<Finding> {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        if let Some(script) = script {
            let path = root.join("criu");
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let depot = Depot::new(
            Cache::at(root.join("cache")),
            Tools::new(root, Duration::from_secs(60)),
            Machine::default(),
        );
        criu_of(&depot, uid)
    }

    fn check(findings: &[Finding], expected: &[(bool, &str)]) {
        assert_eq!(findings.len(), expected.len(), "{findings:?}");
        for (finding, (ok, text)) in findings.iter().zip(expected) {
            let said = finding.fix.as_ref().unwrap_or(&finding.detail);
            assert!(finding.ok == *ok && said.contains(text), "{finding:?}");
        }
    }

    #[test]
    fn a_missing_or_old_criu_says_what_it_costs_and_how_to_get_it() {
        for script in [None, Some("echo 'Version: 3.17.1'")] {
            let findings = findings(script, 0);
            check(&findings, &[(false, "start cold, several times slower")]);
            check(
                &findings,
                &[(false, "`./temblor targets fetch criu`, 20 MB")],
            );
        }
    }

    #[test]
    fn a_criu_is_good_when_we_are_root_and_its_check_is_content() {
        let new = "echo 'Version: 4.2.1'; test \"$1\" = --version && exit 0\n";
        let content = format!("{new}echo 'Looks good.'");
        check(
            &findings(Some(&content), 0),
            &[(true, "4.2.1 in /"), (true, "`criu check` is content")],
        );
        check(
            &findings(Some(&content), 1000),
            &[(true, "4.2.1"), (false, "only root may")],
        );
        let unhappy = format!("{new}echo 'Error: no such system call' >&2; exit 1");
        let unhappy = findings(Some(&unhappy), 0);
        check(&unhappy, &[(true, "4.2.1"), (false, "no such system call")]);
        check(&unhappy, &[(true, "4.2.1"), (false, "until then trials")]);
    }
}
