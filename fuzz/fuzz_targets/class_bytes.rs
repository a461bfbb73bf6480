//! Hostile class bytes: reader, instructions, blocks and rewriter give errors, never a panic or an
//! endless loop. Run with `cargo +nightly fuzz run class_bytes`, seeded with any class files in
//! `fuzz/corpus/class_bytes`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use temblor_classfile::{ClassEdit, ClassFile, EditError, Op};

fuzz_target!(|bytes: &[u8]| {
    let Ok(class) = ClassFile::parse(bytes) else { return };
    let pool = class.pool();
    for index in 0..pool.count() {
        if let Ok(constant) = pool.get(index) {
            let _ = format!("{constant:?}");
        }
    }
    let _ = (class.bootstrap_methods(), class.source_file(), class.signature());
    for method in class.methods() {
        let _ = (class.exceptions(method), class.signature_of(method));
        let Ok(Some(code)) = class.code(method) else { continue };
        for instruction in code.instructions().flatten() {
            let _ = (instruction.invoke(pool), instruction.field(pool), instruction.ldc(pool));
            let _ = (instruction.class_operand(pool), instruction.local());
            let _ = (instruction.targets().count(), instruction.switch_cases().count());
            let _ = (instruction.int_operand(), instruction.falls_through());
        }
        for frame in code.frames().ok().flatten().into_iter().flatten().flatten() {
            let _ = frame.locals.iter().count() + frame.stack.iter().count();
        }
        let _ = (code.block_starts(), code.lines(), code.local_variables(pool));
    }
    let _ = rewrite(&class);
});

/// Rewrites as the agent does; what the rewriter makes, the reader must accept.
fn rewrite(class: &ClassFile<'_>) -> Result<(), EditError> {
    let mut edit = ClassEdit::new(class);
    let hook = edit.static_method("java/lang/FaultHook", "at", "(I)V")?;
    for (index, method) in class.methods().iter().enumerate() {
        let Ok(Some(code)) = class.code(method) else { continue };
        let Ok(starts) = code.block_starts() else { continue };
        for pc in starts {
            edit.insert(index, pc, &[Op::PushInt(70_000), Op::InvokeStatic(hook)])?;
        }
        match edit.on_leaving(index, &[Op::PushInt(70_000), Op::InvokeStatic(hook)]) {
            Err(EditError::Leaving { .. }) => {} // a constructor
            result => result?,
        }
    }
    let edited = edit.finish()?;
    let again = ClassFile::parse(&edited.bytes).expect("a rewritten class reads");
    for (index, method) in again.methods().iter().enumerate() {
        if edited.skipped.iter().all(|skipped| skipped.method != index)
            && class.code(&class.methods()[index]).is_ok_and(|code| {
                code.is_some_and(|code| code.block_starts().is_ok())
            })
        {
            let code = again.code(method).expect("rewritten code reads").expect("it has code");
            code.block_starts().expect("rewritten jumps land on instructions");
        }
    }
    Ok(())
}
