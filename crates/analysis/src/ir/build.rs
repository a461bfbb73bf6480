//! Class bytes to [`Class`]. One broken method costs that method its body only.

use lasso::ThreadedRodeo;
use rustc_hash::FxHashMap;
use temblor_classfile::{
    BootstrapMethod, ClassFile, Code, ConstantPool, Method as RawMethod, ReadError, class_hash,
    find_attribute, method_types,
};

use super::cfg;
use super::frame::{Frame, Malformed, Values};
use super::{Block, Body, Call, Class, Closure, Field, List, Method, Op, OpKind, Sym, Val, Value};

/// Whose bodies are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Members only: a class outside the target.
    Members,
    Bodies,
}

/// Builds a class; what could not be read of its methods is told to `trouble`.
pub fn class(
    bytes: &[u8],
    names: &ThreadedRodeo,
    depth: Depth,
    trouble: &mut impl FnMut(String),
) -> Result<Class, ReadError> {
    let file = ClassFile::parse(bytes)?;
    let intern = |text: &str| names.get_or_intern(text);
    let bootstraps = match depth {
        Depth::Bodies => file.bootstrap_methods().unwrap_or_default(),
        Depth::Members => Vec::new(),
    };
    let mut methods = Vec::with_capacity(file.methods().len());
    for raw in file.methods() {
        let mut method = Method {
            name: intern(&raw.name.to_str()),
            desc: intern(&raw.descriptor.to_str()),
            access: raw.access,
            exceptions: file
                .exceptions(raw)?
                .iter()
                .map(|e| intern(&e.to_str()))
                .collect(),
            annotated: find_attribute(file.attributes_of(raw), "RuntimeVisibleAnnotations")
                .is_some(),
            body: None,
            coverage: Box::default(),
            code_len: 0,
        };
        if depth == Depth::Bodies {
            match add_body(&file, raw, names, &bootstraps, &mut method) {
                Ok(()) => {}
                Err(cause) => trouble(format!(
                    "{}{}: {cause}; its calls are not analysed",
                    raw.name.to_str(),
                    raw.descriptor.to_str()
                )),
            }
        }
        methods.push(method);
    }
    let mut fields = Vec::with_capacity(file.fields().len());
    for raw in file.fields() {
        fields.push(Field {
            name: intern(&raw.name.to_str()),
            desc: intern(&raw.descriptor.to_str()),
            access: raw.access,
            constant: find_attribute(file.attributes_of(raw), "ConstantValue").is_some(),
            signature: file.signature_of(raw)?.map(|s| intern(&s.to_str())),
        });
    }
    Ok(Class {
        name: intern(&file.name.to_str()),
        super_name: file.super_name.map(|n| intern(&n.to_str())),
        interfaces: file
            .interfaces
            .iter()
            .map(|n| intern(&n.to_str()))
            .collect(),
        access: file.access,
        hash: class_hash(bytes),
        fields: fields.into(),
        methods: methods.into(),
    })
}

fn add_body(
    file: &ClassFile<'_>,
    raw: &RawMethod<'_>,
    names: &ThreadedRodeo,
    bootstraps: &[BootstrapMethod<'_>],
    method: &mut Method,
) -> Result<(), String> {
    let Some(code) = file.code(raw).map_err(|e| e.to_string())? else {
        return Ok(());
    };
    method.code_len = code.bytes().len() as u32;
    method.coverage = code.block_starts().map_err(|e| e.to_string())?.into();
    let mut intern = |text: &str| names.get_or_intern(text);
    let blocks = cfg::blocks(file, &code, &mut intern).map_err(|e| e.to_string())?;
    let builder = MethodBuilder {
        class: file,
        names,
        bootstraps,
        values: Values::default(),
        lists: Vec::new(),
        ops: Vec::new(),
        calls: Vec::new(),
        closures: Vec::new(),
        named: Vec::new(),
        phis: Vec::new(),
        constants: Vec::new(),
        variables: variables(&code, file.pool(), names),
    };
    let body = builder
        .run(raw, &code, blocks)
        .map_err(|Malformed| "its code does not fit its stack".to_string())?;
    method.body = Some(Box::new(body));
    Ok(())
}

/// A variable of the source: slot, first pc, pc after the last, name.
type Variable = (u16, u16, u32, Sym);

fn variables(code: &Code<'_>, pool: &ConstantPool<'_>, names: &ThreadedRodeo) -> Vec<Variable> {
    let mut out = Vec::new();
    if let Ok(rows) = code.local_variables(pool) {
        for row in rows {
            let end = u32::from(row.start) + u32::from(row.length);
            out.push((
                row.index,
                row.start,
                end,
                names.get_or_intern(row.name.to_str()),
            ));
        }
    }
    out
}

/// A method under construction.
pub(super) struct MethodBuilder<'c, 'b> {
    pub class: &'c ClassFile<'b>,
    names: &'c ThreadedRodeo,
    pub bootstraps: &'c [BootstrapMethod<'b>],
    pub values: Values,
    pub lists: Vec<Val>,
    pub ops: Vec<Op>,
    pub calls: Vec<Call>,
    pub closures: Vec<Closure>,
    named: Vec<(Val, Sym)>,
    variables: Vec<Variable>,
    /// Phis, with the slot and the block they were made for.
    phis: Vec<(Val, u16, u32)>,
    constants: Vec<(Val, u32, Val)>,
}

/// In place of a slot: the phi is of the stack.
const ON_STACK: u16 = u16::MAX;

impl MethodBuilder<'_, '_> {
    pub fn intern(&self, text: &str) -> Sym {
        self.names.get_or_intern(text)
    }

    /// A value was stored to a local: the variable that lives there from `pc` on names it.
    pub fn name_local(&mut self, val: Val, slot: u16, pc: u16) {
        if let Some(name) = self.variable(slot, pc) {
            self.named.push((val, name));
        }
    }

    fn variable(&self, slot: u16, pc: u16) -> Option<Sym> {
        let covers = |v: &&Variable| v.0 == slot && v.1 <= pc && u32::from(pc) < v.2;
        self.variables.iter().find(covers).map(|v| v.3)
    }

    fn run(
        mut self,
        raw: &RawMethod<'_>,
        code: &Code<'_>,
        mut blocks: Vec<Block>,
    ) -> Result<Body, Malformed> {
        let (entry, params) = self.entry(raw, code)?;
        let order = cfg::reverse_post_order(&blocks);
        let joins = joins(&blocks);
        let mut frames: Vec<Option<Frame>> = vec![None; blocks.len()];
        self.arrive(&entry, None, 0, &joins, &mut frames);
        for index in order {
            let at = index as usize;
            // Taken, not copied, where nobody else arrives: frames are the bulk of the work.
            let frame = match joins[at] {
                true => frames[at].clone(),
                false => frames[at].take(),
            };
            let Some(mut frame) = frame else { continue };
            blocks[at].reachable = true;
            blocks[at].first_op = self.ops.len() as u32;
            self.reach_handlers(&frame, &blocks, at, &mut frames);
            let mut pc = usize::from(blocks[at].start);
            while pc < block_end(&blocks[at], code) {
                let instruction = code.instruction_at(pc as u16).map_err(|_| Malformed)?;
                if let Some(slot) = self.execute(&mut frame, &instruction)? {
                    blocks[at].assigns |= !self.is_cast(frame.local(slot)?);
                    for (handler, _) in &blocks[at].handlers {
                        self.flow_local(frames[*handler as usize].as_ref(), slot, &frame);
                    }
                }
                pc = instruction.next_pc();
            }
            blocks[at].last_op = self.ops.len() as u32;
            let next: Vec<u32> = blocks[at].next.to_vec();
            for to in next {
                self.arrive(&frame, Some(index), to, &joins, &mut frames);
            }
        }
        Ok(self.finish(code, blocks, params))
    }

    fn is_cast(&self, val: Val) -> bool {
        matches!(
            self.values.values.get(val.0 as usize),
            Some(Value::Cast { .. })
        )
    }

    fn entry(&mut self, raw: &RawMethod<'_>, code: &Code<'_>) -> Result<(Frame, u16), Malformed> {
        let mut frame = Frame {
            locals: vec![Val::NONE; usize::from(code.max_locals)],
            stack: Vec::new(),
        };
        let desc = raw.descriptor.to_str();
        let (types, _) = method_types(&desc).ok_or(Malformed)?;
        let receiver = (!raw.is_static()).then_some("L");
        let (mut slot, mut params) = (0u16, 0u16);
        for kind in receiver.into_iter().chain(types) {
            let wide = matches!(kind, "J" | "D");
            let val = self.values.add(Value::Param(params));
            frame.set_local(slot, val, wide)?;
            self.name_local(val, slot, 0);
            params += 1;
            slot += if wide { 2 } else { 1 };
        }
        Ok((frame, params))
    }

    /// Control reaches a block with this frame; from none where the method begins.
    fn arrive(
        &mut self,
        frame: &Frame,
        from: Option<u32>,
        to: u32,
        joins: &[bool],
        frames: &mut [Option<Frame>],
    ) {
        let at = to as usize;
        if !joins[at] {
            frames[at] = Some(frame.clone());
            return;
        }
        if frames[at].is_none() {
            let mut merged = frame.clone();
            for (slot, val) in merged.locals.iter_mut().enumerate() {
                if !val.is_none() {
                    *val = self.values.phi();
                    self.phis.push((*val, slot as u16, to));
                }
            }
            for val in merged.stack.iter_mut().filter(|v| !v.is_none()) {
                *val = self.values.phi();
                self.phis.push((*val, ON_STACK, to));
            }
            frames[at] = Some(merged);
        }
        let Some(merged) = frames[at].as_ref() else {
            return;
        };
        let slots = merged.locals.iter().zip(&frame.locals);
        for (phi, val) in slots.chain(merged.stack.iter().zip(&frame.stack)) {
            self.values.extend_phi(*phi, *val);
            if let Some(from) = from
                && self.values.is_constant(*val)
            {
                self.constants.push((*phi, from, *val));
            }
        }
    }

    /// The handlers of a block may get control with the locals of its start.
    fn reach_handlers(
        &mut self,
        frame: &Frame,
        blocks: &[Block],
        at: usize,
        frames: &mut [Option<Frame>],
    ) {
        for (handler, _) in &blocks[at].handlers {
            let to = *handler as usize;
            if frames[to].is_none() {
                let caught = self.values.add(Value::Caught(*handler));
                let mut merged = Frame {
                    locals: vec![Val::NONE; frame.locals.len()],
                    stack: vec![caught],
                };
                for (slot, val) in merged.locals.iter_mut().enumerate() {
                    *val = self.values.phi();
                    self.phis.push((*val, slot as u16, *handler));
                }
                frames[to] = Some(merged);
            }
            for slot in 0..frame.locals.len() {
                self.flow_local(frames[to].as_ref(), slot as u16, frame);
            }
        }
    }

    fn flow_local(&mut self, to: Option<&Frame>, slot: u16, from: &Frame) {
        let slot = usize::from(slot);
        if let (Some(to), Some(val)) = (to, from.locals.get(slot)) {
            self.values.extend_phi(to.locals[slot], *val);
        }
    }

    /// Drops what nothing refers to and numbers the rest.
    fn finish(mut self, code: &Code<'_>, blocks: Vec<Block>, params: u16) -> Body {
        let alias = self.values.aliases();
        let names: FxHashMap<Val, Sym> = {
            let stored = std::mem::take(&mut self.named);
            self.phis.retain(|(phi, ..)| alias[phi.0 as usize] == *phi);
            let phis = self.phis.iter().filter_map(|(phi, slot, block)| {
                let pc = blocks[*block as usize].start;
                Some((*phi, self.variable(*slot, pc)?))
            });
            // The first name counts: what a value is copied to later says less about it.
            let mut names = FxHashMap::default();
            for (val, name) in stored.into_iter().chain(phis) {
                names.entry(alias[val.0 as usize]).or_insert(name);
            }
            names
        };
        let mut keep = Keep {
            alias: &alias,
            from: &self.values,
            number: vec![Val::NONE; alias.len()],
            values: Vec::new(),
            pending: Vec::new(),
        };
        for list in &mut self.lists {
            *list = keep.val(*list);
        }
        for call in &mut self.calls {
            call.result = keep.val(call.result);
        }
        for op in &mut self.ops {
            op.kind = keep.op(op.kind);
        }
        let values = keep.finish(&mut self.lists);
        let number = keep.number;
        let mut names: Vec<(Val, Sym)> = names
            .into_iter()
            .map(|(val, name)| (number[val.0 as usize], name))
            .filter(|(val, _)| !val.is_none())
            .collect();
        names.sort_unstable_by_key(|(val, _)| *val);
        let (phis, constants) = meetings(&self.phis, &self.constants, &number);
        let lines = code.lines().map(|l| l.rows().to_vec()).unwrap_or_default();
        Body {
            values: values.into(),
            lists: self.lists.into(),
            ops: self.ops.into(),
            calls: self.calls.into(),
            closures: self.closures.into(),
            blocks: blocks.into(),
            lines: lines.into(),
            names: names.into(),
            params,
            phis,
            constants,
        }
    }
}

type Meetings = (Box<[(Val, u32)]>, Box<[(Val, u32, Val)]>);

/// Where phis meet and what constants reach them, in the numbers of the values that are kept.
fn meetings(phis: &[(Val, u16, u32)], constants: &[(Val, u32, Val)], number: &[Val]) -> Meetings {
    let kept = |val: Val| number.get(val.0 as usize).and_then(|v| v.some());
    let blocks = phis.iter();
    let mut blocks: Vec<(Val, u32)> = blocks
        .filter_map(|(phi, _, block)| Some((kept(*phi)?, *block)))
        .collect();
    blocks.sort_unstable();
    let constants = constants.iter();
    let mut constants: Vec<(Val, u32, Val)> = constants
        .filter_map(|(phi, from, val)| Some((kept(*phi)?, *from, kept(*val)?)))
        .collect();
    constants.sort_unstable();
    constants.dedup();
    (blocks.into(), constants.into())
}

fn block_end(block: &Block, code: &Code<'_>) -> usize {
    match usize::from(block.end) {
        // A code of 65,536 bytes does not exist, but one of 65,535 does.
        0 => code.bytes().len(),
        end => end,
    }
}

/// Blocks that are reached in more than one way.
fn joins(blocks: &[Block]) -> Vec<bool> {
    let mut arrivals = vec![0u32; blocks.len()];
    if let Some(first) = arrivals.first_mut() {
        *first = 1;
    }
    for block in blocks {
        for to in &block.next {
            arrivals[*to as usize] += 1;
        }
        // A handler gets the frames of many instructions.
        for (handler, _) in &block.handlers {
            arrivals[*handler as usize] += 2;
        }
    }
    arrivals.into_iter().map(|n| n > 1).collect()
}

/// Renumbers the values that are used.
struct Keep<'k> {
    alias: &'k [Val],
    from: &'k Values,
    number: Vec<Val>,
    values: Vec<Value>,
    /// Old numbers of values whose operands are not renumbered yet.
    pending: Vec<(usize, Val)>,
}

impl Keep<'_> {
    fn val(&mut self, val: Val) -> Val {
        if val.is_none() {
            return val;
        }
        let real = self.alias[val.0 as usize];
        let at = real.0 as usize;
        if self.number[at].is_none() {
            self.number[at] = Val(self.values.len() as u32);
            self.values.push(Value::Unknown);
            self.pending.push((self.values.len() - 1, real));
        }
        self.number[at]
    }

    fn op(&mut self, kind: OpKind) -> OpKind {
        match kind {
            OpKind::Call(_) | OpKind::Closure(_) => kind,
            OpKind::Get(v) => OpKind::Get(self.val(v)),
            OpKind::Put {
                object,
                class,
                name,
                value,
            } => OpKind::Put {
                object: self.val(object),
                class,
                name,
                value: self.val(value),
            },
            OpKind::ArrayStore { array, value } => OpKind::ArrayStore {
                array: self.val(array),
                value: self.val(value),
            },
            OpKind::Throw(v) => OpKind::Throw(self.val(v)),
            OpKind::Return(v) => OpKind::Return(self.val(v)),
            OpKind::Enter(v) => OpKind::Enter(self.val(v)),
            OpKind::Exit(v) => OpKind::Exit(self.val(v)),
            OpKind::Compare(v) => OpKind::Compare(self.val(v)),
            OpKind::Sum(v) => OpKind::Sum(self.val(v)),
            OpKind::Branch { opcode, a, b } => OpKind::Branch {
                opcode,
                a: self.val(a),
                b: self.val(b),
            },
            OpKind::Switch(v) => OpKind::Switch(self.val(v)),
        }
    }

    fn finish(&mut self, lists: &mut Vec<Val>) -> Vec<Value> {
        while let Some((at, old)) = self.pending.pop() {
            self.values[at] = match self.from.values[old.0 as usize] {
                Value::Phi(list) => {
                    let operands = self.from.operands(list);
                    let mut kept: Vec<Val> = operands.iter().map(|o| self.val(*o)).collect();
                    kept.sort_unstable();
                    kept.dedup();
                    let start = lists.len() as u32;
                    let len = kept.len() as u32;
                    lists.extend(kept);
                    Value::Phi(List { start, len })
                }
                Value::Field {
                    object,
                    class,
                    name,
                } => Value::Field {
                    object: self.val(object),
                    class,
                    name,
                },
                Value::Element { array, index } => Value::Element {
                    array: self.val(array),
                    index: self.val(index),
                },
                Value::Binary { opcode, a, b } => Value::Binary {
                    opcode,
                    a: self.val(a),
                    b: self.val(b),
                },
                Value::Unary { opcode, a } => Value::Unary {
                    opcode,
                    a: self.val(a),
                },
                Value::Cast { a, class } => Value::Cast {
                    a: self.val(a),
                    class,
                },
                Value::InstanceOf { a, class } => Value::InstanceOf {
                    a: self.val(a),
                    class,
                },
                plain => plain,
            };
        }
        std::mem::take(&mut self.values)
    }
}
