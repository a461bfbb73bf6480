//! Which exceptions are wanted: types with their subtypes, or patterns over names.
use temblor_model::names::dotted;

use crate::ir::Sym;
use crate::pattern::matches;
use crate::program::{ClassId, Program};

/// What is injected unless the target says otherwise.
const DEFAULT: &str = "java.io.IOException";

/// The wanted exceptions of a program.
pub struct Family {
    is_in: Vec<bool>,
}

impl Family {
    pub fn new(program: &Program, patterns: &[String]) -> Family {
        let default = [DEFAULT.to_string()];
        let patterns = match patterns.is_empty() {
            true => &default[..],
            false => patterns,
        };
        let throwable = program.class_id("java/lang/Throwable");
        let roots: Vec<ClassId> = patterns
            .iter()
            .filter_map(|p| program.class_id(&p.replace('.', "/")))
            .collect();
        let is_in = (0..program.classes.len() as u32).map(ClassId).map(|id| {
            let is_thrown = throwable.is_some_and(|t| program.is_subtype(id, t));
            let by_name = || {
                let name = dotted(program.str(program.class(id).name));
                let mut with_star = patterns.iter().filter(|p| p.contains('*'));
                with_star.any(|p| matches(p, &name))
            };
            is_thrown && (roots.iter().any(|r| program.is_subtype(id, *r)) || by_name())
        });
        Family {
            is_in: is_in.collect(),
        }
    }

    pub fn has(&self, program: &Program, class: Sym) -> bool {
        let id = program.class_named(class);
        id.is_some_and(|id| self.is_in[id.0 as usize])
    }
}
