//! The hooks file: which classes the agent rewrites and where, in a form it can search in place.
//!
//! Written once per catalog, mapped by every node; finding a class is a binary search, because
//! the agent is asked for every class a JVM loads. All numbers are little-endian.

use crate::catalog::SiteCatalog;
use crate::site::SiteKind;

const MAGIC: &[u8; 8] = b"TMBHOOK1";
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
    /// Ask the site's arm byte.
    Site { pc: u32, site: u32 },
    /// Mark the block as covered.
    Block { pc: u32, block: u32 },
}

/// The insertions of one method, in order of position; a block's probe precedes its site.
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

/// Writes the hooks of the sites (and, with `blocks`, of the basic blocks) that `wanted` keeps.
pub fn encode(catalog: &SiteCatalog, blocks: bool, wanted: impl Fn(u32) -> bool) -> Vec<u8> {
    let mut bodies: Vec<(u64, Vec<u8>)> = Vec::new();
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
            let hook = Hook::Site {
                pc: site.pc,
                site: site.id,
            };
            add(site.method.as_str(), site.desc.as_str(), hook);
        }
        if methods.is_empty() {
            continue;
        }
        for method in &mut methods {
            method.hooks.sort_by_key(|h| match h {
                Hook::Block { pc, .. } => (*pc, 0),
                Hook::Site { pc, .. } => (*pc, 1),
            });
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
    assemble(catalog.hash(), bodies)
}

fn assemble(catalog_hash: u64, mut bodies: Vec<(u64, Vec<u8>)>) -> Vec<u8> {
    bodies.sort();
    let mut out = Vec::new();
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&catalog_hash.to_le_bytes());
    out.extend_from_slice(&(bodies.len() as u32).to_le_bytes());
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
            let (kind, pc, id) = match hook {
                Hook::Site { pc, site } => (0u8, pc, site),
                Hook::Block { pc, block } => (1u8, pc, block),
            };
            out.push(kind);
            out.extend_from_slice(&pc.to_le_bytes());
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
                let (kind, pc, id) = (self.byte()?, self.u32()?, self.u32()?);
                hooks.push(match kind {
                    0 => Hook::Site { pc, site: id },
                    1 => Hook::Block { pc, block: id },
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
                Hook::Site { pc: 7, site: 0 }
            ]
        );
        assert!(table.find("a/C").unwrap().is_none());
        assert_eq!(table.catalog_hash(), catalog().hash());
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
                let _ = table.iter().count();
            }
        }
    }
}
