//! Makes an exception of any type, without its constructors, and leaves it pending.

use jvmti_bindings::sys::jni::{jclass, jobject};

use crate::jvm::{Jni, Jvmti, c_string};
use crate::stack::calling_class;

const MESSAGE: &std::ffi::CStr = c"injected by Temblor";
/// References that making an exception needs at most, with room to spare.
const REFERENCES: i32 = 32;

/// Raises an exception of the class (internal name) at the call that hit. Says what went wrong
/// when it could not; nothing is pending then.
pub fn throw(jvmti: Jvmti, jni: Jni, class: &str) -> Result<(), String> {
    if !jni.push_frame(REFERENCES) {
        return Err("no memory for references".into());
    }
    let made = find(jvmti, jni, class)
        .ok_or_else(|| format!("the class {} was not found", class.replace('/', ".")))
        .and_then(|found| make(jni, found));
    // The frame's references die; the exception survives as one of the outer frame.
    match made {
        Ok(exception) => {
            let exception = jni.pop_frame(exception);
            match jni.throw(exception) {
                true => Ok(()),
                false => Err("the JVM refused to raise it".into()),
            }
        }
        Err(reason) => {
            jni.pop_frame(std::ptr::null_mut());
            Err(reason)
        }
    }
}

/// Looks where the calling class would, then where the thread would.
fn find(jvmti: Jvmti, jni: Jni, class: &str) -> Option<jclass> {
    let caller = calling_class(jvmti, jni).and_then(|caller| jvmti.loader(caller));
    let context = jvmti.thread(jni).map(|(_, loader)| loader);
    let loaders = [caller, context]
        .into_iter()
        .flatten()
        .filter(|loader| !loader.is_null());
    let name = c_string(class);
    loaders
        .into_iter()
        .find_map(|loader| load(jni, loader, class))
        .or_else(|| jni.find_class(&name))
}

fn load(jni: Jni, loader: jobject, class: &str) -> Option<jclass> {
    let loader_class = jni.find_class(c"java/lang/ClassLoader")?;
    let desc = c"(Ljava/lang/String;)Ljava/lang/Class;";
    let load_class = jni.method(loader_class, c"loadClass", desc)?;
    let name = jni.string(&c_string(&class.replace('/', ".")))?;
    jni.call_object(loader, load_class, name)
}

/// Sets what `Throwable`'s constructor would have set, then takes the true stack.
fn make(jni: Jni, class: jclass) -> Result<jobject, String> {
    let throwable = jni
        .find_class(c"java/lang/Throwable")
        .ok_or("no Throwable")?;
    if !jni.is_assignable(class, throwable) {
        return Err("it is not a Throwable".into());
    }
    let exception = jni.allocate(class).ok_or("it cannot be instantiated")?;
    set(jni, throwable, exception).ok_or("Throwable has no such fields in this JVM")?;
    let fill = c"fillInStackTrace";
    let fill = jni
        .method(throwable, fill, c"()Ljava/lang/Throwable;")
        .ok_or("no fill method")?;
    match jni.call_exactly(exception, throwable, fill) {
        true => Ok(exception),
        false => Err("its stack could not be taken".into()),
    }
}

fn set(jni: Jni, throwable: jclass, exception: jobject) -> Option<()> {
    const TRACE: &std::ffi::CStr = c"[Ljava/lang/StackTraceElement;";
    const LIST: &std::ffi::CStr = c"Ljava/util/List;";
    let message = jni.string(MESSAGE)?;
    jni.set_object(
        exception,
        throwable,
        c"detailMessage",
        c"Ljava/lang/String;",
        message,
    )?;
    jni.set_object(
        exception,
        throwable,
        c"cause",
        c"Ljava/lang/Throwable;",
        exception,
    )?;
    // Without this, fillInStackTrace does nothing.
    let unassigned = jni.static_object(throwable, c"UNASSIGNED_STACK", TRACE)?;
    jni.set_object(exception, throwable, c"stackTrace", TRACE, unassigned)?;
    let sentinel = jni.static_object(throwable, c"SUPPRESSED_SENTINEL", LIST)?;
    jni.set_object(
        exception,
        throwable,
        c"suppressedExceptions",
        LIST,
        sentinel,
    )
}
