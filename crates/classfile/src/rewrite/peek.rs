//! Hands a number that lies on the operand stack to a static method, and leaves the stack as it was.

use super::{ClassEdit, Insertion, StaticMethod, push_int};
use crate::error::EditError;
use crate::opcode::*;

/// Which value to look at, as it lies before an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peek {
    /// Slots that lie above the value: 0, 1 or 2.
    pub above: u16,
    /// The value is a long, else an int.
    pub wide: bool,
    /// The one slot above the value is a reference to a `TimeUnit`.
    pub unit: bool,
}

/// What the call takes: an object, a long and an int.
const ARGUMENTS: u16 = 4;

impl ClassEdit<'_, '_> {
    /// Before the instruction at `pc`, calls `call`, whose descriptor is `(Ljava/lang/Object;JI)V`,
    /// with the unit (or null), the value (as a long) and `id`.
    pub fn peek(
        &mut self,
        method: usize,
        pc: u16,
        value: Peek,
        id: i32,
        call: StaticMethod,
    ) -> Result<(), EditError> {
        self.check_method(method)?;
        let refuse = |reason| Err(EditError::Peek { method, pc, reason });
        if value.above > 2 {
            return refuse("more than two slots lie above it");
        }
        if value.unit && value.above != 1 {
            return refuse("a unit is the one slot above it");
        }
        if (call.arguments, call.result) != (ARGUMENTS, 0) {
            return refuse("the method called must be a (Ljava/lang/Object;JI)V");
        }
        let start = self.code.len();
        self.code.extend(copy(value));
        push_int(&mut self.code, &mut self.pool, id)?;
        self.code.push(INVOKESTATIC);
        self.code.extend(call.index.to_be_bytes());
        self.insertions.push(Insertion {
            method,
            pc,
            code: start..self.code.len(),
            // No way to the arguments is higher than the arguments themselves.
            stack: ARGUMENTS,
        });
        Ok(())
    }
}

/// Puts unit (or null) and value on top of the stack. In the comments L is a long, I an int, N null,
/// U the unit, X another slot; XX is one long or double or two single slots, and each instruction
/// that moves it has a form for both (JVMS 6.5).
fn copy(value: Peek) -> Vec<u8> {
    let (above, null): (&[u8], &[u8]) = match (value.wide, value.above, value.unit) {
        // I -> I I
        (false, 0, _) => (&[DUP], &[ACONST_NULL, SWAP, I2L]),
        // I U -> I U I U -> I U U I -> I U U L
        (false, 1, true) => (&[DUP2, SWAP], &[I2L]),
        // I X -> I X I X -> I X I
        (false, 1, false) => (&[DUP2, POP], &[ACONST_NULL, SWAP, I2L]),
        // I XX -> XX I XX -> XX I -> I XX I
        (false, _, _) => (&[DUP2_X1, POP2, DUP_X2], &[ACONST_NULL, SWAP, I2L]),
        // L -> L L
        (true, 0, _) => (&[DUP2], &[ACONST_NULL, DUP_X2, POP]),
        // L U -> U L U -> U U L U -> U U L -> L U U L
        (true, 1, true) => (&[DUP_X2, DUP_X2, POP, DUP2_X2], &[]),
        // L X -> X L X -> X L -> L X L
        (true, 1, false) => (&[DUP_X2, POP, DUP2_X1], &[ACONST_NULL, DUP_X2, POP]),
        // L XX -> XX L XX -> XX L -> L XX L
        (true, _, _) => (&[DUP2_X2, POP2, DUP2_X2], &[ACONST_NULL, DUP_X2, POP]),
    };
    [above, null].concat()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{class_of, with_code};
    use super::*;
    use crate::class::ClassFile;

    /// A stack entry: its name, and whether it takes two slots.
    type Entry = (&'static str, bool);

    /// Takes entries of exactly `slots` slots off the top; a long cannot be torn apart.
    fn take(stack: &mut Vec<Entry>, slots: usize) -> Vec<Entry> {
        let (mut taken, mut left) = (Vec::new(), slots);
        while left > 0 {
            let entry = stack.pop().expect("the stack has what is taken");
            left = left
                .checked_sub(1 + usize::from(entry.1))
                .expect("no half of a long");
            taken.insert(0, entry);
        }
        taken
    }

    /// What the verifier allows, and no more; gives the stack and its greatest depth.
    fn run(code: &[u8], mut stack: Vec<Entry>) -> (Vec<Entry>, usize) {
        let depth = |stack: &[Entry]| stack.iter().map(|e| 1 + usize::from(e.1)).sum();
        let mut deepest: usize = depth(&stack);
        for opcode in code {
            let (copied, below) = match *opcode {
                DUP => (1, 0),
                DUP_X2 => (1, 2),
                DUP2 => (2, 0),
                DUP2_X1 => (2, 1),
                DUP2_X2 => (2, 2),
                ACONST_NULL => {
                    stack.push(("null", false));
                    (0, 0)
                }
                POP | POP2 => {
                    take(&mut stack, usize::from(opcode - POP) + 1);
                    (0, 0)
                }
                SWAP => {
                    let top = take(&mut stack, 1);
                    let under = take(&mut stack, 1);
                    stack.extend([top, under].concat());
                    (0, 0)
                }
                I2L => {
                    assert_eq!(take(&mut stack, 1), [("int", false)]);
                    stack.push(("value", true));
                    (0, 0)
                }
                other => panic!("{other:#x} is not expected here"),
            };
            let top = take(&mut stack, copied);
            let under = take(&mut stack, below);
            stack.extend([&top[..], &under, &top].concat());
            deepest = deepest.max(depth(&stack));
        }
        (stack, deepest)
    }

    #[test]
    fn every_way_copies_the_value_and_keeps_the_stack() {
        let one: &[Entry] = &[("x", false)];
        let unit: &[Entry] = &[("unit", false)];
        let two: &[Entry] = &[("x", false), ("y", false)];
        let long: &[Entry] = &[("z", true)];
        for wide in [false, true] {
            let value = if wide {
                ("value", true)
            } else {
                ("int", false)
            };
            for (above, on_top) in [(0, &[][..]), (1, one), (1, unit), (2, two), (2, long)] {
                let peek = Peek {
                    above,
                    wide,
                    unit: on_top == unit,
                };
                // What lies deeper must not be needed.
                let before = [&[value], on_top].concat();
                let (after, deepest) = run(&copy(peek), before.clone());
                let object = if peek.unit { unit[0] } else { ("null", false) };
                let expected = [&before[..], &[object, ("value", true)]].concat();
                assert_eq!(after, expected, "{peek:?}");
                let slots = 1 + usize::from(wide) + usize::from(above);
                // With the id, which is pushed last.
                let needed = deepest.max(slots + 3 + 1) - slots;
                assert_eq!(needed, usize::from(ARGUMENTS), "{peek:?}");
            }
        }
    }

    #[test]
    fn the_call_stands_before_the_instruction() {
        // 0: lconst_0; 1: lconst_1; 2: lcmp; 3: pop; 4: return
        let bytes = class_of(&[LCONST_0, LCONST_1, LCMP, POP, RETURN], &[], &[]);
        let class = ClassFile::parse(&bytes).unwrap();
        let mut edit = ClassEdit::new(&class);
        let call = edit
            .static_method("H", "peek", "(Ljava/lang/Object;JI)V")
            .unwrap();
        let left = Peek {
            above: 2,
            wide: true,
            unit: false,
        };
        edit.peek(0, 2, left, 7, call).unwrap();
        with_code(&edit.finish().unwrap().bytes, |code| {
            let [high, low] = call.index.to_be_bytes();
            let expected = [
                &[LCONST_0, LCONST_1][..],
                &[DUP2_X2, POP2, DUP2_X2, ACONST_NULL, DUP_X2, POP],
                &[BIPUSH, 7, INVOKESTATIC, high, low],
                &[LCMP, POP, RETURN],
            ];
            assert_eq!(code.bytes(), expected.concat());
            assert_eq!(code.max_stack, 2 + ARGUMENTS);
        });
    }

    #[test]
    fn what_cannot_be_reached_is_refused() {
        let bytes = class_of(&[RETURN], &[], &[]);
        let class = ClassFile::parse(&bytes).unwrap();
        let mut edit = ClassEdit::new(&class);
        let call = edit
            .static_method("H", "peek", "(Ljava/lang/Object;JI)V")
            .unwrap();
        let other = edit.static_method("H", "at", "(I)V").unwrap();
        let value = |above, unit| Peek {
            above,
            wide: true,
            unit,
        };
        let mut refused = |value, call, why: &str| {
            let error = edit.peek(0, 0, value, 1, call).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        refused(value(3, false), call, "more than two slots");
        refused(value(0, true), call, "a unit is the one slot");
        refused(value(2, true), call, "a unit is the one slot");
        refused(value(0, false), other, "(Ljava/lang/Object;JI)V");
        assert!(edit.peek(1, 0, value(0, false), 1, call).is_err());
        assert_eq!(edit.finish().unwrap().bytes, bytes);
    }
}
