//! Class bytes to typed class to bytes: a zero-copy reader, an insert-only rewriter, and a small
//! synthesiser. It takes `&[u8]` and knows nothing of files, faults or JVMs.
//!
//! ```no_run
//! use temblor_classfile::{ClassEdit, ClassFile, Op};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let bytes: Vec<u8> = Vec::new();
//! let class = ClassFile::parse(&bytes)?;
//! let mut edit = ClassEdit::new(&class);
//! let hook = edit.static_method("java/lang/FaultHook", "at", "(I)V")?;
//! for (index, method) in class.methods().iter().enumerate() {
//!     let Some(code) = class.code(method)? else { continue };
//!     for instruction in code.instructions() {
//!         let instruction = instruction?;
//!         if instruction.is_invoke() {
//!             edit.insert(index, instruction.pc, &[Op::PushInt(7), Op::InvokeStatic(hook)])?;
//!         }
//!     }
//! }
//! let edited = edit.finish()?;
//! # let _ = edited.bytes; Ok(())
//! # }
//! ```

mod attribute;
mod class;
mod code;
mod cursor;
mod descriptor;
mod error;
mod frames;
mod hash;
mod instruction;
mod mutf8;
pub mod opcode;
mod pool;
mod pool_writer;
mod rewrite;
pub mod synth;

pub use attribute::{Attribute, BootstrapMethod, find as find_attribute};
pub use class::{ClassFile, Field, Member, Method, access};
pub use code::{Code, Handler, LineTable, LocalVariable};
pub use descriptor::{method_slots, method_types};
pub use error::{EditError, ReadError};
pub use frames::{Frame, FrameKind, Frames, TypeList, VerificationType};
pub use hash::class_hash;
pub use instruction::{FieldAccess, Instruction, Instructions, Invoke, InvokeKind, Targets};
pub use mutf8::Utf8;
pub use pool::{Constant, ConstantPool, DynamicRef, MemberRef};
pub use pool_writer::PoolWriter;
pub use rewrite::{ClassEdit, Edited, Op, Peek, SkipReason, Skipped, StaticMethod};
