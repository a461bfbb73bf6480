//! Sites: the places in the code where a fault may happen, and the catalog that lists them.

use serde::{Deserialize, Serialize};

/// A site's index in its catalog: what the board and the agent speak.
pub type SiteId = u32;

/// Where the hook of a site stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SiteKind {
    /// Just before a call, inside the same try range.
    Call,
    /// At the entry of a JDK method that does I/O, whoever calls it.
    Entry,
}

/// What an I/O site touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Medium {
    Disk,
    Network,
    /// I/O, but which of the two cannot be told from the call alone.
    Stream,
}

/// Which way the bytes of an I/O site go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    Read,
    Write,
    /// Opening, closing, connecting, renaming and the like.
    Control,
}

/// The I/O a site does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Io {
    pub medium: Medium,
    pub direction: Direction,
}

/// One place where a fault may happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// Index in the catalog; stable for the same class files.
    pub id: SiteId,
    /// `pkg.Class.method(Params)>pkg.Callee.method#k`: stable across builds that keep the method.
    pub name: String,
    pub kind: SiteKind,
    /// Internal name of the class that holds the site, with slashes.
    pub class: String,
    pub method: String,
    pub desc: String,
    /// Position in the unmodified code.
    pub pc: u32,
    pub line: Option<u32>,
    /// `pkg.Callee.method`, with dots.
    pub callee: String,
    /// Exceptions the call can raise, most general first, with dots.
    pub exceptions: Vec<String>,
    /// Present where the call does I/O: then a delay makes sense too.
    pub io: Option<Io>,
}

/// The basic blocks of one method, for coverage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodBlocks {
    pub method: String,
    pub desc: String,
    /// Id of the first block; the others follow in order.
    pub first: u32,
    pub pcs: Vec<u32>,
}

/// A class that is hooked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassEntry {
    /// Internal name, with slashes.
    pub name: String,
    /// Hash of the class bytes the analysis saw; 0 for JDK classes, which are retransformed.
    pub hash: u64,
    pub blocks: Vec<MethodBlocks>,
}

/// Everything the analysis found: what can be hooked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteCatalog {
    pub format: u32,
    pub sites: Vec<Site>,
    /// Classes with sites or blocks, sorted by name.
    pub classes: Vec<ClassEntry>,
    pub block_count: u32,
}

impl SiteCatalog {
    pub const FORMAT: u32 = 1;

    pub fn site(&self, id: SiteId) -> Option<&Site> {
        self.sites.get(id as usize)
    }

    pub fn by_name(&self, name: &str) -> Option<&Site> {
        self.sites.iter().find(|s| s.name == name)
    }

    /// Identity of the catalog: board, hooks file and store must agree on it.
    pub fn hash(&self) -> u64 {
        let mut hash = crate::fnv64(&self.block_count.to_le_bytes());
        for class in &self.classes {
            hash = crate::fnv64_from(hash, &class.hash.to_le_bytes());
        }
        for site in &self.sites {
            hash = crate::fnv64_from(hash, site.name.as_bytes());
            hash = crate::fnv64_from(hash, &site.pc.to_le_bytes());
        }
        hash
    }
}

/// Something the analysis could not use; the rest was analysed all the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// The jar, folder or class it is about.
    pub place: String,
    pub message: String,
}
