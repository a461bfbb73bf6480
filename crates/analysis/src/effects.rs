//! What can really come out of a method: exceptions it raises and does not handle, and I/O it
//! does on streams that its caller gave it.
//!
//! Legolas §3: an exception counts where it is thrown and uncaught, or caught and thrown on.
//! An effect that happens only through streams among the parameters says which: a caller that
//! gives it memory does not see the effect.

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use temblor_classfile::{access, method_types};
use temblor_model::site::{Direction, Io, Medium};

use crate::calls::{CallGraph, Targets};
use crate::family::Family;
use crate::handling::Handling;
use crate::io;
use crate::ir::{Body, Call, OpKind, Sym, Val, Value};
use crate::load::class_of;
use crate::media::Carrier;
use crate::program::{Declared, MethodId, Program};
use crate::streams::Streams;

/// Parameters beyond this count as one: nobody hands over that many streams.
const MAX_PARAMS: u16 = 31;
/// Rounds until callers have everything of their callees; deeper chains than this do not add.
const MAX_ROUNDS: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    Raise(Sym),
    Io(Io),
}

/// One thing that can come out of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    pub what: What,
    /// Parameters through whose streams it happens; 0: it happens anyway.
    pub through: u32,
    /// Where it begins: the throw, or the call that leaves the target.
    pub from: Begin,
}

/// Where an effect begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    pub method: MethodId,
    pub pc: u16,
    /// A `throw`, not a call of something outside.
    pub thrown: bool,
}

/// The effects of every own method.
pub struct Effects {
    /// Thrown by the method itself and not handled in it.
    pub direct: Vec<Vec<Effect>>,
    /// Of anything it calls, too.
    pub all: Vec<Vec<Effect>>,
    /// The I/O that constructors do themselves: creating such an object is I/O.
    pub opens: FxHashMap<MethodId, Io>,
}

/// What finds effects.
pub struct Finder<'f> {
    pub program: &'f Program,
    pub graph: &'f CallGraph,
    pub family: &'f Family,
    pub streams: &'f Streams<'f>,
}

impl Effects {
    pub fn new(finder: &Finder<'_>) -> Effects {
        let program = finder.program;
        let ids: Vec<MethodId> = program.method_ids().collect();
        let local: Vec<Local> = ids.par_iter().map(|id| finder.local(*id)).collect();
        let mut all: Vec<Vec<Effect>> = local.iter().map(|l| l.effects.clone()).collect();
        let mut dirty = vec![true; ids.len()];
        for _ in 0..MAX_ROUNDS {
            let work: Vec<MethodId> = ids
                .iter()
                .copied()
                .filter(|id| std::mem::take(&mut dirty[id.0 as usize]))
                .collect();
            if work.is_empty() {
                break;
            }
            let grown: Vec<(MethodId, Vec<Effect>)> = work
                .par_iter()
                .filter_map(|id| {
                    let mut effects = all[id.0 as usize].clone();
                    let changed = finder.add_callees(*id, &local, &all, &mut effects);
                    changed.then_some((*id, effects))
                })
                .collect();
            for (id, effects) in grown {
                all[id.0 as usize] = effects;
                for site in &finder.graph.callers[id.0 as usize] {
                    dirty[site.method.0 as usize] = true;
                }
                dirty[id.0 as usize] = true;
            }
        }
        let mut opens: FxHashMap<MethodId, Io> = FxHashMap::default();
        for (id, local) in ids.iter().zip(&local) {
            if let Some(io) = local.opens {
                opens.insert(*id, io);
            }
        }
        // One constructor calls another: `this(...)`, `super(...)`, `new` for a part.
        for _ in 0..MAX_CHAIN {
            let chained: Vec<(MethodId, Io)> = opens
                .iter()
                .flat_map(|(id, io)| finder.chained(*id).map(|caller| (caller, *io)))
                .collect();
            for (caller, io) in chained {
                opens.entry(caller).or_insert(io);
            }
        }
        Effects {
            direct: local.into_iter().map(|l| l.direct).collect(),
            all,
            opens,
        }
    }
}

/// How many constructors may call each other before the I/O.
const MAX_CHAIN: usize = 3;

/// What a method does by itself.
#[derive(Default)]
struct Local {
    direct: Vec<Effect>,
    /// Direct effects, and those of calls that leave the target.
    effects: Vec<Effect>,
    /// For a constructor, the I/O it does that no parameter's stream explains.
    opens: Option<Io>,
    /// The blocks of calls to own methods that matter, with the call: everything else of the body
    /// is not looked at again.
    calls: Vec<(u32, u32)>,
}

/// Of two kinds of I/O the one that says more: writing before reading before opening before
/// setting.
pub fn stronger(a: Option<Io>, b: Option<Io>) -> Option<Io> {
    let rank = |io: Io| match io.direction {
        Direction::Local => 0,
        Direction::Control => 1,
        Direction::Read => 2,
        Direction::Write => 3,
    };
    match (a, b) {
        (Some(a), Some(b)) if rank(b) > rank(a) => Some(b),
        (a, b) => a.or(b),
    }
}

/// Adds an effect; tells whether that says anything new.
fn merge(effects: &mut Vec<Effect>, effect: Effect) -> bool {
    match effects.iter_mut().find(|e| e.what == effect.what) {
        None => {
            effects.push(effect);
            true
        }
        // It happens anyway: nothing is weaker than that.
        Some(known) if known.through == 0 => false,
        Some(known) if effect.through == 0 => {
            *known = effect;
            true
        }
        Some(known) => {
            let before = known.through;
            known.through |= effect.through;
            known.through != before
        }
    }
}

impl Finder<'_> {
    fn local(&self, id: MethodId) -> Local {
        let mut out = Local::default();
        let Some(body) = self.program.body(id) else {
            return out;
        };
        let handling = Handling::new(self.program, body);
        let is_constructor = self.program.str(self.program.method(id).name) == "<init>";
        for (at, block) in body.blocks.iter().enumerate() {
            let at = at as u32;
            for op in body.ops_of(block) {
                let begin = |thrown: bool| Begin {
                    method: id,
                    pc: op.pc,
                    thrown,
                };
                match op.kind {
                    OpKind::Throw(val) => {
                        let mut types = Vec::new();
                        self.thrown_types(id, body, val, &mut types, &mut Vec::new());
                        for class in types {
                            if self.family.has(self.program, class) && handling.escapes(class, at) {
                                let effect = Effect {
                                    what: What::Raise(class),
                                    through: 0,
                                    from: begin(true),
                                };
                                merge(&mut out.direct, effect);
                                merge(&mut out.effects, effect);
                            }
                        }
                    }
                    OpKind::Call(call) => {
                        let targets = self.graph.targets(id, call);
                        if !targets.own.is_empty() {
                            out.calls.push((at, call));
                        }
                        if is_constructor {
                            let io = self.opening(body, call, targets);
                            out.opens = stronger(out.opens, io);
                        }
                        for (what, through) in self.of_external(body, call, targets) {
                            let effect = Effect {
                                what,
                                through,
                                from: begin(false),
                            };
                            if passes(&handling, what, at) {
                                merge(&mut out.effects, effect);
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        out
    }

    /// Effects of a call that leaves the target.
    fn of_external(&self, body: &Body, call: u32, targets: &Targets) -> Vec<(What, u32)> {
        let call = &body.calls[call as usize];
        let mut out = Vec::new();
        if !targets.external {
            return out;
        }
        let Some(resolved) = targets.resolved else {
            return out;
        };
        let mut raised = self.declared(resolved);
        raised.retain(|class| !self.names_charset(body, call, *class));
        let io = self.external_io(call, resolved);
        if raised.is_empty() && io.is_none() {
            return out;
        }
        match self.through(body, call) {
            Through::Memory => {}
            Through::Always => {
                out.extend(raised.into_iter().map(|class| (What::Raise(class), 0)));
                // A device that the object keeps comes with the object.
                let kept = io.filter(|io| io.medium != Medium::Stream);
                if self.is_of_this(body, call) {
                    out.extend(kept.map(|io| (What::Io(io), 1)));
                }
            }
            Through::Params(mask) => {
                out.extend(raised.into_iter().map(|class| (What::Raise(class), mask)));
                out.extend(io.map(|io| (What::Io(io), mask)));
            }
        }
        out
    }

    /// The disk or network I/O of a call that goes to no stream of a parameter.
    fn opening(&self, body: &Body, call: u32, targets: &Targets) -> Option<Io> {
        let call = &body.calls[call as usize];
        let resolved = targets.resolved.filter(|_| targets.external)?;
        let io = self.external_io(call, resolved)?;
        let is_own_doing = match self.through(body, call) {
            Through::Always => true,
            Through::Params(_) | Through::Memory => false,
        };
        (is_own_doing && io.medium != Medium::Stream).then_some(io)
    }

    /// Constructors that call this one: on the object they construct, or to make a part of it.
    fn chained(&self, id: MethodId) -> impl Iterator<Item = MethodId> + '_ {
        let callers = self.graph.callers[id.0 as usize].iter();
        callers.filter_map(|site| {
            let body = self.program.body(site.method)?;
            let receiver = body.receiver(&body.calls[site.call as usize])?;
            let constructs = matches!(body.value(receiver), Value::Param(0) | Value::New(_));
            let name = self.program.str(self.program.method(site.method).name);
            (constructs && name == "<init>").then_some(site.method)
        })
    }

    /// The wanted exceptions that a method declares.
    pub fn declared(&self, resolved: Declared) -> Vec<Sym> {
        let class = self.program.str(self.program.class(resolved.class).name);
        if io::never_raises(class) {
            return Vec::new();
        }
        let declared = self.program.declared(resolved).exceptions.iter();
        declared
            .copied()
            .filter(|e| self.family.has(self.program, *e))
            .collect()
    }

    /// The call is on something that a field of `this` holds.
    fn is_of_this(&self, body: &Body, call: &Call) -> bool {
        let receiver = body.receiver(call).map(|r| body.value(body.uncast(r)));
        match receiver {
            Some(Value::Field { object, .. }) => body.value(object) == Value::Param(0),
            _ => false,
        }
    }

    /// The exception says that a charset is unknown, and the call names one that is always there.
    pub fn names_charset(&self, body: &Body, call: &Call, class: Sym) -> bool {
        self.program.str(class) == "java/io/UnsupportedEncodingException"
            && body.args(call).iter().any(|arg| match body.value(*arg) {
                Value::Text(text) => io::is_standard_charset(self.program.str(text)),
                _ => false,
            })
    }

    /// The I/O that a call of something outside the target does, by the class that has it or the
    /// class it is called on.
    pub fn external_io(&self, call: &Call, resolved: Declared) -> Option<Io> {
        let program = self.program;
        let io = self.io_of(resolved, call.name);
        let mut io = io.or_else(|| self.library_io(call, resolved))?;
        // `FileOutputStream.close` is declared further up: the type of the receiver knows.
        let carrier = self.streams.media.of_sym(program, call.class);
        io.medium = match carrier {
            Some(Carrier::Disk) => Medium::Disk,
            Some(Carrier::Network) => Medium::Network,
            _ => io.medium,
        };
        let direction = io::direction(io.medium, program.str(call.name));
        io.direction = direction.unwrap_or(io.direction);
        // What waits for nobody and cannot fail either is nothing.
        let raises = !program.declared(resolved).exceptions.is_empty();
        (io.direction != Direction::Local || raises).then_some(io)
    }

    /// A stream or channel of a library: it is I/O what is named and declared like it.
    fn library_io(&self, call: &Call, resolved: Declared) -> Option<Io> {
        let program = self.program;
        let carrier = self.streams.media.of_sym(program, call.class);
        let raises = !program.declared(resolved).exceptions.is_empty();
        let class = program.str(program.class(resolved.class).name);
        let is_library = !program.is_own(resolved.class) && raises && !io::never_raises(class);
        let medium = match carrier.filter(|_| is_library)? {
            Carrier::Memory => return None,
            Carrier::Disk => Medium::Disk,
            Carrier::Network => Medium::Network,
            Carrier::Stream => Medium::Stream,
        };
        let direction = io::direction(medium, program.str(call.name))?;
        Some(Io { medium, direction })
    }

    /// The I/O of a method outside the target.
    pub fn io_of(&self, declared: Declared, name: Sym) -> Option<Io> {
        let program = self.program;
        if program.is_own(declared.class) {
            return None;
        }
        let raises = !program.declared(declared).exceptions.is_empty();
        let class = program.class(declared.class).name;
        io::of_call(program.str(class), program.str(name), raises)
    }

    /// Through which parameters the streams of a call come, looking at this method only.
    fn through(&self, body: &Body, call: &Call) -> Through {
        let operands = self.streams.operands(body, call);
        if operands.is_empty() {
            return Through::Always;
        }
        let mut sum = Through::Memory;
        let mut seen = Vec::new();
        for operand in operands {
            sum = sum.or(self.local_source(body, operand, &mut seen));
        }
        sum
    }

    /// What was seen adds nothing when it is met again: each value is looked at once.
    fn local_source(&self, body: &Body, val: Val, seen: &mut Vec<Val>) -> Through {
        if seen.contains(&val) {
            return Through::Memory;
        }
        seen.push(val);
        let program = self.program;
        let media = self.streams.media;
        match body.value(val) {
            Value::Null => Through::Memory,
            Value::Param(n) => Through::Params(1 << n.min(MAX_PARAMS)),
            Value::Cast { a, .. } => self.local_source(body, a, seen),
            // What an object keeps came with the object.
            Value::Field {
                object,
                class,
                name,
            } => match (body.value(object), program.field(class, name)) {
                (Value::Param(0), Some((_, field))) => {
                    match media.of_desc(program, program.str(field.desc)) {
                        Some(Carrier::Memory) => Through::Memory,
                        Some(Carrier::Stream) => Through::Params(1),
                        _ => Through::Always,
                    }
                }
                _ => Through::Always,
            },
            Value::Phi(list) => {
                let operands = body.list(list).iter();
                operands.fold(Through::Memory, |sum, operand| {
                    sum.or(self.local_source(body, *operand, seen))
                })
            }
            Value::New(class) => match media.of_sym(program, class) {
                Some(Carrier::Memory) => Through::Memory,
                Some(Carrier::Stream) => match self.streams.construction(body, val) {
                    Some(call) => {
                        let args = self.construction_args(body, call);
                        let nothing = args.is_empty();
                        let sum = args.into_iter().fold(Through::Memory, |sum, arg| {
                            sum.or(self.local_source(body, arg, seen))
                        });
                        if nothing { Through::Always } else { sum }
                    }
                    None => Through::Always,
                },
                _ => Through::Always,
            },
            _ => Through::Always,
        }
    }

    fn construction_args(&self, body: &Body, call: &Call) -> Vec<Val> {
        let types = method_types(self.program.str(call.desc));
        let types = types.map(|(types, _)| types).unwrap_or_default();
        let args = body.args(call)[1..].iter().zip(types);
        let carried = args.filter(|(_, desc)| {
            let carrier = self.streams.media.of_desc(self.program, desc);
            carrier.is_some()
        });
        carried.map(|(arg, _)| *arg).collect()
    }

    /// Adds what own callees let out and this method does not handle.
    fn add_callees(
        &self,
        id: MethodId,
        local: &[Local],
        all: &[Vec<Effect>],
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(body) = self.program.body(id) else {
            return false;
        };
        let mut changed = false;
        let mut handling = None;
        for (block, call) in &local[id.0 as usize].calls {
            let targets = self.graph.targets(id, *call);
            for callee in self.raising(targets) {
                for effect in &all[callee.0 as usize] {
                    let through = match effect.through {
                        0 => 0,
                        mask => match self.translate(body, *call, mask) {
                            Through::Memory => continue,
                            Through::Always => 0,
                            Through::Params(mask) => mask,
                        },
                    };
                    // I/O that happens anyway is found where it happens.
                    if through == 0 && matches!(effect.what, What::Io(_)) {
                        continue;
                    }
                    let known = effects.iter().find(|e| e.what == effect.what);
                    let adds = known.is_none_or(|known| {
                        known.through != 0
                            && (through == 0 || known.through | through != known.through)
                    });
                    let handling =
                        handling.get_or_insert_with(|| Handling::new(self.program, body));
                    if adds && passes(handling, effect.what, *block) {
                        let effect = Effect { through, ..*effect };
                        changed |= merge(effects, effect);
                    }
                }
            }
        }
        changed
    }

    /// Own methods that may run and raise: what lives in memory by its very type raises no I/O
    /// fault, not even by hand.
    pub fn raising<'t>(&'t self, targets: &'t Targets) -> impl Iterator<Item = MethodId> + 't {
        let media = self.streams.media;
        let own = targets.own.iter().copied();
        own.filter(move |id| media.of(self.program.class_of(*id)) != Some(Carrier::Memory))
    }

    /// What a callee's parameters are at this call, in this method.
    fn translate(&self, body: &Body, call: u32, mask: u32) -> Through {
        let call = &body.calls[call as usize];
        let mut sum = Through::Memory;
        let mut seen = Vec::new();
        for (n, arg) in body.args(call).iter().enumerate() {
            if mask & (1 << (n as u32).min(u32::from(MAX_PARAMS))) != 0 {
                sum = sum.or(self.local_source(body, *arg, &mut seen));
            }
        }
        sum
    }

    /// The types a thrown value may have; what a handler caught is not among them.
    fn thrown_types(
        &self,
        id: MethodId,
        body: &Body,
        val: Val,
        out: &mut Vec<Sym>,
        seen: &mut Vec<Val>,
    ) {
        if seen.contains(&val) {
            return;
        }
        seen.push(val);
        let program = self.program;
        let mut add = |desc: &str| {
            let class = class_of(desc).and_then(|c| program.sym(c));
            out.extend(class);
        };
        match body.value(val) {
            Value::New(class) => out.push(class),
            Value::Cast { a, .. } if matches!(body.value(a), Value::Caught(_)) => {}
            // The cast says more than the declared type of what is cast.
            Value::Cast { class, .. } => out.push(class),
            Value::Call(call) => {
                let desc = program.str(body.calls[call as usize].desc);
                if let Some((_, result)) = method_types(desc) {
                    add(result);
                }
            }
            Value::Field { class, name, .. } | Value::Static { class, name } => {
                if let Some((_, field)) = program.field(class, name) {
                    add(program.str(field.desc));
                }
            }
            Value::Param(n) => {
                let method = program.method(id);
                let is_static = method.access & access::STATIC != 0;
                let n = usize::from(n) - usize::from(!is_static && n > 0);
                if let Some((types, _)) = method_types(program.str(method.desc))
                    && let Some(desc) = types.get(n)
                {
                    add(desc);
                }
            }
            Value::Phi(list) => {
                for operand in body.list(list) {
                    self.thrown_types(id, body, *operand, out, seen);
                }
            }
            _ => {}
        }
    }
}

/// Does an effect of a block leave the method?
fn passes(handling: &Handling<'_>, what: What, block: u32) -> bool {
    match what {
        What::Raise(class) => handling.escapes(class, block),
        What::Io(_) => true,
    }
}

/// How a call's streams come to a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Through {
    /// They are memory.
    Memory,
    Params(u32),
    /// From elsewhere.
    Always,
}

impl Through {
    fn or(self, other: Through) -> Through {
        match (self, other) {
            (Through::Always, _) | (_, Through::Always) => Through::Always,
            (Through::Memory, other) => other,
            (this, Through::Memory) => this,
            (Through::Params(a), Through::Params(b)) => Through::Params(a | b),
        }
    }
}
