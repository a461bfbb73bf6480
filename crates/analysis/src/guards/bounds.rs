//! I/O calls with a bound of their own, and settings that bound the reads of a socket.

use rustc_hash::{FxHashMap, FxHashSet};
use temblor_model::catalog::TimeoutKind;
use temblor_model::site::Direction;

use crate::found::FoundSite;
use crate::ir::{Body, Val, Value};
use crate::program::{ClassId, MethodId};

use super::draft::Draft;
use super::scene::{Act, Scene};
use super::spots::{self, Spot};
use super::verbs::Verb;

/// How many streams may be wrapped around a socket.
const MAX_WRAPPED: u32 = 6;

pub fn find(scene: &Scene<'_>) -> Vec<Draft> {
    let mut out = Vec::new();
    for act in scene.acts_of(|verb| verb == Verb::BoundIo) {
        if let Some(mut timeout) = Draft::bounded(scene, act, TimeoutKind::Io) {
            timeout.scope.push((act.method, act.call));
            timeout.shallow = true;
            out.push(timeout);
        }
    }
    let mut by_class: FxHashMap<ClassId, Vec<&FoundSite>> = FxHashMap::default();
    for site in scene.sites() {
        let class = scene.program.class_of(site.method);
        by_class.entry(class).or_default().push(site);
    }
    let sets = |verb| matches!(verb, Verb::BoundReads | Verb::BoundConnect);
    for act in scene.acts_of(sets) {
        let class = scene.program.class_of(act.method);
        let sites = by_class.get(&class).map_or(&[][..], Vec::as_slice);
        out.extend(bounded_by(scene, act, sites));
    }
    out
}

/// The I/O of the class that goes through the object which a call sets a bound on.
fn bounded_by(scene: &Scene<'_>, act: &Act, sites: &[&FoundSite]) -> Option<Draft> {
    let mut timeout = Draft::bounded(scene, act, TimeoutKind::Io)?;
    let (body, call) = scene.call(act)?;
    let mut sources = spots::of(scene, act.method, body.receiver(call)?);
    sources.retain(is_object);
    for found in sites {
        let name = found.site.callee.rsplit('.').next().unwrap_or_default();
        let reads = found
            .site
            .io
            .is_some_and(|io| io.direction == Direction::Read);
        let concerns = match act.meaning.verb {
            Verb::BoundReads => reads || name == "accept" || name == "receive",
            _ => matches!(name, "connect" | "getInputStream" | "getOutputStream"),
        };
        if concerns && comes_from(scene, found, &sources) {
            timeout.scope.push((found.method, found.call));
        }
    }
    timeout.shallow = true;
    Some(timeout)
}

fn is_object(spot: &Spot) -> bool {
    !matches!(spot, Spot::Type(_))
}

/// Does a site use something made of one of these objects?
fn comes_from(scene: &Scene<'_>, found: &FoundSite, sources: &[Spot]) -> bool {
    let Some(body) = scene.body(found.method) else {
        return false;
    };
    let call = &body.calls[found.call as usize];
    let mut origin = Origin {
        scene,
        class: scene.program.class_of(found.method),
        sources,
        seen: FxHashSet::default(),
    };
    let used = body.receiver(call).or(body.args(call).first().copied());
    used.is_some_and(|val| origin.leads(found.method, body, val, 0))
}

struct Origin<'o, 's> {
    scene: &'o Scene<'s>,
    class: ClassId,
    sources: &'o [Spot],
    seen: FxHashSet<(MethodId, Val)>,
}

impl Origin<'_, '_> {
    fn leads(&mut self, method: MethodId, body: &Body, val: Val, depth: u32) -> bool {
        let val = body.uncast(val);
        if depth > MAX_WRAPPED || !self.seen.insert((method, val)) {
            return false;
        }
        let spots = spots::of(self.scene, method, val);
        if spots
            .iter()
            .any(|spot| is_object(spot) && self.sources.contains(spot))
        {
            return true;
        }
        match body.value(val) {
            Value::Phi(list) => {
                let operands = body.list(list).to_vec();
                operands
                    .into_iter()
                    .any(|v| self.leads(method, body, v, depth + 1))
            }
            Value::Call(call) => {
                let args = body.args(&body.calls[call as usize]).to_vec();
                args.into_iter()
                    .any(|v| self.leads(method, body, v, depth + 1))
            }
            Value::New(_) => {
                let program = self.scene.program;
                let makes = |call: &&crate::ir::Call| {
                    program.str(call.name) == "<init>" && body.args(call).first() == Some(&val)
                };
                let made = body.calls.iter().find(makes);
                let args = made.map_or(Vec::new(), |call| body.args(call)[1..].to_vec());
                args.into_iter()
                    .any(|v| self.leads(method, body, v, depth + 1))
            }
            Value::Field { class, name, .. } => self.field(class, name, depth),
            _ => false,
        }
    }

    /// What the class itself puts into a field.
    fn field(&mut self, class: crate::ir::Sym, name: crate::ir::Sym, depth: u32) -> bool {
        let scene = self.scene;
        let owner = scene.program.field_owner(class, name);
        let of_class = self.class;
        let puts = scene.puts(owner, name).iter();
        let puts = puts.filter(|put| scene.program.class_of(put.method) == of_class);
        puts.take(4).any(|put| {
            let body = scene.body(put.method);
            body.is_some_and(|body| self.leads(put.method, body, put.value, depth + 1))
        })
    }
}
