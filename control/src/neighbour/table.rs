//! What is known of a neighbour on one port, and when it is asked (RFC 4861, 7.3; the same for ARP).

use dataplane::Ns;
use dataplane::time::SEC;
use dataplane::wire::MacAddr;

/// How long an answer has.
pub const ANSWER_NS: u64 = SEC;
/// Questions without an answer after which a neighbour counts as lost.
pub const QUESTIONS: u32 = 3;
/// An address that was confirmed is not looked after for so long.
pub const REACHABLE_NS: u64 = 30 * SEC;
/// A neighbour that is lost, and has QPs still, is asked for again after so long.
pub const LOST_NS: u64 = 10 * SEC;
/// An address that nobody uses is forgotten after so long.
pub const FORGET_NS: u64 = 60 * SEC;
/// An address that changed is not changed again for so long.
pub const SETTLE_NS: u64 = SEC;

/// How it stands with a neighbour on one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// Everybody is being asked for it.
    Asking,
    /// It answered not long ago.
    Reachable,
    /// Its address is known, and was not confirmed for long, or came unasked.
    Stale,
    /// It is being asked whether the address still holds.
    Probing,
    /// It did not answer. What was known of it is still used.
    Lost,
}

impl NeighbourState {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            NeighbourState::Asking => "asking",
            NeighbourState::Reachable => "reachable",
            NeighbourState::Stale => "stale",
            NeighbourState::Probing => "probing",
            NeighbourState::Lost => "lost",
        }
    }
}

/// A neighbour on one port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) mac: Option<MacAddr>,
    pub(super) state: NeighbourState,
    /// Questions of this kind without an answer.
    asked: u32,
    /// When something is to be done.
    pub(super) due: Ns,
    /// When its address changed last.
    changed: Option<Ns>,
}

/// What an entry wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Ask everybody, or the one who had this address.
    Ask(Option<MacAddr>),
    /// It did not answer.
    Lost,
    /// It is of no use any more.
    Forget,
    /// Nothing to be seen from outside.
    Nothing,
}

/// What came of an address that was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// It is the one that was known.
    Same,
    /// It was not known before, or another was.
    New,
    /// Another was known, and is kept.
    Kept,
}

impl Entry {
    /// One that is to be asked for now.
    pub(super) const fn new(now: Ns) -> Entry {
        Entry { mac: None, state: NeighbourState::Asking, asked: 0, due: now, changed: None }
    }

    /// Its state is known for now: an address, or that it does not answer.
    pub(super) const fn is_settled(&self) -> bool {
        matches!(
            (self.state, self.mac),
            (NeighbourState::Reachable | NeighbourState::Stale | NeighbourState::Probing, Some(_))
                | (NeighbourState::Lost, _)
        )
    }

    /// It is asked for anew, if it did not answer before.
    pub(super) const fn retry(&mut self, now: Ns) {
        if matches!(self.state, NeighbourState::Lost) {
            self.enter(NeighbourState::Asking, now);
        }
    }

    /// Its address is to be confirmed soon.
    pub(super) const fn doubt(&mut self, now: Ns) {
        self.retry(now);
        if self.mac.is_some() {
            self.enter(NeighbourState::Stale, now);
        }
    }

    const fn enter(&mut self, state: NeighbourState, due: Ns) {
        (self.state, self.asked, self.due) = (state, 0, due);
    }

    /// Its address was told: `confirmed` says that it answered, `overrides` that another one makes way.
    pub(super) fn tell(&mut self, now: Ns, mac: MacAddr, confirmed: bool, overrides: bool) -> Told {
        use NeighbourState::{Asking, Reachable, Stale};
        let told = match self.mac {
            Some(known) if known == mac => Told::Same,
            Some(_) if !overrides || self.changed.is_some_and(|at| now.since(at) < SETTLE_NS) => {
                if self.state == Reachable {
                    // Someone else may have it now: it is asked.
                    self.enter(Stale, now);
                }
                return Told::Kept;
            }
            Some(_) => {
                self.changed = Some(now);
                Told::New
            }
            None => Told::New,
        };
        self.mac = Some(mac);
        if confirmed {
            self.enter(Reachable, now + REACHABLE_NS);
        } else if told == Told::New || matches!(self.state, Asking | NeighbourState::Lost) {
            self.enter(Stale, now);
        }
        told
    }

    /// Time came. `used` says whether QPs are open with it, or somebody waits for it.
    pub(super) fn on_time(&mut self, now: Ns, used: bool) -> Step {
        use NeighbourState::{Asking, Lost, Probing, Reachable, Stale};
        match self.state {
            Reachable if !used => {
                self.enter(Stale, now + FORGET_NS);
                Step::Nothing
            }
            Reachable | Stale if used => {
                self.enter(Probing, now);
                self.on_time(now, used)
            }
            Reachable | Stale => Step::Forget,
            Probing if !used => {
                self.enter(Stale, now + FORGET_NS);
                Step::Nothing
            }
            Asking | Lost if !used => Step::Forget,
            Probing if self.asked == QUESTIONS => {
                self.enter(Asking, now);
                self.on_time(now, used)
            }
            Asking if self.asked == QUESTIONS => {
                self.enter(Lost, now + LOST_NS);
                Step::Lost
            }
            Asking | Probing => {
                self.asked += 1;
                self.due = now + ANSWER_NS;
                Step::Ask(if self.state == Probing { self.mac } else { None })
            }
            Lost => {
                self.enter(Asking, now);
                self.on_time(now, used)
            }
        }
    }
}
