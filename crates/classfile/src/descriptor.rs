//! Method descriptors: their types, and what these take of the stack.

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

/// The descriptors of the parameters and of the result; `None` if malformed.
pub fn method_types(descriptor: &str) -> Option<(Vec<&str>, &str)> {
    let mut rest = descriptor.strip_prefix('(')?;
    let mut parameters = Vec::new();
    while !rest.starts_with(')') {
        let (_, after) = value(rest.as_bytes())?;
        let (parameter, after) = rest.split_at_checked(rest.len() - after.len())?;
        parameters.push(parameter);
        rest = after;
    }
    Some((parameters, &rest[1..]))
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
    use super::{method_slots, method_types};

    #[test]
    fn longs_and_doubles_take_two_slots_their_arrays_one() {
        assert_eq!(method_slots(b"()V"), Some((0, 0)));
        assert_eq!(method_slots(b"(IJ[D[[JLjava/lang/String;D)J"), Some((8, 2)));
        assert_eq!(method_slots(b"([Ljava/lang/String;)[D"), Some((1, 1)));
    }

    #[test]
    fn types_come_apart() {
        let types = method_types("(I[JLa/B;)[[D");
        assert_eq!(types, Some((vec!["I", "[J", "La/B;"], "[[D")));
        assert_eq!(method_types("(Lä;)V"), Some((vec!["Lä;"], "V")));
        assert_eq!(method_types("(L"), None);
    }

    #[test]
    fn malformed_descriptors_are_refused() {
        for bad in ["", "(", "()", "(V)V", "(Ljava", "I", "()VV", "([)V", "()II"] {
            assert_eq!(method_slots(bad.as_bytes()), None, "{bad}");
        }
    }
}
