//! Modified UTF-8, the string form of class files: NUL is two bytes, characters beyond the BMP are
//! surrogate pairs of three bytes each, and lone surrogates occur in real classes.

use std::borrow::Cow;
use std::fmt;

/// A string of the constant pool: raw bytes are its identity, `to_str` is for people.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Utf8<'a>(pub(crate) &'a [u8]);

impl<'a> Utf8<'a> {
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The string itself where Modified UTF-8 and UTF-8 agree, which is nearly always.
    pub fn as_str(self) -> Option<&'a str> {
        std::str::from_utf8(self.0).ok()
    }

    /// Borrowed where possible; lone surrogates and broken bytes become U+FFFD.
    pub fn to_str(self) -> Cow<'a, str> {
        match self.as_str() {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(decode_lossy(self.0)),
        }
    }
}

impl fmt::Display for Utf8<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_str())
    }
}

impl fmt::Debug for Utf8<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_str())
    }
}

impl PartialEq<str> for Utf8<'_> {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<&str> for Utf8<'_> {
    fn eq(&self, other: &&str) -> bool {
        self == *other
    }
}

/// One UTF-16 unit and its length in bytes; `None` for a byte that starts nothing.
fn unit(bytes: &[u8]) -> Option<(u16, usize)> {
    let tail = |at: usize| match bytes.get(at) {
        Some(b) if b & 0xC0 == 0x80 => Some(u16::from(b & 0x3F)),
        _ => None,
    };
    let first = *bytes.first()?;
    match first {
        0x00..=0x7F => Some((u16::from(first), 1)),
        0xC0..=0xDF => Some((u16::from(first & 0x1F) << 6 | tail(1)?, 2)),
        0xE0..=0xEF => Some((u16::from(first & 0x0F) << 12 | tail(1)? << 6 | tail(2)?, 3)),
        _ => None,
    }
}

fn decode_lossy(mut bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    while !bytes.is_empty() {
        let Some((high, length)) = unit(bytes) else {
            text.push(char::REPLACEMENT_CHARACTER);
            bytes = &bytes[1..];
            continue;
        };
        bytes = &bytes[length..];
        if !(0xD800..0xDC00).contains(&high) {
            text.push(char::from_u32(u32::from(high)).unwrap_or(char::REPLACEMENT_CHARACTER));
            continue;
        }
        match unit(bytes) {
            Some((low, length)) if (0xDC00..0xE000).contains(&low) => {
                let point =
                    0x10000 + ((u32::from(high) - 0xD800) << 10 | (u32::from(low) - 0xDC00));
                text.push(char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER));
                bytes = &bytes[length..];
            }
            _ => text.push(char::REPLACEMENT_CHARACTER),
        }
    }
    text
}

/// The Modified UTF-8 of a Rust string.
pub(crate) fn encode(text: &str) -> Cow<'_, [u8]> {
    if text.bytes().all(|b| (1..0x80).contains(&b)) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut out = Vec::with_capacity(text.len() + 8);
    for unit in text.encode_utf16() {
        match unit {
            1..=0x7F => out.push(unit as u8),
            0 | 0x80..=0x7FF => out.extend([0xC0 | (unit >> 6) as u8, 0x80 | (unit & 0x3F) as u8]),
            _ => out.extend([
                0xE0 | (unit >> 12) as u8,
                0x80 | (unit >> 6 & 0x3F) as u8,
                0x80 | (unit & 0x3F) as u8,
            ]),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_survive_encoding_and_decoding() {
        for text in [
            "",
            "plain",
            "nul\0inside",
            "umlaut ä",
            "euro €",
            "beyond the BMP 😀",
        ] {
            let bytes = encode(text);
            assert_eq!(Utf8(&bytes).to_str(), text);
            assert!(!bytes.contains(&0), "NUL must be two bytes");
        }
    }

    #[test]
    fn a_lone_surrogate_becomes_the_replacement_character() {
        let lone_high = [b'a', 0xED, 0xA0, 0x80, b'b'];
        assert_eq!(Utf8(&lone_high).to_str(), "a\u{FFFD}b");
        assert_eq!(Utf8(&lone_high).as_bytes(), lone_high);
        let lone_low = [0xED, 0xB0, 0x80];
        assert_eq!(Utf8(&lone_low).to_str(), "\u{FFFD}");
        assert_eq!(Utf8(&[0xE0, 0x80]).to_str(), "\u{FFFD}\u{FFFD}");
    }
}
