//! All classes together: who extends whom, what a name resolves to.

use lasso::RodeoReader;
use rustc_hash::FxHashMap;
use temblor_classfile::access;
use temblor_model::catalog::Place;
use temblor_model::names;

use crate::ir::text::Text;
use crate::ir::{Body, Class, Field, Method, Sym};
use crate::load::Loaded;

/// Index of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClassId(pub u32);

/// Index of a method of an own class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MethodId(pub u32);

/// A method of any class: the class, and its position there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Declared {
    pub class: ClassId,
    pub index: u32,
}

/// The classes of a target and those it names.
pub struct Program {
    pub names: RodeoReader,
    pub classes: Vec<Class>,
    /// How many of them, from the start, are the target's own.
    pub own: usize,
    by_name: FxHashMap<Sym, ClassId>,
    members: FxHashMap<(ClassId, Sym, Sym), u32>,
    /// Everything a class is a subtype of, itself included; sorted.
    ancestors: Vec<Box<[ClassId]>>,
    /// Direct subtypes.
    subtypes: Vec<Vec<ClassId>>,
    /// Own methods in the order of their classes.
    methods: Vec<Declared>,
    first_method: Vec<u32>,
    /// Fields by class and name, own classes only.
    fields: FxHashMap<(Sym, Sym), (ClassId, u32)>,
}

impl Program {
    pub fn new(loaded: Loaded) -> Program {
        let Loaded {
            names,
            classes,
            own,
            ..
        } = loaded;
        let id = |i: usize| ClassId(i as u32);
        let by_name: FxHashMap<Sym, ClassId> = classes
            .iter()
            .enumerate()
            .map(|(i, c)| (c.name, id(i)))
            .collect();
        let mut members = FxHashMap::default();
        let mut fields = FxHashMap::default();
        let mut methods = Vec::new();
        let mut first_method = Vec::with_capacity(own);
        let mut subtypes = vec![Vec::new(); classes.len()];
        for (i, class) in classes.iter().enumerate() {
            for (index, method) in class.methods.iter().enumerate() {
                members.insert((id(i), method.name, method.desc), index as u32);
            }
            for parent in class.interfaces.iter().chain(&class.super_name) {
                if let Some(parent) = by_name.get(parent) {
                    subtypes[parent.0 as usize].push(id(i));
                }
            }
            if i < own {
                first_method.push(methods.len() as u32);
                let index = 0..class.methods.len() as u32;
                methods.extend(index.map(|index| Declared {
                    class: id(i),
                    index,
                }));
                for (at, field) in class.fields.iter().enumerate() {
                    fields.insert((class.name, field.name), (id(i), at as u32));
                }
            }
        }
        let ancestors = ancestors(&classes, &by_name);
        Program {
            names,
            classes,
            own,
            by_name,
            members,
            ancestors,
            subtypes,
            methods,
            first_method,
            fields,
        }
    }

    pub fn str(&self, sym: Sym) -> &str {
        self.names.resolve(&sym)
    }

    /// The symbol of a text, if anything has that name.
    pub fn sym(&self, text: &str) -> Option<Sym> {
        self.names.get(text)
    }

    pub fn class(&self, id: ClassId) -> &Class {
        &self.classes[id.0 as usize]
    }

    pub fn class_named(&self, name: Sym) -> Option<ClassId> {
        self.by_name.get(&name).copied()
    }

    /// By internal name.
    pub fn class_id(&self, name: &str) -> Option<ClassId> {
        self.class_named(self.sym(name)?)
    }

    pub fn is_own(&self, id: ClassId) -> bool {
        (id.0 as usize) < self.own
    }

    pub fn own_classes(&self) -> impl Iterator<Item = (ClassId, &Class)> {
        let classes = self.classes[..self.own].iter().enumerate();
        classes.map(|(i, c)| (ClassId(i as u32), c))
    }

    pub fn method_ids(&self) -> impl Iterator<Item = MethodId> + use<> {
        (0..self.methods.len() as u32).map(MethodId)
    }

    pub fn method_count(&self) -> usize {
        self.methods.len()
    }

    /// The class of an own method.
    pub fn class_of(&self, id: MethodId) -> ClassId {
        self.methods[id.0 as usize].class
    }

    pub fn method(&self, id: MethodId) -> &Method {
        self.declared(self.methods[id.0 as usize])
    }

    pub fn body(&self, id: MethodId) -> Option<&Body> {
        self.method(id).body.as_deref()
    }

    pub fn declared(&self, declared: Declared) -> &Method {
        &self.class(declared.class).methods[declared.index as usize]
    }

    /// The id of an own method; none for others.
    pub fn own_method(&self, declared: Declared) -> Option<MethodId> {
        let first = self.first_method.get(declared.class.0 as usize)?;
        Some(MethodId(first + declared.index))
    }

    pub fn is_subtype(&self, class: ClassId, of: ClassId) -> bool {
        self.ancestors[class.0 as usize].binary_search(&of).is_ok()
    }

    /// By name; unknown classes are subtypes of themselves only.
    pub fn is_subtype_named(&self, class: Sym, of: Sym) -> bool {
        class == of
            || match (self.class_named(class), self.class_named(of)) {
                (Some(class), Some(of)) => self.is_subtype(class, of),
                _ => false,
            }
    }

    pub fn ancestors(&self, class: ClassId) -> &[ClassId] {
        &self.ancestors[class.0 as usize]
    }

    /// The class and all its subtypes, each once.
    pub fn all_subtypes(&self, class: ClassId) -> Vec<ClassId> {
        let mut out = vec![class];
        let mut seen = rustc_hash::FxHashSet::default();
        seen.insert(class);
        let mut at = 0;
        while at < out.len() {
            for sub in &self.subtypes[out[at].0 as usize] {
                if seen.insert(*sub) {
                    out.push(*sub);
                }
            }
            at += 1;
        }
        out
    }

    /// JVMS 5.4.3.3: the class and its superclasses, then its interfaces, those with a body first.
    pub fn resolve(&self, class: ClassId, name: Sym, desc: Sym) -> Option<Declared> {
        let mut at = Some(class);
        // Bounded: a cyclic hierarchy in hostile input must end.
        for _ in 0..256 {
            let Some(current) = at else { break };
            if let Some(index) = self.members.get(&(current, name, desc)) {
                return Some(Declared {
                    class: current,
                    index: *index,
                });
            }
            let parent = self.class(current).super_name;
            at = parent.and_then(|p| self.class_named(p));
        }
        let mut found = None;
        for ancestor in self.ancestors(class) {
            if let Some(index) = self.members.get(&(*ancestor, name, desc)) {
                let declared = Declared {
                    class: *ancestor,
                    index: *index,
                };
                if self.declared(declared).access & access::ABSTRACT == 0 {
                    return Some(declared);
                }
                found = found.or(Some(declared));
            }
        }
        found
    }

    /// Has the class itself a method of this name and descriptor?
    pub fn declares(&self, class: ClassId, name: Sym, desc: Sym) -> bool {
        self.members.contains_key(&(class, name, desc))
    }

    /// A field of an own class, looked for in its superclasses too.
    pub fn field(&self, class: Sym, name: Sym) -> Option<(ClassId, &Field)> {
        let mut at = class;
        for _ in 0..256 {
            if let Some((owner, index)) = self.fields.get(&(at, name)) {
                return Some((*owner, &self.class(*owner).fields[*index as usize]));
            }
            at = self.class(self.class_named(at)?).super_name?;
        }
        None
    }

    /// The class that declares a field, by name; the one named if that is unknown.
    pub fn field_owner(&self, class: Sym, name: Sym) -> Sym {
        match self.field(class, name) {
            Some((owner, _)) => self.class(owner).name,
            None => class,
        }
    }

    /// Writes values of a method for people.
    pub fn text(&self, id: MethodId) -> Option<Text<'_>> {
        let method = self.method(id);
        Some(Text {
            program: self,
            body: method.body.as_deref()?,
            is_static: method.access & access::STATIC != 0,
            desc: method.desc,
        })
    }

    /// `pkg.Class.method`.
    pub fn short_name(&self, id: MethodId) -> String {
        let class = self.str(self.class(self.class_of(id)).name);
        format!(
            "{}.{}",
            names::dotted(class),
            self.str(self.method(id).name)
        )
    }

    /// `pkg.Class.method(Params)`.
    pub fn full_name(&self, id: MethodId) -> String {
        let parameters = names::parameters(self.str(self.method(id).desc));
        format!("{}({parameters})", self.short_name(id))
    }

    pub fn place(&self, id: MethodId, pc: u16) -> Place {
        let method = self.method(id);
        Place {
            class: self.str(self.class(self.class_of(id)).name).into(),
            method: self.str(method.name).into(),
            desc: self.str(method.desc).into(),
            pc: pc.into(),
            line: method.body.as_ref().and_then(|b| b.line(pc)),
        }
    }
}

fn ancestors(classes: &[Class], by_name: &FxHashMap<Sym, ClassId>) -> Vec<Box<[ClassId]>> {
    let mut out: Vec<Box<[ClassId]>> = Vec::with_capacity(classes.len());
    for i in 0..classes.len() {
        let mut all = vec![ClassId(i as u32)];
        let mut at = 0;
        while at < all.len() {
            let class = &classes[all[at].0 as usize];
            for parent in class.interfaces.iter().chain(&class.super_name) {
                if let Some(parent) = by_name.get(parent)
                    && !all.contains(parent)
                {
                    all.push(*parent);
                }
            }
            at += 1;
        }
        all.sort_unstable();
        out.push(all.into());
    }
    out
}
