//! Who extends whom, what a call resolves to, and what it declares.

use rustc_hash::{FxHashMap, FxHashSet};
use temblor_classfile::{ClassFile, access};
use temblor_model::catalog::Diagnostic;

use crate::source::{ClassBytes, JdkClasses};

/// What the analysis needs to know of a class.
pub struct ClassInfo {
    pub super_name: Option<String>,
    pub interfaces: Vec<String>,
    pub methods: FxHashMap<(String, String), MethodInfo>,
}

/// What the analysis needs to know of a method.
#[derive(Clone, Debug)]
pub struct MethodInfo {
    pub access: u16,
    /// Declared exceptions, internal names.
    pub exceptions: Vec<String>,
    /// Types the body creates: with an exception among them, a fault originates here.
    pub creates: Vec<String>,
}

impl MethodInfo {
    pub fn has_body(&self) -> bool {
        self.access & (access::ABSTRACT | access::NATIVE) == 0
    }
}

/// A call's callee, found.
pub struct Resolved {
    /// The class that declares the method.
    pub class: String,
    pub method: MethodInfo,
}

/// All classes that matter: the target's, and those of the JDK as they are asked for.
pub struct World {
    classes: FxHashMap<String, Option<ClassInfo>>,
    jdk: JdkClasses,
    /// Names of classes that came from the class path.
    own: FxHashSet<String>,
}

impl World {
    pub fn new(jdk: JdkClasses) -> World {
        World {
            classes: FxHashMap::default(),
            jdk,
            own: FxHashSet::default(),
        }
    }

    /// Takes a class of the class path; the first of a name wins, as in a JVM.
    pub fn add(&mut self, class: &ClassBytes, diagnostics: &mut Vec<Diagnostic>) {
        match parse(&class.bytes) {
            Ok((name, info)) => {
                if self.own.insert(name.clone()) {
                    self.classes.insert(name, Some(info));
                }
            }
            Err(message) => {
                diagnostics.push(Diagnostic {
                    place: class.place.clone(),
                    message,
                });
            }
        }
    }

    pub fn jdk_bytes(&mut self, name: &str) -> Option<Vec<u8>> {
        self.jdk.read(name)
    }

    pub fn class(&mut self, name: &str) -> Option<&ClassInfo> {
        if !self.classes.contains_key(name) {
            let info = self.jdk.read(name).and_then(|bytes| parse(&bytes).ok());
            self.classes
                .insert(name.to_string(), info.map(|(_, info)| info));
        }
        self.classes[name].as_ref()
    }

    /// JVMS 5.4.3.3 in short: the class and its superclasses, then all interfaces.
    pub fn resolve(&mut self, class: &str, name: &str, desc: &str) -> Option<Resolved> {
        let key = (name.to_string(), desc.to_string());
        let mut queue = Vec::new();
        let mut at = Some(class.to_string());
        // Bounded: a cyclic hierarchy in hostile input must end.
        for _ in 0..256 {
            let Some(current) = at.take() else { break };
            let Some(info) = self.class(&current) else {
                break;
            };
            if let Some(method) = info.methods.get(&key) {
                let method = method.clone();
                return Some(Resolved {
                    class: current,
                    method,
                });
            }
            queue.extend(info.interfaces.iter().cloned());
            at = info.super_name.clone();
        }
        let mut seen = FxHashSet::default();
        while let Some(interface) = queue.pop() {
            if !seen.insert(interface.clone()) {
                continue;
            }
            let Some(info) = self.class(&interface) else {
                continue;
            };
            if let Some(method) = info.methods.get(&key) {
                let method = method.clone();
                return Some(Resolved {
                    class: interface,
                    method,
                });
            }
            queue.extend(info.interfaces.iter().cloned());
        }
        None
    }

    /// Is `class` this type or a subclass of it? Unknown classes are not.
    pub fn extends(&mut self, class: &str, ancestor: &str) -> bool {
        let mut at = class.to_string();
        for _ in 0..256 {
            if at == ancestor {
                return true;
            }
            match self.class(&at).and_then(|info| info.super_name.clone()) {
                Some(parent) => at = parent,
                None => return false,
            }
        }
        false
    }
}

fn parse(bytes: &[u8]) -> Result<(String, ClassInfo), String> {
    let class = ClassFile::parse(bytes).map_err(|e| e.to_string())?;
    let mut methods = FxHashMap::default();
    for method in class.methods() {
        let exceptions = class.exceptions(method).map_err(|e| e.to_string())?;
        let mut creates = Vec::new();
        if let Ok(Some(code)) = class.code(method) {
            for instruction in code.instructions().flatten() {
                if instruction.opcode == temblor_classfile::opcode::NEW
                    && let Ok(Some(created)) = instruction.class_operand(class.pool())
                {
                    creates.push(created.to_str().into_owned());
                }
            }
        }
        let info = MethodInfo {
            access: method.access,
            exceptions: exceptions.iter().map(|e| e.to_str().into_owned()).collect(),
            creates,
        };
        let key = (
            method.name.to_str().into_owned(),
            method.descriptor.to_str().into_owned(),
        );
        methods.insert(key, info);
    }
    let info = ClassInfo {
        super_name: class.super_name.map(|n| n.to_str().into_owned()),
        interfaces: class
            .interfaces
            .iter()
            .map(|n| n.to_str().into_owned())
            .collect(),
        methods,
    };
    Ok((class.name.to_str().into_owned(), info))
}
