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
/// Where the IP header stands among them: before it is room for ones and zeros.
const IP_PLACE: usize = 2 * STEP;
/// The register when the first four of the eight bytes of ones have met the ones that it begins with: zero, as a finished CRC has it. Bytes of zeros
/// do not change that, so they may fill up what goes through at once.
const AFTER_FOUR: u32 = u32::MAX;
/// And when all eight have.
const AFTER_EIGHT: u32 = 0x2144_DF1C;
/// Registers with these. To make one looks at what the processor can do, which takes too long for each packet.
static BEGUN: OnceLock<[crc32fast::Hasher; 2]> = OnceLock::new();
/// What stands before the IP header at least, addresses and type of Ethernet, and what stands there while the CRC goes over it.
const LINK: usize = 14;
const ZEROS_AND_ONES: [u8; LINK] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF];
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
        let ip_len = udp_at.checked_sub(ip_at)?;
        let headers = ip_len + 8 + Bth::LEN;
        if headers > HEADERS_MAX.min(all.len()) {
            return None;
        }
        // The ones, and the headers with what follows or without.
        let now = if all.len() <= AT_ONCE { all.len() } else { headers };
        let mut masked = [0; IP_PLACE + AT_ONCE];
        masked[IP_PLACE - 4..IP_PLACE].copy_from_slice(&[0xFF; 4]);
        masked.get_mut(IP_PLACE..IP_PLACE + now)?.copy_from_slice(all.get(..now)?);
        mask_ip(masked[IP_PLACE..].first_chunk_mut()?);
        mask_above(masked.get_mut(IP_PLACE + ip_len..)?.first_chunk_mut()?);
        // With as many zeros before the ones as make whole steps of it all.
        let from = IP_PLACE - 4 - (STEP - 4).wrapping_sub(now) % STEP;
        let mut crc = begun()[0].clone();
        crc.update(masked.get(from..IP_PLACE + now)?);
        if now < all.len() {
            crc.update(all.get(now..)?);
        }
        Some(Icrc(crc))
    }

    /// As [`Icrc::over`], where the frame may be written: what is masked is so in place, and then put back.
    #[inline]
    #[must_use]
    pub fn over_mut(frame: &mut [u8], ip_at: usize, udp_at: usize) -> Option<Icrc> {
        let begun = begun();
        let link_at = ip_at.checked_sub(LINK)?;
        let (link, all) = frame.get_mut(link_at..)?.split_first_chunk_mut::<LINK>()?;
        let ip_len = udp_at.checked_sub(ip_at)?;
        let (ip, above) = all.split_at_mut_checked(ip_len)?;
        let (ip, above) = (ip.first_chunk_mut::<20>()?, above.first_chunk_mut::<20>()?);
        let saved = (*link, *ip, *above);
        *link = ZEROS_AND_ONES;
        mask_ip(ip);
        mask_above(above);
        // With as many zeros and ones before the IP header as make whole steps of it all.
        let (crc, lead) = match (STEP - 4).wrapping_sub(frame.len() - ip_at) % STEP {
            zeros if zeros + 4 <= LINK => (&begun[0], zeros + 4),
            _ => (&begun[1], 0),
        };
        let mut crc = crc.clone();
        crc.update(&frame[ip_at - lead..]);
        let (link, all) = frame.get_mut(link_at..)?.split_first_chunk_mut::<LINK>()?;
        let (ip, above) = all.split_at_mut_checked(ip_len)?;
        (*link, *ip.first_chunk_mut()?, *above.first_chunk_mut()?) = saved;
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

#[inline]
fn begun() -> &'static [crc32fast::Hasher; 2] {
    BEGUN.get_or_init(|| [AFTER_FOUR, AFTER_EIGHT].map(crc32fast::Hasher::new_with_initial))
}

/// Sets what the network may change of an IP header to ones.
#[inline]
const fn mask_ip(ip: &mut [u8; 20]) {
    match ip[0] >> 4 {
        // Type of service, time to live, header checksum.
        4 => (ip[1], ip[8], ip[10], ip[11]) = (0xFF, 0xFF, 0xFF, 0xFF),
        // Traffic class and flow label, hop limit.
        _ => (ip[0], ip[1], ip[2], ip[3], ip[7]) = (ip[0] | 0x0F, 0xFF, 0xFF, 0xFF, 0xFF),
    }
}

/// The same of UDP and BTH: the checksum, and the reserved byte.
#[inline]
const fn mask_above(udp_and_bth: &mut [u8; 20]) {
    (udp_and_bth[6], udp_and_bth[7], udp_and_bth[12]) = (0xFF, 0xFF, 0xFF);
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
                    mask_ip(all[8..].first_chunk_mut().unwrap());
                    mask_above(all[8 + ip_len..].first_chunk_mut().unwrap());
                    let icrc = Icrc::over(&frame, ip_at, udp_at).unwrap().finish();
                    assert_eq!(icrc, crc32fast::hash(&all).to_le_bytes(), "IPv{version}, {ip_len}, {ip_at}, {len}");
                    let before = frame.clone();
                    let in_place = Icrc::over_mut(&mut frame, ip_at, udp_at).map(Icrc::finish);
                    assert_eq!(in_place, (ip_at >= LINK).then_some(icrc), "IPv{version}, {ip_len}, {ip_at}, {len}");
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
