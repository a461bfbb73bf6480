//! Method descriptors, as far as the stack is concerned.

/// Stack slots of the arguments (without the receiver) and of the result; `None` if malformed.
pub fn method_slots(descriptor: &[u8]) -> Option<(u16, u16)> {
    let mut rest = descriptor.strip_prefix(b"(")?;
    let mut arguments = 0u16;
    while rest.first() != Some(&b')') {
        let (slots, after) = value(rest)?;
        arguments = arguments.checked_add(slots)?;
        rest = after;
    }
    match &rest[1..] {
        b"V" => Some((arguments, 0)),
        result => match value(result)? {
            (slots, []) => Some((arguments, slots)),
            _ => None,
        },
    }
}

fn value(text: &[u8]) -> Option<(u16, &[u8])> {
    let dimensions = text.iter().take_while(|b| **b == b'[').count();
    let (kind, after) = text[dimensions..].split_first()?;
    let after = match kind {
        b'B' | b'C' | b'D' | b'F' | b'I' | b'J' | b'S' | b'Z' => after,
        b'L' => &after[after.iter().position(|b| *b == b';')? + 1..],
        _ => return None,
    };
    let wide = dimensions == 0 && matches!(kind, b'J' | b'D');
    Some((if wide { 2 } else { 1 }, after))
}

#[cfg(test)]
mod tests {
    use super::method_slots;

    #[test]
    fn longs_and_doubles_take_two_slots_their_arrays_one() {
        assert_eq!(method_slots(b"()V"), Some((0, 0)));
        assert_eq!(method_slots(b"(IJ[D[[JLjava/lang/String;D)J"), Some((8, 2)));
        assert_eq!(method_slots(b"([Ljava/lang/String;)[D"), Some((1, 1)));
    }

    #[test]
    fn malformed_descriptors_are_refused() {
        for bad in ["", "(", "()", "(V)V", "(Ljava", "I", "()VV", "([)V", "()II"] {
            assert_eq!(method_slots(bad.as_bytes()), None, "{bad}");
        }
    }
}
