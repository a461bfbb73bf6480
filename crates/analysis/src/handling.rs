//! Exceptions inside one method: which handler gets them, and whether they get out after all.

use crate::ir::{Body, OpKind, Sym, Val, Value};
use crate::program::Program;

/// The exception handlers of a body, and which of them throw on what they caught.
pub struct Handling<'h> {
    program: &'h Program,
    body: &'h Body,
    /// Handler block, block of the throw.
    rethrows: Vec<(u32, u32)>,
}

impl<'h> Handling<'h> {
    pub fn new(program: &'h Program, body: &'h Body) -> Handling<'h> {
        let mut rethrows = Vec::new();
        for (at, block) in body.blocks.iter().enumerate() {
            if let Some(op) = body.ops_of(block).last()
                && let OpKind::Throw(val) = op.kind
            {
                caught(body, val, &mut Vec::new(), &mut |handler| {
                    rethrows.push((handler, at as u32))
                });
            }
        }
        Handling {
            program,
            body,
            rethrows,
        }
    }

    /// Does an exception that is raised in a block leave the method?
    pub fn escapes(&self, class: Sym, block: u32) -> bool {
        let mut seen: Vec<u32> = vec![block];
        let mut at = 0;
        while at < seen.len() {
            if self.escapes_block(class, seen[at], &mut seen) {
                return true;
            }
            at += 1;
        }
        false
    }

    fn escapes_block(&self, class: Sym, block: u32, seen: &mut Vec<u32>) -> bool {
        for (handler, catches) in &self.body.blocks[block as usize].handlers {
            let surely = match catches {
                None => true,
                Some(catches) => self.program.is_subtype_named(class, *catches),
            };
            let perhaps = |catches: Sym| self.program.is_subtype_named(catches, class);
            if surely || catches.is_some_and(perhaps) {
                for (of, thrown_in) in &self.rethrows {
                    if of == handler && !seen.contains(thrown_in) {
                        seen.push(*thrown_in);
                    }
                }
            }
            if surely {
                return false;
            }
        }
        true
    }
}

/// The handlers whose exception a value may be.
fn caught(body: &Body, val: Val, seen: &mut Vec<Val>, found: &mut impl FnMut(u32)) {
    if seen.contains(&val) {
        return;
    }
    seen.push(val);
    match body.value(val) {
        Value::Caught(handler) => found(handler),
        Value::Cast { a, .. } => caught(body, a, seen, found),
        Value::Phi(list) => {
            for operand in body.list(list) {
                caught(body, *operand, seen, found);
            }
        }
        _ => {}
    }
}
