//! The slow path: frames that are not MRC, between the ports and who looks after neighbours.
//!
//! An engine has no part in ARP, neighbour discovery or ping. It hands such frames on, and sends what it is given; both in frames of a fixed
//! size, so that nothing is allocated on the way.

use super::rotations::FullPorts;
use super::transmit::Accepting;
use super::{DropReason, Nic, PortId, RxFrame, TxBurst};
use crate::Ns;
use crate::memory::copy_bytes;
use crate::time::MS;
use crate::wire::{Refusal, is_for_neighbours};

/// Bytes of a frame on the slow path at most: any ping that fits a usual Ethernet frame.
pub const SLOW_FRAME_MAX: usize = 2_048;
/// Frames of the slow path that one turn sends at most: MRC is what the NIC is for.
const SLOW_A_TURN: usize = 4;
/// A frame whose port takes none for so long is given up: others wait behind it, and whoever asked asks again.
const PATIENCE_NS: u64 = 10 * MS;

/// A frame of the slow path.
#[derive(Clone)]
pub struct SlowFrame {
    /// The port that it came in by, or is to leave by.
    pub port: PortId,
    len: u16,
    bytes: [u8; SLOW_FRAME_MAX],
}

impl SlowFrame {
    /// A frame with these bytes; `None` when there are more than [`SLOW_FRAME_MAX`], or none.
    #[must_use]
    pub fn new(port: PortId, bytes: &[u8]) -> Option<SlowFrame> {
        let mut frame = SlowFrame { port, len: u16::try_from(bytes.len()).ok()?, bytes: [0; SLOW_FRAME_MAX] };
        frame.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        (!bytes.is_empty()).then_some(frame)
    }

    fn of<F: RxFrame>(port: PortId, frame: &F) -> Option<SlowFrame> {
        let mut copy = SlowFrame { port, len: u16::try_from(frame.len()).ok()?, bytes: [0; SLOW_FRAME_MAX] };
        let room = copy.bytes.get_mut(..frame.len())?;
        // A chain that is shorter than it says would leave zeros: no checksum holds then.
        copy_bytes(frame, 0, room);
        Some(copy)
    }

    /// Its bytes, without FCS.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl core::fmt::Debug for SlowFrame {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "SlowFrame({:?}, {:02x?})", self.port, self.bytes())
    }
}

/// The other end of the slow path. It runs on the worker: it must not wait.
pub trait SlowPath: Send {
    /// Takes a frame that came in. `false` when there is no room: it is dropped, and counted.
    fn take(&mut self, frame: SlowFrame) -> bool;

    /// The next frame to send.
    fn next(&mut self) -> Option<SlowFrame>;
}

/// The slow path of an engine.
pub(super) struct Slow {
    end: Box<dyn SlowPath>,
    /// A frame whose port was full, and since when.
    held: Option<(SlowFrame, Ns)>,
}

impl Nic {
    /// Puts the slow path into its place, or takes it out: without one, what it would take counts as dropped.
    pub fn set_slow_path(&mut self, end: Option<Box<dyn SlowPath>>) {
        self.slow = end.map(|end| Box::new(Slow { end, held: None }));
    }

    /// A frame that is not MRC, for `refusal`.
    #[cold]
    pub(super) fn take_slow<F: RxFrame>(
        &mut self,
        port: PortId,
        frame: &F,
        refusal: Refusal,
    ) -> Result<(), DropReason> {
        let not_mrc = matches!(refusal, Refusal::NotIp | Refusal::NotUdp);
        let Some(slow) = self.slow.as_mut().filter(|_| not_mrc && is_for_neighbours(frame.head())) else {
            return Err(refusal.into());
        };
        let frame = SlowFrame::of(port, frame).ok_or(DropReason::SlowPathTooLong)?;
        if !slow.end.take(frame) {
            return Err(DropReason::SlowPathFull);
        }
        self.stats.rx_slow.add(1);
        Ok(())
    }

    /// Sends frames of the slow path; how many.
    #[inline]
    pub(super) fn transmit_slow<T: TxBurst>(&mut self, now: Ns, out: &mut T, full: &mut FullPorts) -> usize {
        let mut written = 0;
        while written < SLOW_A_TURN
            && let Some(slow) = &mut self.slow
            && let Some((frame, since)) = slow.held.take().or_else(|| slow.end.next().map(|frame| (frame, now)))
        {
            if !self.write_slow(now, &frame, out, full) {
                if now.since(since) < PATIENCE_NS && usize::from(frame.port.0) < self.ports.len() {
                    if let Some(slow) = &mut self.slow {
                        slow.held = Some((frame, since));
                    }
                    break;
                }
                self.stats.slow_unsent.add(1);
                continue;
            }
            written += 1;
        }
        written
    }

    #[cold]
    fn write_slow<T: TxBurst>(&mut self, now: Ns, frame: &SlowFrame, out: &mut T, full: &mut FullPorts) -> bool {
        let bytes = frame.bytes();
        if usize::from(frame.port.0) >= self.ports.len() || full.has(frame.port) {
            return false;
        }
        let Some(room) = out.slot(frame.port, bytes.len()).filter(|room| room.len() == bytes.len()) else {
            return false;
        };
        room.copy_from_slice(bytes);
        out.commit();
        self.stats.tx_slow.add(1);
        let accepting = Accepting::one(bytes.len(), false, None);
        self.committed(now, frame.port, accepting, full);
        true
    }
}
