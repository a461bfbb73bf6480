//! `StackMapTable`: frames in file order, each with its pc and the bytes of its types.

use crate::attribute::Attribute;
use crate::cursor::{Cursor, u2_at};
use crate::error::ReadError;

/// What a frame says about the one before it (JVMS 4.7.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    Same,
    SameLocalsOneStack,
    /// The last n locals are gone.
    Chop(u8),
    /// n more locals.
    Append(u8),
    Full,
}

/// One frame.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    pub pc: u16,
    pub tag: u8,
    pub kind: FrameKind,
    /// Locals that this frame spells out: `Append` and `Full`.
    pub locals: TypeList<'a>,
    /// Stack that this frame spells out: `SameLocalsOneStack` and `Full`.
    pub stack: TypeList<'a>,
}

/// A type as the verifier sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerificationType {
    Top,
    Integer,
    Float,
    Double,
    Long,
    Null,
    UninitializedThis,
    /// Pool index of the class.
    Object(u16),
    /// The pc of the `new` instruction.
    Uninitialized(u16),
}

/// A checked list of types.
#[derive(Debug, Clone, Copy, Default)]
pub struct TypeList<'a> {
    pub count: u16,
    pub(crate) raw: &'a [u8],
}

impl<'a> TypeList<'a> {
    fn read(cursor: &mut Cursor<'a>, count: u16) -> Result<Self, ReadError> {
        let mut ahead = cursor.clone();
        let start = ahead.offset();
        for _ in 0..count {
            match ahead.u1("verification type")? {
                0..=6 => {}
                7 | 8 => drop(ahead.u2("verification type")?),
                _ => {
                    let reason = "unknown verification type";
                    let at = ahead.offset();
                    return Err(ReadError::Attribute {
                        attribute: "StackMapTable",
                        at,
                        reason,
                    });
                }
            }
        }
        let raw = cursor.take(ahead.offset() - start, "verification types")?;
        Ok(TypeList { count, raw })
    }

    pub fn iter(&self) -> impl Iterator<Item = VerificationType> + 'a {
        let mut rest = self.raw;
        std::iter::from_fn(move || {
            let (&tag, after) = rest.split_first()?;
            let index = || u2_at(after, 0).unwrap_or_default();
            rest = if tag >= 7 {
                after.get(2..).unwrap_or_default()
            } else {
                after
            };
            Some(match tag {
                0 => VerificationType::Top,
                1 => VerificationType::Integer,
                2 => VerificationType::Float,
                3 => VerificationType::Double,
                4 => VerificationType::Long,
                5 => VerificationType::Null,
                6 => VerificationType::UninitializedThis,
                7 => VerificationType::Object(index()),
                _ => VerificationType::Uninitialized(index()),
            })
        })
    }
}

/// The frames of one method.
#[derive(Clone)]
pub struct Frames<'a> {
    cursor: Cursor<'a>,
    left: u16,
    previous: Option<u16>,
}

impl<'a> Frames<'a> {
    pub(crate) fn read(attribute: &Attribute<'a>) -> Result<Self, ReadError> {
        let mut cursor = attribute.cursor();
        let left = cursor.u2("frame count")?;
        Ok(Frames {
            cursor,
            left,
            previous: None,
        })
    }

    /// All bytes of the table were frames.
    pub(crate) fn check_end(&self) -> Result<(), ReadError> {
        if self.cursor.left() == 0 {
            return Ok(());
        }
        let (at, reason) = (self.cursor.offset(), "bytes follow its last frame");
        Err(ReadError::Attribute {
            attribute: "StackMapTable",
            at,
            reason,
        })
    }

    fn frame(&mut self) -> Result<Frame<'a>, ReadError> {
        let cursor = &mut self.cursor;
        let tag = cursor.u1("frame")?;
        let (mut locals, mut stack) = (TypeList::default(), TypeList::default());
        let (kind, delta) = match tag {
            0..=63 => (FrameKind::Same, u16::from(tag)),
            64..=127 => {
                stack = TypeList::read(cursor, 1)?;
                (FrameKind::SameLocalsOneStack, u16::from(tag - 64))
            }
            128..=246 => {
                let (at, reason) = (cursor.offset(), "reserved frame type");
                return Err(ReadError::Attribute {
                    attribute: "StackMapTable",
                    at,
                    reason,
                });
            }
            _ => {
                let delta = cursor.u2("frame offset")?;
                let kind = match tag {
                    247 => {
                        stack = TypeList::read(cursor, 1)?;
                        FrameKind::SameLocalsOneStack
                    }
                    248..=250 => FrameKind::Chop(251 - tag),
                    251 => FrameKind::Same,
                    252..=254 => {
                        locals = TypeList::read(cursor, u16::from(tag - 251))?;
                        FrameKind::Append(tag - 251)
                    }
                    _ => {
                        let count = cursor.u2("frame locals")?;
                        locals = TypeList::read(cursor, count)?;
                        let count = cursor.u2("frame stack")?;
                        stack = TypeList::read(cursor, count)?;
                        FrameKind::Full
                    }
                };
                (kind, delta)
            }
        };
        let pc = u32::from(delta) + self.previous.map_or(0, |p| u32::from(p) + 1);
        let pc = u16::try_from(pc).map_err(|_| ReadError::Pc {
            what: "a stack map frame",
            pc: i64::from(pc),
        })?;
        self.previous = Some(pc);
        Ok(Frame {
            pc,
            tag,
            kind,
            locals,
            stack,
        })
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let frame = self.frame();
        if frame.is_err() {
            self.left = 0;
        }
        Some(frame)
    }
}
