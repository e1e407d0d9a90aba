//! Implements `Math.random`: workers are copies of one process, and V8's own would begin alike in all of them.

use std::cell::RefCell;

thread_local! {
    static RANDOM: RefCell<Xoshiro> = const { RefCell::new(Xoshiro([1, 2, 3, 4])) };
}

/// Seeds this process's generator, of which a fork inherits its parent's state. `None`: from random bytes.
///
/// # Errors
/// [`std::io::Error`]: the kernel gives no random bytes.
pub(super) fn begin(seed: Option<u64>) -> std::io::Result<()> {
    let mut state = [0_u64; 4];
    match seed {
        Some(mut seed) => state.fill_with(|| split_mix(&mut seed)),
        None => {
            for word in &mut state {
                let mut bytes = [0_u8; 8];
                rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
                *word = u64::from_le_bytes(bytes);
            }
        }
    }
    // The generator cannot leave the state zero.
    if state == [0; 4] {
        state[0] = 1;
    }
    RANDOM.set(Xoshiro(state));
    Ok(())
}

/// Generates numbers by SplitMix64 of Steele, Lea and Flood, which spreads a seed over a larger state.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Generates numbers by xoshiro256++ of Blackman and Vigna. Good for sampling, not for secrets, like every
/// `Math.random`.
struct Xoshiro([u64; 4]);

impl Xoshiro {
    fn next(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.0;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }
}

/// Implements `Math.random()`.
pub(super) fn random(
    _: &mut v8::PinScope<'_, '_>,
    _: v8::FunctionCallbackArguments<'_>,
    mut returned: v8::ReturnValue<v8::Value>,
) {
    // The upper 53 bits, which a double holds exactly, as a fraction.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    let fraction = RANDOM.with_borrow_mut(|random| (random.next() >> 11) as f64) / (1_u64 << 53) as f64;
    returned.set_double(fraction);
}
