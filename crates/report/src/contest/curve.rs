//! How the bugs of a policy add up: one campaign by itself, and the median over all its seeds.

use super::{Entry, Exposed};

/// What a curve runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    Trials,
    Minutes,
}

impl Over {
    /// Where a bug lies on the axis. One whose time was not stored was there at the end.
    fn of(self, entry: &Entry, bug: &Exposed) -> f64 {
        match self {
            Over::Trials => bug.trial as f64,
            Over::Minutes => bug.seconds.unwrap_or(entry.seconds) / 60.0,
        }
    }

    /// Where a campaign ended.
    pub fn end(self, entry: &Entry) -> f64 {
        match self {
            Over::Trials => entry.trials as f64,
            Over::Minutes => entry.seconds / 60.0,
        }
    }
}

/// The bugs of one campaign: each point holds from its place on, the last one is the end.
pub fn steps(entry: &Entry, over: Over) -> Vec<(f64, f64)> {
    let mut places: Vec<f64> = entry.bugs.iter().map(|b| over.of(entry, b)).collect();
    places.sort_by(f64::total_cmp);
    let total = places.len() as f64;
    let counted = places.iter().enumerate();
    let mut steps: Vec<(f64, f64)> = counted.map(|(i, x)| (*x, i as f64 + 1.0)).collect();
    let last = places.last().copied().unwrap_or(0.0);
    steps.push((over.end(entry).max(last), total));
    steps
}

/// The median of several campaigns at each place at which one of them changes. A campaign that
/// has ended keeps what it found.
pub fn median_steps(entries: &[&Entry], over: Over) -> Vec<(f64, f64)> {
    let curves: Vec<Vec<(f64, f64)>> = entries.iter().map(|e| steps(e, over)).collect();
    let mut places: Vec<f64> = curves.iter().flatten().map(|(x, _)| *x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let at = |curve: &Vec<(f64, f64)>, x: f64| {
        let before = curve.iter().take_while(|(place, _)| *place <= x);
        before.last().map_or(0.0, |(_, count)| *count)
    };
    let point = |x: f64| {
        let counts = curves.iter().map(|c| at(c, x)).collect();
        (x, median(counts).unwrap_or(0.0))
    };
    places.into_iter().map(point).collect()
}

/// The middle value, or the mean of the two in the middle.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_two() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 9.0, 1.0]), Some(3.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
    }
}
