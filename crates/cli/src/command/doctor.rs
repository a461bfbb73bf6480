//! `temblor doctor`: what this machine allows, and what to do about the rest.

use serde_json::json;
use temblor_cluster::artifact;
use temblor_cluster::cell;

use crate::args::DoctorArgs;
use crate::exit::Exit;
use crate::prepare::library;

struct Line {
    what: String,
    ok: bool,
    advice: String,
    /// Without it nothing can be tested.
    needed: bool,
}

impl Line {
    fn of(finding: cell::Finding, needed: bool) -> Self {
        Self {
            what: finding.what,
            ok: finding.ok,
            advice: finding.fix.unwrap_or(finding.detail),
            needed,
        }
    }
}

pub fn run(args: &DoctorArgs) -> anyhow::Result<Exit> {
    let mut lines: Vec<Line> = Vec::new();
    lines.extend(cell::doctor().into_iter().map(|f| Line::of(f, true)));
    let criu = cell::criu_findings().into_iter();
    lines.extend(criu.map(|f| Line::of(f, false)));
    for name in ["libtemblor_agent.so", "libtemblor_warp.so"] {
        let found = library(name);
        let advice = found
            .as_ref()
            .err()
            .map(|e| e.to_string())
            .unwrap_or_default();
        lines.push(Line {
            what: name.into(),
            ok: found.is_ok(),
            advice,
            needed: true,
        });
    }
    let jdks = artifact::installed_jdks()?;
    for major in artifact::KNOWN_MAJORS {
        let found = jdks.iter().find(|j| j.major == major);
        let what = match found {
            Some(jdk) => format!("JDK {major} ({})", jdk.full_version),
            None => format!("JDK {major}"),
        };
        let advice = match found {
            Some(_) => String::new(),
            None => format!("only for targets of its time: ./temblor targets fetch jdk@{major}"),
        };
        lines.push(Line {
            what,
            ok: found.is_some(),
            advice,
            // Only a note while there is one to run with.
            needed: false,
        });
    }
    if args.json {
        let findings: Vec<_> = lines
            .iter()
            .map(|l| json!({"what": l.what, "ok": l.ok, "advice": l.advice}))
            .collect();
        println!("{}", json!({ "findings": findings }));
    } else {
        for line in &lines {
            let mark = if line.ok { "ok     " } else { "missing" };
            println!("{mark}  {}", line.what);
            if !line.advice.is_empty() {
                println!("         {}", line.advice);
            }
        }
    }
    let fit = lines.iter().all(|l| l.ok || !l.needed) && !jdks.is_empty();
    Ok(if fit { Exit::Pass } else { Exit::Unknown })
}
