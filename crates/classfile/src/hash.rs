//! The identity of a class: analysis stores it, the agent checks it before it rewrites.

/// FNV-1a 64 of the class bytes.
pub fn class_hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::class_hash;

    #[test]
    fn hash_is_fnv_1a_64() {
        assert_eq!(class_hash(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(class_hash(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(class_hash(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
