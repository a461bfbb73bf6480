//! The agent in the target's JVM, loaded by
//! `-agentpath:libtemblor_agent.so=board=PATH,hooks=PATH,node=NAME`:
//! rewrites the classes of the hooks file, evaluates triggers on the board, executes faults.
//!
//! Invariant: it never unwinds into the JVM, never waits without a deadline, never hooks itself.
//! Whatever is wrong with its input, the target runs on untouched.
//!
//! Paths in the options must not contain commas.
//!
//! - [`options`], [`attach`]: from the command line to a place on the board.
//! - [`hook_class`], [`rewrite`], `agent`: hooks into the JVM. `jvm` is all of JNI and JVMTI.
//! - [`decide`], [`frames`], [`ask`], [`clock`]: pure decisions, and the lab's answers.
//! - `hit`, `states`, `journal`, `stack`, `throw`: what happens at an armed point.

use std::ffi::{CStr, c_char, c_void};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use jvmti_bindings::sys::jni::{JNI_OK, JNIEnv, JavaVM, jclass, jint, jlong, jobject};

mod agent;
pub mod ask;
pub mod attach;
pub mod clock;
pub mod decide;
pub mod frames;
mod hit;
pub mod hook_class;
mod journal;
mod jvm;
pub mod options;
pub mod rewrite;
mod stack;
mod states;
mod throw;

/// One line to whoever watches the target's stderr.
fn say(text: &str) {
    // A closed stderr is no reason to disturb anybody.
    let _ = std::io::stderr().write_all(format!("temblor-agent: {text}\n").as_bytes());
}

/// Runs agent code; a panic ends here, with one line.
fn contained(run: impl FnOnce()) {
    let outcome = catch_unwind(AssertUnwindSafe(run));
    if outcome.is_err() {
        say("internal error (see above); the target runs on");
    }
}

/// Called by the JVM before anything else. Always succeeds: a target never fails to start
/// because of the agent.
///
/// # Safety
/// Only for the JVM.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Agent_OnLoad(
    vm: *mut JavaVM,
    options: *const c_char,
    _reserved: *mut c_void,
) -> jint {
    contained(|| {
        let text = match options.is_null() {
            true => std::borrow::Cow::Borrowed(""),
            // SAFETY: the JVM passes a NUL-terminated string.
            false => unsafe { CStr::from_ptr(options) }.to_string_lossy(),
        };
        // SAFETY: the JVM's own pointer.
        if let Err(problem) = unsafe { load(vm, &text) } {
            say(&format!("{problem}; the target runs without faults"));
        }
    });
    JNI_OK
}

/// # Safety
/// As [`jvm::Jvmti::of`].
unsafe fn load(vm: *mut JavaVM, options: &str) -> Result<(), String> {
    let options = options::Options::parse(options).map_err(|e| e.to_string())?;
    // SAFETY: passed on.
    let jvmti = unsafe { jvm::Jvmti::of(vm) }.ok_or("this JVM has no JVMTI 1.2")?;
    let place = attach::Place::join(&options).map_err(|e| e.to_string())?;
    agent::Agent::start(place, jvmti).ok_or("the JVM refused the agent's capabilities")?;
    Ok(())
}

/// `FaultHook.hit`, found by its name: registering natives would make the JVM print a warning.
///
/// # Safety
/// Only for the JVM.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_java_lang_FaultHook_hit(
    env: *mut JNIEnv,
    _class: jclass,
    point: jint,
) {
    contained(|| {
        if let Some(agent) = agent::agent() {
            // SAFETY: the JVM's own pointer for this thread.
            hit::hit(agent, unsafe { jvm::Jni::new(env) }, point);
        }
    });
}

/// `FaultHook.told`, found by its name.
///
/// # Safety
/// Only for the JVM.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_java_lang_FaultHook_told(
    env: *mut JNIEnv,
    _class: jclass,
    unit: jobject,
    value: jlong,
    point: jint,
) {
    contained(|| {
        if let Some(agent) = agent::agent() {
            // SAFETY: the JVM's own pointer for this thread.
            let jni = unsafe { jvm::Jni::new(env) };
            states::told(agent, jni, unit, value, point);
        }
    });
}
