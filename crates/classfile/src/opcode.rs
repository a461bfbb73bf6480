//! The opcodes that this crate or its users name, and the length of each instruction.

pub const NOP: u8 = 0x00;
pub const ACONST_NULL: u8 = 0x01;
pub const ICONST_M1: u8 = 0x02;
pub const ICONST_0: u8 = 0x03;
pub const ICONST_1: u8 = 0x04;
pub const ICONST_5: u8 = 0x08;
pub const LCONST_0: u8 = 0x09;
pub const LCONST_1: u8 = 0x0a;
pub const BIPUSH: u8 = 0x10;
pub const SIPUSH: u8 = 0x11;
pub const LDC: u8 = 0x12;
pub const LDC_W: u8 = 0x13;
pub const LDC2_W: u8 = 0x14;
pub const ILOAD: u8 = 0x15;
pub const LLOAD: u8 = 0x16;
pub const ALOAD: u8 = 0x19;
pub const ILOAD_0: u8 = 0x1a;
pub const LLOAD_0: u8 = 0x1e;
pub const ALOAD_0: u8 = 0x2a;
pub const ALOAD_3: u8 = 0x2d;
pub const ISTORE: u8 = 0x36;
pub const ASTORE: u8 = 0x3a;
pub const ISTORE_0: u8 = 0x3b;
pub const ASTORE_3: u8 = 0x4e;
pub const BASTORE: u8 = 0x54;
pub const POP: u8 = 0x57;
pub const POP2: u8 = 0x58;
pub const DUP: u8 = 0x59;
pub const DUP_X1: u8 = 0x5a;
pub const DUP_X2: u8 = 0x5b;
pub const DUP2: u8 = 0x5c;
pub const DUP2_X1: u8 = 0x5d;
pub const DUP2_X2: u8 = 0x5e;
pub const SWAP: u8 = 0x5f;
pub const IADD: u8 = 0x60;
pub const LADD: u8 = 0x61;
pub const LSUB: u8 = 0x65;
pub const LMUL: u8 = 0x69;
pub const LDIV: u8 = 0x6d;
pub const IINC: u8 = 0x84;
pub const I2L: u8 = 0x85;
pub const LCMP: u8 = 0x94;
pub const IFEQ: u8 = 0x99;
pub const IFNE: u8 = 0x9a;
pub const IF_ACMPNE: u8 = 0xa6;
pub const GOTO: u8 = 0xa7;
pub const JSR: u8 = 0xa8;
pub const RET: u8 = 0xa9;
pub const TABLESWITCH: u8 = 0xaa;
pub const LOOKUPSWITCH: u8 = 0xab;
pub const IRETURN: u8 = 0xac;
pub const LRETURN: u8 = 0xad;
pub const ARETURN: u8 = 0xb0;
pub const RETURN: u8 = 0xb1;
pub const GETSTATIC: u8 = 0xb2;
pub const PUTSTATIC: u8 = 0xb3;
pub const GETFIELD: u8 = 0xb4;
pub const PUTFIELD: u8 = 0xb5;
pub const INVOKEVIRTUAL: u8 = 0xb6;
pub const INVOKESPECIAL: u8 = 0xb7;
pub const INVOKESTATIC: u8 = 0xb8;
pub const INVOKEINTERFACE: u8 = 0xb9;
pub const INVOKEDYNAMIC: u8 = 0xba;
pub const NEW: u8 = 0xbb;
pub const ANEWARRAY: u8 = 0xbd;
pub const ATHROW: u8 = 0xbf;
pub const CHECKCAST: u8 = 0xc0;
pub const INSTANCEOF: u8 = 0xc1;
pub const MONITORENTER: u8 = 0xc2;
pub const MONITOREXIT: u8 = 0xc3;
pub const WIDE: u8 = 0xc4;
pub const MULTIANEWARRAY: u8 = 0xc5;
pub const IFNULL: u8 = 0xc6;
pub const IFNONNULL: u8 = 0xc7;
pub const GOTO_W: u8 = 0xc8;
pub const JSR_W: u8 = 0xc9;

/// Length in bytes by opcode; 0 where it depends on operands or there is no such instruction.
pub(crate) static LENGTHS: [u8; 256] = {
    let mut lengths = [0; 256];
    let mut opcode = 0;
    while opcode < 256 {
        lengths[opcode] = fixed_length(opcode as u8);
        opcode += 1;
    }
    lengths
};

const fn fixed_length(opcode: u8) -> u8 {
    match opcode {
        BIPUSH | LDC | ILOAD..=ALOAD | ISTORE..=ASTORE | RET | 0xbc => 2,
        SIPUSH | LDC_W | LDC2_W | IINC | IFEQ..=JSR | GETSTATIC..=INVOKESTATIC => 3,
        NEW | ANEWARRAY | CHECKCAST | INSTANCEOF | IFNULL | IFNONNULL => 3,
        MULTIANEWARRAY => 4,
        INVOKEINTERFACE | INVOKEDYNAMIC | GOTO_W | JSR_W => 5,
        TABLESWITCH | LOOKUPSWITCH | WIDE | 0xca..=0xff => 0,
        _ => 1,
    }
}

/// A conditional or unconditional jump with a 16-bit offset.
pub(crate) const fn is_short_jump(opcode: u8) -> bool {
    matches!(opcode, IFEQ..=JSR | IFNULL | IFNONNULL)
}
