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
/// Of the ones so many go through with the headers: a Write of 64 bytes over IPv4 is whole steps of the CRC then.
pub(super) const ONES: usize = 4;
/// The register when the other four have met the ones that it begins with: zero, as a finished CRC has it.
const AFTER_FOUR: u32 = u32::MAX;
/// A register with that. To make one looks at what the processor can do, which takes too long for each packet.
static BEGUN: OnceLock<crc32fast::Hasher> = OnceLock::new();

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
        let ip_len = udp_at.checked_sub(ip_at)?;
        let headers = ip_len + 8 + Bth::LEN;
        if headers > HEADERS_MAX.min(all.len()) {
            return None;
        }
        // The ones, and the headers with what follows or without.
        let now = if all.len() <= AT_ONCE { all.len() } else { headers };
        let mut masked = [0xFF; ONES + AT_ONCE];
        masked.get_mut(ONES..ONES + now)?.copy_from_slice(all.get(..now)?);
        let (ip, above) = parts(&mut masked[ONES..], ip_len)?;
        mask(ip, above);
        let mut icrc = Icrc::over_masked(masked.get(..ONES + now)?);
        if now < all.len() {
            icrc.update(all.get(now..)?);
        }
        Some(icrc)
    }

    /// As [`Icrc::over`], where the frame may be written, and the bytes before the IP header too: what is masked is so in place, and then put back.
    #[inline]
    #[must_use]
    pub fn over_mut(frame: &mut [u8], ip_at: usize, udp_at: usize) -> Option<Icrc> {
        let ip_len = udp_at.checked_sub(ip_at)?;
        let all = frame.get_mut(ip_at.checked_sub(ONES)?..)?;
        let (before, rest) = all.split_first_chunk_mut()?;
        let (ip, above) = parts(rest, ip_len)?;
        let (link, free) = (core::mem::replace(before, [0xFF; ONES]), mask(ip, above));
        let icrc = Icrc::over_masked(all);
        let (before, rest) = all.split_first_chunk_mut()?;
        let (ip, above) = parts(rest, ip_len)?;
        *before = link;
        free.put_back(ip, above);
        Some(icrc)
    }

    /// Begins over a frame from [`ONES`] bytes before the IP header on, which are ones, and so is what the network may change.
    #[inline]
    #[must_use]
    pub(super) fn over_masked(masked: &[u8]) -> Icrc {
        let mut crc = begun().clone();
        crc.update(masked);
        Icrc(crc)
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

#[inline]
fn begun() -> &'static crc32fast::Hasher {
    BEGUN.get_or_init(|| crc32fast::Hasher::new_with_initial(AFTER_FOUR))
}

/// The beginnings of an IP header of `ip_len` bytes, and of UDP and BTH behind it.
#[inline(always)]
fn parts(frame: &mut [u8], ip_len: usize) -> Option<(&mut [u8; 20], &mut [u8; 20])> {
    let (ip, above) = frame.split_at_mut_checked(ip_len)?;
    Some((ip.first_chunk_mut()?, above.first_chunk_mut()?))
}

/// The words of headers in which the network may change something, as they were: three of IP, one of UDP, and one of the BTH.
struct Free {
    ip: [[u8; 4]; 3],
    checksum: [u8; 4],
    reserved: [u8; 4],
}

/// Sets what the network may change to ones in a frame that begins with an IP header of `ip_len` bytes. `None` when it ends before the BTH does.
pub(super) fn mask_headers(frame: &mut [u8], ip_len: usize) -> Option<()> {
    let (ip, above) = parts(frame, ip_len)?;
    mask(ip, above);
    Some(())
}

/// Sets what the network may change to ones.
#[inline(always)]
fn mask(ip: &mut [u8; 20], udp_and_bth: &mut [u8; 20]) -> Free {
    let masks = match ip[0] >> 4 {
        // Type of service; time to live, header checksum.
        4 => [[0, 0xFF, 0, 0], [0; 4], [0xFF, 0, 0xFF, 0xFF]],
        // Traffic class and flow label, hop limit.
        _ => [[0x0F, 0xFF, 0xFF, 0xFF], [0, 0, 0, 0xFF], [0; 4]],
    };
    Free {
        ip: [set(ip, 0, masks[0]), set(ip, 4, masks[1]), set(ip, 8, masks[2])],
        checksum: set(udp_and_bth, 4, [0, 0, 0xFF, 0xFF]),
        reserved: set(udp_and_bth, 12, [0xFF, 0, 0, 0]),
    }
}

impl Free {
    #[inline(always)]
    fn put_back(self, ip: &mut [u8; 20], udp_and_bth: &mut [u8; 20]) {
        ip[..12].copy_from_slice(self.ip.as_flattened());
        udp_and_bth[4..8].copy_from_slice(&self.checksum);
        udp_and_bth[12..16].copy_from_slice(&self.reserved);
    }
}

/// Sets bits of four bytes at `at`; what stood there.
#[inline(always)]
fn set(header: &mut [u8; 20], at: usize, mask: [u8; 4]) -> [u8; 4] {
    let mut before = [0; 4];
    before.copy_from_slice(&header[at..at + 4]);
    // As one number: byte by byte they would be stored byte by byte.
    let ones = u32::from_ne_bytes(before) | u32::from_ne_bytes(mask);
    header[at..at + 4].copy_from_slice(&ones.to_ne_bytes());
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_taken_at_once_the_icrc_is_that_of_eight_ones_and_the_masked_bytes() {
        for (version, ip_len) in [(4, 20), (4, 24), (4, 60), (6, 40)] {
            for ip_at in [3, 4, 14, 18, 22, 54] {
                let udp_at = ip_at + ip_len;
                for len in udp_at + 8 + Bth::LEN..udp_at + 220 {
                    let mut frame: Vec<u8> = (0..len).map(|at| (at * 167 + len) as u8).collect();
                    frame[ip_at] = version << 4 | 5;
                    let mut all = vec![0xFF; 8];
                    all.extend(&frame[ip_at..]);
                    let free: &[usize] = if version == 4 { &[1, 8, 10, 11] } else { &[1, 2, 3, 7] };
                    free.iter().for_each(|at| all[8 + at] = 0xFF);
                    [6, 7, 12].iter().for_each(|at| all[8 + ip_len + at] = 0xFF);
                    all[8] |= if version == 4 { 0 } else { 0x0F };
                    let icrc = Icrc::over(&frame, ip_at, udp_at).unwrap().finish();
                    assert_eq!(icrc, crc32fast::hash(&all).to_le_bytes(), "IPv{version}, {ip_len}, {ip_at}, {len}");
                    let before = frame.clone();
                    let in_place = Icrc::over_mut(&mut frame, ip_at, udp_at).map(Icrc::finish);
                    assert_eq!(in_place, (ip_at >= ONES).then_some(icrc), "IPv{version}, {ip_len}, {ip_at}, {len}");
                    assert_eq!(frame, before);
                }
                let mut short = vec![0x45; udp_at + 19];
                assert!(Icrc::over(&short, ip_at, udp_at).is_none(), "no BTH");
                assert!(Icrc::over_mut(&mut short, ip_at, udp_at).is_none(), "no BTH");
                assert!(
                    Icrc::over(&short, ip_at, ip_at - 1).is_none() && Icrc::over_mut(&mut short, ip_at, 0).is_none()
                );
            }
        }
    }
}
