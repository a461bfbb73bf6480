//! Builds small classes from nothing: the agent's hook class has no source and no compiler.
//!
//! Use class version 49: the JVM then verifies by inference, and no stack map frames are needed.
//!
//! ```
//! use temblor_classfile::{access, opcode, synth::{ClassBuilder, MethodSpec}};
//! # fn main() -> Result<(), temblor_classfile::EditError> {
//! let mut class = ClassBuilder::new(49, access::PUBLIC | access::SUPER, "Hook", "java/lang/Object")?;
//! class.field(access::PUBLIC | access::STATIC, "base", "J")?;
//! let mut code = class.code();
//! let done = code.label();
//! code.load_int(0).jump(opcode::IFEQ, done).invoke_static("Hook", "hit", "()V")?;
//! code.bind(done).op(opcode::RETURN);
//! let spec = MethodSpec::new(access::PUBLIC | access::STATIC, "at", "(I)V").stack(1).locals(1);
//! let code = code.finish()?;
//! class.method(&spec, Some(&code))?;
//! class.method(&MethodSpec::new(access::STATIC | access::NATIVE, "hit", "()V"), None)?;
//! let bytes = class.finish()?;
//! # assert!(temblor_classfile::ClassFile::parse(&bytes).is_ok()); Ok(())
//! # }
//! ```

use crate::error::EditError;
use crate::opcode::*;
use crate::pool_writer::PoolWriter;
use crate::rewrite::{load, push_constant, push_int};

/// A class in the making.
#[derive(Debug)]
pub struct ClassBuilder {
    major: u16,
    access: u16,
    this_class: u16,
    super_class: u16,
    pool: PoolWriter,
    fields: Members,
    methods: Members,
}

#[derive(Debug, Default)]
struct Members {
    count: u16,
    bytes: Vec<u8>,
}

impl Members {
    fn add(&mut self, what: &'static str, bytes: &[u8]) -> Result<(), EditError> {
        let (size, limit) = (usize::from(self.count) + 1, usize::from(u16::MAX));
        self.count = self
            .count
            .checked_add(1)
            .ok_or(EditError::TooLarge { what, size, limit })?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

/// A method's head. Stack and locals are the caller's to know; natives and abstracts have none.
#[derive(Debug, Clone)]
pub struct MethodSpec<'s> {
    access: u16,
    name: &'s str,
    descriptor: &'s str,
    max_stack: u16,
    max_locals: u16,
    annotations: &'s [&'s str],
}

impl<'s> MethodSpec<'s> {
    pub fn new(access: u16, name: &'s str, descriptor: &'s str) -> Self {
        MethodSpec {
            access,
            name,
            descriptor,
            max_stack: 0,
            max_locals: 0,
            annotations: &[],
        }
    }

    pub fn stack(self, max_stack: u16) -> Self {
        MethodSpec { max_stack, ..self }
    }

    pub fn locals(self, max_locals: u16) -> Self {
        MethodSpec { max_locals, ..self }
    }

    /// Runtime-visible annotations without elements, by descriptor: `Ljava/lang/Deprecated;`.
    pub fn annotated(self, annotations: &'s [&'s str]) -> Self {
        MethodSpec {
            annotations,
            ..self
        }
    }
}

impl ClassBuilder {
    pub fn new(major: u16, access: u16, name: &str, super_name: &str) -> Result<Self, EditError> {
        let mut pool = PoolWriter::starting_at(1);
        let this_class = pool.class(name)?;
        let super_class = pool.class(super_name)?;
        let (fields, methods) = (Members::default(), Members::default());
        Ok(ClassBuilder {
            major,
            access,
            this_class,
            super_class,
            pool,
            fields,
            methods,
        })
    }

    /// The constant pool, for raw code that names constants.
    pub fn pool(&mut self) -> &mut PoolWriter {
        &mut self.pool
    }

    pub fn field(&mut self, access: u16, name: &str, descriptor: &str) -> Result<(), EditError> {
        let field = [
            access,
            self.pool.utf8(name)?,
            self.pool.utf8(descriptor)?,
            0,
        ];
        self.fields
            .add("field list", &field.map(u16::to_be_bytes).concat())
    }

    /// Starts a method body whose constants land in this class.
    pub fn code(&mut self) -> CodeBuilder<'_> {
        CodeBuilder {
            pool: &mut self.pool,
            code: Vec::new(),
            labels: Vec::new(),
            jumps: Vec::new(),
        }
    }

    /// Adds a method; `code` is `None` for native and abstract ones.
    pub fn method(&mut self, spec: &MethodSpec<'_>, code: Option<&[u8]>) -> Result<(), EditError> {
        let mut out = Vec::new();
        out.extend(spec.access.to_be_bytes());
        out.extend(self.pool.utf8(spec.name)?.to_be_bytes());
        out.extend(self.pool.utf8(spec.descriptor)?.to_be_bytes());
        let attributes = u16::from(code.is_some()) + u16::from(!spec.annotations.is_empty());
        out.extend(attributes.to_be_bytes());
        if let Some(code) = code {
            let (size, limit) = (code.len(), usize::from(u16::MAX));
            if size == 0 || size > limit {
                return Err(EditError::TooLarge {
                    what: "method body",
                    size,
                    limit,
                });
            }
            let mut content = Vec::with_capacity(size + 12);
            content.extend(spec.max_stack.to_be_bytes());
            content.extend(spec.max_locals.to_be_bytes());
            content.extend((size as u32).to_be_bytes());
            content.extend_from_slice(code);
            content.extend([0; 4]); // no handlers, no attributes
            self.attribute(&mut out, "Code", &content)?;
        }
        if !spec.annotations.is_empty() {
            let mut content = (spec.annotations.len() as u16).to_be_bytes().to_vec();
            for annotation in spec.annotations {
                content.extend(self.pool.utf8(annotation)?.to_be_bytes());
                content.extend([0; 2]); // no elements
            }
            self.attribute(&mut out, "RuntimeVisibleAnnotations", &content)?;
        }
        self.methods.add("method list", &out)
    }

    fn attribute(
        &mut self,
        out: &mut Vec<u8>,
        name: &str,
        content: &[u8],
    ) -> Result<(), EditError> {
        out.extend(self.pool.utf8(name)?.to_be_bytes());
        out.extend((content.len() as u32).to_be_bytes());
        out.extend_from_slice(content);
        Ok(())
    }

    pub fn finish(self) -> Result<Vec<u8>, EditError> {
        let mut out = 0xCAFE_BABE_u32.to_be_bytes().to_vec();
        out.extend(
            [0, self.major, self.pool.count()]
                .map(u16::to_be_bytes)
                .concat(),
        );
        out.extend_from_slice(self.pool.bytes());
        let head = [
            self.access,
            self.this_class,
            self.super_class,
            0,
            self.fields.count,
        ];
        out.extend(head.map(u16::to_be_bytes).concat());
        out.extend(self.fields.bytes);
        out.extend(self.methods.count.to_be_bytes());
        out.extend(self.methods.bytes);
        out.extend([0; 2]);
        Ok(out)
    }
}

/// A place in a method body that jumps may name before it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label(usize);

/// Assembles one method body.
#[derive(Debug)]
pub struct CodeBuilder<'p> {
    pool: &'p mut PoolWriter,
    code: Vec<u8>,
    labels: Vec<Option<usize>>,
    /// (pc of the jump, its label); the offset follows the opcode.
    jumps: Vec<(usize, Label)>,
}

impl CodeBuilder<'_> {
    /// An instruction without operands.
    pub fn op(&mut self, opcode: u8) -> &mut Self {
        self.code.push(opcode);
        self
    }

    /// An instruction as it stands.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.code.extend_from_slice(bytes);
        self
    }

    pub fn load_ref(&mut self, local: u16) -> &mut Self {
        load(&mut self.code, ALOAD, ALOAD_0, local);
        self
    }

    pub fn load_int(&mut self, local: u16) -> &mut Self {
        load(&mut self.code, ILOAD, ILOAD_0, local);
        self
    }

    pub fn load_long(&mut self, local: u16) -> &mut Self {
        load(&mut self.code, LLOAD, LLOAD_0, local);
        self
    }

    pub fn push_int(&mut self, value: i32) -> Result<&mut Self, EditError> {
        push_int(&mut self.code, self.pool, value)?;
        Ok(self)
    }

    pub fn push_long(&mut self, value: i64) -> Result<&mut Self, EditError> {
        let index = self.pool.long(value)?;
        Ok(self.indexed(LDC2_W, index))
    }

    pub fn push_string(&mut self, text: &str) -> Result<&mut Self, EditError> {
        let index = self.pool.string(text)?;
        push_constant(&mut self.code, index);
        Ok(self)
    }

    pub fn new_object(&mut self, class: &str) -> Result<&mut Self, EditError> {
        let index = self.pool.class(class)?;
        Ok(self.indexed(NEW, index))
    }

    pub fn check_cast(&mut self, class: &str) -> Result<&mut Self, EditError> {
        let index = self.pool.class(class)?;
        Ok(self.indexed(CHECKCAST, index))
    }

    pub fn invoke_static(
        &mut self,
        class: &str,
        name: &str,
        descriptor: &str,
    ) -> Result<&mut Self, EditError> {
        self.invoke(INVOKESTATIC, class, name, descriptor)
    }

    /// `opcode` is invokestatic, invokevirtual or invokespecial.
    pub fn invoke(
        &mut self,
        opcode: u8,
        class: &str,
        name: &str,
        descriptor: &str,
    ) -> Result<&mut Self, EditError> {
        let index = self.pool.method(class, name, descriptor)?;
        Ok(self.indexed(opcode, index))
    }

    /// `opcode` is getstatic, putstatic, getfield or putfield.
    pub fn field(
        &mut self,
        opcode: u8,
        class: &str,
        name: &str,
        descriptor: &str,
    ) -> Result<&mut Self, EditError> {
        let index = self.pool.field(class, name, descriptor)?;
        Ok(self.indexed(opcode, index))
    }

    fn indexed(&mut self, opcode: u8, index: u16) -> &mut Self {
        self.code.push(opcode);
        self.code.extend(index.to_be_bytes());
        self
    }

    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// `label` is here.
    pub fn bind(&mut self, label: Label) -> &mut Self {
        self.labels[label.0] = Some(self.code.len());
        self
    }

    /// A jump with a 16-bit offset: `opcode` is goto or one of the ifs.
    pub fn jump(&mut self, opcode: u8, label: Label) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.indexed(opcode, 0)
    }

    /// The bytes, for [`ClassBuilder::method`].
    pub fn finish(mut self) -> Result<Vec<u8>, EditError> {
        for (from, label) in self.jumps {
            let to = self.labels[label.0].ok_or(EditError::UnboundLabel)?;
            let (size, limit) = (to.abs_diff(from), 32767);
            let offset =
                i16::try_from(to as i64 - from as i64).map_err(|_| EditError::TooLarge {
                    what: "jump",
                    size,
                    limit,
                })?;
            self.code[from + 1..from + 3].copy_from_slice(&offset.to_be_bytes());
        }
        Ok(self.code)
    }
}
