//! Robert Jenkins' 32-bit mix over one to five words (`CRUSH_HASH_RJENKINS1`): the only randomness of CRUSH.

/// Added to no argument, so that a hash of zeros is not zero.
const SEED: u32 = 1_315_423_911;
const X: u32 = 231_232;
const Y: u32 = 1_232;

#[inline(always)]
fn mix(a: &mut u32, b: &mut u32, c: &mut u32) {
    for (right, left, last) in [(13, 8, 13), (12, 16, 5), (3, 10, 15)] {
        *a = a.wrapping_sub(*b).wrapping_sub(*c) ^ (*c >> right);
        *b = b.wrapping_sub(*c).wrapping_sub(*a) ^ (*a << left);
        *c = c.wrapping_sub(*a).wrapping_sub(*b) ^ (*b >> last);
    }
}

/// The hash of one word.
pub fn hash32(mut a: u32) -> u32 {
    let mut hash = SEED ^ a;
    let (mut b, mut x, mut y) = (a, X, Y);
    mix(&mut b, &mut x, &mut hash);
    mix(&mut y, &mut a, &mut hash);
    hash
}

/// The hash of two words.
pub fn hash32_2(mut a: u32, mut b: u32) -> u32 {
    let mut hash = SEED ^ a ^ b;
    let (mut x, mut y) = (X, Y);
    mix(&mut a, &mut b, &mut hash);
    mix(&mut x, &mut a, &mut hash);
    mix(&mut b, &mut y, &mut hash);
    hash
}

/// The hash of three words.
#[inline(always)]
pub fn hash32_3(mut a: u32, mut b: u32, mut c: u32) -> u32 {
    let mut hash = SEED ^ a ^ b ^ c;
    let (mut x, mut y) = (X, Y);
    mix(&mut a, &mut b, &mut hash);
    mix(&mut c, &mut x, &mut hash);
    mix(&mut y, &mut a, &mut hash);
    mix(&mut b, &mut x, &mut hash);
    mix(&mut y, &mut c, &mut hash);
    hash
}

/// The hash of four words.
pub fn hash32_4(mut a: u32, mut b: u32, mut c: u32, mut d: u32) -> u32 {
    let mut hash = SEED ^ a ^ b ^ c ^ d;
    let (mut x, mut y) = (X, Y);
    mix(&mut a, &mut b, &mut hash);
    mix(&mut c, &mut d, &mut hash);
    mix(&mut a, &mut x, &mut hash);
    mix(&mut y, &mut b, &mut hash);
    mix(&mut c, &mut x, &mut hash);
    mix(&mut y, &mut d, &mut hash);
    hash
}

/// The hash of five words.
pub fn hash32_5(mut a: u32, mut b: u32, mut c: u32, mut d: u32, mut e: u32) -> u32 {
    let mut hash = SEED ^ a ^ b ^ c ^ d ^ e;
    let (mut x, mut y) = (X, Y);
    mix(&mut a, &mut b, &mut hash);
    mix(&mut c, &mut d, &mut hash);
    mix(&mut e, &mut x, &mut hash);
    mix(&mut y, &mut a, &mut hash);
    mix(&mut b, &mut x, &mut hash);
    mix(&mut y, &mut c, &mut hash);
    mix(&mut d, &mut x, &mut hash);
    mix(&mut y, &mut e, &mut hash);
    hash
}
