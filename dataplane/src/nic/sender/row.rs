//! Small Writes in a row: one after the other the same few steps, with all that they have in common looked up before.

use super::super::TxBurst;
use super::super::lending::lead;
use super::super::rotations::Routes;
use super::super::transmit::Quota;
use super::{Kind, Sender};
use crate::transport::InRow;
use crate::wire::{Differing, ICRC_LEN, Template, padding, write_link};

impl Sender<'_> {
    /// Sends packets that are like the last two, up to where turn or quota ends, the window is full, or something is in the way; who sends
    /// the next one finds out what. Counts them in `sent`, and gives the bytes that they count as: 0 where there is none.
    #[inline(always)]
    pub(super) fn send_row<T: TxBurst>(&mut self, out: &mut T, quota: &Quota, sent: &mut usize) -> u32 {
        if self.alike.has_image() { self.send_alike(out, quota, sent) } else { 0 }
    }

    // Apart: the steps of a packet have all registers.
    #[inline(never)]
    fn send_alike<T: TxBurst>(&mut self, out: &mut T, quota: &Quota, sent: &mut usize) -> u32 {
        let (tx_bytes, qp) = (self.tx_bytes(), &mut *self.qp);
        if self.tap.is_some() || self.timestamp.is_some() {
            return 0;
        }
        let Some(row) = qp.requester.row() else { return 0 };
        let Some(image) = self.alike.image(Kind::of_row(&row)) else { return 0 };
        let Ok(source) = self.memory.readable(qp.domain, row.local_key) else { return 0 };
        let payload = row.len as usize;
        let (pad, nominal) = (padding(payload), self.params.transport.nominal(row.len));
        let len = image.len() + payload + pad + ICRC_LEN;
        if self.loans.is_allowed() && lead(image.len(), payload).is_some() {
            return 0;
        }
        let most = quota
            .room(*sent, tx_bytes, len)
            .min(self.limits.room(len as u64))
            .min(self.group.room(self.params.transport.full(), nominal));
        let (now, ports) = (self.now, *self.full);
        let (qpn, links) = (qp.qpn, qp.links.as_deref());
        let mut routes = Routes::of(self.rotations, qp.path, self.own_port);
        let outbox = &mut self.outbox;
        let write = |packet: &InRow| -> Option<u32> {
            let route = routes.next(now, ports).ok()?;
            let source = source.range(packet.local_va, payload).ok()?;
            let InRow { psn, msn, remote_va: va, .. } = *packet;
            let differing = Differing { ev: route.ev(), ack_request: true, psn: psn.get(), msn, va };
            let frame = out.slot(route.port(), len)?;
            let body = image.write(frame, &differing)?;
            source.copy_out(frame.get_mut(body..body + payload)?);
            let (head, tail) = frame.split_at_mut_checked(body + payload)?;
            let icrc = image.icrc_over(head, &differing)?;
            if let Some(link) = links.and_then(|links| links.get(usize::from(route.port().0))) {
                write_link(head, link);
            }
            if !Template::end(tail, icrc, pad) {
                return None;
            }
            out.commit();
            routes.take(route);
            outbox.append(route.port(), len, qpn, psn);
            Some(route.ev())
        };
        let count = qp.requester.send_row(&row, most as u32, nominal, write);
        let (packets, bytes) = (u64::from(count), u64::from(count) * len as u64);
        (self.packets, self.bytes) = (self.packets + packets, self.bytes + bytes);
        self.group.window.sent(count * nominal);
        self.limits.hold(bytes);
        *sent += count as usize;
        count * nominal
    }
}
