//! The rules that make a call a site.
//!
//! A call of the target's own code is a site when its resolved callee declares an exception of
//! the wanted family, or does I/O. As deep as possible (Legolas §3): a call to one of the
//! target's own methods counts only where the fault can originate: the callee has no body here,
//! or its body creates such an exception itself. The calls inside are sites of their own.

use rustc_hash::{FxHashMap, FxHashSet};
use temblor_classfile::{ClassFile, Invoke, InvokeKind, Method, class_hash};
use temblor_model::catalog::{ClassEntry, Diagnostic, MethodBlocks, SiteCatalog};
use temblor_model::site::{Io, Site, SiteKind};

use crate::Request;
use crate::io;
use crate::names::{dotted, parameters};
use crate::source::ClassBytes;
use crate::world::World;

/// Finds all sites and blocks. Ids follow the order of class, method, position.
pub fn find(
    request: &Request,
    classes: &[ClassBytes],
    world: &mut World,
    diagnostics: &mut Vec<Diagnostic>,
) -> SiteCatalog {
    let mut finder = Finder {
        prefixes: request
            .settings
            .packages
            .iter()
            .map(|p| p.replace('.', "/"))
            .collect(),
        families: ["java.io.IOException".to_string()]
            .iter()
            .map(|e| e.replace('.', "/"))
            .collect(),
        calls: &request.settings.calls,
        world,
        sites: Vec::new(),
        entries: Vec::new(),
        seen: FxHashSet::default(),
    };
    for class in classes {
        if let Err(e) = finder.class(class) {
            diagnostics.push(Diagnostic {
                place: class.place.clone(),
                message: e.to_string(),
            });
        }
    }
    if request.jdk_sites {
        finder.jdk();
    }
    finder.finish()
}

struct Finder<'w> {
    calls: &'w [String],
    prefixes: Vec<String>,
    families: Vec<String>,
    world: &'w mut World,
    sites: Vec<Site>,
    entries: Vec<ClassEntry>,
    seen: FxHashSet<String>,
}

impl Finder<'_> {
    fn is_own(&self, class: &str) -> bool {
        self.prefixes.is_empty() || self.prefixes.iter().any(|p| class.starts_with(p.as_str()))
    }

    fn class(&mut self, source: &ClassBytes) -> Result<(), temblor_classfile::ReadError> {
        let class = ClassFile::parse(&source.bytes)?;
        let name = class.name.to_str().into_owned();
        // The first class of a name wins, as on a class path.
        if !self.is_own(&name) || !self.seen.insert(name.clone()) {
            return Ok(());
        }
        let mut blocks = Vec::new();
        for method in class.methods() {
            let Some(code) = class.code(method)? else {
                continue;
            };
            blocks.push(MethodBlocks {
                method: method.name.to_str().into_owned(),
                desc: method.descriptor.to_str().into_owned(),
                first: 0,
                pcs: code.block_starts()?.into_iter().map(u32::from).collect(),
            });
            self.calls(&class, method)?;
        }
        self.entries.push(ClassEntry {
            name,
            hash: class_hash(&source.bytes),
            blocks,
        });
        Ok(())
    }

    fn calls(
        &mut self,
        class: &ClassFile<'_>,
        method: &Method<'_>,
    ) -> Result<(), temblor_classfile::ReadError> {
        let Some(code) = class.code(method)? else {
            return Ok(());
        };
        let lines = code.lines()?;
        let mut ordinals: FxHashMap<String, u32> = FxHashMap::default();
        for instruction in code.instructions() {
            let instruction = instruction?;
            let Some(invoke) = instruction.invoke(class.pool())? else {
                continue;
            };
            if invoke.kind == InvokeKind::Dynamic {
                continue;
            }
            let callee = format!(
                "{}.{}",
                dotted(&invoke.class.to_str()),
                invoke.name.to_str()
            );
            // Every call counts for the ordinal, so that a site's name does not depend on
            // which other calls are sites.
            let ordinal = ordinals.entry(callee.clone()).or_default();
            let k = *ordinal;
            *ordinal += 1;
            let wanted = self.calls.contains(&callee);
            let (exceptions, io) = match self.faults(&invoke) {
                Some(faults) => faults,
                None if wanted => (Vec::new(), None),
                None => continue,
            };
            let desc = method.descriptor.to_str();
            let place = format!(
                "{}.{}({})",
                dotted(&class.name.to_str()),
                method.name.to_str(),
                parameters(&desc)
            );
            self.sites.push(Site {
                id: 0,
                name: format!("{place}>{callee}#{k}"),
                kind: SiteKind::Call,
                class: class.name.to_str().into_owned(),
                method: method.name.to_str().into_owned(),
                desc: desc.into_owned(),
                pc: instruction.pc.into(),
                line: lines.line(instruction.pc).map(u32::from),
                callee,
                exceptions,
                io,
                ..Site::default()
            });
        }
        Ok(())
    }

    /// What can go wrong at this call; `None` when nothing of interest can.
    fn faults(&mut self, invoke: &Invoke<'_>) -> Option<(Vec<String>, Option<Io>)> {
        let (class, name) = (invoke.class.to_str(), invoke.name.to_str());
        if io::is_in_memory(&class) {
            return None;
        }
        let io = io::of_call(&class, &name);
        let resolved = self
            .world
            .resolve(&class, &name, &invoke.descriptor.to_str());
        let mut exceptions = Vec::new();
        if let Some(callee) = resolved {
            let declared = self.of_family(&callee.method.exceptions);
            let deeper = self.is_own(&callee.class) && callee.method.has_body();
            let originates = !deeper || !self.of_family(&callee.method.creates).is_empty();
            if originates {
                exceptions = declared.iter().map(|e| dotted(e)).collect();
            }
        }
        (!exceptions.is_empty() || io.is_some()).then_some((exceptions, io))
    }

    fn of_family(&mut self, types: &[String]) -> Vec<String> {
        let families = self.families.clone();
        let mut out: Vec<String> = Vec::new();
        for class in types {
            if families.iter().any(|f| self.world.extends(class, f)) && !out.contains(class) {
                out.push(class.clone());
            }
        }
        out
    }

    /// Entries of the JDK's own I/O methods, as far as this JDK has them in bytecode.
    fn jdk(&mut self) {
        for (class_name, method_name, medium, direction) in io::JDK_METHODS {
            let Some(bytes) = self.world.jdk_bytes(class_name) else {
                continue;
            };
            let Ok(class) = ClassFile::parse(&bytes) else {
                continue;
            };
            for method in class.methods() {
                let has_code = matches!(class.code(method), Ok(Some(_)));
                if method.name != *method_name || !has_code || method.is_static() {
                    continue;
                }
                let Ok(declared) = class.exceptions(method) else {
                    continue;
                };
                let declared: Vec<String> =
                    declared.iter().map(|e| e.to_str().into_owned()).collect();
                let desc = method.descriptor.to_str().into_owned();
                let callee = format!("{}.{method_name}", dotted(class_name));
                let exceptions = self
                    .of_family(&declared)
                    .iter()
                    .map(|e| dotted(e))
                    .collect();
                self.sites.push(Site {
                    id: 0,
                    name: format!("{callee}({})>entry", parameters(&desc)),
                    kind: SiteKind::Entry,
                    class: class_name.to_string(),
                    method: method_name.to_string(),
                    desc,
                    pc: 0,
                    line: None,
                    callee,
                    exceptions,
                    io: Some(Io {
                        medium: *medium,
                        direction: *direction,
                    }),
                    ..Site::default()
                });
            }
            if self.seen.insert(class_name.to_string()) {
                let name = class_name.to_string();
                self.entries.push(ClassEntry {
                    name,
                    hash: 0,
                    blocks: Vec::new(),
                });
            }
        }
    }

    fn finish(mut self) -> SiteCatalog {
        self.entries.sort_by(|a, b| a.name.cmp(&b.name));
        self.sites.sort_by(|a, b| {
            (&a.class, &a.method, &a.desc, a.pc).cmp(&(&b.class, &b.method, &b.desc, b.pc))
        });
        for (id, site) in self.sites.iter_mut().enumerate() {
            site.id = id as u32;
        }
        let mut block_count = 0;
        for method in self.entries.iter_mut().flat_map(|e| &mut e.blocks) {
            method.first = block_count;
            block_count += method.pcs.len() as u32;
        }
        SiteCatalog {
            format: SiteCatalog::FORMAT,
            sites: self.sites,
            classes: self.entries,
            block_count,
            ..SiteCatalog::default()
        }
    }
}
