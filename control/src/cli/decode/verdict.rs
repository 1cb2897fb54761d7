//! What a captured packet is.

use crate::records::capture::CapturedPacket;
use dataplane::wire::{Ext, ICRC_LEN, Packet, Refusal, Rules, Trim, parse};

/// Whether the iCRC is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Icrc {
    Right,
    Wrong,
    /// A trimmed packet has none.
    None,
}

/// What a captured packet is.
#[derive(Debug)]
pub(super) enum Verdict {
    /// An MRC packet.
    Read { packet: Packet, icrc: Icrc },
    /// Something else, or a packet that is broken or not whole.
    Refused {
        /// Why, in full.
        reason: String,
        /// Why, without numbers of this packet, to count by.
        kind: String,
        /// The headers, where they are readable all the same.
        headers: Option<Packet>,
    },
}

impl Verdict {
    fn refused(kind: &str) -> Verdict {
        Verdict::Refused { reason: kind.to_owned(), kind: kind.to_owned(), headers: None }
    }
}

/// Reads a captured packet and checks its iCRC.
pub(super) fn judge(captured: &CapturedPacket<'_>, rules: &Rules) -> Verdict {
    if !captured.link_type.is_ethernet() {
        return Verdict::refused(&format!("not MRC: {} instead of Ethernet", captured.link_type));
    }
    let frame = captured.bytes;
    match parse(frame, captured.original_len, rules) {
        Ok(packet) if captured.is_cut() && !is_whole(&packet, frame.len()) => cut(captured, Some(packet), ""),
        Ok(packet) => Verdict::Read { packet, icrc: check(&packet, frame) },
        Err(refusal) if captured.is_cut() && is_truncation(refusal) => cut(captured, None, refusal.text()),
        Err(Refusal::OtherUdpPort) => Verdict::refused(&other_port(rules)),
        Err(refusal) => Verdict::refused(refusal.text()),
    }
}

fn check(packet: &Packet, frame: &[u8]) -> Icrc {
    match packet.trim {
        Trim::Whole if packet.icrc_ok(frame) => Icrc::Right,
        Trim::Whole => Icrc::Wrong,
        Trim::Trimmed | Trim::LastHop => Icrc::None,
    }
}

/// True when nothing of the packet but bytes after it lies beyond the first `captured` bytes.
fn is_whole(packet: &Packet, captured: usize) -> bool {
    match packet.trim {
        Trim::Whole => packet.icrc_at() + ICRC_LEN <= captured,
        Trim::Trimmed | Trim::LastHop => packet.ext != Ext::Cut,
    }
}

/// True for the refusals that a capture's cut can cause.
fn is_truncation(refusal: Refusal) -> bool {
    refusal.name().starts_with("truncated_")
}

fn cut(captured: &CapturedPacket<'_>, headers: Option<Packet>, detail: &str) -> Verdict {
    let kind = "cut by the capture's snaplen".to_owned();
    let mut reason = format!("{kind}: {} of {} bytes captured", captured.bytes.len(), captured.original_len);
    if !detail.is_empty() {
        reason = format!("{reason}, {detail}");
    }
    Verdict::Refused { reason, kind, headers }
}

fn other_port(rules: &Rules) -> String {
    let ports: Vec<String> = rules.udp_ports.iter().filter(|&&port| port != 0).map(u16::to_string).collect();
    format!("{} (MRC is expected at {}; see --port)", Refusal::OtherUdpPort, ports.join(", "))
}
