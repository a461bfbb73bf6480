//! Where a stream leads: to memory, to a file, to a peer, or nobody knows.
//!
//! A backward walk over definitions, through wrappers, fields, factories and parameters. It is
//! inter-procedural and context-sensitive: what enters a method through a call leaves it to that
//! call's arguments. Whatever the walk cannot follow may be real I/O.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};
use temblor_classfile::{InvokeKind, access, method_types};

use crate::calls::{CallGraph, CallSite};
use crate::ir::{Body, Call, OpKind, Sym, Val, Value};
use crate::load::class_of;
use crate::media::{Carrier, Media};
use crate::program::{ClassId, MethodId, Program};

/// Steps one question may take.
const MAX_STEPS: u32 = 3_000;
/// Steps that may be under way at once: each takes some of the thread's stack.
const MAX_DEPTH: u32 = 256;
/// Values that meet in one, when asked for their types.
const MAX_PHIS: u32 = 6;
/// Calls a walk may descend into.
const MAX_CONTEXT: usize = 12;

/// A definition that a walk ended at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub method: MethodId,
    pub val: Val,
}

/// What a stream may lead to, with the first definition that shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leads {
    pub memory: Option<End>,
    pub disk: Option<End>,
    pub network: Option<End>,
    pub unknown: bool,
}

impl Leads {
    pub fn only_memory(&self) -> bool {
        self.memory.is_some() && !self.may_be_real()
    }

    pub fn may_be_real(&self) -> bool {
        self.disk.is_some() || self.network.is_some() || self.unknown
    }

    pub fn add(&mut self, other: Leads) {
        self.memory = self.memory.or(other.memory);
        self.disk = self.disk.or(other.disk);
        self.network = self.network.or(other.network);
        self.unknown |= other.unknown;
    }
}

/// The methods that make the streams which a value may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Makers {
    /// Of streams that are in memory only.
    pub memory: BTreeSet<MethodId>,
    /// Of all others.
    pub real: BTreeSet<MethodId>,
}

/// What answers questions about streams.
pub struct Streams<'s> {
    pub program: &'s Program,
    pub graph: &'s CallGraph,
    pub media: &'s Media,
    /// For each own method whether anything reaches it: what dead code passes on counts for nothing.
    reached: &'s [bool],
    /// Everything that is ever stored to a field, by the class that declares it and its name.
    stores: FxHashMap<(Sym, Sym), Vec<(MethodId, Val)>>,
    init: Option<Sym>,
}

impl<'s> Streams<'s> {
    pub fn new(
        program: &'s Program,
        graph: &'s CallGraph,
        media: &'s Media,
        reached: &'s [bool],
    ) -> Streams<'s> {
        let mut stores: FxHashMap<(Sym, Sym), Vec<(MethodId, Val)>> = FxHashMap::default();
        for id in program.method_ids().filter(|id| reached[id.0 as usize]) {
            let Some(body) = program.body(id) else {
                continue;
            };
            for op in &body.ops {
                if let OpKind::Put {
                    class, name, value, ..
                } = op.kind
                {
                    let carries = field_carrier(program, media, class, name).is_some();
                    if carries && body.value(value) != Value::Null {
                        let owner = program.field_owner(class, name);
                        stores.entry((owner, name)).or_default().push((id, value));
                    }
                }
            }
        }
        Streams {
            program,
            graph,
            media,
            reached,
            stores,
            init: program.sym("<init>"),
        }
    }

    /// Where a value of a method leads, whoever calls the method.
    pub fn leads(&self, method: MethodId, val: Val) -> Leads {
        let mut walk = self.walk(None);
        walk.value(method, val, &mut Vec::new(), None);
        // A walk that met nothing, for example a parameter of a method nobody calls.
        if walk.leads == Leads::default() {
            walk.leads.unknown = true;
        }
        walk.leads
    }

    /// Who makes the streams that a value of a method may be, as far as a walk can follow. A
    /// maker that is on the stack of a hit tells which of them it is.
    pub fn makers(&self, method: MethodId, val: Val) -> Makers {
        let mut walk = self.walk(Some(Makers::default()));
        walk.value(method, val, &mut Vec::new(), None);
        walk.makers.unwrap_or_default()
    }

    fn walk(&self, makers: Option<Makers>) -> Walk<'_, 's> {
        Walk {
            streams: self,
            steps: 0,
            depth: 0,
            seen: FxHashSet::default(),
            leads: Leads::default(),
            makers,
        }
    }

    /// The operands of a call that its I/O goes through: the receiver if it is a stream, else
    /// all arguments that are.
    pub fn operands(&self, body: &Body, call: &Call) -> Vec<Val> {
        let args = body.args(call);
        if let Some(receiver) = body.receiver(call)
            && self.media.of_sym(self.program, call.class).is_some()
        {
            return vec![receiver];
        }
        let skip = args.len().saturating_sub(self.types(call).len());
        let types = self.types(call);
        let carried = args[skip..]
            .iter()
            .zip(&types)
            .filter(|(_, desc)| self.media.of_desc(self.program, desc).is_some());
        carried.map(|(arg, _)| *arg).collect()
    }

    fn types(&self, call: &Call) -> Vec<&str> {
        let types = method_types(self.program.str(call.desc));
        types.map(|(types, _)| types).unwrap_or_default()
    }

    /// The constructor call of a new object.
    pub fn construction<'b>(&self, body: &'b Body, object: Val) -> Option<&'b Call> {
        body.calls.iter().find(|call| {
            call.kind == InvokeKind::Special
                && Some(call.name) == self.init
                && body.args(call).first() == Some(&object)
        })
    }
}

fn field_carrier(program: &Program, media: &Media, class: Sym, name: Sym) -> Option<Carrier> {
    let (_, field) = program.field(class, name)?;
    media.of_desc(program, program.str(field.desc))
}

fn hash(context: &[CallSite]) -> u64 {
    let bytes = context.iter().flat_map(|site| {
        let (method, call) = (site.method.0.to_le_bytes(), site.call.to_le_bytes());
        method.into_iter().chain(call)
    });
    bytes.fold(temblor_model::FNV_START, |hash, byte| {
        temblor_model::fnv64_from(hash, &[byte])
    })
}

/// What is known of a parameter on the way up: its number, and the class of the object it is.
/// A method that calls `r.write(this)` was entered for each kind of `r`; for one of them only the
/// callers that pass that kind count.
type Pin = Option<(u16, ClassId)>;

struct Walk<'w, 's> {
    streams: &'w Streams<'s>,
    steps: u32,
    depth: u32,
    /// Values, each with the hash of the calls it was reached through.
    seen: FxHashSet<(MethodId, Val, u64, Pin)>,
    leads: Leads,
    /// Collected where they are asked for; the walk then goes on to its end.
    makers: Option<Makers>,
}

impl Walk<'_, '_> {
    fn end(&mut self, carrier: Carrier, method: MethodId, val: Val) {
        if let Some(makers) = &mut self.makers {
            match carrier {
                Carrier::Memory => makers.memory.insert(method),
                Carrier::Disk | Carrier::Network | Carrier::Stream => makers.real.insert(method),
            };
        }
        let end = Some(End { method, val });
        let leads = &mut self.leads;
        match carrier {
            Carrier::Memory => leads.memory = leads.memory.or(end),
            Carrier::Disk => leads.disk = leads.disk.or(end),
            Carrier::Network => leads.network = leads.network.or(end),
            Carrier::Stream => leads.unknown = true,
        }
    }

    /// Nothing that is still to come can change the answer.
    fn is_decided(&self) -> bool {
        self.makers.is_none() && self.leads.unknown && self.leads.memory.is_some()
    }

    fn value(&mut self, method: MethodId, val: Val, context: &mut Vec<CallSite>, pin: Pin) {
        self.steps += 1;
        if self.steps > MAX_STEPS || self.depth > MAX_DEPTH {
            self.leads.unknown = true;
            return;
        }
        self.depth += 1;
        self.definition(method, val, context, pin);
        self.depth -= 1;
    }

    fn definition(&mut self, method: MethodId, val: Val, context: &mut Vec<CallSite>, pin: Pin) {
        if self.is_decided() || !self.seen.insert((method, val, hash(context), pin)) {
            return;
        }
        let streams = self.streams;
        let program = streams.program;
        let Some(body) = program.body(method) else {
            self.leads.unknown = true;
            return;
        };
        match body.value(val) {
            Value::Null => {}
            Value::Cast { a, .. } => self.value(method, a, context, pin),
            Value::Phi(list) => {
                for operand in body.list(list) {
                    self.value(method, *operand, context, pin);
                }
            }
            Value::New(class) => self.created(method, body, val, class, context, pin),
            Value::Call(call) => self.result(method, body, call, context, pin),
            Value::Param(index) => self.parameter(method, val, index, context, pin),
            Value::Field { class, name, .. } | Value::Static { class, name } => {
                self.field(method, val, class, name);
            }
            _ => self.leads.unknown = true,
        }
    }

    fn created(
        &mut self,
        method: MethodId,
        body: &Body,
        val: Val,
        class: Sym,
        context: &mut Vec<CallSite>,
        pin: Pin,
    ) {
        let carrier = self.streams.media.of_sym(self.streams.program, class);
        if let Some(carrier) = carrier.filter(|c| *c != Carrier::Stream) {
            return self.end(carrier, method, val);
        }
        let Some(call) = self.streams.construction(body, val) else {
            self.leads.unknown = true;
            return;
        };
        let types = self.streams.types(call);
        let args = body.args(call);
        let mut given = false;
        for (arg, desc) in args[1..].iter().zip(types) {
            if self
                .streams
                .media
                .of_desc(self.streams.program, desc)
                .is_some()
            {
                given = true;
                self.value(method, *arg, context, pin);
            }
        }
        if !given {
            self.kept(method, val, class);
        }
    }

    /// An own object that is given no stream leads where the streams it keeps do.
    fn kept(&mut self, method: MethodId, val: Val, class: Sym) {
        let program = self.streams.program;
        let own = program.class_named(class).filter(|c| program.is_own(*c));
        let fields = own.map_or(&[][..], |c| &program.class(c).fields);
        let mut found = false;
        for field in fields {
            let desc = program.str(field.desc);
            let is_kept = field.access & access::STATIC == 0;
            if is_kept && self.streams.media.of_desc(program, desc).is_some() {
                found = true;
                self.field(method, val, class, field.name);
            }
        }
        self.leads.unknown |= !found;
    }

    fn result(
        &mut self,
        method: MethodId,
        body: &Body,
        index: u32,
        context: &mut Vec<CallSite>,
        pin: Pin,
    ) {
        let call = &body.calls[index as usize];
        let program = self.streams.program;
        let media = self.streams.media;
        let targets = self.streams.graph.targets(method, index);
        let returned = method_types(program.str(call.desc)).map(|(_, result)| result);
        let by_type = returned.and_then(|desc| media.of_desc(program, desc));
        if let Some(carrier @ (Carrier::Memory | Carrier::Disk | Carrier::Network)) = by_type {
            return self.end(carrier, method, call.result);
        }
        // Whatever a socket gives leads to its peer, own subclass or not.
        let receiver = body.receiver(call).and(media.of_sym(program, call.class));
        if let Some(carrier @ (Carrier::Memory | Carrier::Disk | Carrier::Network)) = receiver
            && by_type.is_some()
        {
            return self.end(carrier, method, call.result);
        }
        if !targets.own.is_empty() && context.len() < MAX_CONTEXT {
            context.push(CallSite {
                method,
                call: index,
            });
            for callee in &targets.own {
                self.returns(*callee, context);
            }
            context.pop();
            self.leads.unknown |= targets.external && targets.is_abstract;
            return;
        }
        // Outside the target: what is made of streams leads where these do, and what a socket or
        // a file gives leads there.
        let class = program.str(call.class);
        if class == "java/nio/file/Files" {
            return self.end(Carrier::Disk, method, call.result);
        }
        let operands = self.streams.operands(body, call);
        if operands.is_empty() {
            match class.starts_with("java/net/") {
                true => self.end(Carrier::Network, method, call.result),
                false => self.leads.unknown = true,
            }
        }
        for operand in operands {
            self.value(method, operand, context, pin);
        }
    }

    fn returns(&mut self, callee: MethodId, context: &mut Vec<CallSite>) {
        let Some(body) = self.streams.program.body(callee) else {
            self.leads.unknown = true;
            return;
        };
        for op in &body.ops {
            if let OpKind::Return(val) = op.kind {
                self.value(callee, val, context, None);
            }
        }
    }

    fn parameter(
        &mut self,
        method: MethodId,
        val: Val,
        index: u16,
        context: &mut Vec<CallSite>,
        pin: Pin,
    ) {
        let streams = self.streams;
        if let Some(carrier) = self.parameter_carrier(method, index) {
            return self.end(carrier, method, val);
        }
        if let Some(site) = context.pop() {
            self.argument(site, index, context, None);
            context.push(site);
            return;
        }
        let callers = streams.graph.callers[method.0 as usize].iter();
        let callers: Vec<&CallSite> = callers
            .filter(|site| streams.reached[site.method.0 as usize])
            .collect();
        for site in &callers {
            if let Some(pin) = self.pinned(method, **site, pin) {
                self.argument(**site, index, context, pin);
            }
        }
        let made = streams.graph.closures.get(&method);
        for (maker, closure) in made.into_iter().flatten() {
            let Some(body) = streams.program.body(*maker) else {
                continue;
            };
            let captured = body.list(body.closures[*closure as usize].captured);
            match captured.get(usize::from(index)) {
                Some(val) => self.value(*maker, *val, context, None),
                None => self.leads.unknown = true,
            }
        }
        if callers.is_empty() && made.is_none() {
            self.leads.unknown = true;
        }
    }

    /// Where a parameter's own type decides.
    fn parameter_carrier(&self, method: MethodId, index: u16) -> Option<Carrier> {
        let carrier = self.streams.media.of(self.parameter_class(method, index)?);
        carrier.filter(|c| *c != Carrier::Stream)
    }

    fn parameter_class(&self, method: MethodId, index: u16) -> Option<ClassId> {
        let program = self.streams.program;
        let is_static = program.method(method).access & access::STATIC != 0;
        let n = match (is_static, index) {
            (false, 0) => return Some(program.class_of(method)),
            (false, n) => n - 1,
            (true, n) => n,
        };
        let (types, _) = method_types(program.str(program.method(method).desc))?;
        program.class_id(class_of(types.get(usize::from(n))?)?)
    }

    /// What is known of a caller's parameters, or `None` if this call cannot be the one: it
    /// passes an object of another kind.
    fn pinned(&self, callee: MethodId, site: CallSite, pin: Pin) -> Option<Pin> {
        let program = self.streams.program;
        let body = program.body(site.method)?;
        let args = body.args(&body.calls[site.call as usize]);
        let param = |val: Val| match body.value(body.uncast(val)) {
            Value::Param(n) => Some(n),
            _ => None,
        };
        if let Some((n, class)) = pin {
            let arg = *args.get(usize::from(n))?;
            if !self.may_be(site.method, body, arg, class, 0) {
                return None;
            }
            return Some(param(arg).map(|n| (n, class)));
        }
        let is_static = program.method(callee).access & access::STATIC != 0;
        let receiver = args.first().filter(|_| !is_static);
        let receiver = receiver.and_then(|r| param(*r));
        Some(receiver.map(|n| (n, program.class_of(callee))))
    }

    /// May a value be an object of this class, by its declared type?
    fn may_be(&self, method: MethodId, body: &Body, val: Val, class: ClassId, depth: u32) -> bool {
        let program = self.streams.program;
        let by_desc = |desc: &str| class_of(desc).and_then(|c| program.class_id(c));
        let declared = match body.value(val) {
            Value::New(of) => {
                let of = program.class_named(of);
                return of.is_none_or(|of| program.is_subtype(of, class));
            }
            Value::Cast { class, .. } => program.class_named(class),
            Value::Call(call) => {
                let desc = program.str(body.calls[call as usize].desc);
                method_types(desc).and_then(|(_, result)| by_desc(result))
            }
            Value::Field { class, name, .. } | Value::Static { class, name } => {
                let field = program.field(class, name);
                field.and_then(|(_, field)| by_desc(program.str(field.desc)))
            }
            Value::Param(n) => self.parameter_class(method, n),
            // Values meet around loops: what was asked for too often may be anything.
            Value::Phi(list) if depth < MAX_PHIS => {
                let mut operands = body.list(list).iter();
                return operands.any(|o| self.may_be(method, body, *o, class, depth + 1));
            }
            _ => None,
        };
        declared.is_none_or(|of| program.is_subtype(class, of) || program.is_subtype(of, class))
    }

    fn argument(&mut self, site: CallSite, index: u16, context: &mut Vec<CallSite>, pin: Pin) {
        let Some(body) = self.streams.program.body(site.method) else {
            self.leads.unknown = true;
            return;
        };
        let call = &body.calls[site.call as usize];
        match body.args(call).get(usize::from(index)) {
            Some(arg) => self.value(site.method, *arg, context, pin),
            None => self.leads.unknown = true,
        }
    }

    fn field(&mut self, method: MethodId, val: Val, class: Sym, name: Sym) {
        let program = self.streams.program;
        if let Some(carrier) = field_carrier(program, self.streams.media, class, name)
            && carrier != Carrier::Stream
        {
            return self.end(carrier, method, val);
        }
        let key = (program.field_owner(class, name), name);
        match self.streams.stores.get(&key) {
            Some(stores) => {
                // What was stored came from anywhere: its own callers, not this walk's.
                for (from, val) in stores {
                    self.value(*from, *val, &mut Vec::new(), None);
                }
            }
            None => self.leads.unknown = true,
        }
    }
}
