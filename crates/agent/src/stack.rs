//! Walks the current thread's stack into frames with stable names.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use jvmti_bindings::sys::jni::jclass;
use jvmti_bindings::sys::jvmti::jvmtiFrameInfo;

use crate::frames::{Frame, MAX_DEPTH, frame, stack_hash};
use crate::jvm::{Jni, Jvmti};

/// Positions whose text is remembered; beyond, the memory starts afresh.
const MAX_CACHED: usize = 1 << 16;
/// Frames above the target's own that a walk may see: hook, reflection.
const SPARE: usize = 16;

/// A walked stack.
#[derive(Clone, Debug)]
pub struct Stack {
    pub hash: u64,
    frames: Vec<Arc<Frame>>,
}

impl Stack {
    /// One frame a line, top first.
    pub fn text(&self) -> String {
        let lines: Vec<&str> = self.frames.iter().map(|f| f.text.as_str()).collect();
        lines.join("\n")
    }
}

/// Remembers the text of code positions. The lock guards only the map: no JVM call is made
/// while it is held.
#[derive(Debug, Default)]
pub struct Walker {
    cache: RwLock<HashMap<(usize, i64), Arc<Frame>>>,
}

impl Walker {
    pub fn walk(&self, jvmti: Jvmti, jni: Jni) -> Stack {
        let mut buffer = [EMPTY; MAX_DEPTH + SPARE];
        let mut frames = Vec::with_capacity(MAX_DEPTH);
        for info in jvmti.stack(&mut buffer) {
            let frame = self.frame(jvmti, jni, info);
            if !frame.skipped && frames.len() < MAX_DEPTH {
                frames.push(frame);
            }
        }
        let hash = stack_hash(frames.iter().map(|f| f.hash));
        Stack { hash, frames }
    }

    fn frame(&self, jvmti: Jvmti, jni: Jni, info: &jvmtiFrameInfo) -> Arc<Frame> {
        let key = (info.method as usize, info.location);
        let known = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(frame) = known.get(&key) {
            return Arc::clone(frame);
        }
        drop(known);
        let made = Arc::new(describe(jvmti, jni, info));
        let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= MAX_CACHED {
            cache.clear();
        }
        cache.insert(key, Arc::clone(&made));
        made
    }
}

const EMPTY: jvmtiFrameInfo = jvmtiFrameInfo {
    method: std::ptr::null_mut(),
    location: 0,
};

fn describe(jvmti: Jvmti, jni: Jni, info: &jvmtiFrameInfo) -> Frame {
    let class = jvmti.declaring_class(info.method);
    let name = class.and_then(|class| {
        let name = jvmti.class_name(class);
        jni.delete(class);
        name
    });
    let method = jvmti.method_name(info.method);
    // Native frames have no position.
    let line = if info.location < 0 {
        0
    } else {
        jvmti.line(info.method, info.location)
    };
    frame(
        name.as_deref().unwrap_or("?"),
        method.as_deref().unwrap_or("?"),
        line,
    )
}

/// The class whose code called the hook; a local reference.
pub fn calling_class(jvmti: Jvmti, jni: Jni) -> Option<jclass> {
    let mut buffer = [EMPTY; 4];
    for info in jvmti.stack(&mut buffer) {
        let class = jvmti.declaring_class(info.method)?;
        if jvmti.class_name(class).as_deref() != Some(crate::hook_class::NAME) {
            return Some(class);
        }
        jni.delete(class);
    }
    None
}
