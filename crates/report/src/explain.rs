//! What happened, in plain words: a few sentences built from a trial's events and nothing else.
//! Times are the cluster's own, so that they agree with its timeouts and with injected delays.

use std::collections::{BTreeMap, BTreeSet};

use temblor_model::event::{Event, Stage, What};

use crate::moments::{Moment, Tone, moments};
use crate::progress::plural;
use crate::timeline::{BandKind, Lane, OpEnd, Timeline, exit_words};
use crate::told::Told;
use crate::view::{BugView, seconds};

/// Faults, clients, nodes and changes told one by one; of more there is a count.
const TOLD_MOST: usize = 5;
/// Moments searched for the first sign of trouble.
const MOMENTS_MOST: usize = 10_000;

/// The explanation of a bug, sentence by sentence. The last one says how well it is confirmed.
pub fn explain(view: &BugView) -> Vec<String> {
    let timeline = Timeline::of(view);
    let mut out = vec![cause(view, &timeline)];
    let sign = first_sign(view);
    out.extend(sign.as_ref().map(|m| sign_words(view, m)));
    out.extend(symptoms(view));
    if let Some(fault) = view.fault_at_us() {
        out.extend(clients(&timeline, fault));
        out.extend(nodes(view, fault, sign.as_ref()));
        out.extend(healed(view, &timeline, fault));
    }
    if view.warp != 1.0 && !view.evidence.is_empty() {
        out.push(format!(
            "Times are the cluster's own; its clock ran {} times faster than the real one.",
            view.warp
        ));
    }
    out.extend(size(view));
    out.push(view.confirmation());
    out.extend(below(view));
    out
}

/// How small the plan is, where somebody tried to make it smaller.
fn size(view: &BugView) -> Option<String> {
    let shrunk = view.bug.shrunk.as_ref()?;
    let replays = plural(shrunk.replays.into(), "replay");
    let minimal = match shrunk.minimal {
        true => "nothing smaller shows the bug",
        false => "smaller ones may show it too",
    };
    Some(match shrunk.plan == view.bug.plan {
        true => format!("The plan is as it was found; {minimal} ({replays})."),
        false => format!(
            "The plan was made smaller ({replays}; {minimal}); it was found as: {}.",
            shrunk.plan
        ),
    })
}

/// What a slow disk or network did instead of the delay, where that was tried.
fn below(view: &BugView) -> Option<String> {
    let text = view.bug.below.as_ref()?.to_string();
    let mut chars = text.chars();
    let first = chars.next()?.to_uppercase();
    Some(format!("{}{}.", first, chars.as_str()))
}

/// A real time span as the cluster saw it.
fn cluster_time(view: &BugView, real_us: u64) -> String {
    seconds((real_us as f64 * view.warp) as u64)
}

fn cause(view: &BugView, timeline: &Timeline) -> String {
    let Some(first) = view.evidence.first() else {
        return format!(
            "No fault is recorded as fired under the plan “{}”.",
            view.bug.plan
        );
    };
    let mut out = match timeline.stage_at(Stage::Workload) {
        Some(workload) if first.at_us >= workload => {
            let into = cluster_time(view, first.at_us - workload);
            format!("{into} into the workload came {}", first.phrase())
        }
        _ => {
            let at = cluster_time(view, first.at_us);
            format!("{at} after the start came {}", first.phrase())
        }
    };
    if !first.thread.is_empty() {
        out.push_str(&format!(", in thread {}", first.thread));
    }
    for pair in view.evidence.windows(2).take(TOLD_MOST - 1) {
        let gap = cluster_time(view, pair[1].at_us.saturating_sub(pair[0].at_us));
        out.push_str(&format!(", {gap} later {}", pair[1].phrase()));
    }
    if view.evidence.len() > TOLD_MOST {
        let more = view.evidence.len() - TOLD_MOST;
        out.push_str(&format!(", then {}", plural(more as u64, "more fault")));
    }
    out + "."
}

/// The first thing that went wrong after the fault, whoever saw it.
fn first_sign(view: &BugView) -> Option<Moment> {
    let fault = view.fault_at_us()?;
    let all = moments(view, MOMENTS_MOST);
    let sign = |m: &Moment| m.at_us >= fault && m.tone == Tone::Bad && m.who != "checker";
    all.into_iter().find(sign)
}

fn sign_words(view: &BugView, first: &Moment) -> String {
    let what = first.what.trim_end_matches('.');
    // Clients' operations name their client themselves.
    let who = match what.starts_with(&first.who) {
        true => String::new(),
        false => format!("{} ", first.who),
    };
    let after = first.at_us.saturating_sub(view.fault_at_us().unwrap_or(0));
    let later = cluster_time(view, after);
    format!("The first sign came {later} later: {who}{what}.")
}

fn symptoms(view: &BugView) -> Option<String> {
    let (first, others) = view.bug.symptoms.split_first()?;
    let summary = first.summary.trim_end_matches('.');
    let when = match view.fault_at_us() {
        Some(fault) if first.at_us >= fault => {
            let later = cluster_time(view, first.at_us - fault);
            format!("{later} after the fault the")
        }
        _ => "The".into(),
    };
    let more = match others.len() {
        0 => String::new(),
        1 => "; one more symptom was seen".into(),
        n => format!("; {n} more symptoms were seen"),
    };
    let checker = &first.checker;
    Some(format!("{when} {checker} checker saw: {summary}{more}."))
}

/// How the operations of each client ended that were under way at the fault or came after it.
fn clients(timeline: &Timeline, fault: u64) -> Option<String> {
    let mut hurt = Vec::new();
    let mut unhurt = Vec::new();
    for lane in timeline.lanes.iter().filter(|l| !l.is_node) {
        let mut ends: BTreeMap<OpEnd, u64> = BTreeMap::new();
        for bar in lane.bars.iter().filter(|b| b.to_us >= fault) {
            *ends.entry(bar.end).or_default() += 1;
        }
        let all: u64 = ends.values().sum();
        let bad = ends.iter().filter(|(end, _)| **end != OpEnd::Ok);
        let bad: Vec<String> = bad.map(|(end, n)| end_words(*end, *n)).collect();
        match (all, bad.is_empty()) {
            (0, _) => {}
            (_, true) => unhurt.push(lane.name.clone()),
            (all, false) => hurt.push(format!(
                "{} (of {}, {})",
                client_words(lane),
                plural(all, "operation"),
                and(&bad)
            )),
        }
    }
    match (hurt.is_empty(), unhurt.is_empty()) {
        (true, true) => None,
        (true, false) => Some("Every operation since the fault succeeded.".into()),
        (false, true) => Some(format!("It hurt {}.", few(&hurt))),
        (false, false) => Some(format!(
            "It hurt {}; {} saw nothing of it.",
            few(&hurt),
            few(&unhurt)
        )),
    }
}

fn client_words(lane: &Lane) -> String {
    match lane.talks_to.as_str() {
        "" => lane.name.clone(),
        node => format!("{} at {node}", lane.name),
    }
}

fn end_words(end: OpEnd, n: u64) -> String {
    let words = match end {
        OpEnd::Ok => "succeeded",
        OpEnd::Fail => "failed",
        OpEnd::Timeout => "timed out",
        OpEnd::Wrong => "got a wrong answer",
        OpEnd::Never => "never ended",
    };
    format!("{n} {words}")
}

/// Which nodes died, changed their role, or said they were well while clients saw otherwise;
/// without what the first sign has told already.
fn nodes(view: &BugView, fault: u64, sign: Option<&Moment>) -> Vec<String> {
    let mut told = Told::default();
    let mut news: Vec<String> = Vec::new();
    let (mut well, mut not_well) = (BTreeSet::new(), BTreeSet::new());
    for event in before_stop(view) {
        let change = told.change(&event.what);
        if event.at_us < fault {
            // Who was not well when the fault came was not well all the time.
            match &event.what {
                What::Health { node, ok: true, .. } => not_well.remove(node.as_str()),
                What::Health { node, .. } => not_well.insert(node.as_str()),
                _ => false,
            };
            continue;
        }
        let what = match &event.what {
            What::NodeExited {
                node,
                code,
                signal,
                injected: false,
            } => {
                not_well.insert(node.as_str());
                Some(format!("{node} {}", exit_words(*code, *signal, false)))
            }
            What::Health { node, ok, .. } => {
                // That it is still not well is no news.
                let news = match ok {
                    true => {
                        well.insert(node.as_str());
                        true
                    }
                    false => not_well.insert(node.as_str()),
                };
                let change = change.filter(|_| news);
                change.map(|(_, words, _)| format!("{node} said it was {words}"))
            }
            _ => None,
        };
        let told_before = sign.is_some_and(|m| m.at_us == event.at_us);
        if let Some(what) = what.filter(|_| !told_before) {
            let later = cluster_time(view, event.at_us - fault);
            news.push(format!("{later} after the fault {what}"));
        }
    }
    let mut out = Vec::new();
    if !news.is_empty() {
        let more = match news.len().saturating_sub(TOLD_MOST) {
            0 => String::new(),
            more => format!("; then {}", plural(more as u64, "more change")),
        };
        news.truncate(TOLD_MOST);
        out.push(format!("{}{more}.", news.join("; ")));
    }
    let always: Vec<String> = well.difference(&not_well).map(|n| n.to_string()).collect();
    match always.as_slice() {
        [] => {}
        [one] => out.push(format!("{one} said all the time that it was healthy.")),
        many => out.push(format!(
            "{} said all the time that they were healthy.",
            few(many)
        )),
    }
    out
}

/// The events until the lab stops the trial: what ends then, ends by its hand.
fn before_stop(view: &BugView) -> impl Iterator<Item = &Event> {
    let stop = |e: &&Event| matches!(e.what, What::Stage { stage: Stage::Stop });
    view.events.iter().take_while(move |e| !stop(e))
}

/// Whether the cluster came back once the faults were gone.
fn healed(view: &BugView, timeline: &Timeline, fault: u64) -> Option<String> {
    let heal = timeline.stage_at(Stage::Heal)?;
    let (mut back, mut lost) = (Vec::new(), Vec::new());
    for lane in timeline.lanes.iter().filter(|l| !l.is_node) {
        let mut after = lane.bars.iter().filter(|b| b.to_us >= heal).peekable();
        if after.peek().is_none() {
            continue;
        }
        let list = match after.any(|b| b.end == OpEnd::Ok) {
            true => &mut back,
            false => &mut lost,
        };
        list.push(lane.name.clone());
    }
    let when = cluster_time(view, heal.saturating_sub(fault));
    let healed = format!("The faults were healed {when} after the first");
    let clients = match (back.as_slice(), lost.as_slice()) {
        ([], []) => last_operations(timeline),
        (_, []) => "operations succeeded again".into(),
        ([], _) => "no operation succeeded after that".into(),
        (back, lost) => format!(
            "operations of {} succeeded again, those of {} did not",
            few(back),
            few(lost)
        ),
    };
    let down = timeline.lanes.iter().filter(|l| stays_down(l, timeline));
    let down: Vec<String> = down.map(|l| l.name.clone()).collect();
    let down = match down.is_empty() {
        true => String::new(),
        false => format!("; {} stayed down", few(&down)),
    };
    Some(format!("{healed}: {clients}{down}."))
}

/// Where clients were done before the heal, their last operations are all there is to tell.
fn last_operations(timeline: &Timeline) -> String {
    let clients = timeline.lanes.iter().filter(|l| !l.is_node);
    let last = clients.filter_map(|l| Some((l, l.bars.iter().max_by_key(|b| b.to_us)?)));
    let (good, bad): (Vec<_>, Vec<_>) = last.partition(|(_, b)| b.end == OpEnd::Ok);
    let names = bad.iter().map(|(lane, _)| lane.name.clone());
    let names: Vec<String> = names.collect();
    match (good.is_empty(), names.is_empty()) {
        (true, true) => "no operation was made".into(),
        (false, true) => "by then the last operation of every client had succeeded".into(),
        (_, false) => format!(
            "by then the last operation of {} had not succeeded",
            few(&names)
        ),
    }
}

fn stays_down(lane: &Lane, timeline: &Timeline) -> bool {
    let last = lane.bands.iter().filter(|b| b.kind == BandKind::Down);
    last.map(|b| b.to_us).max() == Some(timeline.to_us)
}

/// `a, b and c`, of many only a few.
fn few(items: &[String]) -> String {
    match items.len() > TOLD_MOST {
        true => {
            let more = format!("{} more", items.len() - TOLD_MOST);
            let mut some = items[..TOLD_MOST].to_vec();
            some.push(more);
            and(&some)
        }
        false => and(items),
    }
}

fn and(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}
