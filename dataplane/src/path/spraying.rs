//! The rotation over a destination's entropy values, and what feedback does to it (Scala MRC NIC documentation, Multipath; MRC paper,
//! sections II-A and II-E).

mod report;
#[cfg(test)]
mod tests;

pub use report::{EvCensus, EvReport};

use super::draw::EvSet;
use super::profile::{Copies, Ev};
use crate::Ns;
use crate::memory::prefetch;
use core::net::Ipv6Addr;
use rand::{Rng, RngExt};

/// How many values behind a marked one are looked at for an unmarked one.
const LOOK_AHEAD: usize = 7;

/// What is known of an entropy value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvState {
    /// In use.
    Good,
    /// Passed over at its next turn, once.
    Skip,
    /// Out of the rotation since a timeout, until a probe on it is answered.
    AssumedBad,
    /// Taken out by the controller, until the controller lets it in again. Never used.
    Denied,
}

impl EvState {
    /// Its name in records and answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            EvState::Good => "good",
            EvState::Skip => "skip",
            EvState::AssumedBad => "assumed_bad",
            EvState::Denied => "denied",
        }
    }
}

/// Ports of a NIC as bits: bit i is the engine's port i, which controllers call i + 1.
pub type PortMask = u8;

const fn bit(ev: &Ev) -> PortMask {
    1 << (ev.port.wrapping_sub(1) & 7)
}

#[derive(Clone, Copy, Debug)]
struct Value {
    ev: Ev,
    skip: bool,
    bad: bool,
    /// When a bad value comes back by itself.
    back_at: Option<Ns>,
    denied: bool,
    /// Its turns in a rotation; 0 for a backup.
    turns: u32,
    sent: u64,
}

impl Value {
    const fn new(ev: Ev) -> Value {
        Value { ev, skip: false, bad: false, back_at: None, denied: false, turns: 0, sent: 0 }
    }

    const fn state(&self) -> EvState {
        match (self.denied, self.bad, self.skip) {
            (true, _, _) => EvState::Denied,
            (false, true, _) => EvState::AssumedBad,
            (false, false, true) => EvState::Skip,
            (false, false, false) => EvState::Good,
        }
    }
}

/// Which values of the rotation are used, as long as there are any: the first of these that has some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Usable {
    /// All are.
    All,
    /// Those that are neither bad, denied, nor at a port that is out.
    Good,
    /// All of those are bad: sending never stops.
    Bad,
    /// All ports are out.
    Out,
    /// All are denied.
    Nothing,
}

/// No value is passed over.
const NONE: u32 = u32::MAX;

/// The value that a packet is to take. All is of one width, without gaps: it need not be in memory then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// The value.
    pub value: u32,
    port: u32,
    /// Its turn in the rotation.
    at: u32,
    /// Its place among the values.
    index: u32,
    /// The value whose mark this clears, by its place, or [`NONE`].
    passed_over: u32,
}

impl Pick {
    /// A value that is of no rotation, by a port (from 1): to take it changes nothing.
    #[inline]
    #[must_use]
    pub const fn fixed(value: u32, port: u8) -> Pick {
        Pick { value, port: port as u32, at: NONE, index: NONE, passed_over: NONE }
    }

    /// Its port, from 1.
    #[inline]
    #[must_use]
    pub const fn port(&self) -> u8 {
        self.port as u8
    }
}

/// Why no value can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPath {
    /// All are denied.
    Denied,
    /// Those that may be used are all of ports that take no more for now.
    PortsFull,
}

/// The spraying state of a destination: one rotation for all QPs to it that use the same profile.
#[derive(Clone, Debug)]
pub struct Spraying {
    /// Every value, in ascending order.
    values: Vec<Value>,
    /// Indices into `values`, in the order of the rotation.
    rotation: Vec<u32>,
    /// Indices of the other values, in the order in which they replace denied ones. Denied values end up here too.
    backup: Vec<u32>,
    cursor: usize,
    /// Where replies, which take a path but no value of their own, go on.
    reply_cursor: usize,
    usable: Usable,
    /// For each turn of the rotation the first from it on that may be used; of no meaning where all may, or none.
    next: Vec<u32>,
    /// Values of the rotation that are not denied, in all: good, to be passed over, or assumed bad.
    allowed: usize,
    /// Values of the rotation that are assumed bad, and not denied.
    bad: usize,
    /// Values of the rotation that are to be passed over, and neither bad nor denied.
    skips: usize,
    /// Values that are denied, in the rotation or out of it.
    denied: usize,
    ports_out: PortMask,
    min_active: u32,
    assumed_bad_ns: Option<u64>,
    /// When the first bad value comes back by itself.
    recover_at: Option<Ns>,
}

impl Spraying {
    /// A rotation over a set, all of whose values are good, from a random start. A value that is assumed bad comes back by itself after
    /// `assumed_bad_ns` (ns), or without it when a probe is answered.
    ///
    /// # Panics
    /// Panics when the set has no active value.
    #[must_use]
    pub fn new<R: Rng>(set: &EvSet, assumed_bad_ns: Option<u64>, rng: &mut R) -> Spraying {
        let mut values: Vec<Value> = set.active.iter().chain(&set.backup).map(|&ev| Value::new(ev)).collect();
        values.sort_unstable_by_key(|value| value.ev.value);
        values.dedup_by_key(|value| value.ev.value);
        let index = |evs: &[Ev]| evs.iter().filter_map(|ev| find(&values, ev.value)).map(|at| at as u32).collect();
        let (rotation, backup): (Vec<u32>, Vec<u32>) = (index(&set.active), index(&set.backup));
        for &at in &rotation {
            values[at as usize].turns += 1;
        }
        let cursor = rng.random_range(0..rotation.len());
        let usable = Usable::All;
        let min_active = set.min_active;
        let allowed = values.iter().filter(|value| value.turns > 0).count();
        Spraying {
            values,
            rotation,
            backup,
            cursor,
            reply_cursor: cursor,
            usable,
            next: Vec::new(),
            allowed,
            bad: 0,
            skips: 0,
            denied: 0,
            ports_out: 0,
            min_active,
            assumed_bad_ns,
            recover_at: None,
        }
    }

    /// The value that the next packet takes, unless its port is among those that are `full`. Nothing changes until [`Spraying::take`].
    ///
    /// # Errors
    /// [`NoPath`].
    // Always: a pick in memory is written and read piece by piece.
    #[inline(always)]
    pub fn choose(&mut self, now: Ns, full: PortMask) -> Result<Pick, NoPath> {
        if self.recover_at.is_some_and(|at| now >= at) {
            self.recover(now);
        }
        let first = self.usable_from(self.cursor, full)?;
        if !self.value(first).skip {
            return Ok(self.chosen(first, NONE));
        }
        self.choose_behind(first, full)
    }

    /// The value that is taken instead of a marked one.
    #[inline(never)]
    fn choose_behind(&self, first: usize, full: PortMask) -> Result<Pick, NoPath> {
        let marked = self.rotation[first];
        let mut at = first;
        for _ in 0..LOOK_AHEAD {
            at = self.usable_from(self.after(at), full)?;
            if !self.value(at).skip {
                return Ok(self.chosen(at, marked));
            }
        }
        Ok(self.chosen(first, marked))
    }

    /// The packet goes out with the value that was chosen.
    #[inline(always)]
    pub fn take(&mut self, pick: &Pick) {
        if pick.at == NONE {
            return;
        }
        if pick.passed_over != NONE {
            let value = &mut self.values[pick.passed_over as usize];
            self.skips -= usize::from(value.state() == EvState::Skip);
            value.skip = false;
        }
        let at = pick.at as usize;
        self.cursor = self.after(at);
        self.values[pick.index as usize].sent += 1;
        // By the next turn of a value what is sent meanwhile has taken its place in the nearest cache.
        prefetch(self.value(self.cursor));
    }

    /// Chooses and takes; `None` when every value is denied.
    pub fn pick(&mut self, now: Ns) -> Option<u32> {
        let pick = self.choose(now, 0).ok()?;
        self.take(&pick);
        Some(pick.value)
    }

    /// The SRv6 path of the value that was chosen, where it has one.
    #[inline]
    #[must_use]
    pub fn segment(&self, pick: &Pick) -> Option<Ipv6Addr> {
        self.values.get(pick.index as usize)?.ev.segment
    }

    /// The port and SRv6 path that the next reply takes: paths take turns for replies too, apart from the rotation of the data.
    #[inline]
    pub fn reply_path(&mut self, full: PortMask) -> Result<Ev, NoPath> {
        let at = self.usable_from(self.reply_cursor, full)?;
        self.reply_cursor = self.after(at);
        Ok(self.value(at).ev)
    }

    #[inline]
    fn value(&self, at: usize) -> &Value {
        &self.values[self.rotation[at] as usize]
    }

    #[inline]
    fn chosen(&self, at: usize, passed_over: u32) -> Pick {
        let index = self.rotation[at];
        let Ev { value, port, .. } = self.values[index as usize].ev;
        Pick { value, port: port.into(), at: at as u32, index, passed_over }
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.rotation.len() { 0 } else { at + 1 }
    }

    /// The first turn from `at` on that may be used.
    #[inline]
    fn usable_from(&self, at: usize, full: PortMask) -> Result<usize, NoPath> {
        if self.usable == Usable::All && full == 0 { Ok(at) } else { self.search(at, full) }
    }

    /// Looks for the first turn, where not all may be used. While a port is full it is not known beforehand which may.
    #[inline(never)]
    fn search(&self, from: usize, full: PortMask) -> Result<usize, NoPath> {
        match self.usable {
            Usable::Nothing => return Err(NoPath::Denied),
            Usable::Good | Usable::Bad | Usable::Out if full == 0 => return Ok(self.next[from] as usize),
            _ => {}
        }
        let mut at = from;
        loop {
            let value = self.value(at);
            if self.is_usable(value) && full & bit(&value.ev) == 0 {
                return Ok(at);
            }
            at = self.after(at);
            if at == from {
                return Err(NoPath::PortsFull);
            }
        }
    }

    #[inline]
    fn is_usable(&self, value: &Value) -> bool {
        let out = self.ports_out & bit(&value.ev) != 0;
        match self.usable {
            Usable::All => true,
            Usable::Good => !value.denied && !value.bad && !out,
            Usable::Bad => !value.denied && !out,
            Usable::Out => !value.denied,
            Usable::Nothing => false,
        }
    }

    /// Counts again what may be used, after a state changed.
    #[cold]
    fn tally(&mut self) {
        let turns = || self.rotation.iter().map(|&at| &self.values[at as usize]);
        let count = |state| self.values.iter().filter(|value| value.turns > 0 && value.state() == state).count();
        (self.bad, self.skips) = (count(EvState::AssumedBad), count(EvState::Skip));
        self.allowed = self.bad + self.skips + count(EvState::Good);
        self.denied = self.values.iter().filter(|value| value.denied).count();
        let allowed = turns().filter(|value| !value.denied).count();
        let at_port = turns().filter(|value| !value.denied && self.ports_out & bit(&value.ev) == 0).count();
        let good = turns().filter(|value| !value.denied && !value.bad && self.ports_out & bit(&value.ev) == 0).count();
        self.usable = match (good, at_port, allowed) {
            (good, _, _) if good == self.rotation.len() => Usable::All,
            (1.., _, _) => Usable::Good,
            (0, 1.., _) => Usable::Bad,
            (0, 0, 1..) => Usable::Out,
            (0, 0, 0) => Usable::Nothing,
        };
        self.find_next();
    }

    /// Finds the next usable value of each turn: with most values assumed bad, a search for each packet would be long.
    fn find_next(&mut self) {
        let turns = self.rotation.len();
        let mut next = core::mem::take(&mut self.next);
        next.resize(turns, 0);
        let mut found = 0;
        // Twice round, backwards: behind the last turn comes the first.
        for at in (0..turns).chain(0..turns).rev() {
            if self.is_usable(self.value(at)) {
                found = at;
            }
            next[at] = found as u32;
        }
        self.next = next;
    }

    /// Lets values in again whose time is over.
    #[cold]
    fn recover(&mut self, now: Ns) {
        for value in self.values.iter_mut().filter(|value| value.bad && value.back_at.is_some_and(|at| at <= now)) {
            value.bad = false;
        }
        self.recover_at = self.values.iter().filter(|value| value.bad).filter_map(|value| value.back_at).min();
        self.tally();
    }

    /// The value, if it has a turn in the rotation.
    fn in_rotation(&mut self, ev: u32) -> Option<&mut Value> {
        let at = find(&self.values, ev)?;
        Some(&mut self.values[at]).filter(|value| value.turns > 0)
    }

    /// Marks a value to be passed over once. One that is not in the rotation is no matter.
    pub fn mark(&mut self, ev: u32) {
        if let Some(value) = self.in_rotation(ev) {
            let newly = value.state() == EvState::Good;
            value.skip = true;
            self.skips += usize::from(newly);
        }
    }

    /// Takes a value out of the rotation after a timeout; true when it was in use. Of the last values that a profile keeps in use, one that
    /// times out is passed over once instead.
    pub fn assume_bad(&mut self, ev: u32, now: Ns) -> bool {
        let back_at = self.assumed_bad_ns.map(|ns| now + ns);
        let last_ones = self.in_use() <= self.min_active as usize;
        let Some(value) = self.in_rotation(ev) else { return false };
        if last_ones && !value.bad {
            self.mark(ev);
            return false;
        }
        value.back_at = back_at;
        let left = !core::mem::replace(&mut value.bad, true) && !value.denied;
        self.recover_at = self.recover_at.into_iter().chain(back_at).min();
        if left {
            self.tally();
        }
        left
    }

    /// How many values are in use; only looked at where a profile keeps some.
    fn in_use(&self) -> usize {
        if self.min_active == 0 {
            return usize::MAX;
        }
        let is_used =
            |value: &&Value| value.turns > 0 && !value.bad && !value.denied && self.ports_out & bit(&value.ev) == 0;
        self.values.iter().filter(is_used).count()
    }

    /// Is the value assumed bad?
    #[must_use]
    pub fn is_bad(&self, ev: u32) -> bool {
        find(&self.values, ev).is_some_and(|at| self.values[at].bad && !self.values[at].denied)
    }

    /// A probe on the value was answered: it returns to the rotation. True when it had been out.
    pub fn recovered(&mut self, ev: u32) -> bool {
        let Some(value) = self.in_rotation(ev) else { return false };
        let back = core::mem::replace(&mut value.bad, false) && !value.denied;
        if back {
            self.tally();
        }
        back
    }

    /// Takes a value out, until it is allowed again; a backup of the same port takes its turn, if one is left. True when the value is one of
    /// the range and was not denied.
    pub fn deny(&mut self, ev: u32) -> bool {
        let Some(at) = find(&self.values, ev) else { return false };
        if core::mem::replace(&mut self.values[at].denied, true) {
            return false;
        }
        let port = self.values[at].ev.port;
        let replaces = |&other: &u32| {
            let other = &self.values[other as usize];
            !other.denied && other.ev.port == port
        };
        if let Some(turn) = self.rotation.iter().position(|&value| value as usize == at)
            && let Some(spare) = self.backup.iter().position(replaces)
        {
            // In front: the next replacement is the next value that was drawn.
            let replacement = self.backup.remove(spare);
            self.rotation[turn] = replacement;
            self.values[replacement as usize].turns += 1;
            self.values[at].turns -= 1;
            self.backup.push(at as u32);
        }
        self.tally();
        true
    }

    /// Lifts a denial: in the rotation the value is used again, as a good one, and one that was replaced is a backup now. True when it was
    /// denied.
    pub fn allow(&mut self, ev: u32) -> bool {
        let Some(at) = find(&self.values, ev) else { return false };
        let value = &mut self.values[at];
        if !core::mem::replace(&mut value.denied, false) {
            return false;
        }
        // Nobody has probed it meanwhile, and nobody would from now on.
        (value.bad, value.skip) = (false, false);
        self.tally();
        true
    }

    /// Replaces a value of the rotation, in its first turn or in all of them, by one that starts as good; how many turns it got. A value
    /// that is there already keeps its state.
    pub fn replace(&mut self, current: u32, new: Ev, copies: Copies) -> usize {
        let Some(old) = find(&self.values, current) else { return 0 };
        let most = if copies == Copies::One { 1 } else { usize::MAX };
        let turns: Vec<usize> =
            (0..self.rotation.len()).filter(|&at| self.rotation[at] as usize == old).take(most).collect();
        let at = match self.values.iter().position(|value| value.ev.value == new.value) {
            Some(at) => at,
            None => {
                self.values.push(Value::new(new));
                self.values.len() - 1
            }
        };
        for &turn in &turns {
            self.values[self.rotation[turn] as usize].turns -= 1;
            self.values[at].turns += 1;
            self.values[at].ev = new;
            self.rotation[turn] = at as u32;
        }
        self.sort();
        self.tally();
        turns.len()
    }

    /// Puts the values in ascending order again; those that have neither a turn nor wait for one are forgotten.
    fn sort(&mut self) {
        let value_at = |at: &u32| self.values[*at as usize].ev.value;
        let (rotation, backup): (Vec<u32>, Vec<u32>) =
            (self.rotation.iter().map(value_at).collect(), self.backup.iter().map(value_at).collect());
        self.values.retain(|value| value.turns > 0 || backup.contains(&value.ev.value));
        self.values.sort_unstable_by_key(|value| value.ev.value);
        let index = |evs: &[u32]| evs.iter().filter_map(|&ev| find(&self.values, ev)).map(|at| at as u32).collect();
        (self.rotation, self.backup) = (index(&rotation), index(&backup));
    }

    /// Ports of the values that may be used, as bits, whether they are out of use or not.
    #[must_use]
    pub fn ports(&self) -> PortMask {
        let allowed = self.values.iter().filter(|value| value.turns > 0 && !value.denied);
        allowed.fold(0, |ports, value| ports | bit(&value.ev))
    }

    /// Takes the values of these ports out of use, and lets those of all others in. True when that changed something.
    pub fn set_ports_out(&mut self, out: PortMask) -> bool {
        let changed = core::mem::replace(&mut self.ports_out, out) != out;
        if changed {
            self.tally();
        }
        changed
    }

    /// A value and its port, in the rotation or not.
    #[must_use]
    pub fn find(&self, ev: u32) -> Option<Ev> {
        find(&self.values, ev).map(|at| self.values[at].ev)
    }

    /// The values of the active set and how many packets took each, in the order of the rotation.
    pub fn use_counts(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.active().map(|value| (value.ev.value, value.sent))
    }

    /// The values of the active set and their states, in the order of the rotation.
    pub fn states(&self) -> impl Iterator<Item = (u32, EvState)> + '_ {
        self.active().map(|value| (value.ev.value, value.state()))
    }

    /// Each value of the rotation once, where its first turn is.
    fn active(&self) -> impl Iterator<Item = &Value> + '_ {
        let first = |turn: usize, at: u32| self.values[at as usize].turns == 1 || !self.rotation[..turn].contains(&at);
        let turns = self.rotation.iter().enumerate().filter(move |&(turn, &at)| first(turn, at));
        turns.map(|(_, &at)| &self.values[at as usize])
    }

    /// The same, and those that were denied and replaced.
    pub fn list(&self) -> impl Iterator<Item = EvReport> + '_ {
        let replaced = self.backup.iter().map(|&at| &self.values[at as usize]).filter(|value| value.denied);
        self.active().chain(replaced).map(|value| EvReport {
            ev: value.ev,
            state: value.state(),
            port_out: self.ports_out & bit(&value.ev) != 0,
            sent: value.sent,
        })
    }

    /// The state of a value, in the rotation or not.
    #[must_use]
    pub fn state(&self, ev: u32) -> Option<EvState> {
        find(&self.values, ev).map(|at| self.values[at].state())
    }

    /// How many values of the active set are assumed bad.
    #[must_use]
    pub const fn assumed_bad(&self) -> usize {
        self.bad
    }

    /// How many values are in each state.
    #[must_use]
    pub const fn census(&self) -> EvCensus {
        EvCensus {
            good: self.allowed - self.bad - self.skips,
            skipped: self.skips,
            assumed_bad: self.bad,
            denied: self.denied,
        }
    }
}

fn find(values: &[Value], ev: u32) -> Option<usize> {
    values.binary_search_by_key(&ev, |value| value.ev.value).ok()
}
