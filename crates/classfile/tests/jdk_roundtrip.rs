//! Every class of the JDK that is present reads, in full, and comes back unchanged.

mod sources;

use std::time::{Duration, Instant};

use temblor_classfile::{ClassEdit, ClassFile, ReadError};

#[derive(Default, Debug)]
struct Counts {
    methods: usize,
    instructions: usize,
    invokes: usize,
    blocks: usize,
    frames: usize,
}

/// Reads everything the reader knows how to read.
fn read_all(bytes: &[u8], counts: &mut Counts) -> Result<(), ReadError> {
    let class = ClassFile::parse(bytes)?;
    let pool = class.pool();
    class.source_file()?;
    class.signature()?;
    for bootstrap in class.bootstrap_methods()? {
        pool.get(bootstrap.handle)?;
        for argument in bootstrap.arguments() {
            pool.get(argument)?;
        }
    }
    for method in class.methods() {
        counts.methods += 1;
        class.exceptions(method)?;
        class.signature_of(method)?;
        let Some(code) = class.code(method)? else {
            continue;
        };
        for instruction in code.instructions() {
            let instruction = instruction?;
            counts.instructions += 1;
            counts.invokes += usize::from(instruction.invoke(pool)?.is_some());
            instruction.field(pool)?;
            instruction.ldc(pool)?;
            instruction.class_operand(pool)?;
        }
        for handler in code.handlers() {
            handler.catch_type(pool)?;
        }
        for frame in code.frames()?.into_iter().flatten() {
            frame?;
            counts.frames += 1;
        }
        counts.blocks += code.block_starts()?.len();
        code.lines()?;
        code.local_variables(pool)?;
        code.local_variable_types(pool)?;
    }
    Ok(())
}

/// An insert of no instructions makes the rewriter write the whole method anew; all its positions
/// stay, so the result must be the very bytes it came from.
fn rewrites_to_itself(bytes: &[u8]) -> bool {
    let class = ClassFile::parse(bytes).expect("it was read before");
    let untouched = ClassEdit::new(&class)
        .finish()
        .expect("an empty edit works");
    let mut edit = ClassEdit::new(&class);
    for (index, method) in class.methods().iter().enumerate() {
        if class.code(method).expect("it was read before").is_some() {
            edit.insert(index, 0, &[]).expect("an empty insert fits");
        }
    }
    let edited = edit.finish().expect("an empty insert works");
    edited.skipped.is_empty() && edited.bytes == bytes && untouched.bytes == bytes
}

#[test]
fn every_jdk_class_reads_and_an_empty_rewrite_is_byte_identical() {
    for home in sources::jdk_homes() {
        let classes = sources::jdk_classes(&home);
        assert!(
            classes.len() > 10_000,
            "{}: {} classes",
            home.display(),
            classes.len()
        );
        let megabytes = classes.iter().map(|c| c.bytes.len()).sum::<usize>() / 1_000_000;

        let started = Instant::now();
        let parsed = classes
            .iter()
            .filter(|c| ClassFile::parse(&c.bytes).is_ok())
            .count();
        let parse_time = started.elapsed();

        let mut counts = Counts::default();
        let started = Instant::now();
        for class in &classes {
            if let Err(error) = read_all(&class.bytes, &mut counts) {
                panic!("{}/{}: {error}", class.module, class.name);
            }
        }
        let read_time = started.elapsed();

        let started = Instant::now();
        let changed: Vec<_> = classes
            .iter()
            .filter(|c| !rewrites_to_itself(&c.bytes))
            .map(|c| &c.name)
            .collect();
        let rewrite_time = started.elapsed();

        println!(
            "{}: {} classes, {megabytes} MB, {counts:?}",
            home.display(),
            classes.len()
        );
        let ms = |time: Duration| time.as_millis();
        println!(
            "  one thread: parse {} ms, read everything {} ms, rewrite every method {} ms",
            ms(parse_time),
            ms(read_time),
            ms(rewrite_time)
        );
        println!(
            "  byte-identical: {} of {}",
            classes.len() - changed.len(),
            classes.len()
        );
        assert_eq!(parsed, classes.len());
        assert!(
            changed.is_empty(),
            "changed by an empty rewrite: {changed:?}"
        );
    }
}
