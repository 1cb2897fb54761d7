//! What measurements write: bytes that depend on their place and on the round.

use dataplane::memory::Buffer;

const CHUNK: usize = 4096;
const WORDS: usize = CHUNK / 8;

/// The pattern's bytes from `at` (a multiple of the chunk) on.
fn chunk(at: usize, round: u64) -> [u8; CHUNK] {
    let mut out = [0; CHUNK];
    let first = (at / 8) as u64;
    let salt = round.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    for (i, word) in out.chunks_exact_mut(8).enumerate().take(WORDS) {
        let value = ((first + i as u64) ^ salt).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        word.copy_from_slice(&value.to_le_bytes());
    }
    out
}

/// Where areas with a pattern of their own begin is a multiple of this.
pub(crate) const ALIGN: usize = CHUNK;

/// Writes the pattern of `round` over `len` bytes from `from` on, a multiple of [`ALIGN`].
pub(crate) fn fill(buffer: &Buffer, from: usize, len: usize, round: u64) {
    for at in (from..from + len).step_by(CHUNK) {
        let run = CHUNK.min(from + len - at);
        let written = buffer.write(at, &chunk(at, round)[..run]);
        debug_assert!(written.is_ok(), "{written:?}");
    }
}

/// True when `len` bytes from `from` on, a multiple of [`ALIGN`], hold the pattern of `round`.
pub(crate) fn holds(buffer: &Buffer, from: usize, len: usize, round: u64) -> bool {
    let mut got = [0; CHUNK];
    (from..from + len).step_by(CHUNK).all(|at| {
        let run = CHUNK.min(from + len - at);
        buffer.read(at, &mut got[..run]).is_ok() && got[..run] == chunk(at, round)[..run]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_told_from_any_other_round_place_or_byte() {
        let buffer = Buffer::new(10_000);
        fill(&buffer, 0, 10_000, 3);
        assert!(holds(&buffer, 0, 10_000, 3));
        assert!(holds(&buffer, 0, 9_999, 3));
        assert!(!holds(&buffer, 0, 10_000, 4));
        let mut byte = [0];
        buffer.read(9_998, &mut byte).unwrap();
        buffer.write(9_998, &[byte[0] ^ 1]).unwrap();
        assert!(!holds(&buffer, 0, 10_000, 3));
        assert!(!holds(&buffer, 0, 10_001, 3), "a range that leaves the buffer does not hold");
    }

    #[test]
    fn no_two_rounds_share_a_word_at_one_place() {
        assert!(chunk(0, 1).chunks(8).zip(chunk(0, 2).chunks(8)).all(|(a, b)| a != b));
    }
}
