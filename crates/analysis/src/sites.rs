//! The rules that make a call a site.
//!
//! As deep as possible (Legolas §3): a call of something outside the target is a site for what
//! that declares; a call of an own method is one only for what the method itself throws and lets
//! out; a call through an own interface or abstract method is one for whatever its
//! implementations let out, because the call is where their streams are known. No fault where all
//! streams of a call lead to memory only.

use std::cell::RefCell;
use std::collections::BTreeSet;

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use temblor_classfile::{InvokeKind, access};
use temblor_model::catalog::{Because, Diagnostic, Removed};
use temblor_model::names::dotted;
use temblor_model::settings::AnalysisSettings;
use temblor_model::site::{Io, Medium, Origin, Raise, Site, SiteKind};

use crate::calls::Targets;
use crate::effects::{Begin, Effect, Effects, Finder, What, stronger};
use crate::found::FoundSite;
use crate::ir::{Body, Call, OpKind, Sym, Val, Value};
use crate::media::Carrier;
use crate::program::{Declared, MethodId};
use crate::rules::Rules;
use crate::streams::{End, Leads, Makers};

/// The sites of a program, sorted by method and pc, and what was removed.
pub struct Sites {
    pub found: Vec<FoundSite>,
    pub removed: Vec<Removed>,
}

/// What a target says about single calls.
pub struct CallRules {
    calls: Rules<()>,
    io: Rules<Io>,
    not_io: Rules<()>,
}

impl CallRules {
    pub fn new(
        program: &crate::program::Program,
        settings: &AnalysisSettings,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> CallRules {
        let plain = |list: &[String]| -> Vec<(String, ())> {
            list.iter().map(|name| (name.clone(), ())).collect()
        };
        let io = settings.io.iter().map(|rule| {
            let (medium, direction) = (rule.medium, rule.direction);
            (rule.call.clone(), Io { medium, direction })
        });
        CallRules {
            calls: Rules::new(
                program,
                "analysis.calls",
                plain(&settings.calls),
                diagnostics,
            ),
            io: Rules::new(program, "analysis.io", io, diagnostics),
            not_io: Rules::new(
                program,
                "analysis.not_io",
                plain(&settings.not_io),
                diagnostics,
            ),
        }
    }
}

/// Finds all sites of the target's own code.
pub fn find(finder: &Finder<'_>, effects: &Effects, rules: &CallRules, reached: &[bool]) -> Sites {
    let ids: Vec<MethodId> = finder.program.method_ids().collect();
    let judge = |id: &MethodId| {
        let judge = Judge {
            finder,
            effects,
            rules,
            reached,
            asked: RefCell::default(),
        };
        judge.method(*id)
    };
    let found: Vec<(Vec<FoundSite>, Vec<Removed>)> = ids.par_iter().map(judge).collect();
    let mut sites = Sites {
        found: Vec::new(),
        removed: Vec::new(),
    };
    for (found, removed) in found {
        sites.found.extend(found);
        sites.removed.extend(removed);
    }
    sites
}

/// Judges the calls of one method.
struct Judge<'j> {
    finder: &'j Finder<'j>,
    effects: &'j Effects,
    rules: &'j CallRules,
    reached: &'j [bool],
    /// Where the streams of the method lead, as far as asked: its calls share them.
    asked: RefCell<FxHashMap<Val, Leads>>,
}

/// What can go wrong at a call.
#[derive(Default)]
struct Faults {
    raised: Vec<(Sym, Origin)>,
    io: Option<Io>,
    /// Where the streams of the call lead, if it has any.
    leads: Option<Leads>,
    /// These streams.
    operands: Vec<Val>,
    /// Something declared cannot happen: what shows it.
    invalid: Option<Invalid>,
}

/// Why a declared fault cannot happen.
#[derive(Clone, Copy)]
enum Invalid {
    /// All streams lead to memory; the first of it.
    Memory(End),
    /// The call names a charset that every JVM has.
    Charset,
}

impl Judge<'_> {
    fn method(&self, id: MethodId) -> (Vec<FoundSite>, Vec<Removed>) {
        let program = self.finder.program;
        let (mut found, mut removed) = (Vec::new(), Vec::new());
        let Some(body) = program.body(id) else {
            return (found, removed);
        };
        // A bridge only calls the method it bridges to, where the sites are.
        if program.method(id).access & access::BRIDGE != 0 {
            return (found, removed);
        }
        let mut calls: Vec<(u16, u32)> = body
            .ops
            .iter()
            .filter_map(|op| match op.kind {
                OpKind::Call(call) => Some((op.pc, call)),
                _ => None,
            })
            .collect();
        calls.sort_unstable();
        let place = program.full_name(id);
        let mut ordinals: FxHashMap<(Sym, Sym), u32> = FxHashMap::default();
        for (pc, index) in calls {
            let call = &body.calls[index as usize];
            if call.kind == InvokeKind::Dynamic {
                continue;
            }
            // Every call counts for the ordinal, so that a site's name does not depend on which
            // other calls are sites.
            let ordinal = ordinals.entry((call.class, call.name)).or_default();
            let k = *ordinal;
            *ordinal += 1;
            let Some(faults) = self.faults(id, body, index) else {
                continue;
            };
            let callee = format!(
                "{}.{}",
                dotted(program.str(call.class)),
                program.str(call.name)
            );
            let name = format!("{place}>{callee}#{k}");
            let line = body.line(pc);
            let wanted = || {
                self.rules
                    .calls
                    .of(program, call.class, call.name)
                    .is_some()
            };
            if !self.reached[id.0 as usize] {
                removed.push(Removed {
                    name,
                    line,
                    because: Because::Unreached,
                    why: "nothing in the program reaches its method".into(),
                });
                continue;
            }
            if faults.raised.is_empty() && faults.io.is_none() && !wanted() {
                removed.extend(faults.invalid.map(|invalid| Removed {
                    name,
                    line,
                    because: Because::Invalid,
                    why: self.why(invalid),
                }));
                continue;
            }
            let site = self.site(id, name, callee, faults);
            let place = program.place(id, pc);
            found.push(FoundSite {
                method: id,
                call: index,
                block: body.block_at(pc) as u32,
                site: Site {
                    class: place.class,
                    method: place.method,
                    desc: place.desc,
                    pc: place.pc,
                    line,
                    ..site
                },
            });
        }
        (found, removed)
    }

    fn site(&self, id: MethodId, name: String, callee: String, mut faults: Faults) -> Site {
        let program = self.finder.program;
        // Most general first: fewer ancestors.
        faults.raised.sort_by_key(|(class, origin)| {
            let class = program.class_named(*class);
            let ancestors = class.map_or(0, |c| program.ancestors(c).len());
            (ancestors, origin.exception.clone())
        });
        let io = faults.io.map(|io| narrowed(io, faults.leads));
        let may_be_memory = faults.leads.is_some_and(|l| l.memory.is_some());
        let mut makers = Makers::default();
        for operand in &faults.operands {
            let of_operand = self.finder.streams.makers(id, *operand);
            makers.memory.extend(of_operand.memory);
            makers.real.extend(of_operand.real);
        }
        let names = |makers: BTreeSet<MethodId>| -> Vec<String> {
            let names = makers.into_iter().map(|id| program.short_name(id));
            let names: BTreeSet<String> = names.collect();
            names.into_iter().collect()
        };
        Site {
            name,
            kind: SiteKind::Call,
            callee,
            exceptions: faults
                .raised
                .iter()
                .map(|(_, o)| o.exception.clone())
                .collect(),
            origins: faults
                .raised
                .into_iter()
                .map(|(_, origin)| origin)
                .collect(),
            io,
            io_target: io
                .and(faults.leads)
                .and_then(|leads| self.target(id, leads)),
            may_be_memory,
            memory_makers: names(makers.memory),
            real_makers: names(makers.real),
            ..Site::default()
        }
    }

    /// What can go wrong at a call; `None` when nothing is even declared.
    fn faults(&self, id: MethodId, body: &Body, index: u32) -> Option<Faults> {
        let finder = self.finder;
        let program = finder.program;
        let call = &body.calls[index as usize];
        let targets = finder.graph.targets(id, index);
        let mut faults = Faults::default();
        if targets.external {
            self.external(id, body, call, targets, &mut faults);
        }
        for reference in &targets.references {
            self.declares(*reference, program.declared(*reference).name, &mut faults);
            let io = finder.io_of(*reference, program.declared(*reference).name);
            faults.io = stronger(faults.io, io);
        }
        for callee in finder.raising(targets) {
            if targets.is_abstract {
                for effect in &self.effects.all[callee.0 as usize] {
                    self.implemented(id, body, call, effect, &mut faults);
                }
            } else {
                for effect in &self.effects.direct[callee.0 as usize] {
                    self.implemented(id, body, call, effect, &mut faults);
                }
            }
        }
        // An object that does I/O when it is made: made here, not by a constructor of its own.
        if let Some(receiver) = body.receiver(call)
            && matches!(body.value(receiver), Value::New(_))
        {
            let opened = targets.own.iter().filter_map(|c| self.effects.opens.get(c));
            faults.io = opened.fold(faults.io, |io, opened| stronger(io, Some(*opened)));
        }
        if let Some(io) = self.rules.io.of(program, call.class, call.name) {
            faults.io = Some(*io);
            let operands = finder.streams.operands(body, call);
            self.look(id, &operands, &mut faults);
            if faults.leads.is_some_and(|l| l.only_memory()) {
                faults.invalid = faults.leads.and_then(|l| l.memory).map(Invalid::Memory);
                faults.io = None;
            }
        }
        if self
            .rules
            .not_io
            .of(program, call.class, call.name)
            .is_some()
        {
            faults.io = None;
        }
        if faults.operands.is_empty() {
            faults.operands = finder.streams.operands(body, call);
        }
        let anything = !faults.raised.is_empty() || faults.io.is_some();
        let wanted = || {
            self.rules
                .calls
                .of(program, call.class, call.name)
                .is_some()
        };
        (anything || faults.invalid.is_some() || wanted()).then_some(faults)
    }

    fn external(
        &self,
        id: MethodId,
        body: &Body,
        call: &Call,
        targets: &Targets,
        faults: &mut Faults,
    ) {
        let finder = self.finder;
        let Some(resolved) = targets.resolved else {
            return;
        };
        let mut raised = finder.declared(resolved);
        raised.retain(|class| {
            let never = finder.names_charset(body, call, *class);
            if never {
                faults.invalid = Some(Invalid::Charset);
            }
            !never
        });
        let io = finder.external_io(call, resolved);
        if raised.is_empty() && io.is_none() {
            return;
        }
        let operands = finder.streams.operands(body, call);
        self.look(id, &operands, faults);
        if faults.leads.is_some_and(|l| l.only_memory()) {
            // Memory by its very type, and nothing declared: nobody would have thought of it.
            let carrier = finder.streams.media.of_sym(finder.program, call.class);
            if !raised.is_empty() || carrier != Some(Carrier::Memory) {
                faults.invalid = faults.leads.and_then(|l| l.memory).map(Invalid::Memory);
            }
            return;
        }
        faults.io = io;
        for class in raised {
            let place = self.declarer(resolved, call.name);
            self.raise(class, Raise::Declared, place, faults);
        }
    }

    /// `pkg.Class.method` of the declaration.
    fn declarer(&self, declared: Declared, name: Sym) -> String {
        let program = self.finder.program;
        let class = dotted(program.str(program.class(declared.class).name));
        format!("{class}.{}", program.str(name))
    }

    /// Adds what a method outside the target declares.
    fn declares(&self, declared: Declared, name: Sym, faults: &mut Faults) {
        for class in self.finder.declared(declared) {
            let place = self.declarer(declared, name);
            self.raise(class, Raise::Declared, place, faults);
        }
    }

    /// Adds what an own callee lets out, unless only memory streams would make it do so.
    fn implemented(
        &self,
        id: MethodId,
        body: &Body,
        call: &Call,
        effect: &Effect,
        faults: &mut Faults,
    ) {
        let is_device = matches!(effect.what, What::Io(io) if io.medium != Medium::Stream);
        if effect.through != 0 && !is_device {
            let args = body.args(call).iter().enumerate();
            let given = args.filter(|(n, _)| effect.through & (1 << (*n).min(31)) != 0);
            let given: Vec<Val> = given.map(|(_, arg)| *arg).collect();
            let leads = self.leads(id, &given);
            if leads.only_memory() {
                faults.invalid = faults.invalid.or(leads.memory.map(Invalid::Memory));
                return;
            }
            faults.leads.get_or_insert_default().add(leads);
            faults.operands.extend(&given);
        }
        match effect.what {
            What::Raise(class) => {
                let how = match effect.from.thrown {
                    true => Raise::Thrown,
                    false => Raise::Declared,
                };
                self.raise(class, how, self.begin(effect.from), faults);
            }
            What::Io(io) => faults.io = stronger(faults.io, Some(io)),
        }
    }

    fn raise(&self, class: Sym, how: Raise, place: String, faults: &mut Faults) {
        if !faults.raised.iter().any(|(known, _)| *known == class) {
            let exception = dotted(self.finder.program.str(class));
            let origin = Origin {
                exception,
                how,
                place,
            };
            faults.raised.push((class, origin));
        }
    }

    fn look(&self, id: MethodId, operands: &[Val], faults: &mut Faults) {
        if !operands.is_empty() {
            faults.leads = Some(self.leads(id, operands));
            faults.operands.extend(operands);
        }
    }

    fn leads(&self, id: MethodId, operands: &[Val]) -> Leads {
        let mut leads = Leads::default();
        let mut asked = self.asked.borrow_mut();
        for operand in operands {
            let known = asked.entry(*operand);
            leads.add(*known.or_insert_with(|| self.finder.streams.leads(id, *operand)));
        }
        leads
    }

    /// `pkg.Class.method:line` of where an effect begins.
    fn begin(&self, begin: Begin) -> String {
        let program = self.finder.program;
        let name = program.short_name(begin.method);
        let line = program.body(begin.method).and_then(|b| b.line(begin.pc));
        line.map_or(name.clone(), |line| format!("{name}:{line}"))
    }

    fn why(&self, invalid: Invalid) -> String {
        let program = self.finder.program;
        let end = match invalid {
            Invalid::Memory(end) => end,
            Invalid::Charset => return "the charset it names is in every JVM".into(),
        };
        let what = program
            .body(end.method)
            .map(|body| match body.value(end.val) {
                Value::New(class) => dotted(program.str(class)),
                _ => program
                    .text(end.method)
                    .map_or(String::new(), |t| t.of(end.val)),
            });
        format!(
            "its streams lead to memory only: {} in {}",
            what.unwrap_or_default(),
            program.full_name(end.method)
        )
    }

    /// The file or peer behind a stream, as its creator writes it.
    fn target(&self, id: MethodId, leads: Leads) -> Option<String> {
        let program = self.finder.program;
        let (kind, end) = match (leads.disk, leads.network) {
            (Some(end), None) => ("file", end),
            (None, Some(end)) => ("peer", end),
            _ => return None,
        };
        let body = program.body(end.method)?;
        let text = program.text(end.method)?;
        let val = match body.value(end.val) {
            // What it was opened with says more than that it was opened.
            Value::New(_) => {
                let call = self.finder.streams.construction(body, end.val)?;
                *body.args(call).get(1)?
            }
            _ => end.val,
        };
        let text = text.of(val);
        let elsewhere = end.method != id;
        let place = elsewhere.then(|| format!(" in {}", program.short_name(end.method)));
        Some(format!("{kind} {text}{}", place.unwrap_or_default()))
    }
}

/// A stream that leads to one medium only is I/O of that medium.
fn narrowed(io: Io, leads: Option<Leads>) -> Io {
    let medium = match (io.medium, leads) {
        (Medium::Stream, Some(leads)) => match (leads.disk, leads.network, leads.unknown) {
            (Some(_), None, false) => Medium::Disk,
            (None, Some(_), false) => Medium::Network,
            _ => Medium::Stream,
        },
        (medium, _) => medium,
    };
    Io { medium, ..io }
}
