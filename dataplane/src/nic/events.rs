//! What entropy values go through, for the control thread.

use super::EvState;
use crate::Ns;
use core::net::IpAddr;
use std::collections::VecDeque;

/// Events that wait to be looked at; what comes beyond is counted and left out.
pub const EVENTS_MAX: usize = 1024;

/// Whose value changed its state, of those who use values towards one destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Of all of them.
    Everybody,
    /// Of the QPs of one EV profile, or of those without one.
    Of(Option<u64>),
}

/// An entropy value changed its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvEvent {
    /// When.
    pub at: Ns,
    /// Towards whom.
    pub destination: IpAddr,
    /// For whom.
    pub whose: Whose,
    /// The value.
    pub ev: u32,
    /// Its state from then on.
    pub state: EvState,
    /// Events that were left out before this one, since the engine was made.
    pub dropped: u64,
}

#[derive(Debug, Default)]
pub(super) struct Events {
    waiting: VecDeque<EvEvent>,
    dropped: u64,
}

impl Events {
    pub(super) fn push(&mut self, at: Ns, destination: IpAddr, whose: Whose, ev: u32, state: EvState) {
        if self.waiting.len() == EVENTS_MAX {
            self.dropped += 1;
            return;
        }
        self.waiting.push_back(EvEvent { at, destination, whose, ev, state, dropped: self.dropped });
    }

    pub(super) fn poll(&mut self) -> Option<EvEvent> {
        self.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    #[test]
    fn events_that_nobody_looks_at_are_counted_and_the_count_is_told() {
        let mut events = Events::default();
        let peer = Ipv4Addr::LOCALHOST.into();
        for ev in 0..EVENTS_MAX as u32 + 3 {
            events.push(Ns(1), peer, Whose::Everybody, ev, EvState::AssumedBad);
        }
        assert_eq!(events.poll().map(|event| (event.ev, event.dropped)), Some((0, 0)));
        events.push(Ns(2), peer, Whose::Of(None), 7, EvState::Good);
        let last = core::iter::from_fn(|| events.poll()).last();
        assert_eq!(last.map(|event| (event.ev, event.dropped)), Some((7, 3)));
    }
}
