//! What clean runs teach: durations, progress, the log lines that are normal, what is reached.

use std::collections::{BTreeMap, BTreeSet};

use temblor_model::event::{Stage, What};
use temblor_model::history::{Baseline, History, Reached};
use temblor_model::site::SiteId;

use crate::effects::{Effects, stage_us};
use crate::ops::{Span, spans};
use crate::template::{severity, template};

/// An operation is unusually slow when it takes longer than so many of a hundred.
const USUAL_PERCENT: usize = 97;
/// Version of the stored form.
const FORMAT: u32 = 1;

type Contexts = BTreeMap<(SiteId, String, String), u32>;

/// Sums up clean runs; they must have passed already.
pub fn learn_baseline(histories: &[History]) -> Baseline {
    let mut baseline = Baseline {
        format: FORMAT,
        runs: histories.len() as u32,
        warp: histories.first().map_or(1.0, |h| h.warp),
        ..Baseline::default()
    };
    let mut reached: BTreeMap<(SiteId, String, String), (u32, u32)> = BTreeMap::new();
    for history in histories {
        learn_times(history, &mut baseline);
        baseline.templates.extend(templates(history));
        for (client, ok) in successes(history) {
            let least = baseline.ops.entry(client).or_insert(ok);
            *least = ok.min(*least);
        }
        for (context, hits) in contexts(history) {
            let (most, runs) = reached.entry(context).or_default();
            *most = hits.max(*most);
            *runs += 1;
        }
    }
    baseline.reached = reached
        .into_iter()
        .map(|((site, node, stack), (hits, runs))| Reached {
            site,
            node,
            stack,
            hits,
            runs,
        })
        .collect();
    baseline
}

fn learn_times(history: &History, baseline: &mut Baseline) {
    let effects = Effects::of(history, None);
    for life in &effects.lives {
        let ready_us = life.ready_us.unwrap_or(effects.stop_us);
        let ready_ms = ready_us.saturating_sub(life.started_us).div_ceil(1_000);
        baseline.ready_ms = baseline.ready_ms.max(ready_ms);
    }
    let spans = spans(history);
    let wait_us = |span: &Span<'_>| span.end_us(effects.stop_us).saturating_sub(span.began_us);
    let mut waits: Vec<u64> = spans.iter().map(wait_us).collect();
    waits.sort_unstable();
    // Not the longest: a JVM's first operations, and a machine's hiccups, say nothing of the rest.
    if let Some(usual) = waits.get(waits.len() * USUAL_PERCENT / 100) {
        baseline.op_ms = baseline.op_ms.max(usual.div_ceil(1_000));
    }
    let began_us = stage_us(history, Stage::Workload).unwrap_or(0);
    let ended_us = stage_us(history, Stage::Heal).unwrap_or(effects.stop_us);
    let workload_ms = ended_us.saturating_sub(began_us).div_ceil(1_000);
    baseline.workload_ms = baseline.workload_ms.max(workload_ms);
}

/// Templates of the lines at WARN and worse.
fn templates(history: &History) -> BTreeSet<String> {
    let mut templates = BTreeSet::new();
    for event in &history.events {
        if let What::Log {
            level,
            logger,
            message,
            more,
            ..
        } = &event.what
            && (severity(level) > 0 || is_uncaught(message) || more.iter().any(|m| is_uncaught(m)))
        {
            templates.insert(template(level, logger, message));
        }
    }
    templates
}

/// What the JVM itself prints when an exception ends a thread.
pub fn is_uncaught(line: &str) -> bool {
    line.starts_with("Exception in thread ")
}

fn successes(history: &History) -> BTreeMap<String, u64> {
    let roles = history.clients.iter().map(|role| (role.client.clone(), 0));
    let mut ok: BTreeMap<String, u64> = roles.collect();
    for span in spans(history).iter().filter(|span| span.is_ok()) {
        *ok.entry(span.client.to_owned()).or_default() += 1;
    }
    ok
}

/// Hits per context, counted by their events.
fn contexts(history: &History) -> Contexts {
    let mut contexts = Contexts::new();
    for event in &history.events {
        if let What::Hit {
            node, site, stack, ..
        } = &event.what
        {
            let context = (*site, node.clone(), stack.clone());
            *contexts.entry(context).or_default() += 1;
        }
    }
    contexts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::history;

    const FIRST: &str = "up\n 150 hit n1 4 aa\n 160 hit n1 4 aa\n 170 hit n2 4 aa\n\
         200 op c1 put 1 invoke\n 230 op c1 put 1 ok\n\
         300 op c1 put 2 invoke\n 310 op c1 put 2 ok\n\
         400 log n1 WARN x.A t: slow by 5 ms\n 400 log n1 INFO x.A t: all well\n\
         1100 stage heal\n 1200 stage stop";
    const SECOND: &str = "0 start n1\n 250 ready n1\n 250 stage workload\n 260 hit n1 4 aa\n\
         270 hit n1 5 bb\n 300 op c1 put 1 invoke\n 305 op c1 put 1 ok\n\
         400 log n2 ERROR x.B t: no file /a/b\n 800 stage heal\n 900 stage stop";

    #[test]
    fn times_are_the_longest_and_progress_the_least() {
        let baseline = learn_baseline(&[history(FIRST), history(SECOND)]);
        assert_eq!(baseline.runs, 2);
        assert_eq!(baseline.ready_ms, 250);
        assert_eq!(baseline.workload_ms, 1_000);
        assert_eq!(baseline.op_ms, 30);
        assert_eq!(baseline.ops["c1"], 1);
        assert_eq!(baseline.ops["c2"], 0);
    }

    #[test]
    fn templates_are_those_of_bad_lines() {
        let baseline = learn_baseline(&[history(FIRST), history(SECOND)]);
        let templates: Vec<&str> = baseline.templates.iter().map(String::as_str).collect();
        assert_eq!(
            templates,
            ["ERROR x.B: no file <*>", "WARN x.A: slow by <*> ms"]
        );
    }

    #[test]
    fn contexts_count_hits_and_runs() {
        let baseline = learn_baseline(&[history(FIRST), history(SECOND)]);
        let reached =
            |r: &Reached| format!("{} {} {} {} {}", r.site, r.node, r.stack, r.hits, r.runs);
        let all: Vec<String> = baseline.reached.iter().map(reached).collect();
        assert_eq!(all, ["4 n1 aa 2 2", "4 n2 aa 1 1", "5 n1 bb 1 1"]);
    }

    #[test]
    fn no_runs_teach_nothing() {
        assert_eq!(learn_baseline(&[]).reached, []);
    }
}
