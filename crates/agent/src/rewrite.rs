//! Rewrites one class as its hooks say: a call of the hook class before each site and block.

use temblor_classfile::{ClassEdit, ClassFile, EditError, Op, Peek, ReadError, class_hash};
use temblor_model::hooks::{ClassHooks, Hook, MethodHooks};
use thiserror::Error;

use crate::hook_class::{AT, NAME, PROBE, VALUE, VALUE_DESC};

/// How many points and blocks the board has: hooks outside would touch foreign memory.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub points: u32,
    pub blocks: u32,
}

/// Why a class is left as it is.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LeftAlone {
    #[error("differs from the analysed one")]
    OtherBytes,
    #[error("is used by every hook and cannot be hooked itself")]
    UsedByHooks,
    #[error("has a hook for number {0}, which is not on the board")]
    NotOnBoard(u32),
    #[error("cannot be read: {0}")]
    Read(#[from] ReadError),
    #[error("cannot be rewritten: {0}")]
    Edit(#[from] EditError),
}

/// The new class, and what stayed out of it.
#[derive(Debug)]
pub struct Rewritten {
    pub bytes: Vec<u8>,
    pub skipped: Vec<String>,
}

/// A class that is retransformed is not checked: the JVM puts its bytes together again.
pub fn rewrite(
    bytes: &[u8],
    hooks: &ClassHooks<'_>,
    bounds: Bounds,
) -> Result<Rewritten, LeftAlone> {
    // Its methods run inside the hook: hooked, they would call themselves for ever.
    if hooks.name.ends_with("/misc/Unsafe") {
        return Err(LeftAlone::UsedByHooks);
    }
    let checked = hooks.hash != 0 && !hooks.retransform;
    if checked && class_hash(bytes) != hooks.hash {
        return Err(LeftAlone::OtherBytes);
    }
    let class = ClassFile::parse(bytes)?;
    let mut edit = ClassEdit::new(&class);
    let at = edit.static_method(NAME, AT, "(I)V")?;
    let probe = edit.static_method(NAME, PROBE, "(I)V")?;
    let value = edit.static_method(NAME, VALUE, VALUE_DESC)?;
    let mut skipped = Vec::new();
    for method in &hooks.methods {
        let Some(index) = index_of(&class, method) else {
            skipped.push(format!("{}{}: no such method", method.name, method.desc));
            continue;
        };
        for hook in &method.hooks {
            let (pc, id, limit) = match *hook {
                Hook::Point { pc, point } | Hook::Value { pc, point, .. } => {
                    (pc, point, bounds.points)
                }
                Hook::Leave { point } => (0, point, bounds.points),
                Hook::Block { pc, block } => (pc, block, bounds.blocks),
            };
            if id >= limit {
                return Err(LeftAlone::NotOnBoard(id));
            }
            let pc = u16::try_from(pc).map_err(|_| EditError::NoInstruction {
                method: index,
                pc: u16::MAX,
            })?;
            let id = id as i32;
            let call = |method| [Op::PushInt(id), Op::InvokeStatic(method)];
            match *hook {
                Hook::Point { .. } => edit.insert(index, pc, &call(at))?,
                Hook::Block { .. } => edit.insert(index, pc, &call(probe))?,
                Hook::Leave { .. } => edit.on_leaving(index, &call(at))?,
                Hook::Value { peek, .. } => {
                    let peek = Peek {
                        above: peek.above.into(),
                        wide: peek.wide,
                        unit: peek.unit,
                    };
                    edit.peek(index, pc, peek, id, value)?;
                }
            }
        }
    }
    let edited = edit.finish()?;
    let out = edited
        .skipped
        .iter()
        .map(|s| format!("{}{}: {}", s.name, s.descriptor, s.reason));
    skipped.extend(out);
    Ok(Rewritten {
        bytes: edited.bytes,
        skipped,
    })
}

fn index_of(class: &ClassFile<'_>, method: &MethodHooks<'_>) -> Option<usize> {
    let (name, desc) = (method.name, method.desc);
    class
        .methods()
        .iter()
        .position(|m| m.name == name && m.descriptor == desc)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        points: 1,
        blocks: 1,
    };

    fn hook_class() -> Vec<u8> {
        crate::hook_class::bytes(17, std::ptr::null(), std::ptr::null()).unwrap()
    }

    fn hooks(name: &'static str, hook: Hook) -> ClassHooks<'static> {
        let method = MethodHooks {
            name: "at",
            desc: "(I)V",
            hooks: vec![hook],
        };
        ClassHooks {
            name,
            hash: class_hash(&hook_class()),
            retransform: false,
            methods: vec![method],
        }
    }

    #[test]
    fn a_hook_is_five_bytes_or_less() {
        let (bytes, hooks) = (hook_class(), hooks("A", Hook::Point { pc: 0, point: 0 }));
        let done = rewrite(&bytes, &hooks, BOUNDS).unwrap();
        assert!(done.skipped.is_empty());
        let length = |bytes: &[u8]| {
            let class = ClassFile::parse(bytes).unwrap();
            let at = class.methods().iter().find(|m| m.name == "at").unwrap();
            class.code(at).unwrap().unwrap().bytes().len()
        };
        assert_eq!(length(&done.bytes), length(&bytes) + 4);
    }

    #[test]
    fn what_does_not_fit_is_left_alone() {
        let check = |hooks: ClassHooks<'_>, expected: &str| {
            let reason = rewrite(&hook_class(), &hooks, BOUNDS)
                .unwrap_err()
                .to_string();
            assert!(reason.contains(expected), "{reason}");
        };
        check(
            hooks("A", Hook::Point { pc: 0, point: 1 }),
            "not on the board",
        );
        check(
            hooks("A", Hook::Block { pc: 1, block: 0 }),
            "no instruction at pc 1",
        );
        check(
            hooks(
                "A",
                Hook::Block {
                    pc: 70_000,
                    block: 0,
                },
            ),
            "no instruction",
        );
        check(
            hooks("sun/misc/Unsafe", Hook::Point { pc: 0, point: 0 }),
            "used by every hook",
        );
        let other = ClassHooks {
            hash: 1,
            ..hooks("A", Hook::Point { pc: 0, point: 0 })
        };
        check(other, "differs from the analysed one");
    }
}
