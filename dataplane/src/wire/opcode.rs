//! BTH byte 0.

/// The kinds of MRC packet (OCP MRC 1.0: transport prefix `110` in bits 7:5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// First packet of a Write of several.
    WriteFirst = 0xC6,
    /// A packet between the first and the last.
    WriteMiddle = 0xC7,
    /// Last packet of a Write of several.
    WriteLast = 0xC8,
    /// Last packet of a Write with Immediate of several.
    WriteLastImm = 0xC9,
    /// The one packet of a Write.
    WriteOnly = 0xCA,
    /// The one packet of a Write with Immediate.
    WriteOnlyImm = 0xCB,
    /// Transport ACK or NAK.
    Ack = 0xD1,
    /// Endpoint Request: an EV probe or a port status update.
    EndpointRequest = 0xD8,
    /// Endpoint Response.
    EndpointResponse = 0xD9,
    /// Selective acknowledgement.
    Sack = 0xDC,
    /// Negative acknowledgement.
    Nack = 0xDD,
    /// Reliability Probe.
    Probe = 0xDE,
}

impl Opcode {
    /// Every opcode, in the order of their codes.
    pub const ALL: [Opcode; 12] = [
        Opcode::WriteFirst,
        Opcode::WriteMiddle,
        Opcode::WriteLast,
        Opcode::WriteLastImm,
        Opcode::WriteOnly,
        Opcode::WriteOnlyImm,
        Opcode::Ack,
        Opcode::EndpointRequest,
        Opcode::EndpointResponse,
        Opcode::Sack,
        Opcode::Nack,
        Opcode::Probe,
    ];

    /// The opcode of BTH byte 0, or `None` where MRC has none.
    #[must_use]
    pub const fn from_u8(code: u8) -> Option<Opcode> {
        Some(match code {
            0xC6 => Opcode::WriteFirst,
            0xC7 => Opcode::WriteMiddle,
            0xC8 => Opcode::WriteLast,
            0xC9 => Opcode::WriteLastImm,
            0xCA => Opcode::WriteOnly,
            0xCB => Opcode::WriteOnlyImm,
            0xD1 => Opcode::Ack,
            0xD8 => Opcode::EndpointRequest,
            0xD9 => Opcode::EndpointResponse,
            0xDC => Opcode::Sack,
            0xDD => Opcode::Nack,
            0xDE => Opcode::Probe,
            _ => return None,
        })
    }

    /// The name that the golden vectors and the JSON output use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Opcode::WriteFirst => "WRITE_FIRST",
            Opcode::WriteMiddle => "WRITE_MIDDLE",
            Opcode::WriteLast => "WRITE_LAST",
            Opcode::WriteLastImm => "WRITE_LAST_IMM",
            Opcode::WriteOnly => "WRITE_ONLY",
            Opcode::WriteOnlyImm => "WRITE_ONLY_IMM",
            Opcode::Ack => "ACK",
            Opcode::EndpointRequest => "ENDPOINT_REQUEST",
            Opcode::EndpointResponse => "ENDPOINT_RESPONSE",
            Opcode::Sack => "SACK",
            Opcode::Nack => "NACK",
            Opcode::Probe => "PROBE",
        }
    }

    /// True for the six Write opcodes: packets that carry a PSN and payload.
    #[must_use]
    pub const fn is_data(self) -> bool {
        (self as u8) <= Opcode::WriteOnlyImm as u8
    }

    /// True when immediate data follows the RETH.
    #[must_use]
    pub const fn has_immediate(self) -> bool {
        matches!(self, Opcode::WriteLastImm | Opcode::WriteOnlyImm)
    }

    /// True for the packet that begins a message.
    #[must_use]
    pub const fn begins_message(self) -> bool {
        matches!(self, Opcode::WriteFirst | Opcode::WriteOnly | Opcode::WriteOnlyImm)
    }

    /// True for the packet that ends a message.
    #[must_use]
    pub const fn ends_message(self) -> bool {
        matches!(self, Opcode::WriteLast | Opcode::WriteLastImm | Opcode::WriteOnly | Opcode::WriteOnlyImm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_twelve_codes_are_mrc() {
        let known: Vec<u8> = (0..=255).filter(|&code| Opcode::from_u8(code).is_some()).collect();
        assert_eq!(known, [0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xCB, 0xD1, 0xD8, 0xD9, 0xDC, 0xDD, 0xDE]);
        for opcode in Opcode::ALL {
            assert_eq!(Opcode::from_u8(opcode as u8), Some(opcode));
        }
    }

    #[test]
    fn data_opcodes_are_the_six_writes() {
        assert_eq!(Opcode::ALL.iter().filter(|o| o.is_data()).count(), 6);
        assert!(!Opcode::Ack.is_data());
    }
}
