//! One direction of a link, with the queue before it.

use super::label::{Class, Label};
use super::plan::LinkParams;
use super::stats::{Fate, LinkState, LinkStats};
use super::store::{Fifo, Store};
use super::{NicId, Stage};

/// Picoseconds of a second.
const PS_PER_SEC: u64 = 1_000_000_000_000;
/// No service is due.
pub(super) const NEVER: u64 = u64::MAX;

/// What is behind a link.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Switch(u32),
    Nic(NicId, u8),
}

/// Why a link is down, each reason a bit.
pub(super) const BROKEN: u8 = 1;
pub(super) const REBOOTING: u8 = 2;

/// Two lines of the cache.
#[repr(align(64))]
pub(super) struct Link {
    pub(super) to: End,
    pub(super) stage: Stage,
    /// Bits that say why it is down; 0 when it is up.
    pub(super) down: u8,
    pub(super) black_hole: bool,
    /// Bytes that a frame takes beside its own.
    overhead: u8,
    /// A change of a NIC's port has not been told yet. For links out of NICs.
    pub(super) changed: bool,
    /// Bits per second.
    pub(super) rate: u64,
    /// What the last transmissions took longer than was counted, in ps x rate: always less than one ps.
    rest: u64,
    /// When the frame that it sends is out, in ps.
    pub(super) free_at: u64,
    /// When the next frame is taken from the queue, in ps.
    pub(super) serve_at: u64,
    pub(super) loss: f64,
    data: Fifo,
    control: Fifo,
    /// How often it went down: a frame that was sent before is lost.
    pub(super) cuts: u32,
    frames: u64,
    bytes: u64,
    busy_ps: u64,
    max_data_bytes: u32,
    max_control_bytes: u32,
}

const _: () = assert!(size_of::<Link>() == 128);

impl Link {
    pub(super) fn new(to: End, stage: Stage, params: &LinkParams) -> Link {
        Link {
            to,
            stage,
            down: 0,
            black_hole: false,
            overhead: params.overhead,
            changed: false,
            rate: params.rate,
            rest: 0,
            free_at: 0,
            serve_at: NEVER,
            loss: params.loss,
            data: Fifo::default(),
            control: Fifo::default(),
            cuts: 0,
            frames: 0,
            bytes: 0,
            busy_ps: 0,
            max_data_bytes: 0,
            max_control_bytes: 0,
        }
    }

    pub(super) const fn is_up(&self) -> bool {
        self.down == 0
    }

    /// Bytes that wait.
    pub(super) const fn waiting(&self, class: Class) -> u32 {
        match class {
            Class::Data => self.data.bytes,
            Class::Control => self.control.bytes,
        }
    }

    pub(super) const fn is_idle(&self, now: u64) -> bool {
        self.free_at <= now && self.data.is_empty() && self.control.is_empty()
    }

    /// When all that waits now will have been sent, in ps.
    pub(super) fn drained_at(&self) -> u64 {
        let bytes = u64::from(self.data.bytes) + u64::from(self.control.bytes);
        let gaps = (u64::from(self.data.frames) + u64::from(self.control.frames)) * u64::from(self.overhead);
        let ps = u128::from(bytes + gaps) * u128::from(8 * PS_PER_SEC) / u128::from(self.rate);
        self.free_at.saturating_add(u64::try_from(ps).unwrap_or(u64::MAX))
    }

    pub(super) fn set_rate(&mut self, rate: u64) {
        (self.rate, self.rest) = (rate, 0);
    }

    pub(super) const fn state(&self) -> LinkState {
        LinkState { up: self.is_up(), black_hole: self.black_hole, loss: self.loss, rate: self.rate }
    }

    /// What it has done, and what befell its frames.
    pub(super) const fn stats(&self, fate: &Fate) -> LinkStats {
        LinkStats {
            frames: self.frames,
            bytes: self.bytes,
            busy_ps: self.busy_ps,
            data_bytes: self.data.bytes,
            control_bytes: self.control.bytes,
            max_data_bytes: self.max_data_bytes,
            max_control_bytes: self.max_control_bytes,
            marked: fate.marked,
            trimmed: fate.trimmed,
            dropped: fate.dropped,
        }
    }

    /// Takes the link from `now` for a frame.
    #[inline]
    pub(super) fn occupy(&mut self, now: u64, label: &Label) {
        let bits = u64::from(label.size() + u32::from(self.overhead)) * 8;
        // A frame has less than 2^21 bytes: no overflow.
        let total = bits * PS_PER_SEC + self.rest;
        self.rest = total % self.rate;
        let ps = total / self.rate;
        self.free_at = now.saturating_add(ps);
        self.frames += 1;
        self.bytes += u64::from(label.len);
        self.busy_ps = self.busy_ps.saturating_add(ps);
    }

    /// Puts a frame into the queue of its class.
    #[inline]
    pub(super) fn push<F>(&mut self, store: &mut Store<F>, frame: u32, class: Class, bytes: u32) {
        let (fifo, most) = match class {
            Class::Data => (&mut self.data, &mut self.max_data_bytes),
            Class::Control => (&mut self.control, &mut self.max_control_bytes),
        };
        store.append(fifo, frame, bytes);
        *most = fifo.bytes.max(*most);
    }

    /// Takes the next frame from the queue: control before data.
    #[inline]
    pub(super) fn pop<F>(&mut self, store: &Store<F>) -> Option<u32> {
        store.take(&mut self.control).or_else(|| store.take(&mut self.data))
    }

    pub(super) const fn has_waiting(&self) -> bool {
        !(self.data.is_empty() && self.control.is_empty())
    }

    /// Goes down, or goes down once more: what travels is lost, and what it was sending.
    pub(super) fn cut(&mut self, now: u64) {
        self.cuts = self.cuts.wrapping_add(1);
        // What it was sending it sends no more.
        self.busy_ps = self.busy_ps.saturating_sub(self.free_at.saturating_sub(now));
        self.free_at = self.free_at.min(now);
        self.serve_at = NEVER;
    }
}
