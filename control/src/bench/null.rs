//! A port that swallows all: what is sent must be acknowledged by somebody.

use dataplane::Ns;
use dataplane::nic::{Nic, PortId};
use dataplane::wire::{Aeth, Bth, Ext, Marks, Opcode, Syndrome, Template};

/// Stands in for the peer that `net_null` does not have: acknowledges, once a turn, whatever was sent since the last.
pub(super) struct Acknowledger {
    template: Template,
    qpn: u32,
    first_psn: u32,
    acknowledged: u64,
}

impl Acknowledger {
    /// Acknowledges the packets of the QP `qpn`, whose first PSN is `first_psn`. `template` has the peer's addressing.
    pub(super) const fn new(template: Template, qpn: u32, first_psn: u32) -> Acknowledger {
        Acknowledger { template, qpn, first_psn, acknowledged: 0 }
    }

    /// Everything arrived: one transport ACK for all data sent so far. `completed`: messages of the QP that ended.
    pub(super) fn acknowledge(&mut self, now: Ns, nic: &mut Nic, completed: u64) {
        let stats = nic.stats();
        let sent = stats.tx_data.get() - stats.retransmits.get() - stats.completion_requests.get();
        if sent == self.acknowledged {
            return;
        }
        self.acknowledged = sent;
        let psn = self.first_psn.wrapping_add(sent as u32).wrapping_sub(1) & 0x00FF_FFFF;
        // A number ahead of any in flight: the requester completes those whose packets are all acknowledged.
        let ext = Ext::Ack(Aeth { syndrome: Syndrome::Ack as u8, msn: completed.wrapping_add(1 << 14) as u32 });
        let mut frame = [0; 128];
        let len = self.template.frame_len(ext.len(), 0);
        let bth = Bth::new(Opcode::Ack, self.qpn, psn);
        let marks = Marks { ev: 256, dscp: nic.params().dscp.control, ecn: 0 };
        let Some(frame) = frame.get_mut(..len) else { return };
        let written = self.template.write_headers(frame, marks, &bth, &ext, 0);
        if written.is_some_and(|at| self.template.seal(frame, at, 0)) {
            let frame: &[u8] = frame;
            // What the engine refuses is in its counters.
            let _ = nic.receive(now, PortId(0), &frame);
        }
    }
}
