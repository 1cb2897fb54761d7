//! Packets of a QP whose headers hardly differ.

use super::Qpn;
use crate::transport::{Outgoing, Row};
use crate::wire::{Opcode, Template, WriteImage};

/// What headers must have in common to be written from one image, in two numbers that are quickly compared: opcode, length and number of Writes
/// with Immediate; key and length of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind(u64, u64);

impl Kind {
    /// Of packets that no image serves for.
    const NONE: Kind = Kind(0, 0);
    /// In the first number of all others.
    const SOME: u64 = 1 << 63;

    /// That of a packet: none for one that goes out again, has a timestamp or has immediate data.
    #[inline(always)]
    pub(super) fn of(packet: &Outgoing) -> Kind {
        let headers = &packet.headers;
        if packet.is_retransmission() || headers.timestamp.is_some() || headers.immediate.is_some() {
            return Kind::NONE;
        }
        let reth = headers.reth;
        Kind::new(packet.opcode, headers.meth.rqmsn, packet.len, reth.rkey, reth.dmalen)
    }

    /// That of the packets of a row.
    #[inline(always)]
    pub(super) fn of_row(row: &Row) -> Kind {
        Kind::new(Opcode::WriteOnly, row.rqmsn, row.len, row.remote_key.0, row.len)
    }

    #[inline(always)]
    fn new(opcode: Opcode, rqmsn: u16, len: u32, key: u32, message: u32) -> Kind {
        let first = Kind::SOME | (opcode as u64) << 48 | u64::from(rqmsn) << 32 | u64::from(len);
        Kind(first, u64::from(key) << 32 | u64::from(message))
    }
}

/// What the packets before were like, of the QP that sent last. In each QP an image would be one more that has left the caches when its turn comes.
#[derive(Debug)]
pub(super) struct Alike {
    of: Option<Qpn>,
    last: Kind,
    /// Made of the second of a kind: many are the only one.
    image: Option<WriteImage>,
}

impl Alike {
    pub(super) const fn new() -> Alike {
        Alike { of: None, last: Kind::NONE, image: None }
    }

    /// A QP, a template or an address is another from now on.
    pub(super) fn forget(&mut self) {
        *self = Alike::new();
    }

    /// It is a QP's turn.
    #[inline]
    pub(super) fn turn_of(&mut self, qpn: Qpn) {
        if self.of != Some(qpn) {
            (self.of, self.last, self.image) = (Some(qpn), Kind::NONE, None);
        }
    }

    #[inline(always)]
    pub(super) const fn has_image(&self) -> bool {
        self.image.is_some()
    }

    /// The image for packets of a kind, once there is one.
    #[inline(always)]
    pub(super) fn image(&self, kind: Kind) -> Option<&WriteImage> {
        if self.last == kind { self.image.as_ref() } else { None }
    }

    /// A packet was written without an image: `frame` begins with its headers, as `template` writes them.
    #[inline]
    pub(super) fn wrote(&mut self, kind: Kind, template: &Template, frame: &[u8]) {
        if kind == Kind::NONE {
            return;
        }
        let is_second = kind == self.last;
        self.image = if is_second { WriteImage::of(template, frame) } else { None };
        self.last = kind;
    }
}

#[cfg(test)]
mod tests {
    use crate::Ns;
    use crate::memory::{Access, Buffer, Domain, Key, Keys, Region};
    use crate::nic::lending::tests::Keeper;
    use crate::nic::tests::{acknowledge, empty_request, nic};
    use crate::nic::{NicParams, WriteRequest};
    use crate::wire::{Ext, Opcode, Reth};

    #[test]
    fn each_packet_of_a_turn_says_what_is_its_own_whatever_those_before_it_were_like() {
        let mut params = NicParams::default();
        params.transport.mss = 100;
        let (mut nic, qpns) = nic(params, 1);
        let key = Keys::default().allocate().unwrap();
        let memory = Buffer::new(4_096);
        let bytes: Vec<u8> = (0..4_096).map(|at| (at * 31 % 251) as u8).collect();
        memory.write(0, &bytes).unwrap();
        nic.register(key, Region { domain: Domain(1), access: Access::default(), iova: 0, memory });
        let mut keeper = Keeper::default();
        let (mut psn, mut msn) = (0, 0);
        // Alike, alike and not: other lengths, another key, immediate data, several packets, and nothing; then most in a row.
        let varied = [(64, 7), (64, 7), (64, 7), (60, 7), (60, 7), (64, 8), (520, 8), (0, 8)];
        let alike = [(64, 7), (64, 7), (64, 7), (64, 7), (64, 7), (64, 7), (60, 7), (64, 7)];
        for asked in [varied, alike, alike, varied] {
            let requests = (0..).zip(asked).map(|(n, (len, remote_key))| WriteRequest {
                local_key: key,
                local_va: 1_000 + n * 7 + u64::from(len),
                remote_key: Key(remote_key),
                remote_va: 0x7000_0000_0000 + n + u64::from(len * remote_key),
                len,
                immediate: (remote_key == 8 && len == 64).then_some(5),
                ..empty_request(0)
            });
            let requests: Vec<WriteRequest> = requests.collect();
            assert_eq!(nic.post_writes(qpns[0], requests.iter().copied()), (8, Ok(())));
            let packets: u32 = requests.iter().map(|request| request.len.div_ceil(100).max(1)).sum();
            assert_eq!(nic.transmit(Ns(1), &mut keeper), packets as usize);
            for request in &requests {
                for at in (0..request.len.max(1)).step_by(100) {
                    let (frame, packet) = (keeper.frame(psn), keeper.packet(psn));
                    let Ext::Write(headers) = packet.ext else { panic!("packet {psn} is no Write") };
                    let len = (request.len - at).min(100);
                    let (first, last) = (at == 0, at + len == request.len);
                    let opcode = match (first, last, request.immediate.is_some()) {
                        (true, true, true) => Opcode::WriteOnlyImm,
                        (true, true, false) => Opcode::WriteOnly,
                        (true, false, _) => Opcode::WriteFirst,
                        (false, false, _) => Opcode::WriteMiddle,
                        (false, true, _) => Opcode::WriteLast,
                    };
                    let bth = packet.bth;
                    assert_eq!((bth.opcode, bth.psn as usize, bth.ack_request), (opcode, psn, last));
                    assert_eq!((bth.dqp, bth.rtx, headers.meth.msn), (0x01_0000, false, msn));
                    let va = request.remote_va + u64::from(at);
                    assert_eq!(headers.reth, Reth { va, rkey: request.remote_key.0, dmalen: request.len });
                    assert_eq!(headers.immediate, request.immediate);
                    let from = (request.local_va + u64::from(at)) as usize;
                    let payload = &frame[packet.payload_at..packet.payload_at + packet.payload_len];
                    assert_eq!(payload, &bytes[from..from + len as usize], "packet {psn}");
                    psn += 1;
                }
                msn += 1;
            }
            acknowledge(&mut nic, qpns[0], 2, psn as u32 - 1, u32::from(msn) - 1);
        }
    }
}
