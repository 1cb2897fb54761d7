//! Ports that take nothing, and how long QPs bear it.
//!
//! A packet's timer starts when its port took it, so where a port takes nothing no timer runs, and no retry budget runs down. A port stalls from the
//! first frame that it does not take, or from when it goes out of use, until it takes one. A QP that has something to send, all of whose
//! ports stall, bears it as long as its retry budget would last (`TransportParams::patience`), counted from when the last of them stalled or from
//! when it got something to send, whichever is later; then it ends with retry exceeded. A port that comes back before costs nothing,
//! and with `ExponentialRetryCount` 25 a QP waits for ever, as it does for acknowledgements.

use super::qp::QpPath;
use super::rotations::FullPorts;
use super::{Nic, PortId, Qp, QpState, TIMER_STALL, TIMERS_PER_QP};
use crate::Ns;
use crate::path::PortMask;
use crate::transport::Fault;

/// A port has no room for a frame: it stalls from now on, unless it has before, and takes no more in this turn.
#[cold]
pub(super) fn refuse(stalled: &mut [Option<Ns>], now: Ns, port: PortId, full: &mut FullPorts) {
    full.add(port);
    if let Some(stalled) = stalled.get_mut(usize::from(port.0)) {
        stalled.get_or_insert(now);
    }
}

impl Nic {
    /// A port has no room for a frame: it takes no more in this turn.
    #[inline]
    pub(super) fn refused(&mut self, now: Ns, port: PortId, full: &mut FullPorts) {
        refuse(&mut self.stalled, now, port, full);
    }

    /// A port took frames.
    #[inline]
    pub(super) fn moved(&mut self, now: Ns, port: PortId) {
        let at = usize::from(port.0);
        if let (Some(queue), Some(stalled)) = (self.accepting.get(at), self.stalled.get_mut(at)) {
            *stalled = (!queue.is_empty()).then_some(now);
        }
    }

    /// A QP that had nothing to send has something now. Its timer stays armed when that is done, so that short messages don't cost more: it
    /// is armed once in the QP's patience.
    #[inline]
    pub(super) fn watch(&mut self, now: Ns, slot: usize) {
        let Some(qp) = self.qps.get_mut(slot).and_then(|entry| entry.as_deref_mut()) else { return };
        qp.busy_since = now;
        if let Some(patience) = qp.requester.patience()
            && !core::mem::replace(&mut qp.watched, true)
        {
            self.wheel.arm(slot as u32 * TIMERS_PER_QP + TIMER_STALL, now + patience);
        }
    }

    /// The patience of a QP is at its end, if its ports have taken nothing for so long.
    pub(super) fn on_stall(&mut self, now: Ns, slot: usize) {
        let Some(qp) = self.qps.get(slot).and_then(|entry| entry.as_deref()) else { return };
        let since = self.stalled_since(qp).map_or(now, |since| since.max(qp.busy_since));
        let waits = qp.state == QpState::Rts && qp.requester.pending() > 0;
        let due = qp.requester.patience().filter(|_| waits).map(|patience| since + patience);
        if due.is_some_and(|due| due <= now) {
            self.fail(now, slot, Some(Fault::RetryExceeded));
            return;
        }
        let Some(qp) = self.qps.get_mut(slot).and_then(|entry| entry.as_deref_mut()) else { return };
        qp.watched = due.is_some();
        if let Some(due) = due {
            self.wheel.arm(slot as u32 * TIMERS_PER_QP + TIMER_STALL, due);
        }
    }

    /// Since when all ports that the QP's packets may leave by have been stalling; `None` when one has not, or when all its values are denied:
    /// then it waits for the controller.
    fn stalled_since(&self, qp: &Qp) -> Option<Ns> {
        if self.stalled.iter().all(Option::is_none) {
            return None;
        }
        let out = self.ports_out | self.destinations[qp.destination].peer_ports_out;
        let ports = match qp.path {
            QpPath::Own(_) => 1 << (self.own_port(qp.port, qp.destination).0 & 7),
            QpPath::Sprayed(at) => self.rotations[at].spraying.ports(),
        };
        // As packets do: what is out is used where there is nothing else.
        let used: PortMask = if ports & !out == 0 { ports } else { ports & !out };
        let mut latest = None;
        for (_, stalled) in self.stalled.iter().enumerate().filter(|(port, _)| used >> port & 1 == 1) {
            latest = latest.max(Some((*stalled)?));
        }
        latest
    }
}
