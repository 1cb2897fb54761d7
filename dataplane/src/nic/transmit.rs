//! Frames out: replies first, then each group in turn, what is sent again before what is new.

use super::group::GroupState;
use super::reply::Wrote;
use super::rotations::FullPorts;
use super::stall::refuse;
use super::{Nic, PortId, Qpn, TX_BURST, TX_BURST_BYTES, TxBurst};
use crate::Ns;
use crate::memory::prefetch;
use crate::path::NoPath;
use crate::transport::{Fault, Psn};
use std::collections::VecDeque;

/// ECN field of data packets, so that switches can mark them.
pub(super) const ECT0: u8 = 2;

/// Frames of one length, one after another, that are written and not yet accepted by their port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accepting {
    /// Of each, in bytes.
    pub(super) len: u32,
    /// They are of the data class.
    pub(super) is_data: bool,
    /// The timers of these packets start when the port takes them: the first, and as many of the same QP behind it as there are frames.
    pub(super) packet: Option<(Qpn, Psn)>,
    pub(super) frames: u32,
}

impl Accepting {
    pub(super) const fn one(len: usize, is_data: bool, packet: Option<(Qpn, Psn)>) -> Accepting {
        Accepting { len: len as u32, is_data, packet, frames: 1 }
    }

    /// Takes the first `frames` (at most as many as there are) out.
    #[inline]
    fn split(&mut self, frames: u32) -> Accepting {
        let first = Accepting { frames, ..*self };
        self.frames -= frames;
        self.packet = self.packet.map(|(qpn, psn)| (qpn, psn.plus(frames as i32)));
        first
    }
}

/// What a group may send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quota {
    /// So many frames.
    frames: usize,
    /// No more once `tx_bytes` is so high.
    end: u64,
}

impl Quota {
    #[inline(always)]
    pub(super) const fn is_spent(&self, frames: usize, tx_bytes: u64) -> bool {
        frames >= self.frames || tx_bytes >= self.end
    }

    /// How many frames of `len` bytes it has left.
    #[inline(always)]
    pub(super) fn room(&self, frames: usize, tx_bytes: u64, len: usize) -> u64 {
        (self.frames.saturating_sub(frames) as u64).min(self.end.saturating_sub(tx_bytes) / len as u64)
    }
}

/// How a QP fared with what it had to send.
pub(super) enum Run {
    /// It is the next one's turn.
    TurnOver,
    /// It has nothing new any more.
    Empty,
    /// It sends no more for now, for this reason.
    Ended(Turn),
}

/// How a group's turn went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// A frame was written.
    Sent,
    /// Nothing to send, or the window is full: out of the round until something changes.
    Over,
    /// The local range of a QP's packet is not registered (any more): the QP ends instead of sending, and the turn is not used.
    Unused,
    /// Its ports take no more for now, or all its values are denied.
    NoWay(NoPath),
    /// The egress buffer is full, or the host's link is busy.
    NoFetch,
}

/// How a group's QPs with something to send again fared.
enum Served {
    /// The turn is decided.
    Turn(Turn),
    /// Nothing was sent; those that had something had no way out, for this reason.
    Stuck(Option<NoPath>),
}

/// What a group's QPs without a way out wait for: of a port that is full rather than of the controller.
const fn worse(stuck: Option<NoPath>, why: NoPath) -> Option<NoPath> {
    match (stuck, why) {
        (Some(NoPath::PortsFull), _) | (_, NoPath::PortsFull) => Some(NoPath::PortsFull),
        (_, NoPath::Denied) => Some(NoPath::Denied),
    }
}

/// Data frames of one turn, on their way to where they wait for their ports.
pub(super) struct Outbox<'a> {
    accepting: &'a mut [VecDeque<Accepting>],
    stalled: &'a mut [Option<Ns>],
    now: Ns,
    /// Those written last, of one run, and their port.
    written: Option<(PortId, Accepting)>,
}

impl<'a> Outbox<'a> {
    pub(super) fn new(accepting: &'a mut [VecDeque<Accepting>], stalled: &'a mut [Option<Ns>], now: Ns) -> Outbox<'a> {
        Outbox { accepting, stalled, now, written: None }
    }

    /// A frame with the new packet behind the last one: of the same run, if it goes to the same port and is as long.
    #[inline(always)]
    pub(super) fn append(&mut self, port: PortId, len: usize, qpn: Qpn, psn: Psn) {
        if let Some((of, run)) = &mut self.written
            && *of == port
            && run.len as usize == len
        {
            run.frames += 1;
            return;
        }
        self.put(port, Accepting::one(len, true, Some((qpn, psn))));
    }

    /// A frame that is not the next of a run.
    #[inline]
    pub(super) fn put(&mut self, port: PortId, frame: Accepting) {
        self.hand_over();
        self.written = Some((port, frame));
    }

    /// Frames that are written wait for their port from now on.
    #[inline]
    pub(super) fn hand_over(&mut self) {
        if let Some((port, frames)) = self.written.take() {
            await_port(self.accepting, self.stalled, self.now, port, frames);
        }
    }

    /// A port takes no more for now.
    pub(super) fn refuse(&mut self, port: PortId, full: &mut FullPorts) {
        refuse(self.stalled, self.now, port, full);
    }
}

/// Frames wait until their port takes them.
#[inline]
pub(super) fn await_port(
    accepting: &mut [VecDeque<Accepting>],
    stalled: &mut [Option<Ns>],
    now: Ns,
    port: PortId,
    frames: Accepting,
) {
    let at = usize::from(port.0);
    if let (Some(queue), Some(stalled)) = (accepting.get_mut(at), stalled.get_mut(at)) {
        queue.push_back(frames);
        stalled.get_or_insert(now);
    }
}

impl Nic {
    /// Writes frames into `out`, [`TX_BURST`] at most. Returns how many it is done with: after 0 there is nothing more for now.
    #[inline]
    pub fn transmit<T: TxBurst>(&mut self, now: Ns, out: &mut T) -> usize {
        let mut full = FullPorts::none_of(self.ports.len());
        self.turned_at = now;
        if self.recall || !self.holding.is_empty() {
            self.call_in(now, out);
        }
        self.limits.busy(now, &mut full);
        if full.is_everything() {
            return 0;
        }
        let mut written = self.transmit_slow(now, out, &mut full);
        written += self.transmit_replies(now, out, &mut full, TX_BURST - written);
        if written < TX_BURST && !full.is_everything() {
            written += self.transmit_data(now, out, &mut full, TX_BURST - written);
        }
        written
    }

    /// What uses no window: answers and probes of QPs, then endpoint operations.
    #[inline]
    fn transmit_replies<T: TxBurst>(&mut self, now: Ns, out: &mut T, full: &mut FullPorts, most: usize) -> usize {
        let (mut written, mut blocked) = (0, 0);
        while written < most
            && blocked < self.control.len()
            && !full.is_everything()
            && let Some(reply) = self.control.front().copied()
        {
            match self.write_reply(now, &reply, out, full) {
                Wrote::Done => {
                    self.control.pop_front();
                    written += 1;
                }
                Wrote::NoRoom => return written,
                Wrote::PortFull => {
                    // Others may not be.
                    self.control.rotate_left(1);
                    blocked += 1;
                }
            }
        }
        let mut blocked = 0;
        while written < most && blocked < self.endpoints.waiting() && !full.is_everything() {
            match self.write_endpoint(now, out, full) {
                Wrote::Done => written += 1,
                Wrote::NoRoom => break,
                Wrote::PortFull => blocked += 1,
            }
        }
        written
    }

    /// Data, `most` packets at most: each group in turn.
    #[inline]
    fn transmit_data<T: TxBurst>(&mut self, now: Ns, out: &mut T, full: &mut FullPorts, most: usize) -> usize {
        // A burst ends after so many bytes too: what it takes to copy them, acknowledgements wait.
        let end = self.stats.tx_bytes.get() + TX_BURST_BYTES;
        let (mut written, mut blocked) = (0, 0);
        while written < most
            && self.stats.tx_bytes.get() < end
            && let Some(&at) = self.round.front()
        {
            let before = *full;
            // Alone in the round a group has all turns, one after another.
            let is_alone = self.round.len() == 1 && self.groups[at].resend.is_empty();
            let quota = Quota { frames: if is_alone { most - written } else { 1 }, end };
            self.groups[at].state = GroupState::Active;
            let (sent, turn) = self.serve(now, at, out, full, quota);
            self.groups[at].state = GroupState::Ready;
            written += sent;
            if sent > 0 {
                blocked = 0;
            }
            match turn {
                Turn::Sent => self.next_group(),
                // Until the controller allows a value, or something else changes.
                Turn::Over | Turn::NoWay(NoPath::Denied) => {
                    self.groups[at].rest();
                    self.round.pop_front();
                }
                Turn::Unused => {}
                Turn::NoFetch => break,
                Turn::NoWay(NoPath::PortsFull) if full.is_everything() => break,
                // One more port is full: the group's next value may be of another.
                Turn::NoWay(NoPath::PortsFull) if *full != before => {}
                Turn::NoWay(NoPath::PortsFull) => {
                    blocked += 1;
                    if blocked >= self.round.len() {
                        break;
                    }
                    self.next_group();
                }
            }
        }
        written
    }

    #[inline]
    fn next_group(&mut self) {
        if self.round.len() > 1 {
            self.round.rotate_left(1);
        }
    }

    /// Are there replies that wait for the port?
    #[inline]
    #[must_use]
    pub fn replies_wait(&self) -> bool {
        !self.control.is_empty()
    }

    /// The port accepted the next `frames` frames, in the order of their commit.
    #[inline]
    pub fn sent(&mut self, now: Ns, port: PortId, frames: usize) {
        let mut left = frames as u32;
        while left > 0
            && let Some(queue) = self.accepting.get_mut(usize::from(port.0))
            && let Some(first) = queue.front_mut()
        {
            let taken = first.split(left.min(first.frames));
            if first.frames == 0 {
                queue.pop_front();
            }
            left -= taken.frames;
            self.release(now, &taken);
        }
        if frames > 0 {
            self.moved(now, port);
        }
    }

    /// Frames take no more room, and the timers of their packets start, unless the QP is gone.
    #[inline]
    pub(super) fn release(&mut self, now: Ns, taken: &Accepting) {
        self.limits.release(u64::from(taken.len) * u64::from(taken.frames), taken.is_data);
        let Some((qpn, psn)) = taken.packet else { return };
        let slot = qpn.slot();
        let qp = self.qps.get_mut(slot).and_then(|entry| entry.as_deref_mut()).filter(|qp| qp.qpn == qpn);
        let Some(qp) = qp else { return };
        let deadline = qp.requester.accepted(now, psn, taken.frames);
        if deadline.is_some_and(|deadline| qp.timer_at.is_none_or(|at| deadline < at)) {
            self.arm(slot);
        }
    }

    /// A frame without payload is written.
    #[inline]
    pub(super) fn committed(&mut self, now: Ns, port: PortId, accepting: Accepting, full: &mut FullPorts) {
        let len = u64::from(accepting.len);
        self.stats.tx_frames.add(1);
        self.stats.tx_bytes.add(len);
        self.limits.take(now, port, len, 0, accepting.is_data, full);
        await_port(&mut self.accepting, &mut self.stalled, now, port, accepting);
    }

    /// Gives a group its turn, or several: what is sent again before what is new, of the first of its QPs that has a way out for it.
    #[inline]
    fn serve<T: TxBurst>(
        &mut self,
        now: Ns,
        at: usize,
        out: &mut T,
        ports: &mut FullPorts,
        quota: Quota,
    ) -> (usize, Turn) {
        match self.serve_resend(now, at, out, ports) {
            Served::Turn(turn) => (usize::from(turn == Turn::Sent), turn),
            Served::Stuck(stuck) => self.serve_fresh(now, at, out, ports, stuck, quota),
        }
    }

    #[inline]
    fn serve_resend<T: TxBurst>(&mut self, now: Ns, at: usize, out: &mut T, ports: &mut FullPorts) -> Served {
        let mut stuck = None;
        // Each QP once: one whose values are all denied, or whose ports are full, lets the others pass.
        for _ in 0..self.groups[at].resend.len() {
            let Some(&slot) = self.groups[at].resend.front() else { break };
            match self.send_again(now, at, slot, out, ports) {
                Some(Turn::NoWay(why)) => {
                    stuck = worse(stuck, why);
                    self.groups[at].resend.rotate_left(1);
                }
                Some(Turn::Sent) => {
                    self.groups[at].resend.rotate_left(1);
                    return Served::Turn(Turn::Sent);
                }
                Some(turn) => return Served::Turn(turn),
                None => _ = self.groups[at].resend.pop_front(),
            }
        }
        Served::Stuck(stuck)
    }

    /// Sends what a QP has to send again first; `None` when there is nothing any more.
    #[inline(never)]
    fn send_again<T: TxBurst>(
        &mut self,
        now: Ns,
        at: usize,
        slot: u32,
        out: &mut T,
        ports: &mut FullPorts,
    ) -> Option<Turn> {
        let room = self.groups[at].window.can_send(self.params.transport.full());
        let turn = self.sender(now, slot, ports)?.send_again(out, room)?;
        self.end_unused(now, slot, turn);
        Some(turn)
    }

    /// New packets of a group, as many as it may send. How many were sent, and how the last turn went.
    #[inline]
    fn serve_fresh<T: TxBurst>(
        &mut self,
        now: Ns,
        at: usize,
        out: &mut T,
        ports: &mut FullPorts,
        mut stuck: Option<NoPath>,
        quota: Quota,
    ) -> (usize, Turn) {
        let (mut sent, mut tried) = (0, 0);
        while tried < self.groups[at].fresh.len()
            && let Some(&slot) = self.groups[at].fresh.front()
        {
            let Some(sender) = self.sender(now, slot, ports) else {
                self.groups[at].fresh.pop_front();
                continue;
            };
            match sender.send_fresh(out, &quota, &mut sent) {
                Run::TurnOver => {
                    self.expect_turns(at);
                    if quota.is_spent(sent, self.stats.tx_bytes.get()) {
                        return (sent, Turn::Sent);
                    }
                    tried = 0;
                }
                Run::Empty => self.expect_turns(at),
                Run::Ended(Turn::NoWay(why)) => {
                    stuck = worse(stuck, why);
                    self.groups[at].end_turn();
                    tried += 1;
                }
                // The window is full.
                Run::Ended(Turn::Over) => break,
                Run::Ended(turn) => {
                    self.end_unused(now, slot, turn);
                    return (sent, turn);
                }
            }
        }
        (sent, stuck.map_or(Turn::Over, Turn::NoWay))
    }

    /// A QP ends that could not use its turn.
    #[inline]
    fn end_unused(&mut self, now: Ns, slot: u32, turn: Turn) {
        if turn == Turn::Unused {
            self.fail(now, slot as usize, Some(Fault::LocalProtection));
        }
    }

    /// Of many QPs each has long left the caches when its turn comes: they are asked for those whose turns are next, so that they come while
    /// others send.
    #[inline]
    fn expect_turns(&self, at: usize) {
        let fresh = &self.groups[at].fresh;
        let qp = |turns: usize| self.qps.get(*fresh.get(turns)? as usize)?.as_deref();
        if let Some(later) = qp(2) {
            prefetch(later);
            // It has been asked for before.
            if let Some(next) = qp(1) {
                next.requester.expect_turn();
            }
        }
    }
}
