//! What this machine allows, before a trial depends on it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{kernel, namespaces, program};

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
    findings
}

fn nft() -> Finding {
    match super::init::nft_program() {
        Some(path) => good("nft, for partitions", path),
        None => bad(
            "nft, for partitions",
            "not installed",
            "apt-get install nftables",
        ),
    }
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
        findings.push(match kernel::unshare(kind.flag) {
            Ok(()) => good(kind.name, "allowed"),
            Err(error) => bad(kind.name, error.to_string(), kind.advice),
        });
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
