//! Which types carry I/O: streams, channels, sockets, files, and the target's own classes around
//! them.

use rustc_hash::FxHashSet;
use temblor_classfile::{access, method_types};
use temblor_model::settings::AnalysisSettings;

use crate::ir::Sym;
use crate::load::class_of;
use crate::program::{ClassId, Program};

/// What objects of a type read from or write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// Memory, by the very type.
    Memory,
    Disk,
    Network,
    /// One of the three: it depends on what the object was made of.
    Stream,
}

/// The first that a type is a subtype of counts.
const BASES: &[(&str, Carrier)] = &[
    ("java/io/ByteArrayInputStream", Carrier::Memory),
    ("java/io/ByteArrayOutputStream", Carrier::Memory),
    ("java/io/StringReader", Carrier::Memory),
    ("java/io/StringWriter", Carrier::Memory),
    ("java/io/StringBufferInputStream", Carrier::Memory),
    ("java/io/CharArrayReader", Carrier::Memory),
    ("java/io/CharArrayWriter", Carrier::Memory),
    ("io/netty/buffer/ByteBufInputStream", Carrier::Memory),
    ("io/netty/buffer/ByteBufOutputStream", Carrier::Memory),
    ("java/io/FileInputStream", Carrier::Disk),
    ("java/io/FileOutputStream", Carrier::Disk),
    ("java/io/FileReader", Carrier::Disk),
    ("java/io/FileWriter", Carrier::Disk),
    ("java/io/RandomAccessFile", Carrier::Disk),
    ("java/nio/channels/FileChannel", Carrier::Disk),
    ("java/nio/channels/AsynchronousFileChannel", Carrier::Disk),
    ("java/util/zip/ZipFile", Carrier::Disk),
    ("java/net/Socket", Carrier::Network),
    ("java/net/ServerSocket", Carrier::Network),
    ("java/net/DatagramSocket", Carrier::Network),
    ("java/net/URLConnection", Carrier::Network),
    ("java/nio/channels/NetworkChannel", Carrier::Network),
    ("java/nio/channels/SocketChannel", Carrier::Network),
    ("java/nio/channels/DatagramChannel", Carrier::Network),
    ("io/netty/channel/Channel", Carrier::Network),
    ("java/io/InputStream", Carrier::Stream),
    ("java/io/OutputStream", Carrier::Stream),
    ("java/io/Reader", Carrier::Stream),
    ("java/io/Writer", Carrier::Stream),
    ("java/io/DataInput", Carrier::Stream),
    ("java/io/DataOutput", Carrier::Stream),
    ("java/nio/channels/Channel", Carrier::Stream),
];

/// Libraries have in-memory streams of their own and name them alike.
const MEMORY_NAMES: &[&str] = &["ByteArrayInput", "ByteArrayOutput", "ByteArrayData"];

/// How often the target's own classes are looked at again: wrappers of wrappers of wrappers.
const ROUNDS: usize = 4;

/// The carrier of every class of a program.
pub struct Media {
    of_class: Vec<Option<Carrier>>,
}

impl Media {
    pub fn new(program: &Program, settings: &AnalysisSettings) -> Media {
        let memory: FxHashSet<ClassId> = settings
            .memory
            .iter()
            .filter_map(|name| program.class_id(&name.replace('.', "/")))
            .collect();
        let bases: Vec<(ClassId, Carrier)> = BASES
            .iter()
            .filter_map(|(name, carrier)| Some((program.class_id(name)?, *carrier)))
            .collect();
        let of_class = (0..program.classes.len() as u32)
            .map(|id| by_type(program, ClassId(id), &memory, &bases))
            .collect();
        let mut media = Media { of_class };
        for _ in 0..ROUNDS {
            if !media.add_wrappers(program) {
                break;
            }
        }
        media
    }

    pub fn of(&self, class: ClassId) -> Option<Carrier> {
        self.of_class[class.0 as usize]
    }

    pub fn of_sym(&self, program: &Program, class: Sym) -> Option<Carrier> {
        self.of(program.class_named(class)?)
    }

    /// By a field's or parameter's descriptor.
    pub fn of_desc(&self, program: &Program, desc: &str) -> Option<Carrier> {
        self.of(program.class_id(class_of(desc)?)?)
    }

    /// Own classes that keep a stream they are given are streams too, and so is an own interface
    /// whose every implementation is one.
    fn add_wrappers(&mut self, program: &Program) -> bool {
        let mut found = Vec::new();
        for (id, class) in program.own_classes() {
            if self.of(id).is_some() || class.access & access::ENUM != 0 {
                continue;
            }
            let wraps = match class.access & access::INTERFACE != 0 {
                true => self.all_implementations(program, id),
                false => self.keeps_stream(program, id),
            };
            if wraps {
                found.push(id);
            }
        }
        for id in &found {
            self.of_class[id.0 as usize] = Some(Carrier::Stream);
        }
        !found.is_empty()
    }

    fn keeps_stream(&self, program: &Program, id: ClassId) -> bool {
        let class = program.class(id);
        let carries = |desc: &str| self.of_desc(program, desc).is_some();
        let holds = class
            .fields
            .iter()
            .any(|f| f.access & access::STATIC == 0 && carries(program.str(f.desc)));
        let given = || {
            class.methods.iter().any(|m| {
                program.str(m.name) == "<init>"
                    && method_types(program.str(m.desc))
                        .is_some_and(|(types, _)| types.iter().any(|t| carries(t)))
            })
        };
        holds && given()
    }

    fn all_implementations(&self, program: &Program, id: ClassId) -> bool {
        let is_concrete =
            |c: ClassId| program.class(c).access & (access::ABSTRACT | access::INTERFACE) == 0;
        let mut concrete = program.all_subtypes(id);
        // What the settings leave out is of no account.
        concrete.retain(|c| program.is_own(*c) && is_concrete(*c));
        !concrete.is_empty() && concrete.iter().all(|c| self.of(*c).is_some())
    }
}

fn by_type(
    program: &Program,
    id: ClassId,
    memory: &FxHashSet<ClassId>,
    bases: &[(ClassId, Carrier)],
) -> Option<Carrier> {
    let ancestors = program.ancestors(id);
    if ancestors.iter().any(|a| memory.contains(a)) {
        return Some(Carrier::Memory);
    }
    let first = bases.iter().find(|(base, _)| program.is_subtype(id, *base));
    let carrier = first.map(|(_, carrier)| *carrier)?;
    let name = program.str(program.class(id).name);
    let named = MEMORY_NAMES.iter().any(|part| name.contains(part));
    Some(match carrier == Carrier::Stream && named {
        true => Carrier::Memory,
        false => carrier,
    })
}
