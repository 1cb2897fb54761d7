//! Where the bits of an EV are in a packet.

use super::field::FIELD_BITS_MAX;
use std::fmt;

/// Bits of an SRv6 locator.
pub const LOCATOR_BITS: u8 = 32;
/// Bits of a uSID.
pub const USID_BITS: u8 = 16;
/// uSIDs behind the locator of one IPv6 address.
pub const USIDS_MAX: u8 = 6;
/// Bits of the UDP source port.
const PORT_BITS: u32 = 16;
/// Bits of an EV: UDP source port and the lower 16 of the flow label.
const EV_BITS: u32 = 32;

/// Where an EV is in a packet, and how its bits are divided (an EV format profile of OCP's controller API). The first field is in the most
/// significant bits; bits behind the last one are 0.
///
/// Whatever the format, 32 bits travel in UDP source port (15:0) and flow label (31:16), and come back in SACKs and NACKs. Over IPv4
/// only the lower 16 do, so structured EVs need IPv6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvFormat {
    /// In the UDP source port alone, 16 bits: ECMP by hash, or fields.
    UdpPort(Box<[u8]>),
    /// Structured EV: in flow label and UDP source port, 32 bits; the fields are what each switch on the way takes as its choice.
    Structured(Box<[u8]>),
    /// SRv6 uSID: the path is the destination of an outer IPv6 header, a locator of 32 bits and up to six uSIDs of 16. The EV of 32 bits
    /// that rides inside names the path.
    Usid(Box<[u8]>),
}

/// Why a format is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// No fields.
    #[error("a format needs at least one field")]
    NoFields,
    /// A field without bits, or wider than 32.
    #[error("format field {at} has {width} bits: it may have 1 to 32")]
    Width {
        /// Which, from 1.
        at: usize,
        /// Its bits.
        width: u8,
    },
    /// More bits than there are in the packet.
    #[error("the fields of a {form} have {bits} bits, and there are {room}: make fields narrower, or take some away")]
    TooWide {
        /// The form.
        form: &'static str,
        /// Bits of all fields.
        bits: u32,
        /// Bits in the packet.
        room: u32,
    },
    /// Neither locator nor uSID.
    #[error("an SRv6 address is a locator of 32 bits and uSIDs of 16, but field {at} has {width} bits")]
    NoUsid {
        /// Which, from 1.
        at: usize,
        /// Its bits.
        width: u8,
    },
    /// No uSID, or more than six.
    #[error("an SRv6 address has {0} uSIDs: it may have 1 to 6")]
    Usids(u8),
}

impl EvFormat {
    /// EVs in the UDP source port, divided into fields of these widths, in bits; `[16]` for a port that switches hash.
    ///
    /// # Errors
    /// No fields, a field of 0 or more than 32 bits, or more than 16 bits in all.
    pub fn udp_port(widths: &[u8]) -> Result<EvFormat, FormatError> {
        check("UDP source port", widths, PORT_BITS)?;
        Ok(EvFormat::UdpPort(widths.into()))
    }

    /// Structured EVs with a field of these widths for each hop, in bits.
    ///
    /// # Errors
    /// No fields, a field of 0 or more than 32 bits, or more than 32 bits in all.
    pub fn structured(widths: &[u8]) -> Result<EvFormat, FormatError> {
        check("structured EV", widths, EV_BITS)?;
        Ok(EvFormat::Structured(widths.into()))
    }

    /// SRv6 addresses of a locator and this many uSIDs, 1 to 6.
    ///
    /// # Errors
    /// Another number of uSIDs.
    pub fn usid(usids: u8) -> Result<EvFormat, FormatError> {
        if usids == 0 || usids > USIDS_MAX {
            return Err(FormatError::Usids(usids));
        }
        let mut widths = vec![LOCATOR_BITS];
        widths.resize(1 + usize::from(usids), USID_BITS);
        Ok(EvFormat::Usid(widths.into()))
    }

    /// Bits of each field, the first hop first.
    #[must_use]
    pub fn widths(&self) -> &[u8] {
        let (EvFormat::UdpPort(widths) | EvFormat::Structured(widths) | EvFormat::Usid(widths)) = self;
        widths
    }

    /// Bits that there are for the fields: 16, 32, or the 128 of an IPv6 address.
    #[must_use]
    pub const fn room(&self) -> u32 {
        match self {
            EvFormat::UdpPort(_) => PORT_BITS,
            EvFormat::Structured(_) => EV_BITS,
            EvFormat::Usid(_) => 128,
        }
    }

    /// How many of the lowest bits belong to no field, and are 0.
    #[must_use]
    pub fn unused(&self) -> u32 {
        self.room() - self.widths().iter().map(|&width| u32::from(width)).sum::<u32>()
    }
}

impl fmt::Display for EvFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EvFormat::UdpPort(_) => "UDP source port",
            EvFormat::Structured(_) => "structured EV",
            EvFormat::Usid(_) => "SRv6 uSID",
        })
    }
}

fn check(form: &'static str, widths: &[u8], room: u32) -> Result<(), FormatError> {
    if widths.is_empty() {
        return Err(FormatError::NoFields);
    }
    if let Some(at) = widths.iter().position(|&width| width == 0 || width > FIELD_BITS_MAX) {
        return Err(FormatError::Width { at: at + 1, width: widths[at] });
    }
    let bits = widths.iter().map(|&width| u32::from(width)).sum();
    if bits > room { Err(FormatError::TooWide { form, bits, room }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_structured_ev_has_room_for_32_bits_and_a_udp_port_for_16() {
        assert_eq!(EvFormat::structured(&[8, 8, 16]).unwrap().unused(), 0);
        assert_eq!(EvFormat::structured(&[8, 4]).unwrap().unused(), 20);
        let wide = EvFormat::structured(&[8, 8, 16, 1]);
        assert_eq!(wide, Err(FormatError::TooWide { form: "structured EV", bits: 33, room: 32 }));
        assert_eq!(EvFormat::udp_port(&[16]).unwrap().unused(), 0);
        assert!(EvFormat::udp_port(&[9, 8]).is_err());
    }

    #[test]
    fn an_srv6_address_has_a_locator_and_one_to_six_usids() {
        assert_eq!(EvFormat::usid(6).unwrap().widths(), [32, 16, 16, 16, 16, 16, 16]);
        assert_eq!(EvFormat::usid(6).unwrap().unused(), 0);
        assert_eq!(EvFormat::usid(4).unwrap().unused(), 32);
        assert_eq!(EvFormat::usid(0), Err(FormatError::Usids(0)));
        assert_eq!(EvFormat::usid(7), Err(FormatError::Usids(7)));
    }

    #[test]
    fn a_format_without_fields_or_with_an_empty_one_is_refused() {
        assert_eq!(EvFormat::structured(&[]), Err(FormatError::NoFields));
        assert_eq!(EvFormat::structured(&[4, 0]), Err(FormatError::Width { at: 2, width: 0 }));
        assert_eq!(EvFormat::udp_port(&[33]), Err(FormatError::Width { at: 1, width: 33 }));
    }
}
