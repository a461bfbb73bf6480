//! The hooks file: which classes the agent rewrites and where, in a form it can search in place.
//!
//! Written once per catalog, mapped by every node; finding a class is a binary search, because
//! the agent is asked for every class a JVM loads. All numbers are little-endian.

use std::collections::BTreeMap;

use crate::board::spec::PointId;
use crate::catalog::{Place, SiteCatalog, TimeUnit};
use crate::site::SiteKind;

const MAGIC: &[u8; 8] = b"TMBHOOK2";
const HEADER: usize = 32;
const INDEX_ENTRY: usize = 16;

/// Why a hooks file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadHooks(pub &'static str);

impl std::fmt::Display for BadHooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not a usable hooks file: {}", self.0)
    }
}

impl std::error::Error for BadHooks {}

/// One insertion the agent makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Ask the arm byte of a point: a site, where a state is entered, where data is accessed.
    Point { pc: u32, point: u32 },
    /// Ask the arm byte of a task wherever its method is left.
    Leave { point: u32 },
    /// Ask the arm byte of a timeout and tell its value, which is on the operand stack.
    Value { pc: u32, point: u32, peek: Peek },
    /// Mark the block as covered.
    Block { pc: u32, block: u32 },
}

/// Where on the operand stack a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peek {
    /// Slots above it.
    pub above: u8,
    /// A `long`, not an `int`.
    pub wide: bool,
    /// The slot above it is a `TimeUnit`.
    pub unit: bool,
}

impl Hook {
    fn pc(&self) -> u32 {
        match self {
            Hook::Point { pc, .. } | Hook::Value { pc, .. } | Hook::Block { pc, .. } => *pc,
            Hook::Leave { .. } => 0,
        }
    }
}

/// The insertions of one method, in order of position; what is counted precedes the site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodHooks<'a> {
    pub name: &'a str,
    pub desc: &'a str,
    pub hooks: Vec<Hook>,
}

/// The insertions of one class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassHooks<'a> {
    pub name: &'a str,
    /// Hash of the class bytes; 0 where the bytes are the JVM's own (retransformed classes).
    pub hash: u64,
    /// A JDK class, loaded before the agent can see it: must be retransformed.
    pub retransform: bool,
    pub methods: Vec<MethodHooks<'a>>,
}

/// The points of a catalog that are no sites, by class.
fn points_of(catalog: &SiteCatalog) -> BTreeMap<&str, Vec<(&Place, Hook)>> {
    let points = catalog.points();
    let mut out: BTreeMap<&str, Vec<(&Place, Hook)>> = BTreeMap::new();
    let at = |place: &Place, point| Hook::Point {
        pc: place.pc,
        point: points.number(point),
    };
    let states = (catalog.states.iter()).map(|s| (&s.place, at(&s.place, PointId::State(s.id))));
    let tasks = catalog.tasks.iter().map(|t| {
        let point = points.number(PointId::Task(t.id));
        (&t.place, Hook::Leave { point })
    });
    let accesses = catalog.meta_accesses.iter();
    let accesses = accesses.map(|a| (&a.place, at(&a.place, PointId::Access(a.id))));
    let timeouts = catalog.timeouts.iter().filter_map(|t| {
        let peek = Peek {
            above: u8::try_from(t.above).ok()?,
            wide: t.wide,
            unit: t.unit == TimeUnit::Argument,
        };
        let point = points.number(PointId::Timeout(t.id));
        let pc = t.place.pc;
        Some((&t.place, Hook::Value { pc, point, peek }))
    });
    for (place, hook) in states.chain(tasks).chain(accesses).chain(timeouts) {
        out.entry(place.class.as_str())
            .or_default()
            .push((place, hook));
    }
    out
}

/// Writes the hooks of the sites that `wanted` keeps, of all other points and, with `blocks`, of
/// the basic blocks.
pub fn encode(catalog: &SiteCatalog, blocks: bool, wanted: impl Fn(u32) -> bool) -> Vec<u8> {
    let mut bodies: Vec<(u64, Vec<u8>)> = Vec::new();
    let points = points_of(catalog);
    for class in &catalog.classes {
        let mut methods: Vec<MethodHooks<'_>> = Vec::new();
        let mut add = |name, desc, hook| match methods
            .iter_mut()
            .find(|m| m.name == name && m.desc == desc)
        {
            Some(method) => method.hooks.push(hook),
            None => methods.push(MethodHooks {
                name,
                desc,
                hooks: vec![hook],
            }),
        };
        if blocks {
            for m in &class.blocks {
                for (i, &pc) in m.pcs.iter().enumerate() {
                    let block = m.first + i as u32;
                    add(
                        m.method.as_str(),
                        m.desc.as_str(),
                        Hook::Block { pc, block },
                    );
                }
            }
        }
        for (place, hook) in points.get(class.name.as_str()).into_iter().flatten() {
            add(place.method.as_str(), place.desc.as_str(), hook.clone());
        }
        let mut retransform = false;
        // Sites are sorted by class: the range is found once.
        let from = catalog
            .sites
            .partition_point(|s| s.class.as_str() < class.name.as_str());
        let own = catalog.sites[from..]
            .iter()
            .take_while(|s| s.class == class.name);
        for site in own.filter(|s| wanted(s.id)) {
            retransform |= site.kind == SiteKind::Entry;
            let hook = Hook::Point {
                pc: site.pc,
                point: site.id,
            };
            add(site.method.as_str(), site.desc.as_str(), hook);
        }
        if methods.is_empty() {
            continue;
        }
        for method in &mut methods {
            // Stable: at one position they stay in the order in which they were added.
            method.hooks.sort_by_key(Hook::pc);
        }
        let name = class.name.as_str();
        let class = ClassHooks {
            name,
            hash: class.hash,
            retransform,
            methods,
        };
        bodies.push((crate::fnv64(name.as_bytes()), encode_class(&class)));
    }
    assemble(catalog, bodies)
}

fn assemble(catalog: &SiteCatalog, mut bodies: Vec<(u64, Vec<u8>)>) -> Vec<u8> {
    bodies.sort();
    let mut out = Vec::new();
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&catalog.hash().to_le_bytes());
    out.extend_from_slice(&(bodies.len() as u32).to_le_bytes());
    out.extend_from_slice(&(catalog.states.len() as u32).to_le_bytes());
    let ends: usize = bodies
        .iter()
        .map(|(_, body)| INDEX_ENTRY + body.len())
        .sum();
    out.extend_from_slice(&((HEADER + ends) as u32).to_le_bytes());
    out.resize(HEADER, 0);
    let mut at = HEADER + bodies.len() * INDEX_ENTRY;
    for (name_hash, body) in &bodies {
        out.extend_from_slice(&name_hash.to_le_bytes());
        out.extend_from_slice(&(at as u32).to_le_bytes());
        out.extend_from_slice(&(body.len() as u32).to_le_bytes());
        at += body.len();
    }
    for (_, body) in &bodies {
        out.extend_from_slice(body);
    }
    for state in &catalog.states {
        let word = state.task << 1 | u32::from(state.index == 0);
        out.extend_from_slice(&word.to_le_bytes());
    }
    out
}

fn encode_class(class: &ClassHooks<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let text = |out: &mut Vec<u8>, s: &str| {
        out.extend_from_slice(&(s.len() as u32).to_le_bytes());
        out.extend_from_slice(s.as_bytes());
    };
    out.extend_from_slice(&class.hash.to_le_bytes());
    out.push(class.retransform as u8);
    text(&mut out, class.name);
    out.extend_from_slice(&(class.methods.len() as u32).to_le_bytes());
    for method in &class.methods {
        text(&mut out, method.name);
        text(&mut out, method.desc);
        out.extend_from_slice(&(method.hooks.len() as u32).to_le_bytes());
        for hook in &method.hooks {
            let (kind, id, more) = match hook {
                Hook::Point { point, .. } => (0u8, point, 0),
                Hook::Block { block, .. } => (1, block, 0),
                Hook::Leave { point } => (2, point, 0),
                Hook::Value { point, peek, .. } => {
                    let flags = u8::from(peek.wide) | u8::from(peek.unit) << 1;
                    (3, point, flags | peek.above << 2)
                }
            };
            out.extend([kind, more]);
            out.extend_from_slice(&hook.pc().to_le_bytes());
            out.extend_from_slice(&id.to_le_bytes());
        }
    }
    out
}

/// A hooks file in memory.
#[derive(Clone, Copy, Debug)]
pub struct HookTable<'a> {
    bytes: &'a [u8],
    count: usize,
}

impl<'a> HookTable<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BadHooks> {
        if bytes.len() < HEADER || &bytes[..8] != MAGIC {
            return Err(BadHooks("wrong magic"));
        }
        let count = u32_at(bytes, 16).ok_or(BadHooks("truncated"))? as usize;
        let end = count
            .checked_mul(INDEX_ENTRY)
            .and_then(|n| n.checked_add(HEADER));
        if end.is_none_or(|end| end > bytes.len()) {
            return Err(BadHooks("truncated index"));
        }
        Ok(HookTable { bytes, count })
    }

    /// The task of each state, and whether it is where the task begins.
    pub fn states(&self) -> Vec<(u32, bool)> {
        let count = u32_at(self.bytes, 20).unwrap_or(0) as usize;
        let at = u32_at(self.bytes, 24).unwrap_or(0) as usize;
        let words = (0..count).map_while(|i| u32_at(self.bytes, at.checked_add(i * 4)?));
        words.map(|word| (word >> 1, word & 1 != 0)).collect()
    }

    /// Hash of the catalog it was written for.
    pub fn catalog_hash(&self) -> u64 {
        u64_at(self.bytes, 8).unwrap_or(0)
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All classes, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = Result<ClassHooks<'a>, BadHooks>> + '_ {
        (0..self.count).map(|i| self.entry(i))
    }

    /// The hooks of one class by internal name.
    pub fn find(&self, name: &str) -> Result<Option<ClassHooks<'a>>, BadHooks> {
        let wanted = crate::fnv64(name.as_bytes());
        let hash = |i: usize| u64_at(self.bytes, HEADER + i * INDEX_ENTRY).unwrap_or(u64::MAX);
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let mid = (low + high) / 2;
            if hash(mid) < wanted {
                low = mid + 1
            } else {
                high = mid
            }
        }
        while low < self.count && hash(low) == wanted {
            let class = self.entry(low)?;
            if class.name == name {
                return Ok(Some(class));
            }
            low += 1;
        }
        Ok(None)
    }

    fn entry(&self, i: usize) -> Result<ClassHooks<'a>, BadHooks> {
        let index = HEADER + i * INDEX_ENTRY;
        let at = u32_at(self.bytes, index + 8).ok_or(BadHooks("truncated index"))? as usize;
        let len = u32_at(self.bytes, index + 12).ok_or(BadHooks("truncated index"))? as usize;
        let end = at.checked_add(len).ok_or(BadHooks("entry out of range"))?;
        let body = self
            .bytes
            .get(at..end)
            .ok_or(BadHooks("entry out of range"))?;
        Cursor { bytes: body, at: 0 }.class()
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], BadHooks> {
        let end = self.at.checked_add(n).ok_or(BadHooks("truncated entry"))?;
        let out = self
            .bytes
            .get(self.at..end)
            .ok_or(BadHooks("truncated entry"))?;
        self.at = end;
        Ok(out)
    }

    fn byte(&mut self) -> Result<u8, BadHooks> {
        Ok(self.take(1)?[0])
    }

    fn u32(&mut self) -> Result<u32, BadHooks> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn text(&mut self) -> Result<&'a str, BadHooks> {
        let len = self.u32()? as usize;
        std::str::from_utf8(self.take(len)?).map_err(|_| BadHooks("a name is not UTF-8"))
    }

    fn class(&mut self) -> Result<ClassHooks<'a>, BadHooks> {
        let hash = u64_at(self.take(8)?, 0).unwrap_or(0);
        let retransform = self.byte()? != 0;
        let name = self.text()?;
        let mut methods = Vec::new();
        for _ in 0..self.u32()? {
            let (name, desc) = (self.text()?, self.text()?);
            let mut hooks = Vec::new();
            for _ in 0..self.u32()? {
                let (kind, more) = (self.byte()?, self.byte()?);
                let (pc, id) = (self.u32()?, self.u32()?);
                let peek = Peek {
                    above: more >> 2,
                    wide: more & 1 != 0,
                    unit: more & 2 != 0,
                };
                hooks.push(match kind {
                    0 => Hook::Point { pc, point: id },
                    1 => Hook::Block { pc, block: id },
                    2 => Hook::Leave { point: id },
                    3 => Hook::Value {
                        pc,
                        point: id,
                        peek,
                    },
                    _ => return Err(BadHooks("unknown kind of hook")),
                });
            }
            methods.push(MethodHooks { name, desc, hooks });
        }
        Ok(ClassHooks {
            name,
            hash,
            retransform,
            methods,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{ClassEntry, MethodBlocks};
    use crate::site::Site;

    fn catalog() -> SiteCatalog {
        let site = |id, class: &str, pc| Site {
            id,
            name: format!("{class}#{pc}"),
            kind: SiteKind::Call,
            class: class.into(),
            method: "m".into(),
            desc: "()V".into(),
            pc,
            line: None,
            callee: "x.Y.z".into(),
            exceptions: vec![],
            io: None,
            ..Site::default()
        };
        let entry = |name: &str| ClassEntry {
            name: name.into(),
            hash: 9,
            blocks: vec![MethodBlocks {
                method: "m".into(),
                desc: "()V".into(),
                first: 4,
                pcs: vec![0, 7],
            }],
        };
        SiteCatalog {
            format: 1,
            sites: vec![site(0, "a/A", 7), site(1, "a/B", 3), site(2, "a/B", 9)],
            classes: vec![entry("a/A"), entry("a/B")],
            block_count: 6,
            ..SiteCatalog::default()
        }
    }

    #[test]
    fn a_class_is_found_with_its_hooks_in_order() {
        let bytes = encode(&catalog(), true, |_| true);
        let table = HookTable::parse(&bytes).unwrap();
        let class = table.find("a/A").unwrap().unwrap();
        assert_eq!(
            class.methods[0].hooks,
            [
                Hook::Block { pc: 0, block: 4 },
                Hook::Block { pc: 7, block: 5 },
                Hook::Point { pc: 7, point: 0 }
            ]
        );
        assert!(table.find("a/C").unwrap().is_none());
        assert_eq!(table.catalog_hash(), catalog().hash());
    }

    #[test]
    fn points_precede_the_site_and_come_back_as_they_were() {
        use crate::catalog::{State, Task, TaskKind, Timeout, TimeoutKind};
        let place = |pc| Place {
            class: "a/A".into(),
            method: "m".into(),
            desc: "()V".into(),
            pc,
            line: None,
        };
        let catalog = SiteCatalog {
            states: vec![State {
                id: 0,
                name: "a.A.m():0".into(),
                task: 0,
                index: 0,
                place: place(7),
                condition: String::new(),
            }],
            tasks: vec![Task {
                id: 0,
                name: "a.A.m()".into(),
                kind: TaskKind::Thread,
                closure: false,
                place: place(0),
                variables: Vec::new(),
            }],
            timeouts: vec![Timeout {
                id: 0,
                kind: TimeoutKind::Wait,
                place: place(9),
                above: 1,
                wide: true,
                unit: TimeUnit::Argument,
                constant: None,
                expression: String::new(),
            }],
            ..catalog()
        };
        let bytes = encode(&catalog, false, |_| true);
        let class = HookTable::parse(&bytes).unwrap().find("a/A").unwrap();
        assert_eq!(HookTable::parse(&bytes).unwrap().states(), [(0, true)]);
        let peek = Peek {
            above: 1,
            wide: true,
            unit: true,
        };
        assert_eq!(
            class.unwrap().methods[0].hooks,
            [
                Hook::Leave { point: 4 },
                Hook::Point { pc: 7, point: 3 },
                Hook::Point { pc: 7, point: 0 },
                Hook::Value {
                    pc: 9,
                    point: 5,
                    peek
                },
            ]
        );
    }

    #[test]
    fn unwanted_sites_are_left_out() {
        let bytes = encode(&catalog(), false, |id| id == 2);
        let table = HookTable::parse(&bytes).unwrap();
        assert_eq!(table.len(), 1);
        assert_eq!(
            table.find("a/B").unwrap().unwrap().methods[0].hooks.len(),
            1
        );
    }

    proptest::proptest! {
        #[test]
        fn damaged_files_are_errors_not_panics(at in 0usize..400, value: u8, cut in 0usize..400) {
            let mut bytes = encode(&catalog(), true, |_| true);
            let len = bytes.len();
            bytes[at % len] = value;
            bytes.truncate(cut.max(1).min(len));
            if let Ok(table) = HookTable::parse(&bytes) {
                let _ = table.find("a/A");
                let _ = (table.iter().count(), table.states());
            }
        }
    }
}
