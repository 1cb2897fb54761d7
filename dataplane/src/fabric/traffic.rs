//! Frames on their way: into a queue, onto a link, and out of it.

use super::events::What;
use super::label::{Class, Label};
use super::link::{End, Link, NEVER};
use super::route::Next;
use super::stats::{FabricDrop, Fate};
use super::store::Cell;
use super::{Delivery, EcnParams, FRAME_MAX, Fabric, Frame, Ns, PS, Plan, Stage};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

impl<F: Frame> Fabric<F> {
    /// A NIC sends a frame.
    pub(super) fn enter(&mut self, link: u32, frame: F) {
        self.totals.injected += 1;
        let label = self.reader.read(frame.bytes(), frame.len());
        let too_long = frame.len() > FRAME_MAX;
        let frame = self.store.insert(Cell { frame, label, link, cuts: 0 });
        if too_long {
            self.lose(link, frame, FabricDrop::TooLong);
        } else {
            self.enqueue(link, frame);
        }
    }

    /// Drops a frame, on the account of a link.
    pub(super) fn lose(&mut self, link: u32, frame: u32, reason: FabricDrop) {
        self.store.remove(frame);
        self.fates[link as usize].dropped.count(reason);
        self.totals.dropped.count(reason);
    }

    /// A frame comes to the queue before a link.
    fn enqueue(&mut self, number: u32, frame: u32) {
        let link = &mut self.links[number as usize];
        let Some(cell) = self.store.get_mut(frame) else { return };
        if !link.is_up() {
            return self.lose(number, frame, FabricDrop::LinkDown);
        }
        let idle = link.is_idle(self.now);
        let door = Door { plan: &self.plan, link, idle };
        if let Err(reason) = door.admit(cell, &mut self.fates[number as usize], &mut self.rng) {
            return self.lose(number, frame, reason);
        }
        if idle {
            return self.send(number, frame);
        }
        let Label { class, .. } = cell.label;
        let size = cell.label.size();
        link.push(&mut self.store, frame, class, size);
        self.call(number);
    }

    /// Sees to it that a link serves its queue once it is free.
    fn call(&mut self, number: u32) {
        let link = &mut self.links[number as usize];
        if link.serve_at == NEVER {
            link.serve_at = link.free_at;
            self.calendar.push(link.serve_at, What::Serve(number));
        }
    }

    /// A link takes the next frame of its queue. A service that was called off, since the link went down, is told by its time.
    pub(super) fn serve(&mut self, number: u32, at: u64) {
        let link = &mut self.links[number as usize];
        if link.serve_at != at {
            return;
        }
        link.serve_at = NEVER;
        let Some(frame) = link.pop(&self.store) else { return };
        let more = link.has_waiting();
        self.send(number, frame);
        if more {
            self.call(number);
        }
    }

    /// A frame goes onto a link that is free.
    fn send(&mut self, number: u32, frame: u32) {
        let link = &mut self.links[number as usize];
        let Some(cell) = self.store.get_mut(frame) else { return };
        link.occupy(self.now, &cell.label);
        self.totals.hops += 1;
        (cell.link, cell.cuts) = (number, link.cuts);
        if link.black_hole {
            return self.lose(number, frame, FabricDrop::BlackHole);
        }
        if chance(link.loss, &mut self.rng) {
            return self.lose(number, frame, FabricDrop::Loss);
        }
        let params = self.plan.link(link.stage);
        if chance(params.corrupt, &mut self.rng) && !cell.frame.bytes().is_empty() {
            let bit = self.rng.random_range(0..cell.frame.bytes().len() * 8);
            cell.frame.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
            cell.label = self.reader.read(cell.frame.bytes(), cell.frame.len());
        }
        let mut delay = params.delay_ns * PS;
        if chance(params.reorder, &mut self.rng) {
            delay += self.rng.random_range(0..=params.late_ns * PS);
        }
        self.calendar.push(link.free_at.saturating_add(delay), What::Arrive(frame));
    }

    /// A frame has come over its link.
    pub(super) fn arrive(&mut self, frame: u32) {
        let Some(cell) = self.store.get_mut(frame) else { return };
        let number = cell.link;
        let link = &self.links[number as usize];
        if cell.cuts != link.cuts {
            return self.lose(number, frame, FabricDrop::LinkDown);
        }
        let switch = match link.to {
            End::Switch(switch) => switch,
            End::Nic(nic, port) => {
                let Some(Cell { frame, .. }) = self.store.remove(frame) else { return };
                self.totals.delivered += 1;
                let at = Ns(self.now.div_ceil(PS));
                return self.arrived.push_back(Delivery { at, nic, port, frame });
            }
        };
        let usids = cell.label.usids(cell.frame.bytes());
        match self.router.next(switch, &cell.label, usids, |link| self.links[link as usize].is_up()) {
            Err(reason) => self.lose(number, frame, reason),
            Ok(Next { link, usids }) => {
                if let Some(usids) = usids {
                    cell.label.write_usids(cell.frame.bytes_mut(), usids);
                }
                self.enqueue(link, frame);
            }
        }
    }
}

/// What decides whether a frame may wait, and how.
struct Door<'a> {
    plan: &'a Plan,
    link: &'a Link,
    idle: bool,
}

impl Door<'_> {
    /// Whether a frame fits. On an idle link it does not wait.
    fn fits(&self, room: u32, label: &Label) -> bool {
        let waiting = self.link.waiting(label.class);
        self.idle || u64::from(waiting) + u64::from(label.size()) <= room.into()
    }

    /// Marks the frame, or trims it, or says why it is dropped.
    #[inline]
    fn admit<F: Frame>(
        &self,
        cell: &mut Cell<F>,
        fate: &mut Fate,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<(), FabricDrop> {
        let queue = &self.plan.queue;
        let (data, control) = match self.link.stage {
            Stage::FromNic => (self.plan.nic_queue, self.plan.nic_queue),
            Stage::Between | Stage::ToNic => (queue.data, queue.control),
        };
        if cell.label.class == Class::Data {
            if self.fits(data, &cell.label) {
                if cell.label.capable && self.ecn().is_some_and(|ecn| marks(ecn, self.link.waiting(Class::Data), rng)) {
                    cell.label.mark(cell.frame.bytes_mut());
                    fate.marked += 1;
                }
                return Ok(());
            }
            self.trim(cell).ok_or(FabricDrop::DataFull)?;
            fate.trimmed += 1;
        }
        if self.fits(control, &cell.label) { Ok(()) } else { Err(FabricDrop::ControlFull) }
    }

    /// The thresholds of this queue, if it marks.
    fn ecn(&self) -> Option<&EcnParams> {
        let ecn = self.plan.queue.ecn.as_ref();
        ecn.filter(|ecn| match self.link.stage {
            Stage::FromNic => false,
            Stage::Between => true,
            Stage::ToNic => ecn.last_hop,
        })
    }

    fn trim<F: Frame>(&self, cell: &mut Cell<F>) -> Option<()> {
        let dscp = match self.link.stage {
            Stage::FromNic => return None,
            Stage::Between => self.plan.dscp.trimmed,
            Stage::ToNic => self.plan.dscp.trimmed_last_hop,
        };
        let trims = self.plan.queue.trimming;
        let len = trims.then(|| cell.label.trim(cell.frame.bytes_mut(), dscp)).flatten()?;
        cell.frame.truncate(len);
        Some(())
    }
}

/// Whether what has this share happens. What never does asks for no random number.
#[inline]
fn chance(share: f64, rng: &mut Xoshiro256PlusPlus) -> bool {
    share > 0.0 && rng.random_bool(share)
}

/// Whether a frame is marked that finds so many bytes waiting.
fn marks(ecn: &EcnParams, waiting: u32, rng: &mut Xoshiro256PlusPlus) -> bool {
    if waiting < ecn.min {
        return false;
    }
    if waiting >= ecn.max {
        return true;
    }
    rng.random_range(0..ecn.max - ecn.min) < waiting - ecn.min
}
