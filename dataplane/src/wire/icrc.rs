//! The invariant CRC.
//!
//! CRC-32 with the Ethernet polynomial over eight bytes of ones, the IP, UDP and base transport headers with the
//! fields that the network may change as ones, and everything after them (RoCEv2 Annex A17.3.3).

use super::Bth;
use std::sync::OnceLock;

/// The longest IP header, UDP and BTH.
const HEADERS_MAX: usize = 60 + 8 + Bth::LEN;
/// Bytes that go through at once with the headers: a small packet, all of it.
const AT_ONCE: usize = 144;
/// The register when the first four of the eight bytes of ones have met the ones that it begins with: zero, as a finished CRC has it. Bytes of zeros
/// do not change that, so they may fill up what goes through at once.
const AFTER_FOUR: u32 = u32::MAX;
/// A register with that. To make one looks at what the processor can do, which takes too long for each packet.
static BEGUN: OnceLock<crc32fast::Hasher> = OnceLock::new();
/// What the CRC is done with at a time.
const STEP: usize = 16;

/// A running iCRC.
#[derive(Clone)]
pub struct Icrc(crc32fast::Hasher);

impl Icrc {
    /// Begins with the masked headers, and goes on to the end of `frame`: `ip_at` and `udp_at` say where IP and UDP begin. `None` when `frame` does
    /// not hold them and the BTH.
    #[inline]
    #[must_use]
    pub fn over(frame: &[u8], ip_at: usize, udp_at: usize) -> Option<Icrc> {
        let all = frame.get(ip_at..)?;
        let headers =
            (udp_at + 8 + Bth::LEN).checked_sub(ip_at).filter(|&headers| headers <= HEADERS_MAX.min(all.len()))?;
        // The ones, and the headers with what follows or without.
        let now = if all.len() + 4 <= AT_ONCE { all.len() } else { headers };
        let len = (4 + now).next_multiple_of(STEP);
        let mut masked = [0; AT_ONCE];
        let run = masked.get_mut(len - now - 4..len)?;
        let (ones, run) = run.split_first_chunk_mut::<4>()?;
        *ones = [0xFF; 4];
        run.copy_from_slice(all.get(..now)?);
        mask(run, udp_at - ip_at)?;
        let mut crc = BEGUN.get_or_init(|| crc32fast::Hasher::new_with_initial(AFTER_FOUR)).clone();
        crc.update(masked.get(..len)?);
        if now < all.len() {
            crc.update(all.get(now..)?);
        }
        Some(Icrc(crc))
    }

    /// Goes on over `bytes`.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The four bytes as they stand on the wire: least significant first.
    #[inline]
    #[must_use]
    pub fn finish(self) -> [u8; 4] {
        self.0.finalize().to_le_bytes()
    }
}

/// Sets what the network may change to ones, in headers that begin with IP and have UDP at `udp`.
#[inline]
fn mask(headers: &mut [u8], udp: usize) -> Option<()> {
    let ip = headers.first_chunk_mut::<20>()?;
    match ip[0] >> 4 {
        // Type of service, time to live, header checksum.
        4 => (ip[1], ip[8], ip[10], ip[11]) = (0xFF, 0xFF, 0xFF, 0xFF),
        // Traffic class and flow label, hop limit.
        _ => (ip[0], ip[1], ip[2], ip[3], ip[7]) = (ip[0] | 0x0F, 0xFF, 0xFF, 0xFF, 0xFF),
    }
    // The checksum of UDP, and the reserved byte of the BTH.
    let rest = headers.get_mut(udp..)?.first_chunk_mut::<20>()?;
    (rest[6], rest[7], rest[12]) = (0xFF, 0xFF, 0xFF);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_taken_at_once_the_icrc_is_that_of_eight_ones_and_the_masked_bytes() {
        for (version, ip_len) in [(4, 20), (4, 24), (4, 60), (6, 40)] {
            for ip_at in [4, 14, 18, 22, 54] {
                let udp_at = ip_at + ip_len;
                for len in udp_at + 8 + Bth::LEN..udp_at + 220 {
                    let mut frame: Vec<u8> = (0..len).map(|at| (at * 167 + len) as u8).collect();
                    frame[ip_at] = version << 4 | 5;
                    let mut all = vec![0xFF; 8];
                    all.extend(&frame[ip_at..]);
                    mask(&mut all[8..], ip_len).unwrap();
                    let icrc = Icrc::over(&frame, ip_at, udp_at).unwrap().finish();
                    assert_eq!(icrc, crc32fast::hash(&all).to_le_bytes(), "IPv{version}, {ip_len}, {ip_at}, {len}");
                }
                assert!(Icrc::over(&vec![0x45; udp_at + 19], ip_at, udp_at).is_none(), "no BTH");
            }
        }
    }
}
