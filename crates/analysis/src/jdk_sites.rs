//! Sites inside the JDK: entries of its own file and socket methods, whoever calls them.

use temblor_classfile::ClassFile;
use temblor_model::catalog::ClassEntry;
use temblor_model::names::{dotted, parameters};
use temblor_model::site::{Io, Site, SiteKind};

use crate::io::JDK_METHODS;
use crate::source::JdkClasses;

/// The entries this JDK has in bytecode, and their classes. They raise `IOException` if they
/// declare it: the agent throws before the method does anything.
pub fn find(jdk: &JdkClasses) -> (Vec<Site>, Vec<ClassEntry>) {
    let mut sites = Vec::new();
    let mut classes: Vec<ClassEntry> = Vec::new();
    for (class_name, method_name, medium, direction) in JDK_METHODS {
        let Some(bytes) = jdk.read(class_name) else {
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
            let declared = class.exceptions(method).unwrap_or_default();
            let raises = declared.iter().any(|e| *e == "java/io/IOException");
            let desc = method.descriptor.to_str().into_owned();
            let callee = format!("{}.{method_name}", dotted(class_name));
            sites.push(Site {
                name: format!("{callee}({})>entry", parameters(&desc)),
                kind: SiteKind::Entry,
                class: class_name.to_string(),
                method: method_name.to_string(),
                desc,
                callee,
                exceptions: raises
                    .then(|| "java.io.IOException".to_string())
                    .into_iter()
                    .collect(),
                io: Some(Io {
                    medium: *medium,
                    direction: *direction,
                }),
                ..Site::default()
            });
        }
        if !classes.iter().any(|c| c.name == *class_name) {
            classes.push(ClassEntry {
                name: class_name.to_string(),
                // These are retransformed: no bytes to compare with.
                hash: 0,
                blocks: Vec::new(),
            });
        }
    }
    (sites, classes)
}
