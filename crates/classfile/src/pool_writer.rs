//! Appending constants, for the rewriter (behind an existing pool) and for synthesised classes.

use std::collections::HashMap;

use crate::error::EditError;
use crate::mutf8;
use crate::pool::tag;

/// New constants; equal ones are written once, existing ones are never touched.
#[derive(Debug, Clone)]
pub struct PoolWriter {
    first: usize,
    count: usize,
    bytes: Vec<u8>,
    seen: HashMap<Box<[u8]>, u16>,
}

impl PoolWriter {
    /// A writer whose first constant gets index `first`.
    pub(crate) fn starting_at(first: u16) -> Self {
        let first = usize::from(first);
        PoolWriter {
            first,
            count: first,
            bytes: Vec::new(),
            seen: HashMap::new(),
        }
    }

    /// The pool count as the class file wants it: the next free index.
    pub(crate) fn count(&self) -> u16 {
        // `add` keeps the count at 65535 at most.
        self.count as u16
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn add(&mut self, entry: &[u8], slots: usize) -> Result<u16, EditError> {
        if let Some(&index) = self.seen.get(entry) {
            return Ok(index);
        }
        let index = self.count as u16;
        if self.count + slots > usize::from(u16::MAX) {
            let (count, wanted) = (self.first, self.count + slots - self.first);
            return Err(EditError::PoolFull { count, wanted });
        }
        self.count += slots;
        self.bytes.extend_from_slice(entry);
        self.seen.insert(entry.into(), index);
        Ok(index)
    }

    fn pair(&mut self, tag: u8, first: u16, second: u16) -> Result<u16, EditError> {
        let ([a, b], [c, d]) = (first.to_be_bytes(), second.to_be_bytes());
        self.add(&[tag, a, b, c, d], 1)
    }

    fn single(&mut self, tag: u8, index: u16) -> Result<u16, EditError> {
        let [a, b] = index.to_be_bytes();
        self.add(&[tag, a, b], 1)
    }

    pub fn utf8(&mut self, text: &str) -> Result<u16, EditError> {
        let encoded = mutf8::encode(text);
        let length = u16::try_from(encoded.len()).map_err(|_| EditError::StringTooLong {
            length: encoded.len(),
        })?;
        let mut entry = vec![tag::UTF8];
        entry.extend(length.to_be_bytes());
        entry.extend(encoded.iter());
        self.add(&entry, 1)
    }

    pub fn integer(&mut self, value: i32) -> Result<u16, EditError> {
        let [a, b, c, d] = value.to_be_bytes();
        self.add(&[tag::INTEGER, a, b, c, d], 1)
    }

    pub fn long(&mut self, value: i64) -> Result<u16, EditError> {
        let [a, b, c, d, e, f, g, h] = value.to_be_bytes();
        self.add(&[tag::LONG, a, b, c, d, e, f, g, h], 2)
    }

    pub fn string(&mut self, text: &str) -> Result<u16, EditError> {
        let text = self.utf8(text)?;
        self.single(tag::STRING, text)
    }

    /// A class by internal name, `java/lang/Object`.
    pub fn class(&mut self, name: &str) -> Result<u16, EditError> {
        let name = self.utf8(name)?;
        self.single(tag::CLASS, name)
    }

    pub fn field(&mut self, class: &str, name: &str, descriptor: &str) -> Result<u16, EditError> {
        self.member(tag::FIELD, class, name, descriptor)
    }

    pub fn method(&mut self, class: &str, name: &str, descriptor: &str) -> Result<u16, EditError> {
        self.member(tag::METHOD, class, name, descriptor)
    }

    fn member(
        &mut self,
        tag: u8,
        class: &str,
        name: &str,
        descriptor: &str,
    ) -> Result<u16, EditError> {
        let class = self.class(class)?;
        let (name, descriptor) = (self.utf8(name)?, self.utf8(descriptor)?);
        let name_and_type = self.pair(tag::NAME_AND_TYPE, name, descriptor)?;
        self.pair(tag, class, name_and_type)
    }
}
