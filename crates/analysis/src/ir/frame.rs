//! The symbolic stack and locals while a method is built, and the values made on the way.

use super::{List, Val, Value};

/// More than this many sources of one value are one unknown source.
const MAX_PHI_OPERANDS: usize = 48;

/// Bytecode that no verifier would accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// Locals and stack, slot by slot: a long or double is followed by [`Val::NONE`].
#[derive(Clone, Debug, Default)]
pub struct Frame {
    pub locals: Vec<Val>,
    pub stack: Vec<Val>,
}

impl Frame {
    pub fn push(&mut self, val: Val, wide: bool) {
        self.stack.push(val);
        if wide {
            self.stack.push(Val::NONE);
        }
    }

    pub fn pop(&mut self, wide: bool) -> Result<Val, Malformed> {
        if wide {
            self.stack.pop().ok_or(Malformed)?;
        }
        self.stack.pop().ok_or(Malformed)
    }

    pub fn local(&self, slot: u16) -> Result<Val, Malformed> {
        self.locals.get(usize::from(slot)).copied().ok_or(Malformed)
    }

    pub fn set_local(&mut self, slot: u16, val: Val, wide: bool) -> Result<(), Malformed> {
        *self.locals.get_mut(usize::from(slot)).ok_or(Malformed)? = val;
        if wide {
            *self
                .locals
                .get_mut(usize::from(slot) + 1)
                .ok_or(Malformed)? = Val::NONE;
        }
        Ok(())
    }

    /// Copies the top `count` slots and puts the copy below `skip` more slots: all `dup` forms.
    pub fn dup(&mut self, count: usize, skip: usize) -> Result<(), Malformed> {
        let top = self.stack.len();
        let from = top.checked_sub(count).ok_or(Malformed)?;
        let at = from.checked_sub(skip).ok_or(Malformed)?;
        let copy: Vec<Val> = self.stack[from..].to_vec();
        self.stack.splice(at..at, copy);
        Ok(())
    }

    pub fn swap(&mut self) -> Result<(), Malformed> {
        let top = self.stack.len();
        if top < 2 {
            return Err(Malformed);
        }
        self.stack.swap(top - 1, top - 2);
        Ok(())
    }
}

/// The values of a method under construction. A phi's operands grow until all paths are seen.
#[derive(Default)]
pub struct Values {
    pub values: Vec<Value>,
    /// Operands of each phi; a phi's list starts at its index here until it is finished.
    phis: Vec<Vec<Val>>,
}

impl Values {
    pub fn add(&mut self, value: Value) -> Val {
        self.values.push(value);
        Val(self.values.len() as u32 - 1)
    }

    pub fn is_constant(&self, val: Val) -> bool {
        matches!(
            self.values.get(val.0 as usize),
            Some(Value::Int(_) | Value::Text(_) | Value::ClassConst(_) | Value::Null)
        )
    }

    /// A new phi without operands.
    pub fn phi(&mut self) -> Val {
        self.phis.push(Vec::new());
        let start = self.phis.len() as u32 - 1;
        self.add(Value::Phi(List { start, len: 0 }))
    }

    pub fn extend_phi(&mut self, phi: Val, operand: Val) {
        if operand.is_none() || phi == operand {
            return;
        }
        let Some(Value::Phi(list)) = self.values.get(phi.0 as usize) else {
            return;
        };
        let operands = &mut self.phis[list.start as usize];
        if operands.len() < MAX_PHI_OPERANDS && !operands.contains(&operand) {
            operands.push(operand);
            if operands.len() == MAX_PHI_OPERANDS {
                self.values.push(Value::Unknown);
                operands.push(Val(self.values.len() as u32 - 1));
            }
        }
    }

    /// For each value what it stands for: phis with one source are that source.
    pub fn aliases(&self) -> Vec<Val> {
        let mut alias: Vec<Val> = (0..self.values.len() as u32).map(Val).collect();
        let resolve = |alias: &[Val], mut at: Val| {
            while alias[at.0 as usize] != at {
                at = alias[at.0 as usize];
            }
            at
        };
        let mut changed = true;
        while changed {
            changed = false;
            for (i, value) in self.values.iter().enumerate() {
                let Value::Phi(list) = value else { continue };
                let this = Val(i as u32);
                if alias[i] != this {
                    continue;
                }
                let mut only = None;
                let operands = self.phis[list.start as usize].iter();
                let mut sources = operands
                    .map(|o| resolve(&alias, *o))
                    .filter(|source| *source != this);
                let single = sources.all(|source| *only.get_or_insert(source) == source);
                if let (true, Some(source)) = (single, only) {
                    alias[i] = source;
                    changed = true;
                }
            }
        }
        (0..alias.len() as u32)
            .map(|i| resolve(&alias, Val(i)))
            .collect()
    }

    pub fn operands(&self, list: List) -> &[Val] {
        self.phis
            .get(list.start as usize)
            .map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vals(numbers: &[u32]) -> Vec<Val> {
        numbers.iter().copied().map(Val).collect()
    }

    #[test]
    fn dups_copy_below_what_they_skip() {
        for (count, skip, expected) in [
            (1, 0, &[1, 2, 3, 3][..]),
            (1, 1, &[1, 3, 2, 3]),
            (1, 2, &[3, 1, 2, 3]),
            (2, 0, &[1, 2, 3, 2, 3]),
            (2, 1, &[2, 3, 1, 2, 3]),
        ] {
            let mut frame = Frame {
                locals: Vec::new(),
                stack: vals(&[1, 2, 3]),
            };
            frame.dup(count, skip).unwrap();
            assert_eq!(frame.stack, vals(expected), "dup {count} {skip}");
        }
        assert_eq!(Frame::default().dup(1, 0), Err(Malformed));
        assert_eq!(Frame::default().swap(), Err(Malformed));
    }

    #[test]
    fn phis_of_one_source_are_that_source_even_around_a_loop() {
        let mut values = Values::default();
        let source = values.add(Value::Null);
        let (outer, inner) = (values.phi(), values.phi());
        values.extend_phi(outer, source);
        values.extend_phi(outer, inner);
        values.extend_phi(inner, outer);
        let both = values.phi();
        let other = values.add(Value::Const);
        values.extend_phi(both, source);
        values.extend_phi(both, other);
        let alias = values.aliases();
        assert_eq!((alias[1], alias[2]), (source, source));
        assert_eq!(alias[both.0 as usize], both);
    }
}
