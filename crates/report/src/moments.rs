//! The notable moments of a trial as words: what a reader needs to follow it, and no more.

use std::collections::{BTreeMap, BTreeSet};

use temblor_model::event::{Event, Stage, What};
use temblor_model::op::OpEvent;

use crate::timeline::{MarkKind, exit_words, log_mark, op_words};
use crate::told::Told;
use crate::view::BugView;

/// Something worth a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    pub at_us: u64,
    /// Node, client or `lab`.
    pub who: String,
    pub what: String,
    pub tone: Tone,
    /// How often it came, and when the last time.
    pub times: u32,
    pub until_us: u64,
}

/// How a moment should look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Quiet,
    Fault,
    Warn,
    Bad,
}

/// The notable moments around the fault, at most `most`, in order.
pub fn moments(view: &BugView, most: usize) -> Vec<Moment> {
    let mut all: Vec<Moment> = Vec::new();
    let open = open_ops(&view.events);
    let mut told = Told::default();
    for event in &view.events {
        let own_words = self_moment(event, &mut told);
        let Some(moment) = own_words.or_else(|| moment(view, event, &open)) else {
            continue;
        };
        let last = match &event.what {
            What::Log { .. } => same_line(&mut all, &moment),
            _ => all.last_mut().filter(|m| m.what == moment.what),
        };
        match last {
            Some(last) if last.who == moment.who => {
                last.times += 1;
                last.until_us = moment.at_us;
            }
            _ => all.push(moment),
        }
    }
    let symptoms = view.bug.symptoms.iter().map(|s| Moment {
        at_us: s.at_us,
        who: "checker".into(),
        what: format!("{}: {}", s.checker, s.summary),
        tone: Tone::Bad,
        times: 1,
        until_us: s.at_us,
    });
    all.extend(symptoms);
    all.sort_by_key(|m| m.at_us);
    around_the_fault(all, view.fault_at_us(), most)
}

/// The same log line of the same node, numbers aside: told once, with a count. A fault between
/// two of them keeps them apart, for what it changed is the story.
fn same_line<'a>(all: &'a mut [Moment], moment: &Moment) -> Option<&'a mut Moment> {
    const BACK_MOST: usize = 40;
    let wanted = without_numbers(&moment.what);
    let back = all.iter_mut().rev().take(BACK_MOST);
    back.take_while(|m| m.tone != Tone::Fault)
        .find(|m| m.who == moment.who && without_numbers(&m.what) == wanted)
}

fn without_numbers(text: &str) -> String {
    let digit = |c: char| if c.is_ascii_digit() { '0' } else { c };
    let mut text: Vec<char> = text.chars().map(digit).collect();
    text.dedup_by(|a, b| *a == '0' && *b == '0');
    text.into_iter().collect()
}

/// Keeps a little of what came before the fault and more of what followed; faults and symptoms
/// always stay.
fn around_the_fault(all: Vec<Moment>, fault: Option<u64>, most: usize) -> Vec<Moment> {
    if all.len() <= most {
        return all;
    }
    let fault = fault.unwrap_or(0);
    let first_after = all.partition_point(|m| m.at_us < fault);
    let from = first_after.saturating_sub(most / 4);
    let chosen = from..from + most;
    let stays = |(i, m): &(usize, Moment)| {
        chosen.contains(i) || m.tone == Tone::Fault || m.who == "checker"
    };
    let kept = all.into_iter().enumerate().filter(stays);
    kept.map(|(_, m)| m).collect()
}

fn open_ops(events: &[Event]) -> BTreeSet<(String, u64)> {
    let mut open = BTreeMap::new();
    for event in events {
        if let What::Op(op) = &event.what {
            open.insert((op.client.clone(), op.id), op.ev);
        }
    }
    let never = open.into_iter().filter(|(_, ev)| *ev == OpEvent::Invoke);
    never.map(|(key, _)| key).collect()
}

/// What a node says of itself, where it is not what it said before.
fn self_moment(event: &Event, told: &mut Told) -> Option<Moment> {
    let (node, words, bad) = told.change(&event.what)?;
    Some(Moment {
        at_us: event.at_us,
        who: node.to_owned(),
        what: format!("says it is {words}"),
        tone: if bad { Tone::Bad } else { Tone::Quiet },
        times: 1,
        until_us: event.at_us,
    })
}

fn moment(view: &BugView, event: &Event, open: &BTreeSet<(String, u64)>) -> Option<Moment> {
    let (who, what, tone): (&str, String, Tone) = match &event.what {
        What::Stage { stage } => ("lab", stage_words(*stage).into(), Tone::Quiet),
        What::NodeStarted {
            node, incarnation, ..
        } if *incarnation > 1 => (node, "started again".into(), Tone::Quiet),
        What::NodeReady { node } => (node, "ready".into(), Tone::Quiet),
        What::NodeExited {
            node,
            code,
            signal,
            injected,
        } => {
            let tone = if *injected { Tone::Quiet } else { Tone::Bad };
            (node, exit_words(*code, *signal, *injected), tone)
        }
        What::ClientExited {
            client,
            code,
            signal,
        } if *code != Some(0) => {
            let words = exit_words(*code, *signal, false);
            (client, format!("client {words}"), Tone::Bad)
        }
        What::Op(op) => {
            let words = match op.ev {
                OpEvent::Ok => return None,
                OpEvent::Invoke if open.contains(&(op.client.clone(), op.id)) => {
                    "begins and never ends"
                }
                OpEvent::Invoke => return None,
                OpEvent::Fail => "fails",
                OpEvent::Timeout => "times out",
                OpEvent::Wrong => "gets a wrong answer",
            };
            let mut what = format!("{} {words}", op_words(op));
            if let Some(error) = &op.error {
                what.push_str(&format!(": {error}"));
            }
            (&op.client, what, Tone::Bad)
        }
        What::Garbage { client, line } => (client, format!("prints garbage: {line}"), Tone::Bad),
        What::Fired { .. } | What::LabFault { .. } => return fault_moment(view, event),
        What::Log {
            node,
            level,
            message,
            ..
        } => {
            let tone = match log_mark(level)? {
                MarkKind::Warn => Tone::Warn,
                _ => Tone::Bad,
            };
            (node, format!("{level} {message}"), tone)
        }
        What::CutOff { node, ms } => {
            let words = format!("is cut off from the others by the workload for {ms} ms");
            (node, words, Tone::Warn)
        }
        What::Deadline { limit_ms } => {
            let words = format!("the workload did not end within {limit_ms} ms");
            ("lab", words, Tone::Bad)
        }
        What::Notice { source, text } => (source, text.clone(), Tone::Quiet),
        _ => return None,
    };
    Some(Moment {
        at_us: event.at_us,
        who: who.to_owned(),
        what,
        tone,
        times: 1,
        until_us: event.at_us,
    })
}

fn fault_moment(view: &BugView, event: &Event) -> Option<Moment> {
    let same = |e: &&crate::view::Evidence| e.at_us == event.at_us;
    let (step, who, fallback) = match &event.what {
        What::Fired {
            step, node, fault, ..
        } => (*step, node.as_str(), fault),
        What::LabFault { step, fault, .. } => (*step, "lab", fault),
        _ => return None,
    };
    let told = view.evidence.iter().filter(same).find(|e| e.step == step);
    let what = told.map_or(fallback.clone(), |e| e.words());
    Some(Moment {
        at_us: event.at_us,
        who: who.to_owned(),
        what: format!("FAULT {}: {what}", step + 1),
        tone: Tone::Fault,
        times: 1,
        until_us: event.at_us,
    })
}

/// A stage, for people.
pub fn stage_words(stage: Stage) -> &'static str {
    match stage {
        Stage::Start => "the cluster starts",
        Stage::Workload => "the workload begins",
        Stage::Heal => "faults are healed",
        Stage::Recovery => "the recovery window begins",
        Stage::Finale => "clients look at what is left",
        Stage::Stop => "the trial is stopped",
    }
}

/// When something was, seen from the fault: `−0.12 s`, `+3.40 s`.
pub fn relative(at_us: u64, fault: Option<u64>) -> String {
    let Some(fault) = fault else {
        return format!("{:.3} s", at_us as f64 / 1e6);
    };
    let sign = if at_us < fault { '−' } else { '+' };
    format!("{sign}{:.3} s", at_us.abs_diff(fault) as f64 / 1e6)
}
