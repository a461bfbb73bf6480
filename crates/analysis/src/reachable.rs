//! Methods that something can reach: the rest is dead weight of the jars, and no fault happens
//! there.
//!
//! Entries are `main`, static initialisers, constructors (reflection), whatever overrides
//! something (whoever calls that), whatever carries an annotation (frameworks call it), and what
//! the JVM calls by name. A target without a `main` is a library: all of it can be reached.

use temblor_classfile::access;

use crate::calls::{CallGraph, closure_body};
use crate::program::{MethodId, Program};

/// Called by the JVM or by serialisation, by name.
const BY_NAME: &[&str] = &[
    "<clinit>",
    "<init>",
    "readObject",
    "writeObject",
    "readResolve",
    "writeReplace",
    "finalize",
];

/// For each own method whether anything reaches it.
pub fn find(program: &Program, graph: &CallGraph) -> Vec<bool> {
    let ids: Vec<MethodId> = program.method_ids().collect();
    if !ids.iter().any(|id| is_main(program, *id)) {
        return vec![true; ids.len()];
    }
    let mut reached = vec![false; ids.len()];
    let mut pending: Vec<MethodId> = Vec::new();
    for id in ids {
        if is_entry(program, id) {
            reached[id.0 as usize] = true;
            pending.push(id);
        }
    }
    while let Some(id) = pending.pop() {
        let Some(body) = program.body(id) else {
            continue;
        };
        let calls = 0..body.calls.len() as u32;
        let called = calls.flat_map(|call| graph.targets(id, call).own.iter().copied());
        let made = body
            .closures
            .iter()
            .filter_map(|c| closure_body(program, c));
        for next in called.chain(made) {
            if !std::mem::replace(&mut reached[next.0 as usize], true) {
                pending.push(next);
            }
        }
    }
    reached
}

fn is_main(program: &Program, id: MethodId) -> bool {
    let method = program.method(id);
    method.access & access::STATIC != 0
        && program.str(method.name) == "main"
        && program.str(method.desc) == "([Ljava/lang/String;)V"
}

fn is_entry(program: &Program, id: MethodId) -> bool {
    let method = program.method(id);
    is_main(program, id)
        || method.annotated
        || BY_NAME.contains(&program.str(method.name))
        || overrides(program, id)
}

/// It overrides something, or may: an ancestor is not on the class path.
fn overrides(program: &Program, id: MethodId) -> bool {
    let method = program.method(id);
    if method.access & (access::STATIC | access::PRIVATE) != 0 {
        return false;
    }
    let class = program.class_of(id);
    program.ancestors(class).iter().any(|ancestor| {
        let known = program.class(*ancestor);
        let parents = known.interfaces.iter().chain(&known.super_name);
        let is_missing = |p: &crate::ir::Sym| program.class_named(*p).is_none();
        let declares = *ancestor != class && program.declares(*ancestor, method.name, method.desc);
        declares || parents.into_iter().any(is_missing)
    })
}
