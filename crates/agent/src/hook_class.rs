//! `java.lang.FaultHook`: the one class the agent adds to a JVM, made from nothing.
//!
//! ```java
//! static void at(int point)    { if (U.getByte(ARMS + point) != 0) hit(point); }
//! static void probe(int block) { U.putByte(COVERAGE + block, (byte) 1); }
//! static void value(Object unit, long value, int point) {
//!     if (U.getByte(ARMS + point) != 0) told(unit, value, point);
//! }
//! static native void hit(int point);
//! static native void told(Object unit, long value, int point);
//! ```
//!
//! It lives in the boot loader, in an exported package, so that every class of every loader
//! resolves it. Board addresses are constants of the code, which the JIT folds best.

use temblor_classfile::synth::{ClassBuilder, CodeBuilder, Label, MethodSpec};
use temblor_classfile::{EditError, access, opcode};

pub const NAME: &str = "java/lang/FaultHook";
pub const AT: &str = "at";
pub const PROBE: &str = "probe";
pub const HIT: &str = "hit";
pub const VALUE: &str = "value";
pub const VALUE_DESC: &str = "(Ljava/lang/Object;JI)V";
const TOLD: &str = "told";

/// Frames of these methods do not show in Java stack traces, and calls are always inlined. The
/// annotations' names changed over time; a JVM ignores those it does not know.
const QUIET: [&str; 4] = [
    "Ljdk/internal/vm/annotation/Hidden;",
    "Ljava/lang/invoke/LambdaForm$Hidden;",
    "Ljdk/internal/vm/annotation/ForceInline;",
    "Ljava/lang/invoke/ForceInline;",
];

/// The class bytes for a JDK of this feature release.
pub fn bytes(jdk: u32, arms: *const u8, coverage: *const u8) -> Result<Vec<u8>, EditError> {
    let unsafe_class = if jdk < 9 {
        "sun/misc/Unsafe"
    } else {
        "jdk/internal/misc/Unsafe"
    };
    let unsafe_desc = format!("L{unsafe_class};");
    let shared = access::PUBLIC | access::STATIC;
    let class_access = access::PUBLIC | access::FINAL | access::SUPER;
    // Version 49: verified by inference, so that no stack map frames are needed.
    let mut class = ClassBuilder::new(49, class_access, NAME, "java/lang/Object")?;
    class.field(
        access::PRIVATE | access::STATIC | access::FINAL,
        "U",
        &unsafe_desc,
    )?;

    let mut code = class.code();
    code.invoke_static(unsafe_class, "getUnsafe", &format!("(){unsafe_desc}"))?
        .field(opcode::PUTSTATIC, NAME, "U", &unsafe_desc)?
        .op(opcode::RETURN);
    let code = code.finish()?;
    class.method(
        &MethodSpec::new(access::STATIC, "<clinit>", "()V").stack(1),
        Some(&code),
    )?;

    // Jumps where the arm byte of the point in a local variable is 0.
    let unless_armed = |code: &mut CodeBuilder<'_>, label: Label, point: u16| {
        code.field(opcode::GETSTATIC, NAME, "U", &unsafe_desc)?
            .push_long(arms as i64)?
            .load_int(point)
            .op(opcode::I2L)
            .op(opcode::LADD)
            .invoke(opcode::INVOKEVIRTUAL, unsafe_class, "getByte", "(J)B")?
            .jump(opcode::IFEQ, label);
        Ok::<_, EditError>(())
    };
    let mut code = class.code();
    let quiet = code.label();
    unless_armed(&mut code, quiet, 0)?;
    code.load_int(0)
        .invoke_static(NAME, HIT, "(I)V")?
        .bind(quiet)
        .op(opcode::RETURN);
    let code = code.finish()?;
    let at = MethodSpec::new(shared, AT, "(I)V")
        .stack(5)
        .locals(1)
        .annotated(&QUIET);
    class.method(&at, Some(&code))?;

    let mut code = class.code();
    code.field(opcode::GETSTATIC, NAME, "U", &unsafe_desc)?
        .push_long(coverage as i64)?
        .load_int(0)
        .op(opcode::I2L)
        .op(opcode::LADD)
        .op(opcode::ICONST_1)
        .invoke(opcode::INVOKEVIRTUAL, unsafe_class, "putByte", "(JB)V")?
        .op(opcode::RETURN);
    let code = code.finish()?;
    let probe = MethodSpec::new(shared, PROBE, "(I)V")
        .stack(6)
        .locals(1)
        .annotated(&QUIET);
    class.method(&probe, Some(&code))?;

    let mut code = class.code();
    let quiet = code.label();
    unless_armed(&mut code, quiet, 3)?;
    code.load_ref(0)
        .load_long(1)
        .load_int(3)
        .invoke_static(NAME, TOLD, VALUE_DESC)?
        .bind(quiet)
        .op(opcode::RETURN);
    let code = code.finish()?;
    let value = MethodSpec::new(shared, VALUE, VALUE_DESC)
        .stack(5)
        .locals(4)
        .annotated(&QUIET);
    class.method(&value, Some(&code))?;

    for (name, desc) in [(HIT, "(I)V"), (TOLD, VALUE_DESC)] {
        let native = MethodSpec::new(shared | access::NATIVE, name, desc).annotated(&QUIET[..2]);
        class.method(&native, None)?;
    }
    class.finish()
}
