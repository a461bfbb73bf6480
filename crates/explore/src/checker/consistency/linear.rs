//! Whether the operations on one register fit an order: linearizability, by search.
//!
//! The search of Wing and Gong with Lowe's memory of what was tried: take an operation that no
//! other open one surely precedes, and go on from the state it leaves. Our own rather than a
//! crate's (porcupine-rs 0.3 was looked at): there a clock bounds threads, which this crate must
//! not have, and a verdict would depend on the machine; and every operation must have happened,
//! while what need not have happened is most of the work here (see [`Search::may_help`]).

use std::collections::{BTreeSet, HashSet};

use crate::ops::Extent;

/// A value, numbered. No number: there is none.
pub type State = Option<u32>;

/// What an operation does to the register, or saw of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    Write(u32),
    /// Puts a value where there is none; nothing else is possible.
    Create(u32),
    /// Leaves a value there: its own where there was none.
    Ensure(u32),
    Delete,
    Read(State),
}

impl Effect {
    /// The state after it; none where it cannot happen.
    fn apply(self, state: State) -> Option<State> {
        match self {
            Effect::Write(value) => Some(Some(value)),
            Effect::Create(value) => state.is_none().then_some(Some(value)),
            Effect::Ensure(value) => Some(state.or(Some(value))),
            Effect::Delete => Some(None),
            Effect::Read(seen) => (seen == state).then_some(state),
        }
    }

    fn writes(self) -> State {
        match self {
            Effect::Write(value) | Effect::Create(value) | Effect::Ensure(value) => Some(value),
            Effect::Delete | Effect::Read(_) => None,
        }
    }

    /// Happens otherwise, or not at all, where a value is.
    fn needs_absence(self) -> bool {
        matches!(
            self,
            Effect::Create(_) | Effect::Ensure(_) | Effect::Read(None)
        )
    }
}

/// One operation. One without an end may have happened at any time since it began, or never.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The asker's own number for it.
    pub id: usize,
    pub extent: Extent<'a>,
    pub effect: Effect,
}

/// What the search comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// There is an order.
    Fits,
    /// There is none, and no operation that began at `until_us` or later has a part in that.
    Stuck { until_us: u64 },
    /// Not told within the steps.
    Unknown,
}

/// Searches an order for operations on a register that is empty at first. `steps` is what is left
/// to spend, and is counted down.
pub fn search(calls: &[Call<'_>], tick_us: u64, steps: &mut u64) -> Answer {
    let (mut must, may): (Vec<&Call<'_>>, Vec<&Call<'_>>) =
        calls.iter().partition(|call| call.extent.end.is_some());
    must.sort_by_key(|call| (call.extent.began_us, call.extent.began_at));
    let search = Search { must, may, tick_us };
    let mut seen: HashSet<Config> = HashSet::new();
    let mut stack = vec![Config::default()];
    let mut until_us = 0;
    while let Some(config) = stack.pop() {
        let Some(open) = search.open(&config) else {
            return Answer::Fits;
        };
        if *steps == 0 {
            return Answer::Unknown;
        }
        *steps -= 1;
        until_us = open.until_us.max(until_us);
        let mut next = search.next(&config, &open);
        // Those that ended first were likely first.
        next.reverse();
        stack.extend(next.into_iter().filter(|next| seen.insert(next.clone())));
    }
    Answer::Stuck { until_us }
}

/// Those of `calls`, which fit no order, that alone fit none either: few, as far as `steps` last.
pub fn smallest<'a>(calls: &[Call<'a>], tick_us: u64, steps: &mut u64) -> Vec<Call<'a>> {
    let Answer::Stuck { until_us } = search(calls, tick_us, steps) else {
        return calls.to_vec();
    };
    let mut kept = calls.to_vec();
    let mut try_without = |kept: &mut Vec<Call<'a>>, drop: &dyn Fn(usize, &Call<'a>) -> bool| {
        let fewer = without(kept, drop);
        let smaller = fewer.len() < kept.len()
            && matches!(search(&fewer, tick_us, steps), Answer::Stuck { .. });
        if smaller {
            *kept = fewer;
        }
        smaller
    };
    try_without(&mut kept, &|_, call| call.extent.began_us >= until_us);
    let mut size = kept.len().div_ceil(2);
    while size > 0 {
        let (mut at, before) = (0, kept.len());
        while at < kept.len() {
            if !try_without(&mut kept, &|i, _| (at..at + size).contains(&i)) {
                at += size;
            }
        }
        // What is left of one pass can make room in the next.
        if size > 1 || kept.len() == before {
            size /= 2;
        }
    }
    kept
}

/// The operations but for some, so that what fits no order then fits none with them either: a
/// write goes with the reads of its value, and a deletion stays while anything needs it.
fn without<'a>(calls: &[Call<'a>], drop: &dyn Fn(usize, &Call<'a>) -> bool) -> Vec<Call<'a>> {
    let dropped = |i: usize| drop(i, &calls[i]);
    let gone: BTreeSet<u32> = (0..calls.len())
        .filter(|&i| dropped(i))
        .filter_map(|i| calls[i].effect.writes())
        .collect();
    let is_gone = |i: usize| match calls[i].effect {
        Effect::Read(Some(value)) => gone.contains(&value) || dropped(i),
        _ => dropped(i),
    };
    let absence_matters = (0..calls.len()).any(|i| calls[i].effect.needs_absence() && !is_gone(i));
    let stays = |i: &usize| (absence_matters && calls[*i].effect == Effect::Delete) || !is_gone(*i);
    (0..calls.len()).filter(stays).map(|i| calls[i]).collect()
}

/// How far an order has come. Equal for all orders of the same operations that leave the same
/// state: what can follow is the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Config {
    /// Operations of `must` that are in: the first so many words full, then bits.
    full: usize,
    bits: Vec<u64>,
    /// Operations of `may` that are in, sorted.
    used: Vec<u32>,
    state: State,
}

const WORD: usize = u64::BITS as usize;

impl Config {
    fn has(&self, i: usize) -> bool {
        let Some(word) = (i / WORD).checked_sub(self.full) else {
            return true;
        };
        self.bits
            .get(word)
            .is_some_and(|w| w >> (i % WORD) & 1 == 1)
    }

    /// The first that is not in.
    fn first(&self) -> usize {
        let ones = self.bits.first().map_or(0, |w| w.trailing_ones() as usize);
        self.full * WORD + ones
    }

    fn with(&self, i: usize, state: State) -> Config {
        let mut config = self.clone();
        let word = i / WORD - self.full;
        if config.bits.len() <= word {
            config.bits.resize(word + 1, 0);
        }
        config.bits[word] |= 1 << (i % WORD);
        while config.bits.first() == Some(&u64::MAX) {
            config.bits.remove(0);
            config.full += 1;
        }
        config.state = state;
        config
    }

    fn with_used(&self, k: usize, state: State) -> Config {
        let mut config = self.clone();
        let at = config.used.partition_point(|&used| used < k as u32);
        config.used.insert(at, k as u32);
        config.state = state;
        config
    }
}

/// What can come next.
struct Open {
    must: Vec<usize>,
    may: Vec<usize>,
    /// What begins here or later has to wait.
    until_us: u64,
}

struct Search<'a> {
    /// In order of their beginnings.
    must: Vec<&'a Call<'a>>,
    may: Vec<&'a Call<'a>>,
    tick_us: u64,
}

impl Search<'_> {
    /// None when all that happened is in.
    fn open(&self, config: &Config) -> Option<Open> {
        let mut left: Vec<&Extent<'_>> = Vec::new();
        let waits = |left: &[&Extent<'_>], extent: &Extent<'_>| {
            left.iter().any(|l| l.precedes(extent, self.tick_us))
        };
        let mut open = Open {
            must: Vec::new(),
            may: Vec::new(),
            until_us: u64::MAX,
        };
        for i in config.first()..self.must.len() {
            let extent = &self.must[i].extent;
            if config.has(i) {
                continue;
            }
            if extent.began_us >= open.until_us {
                break;
            }
            if !waits(&left, extent) {
                open.must.push(i);
            }
            let end_us = extent.end.map_or(u64::MAX, |end| end.0);
            open.until_us = open.until_us.min(end_us.saturating_add(self.tick_us));
            left.push(extent);
        }
        if left.is_empty() {
            return None;
        }
        open.may = (0..self.may.len())
            .filter(|&k| config.used.binary_search(&(k as u32)).is_err())
            .filter(|&k| {
                let extent = &self.may[k].extent;
                extent.began_us < open.until_us && !waits(&left, extent)
            })
            .collect();
        Some(open)
    }

    fn next(&self, config: &Config, open: &Open) -> Vec<Config> {
        let state = config.state;
        // A read that fits can as well come now: it changes nothing.
        let now = |&&i: &&usize| self.must[i].effect == Effect::Read(state);
        if let Some(&i) = open.must.iter().find(now) {
            return vec![config.with(i, state)];
        }
        let must = open.must.iter().filter_map(|&i| {
            let state = self.must[i].effect.apply(state)?;
            Some(config.with(i, state))
        });
        let may = open.may.iter().filter_map(|&k| {
            let state = self.may[k].effect.apply(state)?;
            let helps = self.may_help(k, config.state, open);
            helps.then(|| config.with_used(k, state))
        });
        must.chain(may).collect()
    }

    /// Whether an operation that need not have happened can make a difference now. One whose
    /// state nothing sees before the next change can be left out; so it comes right before what
    /// needs it. (An `Ensure` in between can as well come before a write, but not before a
    /// creation, for which it would be in the way.)
    fn may_help(&self, k: usize, state: State, open: &Open) -> bool {
        let any = |wanted: &dyn Fn(Effect) -> bool| {
            open.must.iter().any(|&i| wanted(self.must[i].effect))
        };
        match self.may[k].effect {
            Effect::Write(value) => any(&|effect| effect == Effect::Read(Some(value))),
            Effect::Create(value) | Effect::Ensure(value) => any(&|effect| {
                effect == Effect::Read(Some(value)) || matches!(effect, Effect::Ensure(_))
            }),
            Effect::Delete => {
                let creates = |&k: &usize| self.may[k].effect.needs_absence();
                state.is_some() && (any(&Effect::needs_absence) || open.may.iter().any(creates))
            }
            Effect::Read(_) => false,
        }
    }
}

#[cfg(test)]
mod tests;
