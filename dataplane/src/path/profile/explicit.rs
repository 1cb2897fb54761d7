//! The list of an EXPLICIT profile.

use super::error::{ArgumentError, UnfitEv};
use super::format::EvFormat;
use super::ports::PortSet;
use super::record::Ev;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// Which of an EV's copies a replacement is for. An EV that is listed twice gets twice its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// The first.
    One,
    /// Every one.
    All,
}

/// EVs in the order of the controller, of a length that was fixed before.
#[derive(Clone, Debug)]
pub(super) struct List {
    /// Populated slots; those behind are not.
    evs: Vec<Ev>,
    len: u32,
    /// Where each value is, and how often.
    held: BTreeMap<u32, Held>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    ev: Ev,
    copies: u32,
}

impl List {
    pub(super) const fn new(len: u32) -> List {
        List { evs: Vec::new(), len, held: BTreeMap::new() }
    }

    pub(super) fn evs(&self) -> &[Ev] {
        &self.evs
    }

    pub(super) fn find(&self, ev: u32) -> Option<Ev> {
        self.held.get(&ev).map(|held| held.ev)
    }

    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn unpopulated(&self) -> u32 {
        self.len - self.evs.len() as u32
    }

    /// The ports that have an EV.
    pub(super) fn ports(&self) -> PortSet {
        PortSet::from_mask(self.held.values().fold(0, |mask, held| mask | 1 << (held.ev.port - 1)))
    }

    /// Populates the next slots: all of `evs`, or none.
    pub(super) fn populate(&mut self, evs: &[Ev], format: &EvFormat, ports: PortSet) -> Result<(), ArgumentError> {
        let free = self.unpopulated();
        if evs.len() > free as usize {
            return Err(ArgumentError::TooMany { given: evs.len(), free });
        }
        for (n, &ev) in evs.iter().enumerate() {
            if let Err(error) = check(ev, format, ports).and_then(|()| add(&mut self.held, ev)) {
                evs[..n].iter().for_each(|ev| self.drop_copy(ev.value));
                return Err(error);
            }
        }
        self.evs.extend_from_slice(evs);
        Ok(())
    }

    fn drop_copy(&mut self, value: u32) {
        if let Some(held) = self.held.get_mut(&value) {
            held.copies -= 1;
            if held.copies == 0 {
                self.held.remove(&value);
            }
        }
    }

    /// A list of this length without EVs.
    pub(super) const fn emptied(&self) -> List {
        List::new(self.len)
    }

    /// Puts `new` into the place of `current`, and tells in how many places.
    pub(super) fn replace(
        &mut self,
        current: u32,
        new: Ev,
        copies: Copies,
        format: &EvFormat,
        ports: PortSet,
    ) -> Result<u32, ArgumentError> {
        check(new, format, ports)?;
        let Held { ev, copies: all } = *self.held.get(&current).ok_or(ArgumentError::NotListed { ev: current })?;
        let count = match copies {
            Copies::One => 1,
            Copies::All => all,
        };
        if count < all && new.value == current {
            same(ev, new)?;
        } else if let Some(held) = self.held.get(&new.value).filter(|_| new.value != current) {
            same(held.ev, new)?;
        }
        for slot in self.evs.iter_mut().filter(|slot| slot.value == current).take(count as usize) {
            *slot = new;
        }
        if count == all {
            self.held.remove(&current);
        } else {
            self.held.insert(current, Held { ev, copies: all - count });
        }
        self.held.entry(new.value).or_insert(Held { ev: new, copies: 0 }).copies += count;
        Ok(count)
    }

    /// Whether the replacement would take the last EV of a port.
    pub(super) fn would_idle(&self, current: u32, new: Ev, copies: Copies) -> bool {
        let Some(held) = self.held.get(&current).filter(|held| held.ev.port != new.port) else { return false };
        let all = copies == Copies::All || held.copies == 1;
        all && !self.held.values().any(|other| other.ev.port == held.ev.port && other.ev.value != current)
    }

    /// Whether every EV fits a format.
    pub(super) fn fits(&self, format: &EvFormat, ports: PortSet) -> Result<(), ArgumentError> {
        self.held.values().try_for_each(|held| check(held.ev, format, ports))
    }
}

/// Feedback names an EV by its value alone, so a value has one port and one path.
fn same(held: Ev, new: Ev) -> Result<(), ArgumentError> {
    if held == new { Ok(()) } else { Err(ArgumentError::Elsewhere { ev: new.value, port: held.port }) }
}

fn add(held: &mut BTreeMap<u32, Held>, ev: Ev) -> Result<(), ArgumentError> {
    let entry = held.entry(ev.value).or_insert(Held { ev, copies: 0 });
    same(entry.ev, ev)?;
    entry.copies += 1;
    Ok(())
}

fn check(ev: Ev, format: &EvFormat, ports: PortSet) -> Result<(), ArgumentError> {
    if !ports.contains(ev.port) {
        return Err(ArgumentError::NotAPort { ev: ev.value, port: ev.port, ports });
    }
    let unfit = |reason| ArgumentError::Unfit { ev: ev.value, reason };
    match (format, ev.segment) {
        (EvFormat::Usid(_), None) => Err(unfit(UnfitEv::NoSegment)),
        (EvFormat::Usid(_), Some(segment)) => check_usids(segment, format).map_err(unfit),
        (_, Some(_)) => Err(unfit(UnfitEv::Segment)),
        (EvFormat::UdpPort(_), None) if ev.value > u32::from(u16::MAX) => Err(unfit(UnfitEv::BeyondPort)),
        (_, None) if ev.value & super::field::ones(format.unused()) != 0 => {
            Err(unfit(UnfitEv::UnusedBits { unused: format.unused() }))
        }
        _ => Ok(()),
    }
}

/// uSIDs without a gap, and no more than the format has.
fn check_usids(segment: Ipv6Addr, format: &EvFormat) -> Result<(), UnfitEv> {
    let [_, _, usids @ ..] = segment.segments();
    let used = usids.iter().take_while(|&&usid| usid != 0).count();
    let room = format.widths().len() - 1;
    if used == 0 || usids[used..].iter().any(|&usid| usid != 0) {
        return Err(UnfitEv::ZeroUsid);
    }
    if used > room { Err(UnfitEv::TooManyUsids { given: used, room }) } else { Ok(()) }
}
