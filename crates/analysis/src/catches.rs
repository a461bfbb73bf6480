//! Where methods handle exceptions that come out of their calls, by line: a stack is all that a
//! trial has of an exception's way up.

use std::collections::BTreeMap;

use rayon::prelude::*;
use temblor_model::catalog::Catch;

use crate::handling::Handling;
use crate::ir::{Body, OpKind, Sym};
use crate::program::Program;

/// Runs of lines, by the first and the last.
type Lines = Vec<(u32, u32)>;

/// Of these exceptions, in methods that something reaches.
pub fn find(program: &Program, reached: &[bool], raised: &[String]) -> Vec<Catch> {
    let sym = |name: &String| program.sym(&name.replace('.', "/"));
    let raised: Vec<Option<Sym>> = raised.iter().map(sym).collect();
    let ids: Vec<_> = program.method_ids().collect();
    let ids = ids.into_par_iter().filter(|id| reached[id.0 as usize]);
    let found = ids.filter_map(|id| {
        let by_lines = by_lines(program, program.body(id)?, &raised);
        let method = program.short_name(id);
        let catches = by_lines.into_iter().map(|(lines, exceptions)| Catch {
            method: method.clone(),
            exceptions,
            lines,
        });
        Some(catches.collect::<Vec<_>>())
    });
    let mut catches: Vec<Catch> = found.flatten_iter().collect();
    catches.sort();
    catches
}

/// Runs of lines with calls whose exceptions the body handles, and which these are.
fn by_lines(program: &Program, body: &Body, raised: &[Option<Sym>]) -> BTreeMap<Lines, Vec<u32>> {
    let mut out: BTreeMap<Lines, Vec<u32>> = BTreeMap::new();
    if body.blocks.iter().all(|block| block.handlers.is_empty()) {
        return out;
    }
    let handling = Handling::new(program, body);
    for (exception, class) in raised.iter().enumerate() {
        let Some(class) = class else { continue };
        // Handled or not, per line with calls.
        let mut lines: BTreeMap<u32, bool> = BTreeMap::new();
        for (at, block) in body.blocks.iter().enumerate() {
            let calls = body.ops_of(block).iter();
            let mut calls = calls
                .filter(|op| matches!(op.kind, OpKind::Call(_)))
                .peekable();
            if calls.peek().is_none() {
                continue;
            }
            let handled = !handling.escapes(*class, at as u32);
            for line in calls.filter_map(|op| body.line(op.pc)) {
                *lines.entry(line).or_default() |= handled;
            }
        }
        let runs = runs(&lines);
        if !runs.is_empty() {
            out.entry(runs).or_default().push(exception as u32);
        }
    }
    out
}

/// First and last line of each run of lines that are set.
fn runs(lines: &BTreeMap<u32, bool>) -> Lines {
    let mut runs = Lines::new();
    let mut goes_on = false;
    for (line, is_set) in lines {
        match (is_set, goes_on, runs.last_mut()) {
            (true, true, Some(run)) => run.1 = *line,
            (true, ..) => runs.push((*line, *line)),
            (false, ..) => {}
        }
        goes_on = *is_set;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_calls_in_between_end_a_run() {
        let lines = [(3, true), (5, true), (6, false), (9, true), (10, false)];
        assert_eq!(runs(&BTreeMap::from(lines)), [(3, 5), (9, 9)]);
        assert_eq!(runs(&BTreeMap::from([(3, false)])), []);
    }
}
