//! The JVM as the agent sees it: thin, checked calls into the JNI and JVMTI tables.
//!
//! Strings come back as owned text and JVMTI memory is given back here, so that nothing outside
//! this file deallocates. Local references are the caller's to delete.

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use jvmti_bindings::sys::jni::{
    JNI_OK, JNIEnv, JavaVM, jboolean, jclass, jfieldID, jint, jmethodID, jobject, jvalue,
};
use jvmti_bindings::sys::jvmti::{
    JVMTI_ENABLE, JVMTI_VERSION_1_2, jvmtiCapabilities, jvmtiEnv, jvmtiError, jvmtiEvent,
    jvmtiEventCallbacks, jvmtiFrameInfo, jvmtiLineNumberEntry, jvmtiThreadInfo,
};

/// Calls a JNI function of this thread's table.
macro_rules! jni {
    ($env:expr, $name:ident $(, $arg:expr)*) => {{
        let env = $env.0;
        // SAFETY: a `Jni` is made from the JVM's own pointer for the current thread and never
        // leaves it; arguments are live references or NUL-terminated strings.
        unsafe { ((**env).$name)(env $(, $arg)*) }
    }};
}

/// Calls a JVMTI function; functions that this JVM lacks are `NOT_AVAILABLE`.
macro_rules! jvmti {
    ($env:expr, $name:ident $(, $arg:expr)*) => {{
        let env = $env.0;
        // SAFETY: the environment is never disposed; out-pointers are live locals and the
        // other arguments are live references.
        unsafe {
            match (*(*env).functions).$name {
                Some(call) => call(env $(, $arg)*),
                None => jvmtiError::NOT_AVAILABLE,
            }
        }
    }};
}

/// JNI of the current thread.
#[derive(Clone, Copy, Debug)]
pub struct Jni(*mut JNIEnv);

impl Jni {
    /// # Safety
    /// `env` is what the JVM passed to the current callback or native method.
    pub unsafe fn new(env: *mut JNIEnv) -> Jni {
        Jni(env)
    }

    /// Defines a class in the boot loader.
    pub fn define_boot_class(self, name: &CStr, bytes: &[u8]) -> Option<jclass> {
        let (buf, len) = (bytes.as_ptr().cast(), bytes.len() as jint);
        self.checked(jni!(
            self,
            DefineClass,
            name.as_ptr(),
            ptr::null_mut(),
            buf,
            len
        ))
    }

    /// A class by internal name, as the boot loader knows it.
    pub fn find_class(self, name: &CStr) -> Option<jclass> {
        self.checked(jni!(self, FindClass, name.as_ptr()))
    }

    pub fn method(self, class: jclass, name: &CStr, desc: &CStr) -> Option<jmethodID> {
        self.checked(jni!(self, GetMethodID, class, name.as_ptr(), desc.as_ptr()))
    }

    pub fn static_method(self, class: jclass, name: &CStr, desc: &CStr) -> Option<jmethodID> {
        self.checked(jni!(
            self,
            GetStaticMethodID,
            class,
            name.as_ptr(),
            desc.as_ptr()
        ))
    }

    /// Calls a static method that takes one int; false when it threw.
    pub fn call_static_int(self, class: jclass, method: jmethodID, value: jint) -> bool {
        let args = [jvalue { i: value }];
        jni!(self, CallStaticVoidMethodA, class, method, args.as_ptr());
        !self.clear_exception()
    }

    pub fn call_object(self, object: jobject, method: jmethodID, arg: jobject) -> Option<jobject> {
        let args = [jvalue { l: arg }];
        self.checked(jni!(self, CallObjectMethodA, object, method, args.as_ptr()))
    }

    /// Calls exactly the method of `class`, whatever the object overrides.
    pub fn call_exactly(self, object: jobject, class: jclass, method: jmethodID) -> bool {
        let result = jni!(
            self,
            CallNonvirtualObjectMethodA,
            object,
            class,
            method,
            ptr::null()
        );
        self.delete(result);
        !self.clear_exception()
    }

    /// What a `TimeUnit` makes of a value, in milliseconds.
    pub fn unit_ms(self, unit: jobject, value: i64) -> Option<i64> {
        let class = self.find_class(c"java/util/concurrent/TimeUnit")?;
        let method = self.method(class, c"toMillis", c"(J)J");
        self.delete(class);
        let args = [jvalue { j: value }];
        let ms = jni!(self, CallLongMethodA, unit, method?, args.as_ptr());
        (!self.clear_exception()).then_some(ms)
    }

    /// An object whose constructor never ran.
    pub fn allocate(self, class: jclass) -> Option<jobject> {
        self.checked(jni!(self, AllocObject, class))
    }

    pub fn is_assignable(self, class: jclass, to: jclass) -> bool {
        jni!(self, IsAssignableFrom, class, to) != 0
    }

    pub fn string(self, text: &CStr) -> Option<jobject> {
        self.checked(jni!(self, NewStringUTF, text.as_ptr()))
    }

    fn field(self, class: jclass, name: &CStr, desc: &CStr) -> Option<jfieldID> {
        self.checked(jni!(self, GetFieldID, class, name.as_ptr(), desc.as_ptr()))
    }

    pub fn set_object(
        self,
        object: jobject,
        class: jclass,
        name: &CStr,
        desc: &CStr,
        value: jobject,
    ) -> Option<()> {
        let field = self.field(class, name, desc)?;
        jni!(self, SetObjectField, object, field, value);
        Some(())
    }

    pub fn static_object(self, class: jclass, name: &CStr, desc: &CStr) -> Option<jobject> {
        let (name, desc) = (name.as_ptr(), desc.as_ptr());
        let field = self.checked(jni!(self, GetStaticFieldID, class, name, desc))?;
        self.checked(jni!(self, GetStaticObjectField, class, field))
    }

    /// Leaves the exception pending: it is raised when the native method returns.
    pub fn throw(self, throwable: jobject) -> bool {
        jni!(self, Throw, throwable) == JNI_OK
    }

    pub fn delete(self, reference: jobject) {
        if !reference.is_null() {
            jni!(self, DeleteLocalRef, reference);
        }
    }

    /// Room for `capacity` references, all deleted by [`Jni::pop_frame`].
    pub fn push_frame(self, capacity: jint) -> bool {
        let pushed = jni!(self, PushLocalFrame, capacity) == JNI_OK;
        if pushed {
            // Said again for the checker of JDKs before 21, which misses it in the push.
            jni!(self, EnsureLocalCapacity, capacity);
        }
        self.clear_exception();
        pushed
    }

    /// Deletes the frame's references; gives `keep` as a reference of the outer frame.
    pub fn pop_frame(self, keep: jobject) -> jobject {
        jni!(self, PopLocalFrame, keep)
    }

    /// The value, unless it is null or an exception came with it (which is dropped).
    fn checked<T>(self, value: *mut T) -> Option<*mut T> {
        let threw = self.clear_exception();
        (!threw && !value.is_null()).then_some(value)
    }

    pub fn clear_exception(self) -> bool {
        let threw = jni!(self, ExceptionCheck) != 0;
        if threw {
            jni!(self, ExceptionClear);
        }
        threw
    }
}

/// The agent's JVMTI environment; any thread may use it.
#[derive(Clone, Copy, Debug)]
pub struct Jvmti(*mut jvmtiEnv);

// SAFETY: JVMTI environments are not bound to a thread.
unsafe impl Send for Jvmti {}
// SAFETY: as above.
unsafe impl Sync for Jvmti {}

fn done(error: jvmtiError) -> Option<()> {
    (error == jvmtiError::NONE).then_some(())
}

impl Jvmti {
    /// # Safety
    /// `vm` is what the JVM passed to `Agent_OnLoad`.
    pub unsafe fn of(vm: *mut JavaVM) -> Option<Jvmti> {
        let mut env = ptr::null_mut();
        // SAFETY: `vm` is live by the contract; GetEnv writes one pointer.
        let result = unsafe { ((**vm).GetEnv)(vm, &mut env, JVMTI_VERSION_1_2) };
        (result == JNI_OK && !env.is_null()).then_some(Jvmti(env.cast()))
    }

    /// The JDK's feature release; everything before 9 is 8.
    pub fn jdk(self) -> u32 {
        let mut version = 0;
        jvmti!(self, GetVersionNumber, &mut version);
        ((version as u32 & 0x0fff_0000) >> 16).max(8)
    }

    pub fn add_capabilities(self, capabilities: &jvmtiCapabilities) -> Option<()> {
        done(jvmti!(self, AddCapabilities, capabilities))
    }

    pub fn set_callbacks(self, callbacks: &jvmtiEventCallbacks) -> Option<()> {
        let size = size_of::<jvmtiEventCallbacks>() as jint;
        done(jvmti!(self, SetEventCallbacks, callbacks, size))
    }

    pub fn enable(self, event: jvmtiEvent) -> Option<()> {
        let all_threads = ptr::null_mut();
        done(jvmti!(
            self,
            SetEventNotificationMode,
            JVMTI_ENABLE,
            event,
            all_threads
        ))
    }

    /// Memory that the JVM frees, holding `bytes`.
    pub fn copy_out(self, bytes: &[u8]) -> Option<*mut u8> {
        let mut memory = ptr::null_mut();
        done(jvmti!(self, Allocate, bytes.len() as i64, &mut memory))?;
        // SAFETY: the JVM gave that many bytes, to which nobody else points.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), memory, bytes.len()) };
        Some(memory)
    }

    fn deallocate<T>(self, memory: *mut T) {
        if !memory.is_null() {
            jvmti!(self, Deallocate, memory.cast());
        }
    }

    fn text(self, text: *mut c_char) -> String {
        if text.is_null() {
            return String::new();
        }
        // SAFETY: JVMTI strings are NUL-terminated and ours until deallocated.
        let owned = unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned();
        self.deallocate(text);
        owned
    }

    /// Frames of the current thread, top first.
    pub fn stack(self, buffer: &mut [jvmtiFrameInfo]) -> &[jvmtiFrameInfo] {
        let (max, mut count) = (buffer.len() as jint, 0);
        let current = ptr::null_mut();
        let error = jvmti!(
            self,
            GetStackTrace,
            current,
            0,
            max,
            buffer.as_mut_ptr(),
            &mut count
        );
        match done(error) {
            Some(()) => &buffer[..count.clamp(0, max) as usize],
            None => &[],
        }
    }

    pub fn declaring_class(self, method: jmethodID) -> Option<jclass> {
        let mut class = ptr::null_mut();
        done(jvmti!(self, GetMethodDeclaringClass, method, &mut class))?;
        Some(class)
    }

    /// Internal name, `java/lang/String`; `None` for arrays and primitives.
    pub fn class_name(self, class: jclass) -> Option<String> {
        let mut signature = ptr::null_mut();
        done(jvmti!(
            self,
            GetClassSignature,
            class,
            &mut signature,
            ptr::null_mut()
        ))?;
        let text = self.text(signature);
        Some(text.strip_prefix('L')?.strip_suffix(';')?.to_owned())
    }

    pub fn method_name(self, method: jmethodID) -> Option<String> {
        let (mut name, none) = (ptr::null_mut(), ptr::null_mut());
        done(jvmti!(self, GetMethodName, method, &mut name, none, none))?;
        Some(self.text(name))
    }

    /// Source line of a position; 0 where unknown.
    pub fn line(self, method: jmethodID, location: i64) -> i32 {
        let (mut count, mut table) = (0, ptr::null_mut::<jvmtiLineNumberEntry>());
        if done(jvmti!(
            self,
            GetLineNumberTable,
            method,
            &mut count,
            &mut table
        ))
        .is_none()
        {
            return 0;
        }
        // SAFETY: the JVM filled that many entries, ours until deallocated.
        let entries = unsafe { std::slice::from_raw_parts(table, count.max(0) as usize) };
        let before = entries.iter().filter(|e| e.start_location <= location);
        let line = before
            .max_by_key(|e| e.start_location)
            .map_or(0, |e| e.line_number);
        self.deallocate(table);
        line
    }

    /// Null for the boot loader.
    pub fn loader(self, class: jclass) -> Option<jobject> {
        let mut loader = ptr::null_mut();
        done(jvmti!(self, GetClassLoader, class, &mut loader))?;
        Some(loader)
    }

    /// Name and context loader of the current thread; the loader is a local reference.
    pub fn thread(self, jni: Jni) -> Option<(String, jobject)> {
        let mut info = jvmtiThreadInfo {
            name: ptr::null_mut(),
            priority: 0,
            is_daemon: 0,
            thread_group: ptr::null_mut(),
            context_class_loader: ptr::null_mut(),
        };
        done(jvmti!(self, GetThreadInfo, ptr::null_mut(), &mut info))?;
        jni.delete(info.thread_group);
        Some((self.text(info.name), info.context_class_loader))
    }

    /// Every loaded class: local references, to be made inside a frame with room for them.
    pub fn loaded_classes(self) -> Vec<jclass> {
        let (mut count, mut classes) = (0, ptr::null_mut::<jclass>());
        if done(jvmti!(self, GetLoadedClasses, &mut count, &mut classes)).is_none() {
            return Vec::new();
        }
        // SAFETY: the JVM filled that many references, ours until deallocated.
        let list = unsafe { std::slice::from_raw_parts(classes, count.max(0) as usize) }.to_vec();
        self.deallocate(classes);
        list
    }

    pub fn is_modifiable(self, class: jclass) -> bool {
        let mut modifiable: jboolean = 0;
        let error = jvmti!(self, IsModifiableClass, class, &mut modifiable);
        done(error).is_some() && modifiable != 0
    }

    /// Sends loaded classes through the class-file hook once more.
    pub fn retransform(self, classes: &[jclass]) -> Result<(), jvmtiError> {
        match jvmti!(
            self,
            RetransformClasses,
            classes.len() as jint,
            classes.as_ptr()
        ) {
            jvmtiError::NONE => Ok(()),
            error => Err(error),
        }
    }
}

/// A Rust string for JNI; text with NUL inside is cut there.
pub fn c_string(text: &str) -> CString {
    let until = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..until]).unwrap_or_default()
}
