//! Payload that goes out from where it lies, where the port can carry it so.

use super::{Nic, TxBurst};
use crate::Ns;
use crate::memory::{Key, Loans, Mapped};
use crate::wire::HEAD_MAX;

/// Payload that is copied into the first piece of a frame is a multiple of this, so that what is lent begins where a cache line does if the
/// message does.
const LINE: usize = 64;
/// Payload below this is copied: more pieces would cost more.
const LENT_MIN: usize = 1_024;

/// Bytes of payload that stand in the first piece of a frame whose headers have `headers` bytes, where the others are lent; `None` for payload
/// that is all copied. Whoever receives the frame finds all that it parses in one piece.
#[inline]
#[must_use]
pub fn lead(headers: usize, payload: usize) -> Option<usize> {
    if payload < LENT_MIN {
        return None;
    }
    let lead = HEAD_MAX.saturating_sub(headers).next_multiple_of(LINE);
    (lead < payload).then_some(lead)
}

impl Nic {
    /// From now on payload may go out from where it lies, as a piece of its own, on ports that can carry it so.
    pub fn lend_payload(&mut self) {
        self.loans = Loans::new();
    }

    /// What the devices of ports may read by themselves of a region that is registered. On such ports ([`super::Pieces::Mapped`]) nothing else is lent. Who
    /// takes it back deregisters the region first, and waits until nothing of it is out ([`Nic::lends`]).
    pub fn set_mapped(&mut self, key: Key, mapped: Option<Mapped>) {
        self.memory.set_mapped(key, mapped);
    }

    /// May frames still refer to a region? It is forgotten already, or about to be; after a while nothing refers to it. Frames that wait for
    /// their ports get copies at the next call of [`Nic::transmit`].
    pub fn lends(&mut self, key: Key) -> bool {
        let lends = self.loans.uses(key);
        self.recall |= lends;
        lends
    }

    /// A QP's messages wait for their payload to come back.
    #[cold]
    pub(super) fn hold(&mut self, slot: usize) {
        if !self.holding.contains(&(slot as u32)) {
            self.holding.push(slot as u32);
        }
    }

    /// Looks again after payload that is waited for.
    #[cold]
    pub(super) fn call_in<T: TxBurst>(&mut self, now: Ns, out: &mut T) {
        out.copy_pieces();
        self.recall = false;
        for slot in core::mem::take(&mut self.holding) {
            let slot = slot as usize;
            let Some((qp, mut outcome)) = self.with_outcome(now, slot) else { continue };
            qp.requester.complete_held(&mut outcome);
            if qp.requester.is_held() {
                self.hold(slot);
            }
            self.refresh(slot);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::tests::{acknowledge, nic};
    use super::super::{CompletionEntry, NicParams, Pieces, PortId, QpState, Qpn, Region, Status, WriteRequest};
    use super::*;
    use crate::memory::Lent;
    use crate::memory::{Access, Buffer, DEVICE_KEEPS, Domain, Keys};
    use crate::wire::{Packet, Rules, parse};
    use std::sync::Arc;

    /// A driver that keeps its frames, with what they refer to.
    pub(in crate::nic) struct Keeper {
        pieces: Pieces,
        /// Of each frame what is before, the piece if it has one, and what is behind.
        frames: Vec<(Vec<u8>, Option<Lent>, Vec<u8>)>,
        open: Option<(Vec<u8>, Option<Lent>, Vec<u8>)>,
        copies: usize,
    }

    impl Default for Keeper {
        fn default() -> Keeper {
            Keeper { pieces: Pieces::All, frames: Vec::new(), open: None, copies: 0 }
        }
    }

    impl TxBurst for Keeper {
        fn slot(&mut self, _: PortId, len: usize) -> Option<&mut [u8]> {
            Some(&mut self.open.insert((vec![0xEE; len], None, Vec::new())).0)
        }

        fn takes_pieces(&self, _: PortId) -> Pieces {
            self.pieces
        }

        fn slot_around(&mut self, _: PortId, head: usize, piece: Lent, tail: usize) -> Option<(&mut [u8], &mut [u8])> {
            let (head, _, tail) = self.open.insert((vec![0xEE; head], Some(piece), vec![0xEE; tail]));
            Some((head, tail))
        }

        fn copy_pieces(&mut self) {
            self.copies += 1;
        }

        fn commit(&mut self) {
            self.frames.extend(self.open.take());
        }
    }

    impl Keeper {
        /// A frame as it is on the wire.
        pub(in crate::nic) fn frame(&self, at: usize) -> Vec<u8> {
            let (head, piece, tail) = &self.frames[at];
            let mut middle = vec![0; piece.as_ref().map_or(0, Lent::len)];
            if let Some(piece) = piece {
                piece.extent().copy_to(&mut middle);
            }
            [&head[..], &middle, tail].concat()
        }

        pub(in crate::nic) fn packet(&self, at: usize) -> Packet {
            let frame = self.frame(at);
            let packet = parse(&frame, frame.len(), &Rules::default()).unwrap();
            assert!(packet.icrc_ok(&frame));
            packet
        }
    }

    /// A NIC with a QP that lends, and 10,000 bytes that differ.
    fn lender(lends: bool) -> (Nic, Qpn, crate::memory::Key, Arc<Buffer>) {
        let (mut nic, qpns) = nic(NicParams::default(), 1);
        if lends {
            nic.lend_payload();
        }
        let memory = Buffer::new(10_000);
        memory.write(0, &(0..10_000u32).map(|i| (i * 7 % 251) as u8).collect::<Vec<u8>>()).unwrap();
        let key = Keys::default().allocate().unwrap();
        let region = Region { domain: Domain(1), access: Access::default(), iova: 0, memory: Arc::clone(&memory) };
        nic.register(key, region);
        (nic, qpns[0], key, memory)
    }

    fn write(nic: &mut Nic, qpn: Qpn, key: crate::memory::Key, at: u64, len: u32) {
        let request = WriteRequest {
            wr_id: at,
            local_key: key,
            local_va: at,
            remote_key: key,
            remote_va: 0,
            len,
            immediate: None,
            signaled: true,
        };
        nic.post_write(qpn, &request).unwrap();
    }

    fn transmit(nic: &mut Nic, now: u64, keeper: &mut Keeper) -> usize {
        let frames = nic.transmit(Ns(now), keeper);
        nic.sent(Ns(now), PortId(0), frames);
        frames
    }

    fn ended(nic: &mut Nic) -> Vec<(u64, Status)> {
        let of = |entry: CompletionEntry| (entry.completion.wr_id, entry.completion.status);
        core::iter::from_fn(|| nic.poll()).map(of).collect()
    }

    #[test]
    fn lent_payload_makes_the_very_frames_that_copied_payload_makes() {
        let frames = |lends| {
            let (mut nic, qpn, key, _memory) = lender(lends);
            let mut keeper = Keeper::default();
            // Full packets and the last, one with a pad, at an odd address; what is too short to be lent; and several that are alike.
            let short = LENT_MIN as u32;
            for (at, len) in
                [(0, 10_000), (1, 1_025), (3, short), (0, short - 1), (0, 0), (5, 4_096), (9, 4_096), (0, 4_096)]
            {
                write(&mut nic, qpn, key, at, len);
            }
            transmit(&mut nic, 0, &mut keeper);
            let pieces: Vec<usize> =
                keeper.frames.iter().map(|(_, lent, _)| lent.as_ref().map_or(0, Lent::len)).collect();
            (
                (0..10).map(|at| keeper.frame(at)).collect::<Vec<_>>(),
                pieces,
                [2, 7, 8, 9].map(|at| keeper.packet(at).payload_len),
            )
        };
        let (lent, pieces, last) = frames(true);
        // 74 bytes of headers, and 192 of payload in the first piece.
        assert_eq!(
            (pieces, last),
            (vec![3_904, 3_904, 1_616, 833, 832, 0, 0, 3_904, 3_904, 3_904], [1_808, 4_096, 4_096, 4_096])
        );
        let (copied, pieces, _) = frames(false);
        assert_eq!(pieces, [0; 10]);
        assert!(lent == copied);
    }

    #[test]
    fn a_port_that_wants_memory_mapped_gets_copies_of_all_that_is_not() {
        let (mut nic, qpn, key, memory) = lender(true);
        let mut keeper = Keeper { pieces: Pieces::Mapped, ..Keeper::default() };
        let pieces = |nic: &mut Nic, keeper: &mut Keeper| {
            write(nic, qpn, key, 0, 10_000);
            transmit(nic, 0, keeper);
            keeper.frames.drain(..).map(|(_, lent, _)| lent.map_or(0, |lent| lent.len())).collect::<Vec<_>>()
        };
        assert_eq!(pieces(&mut nic, &mut keeper), [0; 3], "nothing is mapped");
        // What is before the piece is copied, so it may lie outside.
        let mapped = |ports, from: usize| Mapped { ports, start: memory.address() as usize + from, len: 8_192 - from };
        nic.set_mapped(key, Some(mapped(1, 192)));
        assert_eq!(pieces(&mut nic, &mut keeper), [3_904, 3_904, 0], "the last packet leaves it");
        nic.set_mapped(key, Some(mapped(1, 193)));
        assert_eq!(pieces(&mut nic, &mut keeper), [0, 3_904, 0], "so does the first by a byte");
        nic.set_mapped(key, Some(mapped(0xFE, 0)));
        assert_eq!(pieces(&mut nic, &mut keeper), [0; 3], "it was mapped for other ports");
        keeper.pieces = Pieces::None;
        nic.set_mapped(key, Some(mapped(1, 0)));
        assert_eq!(pieces(&mut nic, &mut keeper), [0; 3]);
    }

    #[test]
    fn a_message_completes_when_its_last_frame_is_gone_and_not_with_its_acknowledgement() {
        let (mut nic, qpn, key, _memory) = lender(true);
        let mut keeper = Keeper::default();
        write(&mut nic, qpn, key, 0, 8_192);
        write(&mut nic, qpn, key, 64, 64);
        assert_eq!(transmit(&mut nic, 0, &mut keeper), 3);
        acknowledge(&mut nic, qpn, 5_000, 2, 1);
        assert_eq!((ended(&mut nic), nic.pending(qpn)), (vec![], 2), "the second waits behind the first");
        keeper.frames.remove(0);
        transmit(&mut nic, 6_000, &mut keeper);
        assert_eq!((ended(&mut nic), keeper.copies), (vec![], 1), "what waits for its port is called in");
        keeper.frames.clear();
        assert_eq!(transmit(&mut nic, 7_000, &mut keeper), 0);
        assert_eq!(ended(&mut nic), [(0, Status::Success), (64, Status::Success)]);
        transmit(&mut nic, 8_000, &mut keeper);
        assert_eq!(keeper.copies, 2, "nothing is called in any more");
        // Nor is it asked for again, however late it came.
        nic.on_time(Ns(1_000_000));
        assert_eq!((transmit(&mut nic, 1_000_000, &mut keeper), nic.stats().completion_requests.get()), (0, 0));
    }

    #[test]
    fn a_device_that_keeps_its_frames_delays_a_message_and_does_not_stop_it() {
        let (mut nic, qpn, key, memory) = lender(true);
        let mapped = Mapped { ports: 1, start: memory.address() as usize, len: 8_192 };
        nic.set_mapped(key, Some(mapped));
        let mut keeper = Keeper { pieces: Pieces::Mapped, ..Keeper::default() };
        write(&mut nic, qpn, key, 0, 4_096);
        write(&mut nic, qpn, key, 64, 4_096);
        assert_eq!(transmit(&mut nic, 1_000, &mut keeper), 2);
        acknowledge(&mut nic, qpn, 5_000, 1, 2);
        transmit(&mut nic, 999 + DEVICE_KEEPS, &mut keeper);
        assert_eq!((ended(&mut nic), nic.pending(qpn)), (vec![], 2));
        transmit(&mut nic, 1_000 + DEVICE_KEEPS, &mut keeper);
        assert_eq!(ended(&mut nic), [(0, Status::Success), (64, Status::Success)]);
        assert!(nic.deregister(key) && nic.lends(key), "its region stays mapped");
        keeper.frames.clear();
        assert!(!nic.lends(key));
    }

    #[test]
    fn an_acknowledgement_that_was_overtaken_takes_back_nothing_from_those_that_wait() {
        let (mut nic, qpn, key, _memory) = lender(true);
        let mut keeper = Keeper::default();
        write(&mut nic, qpn, key, 0, 4_096);
        write(&mut nic, qpn, key, 1, 4_096);
        transmit(&mut nic, 0, &mut keeper);
        acknowledge(&mut nic, qpn, 5_000, 1, 1);
        acknowledge(&mut nic, qpn, 5_100, 0, 0);
        keeper.frames.clear();
        transmit(&mut nic, 6_000, &mut keeper);
        assert_eq!(ended(&mut nic), [(0, Status::Success), (1, Status::Success)]);
    }

    #[test]
    fn a_qp_that_is_closed_ends_its_requests_at_once_and_its_region_is_told_of_until_the_frames_are_gone() {
        let (mut nic, qpn, key, memory) = lender(true);
        let mut keeper = Keeper::default();
        write(&mut nic, qpn, key, 0, 4_096);
        transmit(&mut nic, 0, &mut keeper);
        assert!(nic.close(Ns(1_000), qpn) && nic.state(qpn) != Some(QpState::Error));
        assert_eq!(ended(&mut nic), [(0, Status::Flushed)]);
        assert!(nic.deregister(key) && nic.lends(key));
        transmit(&mut nic, 2_000, &mut keeper);
        assert_eq!(keeper.copies, 1);
        assert_eq!(Arc::strong_count(&memory), 2, "what a frame refers to stays");
        assert!(keeper.packet(0).payload_len == 4_096);
        keeper.frames.clear();
        assert!(!nic.lends(key));
        assert_eq!(Arc::strong_count(&memory), 1);
    }
}
