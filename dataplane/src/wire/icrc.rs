//! The invariant CRC.
//!
//! CRC-32 with the Ethernet polynomial over eight bytes of ones, the IP, UDP and base transport headers with the
//! fields that the network may change as ones, and everything after them (RoCEv2 Annex A17.3.3).

use super::{Bth, bytes};

/// Masked bytes at most: 8 of ones, the longest IPv4 header, UDP and BTH.
const PREFIX_MAX: usize = 8 + 60 + 8 + Bth::LEN;

/// A running iCRC.
#[derive(Clone)]
pub struct Icrc(crc32fast::Hasher);

impl Icrc {
    /// Begins with the masked headers: `ip_at` and `udp_at` say where IP and UDP begin in `frame`, which holds them and the BTH.
    /// `None` when it does not.
    #[inline]
    #[must_use]
    pub fn over_headers(frame: &[u8], ip_at: usize, udp_at: usize) -> Option<Icrc> {
        let headers = frame.get(ip_at..udp_at + 8 + Bth::LEN)?;
        let len = 8 + headers.len();
        let mut masked = [0xFF; PREFIX_MAX];
        masked.get_mut(8..len)?.copy_from_slice(headers);
        let &[version, ..] = bytes::<1>(headers, 0)?;
        match version >> 4 {
            // Type of service, time to live, header checksum.
            4 => {
                masked[8 + 1] = 0xFF;
                masked[8 + 8] = 0xFF;
                masked[8 + 10] = 0xFF;
                masked[8 + 11] = 0xFF;
            }
            // Traffic class and flow label, hop limit.
            _ => {
                masked[8] |= 0x0F;
                masked[8 + 1] = 0xFF;
                masked[8 + 2] = 0xFF;
                masked[8 + 3] = 0xFF;
                masked[8 + 7] = 0xFF;
            }
        }
        let udp = 8 + udp_at - ip_at;
        masked[udp + 6] = 0xFF;
        masked[udp + 7] = 0xFF;
        masked[udp + 8 + 4] = 0xFF;
        let mut crc = crc32fast::Hasher::new();
        crc.update(&masked[..len]);
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
