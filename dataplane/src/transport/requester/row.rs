//! Small Writes that follow each other and differ in little: most of what is sent, where packets are many.

use super::{Message, Requester, WriteRequest};
use crate::memory::Key;
use crate::transport::Psn;

/// What Writes of one packet have in common that follow each other in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Key of the local region.
    pub local_key: Key,
    /// Key of the remote region.
    pub remote_key: Key,
    /// Bytes of each; not 0.
    pub len: u32,
    /// The number of the last Write with Immediate before them.
    pub rqmsn: u16,
}

/// One packet of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InRow {
    /// Its PSN.
    pub psn: Psn,
    /// The number of its message.
    pub msn: u16,
    /// Where the payload goes, as the remote region names it.
    pub remote_va: u64,
    /// First byte of the payload, as the local region names it.
    pub local_va: u64,
}

impl Row {
    /// That of a message, if it has one packet, with payload, and no immediate data.
    #[inline(always)]
    fn of(message: &Message) -> Option<Row> {
        let WriteRequest { local_key, remote_key, len, immediate, .. } = message.request;
        let row = Row { local_key, remote_key, len, rqmsn: message.rqmsn };
        (message.packets == 1 && len > 0 && immediate.is_none()).then_some(row)
    }
}

impl Requester {
    /// The row that the next new packet begins, if it is of one.
    #[inline]
    #[must_use]
    pub fn row(&self) -> Option<Row> {
        Row::of(self.to_cut()?)
    }

    /// Sends packets of a row, `most` at most, as far as the window goes: `write` writes one and gives the EV that it took, or nothing where it
    /// can't be sent now. All ask for acknowledgement, and count as `nominal` bytes. Gives how many were sent.
    #[inline(always)]
    pub fn send_row(
        &mut self,
        row: &Row,
        most: u32,
        nominal: u32,
        mut write: impl FnMut(&InRow) -> Option<u32>,
    ) -> u32 {
        let room = self.window as i32 + 1 - self.next.distance(self.cack);
        if room <= 0 || self.barrier.is_some() {
            return 0;
        }
        let (begin, first, mask) = (self.cutting, self.next, self.slots.len().wrapping_sub(1));
        let mut sent = 0;
        for message in self.messages.from_mut(begin, most.min(room as u32) as usize) {
            let (psn, number) = (first.plus(sent as i32), begin.wrapping_add(sent));
            if Row::of(message) != Some(*row) {
                break;
            }
            let (remote_va, local_va) = (message.request.remote_va, message.request.local_va);
            let Some(ev) = write(&InRow { psn, msn: number as u16, remote_va, local_va }) else { break };
            message.sent = 1;
            if let Some(slot) = self.slots.get_mut(psn.get() as usize & mask) {
                slot.fill(ev, nominal, number);
            }
            sent += 1;
        }
        self.unacked.set_run(first, sent);
        self.next = first.plus(sent as i32);
        self.cutting = begin.wrapping_add(sent);
        sent
    }
}
