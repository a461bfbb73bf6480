//! Hostile bytes: truncated, flipped or random class bytes give errors, never a panic, and never
//! more work than the bytes are worth.

mod sources;

use std::sync::LazyLock;

use proptest::prelude::*;
use temblor_classfile::{ClassEdit, ClassFile, EditError, Op};

/// Real classes with switches, handlers, frames, lambdas and annotations; small enough to mutate.
static REAL: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let home = &sources::jdk_homes()[0];
    let names = [
        "java/lang/Character",
        "java/util/regex/Pattern",
        "java/util/concurrent/CompletableFuture",
        "java/io/ObjectInputStream",
        "java/lang/Thread$State",
        "java/util/stream/Collectors",
    ];
    names
        .iter()
        .map(|name| sources::jdk_class(home, "java.base", name))
        .collect()
});

/// Does all that analysis and agent do; gives how many methods could be read to the end.
fn exercise(bytes: &[u8]) -> usize {
    let Ok(class) = ClassFile::parse(bytes) else {
        return 0;
    };
    let pool = class.pool();
    for index in 0..pool.count() {
        let _ = pool.get(index).map(|constant| format!("{constant:?}"));
    }
    let _ = (
        class.bootstrap_methods(),
        class.source_file(),
        class.signature(),
    );
    let mut readable = 0;
    for method in class.methods() {
        let _ = (class.exceptions(method), class.signature_of(method));
        let Ok(Some(code)) = class.code(method) else {
            continue;
        };
        for instruction in code.instructions().flatten() {
            let _ = (
                instruction.invoke(pool),
                instruction.field(pool),
                instruction.ldc(pool),
            );
            let _ = (instruction.class_operand(pool), instruction.local());
            let _ = (
                instruction.targets().count(),
                instruction.switch_cases().count(),
            );
        }
        for frame in code.frames().ok().flatten().into_iter().flatten().flatten() {
            let _ = frame.locals.iter().count() + frame.stack.iter().count();
        }
        let _ = (
            code.lines(),
            code.local_variables(pool),
            code.local_variable_types(pool),
        );
        readable += usize::from(code.block_starts().is_ok());
    }
    let _ = rewrite(&class);
    readable
}

/// Hooks every block that can be found and every end of a method; the result must read again.
fn rewrite(class: &ClassFile<'_>) -> Result<(), EditError> {
    let mut edit = ClassEdit::new(class);
    let hook = edit.static_method("java/lang/FaultHook", "at", "(I)V")?;
    for (index, method) in class.methods().iter().enumerate() {
        let Ok(Some(code)) = class.code(method) else {
            continue;
        };
        let ops = [Op::PushInt(70_000), Op::InvokeStatic(hook)];
        for pc in code.block_starts().unwrap_or_default() {
            edit.insert(index, pc, &ops)?;
        }
        match edit.on_leaving(index, &ops) {
            Err(EditError::Leaving { .. }) => {} // a constructor
            result => result?,
        }
    }
    let edited = edit.finish()?;
    assert!(
        ClassFile::parse(&edited.bytes).is_ok(),
        "a rewritten class reads"
    );
    Ok(())
}

#[test]
fn the_unharmed_classes_are_readable() {
    for bytes in REAL.iter() {
        assert!(exercise(bytes) > 1);
    }
}

#[test]
fn every_truncated_class_is_an_error() {
    let bytes = REAL
        .iter()
        .min_by_key(|bytes| bytes.len())
        .expect("there are classes");
    for length in 0..bytes.len() {
        assert!(
            ClassFile::parse(&bytes[..length]).is_err(),
            "a prefix of {length} bytes reads"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn flipped_bytes_never_panic(
        which in 0usize..6,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        let mut bytes = REAL[which].clone();
        for (index, value) in &flips {
            let at = index.index(bytes.len());
            bytes[at] = *value;
        }
        exercise(&bytes);
    }

    #[test]
    fn flipped_code_never_panics(
        which in 0usize..6,
        method in any::<prop::sample::Index>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        // Aimed at one method's attributes, where most of the format's structure is.
        let original = &REAL[which];
        let class = ClassFile::parse(original).unwrap();
        let method = &class.methods()[method.index(class.methods().len())];
        let mut bytes = original.clone();
        for attribute in class.attributes_of(method) {
            for (index, value) in &flips {
                if !attribute.content.is_empty() {
                    bytes[attribute.offset + index.index(attribute.content.len())] = *value;
                }
            }
        }
        exercise(&bytes);
    }

    #[test]
    fn random_bytes_never_panic(tail in prop::collection::vec(any::<u8>(), 0..400)) {
        exercise(&tail);
        let mut bytes = vec![0xCA, 0xFE, 0xBA, 0xBE, 0, 0, 0, 52];
        bytes.extend(tail);
        exercise(&bytes);
    }

    #[test]
    fn random_code_never_panics(code in prop::collection::vec(any::<u8>(), 1..300)) {
        use temblor_classfile::{access, synth::{ClassBuilder, MethodSpec}};
        let mut class = ClassBuilder::new(49, access::PUBLIC, "T", "java/lang/Object").unwrap();
        let spec = MethodSpec::new(access::STATIC, "m", "()V").stack(9).locals(9);
        class.method(&spec, Some(&code)).unwrap();
        exercise(&class.finish().unwrap());
    }
}
