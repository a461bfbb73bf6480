//! From the names of one source to the names of the whole program: classes are built and stored
//! with names of their own, so that a source can be read without the others.

use lasso::Key;

use super::{Body, Class, OpKind, Sym, Value};

impl Class {
    /// Replaces every name by what it is numbered as in `to`. A number that is not there, which
    /// only a damaged store can have, is an error.
    pub fn rename(&mut self, to: &[Sym]) -> Result<(), Unnamed> {
        let rename = &|sym: &mut Sym| {
            *sym = *to.get(sym.into_usize()).ok_or(Unnamed)?;
            Ok(())
        };
        rename(&mut self.name)?;
        self.super_name.iter_mut().try_for_each(rename)?;
        self.interfaces.iter_mut().try_for_each(rename)?;
        for field in &mut self.fields {
            rename(&mut field.name)?;
            rename(&mut field.desc)?;
            field.signature.iter_mut().try_for_each(rename)?;
        }
        for method in &mut self.methods {
            rename(&mut method.name)?;
            rename(&mut method.desc)?;
            method.exceptions.iter_mut().try_for_each(rename)?;
            if let Some(body) = &mut method.body {
                rename_body(body, rename)?;
            }
        }
        Ok(())
    }
}

/// A name that is not in its table.
#[derive(Debug)]
pub struct Unnamed;

fn rename_body(
    body: &mut Body,
    rename: &impl Fn(&mut Sym) -> Result<(), Unnamed>,
) -> Result<(), Unnamed> {
    for value in &mut body.values {
        match value {
            Value::Text(name)
            | Value::ClassConst(name)
            | Value::New(name)
            | Value::Cast { class: name, .. }
            | Value::InstanceOf { class: name, .. } => rename(name)?,
            Value::Field { class, name, .. } | Value::Static { class, name } => {
                rename(class)?;
                rename(name)?;
            }
            _ => {}
        }
    }
    for op in &mut body.ops {
        if let OpKind::Put { class, name, .. } = &mut op.kind {
            rename(class)?;
            rename(name)?;
        }
    }
    for call in &mut body.calls {
        for name in [&mut call.class, &mut call.name, &mut call.desc] {
            rename(name)?;
        }
    }
    for closure in &mut body.closures {
        let target = &mut closure.target;
        let of_target = [&mut target.class, &mut target.name, &mut target.desc];
        for name in of_target {
            rename(name)?;
        }
        rename(&mut closure.interface)?;
        rename(&mut closure.method)?;
    }
    for block in &mut body.blocks {
        for (_, class) in &mut block.handlers {
            class.iter_mut().try_for_each(rename)?;
        }
    }
    body.names.iter_mut().try_for_each(|(_, name)| rename(name))
}
