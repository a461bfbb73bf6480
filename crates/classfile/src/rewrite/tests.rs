//! Positions after an insert, on hand-made methods: each test states where a table must point.

use super::*;
use crate::code::{Code, Handler};
use crate::error::ReadError;
use crate::frames::VerificationType;

/// A class with one static method `m()V` of this code, handlers and code attributes.
pub(super) fn class_of(
    code: &[u8],
    handlers: &[[u16; 4]],
    attributes: &[(&str, Vec<u8>)],
) -> Vec<u8> {
    let mut pool = PoolWriter::starting_at(1);
    let this = pool.class("T").unwrap();
    let object = pool.class("java/lang/Object").unwrap();
    let [name, descriptor, code_name] = ["m", "()V", "Code"].map(|s| pool.utf8(s).unwrap());
    let mut content = [0, 2, 0, 1].to_vec();
    content.extend((code.len() as u32).to_be_bytes());
    content.extend(code);
    content.extend((handlers.len() as u16).to_be_bytes());
    content.extend(
        handlers
            .iter()
            .flatten()
            .flat_map(|field| field.to_be_bytes()),
    );
    content.extend((attributes.len() as u16).to_be_bytes());
    for (name, body) in attributes {
        content.extend(pool.utf8(name).unwrap().to_be_bytes());
        content.extend((body.len() as u32).to_be_bytes());
        content.extend(body);
    }
    let mut out = vec![0xCA, 0xFE, 0xBA, 0xBE, 0, 0, 0, 52];
    out.extend(pool.count().to_be_bytes());
    out.extend(pool.bytes());
    let head = [
        0x21, this, object, 0, 0, 1, 0x9, name, descriptor, 1, code_name,
    ];
    out.extend(head.map(u16::to_be_bytes).concat());
    out.extend((content.len() as u32).to_be_bytes());
    out.extend(content);
    out.extend([0, 0]);
    out
}

/// Inserts a five-byte hook (bipush, invokestatic) at each pc; gives the new class.
fn hooked(bytes: &[u8], pcs: &[u16]) -> Edited {
    let class = ClassFile::parse(bytes).unwrap();
    let mut edit = ClassEdit::new(&class);
    let hook = edit.static_method("H", "at", "(I)V").unwrap();
    for pc in pcs {
        edit.insert(0, *pc, &[Op::PushInt(100), Op::InvokeStatic(hook)])
            .unwrap();
    }
    edit.finish().unwrap()
}

pub(super) fn with_code<T>(bytes: &[u8], check: impl FnOnce(&Code<'_>) -> T) -> T {
    let class = ClassFile::parse(bytes).unwrap();
    check(&class.code(&class.methods()[0]).unwrap().unwrap())
}

const HOOK: u16 = 5;

#[test]
fn an_empty_edit_is_byte_identical() {
    let bytes = class_of(&[RETURN], &[], &[]);
    let class = ClassFile::parse(&bytes).unwrap();
    let mut edit = ClassEdit::new(&class);
    edit.static_method("H", "at", "(I)V").unwrap();
    assert_eq!(edit.finish().unwrap().bytes, bytes);
}

#[test]
fn a_jump_to_a_hooked_pc_runs_the_hook() {
    // 0: nop; 1: nop; 2: goto 1
    let edited = hooked(&class_of(&[NOP, NOP, GOTO, 0xFF, 0xFF], &[], &[]), &[1, 2]);
    with_code(&edited.bytes, |code| {
        let goto = code.instructions().last().unwrap().unwrap();
        assert_eq!(
            (goto.pc, goto.targets().next()),
            (1 + HOOK + 1 + HOOK, Some(Ok(1)))
        );
        assert_eq!(code.max_stack, 3);
        assert_eq!(code.block_starts().unwrap(), [0, 1]);
    });
    assert_eq!(edited.inserted, 2);
}

#[test]
fn inserts_at_one_pc_keep_their_order() {
    let bytes = class_of(&[NOP, RETURN], &[], &[]);
    let class = ClassFile::parse(&bytes).unwrap();
    let mut edit = ClassEdit::new(&class);
    let hook = edit.static_method("H", "at", "(I)V").unwrap();
    for value in [1, -129, 300_000, 127] {
        edit.insert(0, 1, &[Op::PushInt(value), Op::InvokeStatic(hook)])
            .unwrap();
    }
    let edited = edit.finish().unwrap();
    let class = ClassFile::parse(&edited.bytes).unwrap();
    let code = class.code(&class.methods()[0]).unwrap().unwrap();
    let pushed: Vec<_> = code
        .instructions()
        .map(|i| i.unwrap())
        .filter_map(|i| match i.ldc(class.pool()).unwrap() {
            Some(crate::Constant::Integer(value)) => Some(value),
            _ => i.int_operand(),
        })
        .collect();
    assert_eq!(pushed, [1, -129, 300_000, 127]);
}

#[test]
fn switch_padding_follows_the_new_position() {
    for hooks in 0..4 {
        // 0: iconst_0; 1: lookupswitch (2 bytes of padding) default 20, 7 -> 21
        let mut code = vec![ICONST_0, LOOKUPSWITCH, 0, 0];
        code.extend([19, 1, 7, 20].map(i32::to_be_bytes).concat());
        code.extend([RETURN, RETURN]);
        let edited = hooked(&class_of(&code, &[], &[]), &vec![1; hooks]);
        with_code(&edited.bytes, |code| {
            let switch = code
                .instructions()
                .find(|i| i.as_ref().unwrap().is_switch());
            let switch = switch.unwrap().unwrap();
            assert_eq!(switch.pc, 1 + HOOK * hooks as u16);
            let end = code.bytes().len() as u16;
            let targets: Vec<_> = switch.targets().map(Result::unwrap).collect();
            assert_eq!(targets, [end - 2, end - 1]);
            let cases: Vec<_> = switch
                .switch_cases()
                .map(|(k, t)| (k, t.unwrap()))
                .collect();
            assert_eq!(cases, [(7, end - 1)]);
        });
    }
}

#[test]
fn hooks_share_the_try_range_of_their_instruction() {
    // try 1..2, handler 3
    let bytes = class_of(&[NOP, NOP, RETURN, ATHROW], &[[1, 2, 3, 0]], &[]);
    let edited = hooked(&bytes, &[1, 2, 3]);
    let expected = Handler {
        start: 1,
        end: 2 + HOOK,
        handler: 3 + 2 * HOOK,
        catch_index: 0,
    };
    with_code(&edited.bytes, |code| {
        assert_eq!(code.handlers().next(), Some(expected))
    });
}

#[test]
fn debug_tables_move_with_the_code() {
    let lines = vec![0, 2, 0, 0, 0, 10, 0, 1, 0, 11];
    let variables = vec![0, 1, 0, 1, 0, 2, 0, 1, 0, 1, 0, 0];
    let attributes = [
        ("LineNumberTable", lines),
        ("LocalVariableTable", variables),
    ];
    let edited = hooked(&class_of(&[NOP, NOP, RETURN], &[], &attributes), &[1, 2]);
    let class = ClassFile::parse(&edited.bytes).unwrap();
    let code = class.code(&class.methods()[0]).unwrap().unwrap();
    assert_eq!(code.lines().unwrap().rows(), [(0, 10), (1, 11)]);
    assert_eq!(code.line_of(1 + HOOK).unwrap(), Some(11));
    let variable = code.local_variables(class.pool()).unwrap()[0];
    assert_eq!((variable.start, variable.length), (1, 2 + 2 * HOOK));
}

#[test]
fn frames_point_at_the_hook_and_uninitialised_types_at_the_instruction() {
    // Frames: same at 2; full at 4 with one local Uninitialized(1).
    let frames = vec![0, 2, 2, 255, 0, 1, 0, 1, 8, 0, 1, 0, 0];
    let bytes = class_of(&[NOP; 6], &[], &[("StackMapTable", frames)]);
    let edited = hooked(&bytes, &[1, 2, 4, 4]);
    with_code(&edited.bytes, |code| {
        let frames: Vec<_> = code
            .frames()
            .unwrap()
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(
            frames.iter().map(|f| f.pc).collect::<Vec<_>>(),
            [2 + HOOK, 4 + 2 * HOOK]
        );
        let types: Vec<_> = frames[1].locals.iter().collect();
        assert_eq!(types, [VerificationType::Uninitialized(1 + HOOK)]);
    });
}

#[test]
fn short_frames_become_extended_when_the_distance_grows_over_63() {
    // same at 1; same_locals_1_stack (int) at 2
    let bytes = class_of(
        &[NOP, NOP, POP, RETURN],
        &[],
        &[("StackMapTable", vec![0, 2, 1, 64, 1])],
    );
    let pcs: Vec<u16> = [vec![0; 13], vec![1; 13]].concat();
    with_code(&hooked(&bytes, &pcs).bytes, |code| {
        let frames: Vec<_> = code
            .frames()
            .unwrap()
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let found: Vec<_> = frames.iter().map(|f| (f.tag, f.pc)).collect();
        assert_eq!(found, [(251, 1 + 13 * HOOK), (247, 2 + 26 * HOOK)]);
    });
}

#[test]
fn type_annotations_follow_their_instruction_and_their_range() {
    // A cast (0x47) at pc 1 and a local variable (0x40) over 1..2, both with an element to skip.
    let element = [0, 1, 0, 1, 0, 1, b'[', 0, 1, b'e', 0, 1, 0, 1];
    let mut body = vec![0, 2, 0x47, 0, 1, 0, 0];
    body.extend(element);
    body.extend([0x40, 0, 1, 0, 1, 0, 1, 0, 0, 0]);
    body.extend(element);
    let name = "RuntimeVisibleTypeAnnotations";
    let edited = hooked(
        &class_of(&[NOP, NOP, RETURN], &[], &[(name, body)]),
        &[1, 2],
    );
    with_code(&edited.bytes, |code| {
        let content = code.attributes()[0].content;
        assert_eq!(content[3..5], [0, (1 + HOOK) as u8]);
        assert_eq!(content[24..28], [0, 1, 0, (1 + HOOK) as u8]);
    });
}

#[test]
fn a_method_that_would_overflow_stays_byte_identical_and_is_reported() {
    // A forward goto over 32700 nops, then as many again.
    let mut far = vec![GOTO, 0x7F, 0xBC];
    far.resize(32_700, NOP);
    far.push(RETURN);
    let bytes = class_of(&far, &[], &[]);
    let edited = hooked(&bytes, &[3; 30]);
    assert_eq!(edited.skipped[0].reason, SkipReason::BranchTooFar { pc: 0 });
    assert_eq!((edited.bytes, edited.inserted), (bytes, 0));

    let mut long = vec![NOP; 65_534];
    long.push(RETURN);
    let bytes = class_of(&long, &[], &[]);
    let edited = hooked(&bytes, &[0]);
    assert_eq!(
        edited.skipped[0].reason,
        SkipReason::CodeTooLong { length: 65_540 }
    );
    assert_eq!(edited.bytes, bytes);
}

#[test]
fn the_caller_is_told_of_impossible_edits() {
    let bytes = class_of(&[BIPUSH, 1, POP, RETURN], &[], &[]);
    let class = ClassFile::parse(&bytes).unwrap();
    for pc in [1, 4, 900] {
        let mut edit = ClassEdit::new(&class);
        edit.insert(0, 0, &[]).unwrap();
        edit.insert(0, pc, &[]).unwrap();
        assert_eq!(
            edit.finish().unwrap_err(),
            EditError::NoInstruction { method: 0, pc }
        );
    }
    let mut edit = ClassEdit::new(&class);
    let unbalanced = edit.insert(0, 0, &[Op::PushInt(1)]);
    assert_eq!(unbalanced, Err(EditError::Unbalanced { height: 1 }));
    assert_eq!(
        edit.insert(3, 0, &[]),
        Err(EditError::NoSuchMethod {
            method: 3,
            count: 1
        })
    );
    assert!(matches!(
        edit.static_method("H", "at", "(I"),
        Err(EditError::Descriptor { .. })
    ));
}

#[test]
fn a_full_constant_pool_is_an_error_and_not_a_wrong_class() {
    let bytes = class_of(&[NOP, RETURN], &[], &[]);
    let class = ClassFile::parse(&bytes).unwrap();
    let mut edit = ClassEdit::new(&class);
    let error =
        (40_000..).find_map(|value| edit.insert(0, 0, &[Op::PushInt(value), Op::Pop]).err());
    assert!(
        matches!(error, Some(EditError::PoolFull { .. })),
        "{error:?}"
    );
}

#[test]
fn malformed_code_is_left_alone_and_reported() {
    // goto into the middle of bipush
    let bytes = class_of(&[BIPUSH, 1, POP, GOTO, 0xFF, 0xFE], &[], &[]);
    let edited = hooked(&bytes, &[0]);
    let reason = SkipReason::Malformed(ReadError::Pc {
        what: "a jump",
        pc: 1,
    });
    assert_eq!((&edited.skipped[0].reason, edited.bytes), (&reason, bytes));
}

#[test]
fn an_empty_finalizer_stays_empty() {
    let mut class = crate::synth::ClassBuilder::new(49, 0x21, "T", "java/lang/Object").unwrap();
    let spec = crate::synth::MethodSpec::new(4, "finalize", "()V").locals(1);
    class.method(&spec, Some(&[RETURN])).unwrap();
    let bytes = class.finish().unwrap();
    let edited = hooked(&bytes, &[0]);
    assert_eq!(
        (&edited.skipped[0].reason, edited.bytes),
        (&SkipReason::EmptyFinalizer, bytes)
    );
}
