//! The receiving side of a QP: which packets are new, what is acknowledged, and when.

mod immediate;
#[cfg(test)]
mod tests;

pub use immediate::Immediate;

use super::{Completion, PostError, Psn, PsnBits, TransportParams, low_bits};
use crate::wire::{CcState, Opcode, Sack, SackFor, Skip, Syndrome};
use core::ops::RangeInclusive;
use immediate::Immediates;

/// A PSN further behind the cumulative ACK than this is no duplicate but nonsense: its distance does not fit a SACK.
const DUPLICATE_REACH: i32 = 32_768;
/// Received bytes that draw a SACK.
const SACK_BYTES: u32 = 4_096;
/// What a small packet counts towards them.
const SACK_BYTES_MIN: u32 = 1_024;
/// Units of the window that a SACK carries, in PSNs.
pub const MPR_UNIT: u32 = 128;
/// Units of `rcvd_bytes`.
const RCVD_UNIT: u64 = 256;

/// PSNs that [`Responder::sack_around`] shows, from the one that it is given: a few before it, since packets overtake each other.
pub const AROUND: RangeInclusive<i32> = -16..=47;

/// Where a PSN stands in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// In the window and not there yet.
    New,
    /// Received before.
    Duplicate,
    /// Beyond the window.
    Beyond,
    /// Too far behind to be acknowledged.
    Stale,
}

/// What a packet tells the responder, apart from its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its PSN.
    pub psn: Psn,
    /// Kind of Write.
    pub opcode: Opcode,
    /// Bytes of payload.
    pub payload: u32,
    /// Its nominal size in bytes.
    pub nominal: u32,
    /// It asks for a transport ACK.
    pub ack_request: bool,
    /// It is a retransmission.
    pub rtx: bool,
    /// It is ECN-marked.
    pub marked: bool,
    /// Its immediate data.
    pub immediate: Option<Immediate>,
}

/// What a packet draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Due {
    /// A SACK.
    pub sack: bool,
    /// A transport ACK.
    pub ack: bool,
}

/// The responder of one QP.
#[derive(Clone)]
pub struct Responder {
    cack: Psn,
    /// PSNs beyond `cack` that are taken, as advertised last.
    window: u32,
    /// The furthest PSN that was ever advertised: a window that shrinks takes back no promise.
    edge: Psn,
    dynamic: bool,
    received: PsnBits,
    begins: PsnBits,
    ends: PsnBits,
    /// Packets that ask for a transport ACK.
    asks: PsnBits,
    /// Last packets of Writes with Immediate.
    immediate_ends: PsnBits,
    immediates: Immediates,
    /// The packet at `cack` ended a message.
    at_boundary: bool,
    /// Packets held above `cack`.
    out_of_order: u32,
    /// The highest PSN received.
    highest: Psn,
    /// Whole messages so far.
    messages: u32,
    rcvd_bytes: u64,
    unsacked: u32,
    /// Where the next SACK's bitmap begins, above `cack`, when the window is wider than one bitmap.
    walk: u32,
}

impl Responder {
    /// A responder that expects `first`, takes `MaxPSNRange` PSNs, and holds `receives` posted receives.
    #[must_use]
    pub fn new(first: Psn, params: &TransportParams, receives: usize) -> Responder {
        let cack = first.plus(-1);
        let window = params.max_psn_range;
        // A SACK can advertise no less than one unit.
        let bits = PsnBits::new(window.max(MPR_UNIT));
        Responder {
            cack,
            window,
            edge: cack.plus(window as i32),
            dynamic: params.dynamic_mpr,
            received: bits.clone(),
            begins: bits.clone(),
            ends: bits.clone(),
            asks: bits.clone(),
            immediate_ends: bits,
            immediates: Immediates::new(params.write_imm_limit, receives),
            at_boundary: true,
            out_of_order: 0,
            highest: cack,
            messages: 0,
            rcvd_bytes: 0,
            unsacked: 0,
            walk: 1,
        }
    }

    /// The last PSN such that it and all before it arrived.
    #[must_use]
    pub const fn cack(&self) -> Psn {
        self.cack
    }

    /// The number of the last whole message, as an AETH carries it: 2^24 - 1 before any.
    #[must_use]
    pub const fn msn(&self) -> u32 {
        self.messages.wrapping_sub(1) & 0x00FF_FFFF
    }

    /// Packets held above the cumulative ACK.
    #[must_use]
    pub const fn out_of_order(&self) -> u32 {
        self.out_of_order
    }

    /// PSNs between the cumulative ACK and the highest received that have not arrived.
    #[must_use]
    pub const fn missing(&self) -> u32 {
        self.highest.distance(self.cack) as u32 - self.out_of_order
    }

    /// Advertises another window from the next SACK on (Dynamic MPR): `psns` is cut to whole units of 128, at least one, and to what the
    /// responder was made for.
    pub fn set_window(&mut self, psns: u32) {
        let most = self.received.capacity().min(super::MPR_MAX) / MPR_UNIT * MPR_UNIT;
        self.window = (psns / MPR_UNIT * MPR_UNIT).clamp(MPR_UNIT, most);
        self.extend();
    }

    /// The window that is advertised, in PSNs.
    #[must_use]
    pub const fn window(&self) -> u32 {
        self.window
    }

    /// The edge never moves back.
    #[inline]
    fn extend(&mut self) {
        let edge = self.cack.plus(self.window as i32);
        if edge.is_after(self.edge) {
            self.edge = edge;
        }
    }

    /// Immediates that wait for what was sent before them.
    #[must_use]
    pub const fn held_immediates(&self) -> u32 {
        self.immediates.held()
    }

    /// Posts a receive for a Write with Immediate of the peer.
    ///
    /// # Errors
    /// [`PostError::QueueFull`].
    pub fn post_receive(&mut self, wr_id: u64) -> Result<(), PostError> {
        if self.immediates.post(wr_id) { Ok(()) } else { Err(PostError::QueueFull(self.immediates.depth())) }
    }

    /// Ends every posted receive as flushed.
    pub fn flush_receives(&mut self, ended: impl FnMut(Completion)) {
        self.immediates.flush(ended);
    }

    /// May the Write with Immediate that a packet ends arrive now?
    ///
    /// # Errors
    /// The syndrome of the NAK that answers it.
    #[inline]
    pub fn judge_immediate(&self, packet: &Arrival) -> Result<(), Syndrome> {
        packet.immediate.as_ref().map_or(Ok(()), |immediate| self.immediates.judge(immediate.rqmsn))
    }

    /// Have packets arrived that no SACK has reported?
    #[must_use]
    pub const fn owes_sack(&self) -> bool {
        self.unsacked > 0
    }

    /// Where `psn` stands.
    #[inline]
    #[must_use]
    pub fn standing(&self, psn: Psn) -> Standing {
        let ahead = psn.distance(self.cack);
        if psn.is_after(self.edge) {
            Standing::Beyond
        } else if ahead > 0 {
            if self.out_of_order > 0 && self.received.get(psn) { Standing::Duplicate } else { Standing::New }
        } else if ahead >= -DUPLICATE_REACH {
            Standing::Duplicate
        } else {
            Standing::Stale
        }
    }

    /// Do the packets on either side of `psn`, as far as they are here, go with its opcode? A message begins exactly where the one before
    /// it ended.
    #[inline]
    #[must_use]
    pub fn in_its_place(&self, psn: Psn, opcode: Opcode) -> bool {
        if self.out_of_order == 0 {
            return psn != self.cack.next() || self.at_boundary == opcode.begins_message();
        }
        self.goes_with_neighbours(psn, opcode)
    }

    fn goes_with_neighbours(&self, psn: Psn, opcode: Opcode) -> bool {
        let before = psn.plus(-1);
        let boundary_before = if before == self.cack {
            Some(self.at_boundary)
        } else {
            self.received.get(before).then(|| self.ends.get(before))
        };
        let after = psn.next();
        let inside = !after.is_after(self.edge);
        let boundary_after = (inside && self.received.get(after)).then(|| self.begins.get(after));
        boundary_before.is_none_or(|boundary| boundary == opcode.begins_message())
            && boundary_after.is_none_or(|boundary| boundary == opcode.ends_message())
    }

    /// Takes a new packet, whose payload has been placed. Receives that it completes are handed to `ended`.
    ///
    /// # Errors
    /// The syndrome of the NAK that ends the QP: a Write with Immediate is whole, but no receive is posted, say.
    #[inline]
    pub fn accept(&mut self, packet: &Arrival, ended: impl FnMut(Completion)) -> Result<Due, Syndrome> {
        let psn = packet.psn;
        debug_assert_eq!(self.standing(psn), Standing::New);
        if let Some(due) = self.accept_in_order(packet) {
            return Ok(due);
        }
        self.received.set(psn);
        if packet.opcode.begins_message() {
            self.begins.set(psn);
        }
        if packet.opcode.ends_message() {
            self.ends.set(psn);
        }
        if packet.ack_request {
            self.asks.set(psn);
        }
        if let Some(immediate) = &packet.immediate {
            self.immediate_ends.set(psn);
            self.immediates.keep(psn, immediate);
        }
        if psn.is_after(self.highest) {
            self.highest = psn;
        }
        let mut ack = false;
        self.out_of_order += 1;
        if psn == self.cack.next() {
            ack = self.advance(ended)?;
        }
        Ok(self.due(packet, ack))
    }

    /// As [`Responder::accept`] of the packet that is next, where none is held: no bitmap has anything to say, and no receive completes. `None`, and
    /// nothing changed, for any other.
    #[inline(always)]
    pub fn accept_in_order(&mut self, packet: &Arrival) -> Option<Due> {
        if self.out_of_order > 0 || packet.immediate.is_some() || packet.psn != self.cack.next() {
            return None;
        }
        self.cack = packet.psn;
        self.highest = packet.psn;
        self.at_boundary = packet.opcode.ends_message();
        self.messages = self.messages.wrapping_add(self.at_boundary.into());
        self.walk = 1;
        self.extend();
        Some(self.due(packet, packet.ack_request))
    }

    /// What a new packet draws; `ack` where a packet that asks for one was passed.
    #[inline]
    fn due(&mut self, packet: &Arrival, ack: bool) -> Due {
        self.rcvd_bytes += u64::from(packet.nominal);
        self.unsacked += packet.payload.max(SACK_BYTES_MIN);
        let sack = ack || packet.ack_request || packet.marked || packet.rtx || self.unsacked >= SACK_BYTES;
        Due { sack, ack }
    }

    /// Moves the cumulative ACK over what is there; true when a packet that it passed asks for a transport ACK.
    #[inline]
    fn advance(&mut self, mut ended: impl FnMut(Completion)) -> Result<bool, Syndrome> {
        let mut asked = false;
        loop {
            let from = self.cack.next();
            let mut run = self.received.word(from).trailing_ones();
            let mut refusal = None;
            let mut immediates = self.immediate_ends.word(from) & low_bits(run);
            while immediates != 0 {
                let at = immediates.trailing_zeros();
                match self.immediates.complete(from.plus(at as i32)) {
                    Ok(completion) => ended(completion),
                    Err(syndrome) => {
                        // What is before it stands.
                        (run, refusal) = (at, Some(syndrome));
                        break;
                    }
                }
                immediates &= immediates - 1;
            }
            if run == 0 {
                return refusal.map_or(Ok(asked), Err);
            }
            let passed = low_bits(run);
            let ends = self.ends.word(from) & passed;
            // In order, one packet passes at a time.
            let ended = if run == 1 { ends as u32 } else { ends.count_ones() };
            self.messages = self.messages.wrapping_add(ended);
            self.at_boundary = ends >> (run - 1) & 1 == 1;
            asked |= self.asks.word(from) & passed != 0;
            for bits in [&mut self.received, &mut self.begins, &mut self.ends, &mut self.asks, &mut self.immediate_ends]
            {
                bits.clear_run(from, run);
            }
            self.cack = self.cack.plus(run as i32);
            self.out_of_order -= run;
            self.walk = 1;
            self.extend();
            if let Some(syndrome) = refusal {
                return Err(syndrome);
            }
            if run < 64 {
                return Ok(asked);
            }
        }
    }

    /// What a packet that arrived before draws: a SACK, and an ACK where it asks for one and its message is whole.
    #[inline]
    #[must_use]
    pub fn repeat(&self, packet: &Arrival) -> Due {
        Due { sack: true, ack: packet.ack_request && !packet.psn.is_after(self.cack) }
    }

    /// Fills a SACK with the state of the window. `for_psn` is the packet that drew it, or the number of a probe.
    pub fn sack(&mut self, answers: SackOrigin, skip: Skip) -> Sack {
        let shown = self.bitmap();
        self.sack_showing(answers, skip, shown)
    }

    /// As [`Responder::sack`], but shows the part of the window around `psn`, and leaves the walk over the window where it is.
    pub fn sack_around(&mut self, answers: SackOrigin, skip: Skip, psn: Psn) -> Sack {
        let shown = self.bitmap_around(psn);
        self.sack_showing(answers, skip, shown)
    }

    fn sack_showing(&mut self, answers: SackOrigin, skip: Skip, (offset, bitmap): (i16, u64)) -> Sack {
        self.unsacked = 0;
        Sack {
            skip,
            answers: match answers {
                SackOrigin::Packet(psn) => SackFor::Packet { offset: self.offset(psn) },
                SackOrigin::Probe(id) => SackFor::Probe { id },
            },
            entropy: 0,
            spdcid: 0,
            dpdcid: 0,
            cack_psn: self.cack.get(),
            cc_type: 0,
            cc_flags: 0,
            mpr: if self.dynamic { (self.window / MPR_UNIT).min(255) as u8 } else { 0 },
            sack_offset: offset,
            sack_bitmap: bitmap,
            cc: CcState {
                tx_timestamp: 0,
                ooo_count: self.out_of_order.min(0x7FFF) as u16,
                restore_cwnd: false,
                rcv_cwnd_pen: 0,
                rcvd_bytes: (self.rcvd_bytes.div_ceil(RCVD_UNIT) & 0x00FF_FFFF) as u32,
            },
        }
    }

    /// The next SACK shows the first 64 PSNs beyond the cumulative ACK.
    pub const fn show_first(&mut self) {
        self.walk = 1;
    }

    /// How far `psn` is from the cumulative ACK. While a SACK waits to be sent, that may have moved on further than 16 bits can
    /// say; then any PSN that has been acknowledged does as well.
    fn offset(&self, psn: Psn) -> i16 {
        psn.distance(self.cack).clamp(i16::MIN.into(), i16::MAX.into()) as i16
    }

    /// The part of the window that the next SACK shows: the oldest incomplete region first, then on over successive SACKs to the
    /// highest PSN received, and round again.
    fn bitmap(&mut self) -> (i16, u64) {
        if self.out_of_order == 0 {
            return (1, 0);
        }
        let reach = self.highest.distance(self.cack) as u32;
        if self.walk > reach {
            self.walk = 1;
        }
        let offset = self.walk;
        self.walk = offset + 64;
        self.part(offset, reach)
    }

    /// The part of the window that begins a little before `psn`.
    fn bitmap_around(&self, psn: Psn) -> (i16, u64) {
        let first = psn.plus(*AROUND.start()).distance(self.cack);
        let reach = self.highest.distance(self.cack) as u32;
        if self.out_of_order == 0 || first > reach as i32 {
            return (1, 0);
        }
        self.part(first.max(1) as u32, reach)
    }

    /// What was received of the 64 PSNs that begin `offset` beyond the cumulative ACK; none is more than `reach` beyond it.
    fn part(&self, offset: u32, reach: u32) -> (i16, u64) {
        let left = reach + 1 - offset;
        (offset as i16, self.received.word(self.cack.plus(offset as i32)) & low_bits(left))
    }
}

/// What a SACK answers, before it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SackOrigin {
    /// The packet with this PSN.
    Packet(Psn),
    /// The probe with this number.
    Probe(u16),
}
