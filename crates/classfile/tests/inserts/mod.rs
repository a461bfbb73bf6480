//! Edits for the tests that hook whole classes: where a number can be peeked at.

use temblor_classfile::opcode::LCMP;
use temblor_classfile::{ConstantPool, Instruction, Peek, method_types};

const IF_ICMPEQ: u8 = 0x9f;
const IF_ICMPLE: u8 = 0xa4;
const UNIT: &str = "Ljava/util/concurrent/TimeUnit;";

/// Every int and long that lies within reach before the instruction: operands of a comparison and
/// arguments of a call, the lower one first.
pub fn peeks(instruction: &Instruction<'_>, pool: &ConstantPool<'_>) -> Vec<Peek> {
    match instruction.opcode {
        LCMP => reach(&["J", "J"]),
        IF_ICMPEQ..=IF_ICMPLE => reach(&["I", "I"]),
        _ => match instruction.invoke(pool).expect("the call reads") {
            Some(invoke) => {
                let descriptor = invoke.descriptor.to_string();
                reach(&method_types(&descriptor).expect("it is a descriptor").0)
            }
            None => Vec::new(),
        },
    }
}

fn reach(types: &[&str]) -> Vec<Peek> {
    let slots = |of: &str| 1 + u16::from(matches!(of, "J" | "D"));
    let (mut found, mut above, mut last) = (Vec::new(), 0, "");
    for of in types.iter().rev() {
        if above <= 2 && matches!(*of, "I" | "J") {
            found.insert(
                0,
                Peek {
                    above,
                    wide: *of == "J",
                    unit: above == 1 && last == UNIT,
                },
            );
        }
        above += slots(of);
        last = of;
    }
    found
}
