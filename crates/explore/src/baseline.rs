//! What clean runs teach: durations, progress, the log lines that are normal, what is reached.

use std::collections::{BTreeMap, BTreeSet};

use temblor_model::event::{Stage, What};
use temblor_model::history::{Baseline, History, Latency, Reached};
use temblor_model::site::SiteId;
use temblor_model::visit::{self, Move, Visit};

use crate::effects::{Effects, awaited, stage_us};
use crate::ops::{Span, spans, waits};
use crate::template::{ends_thread, severity, template};

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
    let mut reached: BTreeMap<(SiteId, String, String), Reached> = BTreeMap::new();
    for history in histories {
        learn_times(history, &mut baseline);
        baseline.templates.extend(templates(history));
        for (client, ok) in successes(history) {
            let least = baseline.ops.entry(client).or_insert(ok);
            *least = ok.min(*least);
        }
        for event in &history.events {
            if let What::Context { stack, frames, .. } = &event.what {
                let known = baseline.contexts.entry(stack.clone());
                known.or_insert_with(|| frames.clone());
            }
        }
        learn_states(history, &mut baseline);
        let began_us = stage_us(history, Stage::Workload).unwrap_or(u64::MAX);
        let early = contexts(history, |at_us| at_us < began_us);
        for (context, hits) in contexts(history, |_| true) {
            let early = early.get(&context).copied().unwrap_or(0);
            let (site, node, stack) = context.clone();
            let known = reached.entry(context).or_insert(Reached {
                site,
                node,
                stack,
                hits,
                least: hits,
                early,
                runs: 0,
            });
            known.hits = hits.max(known.hits);
            known.least = hits.min(known.least);
            known.early = early.max(known.early);
            known.runs += 1;
        }
    }
    baseline.reached = reached.into_values().collect();
    baseline.latency = latency(histories);
    baseline.waits_ms = longest_waits_ms(histories);
    baseline
}

/// How long clients of each node wait at the most in a usual run: an unlucky election now and then
/// is none.
fn longest_waits_ms(histories: &[History]) -> BTreeMap<String, u64> {
    let mut longest: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for history in histories {
        let last_us = history.events.last().map_or(0, |e| e.at_us);
        let until_us = stage_us(history, Stage::Heal).unwrap_or(last_us);
        let mut of_run: BTreeMap<&str, u64> = BTreeMap::new();
        let spans = awaited(history);
        for wait in waits(&spans, until_us) {
            let most_us = of_run.entry(wait.node).or_default();
            *most_us = wait.took_us().max(*most_us);
        }
        for (node, us) in of_run {
            longest
                .entry(node.into())
                .or_default()
                .push(us.div_ceil(1_000));
        }
    }
    let median = |mut all: Vec<u64>| {
        all.sort_unstable();
        all[(all.len() - 1) / 2]
    };
    let of_node = |(node, all)| (node, median(all));
    longest.into_iter().map(of_node).collect()
}

/// What runs in which state, and how long timeouts are.
fn learn_states(history: &History, baseline: &mut Baseline) {
    let mut visits = Vec::new();
    for event in &history.events {
        match &event.what {
            What::Visited { visits: more, .. } => visits.extend(more.iter().cloned()),
            What::Moved { moves, .. } => {
                for one in moves {
                    let same =
                        |m: &&mut Move| (&m.node, m.from, m.to) == (&one.node, one.from, one.to);
                    match baseline.moves.iter_mut().find(same) {
                        Some(known) => known.count += one.count,
                        None => baseline.moves.push(one.clone()),
                    }
                }
            }
            What::Captured { timeout, ms, .. } => {
                let values = baseline.timeouts.entry(*timeout).or_default();
                if let Err(at) = values.binary_search(ms) {
                    values.insert(at, *ms);
                }
            }
            _ => {}
        }
    }
    for one in visit::summed(visits) {
        let same = |v: &&mut Visit| (&v.node, v.state, v.site) == (&one.node, one.state, one.site);
        match baseline.visits.iter_mut().find(same) {
            Some(known) => known.hits = known.hits.max(one.hits),
            None => baseline.visits.push(one),
        }
    }
}

fn learn_times(history: &History, baseline: &mut Baseline) {
    let effects = Effects::of(history, None);
    for life in &effects.lives {
        let ready_us = life.ready_us.unwrap_or(effects.stop_us);
        let ready_ms = ready_us.saturating_sub(life.started_us).div_ceil(1_000);
        baseline.ready_ms = baseline.ready_ms.max(ready_ms);
    }
    let recovered_ms = healed_us(history).div_ceil(1_000);
    let recovery_ms = baseline.recovery_ms.max(recovered_ms);
    baseline.recovery_ms = recovery_ms.max(baseline.ready_ms);
    let spans = awaited(history);
    let wait_us = |span: &Span<'_>| span.end_us(effects.stop_us).saturating_sub(span.began_us);
    let mut each_us: Vec<u64> = spans.iter().map(wait_us).collect();
    each_us.sort_unstable();
    // Not the longest: a JVM's first operations, and a machine's hiccups, say nothing of the rest.
    if let Some(usual) = each_us.get(each_us.len() * USUAL_PERCENT / 100) {
        baseline.op_ms = baseline.op_ms.max(usual.div_ceil(1_000));
    }
    let began_us = stage_us(history, Stage::Workload).unwrap_or(0);
    let ended_us = stage_us(history, Stage::Heal).unwrap_or(effects.stop_us);
    let workload_ms = ended_us.saturating_sub(began_us).div_ceil(1_000);
    baseline.workload_ms = baseline.workload_ms.max(workload_ms);
}

/// From healing until every node says that it serves; 0 where the trial does not tell.
fn healed_us(history: &History) -> u64 {
    let Some(heal_us) = stage_us(history, Stage::Heal) else {
        return 0;
    };
    let mut serving: BTreeMap<&str, u64> = BTreeMap::new();
    for event in history.events.iter().filter(|e| e.at_us >= heal_us) {
        if let What::Health { node, ok: true, .. } = &event.what {
            serving.entry(node).or_insert(event.at_us - heal_us);
        }
    }
    serving.into_values().max().unwrap_or(0)
}

/// How long the operations that succeed take, all runs together.
fn latency(histories: &[History]) -> Vec<Latency> {
    let mut waits: BTreeMap<(&str, &str), Vec<u64>> = BTreeMap::new();
    for history in histories {
        for span in awaited(history).into_iter().filter(Span::is_ok) {
            let kind = waits.entry((span.phase, span.op)).or_default();
            kind.push(span.end_us(span.began_us).saturating_sub(span.began_us));
        }
    }
    let learned = |((phase, op), mut waits): ((&str, &str), Vec<u64>)| {
        waits.sort_unstable();
        let of_hundred = |percent: usize| waits[(waits.len() - 1) * percent / 100];
        Latency {
            phase: phase.into(),
            op: op.into(),
            ops: waits.len() as u64,
            p50_us: of_hundred(50),
            p95_us: of_hundred(95),
            max_us: of_hundred(100),
        }
    };
    waits.into_iter().map(learned).collect()
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
            && (severity(level) > 0 || ends_thread(level, message, more))
        {
            templates.insert(template(level, logger, message));
        }
    }
    templates
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
/// The hits at times that count.
fn contexts(history: &History, counts: impl Fn(u64) -> bool) -> Contexts {
    let mut contexts = Contexts::new();
    for event in &history.events {
        if let What::Hit {
            node, site, stack, ..
        } = &event.what
            && counts(event.at_us)
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
    fn latency_is_learned_per_phase_and_kind_from_what_succeeds() {
        let op = |at: u64, kind: &str, us: u64, how: &str| {
            let end = at + us;
            format!("{at} op c1 {kind} {at} invoke\n{end} op c1 {kind} {at} {how}\n")
        };
        let puts: String = (1..=100).map(|k| op(1_000 * k, "put", k, "ok")).collect();
        let other = op(1, "get@read", 7, "ok") + &op(20, "put", 900, "timeout");
        let baseline = learn_baseline(&[history(&puts), history(&other)]);
        let told = |l: &Latency| {
            let (phase, op, ops) = (&l.phase, &l.op, l.ops);
            let [p50, p95, max] = [l.p50_us, l.p95_us, l.max_us].map(|us| us / 1_000);
            format!("{phase} {op} {ops}: {p50} {p95} {max}")
        };
        let all: Vec<String> = baseline.latency.iter().map(told).collect();
        assert_eq!(all, ["read get 1: 7 7 7", "write put 100: 50 95 100"]);
    }

    #[test]
    fn waits_are_those_of_a_usual_run_over_all_tries_until_something_works() {
        let run = |until: u64| {
            let lost = "100 op c1 put 1 invoke\n 150 op c1 put 1 timeout\n";
            let found = format!("160 op c1 put 2 invoke\n {until} op c1 put 2 ok\n");
            let other = "200 op c2 put 1 invoke\n 210 op c2 put 1 fail: no\n";
            let finale = "5000 stage heal\n 5001 op c1 tree 3 invoke\n 9000 op c1 tree 3 ok";
            history(&format!("{lost}{found}{other}{finale}"))
        };
        let runs = [run(300), run(4_000), run(310), run(320)];
        let waits = learn_baseline(&runs).waits_ms;
        assert_eq!(
            waits,
            BTreeMap::from([("n1".into(), 210), ("n2".into(), 10)])
        );
    }

    #[test]
    fn recovery_lasts_until_the_last_node_serves() {
        let healed = "up\n 1000 stage heal\n 1000 health n1 bad\n 1010 health n2 ok\n \
                      1400 health n1 ok\n 1500 health n2 ok\n 2000 stage stop";
        assert_eq!(learn_baseline(&[history(healed)]).recovery_ms, 400);
        // A start may take longer than what healing took.
        assert_eq!(learn_baseline(&[history(SECOND)]).recovery_ms, 250);
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
        let reached = |r: &Reached| {
            format!(
                "{} {} {} {}-{} {} {}",
                r.site, r.node, r.stack, r.least, r.hits, r.early, r.runs
            )
        };
        let all: Vec<String> = baseline.reached.iter().map(reached).collect();
        assert_eq!(
            all,
            ["4 n1 aa 1-2 0 2", "4 n2 aa 1-1 0 1", "5 n1 bb 1-1 0 1"]
        );
    }

    #[test]
    fn hits_of_the_start_are_counted_apart() {
        let run = "up\n 5 hit n1 4 aa\n 150 hit n1 4 aa\n 160 hit n1 4 aa";
        let baseline = learn_baseline(&[history(run)]);
        assert_eq!(
            (baseline.reached[0].hits, baseline.reached[0].early),
            (3, 1)
        );
    }

    #[test]
    fn no_runs_teach_nothing() {
        assert_eq!(learn_baseline(&[]).reached, []);
    }
}
