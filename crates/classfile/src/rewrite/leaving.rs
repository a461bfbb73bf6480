//! Code that runs whenever a method is left: before its returns, and in a tail behind its code that
//! catches what the method does not, and throws it on.

use std::ops::Range;

use super::{ClassEdit, Insertion, Op};
use crate::attribute::find;
use crate::code::Code;
use crate::error::{EditError, ReadError};
use crate::mutf8::Utf8;
use crate::opcode::*;

/// The first class version whose handlers need stack map frames.
const FRAMES_SINCE: u16 = 50;

/// Code to run when `method` is left: `code` indexes the edit's buffer.
#[derive(Debug, Clone)]
pub(crate) struct Leaving {
    pub(crate) method: usize,
    code: Range<usize>,
    stack: u16,
    frame: Option<TailFrame>,
}

impl ClassEdit<'_, '_> {
    /// Runs `ops` whenever the method is left: just before each of its returns, after all inserts
    /// there, and when it ends by an exception, which goes on to the caller. Several calls for one
    /// method run in order; without ops nothing changes.
    ///
    /// The ops may use no local variable and nothing that lies on the stack: on the way out by an
    /// exception there is neither. What they call must not throw, else it may be called again.
    /// Constructors cannot have this: an object whose `super()` failed may not be touched.
    pub fn on_leaving(&mut self, method: usize, ops: &[Op]) -> Result<(), EditError> {
        self.check_method(method)?;
        let refuse = |reason| Err(EditError::Leaving { method, reason });
        let member = &self.class.methods()[method];
        if member.name == "<init>" {
            return refuse("it is a constructor");
        }
        if find(self.class.attributes_of(member), "Code").is_none() {
            return refuse("it has no code");
        }
        let loads = |op: &Op| matches!(op, Op::LoadRef(_) | Op::LoadInt(_) | Op::LoadLong(_));
        if ops.iter().any(loads) {
            return refuse("there are no local variables after an exception");
        }
        let written = self.write(ops)?;
        if written.reads_below {
            return refuse("the code would use what the method has on its stack");
        }
        if ops.is_empty() {
            return Ok(());
        }
        let frame = if self.class.major >= FRAMES_SINCE {
            Some(TailFrame {
                table_name: self.pool.utf8("StackMapTable")?,
                throwable: self.pool.class("java/lang/Throwable")?,
            })
        } else {
            None
        };
        self.leavings.push(Leaving {
            method,
            code: written.code,
            stack: written.stack,
            frame,
        });
        Ok(())
    }
}

/// Whether a handler may crash the JVM's compiler: seen with `Reference.get` on JDK 8. Which of the
/// mathematical methods it treats alike differs between JDKs.
pub(crate) fn is_intrinsic(class: Utf8<'_>, method: Utf8<'_>) -> bool {
    class == "java/lang/Math"
        || class == "java/lang/StrictMath"
        || (class == "java/lang/ref/Reference" && method == "get")
}

/// One method's insertions and, after them at each return, its code for leaving; sorted by pc.
pub(crate) fn before_returns(
    code: &Code<'_>,
    insertions: &[Insertion],
    leavings: &[Leaving],
) -> Result<Vec<Insertion>, ReadError> {
    let mut all = insertions.to_vec();
    for instruction in code.instructions() {
        let instruction = instruction?;
        if instruction.is_return() {
            all.extend(leavings.iter().map(|leaving| Insertion {
                method: leaving.method,
                pc: instruction.pc,
                code: leaving.code.clone(),
                stack: leaving.stack,
            }));
        }
    }
    // Stable: what was inserted at a return stays in front.
    all.sort_by_key(|insertion| insertion.pc);
    Ok(all)
}

/// The handler behind a method's code, which guards all of it.
#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) code: Vec<u8>,
    /// Slots it needs, with the exception.
    pub(crate) stack: usize,
    pub(crate) frame: Option<TailFrame>,
}

impl Tail {
    /// `None` for a method with no code for leaving; `snippets` holds the leavings' bytes.
    pub(crate) fn new(leavings: &[Leaving], snippets: &[u8]) -> Option<Self> {
        let frame = leavings.first()?.frame;
        let mut code: Vec<u8> = leavings
            .iter()
            .flat_map(|leaving| &snippets[leaving.code.clone()])
            .copied()
            .collect();
        code.push(ATHROW);
        let deepest = leavings.iter().map(|leaving| leaving.stack).max();
        Some(Tail {
            code,
            stack: 1 + usize::from(deepest.unwrap_or_default()),
            frame,
        })
    }
}

/// The tail's stack map frame: no locals, so that every state of the method fits, and a Throwable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TailFrame {
    /// The attribute's name, for methods that have no frames yet.
    pub(crate) table_name: u16,
    throwable: u16,
}

impl TailFrame {
    pub(crate) const LENGTH: usize = 10;

    pub(crate) fn write(self, out: &mut Vec<u8>, delta: u16) {
        let start = out.len();
        out.push(255); // full_frame
        out.extend(delta.to_be_bytes());
        out.extend([0, 0]); // no locals
        out.extend([0, 1, 7]); // one object on the stack
        out.extend(self.throwable.to_be_bytes());
        debug_assert_eq!(out.len() - start, Self::LENGTH);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{class_of, with_code};
    use super::super::{Edited, SkipReason};
    use super::*;
    use crate::class::ClassFile;
    use crate::code::Handler;
    use crate::frames::VerificationType;
    use crate::synth::{ClassBuilder, MethodSpec};

    /// `H.left(100)`: five bytes, one slot.
    const LEFT: usize = 5;

    fn leaving(bytes: &[u8], inserts: &[u16]) -> Edited {
        let class = ClassFile::parse(bytes).unwrap();
        let mut edit = ClassEdit::new(&class);
        let left = edit.static_method("H", "left", "(I)V").unwrap();
        edit.on_leaving(0, &[Op::PushInt(100), Op::InvokeStatic(left)])
            .unwrap();
        for pc in inserts {
            edit.insert(0, *pc, &[Op::PushInt(1), Op::Pop]).unwrap();
        }
        edit.finish().unwrap()
    }

    /// The pcs of the frames, and the last one's types.
    fn frames(code: &Code<'_>) -> (Vec<u16>, usize, Vec<VerificationType>) {
        let frames: Vec<_> = code
            .frames()
            .unwrap()
            .unwrap()
            .map(|f| f.unwrap())
            .collect();
        let last = frames.last().unwrap();
        assert_eq!(last.tag, 255);
        let (locals, stack) = (last.locals.iter().count(), last.stack.iter().collect());
        (frames.iter().map(|f| f.pc).collect(), locals, stack)
    }

    #[test]
    fn it_runs_before_each_return_and_behind_the_code() {
        // 0: iconst_0; 1: ifeq 5; 4: return; 5: return
        let table = vec![0, 1, 5];
        let code = [ICONST_0, IFEQ, 0, 4, RETURN, RETURN];
        let bytes = class_of(&code, &[[0, 4, 5, 0]], &[("StackMapTable", table)]);
        let edited = leaving(&bytes, &[4]);
        assert_eq!((edited.inserted, edited.skipped.len()), (2, 0));
        let class = ClassFile::parse(&edited.bytes).unwrap();
        let code = class.code(&class.methods()[0]).unwrap().unwrap();
        let [high, low] = class.pool().count().to_be_bytes();
        assert_eq!(high, 0);
        // The hook's method is the sixth new constant; the table's name and two for the class follow.
        let hook = [BIPUSH, 100, INVOKESTATIC, 0, low - 4];
        let expected = [
            &[ICONST_0, IFEQ, 0, 11][..],
            &[ICONST_1, POP],
            &hook,
            &[RETURN],
            &hook,
            &[RETURN],
            &hook,
            &[ATHROW],
        ];
        assert_eq!(code.bytes(), expected.concat());
        let end = (4 + 2 + 2 * (LEFT + 1)) as u16;
        let row = |start, end, handler| Handler {
            start,
            end,
            handler,
            catch_index: 0,
        };
        // A jump to a return, and a handler there, run the hook; the new row is the last.
        let rows: Vec<_> = code.handlers().collect();
        assert_eq!(rows, [row(0, 4, 12), row(0, end, end)]);
        let (pcs, locals, stack) = frames(&code);
        assert_eq!((pcs, locals), (vec![12, end], 0));
        let [VerificationType::Object(throwable)] = stack[..] else {
            panic!("{stack:?}");
        };
        assert_eq!(
            class.pool().class_name(throwable).unwrap(),
            "java/lang/Throwable"
        );
        assert_eq!(code.max_stack, 3);
    }

    #[test]
    fn a_method_without_frames_gets_a_table_and_one_without_return_only_a_tail() {
        // 0: aconst_null; 1: athrow
        let lines = vec![0, 1, 0, 0, 0, 9];
        let bytes = class_of(&[ACONST_NULL, ATHROW], &[], &[("LineNumberTable", lines)]);
        let edited = leaving(&bytes, &[]);
        with_code(&edited.bytes, |code| {
            assert_eq!(code.bytes().len(), 2 + LEFT + 1);
            assert_eq!(code.bytes()[..2], [ACONST_NULL, ATHROW]);
            let (pcs, locals, stack) = frames(code);
            assert_eq!((pcs, locals, stack.len()), (vec![2], 0, 1));
            assert_eq!(code.lines().unwrap().rows(), [(0, 9)]);
            assert_eq!(code.attributes().len(), 2);
        });
        assert_eq!(edited.inserted, 1);
    }

    #[test]
    fn classes_before_version_50_get_no_frame() {
        for (major, framed) in [(49, false), (50, true)] {
            let mut class = ClassBuilder::new(major, 0x21, "T", "java/lang/Object").unwrap();
            let spec = MethodSpec::new(8, "m", "()V");
            class.method(&spec, Some(&[RETURN])).unwrap();
            let edited = leaving(&class.finish().unwrap(), &[]);
            with_code(&edited.bytes, |code| {
                assert_eq!(code.frames().unwrap().is_some(), framed);
                assert_eq!(code.handlers().len(), 1);
                // The exception and the hook's number; the method itself needs no stack.
                assert_eq!(code.max_stack, 2);
            });
        }
    }

    #[test]
    fn several_share_one_tail_in_their_order() {
        let bytes = class_of(&[RETURN], &[], &[]);
        let class = ClassFile::parse(&bytes).unwrap();
        let mut edit = ClassEdit::new(&class);
        for value in [2, 3] {
            edit.on_leaving(0, &[Op::PushInt(value), Op::Pop]).unwrap();
        }
        edit.insert(0, 0, &[Op::PushInt(1), Op::Pop]).unwrap();
        with_code(&edit.finish().unwrap().bytes, |code| {
            let push = |value: u8| [ICONST_0 + value, POP];
            let expected = [
                &push(1)[..],
                &push(2),
                &push(3),
                &[RETURN],
                &push(2),
                &push(3),
            ];
            assert_eq!(code.bytes(), [&expected.concat()[..], &[ATHROW]].concat());
            assert_eq!(code.handlers().len(), 1);
        });
    }

    #[test]
    fn what_cannot_be_done_is_refused_or_skipped() {
        let mut class = ClassBuilder::new(52, 0x421, "T", "java/lang/Object").unwrap();
        let method = |access, name| MethodSpec::new(access, name, "()V").locals(1);
        class.method(&method(1, "<init>"), Some(&[RETURN])).unwrap();
        class.method(&method(0x401, "abstract"), None).unwrap();
        class
            .method(&method(4, "finalize"), Some(&[RETURN]))
            .unwrap();
        class.method(&method(9, "m"), Some(&[RETURN])).unwrap();
        let bytes = class.finish().unwrap();
        let class = ClassFile::parse(&bytes).unwrap();
        let ops = [Op::PushInt(1), Op::Pop];
        let refused = |method, ops: &[Op]| {
            let error = ClassEdit::new(&class).on_leaving(method, ops).unwrap_err();
            assert!(matches!(error, EditError::Leaving { .. }), "{error:?}");
            error.to_string()
        };
        assert!(refused(0, &ops).contains("constructor"));
        assert!(refused(1, &ops).contains("no code"));
        assert!(refused(3, &[Op::LoadRef(0), Op::Pop]).contains("local variables"));
        assert!(refused(3, &[Op::Dup, Op::Pop]).contains("on its stack"));
        let mut edit = ClassEdit::new(&class);
        let unbalanced = edit.on_leaving(3, &[Op::PushInt(1)]);
        assert_eq!(unbalanced, Err(EditError::Unbalanced { height: 1 }));
        let missing = edit.on_leaving(4, &ops);
        assert!(matches!(missing, Err(EditError::NoSuchMethod { .. })));
        edit.on_leaving(2, &ops).unwrap();
        let edited = edit.finish().unwrap();
        assert_eq!(edited.skipped[0].reason, SkipReason::EmptyFinalizer);
        assert_eq!(edited.bytes, bytes);
    }

    #[test]
    fn methods_that_the_compiler_has_code_for_are_left_alone() {
        for (name, method, skipped) in [
            ("java/lang/ref/Reference", "get", true),
            ("java/lang/ref/Reference", "clear", false),
            ("java/lang/Math", "sin", true),
        ] {
            let mut class = ClassBuilder::new(52, 0x21, name, "java/lang/Object").unwrap();
            let spec = MethodSpec::new(8, method, "()V");
            class.method(&spec, Some(&[RETURN])).unwrap();
            let edited = leaving(&class.finish().unwrap(), &[]);
            let reasons: Vec<_> = edited.skipped.iter().map(|s| &s.reason).collect();
            let expected = [&SkipReason::Intrinsic];
            assert_eq!(reasons, expected[..usize::from(skipped)]);
        }
    }

    #[test]
    fn no_ops_change_nothing() {
        let bytes = class_of(&[RETURN], &[], &[]);
        let class = ClassFile::parse(&bytes).unwrap();
        let mut edit = ClassEdit::new(&class);
        edit.on_leaving(0, &[]).unwrap();
        assert_eq!(edit.finish().unwrap().bytes, bytes);
    }

    #[test]
    fn code_and_tables_have_their_limits() {
        let skipped = |bytes: Vec<u8>| {
            let edited = leaving(&bytes, &[]);
            assert_eq!(edited.bytes, bytes, "it stays as it was");
            edited.skipped[0].reason.clone()
        };
        // The longest that still fits: the hook before the return, and the tail.
        let longest = usize::from(u16::MAX) - 2 * LEFT - 1;
        let nops = |length: usize| {
            let mut code = vec![NOP; length - 1];
            code.push(RETURN);
            class_of(&code, &[], &[])
        };
        assert!(leaving(&nops(longest), &[]).skipped.is_empty());
        let length = 65_536;
        assert_eq!(
            skipped(nops(longest + 1)),
            SkipReason::CodeTooLong { length }
        );

        let full = vec![[0, 1, 0, 0]; usize::from(u16::MAX)];
        let what = "exception table";
        assert_eq!(
            skipped(class_of(&[RETURN], &full, &[])),
            SkipReason::TableFull { what }
        );

        // No verifier accepts a frame behind the last instruction; ours would stand there too.
        let table = [("StackMapTable", vec![0, 1, 1])];
        let reason = skipped(class_of(&[RETURN], &[], &table));
        assert!(
            matches!(reason, SkipReason::Malformed(ReadError::Pc { .. })),
            "{reason:?}"
        );
    }
}
