//! Methods that a target names in its data: `pkg.Class.method`, every overload and override.

use temblor_model::catalog::Diagnostic;

use crate::ir::Sym;
use crate::pattern::matches;
use crate::program::{MethodId, Program};

/// Named methods, each with what the target says about it.
pub struct Rules<T> {
    rules: Vec<(String, String, T)>,
}

impl<T> Rules<T> {
    /// Rules that name nothing in the program are told as diagnostics of `key`.
    pub fn new(
        program: &Program,
        key: &str,
        named: impl IntoIterator<Item = (String, T)>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Rules<T> {
        let mut rules = Vec::new();
        for (name, value) in named {
            let Some((class, method)) = name.rsplit_once('.') else {
                let message = format!("\"{name}\" is no method: expected pkg.Class.method");
                diagnostics.push(of_key(key, message));
                continue;
            };
            let class = class.replace('.', "/");
            if !is_there(program, &class, method) {
                let message = format!("\"{name}\" names no method of a class on the class path");
                diagnostics.push(of_key(key, message));
            }
            rules.push((class, method.to_string(), value));
        }
        Rules { rules }
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rule for a method that is called on a class: the class or anything it extends is named.
    pub fn of(&self, program: &Program, class: Sym, method: Sym) -> Option<&T> {
        let name = program.str(method);
        let mut by_method = self.rules.iter().filter(|r| matches(&r.1, name)).peekable();
        by_method.peek()?;
        let mut classes = vec![program.str(class)];
        if let Some(id) = program.class_named(class) {
            let ancestors = program.ancestors(id).iter();
            classes.extend(ancestors.map(|a| program.str(program.class(*a).name)));
        }
        let found = by_method.find(|rule| classes.iter().any(|class| matches(&rule.0, class)));
        found.map(|rule| &rule.2)
    }

    /// The rule for an own method.
    pub fn of_method(&self, program: &Program, id: MethodId) -> Option<&T> {
        let class = program.class(program.class_of(id)).name;
        self.of(program, class, program.method(id).name)
    }
}

fn of_key(key: &str, message: String) -> Diagnostic {
    Diagnostic {
        place: key.to_string(),
        message,
    }
}

fn is_there(program: &Program, class: &str, method: &str) -> bool {
    program.classes.iter().any(|c| {
        matches(class, program.str(c.name))
            && c.methods
                .iter()
                .any(|m| matches(method, program.str(m.name)))
    })
}
