//! The class itself: names, members, and the way to a method's code.

use crate::attribute::{Attribute, BootstrapMethod, bootstrap_methods, find, read_table};
use crate::code::Code;
use crate::cursor::Cursor;
use crate::error::ReadError;
use crate::mutf8::Utf8;
use crate::pool::ConstantPool;

/// Access flags of classes, fields and methods (JVMS 4.1, 4.5, 4.6).
pub mod access {
    pub const PUBLIC: u16 = 0x0001;
    pub const PRIVATE: u16 = 0x0002;
    pub const PROTECTED: u16 = 0x0004;
    pub const STATIC: u16 = 0x0008;
    pub const FINAL: u16 = 0x0010;
    /// On classes.
    pub const SUPER: u16 = 0x0020;
    /// On methods.
    pub const SYNCHRONIZED: u16 = 0x0020;
    pub const VOLATILE: u16 = 0x0040;
    pub const BRIDGE: u16 = 0x0040;
    pub const VARARGS: u16 = 0x0080;
    pub const TRANSIENT: u16 = 0x0080;
    pub const NATIVE: u16 = 0x0100;
    pub const INTERFACE: u16 = 0x0200;
    pub const ABSTRACT: u16 = 0x0400;
    pub const SYNTHETIC: u16 = 0x1000;
    pub const ANNOTATION: u16 = 0x2000;
    pub const ENUM: u16 = 0x4000;
    pub const MODULE: u16 = 0x8000;
}

/// A field or a method.
#[derive(Debug, Clone)]
pub struct Member<'a> {
    pub access: u16,
    pub name: Utf8<'a>,
    pub descriptor: Utf8<'a>,
    attributes: std::ops::Range<usize>,
}

pub type Field<'a> = Member<'a>;
pub type Method<'a> = Member<'a>;

/// A parsed class that borrows its bytes. Names and bounds are checked, contents read on demand.
#[derive(Debug, Clone)]
pub struct ClassFile<'a> {
    bytes: &'a [u8],
    pub minor: u16,
    pub major: u16,
    pool: ConstantPool<'a>,
    pub access: u16,
    pub name: Utf8<'a>,
    pub super_name: Option<Utf8<'a>>,
    pub interfaces: Vec<Utf8<'a>>,
    fields: Vec<Field<'a>>,
    methods: Vec<Method<'a>>,
    /// All members' attributes, then the class's own; members know their range.
    attributes: Vec<Attribute<'a>>,
    own_attributes: usize,
}

impl<'a> ClassFile<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ReadError> {
        let mut head = Cursor::new(bytes, 0);
        let found = head.u4("magic")?;
        if found != 0xCAFE_BABE {
            return Err(ReadError::Magic { found });
        }
        let (minor, major) = (head.u2("minor version")?, head.u2("major version")?);
        let pool = ConstantPool::read(bytes, 8)?;
        let mut cursor = Cursor::new(&bytes[pool.end()..], pool.end());
        let access = cursor.u2("class access flags")?;
        let name = pool.class_name(cursor.u2("this class")?)?;
        let super_name = pool.optional_class_name(cursor.u2("super class")?)?;
        let interfaces = (0..cursor.u2("interface count")?)
            .map(|_| pool.class_name(cursor.u2("interface")?))
            .collect::<Result<_, _>>()?;
        let mut attributes = Vec::new();
        let fields = read_members(&mut cursor, &pool, &mut attributes)?;
        let methods = read_members(&mut cursor, &pool, &mut attributes)?;
        let own_attributes = attributes.len();
        read_table(&mut cursor, &pool, &mut attributes)?;
        if cursor.left() > 0 {
            return Err(ReadError::Trailing {
                at: cursor.offset(),
                extra: cursor.left(),
            });
        }
        Ok(ClassFile {
            bytes,
            minor,
            major,
            pool,
            access,
            name,
            super_name,
            interfaces,
            fields,
            methods,
            attributes,
            own_attributes,
        })
    }

    /// The bytes this class was read from.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub fn pool(&self) -> &ConstantPool<'a> {
        &self.pool
    }

    pub fn is_interface(&self) -> bool {
        self.access & access::INTERFACE != 0
    }

    pub fn fields(&self) -> &[Field<'a>] {
        &self.fields
    }

    /// Methods in file order; the position is the `method` index of `ClassEdit::insert`.
    pub fn methods(&self) -> &[Method<'a>] {
        &self.methods
    }

    pub fn method(&self, name: &str, descriptor: &str) -> Option<(usize, &Method<'a>)> {
        self.methods
            .iter()
            .enumerate()
            .find(|(_, m)| m.name == name && m.descriptor == descriptor)
    }

    /// The class's own attributes.
    pub fn attributes(&self) -> &[Attribute<'a>] {
        &self.attributes[self.own_attributes..]
    }

    /// The attributes of one of this class's members.
    pub fn attributes_of(&self, member: &Member<'a>) -> &[Attribute<'a>] {
        self.attributes
            .get(member.attributes.clone())
            .unwrap_or_default()
    }

    /// The method's code; `None` for abstract and native methods.
    pub fn code(&self, method: &Method<'a>) -> Result<Option<Code<'a>>, ReadError> {
        find(self.attributes_of(method), "Code")
            .map(|a| Code::read(a, &self.pool))
            .transpose()
    }

    /// The exceptions a method declares (`throws`), as internal names.
    pub fn exceptions(&self, method: &Method<'a>) -> Result<Vec<Utf8<'a>>, ReadError> {
        match find(self.attributes_of(method), "Exceptions") {
            Some(attribute) => attribute.class_list(&self.pool),
            None => Ok(Vec::new()),
        }
    }

    /// A member's generic signature, as it stands in the file.
    pub fn signature_of(&self, member: &Member<'a>) -> Result<Option<Utf8<'a>>, ReadError> {
        find(self.attributes_of(member), "Signature")
            .map(|a| a.string(&self.pool))
            .transpose()
    }

    /// The class's generic signature, as it stands in the file.
    pub fn signature(&self) -> Result<Option<Utf8<'a>>, ReadError> {
        find(self.attributes(), "Signature")
            .map(|a| a.string(&self.pool))
            .transpose()
    }

    pub fn source_file(&self) -> Result<Option<Utf8<'a>>, ReadError> {
        find(self.attributes(), "SourceFile")
            .map(|a| a.string(&self.pool))
            .transpose()
    }

    pub fn bootstrap_methods(&self) -> Result<Vec<BootstrapMethod<'a>>, ReadError> {
        match find(self.attributes(), "BootstrapMethods") {
            Some(attribute) => bootstrap_methods(attribute),
            None => Ok(Vec::new()),
        }
    }
}

fn read_members<'a>(
    cursor: &mut Cursor<'a>,
    pool: &ConstantPool<'a>,
    attributes: &mut Vec<Attribute<'a>>,
) -> Result<Vec<Member<'a>>, ReadError> {
    (0..cursor.u2("member count")?)
        .map(|_| {
            let access = cursor.u2("member access flags")?;
            let name = pool.utf8(cursor.u2("member name")?)?;
            let descriptor = pool.utf8(cursor.u2("member descriptor")?)?;
            let start = attributes.len();
            read_table(cursor, pool, attributes)?;
            Ok(Member {
                access,
                name,
                descriptor,
                attributes: start..attributes.len(),
            })
        })
        .collect()
}

impl Member<'_> {
    pub fn is_static(&self) -> bool {
        self.access & access::STATIC != 0
    }

    /// For methods.
    pub fn is_synchronized(&self) -> bool {
        self.access & access::SYNCHRONIZED != 0
    }

    /// For methods: no code in the class.
    pub fn is_abstract(&self) -> bool {
        self.access & access::ABSTRACT != 0
    }

    pub fn is_native(&self) -> bool {
        self.access & access::NATIVE != 0
    }
}
