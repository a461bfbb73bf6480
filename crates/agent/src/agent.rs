//! The agent in its JVM: its state and the JVM's callbacks.

use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use jvmti_bindings::sys::jni::{JNIEnv, jclass, jobject, jthread};
use jvmti_bindings::sys::jvmti::{
    JVMTI_EVENT_CLASS_FILE_LOAD_HOOK, JVMTI_EVENT_VM_INIT, JVMTI_EVENT_VM_START, jvmtiCapabilities,
    jvmtiEnv, jvmtiEventCallbacks,
};

use crate::attach::Place;
use crate::clock;
use crate::hit::Guard;
use crate::hook_class;
use crate::journal::Journal;
use crate::jvm::{Jni, Jvmti, c_string};
use crate::rewrite::{Bounds, rewrite};
use crate::stack::Walker;
use crate::states::Told;
use crate::{contained, say};

/// Everything the hooks need.
#[derive(Debug)]
pub struct Agent {
    pub place: Place,
    pub jvmti: Jvmti,
    pub journal: Journal,
    pub walker: Walker,
    pub told: Told,
    /// Hits per site of this process.
    pub counters: &'static [AtomicU32],
    jdk: u32,
}

/// References planned for the classes that are loaded when the JVM is up (about 600).
const LOADED_CLASSES: i32 = 1 << 14;

static AGENT: OnceLock<Agent> = OnceLock::new();

/// The agent, once it has joined a trial.
pub fn agent() -> Option<&'static Agent> {
    AGENT.get()
}

impl Agent {
    /// Wires the agent into the JVM. `None`: the JVM refused, the target runs on untouched.
    pub fn start(place: Place, jvmti: Jvmti) -> Option<()> {
        let idle = place.hooks.is_empty();
        clock::now_ns(); // finds libc's clock here, not inside the first hit
        let counters = place.board.counters(place.slot);
        let journal = Journal::new(place.ring);
        let (walker, jdk) = (Walker::default(), jvmti.jdk());
        let accesses = place.board.header().points().accesses;
        let told = Told::new(place.hooks.states(), accesses);
        AGENT
            .set(Agent {
                place,
                jvmti,
                journal,
                walker,
                told,
                counters,
                jdk,
            })
            .ok()?;
        if idle {
            return Some(());
        }
        let mut capabilities = jvmtiCapabilities::default();
        capabilities.set_can_generate_all_class_hook_events(true);
        capabilities.set_can_retransform_classes(true);
        capabilities.set_can_get_line_numbers(true);
        jvmti.add_capabilities(&capabilities)?;
        let mut callbacks = jvmtiEventCallbacks::default();
        callbacks.VMStart = Some(vm_start);
        callbacks.VMInit = Some(vm_init);
        callbacks.ClassFileLoadHook = Some(class_file_load_hook);
        jvmti.set_callbacks(&callbacks)?;
        // Before 9, boot classes cannot be defined until VMInit.
        if jdk >= 9 {
            jvmti.enable(JVMTI_EVENT_VM_START)?;
        }
        jvmti.enable(JVMTI_EVENT_VM_INIT)
    }

    fn define_hook_class(&self, jni: Jni) -> Option<jclass> {
        let Place { board, slot, .. } = &self.place;
        let (arms, coverage) = (board.arms().as_ptr(), board.coverage(*slot).as_ptr());
        let bytes = hook_class::bytes(self.jdk, arms.cast(), coverage.cast());
        let bytes = bytes
            .inspect_err(|e| self.report(&format!("no hook class: {e}")))
            .ok()?;
        let class = jni.define_boot_class(&c_string(hook_class::NAME), &bytes);
        if class.is_none() {
            self.report("the JVM refused the hook class; nothing is hooked");
        }
        class
    }

    /// The JVM is up: from now on classes are rewritten as they are loaded.
    fn vm_init(&self, jni: Jni) {
        let name = c_string(hook_class::NAME);
        let class = match self.jdk {
            ..9 => self.define_hook_class(jni),
            _ => jni.find_class(&name),
        };
        let Some(class) = class else { return };
        // Initialises the class and links its native method now, at a place known to be safe,
        // not inside the first hit. -1 is no site.
        let linked = jni
            .static_method(class, &c_string(hook_class::HIT), c"(I)V")
            .is_some_and(|hit| jni.call_static_int(class, hit, -1));
        jni.delete(class);
        if !linked {
            return self.report("the hook class does not link; nothing is hooked");
        }
        if self
            .jvmti
            .enable(JVMTI_EVENT_CLASS_FILE_LOAD_HOOK)
            .is_none()
        {
            return self.report("the JVM shows no class files; nothing is hooked");
        }
        self.retransform_loaded(jni);
    }

    /// Classes that were there before the agent could see them.
    fn retransform_loaded(&self, jni: Jni) {
        if !jni.push_frame(LOADED_CLASSES) {
            return self.report("no memory for references; classes of the JDK are not hooked");
        }
        let mut wanted = self.jvmti.loaded_classes();
        wanted.retain(|class| {
            let name = self.jvmti.class_name(*class);
            let hooks = name.and_then(|name| self.place.hooks.find(&name).ok().flatten());
            hooks.is_some() && self.jvmti.is_modifiable(*class)
        });
        if !wanted.is_empty()
            && let Err(error) = self.jvmti.retransform(&wanted)
        {
            // One class that cannot be changed spoils the batch: one by one, then.
            let refused = |class: &&jclass| self.jvmti.retransform(&[**class]).is_err();
            let count = wanted.iter().filter(refused).count() as u32;
            self.place
                .slot_header()
                .left_alone
                .fetch_add(count, Ordering::Relaxed);
            self.report(&format!(
                "{count} loaded classes cannot be rewritten: {error:?}"
            ));
        }
        jni.pop_frame(std::ptr::null_mut());
    }

    /// The new bytes of a planned class; `None` leaves it as it is.
    fn rewritten(&self, name: &str, bytes: &[u8]) -> Option<Vec<u8>> {
        let hooks = match self.place.hooks.find(name) {
            Ok(found) => found?,
            Err(error) => {
                self.report(&format!("class {name}: {error}"));
                return None;
            }
        };
        let header = self.place.board.header();
        let bounds = Bounds {
            points: header.points().total(),
            blocks: header.block_count,
        };
        let slot = self.place.slot_header();
        match rewrite(bytes, &hooks, bounds) {
            Ok(done) => {
                slot.rewritten.fetch_add(1, Ordering::Relaxed);
                for method in done.skipped {
                    self.journal
                        .notice(format!("class {name}: left out {method}"));
                }
                Some(done.bytes)
            }
            Err(reason) => {
                slot.left_alone.fetch_add(1, Ordering::Relaxed);
                self.report(&format!(
                    "class {} {reason}; left alone",
                    name.replace('/', ".")
                ));
                None
            }
        }
    }

    /// To people at the terminal and to the lab.
    fn report(&self, text: &str) {
        say(text);
        self.journal.notice(text.to_owned());
    }
}

unsafe extern "system" fn vm_start(_jvmti: *mut jvmtiEnv, env: *mut JNIEnv) {
    contained(|| {
        // SAFETY: the JVM's own pointer for this thread.
        let jni = unsafe { Jni::new(env) };
        let _guard = Guard::enter();
        if let Some(class) = agent().and_then(|agent| agent.define_hook_class(jni)) {
            jni.delete(class);
        }
    });
}

unsafe extern "system" fn vm_init(_jvmti: *mut jvmtiEnv, env: *mut JNIEnv, _thread: jthread) {
    contained(|| {
        // SAFETY: the JVM's own pointer for this thread.
        let jni = unsafe { Jni::new(env) };
        let _guard = Guard::enter();
        if let Some(agent) = agent() {
            agent.vm_init(jni);
        }
    });
}

unsafe extern "system" fn class_file_load_hook(
    _jvmti: *mut jvmtiEnv,
    _env: *mut JNIEnv,
    _redefined: jclass,
    _loader: jobject,
    name: *const std::ffi::c_char,
    _domain: jobject,
    len: i32,
    data: *const u8,
    new_len: *mut i32,
    new_data: *mut *mut u8,
) {
    contained(|| {
        let Some(agent) = agent() else { return };
        if name.is_null() || data.is_null() || len <= 0 {
            return;
        }
        // SAFETY: the JVM's NUL-terminated name and its `len` bytes live during the callback.
        let (name, bytes) = unsafe {
            (
                CStr::from_ptr(name).to_str(),
                std::slice::from_raw_parts(data, len as usize),
            )
        };
        let Ok(name) = name else { return };
        let Some(bytes) = agent.rewritten(name, bytes) else {
            return;
        };
        let Some(memory) = agent.jvmti.copy_out(&bytes) else {
            return;
        };
        // SAFETY: out-pointers of the JVM; the memory is from its own allocator.
        unsafe {
            *new_len = bytes.len() as i32;
            *new_data = memory;
        }
    });
}
