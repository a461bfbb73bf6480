//! Methods that send and handle messages between nodes: given by the target, or found because
//! they themselves write to or read from the network.

use rustc_hash::FxHashMap;
use temblor_model::catalog::{Diagnostic, Message, MessageSide};
use temblor_model::settings::AnalysisSettings;
use temblor_model::site::{Direction, Medium};

use crate::found::FoundSite;
use crate::program::{MethodId, Program};
use crate::rules::Rules;

pub fn find(
    program: &Program,
    settings: &AnalysisSettings,
    sites: &[FoundSite],
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Message> {
    let mut found: FxHashMap<(MethodId, MessageSide), bool> = FxHashMap::default();
    for site in sites {
        let Some(io) = site.site.io.filter(|io| io.medium == Medium::Network) else {
            continue;
        };
        // Accepting and selecting wait for peers; no message is handled there yet.
        let callee = site.site.callee.rsplit('.').next().unwrap_or_default();
        let waits = callee.starts_with("accept") || callee.starts_with("select");
        let side = match io.direction {
            Direction::Write => MessageSide::Send,
            Direction::Read if !waits => MessageSide::Handle,
            _ => continue,
        };
        found.insert((site.method, side), false);
    }
    for (key, list, side) in [
        ("analysis.sends", &settings.sends, MessageSide::Send),
        ("analysis.handles", &settings.handles, MessageSide::Handle),
    ] {
        let named = list.iter().map(|name| (name.clone(), ()));
        let rules = Rules::new(program, key, named, diagnostics);
        if rules.is_empty() {
            continue;
        }
        for id in program.method_ids() {
            if program.body(id).is_some() && rules.of_method(program, id).is_some() {
                found.insert((id, side), true);
            }
        }
    }
    let mut out: Vec<((MethodId, MessageSide), bool)> = found.into_iter().collect();
    out.sort_unstable();
    out.into_iter()
        .map(|((method, side), given)| Message {
            side,
            place: program.place(method, 0),
            given,
        })
        .collect()
}
