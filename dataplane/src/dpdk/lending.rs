//! Which ports send payload from where it lies, and why others get copies.

use core::fmt;

use crate::nic::Pieces;

/// Segments of a frame around a piece of registered memory: what is before, the piece, and what is behind.
pub(super) const SEGMENTS: u16 = 3;

/// Whether payload leaves a port from where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lending {
    /// It does.
    Always,
    /// It does where its memory can be mapped for the port's device: [`super::Dma`].
    Mapped,
    /// It is copied, for this reason.
    Never(&'static str),
}

/// What a port can do, as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Abilities {
    /// Frames of several segments can be sent.
    pub(super) segments: bool,
    /// Most segments of a frame that is not cut by the device; 0 when the driver does not say.
    pub(super) most_segments: u16,
    /// Devices find memory at the addresses that this process has.
    pub(super) virtual_addresses: bool,
}

impl Lending {
    /// What the driver's kind allows, before the port was asked.
    pub(super) const fn of_driver(pieces: Pieces) -> Lending {
        match pieces {
            Pieces::None => Lending::Never("its driver is not known to send what lies outside of its buffers"),
            Pieces::All => Lending::Always,
            Pieces::Mapped => Lending::Mapped,
        }
    }

    /// What of it is left on a port that can do no more than this.
    pub(super) fn with(self, can: Abilities) -> Lending {
        match self {
            Lending::Never(_) => self,
            _ if !can.segments => Lending::Never("its driver sends no frames of several segments"),
            Lending::Mapped if (1..SEGMENTS).contains(&can.most_segments) => {
                Lending::Never("its driver sends no frames of three segments")
            }
            Lending::Mapped if !can.virtual_addresses => {
                Lending::Never("DPDK uses physical addresses here, which pages of applications do not keep")
            }
            Lending::Always | Lending::Mapped => self,
        }
    }

    /// The same, as the engine asks for it.
    pub(super) const fn pieces(self) -> Pieces {
        match self {
            Lending::Always => Pieces::All,
            Lending::Mapped => Pieces::Mapped,
            Lending::Never(_) => Pieces::None,
        }
    }
}

impl fmt::Display for Lending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lending::Always => write!(f, "sent from where it lies"),
            Lending::Mapped => write!(f, "sent from where it lies, if that can be mapped for the device"),
            Lending::Never(why) => write!(f, "copied: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_lends_as_its_driver_allows_and_a_card_where_its_device_finds_the_memory() {
        let all = Abilities { segments: true, most_segments: 0, virtual_addresses: true };
        let physical = Abilities { virtual_addresses: false, ..all };
        let one = Abilities { segments: false, ..all };
        let of = |pieces, can| Lending::of_driver(pieces).with(can).pieces();
        for (driver, can, lends) in [
            (Pieces::All, all, Pieces::All),
            (Pieces::All, physical, Pieces::All),
            (Pieces::All, one, Pieces::None),
            (Pieces::Mapped, all, Pieces::Mapped),
            (Pieces::Mapped, physical, Pieces::None),
            (Pieces::Mapped, one, Pieces::None),
            (Pieces::Mapped, Abilities { most_segments: 2, ..all }, Pieces::None),
            (Pieces::Mapped, Abilities { most_segments: 3, ..all }, Pieces::Mapped),
            (Pieces::None, all, Pieces::None),
        ] {
            assert_eq!(of(driver, can), lends, "{driver:?} {can:?}");
        }
        let why = Lending::Mapped.with(physical).to_string();
        assert!(why.starts_with("copied: DPDK uses physical addresses"), "{why}");
    }
}
