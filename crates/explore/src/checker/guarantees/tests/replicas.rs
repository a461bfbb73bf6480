//! A simulated replicated store: what it answers when all is right passes, and what it answers
//! when one promise is broken fails.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use temblor_model::bug::Verdict;

use super::super::Guarantees;
use crate::checker::Checker;
use crate::checker::consistency::Consistency;
use crate::scripted::{baseline, history};

/// The promise that is broken.
#[derive(Clone, Copy, PartialEq)]
enum Broken {
    Nothing,
    /// Reads that must be new may be as old as the session allows.
    NewReads,
    /// Stale reads may be older than what the session saw.
    Sessions,
    /// An acknowledged update is at times forgotten.
    Updates,
}

struct Asked {
    client: usize,
    id: usize,
    reg: &'static str,
    key: &'static str,
    began: u64,
    ended: u64,
    /// When it takes effect, if ever.
    effect: Option<u64>,
    unknown: bool,
}

/// One applied update: key, value, place in the order.
type Applied = (&'static str, Option<String>, u64);

fn newest<'l>(log: &'l [Applied], key: &str) -> Option<&'l Applied> {
    log.iter().rfind(|applied| applied.0 == key)
}

fn asked(below: &mut impl FnMut(u64) -> u64) -> Vec<Asked> {
    let mut all = Vec::new();
    for client in 1..=3 {
        let mut now = 100;
        for id in 0..40 {
            let reg = match below(10) {
                0..3 => "write",
                3 => "create",
                4 => "delete",
                5..7 => "read",
                _ => "stale-read",
            };
            let began = now + below(3);
            let ended = began + below(12);
            now = ended;
            let unknown = !reg.ends_with("read") && below(5) == 0;
            let effect = match unknown {
                false => Some(began + below(ended - began + 1)),
                true => (below(2) == 0).then(|| began + below(100)),
            };
            all.push(Asked {
                client,
                id,
                reg,
                key: ["a", "b"][below(2) as usize],
                began,
                ended,
                effect,
                unknown,
            });
        }
    }
    all.sort_by_key(|asked| (asked.effect, asked.id));
    all
}

/// What the store answers, as a script.
fn run(seed: u64, broken: Broken) -> String {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut below = |bound: u64| random.next_u64() % bound;
    let mut script = String::from("up\n");
    let mut log: Vec<Applied> = Vec::new();
    let mut seen = [0usize; 4];
    for asked in asked(&mut below) {
        let (client, id, key) = (asked.client, asked.id, asked.key);
        let value = format!("{client}.{id}");
        let there = newest(&log, key).is_some_and(|applied| applied.1.is_some());
        let order = log.len() as u64 + 1;
        let forgotten = broken == Broken::Updates && below(8) == 0;
        let mut apply = |value| {
            if !forgotten {
                log.push((key, value, order));
            }
            format!("ok {{order={order}}}")
        };
        let mut how = match asked.reg {
            _ if asked.effect.is_none() => String::new(),
            "write" => apply(Some(value.clone())),
            "create" if there => "fail: exists".into(),
            "create" => apply(Some(value.clone())),
            "delete" => apply(None),
            reg => {
                let fresh = reg == "read" && broken != Broken::NewReads;
                let least = match broken {
                    Broken::Sessions => 0,
                    _ => seen[client],
                };
                let up_to = match fresh {
                    true => log.len(),
                    false => least + below((log.len() - least + 1) as u64) as usize,
                };
                seen[client] = up_to.max(seen[client]);
                match newest(&log[..up_to], key) {
                    Some((_, Some(value), order)) => format!("ok {{value={value} order={order}}}"),
                    _ => "ok".into(),
                }
            }
        };
        if asked.unknown {
            how = "timeout".into();
        } else if how.starts_with("ok") && !asked.reg.ends_with("read") {
            seen[client] = log.len();
        }
        let told = if how.contains('{') { "" } else { " {}" };
        let how = format!("{how}{told}").replace('}', " session=s}");
        let Asked {
            reg, began, ended, ..
        } = asked;
        script += &format!(
            "{began} op c{client} {reg} {id} invoke {{reg={reg} key={key} value={value} \
             session=s}}\n{ended} op c{client} {reg} {id} {how}\n"
        );
    }
    script
}

/// Of a hundred runs, how many each checker fails; none may be unknown.
fn failing(broken: Broken) -> [usize; 2] {
    let checkers: [&dyn Checker; 2] = [&Consistency, &Guarantees];
    checkers.map(|checker| {
        let fails = |seed: &u64| {
            let script = run(*seed, broken);
            let judgement = checker.judge(&history(&script), Some(&baseline()));
            assert_ne!(
                judgement.verdict,
                Verdict::Unknown,
                "seed {seed}: {judgement:#?}"
            );
            if broken == Broken::Nothing {
                assert_eq!(judgement.verdict, Verdict::Pass, "{script}{judgement:#?}");
            }
            judgement.verdict == Verdict::Fail
        };
        (0..100).filter(fails).count()
    })
}

#[test]
fn a_store_that_keeps_its_promises_passes() {
    assert_eq!(failing(Broken::Nothing), [0, 0]);
}

#[test]
fn a_store_that_breaks_one_fails() {
    // Not always: an old answer may be as good as a new one, and what is overwritten at once is
    // not missed.
    const OFTEN: usize = 60;
    let [old_reads, sessions_hold] = failing(Broken::NewReads);
    assert!(old_reads > OFTEN, "{old_reads}");
    assert_eq!(sessions_hold, 0);
    let [registers_hold, sessions] = failing(Broken::Sessions);
    assert_eq!(registers_hold, 0);
    assert!(sessions > OFTEN, "{sessions}");
    let [lost, _] = failing(Broken::Updates);
    assert!(lost > OFTEN, "{lost}");
}
