//! Bounds-checked big-endian reading; every failure knows its offset in the class.

use crate::error::ReadError;

/// A position in a slice of class bytes that begins at `base` within the class.
#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    base: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], base: usize) -> Self {
        Cursor { bytes, at: 0, base }
    }

    /// Offset in the whole class.
    pub(crate) fn offset(&self) -> usize {
        self.base + self.at
    }

    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    #[inline]
    pub(crate) fn take(&mut self, need: usize, what: &'static str) -> Result<&'a [u8], ReadError> {
        let have = self.left();
        if need > have {
            return Err(ReadError::Truncated {
                what,
                at: self.offset(),
                need,
                have,
            });
        }
        let start = self.at;
        self.at += need;
        Ok(&self.bytes[start..start + need])
    }

    #[inline]
    pub(crate) fn u1(&mut self, what: &'static str) -> Result<u8, ReadError> {
        Ok(self.take(1, what)?[0])
    }

    #[inline]
    pub(crate) fn u2(&mut self, what: &'static str) -> Result<u16, ReadError> {
        let raw = self.take(2, what)?;
        Ok(u16::from_be_bytes([raw[0], raw[1]]))
    }

    #[inline]
    pub(crate) fn u4(&mut self, what: &'static str) -> Result<u32, ReadError> {
        let raw = self.take(4, what)?;
        Ok(u32::from_be_bytes([raw[0], raw[1], raw[2], raw[3]]))
    }
}

/// The big-endian u16 at `at`, if the slice has it.
#[inline]
pub(crate) fn u2_at(bytes: &[u8], at: usize) -> Option<u16> {
    let raw = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_be_bytes([raw[0], raw[1]]))
}

/// The big-endian i32 at `at`, if the slice has it.
#[inline]
pub(crate) fn i4_at(bytes: &[u8], at: usize) -> Option<i32> {
    let raw = bytes.get(at..at.checked_add(4)?)?;
    Some(i32::from_be_bytes([raw[0], raw[1], raw[2], raw[3]]))
}
