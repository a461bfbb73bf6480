//! The reasons of one site, gathered from the whole catalog: as data, and as text.

use std::fmt::Write;

use serde::Serialize;
use temblor_model::catalog::{
    Guard, GuardedBy, Place, Reach, Region, SiteCatalog, State, Task, Timeout,
};
use temblor_model::site::{Direction, Medium, Origin, Raise, Site, SiteId, SiteKind};

use super::super::list::value;
use super::super::text::{WIDTH, count, line, method_of, place, words};

/// Waiters of one region that are named.
const WAITERS_SHOWN: usize = 3;

/// Why a site is there.
#[derive(Serialize)]
pub struct Reasons<'c> {
    id: SiteId,
    name: &'c str,
    kind: SiteKind,
    class: &'c str,
    method: &'c str,
    desc: &'c str,
    pc: u32,
    line: Option<u32>,
    callee: &'c str,
    exceptions: Vec<Exception<'c>>,
    io: Option<IoReason<'c>>,
    may_be_memory: bool,
    guards: Vec<GuardReason<'c>>,
    group: Option<GroupReason<'c>>,
    reached: Vec<Reached<'c>>,
}

#[derive(Serialize)]
struct Exception<'c> {
    name: &'c str,
    origins: Vec<&'c Origin>,
}

#[derive(Serialize)]
struct IoReason<'c> {
    medium: Medium,
    direction: Direction,
    target: Option<&'c str>,
}

/// One of the two is there.
#[derive(Serialize)]
struct GuardReason<'c> {
    region: Option<&'c Region>,
    timeout: Option<&'c Timeout>,
    via: &'c [String],
}

#[derive(Serialize)]
struct GroupReason<'c> {
    id: u32,
    sites: &'c [SiteId],
    representative: Option<SiteId>,
    representative_name: Option<&'c str>,
}

#[derive(Serialize)]
struct Reached<'c> {
    task: &'c Task,
    state: &'c State,
    via: &'c [String],
}

impl<'c> Reasons<'c> {
    pub fn of(catalog: &'c SiteCatalog, site: &'c Site) -> Reasons<'c> {
        let exception = |name: &'c String| Exception {
            name,
            origins: site
                .origins
                .iter()
                .filter(|o| o.exception == *name)
                .collect(),
        };
        let group = site.group.and_then(|id| catalog.groups.get(id as usize));
        Reasons {
            id: site.id,
            name: &site.name,
            kind: site.kind,
            class: &site.class,
            method: &site.method,
            desc: &site.desc,
            pc: site.pc,
            line: site.line,
            callee: &site.callee,
            exceptions: site.exceptions.iter().map(exception).collect(),
            io: site.io.map(|io| IoReason {
                medium: io.medium,
                direction: io.direction,
                target: site.io_target.as_deref(),
            }),
            may_be_memory: site.may_be_memory,
            guards: guards(catalog, site),
            group: group.map(|group| GroupReason {
                id: group.id,
                sites: &group.sites,
                representative: group.representative(),
                representative_name: group
                    .representative()
                    .and_then(|id| catalog.site(id))
                    .map(|s| s.name.as_str()),
            }),
            reached: reached(catalog, site),
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut sheet = Sheet {
            out: format!("site {}  {}\n", self.id, self.name),
        };
        let at = Place {
            class: self.class.into(),
            method: self.method.into(),
            desc: self.desc.into(),
            pc: self.pc,
            line: self.line,
        };
        match self.kind {
            SiteKind::Call => {
                sheet.row("at", &format!("{}, position {}", place(&at), self.pc));
                sheet.row("calls", self.callee);
            }
            SiteKind::Entry => sheet.row("at", &format!("the entry of {}", method_of(&at))),
        }
        self.exceptions_text(&mut sheet);
        self.io_text(&mut sheet);
        self.guards_text(&mut sheet);
        self.group_text(&mut sheet);
        self.reached_text(&mut sheet);
        sheet.out
    }

    fn exceptions_text(&self, sheet: &mut Sheet) {
        for (n, exception) in self.exceptions.iter().enumerate() {
            sheet.row(if n == 0 { "can throw" } else { "" }, exception.name);
            for origin in &exception.origins {
                let place = &origin.place;
                sheet.below(&match origin.how {
                    Raise::Declared => format!("declared by {place}, which has no body here"),
                    Raise::Thrown => format!("thrown in {place}, not handled on the way"),
                });
            }
        }
        match (self.exceptions.is_empty(), &self.io) {
            (false, _) => {}
            (true, Some(_)) => sheet.row("can throw", "nothing: only delays make sense"),
            (true, None) => sheet.row("can throw", "nothing; it is named in the target's data"),
        }
    }

    fn io_text(&self, sheet: &mut Sheet) {
        match &self.io {
            None => sheet.row("I/O", "none that is known: no delays"),
            Some(io) => {
                let target = io.target.map(|t| format!(", {t}")).unwrap_or_default();
                let (medium, direction) = (words(io.medium), words(io.direction));
                let so = match (io.direction, self.exceptions.is_empty()) {
                    (Direction::Local, _) => "it waits for nobody: no delays",
                    (_, true) => "so a delay makes sense",
                    (_, false) => "so a delay makes sense too",
                };
                sheet.row("I/O", &format!("{medium} {direction}{target}; {so}"));
            }
        }
        if self.may_be_memory {
            sheet.row(
                "",
                "some callers pass a stream that is in memory only, others do not",
            );
        }
    }

    fn guards_text(&self, sheet: &mut Sheet) {
        if self.guards.is_empty() {
            let nothing = "nothing: no region and no timeout is around it";
            sheet.row("guarded by", nothing);
        }
        for (n, guard) in self.guards.iter().enumerate() {
            let title = if n == 0 { "guarded by" } else { "" };
            if let Some(r) = guard.region {
                let (kind, at) = (words(r.kind), place(&r.place));
                sheet.row(title, &format!("region {}, {kind} on {}: {at}", r.id, r.on));
                sheet.chain(guard.via, "the site stands in it", 16);
                waiters(sheet, r);
            }
            if let Some(t) = guard.timeout {
                let value = value(t).map(|v| format!(" ({v})")).unwrap_or_default();
                let (kind, at) = (words(t.kind), place(&t.place));
                let expression = &t.expression;
                sheet.row(
                    title,
                    &format!("timeout {}, {kind} `{expression}`{value}: {at}", t.id),
                );
                sheet.chain(guard.via, "the site stands in the code it bounds", 16);
            }
        }
    }

    fn group_text(&self, sheet: &mut Sheet) {
        let Some(group) = &self.group else {
            return;
        };
        let members = count(group.sites.len(), "guarded site");
        sheet.row(
            "group",
            &format!("{}: {members} of one basic block", group.id),
        );
        match (group.representative, group.representative_name) {
            (Some(id), _) if id == self.id => sheet.row("", "this site stands for it"),
            (Some(id), Some(name)) => sheet.row("", &format!("site {id} stands for it: {name}")),
            _ => {}
        }
    }

    fn reached_text(&self, sheet: &mut Sheet) {
        if self.reached.is_empty() {
            let none = "no task: only from main, from a library's threads, or not at all";
            sheet.row("reached in", none);
        }
        let mut task = None;
        for (n, reached) in self.reached.iter().enumerate() {
            if task != Some(reached.task.id) {
                task = Some(reached.task.id);
                let title = if n == 0 { "reached in" } else { "" };
                sheet.row(title, &task_text(reached.task));
            }
            let state = reached.state;
            let condition = match state.condition.as_str() {
                "" if state.index == 0 => "the entry".to_string(),
                "" => "without a condition".to_string(),
                condition => format!("when {condition}"),
            };
            let line = state.place.line.map(|l| format!(", line {l}"));
            let line = line.unwrap_or_default();
            sheet.below(&format!("state {}, {condition}{line}", state.index));
            sheet.chain(reached.via, "in the task's own method", 18);
        }
    }
}

fn task_text(task: &Task) -> String {
    let closure = if task.closure { ", a closure" } else { "" };
    let variables = match task.variables.is_empty() {
        true => String::new(),
        false => format!("; its states depend on {}", task.variables.join(", ")),
    };
    let kind = words(task.kind);
    format!("task {}, {kind} {}{closure}{variables}", task.id, task.name)
}

fn waiters(sheet: &mut Sheet, region: &Region) {
    for waiter in region.waiters.iter().take(WAITERS_SHOWN) {
        let at = format!("{}{}", method_of(waiter), line(waiter.line));
        sheet.below(&format!("others wait at {at}"));
    }
    if region.waiters.len() > WAITERS_SHOWN {
        let more = region.waiters.len() - WAITERS_SHOWN;
        sheet.below(&format!("and at {}", count(more, "more place")));
    }
}

fn guards<'c>(catalog: &'c SiteCatalog, site: &'c Site) -> Vec<GuardReason<'c>> {
    let guard = |guard: &'c Guard| {
        let (region, timeout) = match guard.by {
            GuardedBy::Region(id) => (Some(catalog.regions.get(id as usize)?), None),
            GuardedBy::Timeout(id) => (None, Some(catalog.timeouts.get(id as usize)?)),
        };
        Some(GuardReason {
            region,
            timeout,
            via: &guard.via,
        })
    };
    site.guards.iter().filter_map(guard).collect()
}

fn reached<'c>(catalog: &'c SiteCatalog, site: &'c Site) -> Vec<Reached<'c>> {
    let reach = |reach: &'c Reach| {
        let state = catalog.states.get(reach.state as usize)?;
        Some(Reached {
            task: catalog.tasks.get(state.task as usize)?,
            state,
            via: &reach.via,
        })
    };
    site.states.iter().filter_map(reach).collect()
}

/// Rows of a title and a text, with lines below them.
struct Sheet {
    out: String,
}

impl Sheet {
    fn row(&mut self, title: &str, text: &str) {
        let _ = writeln!(self.out, "  {title:<11} {text}");
    }

    fn below(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:16}{text}", "");
    }

    /// A chain of calls on one line, or a line each where it is long.
    fn chain(&mut self, via: &[String], none: &str, indent: usize) {
        let whole = match via {
            [] => none.to_string(),
            via => format!("through {}", via.join(" -> ")),
        };
        if via.len() < 2 || indent + whole.chars().count() <= WIDTH {
            let _ = writeln!(self.out, "{:indent$}{whole}", "");
            return;
        }
        for (n, call) in via.iter().enumerate() {
            let word = if n == 0 { "through" } else { "     ->" };
            let _ = writeln!(self.out, "{:indent$}{word} {call}", "");
        }
    }
}
