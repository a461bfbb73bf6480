//! The constant pool: where each constant starts, and what it means once it is asked for.

use crate::cursor::{Cursor, i4_at, u2_at};
use crate::error::ReadError;
use crate::mutf8::Utf8;

pub(crate) mod tag {
    pub(crate) const UTF8: u8 = 1;
    pub(crate) const INTEGER: u8 = 3;
    pub(crate) const FLOAT: u8 = 4;
    pub(crate) const LONG: u8 = 5;
    pub(crate) const DOUBLE: u8 = 6;
    pub(crate) const CLASS: u8 = 7;
    pub(crate) const STRING: u8 = 8;
    pub(crate) const FIELD: u8 = 9;
    pub(crate) const METHOD: u8 = 10;
    pub(crate) const INTERFACE_METHOD: u8 = 11;
    pub(crate) const NAME_AND_TYPE: u8 = 12;
    pub(crate) const METHOD_HANDLE: u8 = 15;
    pub(crate) const METHOD_TYPE: u8 = 16;
    pub(crate) const DYNAMIC: u8 = 17;
    pub(crate) const INVOKE_DYNAMIC: u8 = 18;
    pub(crate) const MODULE: u8 = 19;
    pub(crate) const PACKAGE: u8 = 20;
}

/// A field or method named by a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemberRef<'a> {
    pub class: Utf8<'a>,
    pub name: Utf8<'a>,
    pub descriptor: Utf8<'a>,
}

/// A dynamically computed constant or call site: `bootstrap` indexes `BootstrapMethods`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DynamicRef<'a> {
    pub bootstrap: u16,
    pub name: Utf8<'a>,
    pub descriptor: Utf8<'a>,
}

/// One resolved constant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Constant<'a> {
    Utf8(Utf8<'a>),
    Integer(i32),
    Float(f32),
    Long(i64),
    Double(f64),
    Class(Utf8<'a>),
    String(Utf8<'a>),
    Field(MemberRef<'a>),
    Method(MemberRef<'a>),
    InterfaceMethod(MemberRef<'a>),
    NameAndType {
        name: Utf8<'a>,
        descriptor: Utf8<'a>,
    },
    /// `kind` is JVMS table 5.4.3.5-A; `reference` is the pool index of a member constant.
    MethodHandle {
        kind: u8,
        reference: u16,
    },
    MethodType(Utf8<'a>),
    Dynamic(DynamicRef<'a>),
    InvokeDynamic(DynamicRef<'a>),
    Module(Utf8<'a>),
    Package(Utf8<'a>),
}

/// The pool of one class; constants are decoded when asked for.
#[derive(Debug, Clone)]
pub struct ConstantPool<'a> {
    class: &'a [u8],
    /// Offset of each constant's tag; 0 for index 0 and for the second half of longs and doubles.
    offsets: Vec<u32>,
    end: usize,
}

impl<'a> ConstantPool<'a> {
    /// Reads the pool whose count is at `at` in the class.
    pub(crate) fn read(class: &'a [u8], at: usize) -> Result<Self, ReadError> {
        let mut cursor = Cursor::new(class.get(at..).unwrap_or_default(), at);
        let count = usize::from(cursor.u2("constant pool count")?);
        let mut offsets = vec![0u32; count.max(1)];
        let mut index = 1;
        while index < count {
            let offset = cursor.offset();
            // Offsets fit: no class is larger than 4 GiB, the JVM's own limit is far below.
            offsets[index] = u32::try_from(offset).map_err(|_| ReadError::Trailing {
                at: offset,
                extra: class.len() - offset,
            })?;
            let kind = cursor.u1("constant tag")?;
            let size = match kind {
                tag::UTF8 => usize::from(cursor.u2("string length")?),
                tag::CLASS | tag::STRING | tag::METHOD_TYPE | tag::MODULE | tag::PACKAGE => 2,
                tag::METHOD_HANDLE => 3,
                tag::INTEGER | tag::FLOAT | tag::FIELD | tag::METHOD => 4,
                tag::INTERFACE_METHOD | tag::NAME_AND_TYPE => 4,
                tag::DYNAMIC | tag::INVOKE_DYNAMIC => 4,
                tag::LONG | tag::DOUBLE => 8,
                tag => {
                    return Err(ReadError::ConstantTag {
                        index: index as u16,
                        at: offset,
                        tag,
                    });
                }
            };
            cursor.take(size, "constant")?;
            index += if matches!(kind, tag::LONG | tag::DOUBLE) {
                2
            } else {
                1
            };
        }
        Ok(ConstantPool {
            class,
            offsets,
            end: cursor.offset(),
        })
    }

    /// Number of slots, index 0 included, as the class file counts them.
    pub fn count(&self) -> u16 {
        // `offsets` is at least 1 long even for a (malformed) count of 0.
        self.offsets.len() as u16
    }

    /// Offset of the first byte after the pool.
    pub(crate) fn end(&self) -> usize {
        self.end
    }

    /// The constant's tag and the bytes after it.
    #[inline]
    fn raw(&self, index: u16, expected: &'static str) -> Result<(u8, &'a [u8]), ReadError> {
        match self.offsets.get(usize::from(index)) {
            Some(&at) if at != 0 => {
                let at = at as usize;
                Ok((self.class[at], &self.class[at + 1..self.end]))
            }
            _ => Err(ReadError::Constant { index, expected }),
        }
    }

    #[inline]
    fn tagged(&self, index: u16, tag: u8, expected: &'static str) -> Result<&'a [u8], ReadError> {
        match self.raw(index, expected)? {
            (found, body) if found == tag => Ok(body),
            _ => Err(ReadError::Constant { index, expected }),
        }
    }

    /// The tag byte of a constant (JVMS table 4.4-A).
    pub fn tag(&self, index: u16) -> Result<u8, ReadError> {
        Ok(self.raw(index, "a constant")?.0)
    }

    pub fn utf8(&self, index: u16) -> Result<Utf8<'a>, ReadError> {
        let body = self.tagged(index, tag::UTF8, "a string of bytes")?;
        let length = usize::from(first(body));
        body.get(2..2 + length)
            .map(Utf8)
            .ok_or(ReadError::Constant {
                index,
                expected: "a string of bytes",
            })
    }

    /// The internal name (`java/lang/String`) of a class constant.
    pub fn class_name(&self, index: u16) -> Result<Utf8<'a>, ReadError> {
        self.utf8(first(self.tagged(index, tag::CLASS, "a class")?))
    }

    /// The class, or `None` for index 0, which several fields of the format allow.
    pub fn optional_class_name(&self, index: u16) -> Result<Option<Utf8<'a>>, ReadError> {
        if index == 0 {
            Ok(None)
        } else {
            self.class_name(index).map(Some)
        }
    }

    pub fn name_and_type(&self, index: u16) -> Result<(Utf8<'a>, Utf8<'a>), ReadError> {
        let body = self.tagged(index, tag::NAME_AND_TYPE, "a name and type")?;
        Ok((self.utf8(first(body))?, self.utf8(second(body))?))
    }

    /// A field, method or interface-method constant.
    pub fn member(&self, index: u16) -> Result<MemberRef<'a>, ReadError> {
        match self.raw(index, "a field or method")? {
            (tag::FIELD | tag::METHOD | tag::INTERFACE_METHOD, body) => {
                let class = self.class_name(first(body))?;
                let (name, descriptor) = self.name_and_type(second(body))?;
                Ok(MemberRef {
                    class,
                    name,
                    descriptor,
                })
            }
            _ => Err(ReadError::Constant {
                index,
                expected: "a field or method",
            }),
        }
    }

    /// A `Dynamic` or `InvokeDynamic` constant.
    pub fn dynamic(&self, index: u16) -> Result<DynamicRef<'a>, ReadError> {
        match self.raw(index, "a dynamic constant")? {
            (tag::DYNAMIC | tag::INVOKE_DYNAMIC, body) => {
                let (name, descriptor) = self.name_and_type(second(body))?;
                Ok(DynamicRef {
                    bootstrap: first(body),
                    name,
                    descriptor,
                })
            }
            _ => Err(ReadError::Constant {
                index,
                expected: "a dynamic constant",
            }),
        }
    }

    /// Any constant, fully resolved.
    pub fn get(&self, index: u16) -> Result<Constant<'a>, ReadError> {
        let (kind, body) = self.raw(index, "a constant")?;
        let four = i4_at(body, 0).unwrap_or_default();
        let eight = i64::from(four) << 32 | i64::from(i4_at(body, 4).unwrap_or_default() as u32);
        Ok(match kind {
            tag::UTF8 => Constant::Utf8(self.utf8(index)?),
            tag::INTEGER => Constant::Integer(four),
            tag::FLOAT => Constant::Float(f32::from_bits(four as u32)),
            tag::LONG => Constant::Long(eight),
            tag::DOUBLE => Constant::Double(f64::from_bits(eight as u64)),
            tag::CLASS => Constant::Class(self.class_name(index)?),
            tag::STRING => Constant::String(self.utf8(first(body))?),
            tag::FIELD => Constant::Field(self.member(index)?),
            tag::METHOD => Constant::Method(self.member(index)?),
            tag::INTERFACE_METHOD => Constant::InterfaceMethod(self.member(index)?),
            tag::NAME_AND_TYPE => {
                let (name, descriptor) = self.name_and_type(index)?;
                Constant::NameAndType { name, descriptor }
            }
            tag::METHOD_HANDLE => Constant::MethodHandle {
                kind: body.first().copied().unwrap_or_default(),
                reference: u2_at(body, 1).unwrap_or_default(),
            },
            tag::METHOD_TYPE => Constant::MethodType(self.utf8(first(body))?),
            tag::DYNAMIC => Constant::Dynamic(self.dynamic(index)?),
            tag::INVOKE_DYNAMIC => Constant::InvokeDynamic(self.dynamic(index)?),
            tag::MODULE => Constant::Module(self.utf8(first(body))?),
            _ => Constant::Package(self.utf8(first(body))?),
        })
    }
}

/// The constant's first u16; `read` has checked that it is there.
fn first(body: &[u8]) -> u16 {
    u2_at(body, 0).unwrap_or_default()
}

fn second(body: &[u8]) -> u16 {
    u2_at(body, 2).unwrap_or_default()
}
