//! Whether a value depends on the fields of a task: directly, through locals, arithmetic, calls
//! and the objects they lead to, or because they decide which constant it is.

use std::cell::OnceCell;
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};
use temblor_classfile::access;

use crate::calls::{CallGraph, closure_body};
use crate::ir::dominance::{Decision, Graph, control_dependence};
use crate::ir::{Body, Call, OpKind, Sym, Val, Value};
use crate::program::{MethodId, Program};

/// How many calls deep a returned value is followed.
const MAX_DEPTH: u32 = 4;
/// A call on the task itself that more methods than this could answer is not followed.
const MAX_TARGETS: usize = 8;

/// The code of a method, with what is worked out about it once.
pub struct Flow<'p> {
    pub method: MethodId,
    pub body: &'p Body,
    control: OnceCell<Vec<Vec<Decision>>>,
    before: OnceCell<Vec<Vec<u32>>>,
}

impl<'p> Flow<'p> {
    fn new(method: MethodId, body: &'p Body) -> Flow<'p> {
        Flow {
            method,
            body,
            control: OnceCell::new(),
            before: OnceCell::new(),
        }
    }

    /// For each block, the edges it is control-dependent on.
    pub fn control(&self) -> &[Vec<Decision>] {
        self.control.get_or_init(|| {
            let graph = Graph::with_exit(self.body);
            control_dependence(&graph, self.body.blocks.len() as u32)
        })
    }

    /// For each block, the blocks that lead to it.
    pub fn before(&self) -> &[Vec<u32>] {
        self.before.get_or_init(|| {
            let mut before = vec![Vec::new(); self.body.blocks.len()];
            for (from, block) in self.body.blocks.iter().enumerate() {
                for to in block.next.iter().filter(|_| block.reachable) {
                    before[*to as usize].push(from as u32);
                }
            }
            before
        })
    }

    /// What the branch or switch at the end of a block looks at.
    pub fn looks_at(&self, block: u32) -> Vec<Val> {
        let block = &self.body.blocks[block as usize];
        match self.body.ops_of(block).last().map(|op| op.kind) {
            Some(OpKind::Branch { a, b, .. }) => [a, b].into_iter().filter_map(Val::some).collect(),
            Some(OpKind::Switch(val)) => vec![val],
            _ => Vec::new(),
        }
    }

    /// The blocks whose branches decide by which of these blocks control comes.
    fn deciding(&self, ways: &[u32], join: Option<u32>) -> FxHashSet<u32> {
        let control = self.control();
        let mut out = FxHashSet::default();
        for way in ways {
            if join.is_some() && self.body.blocks[*way as usize].next.len() > 1 {
                out.insert(*way);
            }
            let on = control.get(*way as usize).into_iter().flatten();
            // What decides whether they meet at all does not decide how.
            let shared = |d: &&Decision| join.is_some_and(|j| control[j as usize].contains(d));
            out.extend(on.filter(|d| !shared(d)).map(|d| d.block));
        }
        out
    }
}

/// Which parameters of a method lead to the task.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    /// The task's object: its fields are state variables.
    pub this: Vec<u16>,
    /// State variables themselves: what a closure captured.
    pub captured: Vec<u16>,
}

/// Answers for one task; remembers what it has looked at.
pub struct Depend<'p> {
    program: &'p Program,
    graph: &'p CallGraph,
    flows: FxHashMap<MethodId, Rc<Flow<'p>>>,
    /// Whether what a method returns depends on the fields of a parameter.
    returned: FxHashMap<(MethodId, u16), bool>,
    init: Sym,
    /// A chain of calls was too long to follow.
    cut: bool,
}

impl<'p> Depend<'p> {
    /// None for a program without a single constructor.
    pub fn new(program: &'p Program, graph: &'p CallGraph) -> Option<Depend<'p>> {
        Some(Depend {
            program,
            graph,
            flows: FxHashMap::default(),
            returned: FxHashMap::default(),
            init: program.sym("<init>")?,
            cut: false,
        })
    }

    pub fn flow(&mut self, method: MethodId) -> Option<Rc<Flow<'p>>> {
        if let Some(flow) = self.flows.get(&method) {
            return Some(flow.clone());
        }
        let flow = Rc::new(Flow::new(method, self.program.body(method)?));
        self.flows.insert(method, flow.clone());
        Some(flow)
    }

    /// Does any of these values depend on the task?
    pub fn any(&mut self, flow: &Flow<'p>, roots: &Roots, vals: &[Val]) -> bool {
        self.search(flow, roots, vals.to_vec(), 0)
    }

    fn search(
        &mut self,
        flow: &Flow<'p>,
        roots: &Roots,
        mut pending: Vec<Val>,
        depth: u32,
    ) -> bool {
        let body = flow.body;
        let mut seen: FxHashSet<Val> = FxHashSet::default();
        while let Some(val) = pending.pop() {
            if val.is_none() || !seen.insert(val) {
                continue;
            }
            match body.value(val) {
                Value::Param(position) if roots.captured.contains(&position) => return true,
                Value::Field {
                    object,
                    class,
                    name,
                } => match is_root(body, roots, object) {
                    true if is_variable(self.program, class, name) => return true,
                    true => {}
                    false => pending.push(object),
                },
                Value::Element { array, index } => pending.extend([array, index]),
                Value::Binary { a, b, .. } => pending.extend([a, b]),
                Value::Unary { a, .. } | Value::Cast { a, .. } | Value::InstanceOf { a, .. } => {
                    pending.push(a);
                }
                Value::New(_) => {
                    let made = |c: &&Call| c.name == self.init && body.args(c)[0] == val;
                    if let Some(call) = body.calls.iter().find(made) {
                        pending.extend(&body.args(call)[1..]);
                    }
                }
                Value::Call(index) => {
                    let args = body.args(&body.calls[index as usize]);
                    pending.extend(args);
                    if self.call(flow, roots, index, depth) {
                        return true;
                    }
                }
                Value::Closure(index) => {
                    let closure = &body.closures[index as usize];
                    let captured = body.list(closure.captured);
                    pending.extend(captured);
                    if let Some(callee) = closure_body(self.program, closure)
                        && self.passes(flow, roots, captured, callee, depth)
                    {
                        return true;
                    }
                }
                Value::Phi(list) => {
                    pending.extend(body.list(list));
                    if let Some(join) = body.phi_block(val)
                        && is_constant(body, val)
                    {
                        let ways = &flow.before()[join as usize];
                        for block in flow.deciding(ways, Some(join)) {
                            pending.extend(flow.looks_at(block));
                        }
                    }
                }
                _ => {}
            }
        }
        false
    }

    /// Does what a call gives depend on fields that it reads from the task itself?
    fn call(&mut self, flow: &Flow<'p>, roots: &Roots, index: u32, depth: u32) -> bool {
        let args = flow.body.args(&flow.body.calls[index as usize]);
        if !args.iter().any(|a| is_root(flow.body, roots, *a)) {
            return false;
        }
        let graph = self.graph;
        let own = &graph.targets(flow.method, index).own;
        own.len() <= MAX_TARGETS
            && own
                .iter()
                .any(|callee| self.passes(flow, roots, args, *callee, depth))
    }

    /// Does what a method returns depend on fields of the task that it is given as an argument?
    fn passes(
        &mut self,
        flow: &Flow<'p>,
        roots: &Roots,
        args: &[Val],
        callee: MethodId,
        depth: u32,
    ) -> bool {
        (0..).zip(args).any(|(position, arg)| {
            is_root(flow.body, roots, *arg) && self.returns(callee, position, depth + 1)
        })
    }

    fn returns(&mut self, method: MethodId, position: u16, depth: u32) -> bool {
        let key = (method, position);
        if let Some(known) = self.returned.get(&key) {
            return *known;
        }
        if depth > MAX_DEPTH {
            self.cut = true;
            return false;
        }
        // Until it is known: a recursive call adds nothing.
        self.returned.insert(key, false);
        let was_cut = std::mem::replace(&mut self.cut, false);
        let found = self.search_returned(method, position, depth);
        if found {
            self.returned.insert(key, true);
        } else if self.cut {
            // From nearer, more can be seen.
            self.returned.remove(&key);
        }
        self.cut |= was_cut;
        found
    }

    fn search_returned(&mut self, method: MethodId, position: u16, depth: u32) -> bool {
        let Some(flow) = self.flow(method) else {
            return false;
        };
        let body = flow.body;
        let mut returned = Vec::new();
        let mut ways = Vec::new();
        for (at, block) in body.blocks.iter().enumerate() {
            if let Some(OpKind::Return(val)) = body.ops_of(block).last().map(|op| op.kind)
                && !val.is_none()
            {
                returned.push(val);
                ways.push(at as u32);
            }
        }
        // `if (this.done) return true; return false;`
        if returned.len() > 1 && returned.iter().all(|v| is_constant(body, *v)) {
            for block in flow.deciding(&ways, None) {
                returned.extend(flow.looks_at(block));
            }
        }
        let roots = Roots {
            this: vec![position],
            captured: Vec::new(),
        };
        self.search(&flow, &roots, returned, depth)
    }
}

/// Is it the task's object?
pub fn is_root(body: &Body, roots: &Roots, val: Val) -> bool {
    match body.value(body.uncast(val)) {
        Value::Param(position) => roots.this.contains(&position),
        _ => false,
    }
}

/// Legolas' state variables: fields that are neither static nor constant. Fields of classes
/// outside the target are none.
pub fn is_variable(program: &Program, class: Sym, name: Sym) -> bool {
    program
        .field(class, name)
        .is_some_and(|(_, f)| !f.constant && f.access & access::STATIC == 0)
}

/// A constant, or one of several.
fn is_constant(body: &Body, val: Val) -> bool {
    let mut seen = FxHashSet::default();
    let mut pending = vec![val];
    while let Some(val) = pending.pop() {
        match body.value(val) {
            Value::Phi(list) => {
                if seen.insert(val) {
                    pending.extend(body.list(list));
                }
            }
            Value::Int(_) | Value::Text(_) | Value::ClassConst(_) | Value::Null | Value::Const => {}
            // An enum's constant, or any other that has a name.
            Value::Static { .. } => {}
            _ => return false,
        }
    }
    true
}
