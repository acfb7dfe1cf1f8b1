//! Hashing: every property of a generated web is a function of its seed and a number.

/// Purpose of a hash, so that two properties of one page are independent.
#[derive(Debug, Clone, Copy)]
#[repr(u64)]
pub(crate) enum Salt {
    Host = 1,
    Path,
    Text,
    Link,
    Spelling,
    Title,
    Special,
    Pool,
}

/// Returns a well-mixed 64-bit number (the finalizer of splitmix64, Steele, Lea and Flood 2014).
#[inline]
pub(crate) fn mix(seed: u64, salt: Salt, number: u64) -> u64 {
    let mut z = seed
        .wrapping_add((salt as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .wrapping_add(number.wrapping_mul(0xd1b5_4a32_d192_ed03));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns a number below `bound` from a hash, without division. `bound` must not be 0.
#[inline]
pub(crate) fn below(hash: u64, bound: u64) -> u64 {
    ((u128::from(hash) * u128::from(bound)) >> 64) as u64
}

/// Returns an element of a non-empty table.
#[inline]
pub(crate) fn pick<'a>(table: &[&'a str], hash: u64) -> &'a str {
    table[below(hash, table.len() as u64) as usize]
}
