//! `latency`: operations that stay slow after every fault is over, nodes that join late, outages
//! that are longer than the system needs.
//!
//! After faults that were over at once, and while no node is gone, nobody has to wait much longer
//! than in clean runs of the same workload, which may have elections of its own. A node fails whose
//! clients got no answer, over as many operations as they tried, for twice the longest time of a
//! usual clean run, and for 15 virtual seconds (and a real one) more than that. This is weak evidence:
//! of 44 clean runs of one workload, the elections of one took as long by chance.
//!
//! When the cluster forms, a node fails that is ready more than 8 virtual seconds (and a real half)
//! after the last of the others, and after the fault. Others started with it, so what the machine
//! makes slow does not count (Legolas §5.3: what nodes see is compared). Only faults that are over
//! at once count: after a delay a node has to start while time runs fast.
//!
//! Operations are judged that succeeded and began long (30 virtual seconds) after the last excuse;
//! failures and time-outs are for `client` to judge. An operation is *slow* when it takes longer
//! than ten times what 95 of 100 of its kind (phase and operation) take in clean runs, three times
//! the longest of them, and a real second, all three. Where the trial's clock runs slower than the
//! baselines', the first two limits grow by that factor.
//! - At least five slow operations of a kind on one node, which are more than half of those judged
//!   there, fail: the degradation lasts.
//! - Fewer are an observation: listed, and the judgement passes.
//! - Nothing is judged without a fault, without a baseline, or for kinds that clean runs did not
//!   do at least five times.

use std::collections::BTreeMap;

use temblor_model::bug::{Judgement, Misbehaviour, Symptom};
use temblor_model::event::Stage;
use temblor_model::history::{self, Baseline, History};

use super::{Checker, conclude, observe};
use crate::effects::{Effects, Life, awaited, stage_us};
use crate::ops::{Span, Wait, waits};

/// Slow operations that are no accident.
const LASTING: usize = 5;
/// Operations of clean runs that a limit can be taken from.
const LEAST_LEARNED: u64 = 5;
/// Slower than the usual by this factor.
const TIMES_P95: u64 = 10;
/// Slower than the slowest by this factor.
const TIMES_MAX: u64 = 3;
/// Nothing shorter is called slow: a loaded machine stops for a while. Real microseconds.
const LEAST_SLOW_US: u64 = 1_000_000;
/// A node that joins so long after the others is late: users call it an outage. Virtual
/// microseconds.
const LATE_VIRTUAL_US: f64 = 8e6;
/// Nodes of a loaded machine come apart by less, nearly always. Real microseconds.
const LEAST_LATE_US: u64 = 500_000;
/// An outage is longer than the longest wait of a usual clean run by this factor,
const TIMES_WAIT: f64 = 2.0;
/// and by this, virtual microseconds.
const OUTAGE_VIRTUAL_US: f64 = 15e6;
/// Slow operations told in full.
const DETAILS: usize = 4;

/// See the module.
pub struct Latency;

impl Checker for Latency {
    fn name(&self) -> &'static str {
        "latency"
    }

    fn judge(&self, history: &History, baseline: Option<&Baseline>) -> Judgement {
        let effects = Effects::of(history, baseline);
        let Some(baseline) = baseline.filter(|_| !effects.injected.is_empty()) else {
            return conclude(self.name(), Vec::new(), &[]);
        };
        let slower = (baseline.warp / effects.warp).max(1.0);
        let spans = awaited(history);
        let mut lasting = late_nodes(history, &effects);
        let worked_us = stage_us(history, Stage::Heal).unwrap_or(effects.stop_us);
        lasting.extend(outage(&waits(&spans, worked_us), &effects, baseline));
        let mut kinds: BTreeMap<(&str, &str, &str), Vec<Span<'_>>> = BTreeMap::new();
        let first_fault_us = effects.injected.iter().map(|i| i.at_us).min();
        for span in spans.into_iter().filter(Span::is_ok) {
            let after_fault = first_fault_us.is_some_and(|at| span.began_us > at);
            if after_fault && is_settled(&span, &effects) {
                let kind = (span.phase, span.op, span.node);
                kinds.entry(kind).or_default().push(span);
            }
        }
        let mut passing = Vec::new();
        for ((phase, op, _), spans) in kinds {
            let is_kind = |l: &&history::Latency| l.phase == phase && l.op == op;
            let learned = baseline.latency.iter().find(is_kind);
            let Some(learned) = learned.filter(|l| l.ops >= LEAST_LEARNED) else {
                continue;
            };
            let limit_us = limit_us(learned, slower);
            let slow: Vec<&Span<'_>> = spans.iter().filter(|s| took_us(s) > limit_us).collect();
            let of = spans.len();
            if slow.len() >= LASTING && 2 * slow.len() > of {
                lasting.push(symptom("stays slow", &slow, of, learned, &effects));
            } else if !slow.is_empty() {
                passing.push(symptom("is slow at times", &slow, of, learned, &effects));
            }
        }
        if lasting.is_empty() {
            return observe(self.name(), passing);
        }
        conclude(self.name(), lasting, &[])
    }
}

/// Nodes that were ready long after all others when the cluster formed.
fn late_nodes(history: &History, effects: &Effects) -> Vec<Symptom> {
    let workload_us = stage_us(history, Stage::Workload).unwrap_or(0);
    let started = |l: &&Life| l.ordinal == 0 && l.started_us < workload_us;
    let firsts: Vec<&Life> = effects.lives.iter().filter(started).collect();
    let late = firsts.iter().filter_map(|life| {
        let others = firsts.iter().filter(|other| other.node != life.node);
        let readies: Option<Vec<u64>> = others.map(|other| other.ready_us).collect();
        let others_us = readies?.into_iter().max()?;
        let ready_us = life.ready_us?;
        let mut before = effects.injected.iter().filter(|i| i.at_us < ready_us);
        if before.clone().any(|i| i.until_us > i.at_us) {
            return None;
        }
        let since_us = others_us.max(before.next_back()?.at_us);
        let late_us = ready_us.saturating_sub(since_us);
        let bearable_us = ((LATE_VIRTUAL_US / effects.warp) as u64).max(LEAST_LATE_US);
        let node = &life.node;
        (late_us > bearable_us).then(|| Symptom {
            checker: "latency".into(),
            shows: Misbehaviour::Slow,
            summary: format!("{} joins late, when all others serve", effects.role(node)),
            detail: vec![format!(
                "{node} was ready {} (virtual) after the others, {} after the fault",
                effects.virtual_s(ready_us - others_us),
                effects.virtual_s(late_us)
            )],
            at_us: ready_us,
        })
    });
    late.collect()
}

/// The longest wait of clients that is out of proportion with those of clean runs.
fn outage(waits: &[Wait<'_>], effects: &Effects, baseline: &Baseline) -> Option<Symptom> {
    let fault_us = effects.injected.iter().map(|i| i.at_us).min()?;
    let lasts = effects.injected.iter().any(|i| i.until_us > i.at_us);
    if lasts || effects.lives.iter().any(|life| life.exit.is_some()) {
        return None;
    }
    let bearable_us = |wait: &Wait<'_>| {
        let usual_ms = baseline.waits_ms.get(wait.node)?;
        let usual_us = *usual_ms as f64 * 1_000.0 * baseline.warp / effects.warp;
        let more_us = (OUTAGE_VIRTUAL_US / effects.warp).max(LEAST_SLOW_US as f64);
        Some((TIMES_WAIT * usual_us).max(usual_us + more_us) as u64)
    };
    let is_long = |wait: &&Wait<'_>| {
        wait.to_us > fault_us && bearable_us(wait).is_some_and(|most| wait.took_us() > most)
    };
    let long: Vec<&Wait<'_>> = waits.iter().filter(is_long).collect();
    let worst = long.iter().max_by_key(|wait| wait.took_us())?;
    let told = |wait: &&Wait<'_>| {
        let most = bearable_us(wait).unwrap_or(0);
        format!(
            "{} of {} got no answer for {} (virtual); {} would be bearable",
            wait.client,
            wait.node,
            effects.virtual_s(wait.took_us()),
            effects.virtual_s(most)
        )
    };
    Some(Symptom {
        checker: "latency".into(),
        shows: Misbehaviour::Outage,
        summary: format!(
            "clients of {} wait far longer than an election takes",
            effects.role(worst.node)
        ),
        detail: long.iter().take(DETAILS).map(told).collect(),
        at_us: worst.from_us,
    })
}

/// Whether an operation began when nothing was left to settle.
fn is_settled(span: &Span<'_>, effects: &Effects) -> bool {
    let end_us = span.end_us(effects.stop_us);
    let quiet_us = effects.quiet_since(span.node, 0, end_us);
    span.began_us > quiet_us.saturating_add(effects.late_us)
}

fn took_us(span: &Span<'_>) -> u64 {
    span.end_us(span.began_us).saturating_sub(span.began_us)
}

fn limit_us(learned: &history::Latency, slower: f64) -> u64 {
    let usual_us = (TIMES_P95 * learned.p95_us).max(TIMES_MAX * learned.max_us);
    ((usual_us as f64 * slower) as u64).max(LEAST_SLOW_US)
}

fn symptom(
    how: &str,
    slow: &[&Span<'_>],
    of: usize,
    learned: &history::Latency,
    effects: &Effects,
) -> Symptom {
    let first = slow[0];
    let (op, phase) = (first.op, first.phase);
    let mut detail = vec![format!(
        "{} of {of} took too long; of {} in clean runs half took {} ms at most, 95 of 100 {} ms, \
         the longest {} ms",
        slow.len(),
        learned.ops,
        learned.p50_us.div_ceil(1_000),
        learned.p95_us.div_ceil(1_000),
        learned.max_us.div_ceil(1_000)
    )];
    detail.extend(slow.iter().take(DETAILS).map(|span| {
        let ms = took_us(span) / 1_000;
        format!("{} of {}: {op} took {ms} ms", span.client, span.node)
    }));
    Symptom {
        checker: "latency".into(),
        shows: Misbehaviour::Slow,
        summary: format!(
            "{op} in phase {phase} {how} on {} long after the fault",
            effects.role(first.node)
        ),
        detail,
        at_us: first.began_us,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{self, history, said};

    /// Puts took 10 ms, at most 20 ms; gets up to 1 s.
    fn baseline() -> Baseline {
        let latency = |op: &str, ops: u64, p95_us: u64, max_us: u64| history::Latency {
            phase: "write".into(),
            op: op.into(),
            ops,
            p50_us: p95_us / 2,
            p95_us,
            max_us,
        };
        Baseline {
            latency: vec![
                latency("put", 100, 10_000, 20_000),
                latency("get", 100, 10_000, 1_000_000),
                latency("rare", 4, 10_000, 20_000),
            ],
            ..scripted::baseline()
        }
    }

    #[track_caller]
    fn check(script: &str, expected: &[&str]) {
        let judgement = Latency.judge(&history(script), Some(&baseline()));
        assert_eq!(said(&judgement), expected, "{judgement:#?}");
    }

    const THROW: &str = "up\n 300 fired n1 t throw java.io.IOException\n";

    /// Operations of c2, one after the other from `from` on, each so many ms long.
    fn puts(kind: &str, from: u64, lengths: &[u64]) -> String {
        let mut at = from;
        let op = |&ms: &u64| {
            let (began, ended) = (at, at + ms);
            at = ended + 1;
            format!("{began} op c2 {kind} {began} invoke\n{ended} op c2 {kind} {began} ok\n")
        };
        lengths.iter().map(op).collect()
    }

    #[test]
    fn operations_that_stay_slow_fail() {
        let slow = puts("put", 40_000, &[1_100, 1_200, 1_300, 10, 1_100, 1_100, 10]);
        let said = "put in phase write stays slow on another node long after the fault";
        check(&format!("{THROW}{slow} 60000 stage stop"), &[said]);
        let own = slow.replace("c2", "c1");
        let said = said.replace("another", "the faulted");
        check(&format!("{THROW}{own} 60000 stage stop"), &[&said]);
    }

    #[test]
    fn a_few_slow_ones_are_an_observation() {
        let few = puts("put", 40_000, &[1_100, 1_200, 1_300, 1_400]);
        check(
            &format!("{THROW}{few} 60000 stage stop"),
            &["pass, 1 observed"],
        );
        let half = puts(
            "put",
            40_000,
            &[1_100, 10, 1_100, 10, 1_100, 10, 1_100, 10, 1_100, 10],
        );
        check(
            &format!("{THROW}{half} 60000 stage stop"),
            &["pass, 1 observed"],
        );
    }

    #[test]
    fn what_the_fault_may_explain_passes() {
        let lengths = [1_100; 6];
        // The grace is over at 5.3 s, and everything settled at 35.3 s.
        let soon = puts("put", 28_000, &lengths);
        check(&format!("{THROW}{soon} 60000 stage stop"), &["pass"]);
        let late = puts("put", 40_000, &lengths);
        check(&format!("up\n{late} 60000 stage stop"), &["pass"]);
    }

    #[test]
    fn limits_are_those_of_the_kind() {
        // Three times the longest, which is a second.
        let under = puts("get", 40_000, &[2_900; 6]);
        check(&format!("{THROW}{under} 90000 stage stop"), &["pass"]);
        let over = puts("get", 40_000, &[3_100; 6]);
        let said = "get in phase write stays slow on another node long after the fault";
        check(&format!("{THROW}{over} 90000 stage stop"), &[said]);
        // Nothing to compare with.
        for kind in ["rare", "new"] {
            let slow = puts(kind, 40_000, &[3_100; 6]);
            check(&format!("{THROW}{slow} 90000 stage stop"), &["pass"]);
        }
    }

    #[test]
    fn a_slower_clock_makes_limits_longer() {
        let slow = puts("get", 40_000, &[3_100; 6]);
        let history = history(&format!("{THROW}{slow} 90000 stage stop"));
        let faster = Baseline {
            warp: 2.0,
            ..baseline()
        };
        assert_eq!(said(&Latency.judge(&history, Some(&faster))), ["pass"]);
        assert_eq!(said(&Latency.judge(&history, None)), ["pass"]);
    }

    #[test]
    fn an_outage_out_of_proportion_with_clean_runs_fails() {
        let usual = |ms: u64| Baseline {
            waits_ms: [("n2".to_string(), ms)].into(),
            ..baseline()
        };
        let check = |script: &str, usual_ms: u64, expected: &str| {
            let judgement = Latency.judge(&history(script), Some(&usual(usual_ms)));
            assert_eq!(said(&judgement), [expected], "{judgement:#?}");
        };
        let long = "clients of another node wait far longer than an election takes";
        let wait = |fault: &str, until: u64| {
            format!(
                "up\n 300 fired n1 t {fault}\n 400 op c2 put 1 invoke\n 8400 op c2 put 1 timeout\n\
                 8500 op c2 put 2 invoke\n {until} op c2 put 2 ok\n 60000 stage stop"
            )
        };
        let throw = "throw java.io.IOException";
        // Fifteen seconds more than two; twice sixteen.
        check(&wait(throw, 17_500), 2_000, long);
        check(&wait(throw, 17_300), 2_000, "pass");
        check(&wait(throw, 32_500), 16_000, long);
        check(&wait(throw, 32_300), 16_000, "pass");
        check(&wait("delay 1000", 30_000), 2_000, "pass");
        // It may take long to start.
        let down = wait(throw, 30_000) + "\n 500 exit n3 code 1\n 900 start n3";
        check(&down, 2_000, "pass");
        // Nothing to compare with.
        check(&wait(throw, 30_000).replace("c2", "c3"), 2_000, "pass");
    }

    #[test]
    fn a_node_that_joins_long_after_the_others_fails() {
        let form = |fault: &str, last: u64| {
            format!(
                "0 start n1\n 0 start n2\n 0 start n3\n 500 fired n3 t {fault}\n 900 ready n1\n\
                 1000 ready n2\n {last} ready n3\n {last} stage workload\n 90000 stage stop"
            )
        };
        let late = "the faulted node joins late, when all others serve";
        let throw = "throw java.io.IOException";
        check(&form(throw, 9_100), &[late]);
        check(&form(throw, 8_900), &["pass"]);
        check(&form("delay 1000", 9_100), &["pass"]);
        // All are late: nothing to compare with.
        let all = form(throw, 9_100).replace("1000 ready n2", "9000 ready n2");
        check(&all, &["pass"]);
    }
}
