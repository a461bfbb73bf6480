//! Attributes as named slices, and the class- and method-level ones that are asked for by name.

use crate::cursor::Cursor;
use crate::error::ReadError;
use crate::mutf8::Utf8;
use crate::pool::ConstantPool;

/// One attribute; its content is read only when someone wants it.
#[derive(Debug, Clone, Copy)]
pub struct Attribute<'a> {
    pub name: Utf8<'a>,
    /// Pool index of the name.
    pub(crate) name_index: u16,
    pub content: &'a [u8],
    /// Where the content starts in the class.
    pub offset: usize,
}

/// Appends an attribute table to `into`, checking bounds and names.
pub(crate) fn read_table<'a>(
    cursor: &mut Cursor<'a>,
    pool: &ConstantPool<'a>,
    into: &mut Vec<Attribute<'a>>,
) -> Result<(), ReadError> {
    for _ in 0..cursor.u2("attribute count")? {
        let name_index = cursor.u2("attribute name")?;
        let name = pool.utf8(name_index)?;
        let length = cursor.u4("attribute length")? as usize;
        let offset = cursor.offset();
        let content = cursor.take(length, "attribute content")?;
        into.push(Attribute {
            name,
            name_index,
            content,
            offset,
        });
    }
    Ok(())
}

/// The first attribute of that name.
pub fn find<'s, 'a>(attributes: &'s [Attribute<'a>], name: &str) -> Option<&'s Attribute<'a>> {
    attributes
        .iter()
        .find(|a| a.name.as_bytes() == name.as_bytes())
}

impl<'a> Attribute<'a> {
    pub(crate) fn cursor(&self) -> Cursor<'a> {
        Cursor::new(self.content, self.offset)
    }

    /// A list of class constants, as in `Exceptions`, `NestMembers`, `PermittedSubclasses`.
    pub fn class_list(&self, pool: &ConstantPool<'a>) -> Result<Vec<Utf8<'a>>, ReadError> {
        let mut cursor = self.cursor();
        let count = cursor.u2("class list count")?;
        (0..count)
            .map(|_| pool.class_name(cursor.u2("class list entry")?))
            .collect()
    }

    /// One string constant, as in `Signature` and `SourceFile`.
    pub fn string(&self, pool: &ConstantPool<'a>) -> Result<Utf8<'a>, ReadError> {
        pool.utf8(self.cursor().u2("attribute's string")?)
    }
}

/// One bootstrap method of an invokedynamic or dynamic constant.
#[derive(Debug, Clone, Copy)]
pub struct BootstrapMethod<'a> {
    /// Pool index of the method handle.
    pub handle: u16,
    arguments: &'a [u8],
}

impl<'a> BootstrapMethod<'a> {
    /// Pool indexes of the static arguments.
    pub fn arguments(&self) -> impl ExactSizeIterator<Item = u16> + 'a {
        self.arguments
            .chunks_exact(2)
            .map(|raw| u16::from_be_bytes([raw[0], raw[1]]))
    }
}

pub(crate) fn bootstrap_methods<'a>(
    attribute: &Attribute<'a>,
) -> Result<Vec<BootstrapMethod<'a>>, ReadError> {
    let mut cursor = attribute.cursor();
    (0..cursor.u2("bootstrap method count")?)
        .map(|_| {
            let handle = cursor.u2("bootstrap method handle")?;
            let count = usize::from(cursor.u2("bootstrap argument count")?);
            Ok(BootstrapMethod {
                handle,
                arguments: cursor.take(2 * count, "bootstrap arguments")?,
            })
        })
        .collect()
}
