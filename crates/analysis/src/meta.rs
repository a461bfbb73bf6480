//! Accesses of fields that hold which nodes there are: what CrashTuner crashes nodes at.
//!
//! A type identifies nodes if it is an address, if the target says so, or if it is an own class
//! with such a field and few others: a value, not a component. A field is meta-info if its type, or
//! a type inside its generic type, does.

use rustc_hash::{FxHashMap, FxHashSet};
use temblor_classfile::access;
use temblor_model::catalog::MetaAccess;
use temblor_model::names::dotted;
use temblor_model::settings::AnalysisSettings;

use crate::ir::{Body, OpKind, Sym, Val, Value};
use crate::load::class_of;
use crate::program::{ClassId, MethodId, Program};

const ADDRESSES: &[&str] = &[
    "java/net/InetSocketAddress",
    "java/net/InetAddress",
    "java/net/SocketAddress",
];
/// Where objects are made, printed or compared, no node is met.
const PASSED_OVER: &[&str] = &["<init>", "<clinit>", "toString", "hashCode", "equals"];
/// Calls that change a collection.
const CHANGES: &[&str] = &[
    "put", "add", "remove", "clear", "poll", "offer", "set", "replace",
];

/// A class with more fields than this does something; it does not name something.
const MAX_FIELDS: usize = 6;

pub fn find(program: &Program, settings: &AnalysisSettings) -> Vec<MetaAccess> {
    let types = meta_types(program, settings);
    let fields = meta_fields(program, &types);
    let mut out = Vec::new();
    for id in program.method_ids() {
        let name = program.str(program.method(id).name);
        if let Some(body) = program.body(id)
            && !PASSED_OVER.contains(&name)
        {
            accesses(program, id, body, &fields, &mut out);
        }
    }
    for (id, access) in out.iter_mut().enumerate() {
        access.id = id as u32;
    }
    out
}

fn meta_types(program: &Program, settings: &AnalysisSettings) -> FxHashSet<Sym> {
    let named = settings.meta_types.iter().map(|t| t.replace('.', "/"));
    let addresses = ADDRESSES.iter().map(|a| a.to_string());
    let mut types: FxHashSet<Sym> = named
        .chain(addresses)
        .filter_map(|name| program.sym(&name))
        .collect();
    let mut holders = Vec::new();
    for (id, class) in program.own_classes() {
        let fields = class
            .fields
            .iter()
            .filter(|f| f.access & access::STATIC == 0);
        let is_value = fields.count() <= MAX_FIELDS && !is_task(program, id);
        let holds = class.fields.iter().any(|f| {
            let of = class_of(program.str(f.desc)).and_then(|c| program.sym(c));
            f.access & access::STATIC == 0 && of.is_some_and(|c| types.contains(&c))
        });
        if is_value && holds {
            holders.push(class.name);
        }
    }
    types.extend(holders);
    types
}

fn is_task(program: &Program, id: ClassId) -> bool {
    let runnable = program.class_id("java/lang/Runnable");
    runnable.is_some_and(|runnable| program.is_subtype(id, runnable))
}

/// Meta-info fields, by class and name; true for collections of nodes.
fn meta_fields(program: &Program, types: &FxHashSet<Sym>) -> FxHashMap<(Sym, Sym), bool> {
    let inside: Vec<String> = types
        .iter()
        .map(|t| format!("L{};", program.str(*t)))
        .collect();
    let mut out = FxHashMap::default();
    for (_, class) in program.own_classes() {
        for field in &class.fields {
            let of = class_of(program.str(field.desc)).and_then(|c| program.sym(c));
            let direct = of.is_some_and(|c| types.contains(&c));
            let generic = field
                .signature
                .map(|s| program.str(s))
                .is_some_and(|signature| inside.iter().any(|t| signature.contains(t.as_str())));
            if direct || generic {
                out.insert((class.name, field.name), !direct);
            }
        }
    }
    out
}

fn accesses(
    program: &Program,
    id: MethodId,
    body: &Body,
    fields: &FxHashMap<(Sym, Sym), bool>,
    out: &mut Vec<MetaAccess>,
) {
    let mut found: Vec<(u16, String, bool)> = Vec::new();
    for op in &body.ops {
        let (class, name, read) = match op.kind {
            OpKind::Put { class, name, .. } => (class, name, None),
            OpKind::Get(val) => match body.value(val) {
                Value::Field { class, name, .. } | Value::Static { class, name } => {
                    (class, name, Some(val))
                }
                _ => continue,
            },
            _ => continue,
        };
        let owner = program.field_owner(class, name);
        let Some(is_collection) = fields.get(&(owner, name)) else {
            continue;
        };
        let field = format!("{}.{}", dotted(program.str(owner)), program.str(name));
        match read {
            None => found.push((op.pc, field, true)),
            Some(val) => {
                let change = is_collection
                    .then(|| changed_at(program, body, val))
                    .flatten();
                found.push((change.unwrap_or(op.pc), field, change.is_some()));
            }
        }
    }
    found.sort();
    found.dedup();
    out.extend(found.into_iter().map(|(pc, field, write)| MetaAccess {
        id: 0,
        place: program.place(id, pc),
        field,
        write,
    }));
}

/// Where a collection that was read is changed.
fn changed_at(program: &Program, body: &Body, collection: Val) -> Option<u16> {
    body.ops.iter().find_map(|op| {
        let OpKind::Call(call) = op.kind else {
            return None;
        };
        let call = &body.calls[call as usize];
        let name = program.str(call.name);
        let on_it = body
            .receiver(call)
            .is_some_and(|r| body.uncast(r) == collection);
        (on_it && CHANGES.iter().any(|c| name.starts_with(c))).then_some(op.pc)
    })
}
