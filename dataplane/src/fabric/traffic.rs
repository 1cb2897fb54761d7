//! Frames on their way: into a queue, onto a link, and out of it.

use super::events::What;
use super::label::Class;
use super::link::{End, NEVER};
use super::route::Next;
use super::stats::FabricDrop;
use super::store::Cell;
use super::{Delivery, EcnParams, FRAME_MAX, Fabric, Frame, Ns, PS, Stage};
use rand::RngExt;

impl<F: Frame> Fabric<F> {
    /// A NIC sends a frame.
    pub(super) fn enter(&mut self, link: u32, frame: F) {
        self.totals.injected += 1;
        let label = self.reader.read(frame.bytes(), frame.len());
        let too_long = frame.len() > FRAME_MAX;
        let frame = self.store.insert(Cell { frame, label, cuts: 0 });
        if too_long {
            self.lose(link, frame, FabricDrop::TooLong);
        } else {
            self.enqueue(link, frame);
        }
    }

    /// Drops a frame, on the account of a link.
    pub(super) fn lose(&mut self, link: u32, frame: u32, reason: FabricDrop) {
        self.store.remove(frame);
        self.stats[link as usize].dropped.count(reason);
        self.totals.dropped.count(reason);
    }

    /// A frame comes to the queue before a link.
    fn enqueue(&mut self, number: u32, frame: u32) {
        let (link, stats) = (&mut self.links[number as usize], &mut self.stats[number as usize]);
        if !link.is_up() {
            return self.lose(number, frame, FabricDrop::LinkDown);
        }
        let Some(cell) = self.store.get_mut(frame) else { return };
        let from_switch = link.stage != Stage::FromNic;
        let (data, control) = match from_switch {
            true => (self.plan.queue.data, self.plan.queue.control),
            false => (self.plan.nic_queue, self.plan.nic_queue),
        };
        let idle = link.is_idle(self.now);
        let fits = |room: u32, waiting: u32, size: u32| idle || u64::from(waiting) + u64::from(size) <= room.into();
        if cell.label.class == Class::Data {
            let waiting = link.waiting(Class::Data);
            if !fits(data, waiting, cell.label.size()) {
                let dscp = match link.stage {
                    Stage::ToNic => self.plan.dscp.trimmed_last_hop,
                    _ => self.plan.dscp.trimmed,
                };
                let trims = from_switch && self.plan.queue.trimming;
                let Some(len) = trims.then(|| cell.label.trim(cell.frame.bytes_mut(), dscp)).flatten() else {
                    return self.lose(number, frame, FabricDrop::DataFull);
                };
                cell.frame.truncate(len);
                stats.trimmed += 1;
            } else if cell.label.capable && from_switch {
                let last = link.stage == Stage::ToNic;
                let ecn = self.plan.queue.ecn.filter(|ecn| ecn.last_hop || !last);
                if ecn.is_some_and(|ecn| marks(&ecn, waiting, &mut self.rng)) {
                    cell.label.mark(cell.frame.bytes_mut());
                    stats.marked += 1;
                }
            }
        }
        let (class, size) = (cell.label.class, cell.label.size());
        if class == Class::Control && !fits(control, link.waiting(class), size) {
            return self.lose(number, frame, FabricDrop::ControlFull);
        }
        if idle {
            return self.send(number, frame);
        }
        let waiting = link.push(&mut self.store, frame, class, size);
        let most = match class {
            Class::Data => &mut stats.max_data_bytes,
            Class::Control => &mut stats.max_control_bytes,
        };
        *most = waiting.max(*most);
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
        self.send(number, frame);
        let link = &mut self.links[number as usize];
        if link.has_waiting() {
            link.serve_at = link.free_at;
            self.calendar.push(link.serve_at, What::Serve(number));
        }
    }

    /// A frame goes onto a link that is free.
    fn send(&mut self, number: u32, frame: u32) {
        let (link, stats) = (&mut self.links[number as usize], &mut self.stats[number as usize]);
        let Some(cell) = self.store.get_mut(frame) else { return };
        let busy = link.occupy(self.now, &cell.label);
        stats.count_sent(cell.label.len, busy);
        self.totals.hops += 1;
        cell.cuts = link.cuts;
        if link.black_hole {
            return self.lose(number, frame, FabricDrop::BlackHole);
        }
        if link.loss > 0.0 && self.rng.random_bool(link.loss) {
            return self.lose(number, frame, FabricDrop::Loss);
        }
        let params = self.plan.link(link.stage);
        if params.corrupt > 0.0 && self.rng.random_bool(params.corrupt) && !cell.frame.bytes().is_empty() {
            let bit = self.rng.random_range(0..cell.frame.bytes().len() * 8);
            cell.frame.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
            cell.label = self.reader.read(cell.frame.bytes(), cell.frame.len());
        }
        let mut delay = params.delay_ns * PS;
        if params.reorder > 0.0 && self.rng.random_bool(params.reorder) {
            delay += self.rng.random_range(0..=params.late_ns * PS);
        }
        let at = link.free_at.saturating_add(delay);
        self.calendar.push(at, What::Arrive { link: number, frame });
    }

    /// A frame has come over a link.
    pub(super) fn arrive(&mut self, number: u32, frame: u32) {
        let link = &self.links[number as usize];
        let Some(cell) = self.store.get_mut(frame) else { return };
        if cell.cuts != link.cuts {
            return self.lose(number, frame, FabricDrop::LinkDown);
        }
        match link.to {
            End::Nic(nic, port) => {
                if let Some(cell) = self.store.remove(frame) {
                    self.totals.delivered += 1;
                    let at = Ns(self.now.div_ceil(PS));
                    self.arrived.push_back(Delivery { at, nic, port, frame: cell.frame });
                }
            }
            End::Switch(switch) => {
                match self.router.next(switch, &cell.label, |link| self.links[link as usize].is_up()) {
                    Err(reason) => self.lose(number, frame, reason),
                    Ok(Next { link, usids }) => {
                        if let Some(usids) = usids {
                            cell.label.usids = Some(usids);
                            cell.label.write_usids(cell.frame.bytes_mut(), usids);
                        }
                        self.enqueue(link, frame);
                    }
                }
            }
        }
    }
}

/// Whether a frame is marked that finds so many bytes waiting.
fn marks(ecn: &EcnParams, waiting: u32, rng: &mut rand_xoshiro::Xoshiro256PlusPlus) -> bool {
    if waiting < ecn.min {
        return false;
    }
    if waiting >= ecn.max {
        return true;
    }
    rng.random_range(0..ecn.max - ecn.min) < waiting - ecn.min
}
