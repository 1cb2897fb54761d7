//! The last events of all NICs, for operators who read or follow them.

use super::{Happening, Notice};
use dataplane::path::PortMask;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Events that are kept; a follower who is further behind loses the oldest.
pub(super) const JOURNAL_MAX: usize = 1024;

/// The last [`JOURNAL_MAX`] events, numbered from 0.
#[derive(Debug, Default)]
pub(super) struct Journal {
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    /// Number of the oldest that is kept.
    first: u64,
    kept: VecDeque<(Arc<str>, Notice)>,
}

/// What a reader gets.
pub(super) struct Reading {
    /// Events as JSON, in their order.
    pub(super) events: Vec<Value>,
    /// Where to read on.
    pub(super) next: u64,
    /// Events that are gone, of those that the reader was to see.
    pub(super) missed: u64,
}

impl Journal {
    pub(super) fn push(&self, nic: &Arc<str>, notice: Notice) {
        log(nic, &notice);
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.kept.len() == JOURNAL_MAX {
            entries.kept.pop_front();
            entries.first += 1;
        }
        entries.kept.push_back((Arc::clone(nic), notice));
    }

    /// The events from number `from` on, of one NIC or of all. `missed` is what the reader had missed before.
    pub(super) fn read(&self, from: Option<u64>, nic: Option<&str>, missed: u64) -> Reading {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let from = from.unwrap_or(entries.first);
        let missed = missed + entries.first.saturating_sub(from);
        let skipped = from.saturating_sub(entries.first) as usize;
        let fresh: Vec<(Arc<str>, Notice)> = entries.kept.iter().skip(skipped).cloned().collect();
        let next = entries.first + entries.kept.len() as u64;
        // Whoever writes the journal is not kept waiting for JSON.
        drop(entries);
        let wanted = fresh.iter().filter(|(of, _)| nic.is_none_or(|nic| nic == &**of));
        Reading { events: wanted.map(|(nic, notice)| event_json(nic, notice, missed)).collect(), next, missed }
    }
}

/// Ports are few, and what becomes of them matters to whoever runs the NIC; values of a bad path come and go many times a second.
fn log(nic: &str, notice: &Notice) {
    let time_us = notice.at.micros();
    match notice.what {
        Happening::Ev { destination, ev, state } => {
            tracing::debug!(nic, time_us, %destination, ev, state = state.name(), "an entropy value changed its state");
        }
        Happening::Port { port, status } => {
            let (link, admin, in_use) = (status.link, status.admin, status.in_use());
            tracing::info!(nic, time_us, port = port.0 + 1, link, admin, in_use, "a port changed");
        }
        Happening::PeerPorts { destination, out } => {
            tracing::info!(nic, time_us, %destination, ports_out = ?port_numbers(out), "a peer told of its ports");
        }
    }
    if notice.dropped > 0 {
        tracing::trace!(nic, dropped = notice.dropped, "events were left out before this one");
    }
}

/// Ports as operators count them, from 1.
pub(super) fn port_numbers(mask: PortMask) -> Vec<u8> {
    (0..8).filter(|bit| mask >> bit & 1 == 1).map(|bit| bit + 1).collect()
}

fn event_json(nic: &str, notice: &Notice, missed: u64) -> Value {
    let mut event = json!({ "time_us": notice.at.micros(), "nic": nic, "dropped": notice.dropped + missed });
    let more = match notice.what {
        Happening::Ev { destination, ev, state } => {
            json!({ "event": "ev", "destination": destination, "ev": ev, "state": state.name() })
        }
        Happening::Port { port, status } => {
            json!({ "event": "port", "port": port.0 + 1, "link": status.link, "admin": status.admin, "in_use": status.in_use() })
        }
        Happening::PeerPorts { destination, out } => {
            json!({ "event": "peer_ports", "destination": destination, "ports_out": port_numbers(out) })
        }
    };
    if let (Value::Object(event), Value::Object(more)) = (&mut event, more) {
        event.extend(more);
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::PortStatus;
    use dataplane::Ns;
    use dataplane::nic::PortId;

    fn push(journal: &Journal, nic: &str, at: u64) {
        let status = PortStatus { link: true, admin: false };
        let what = Happening::Port { port: PortId(1), status };
        journal.push(&nic.into(), Notice { at: Ns(at * 1000), what, dropped: 1 });
    }

    fn times(reading: &Reading) -> Vec<u64> {
        reading.events.iter().map(|event| event["time_us"].as_u64().unwrap()).collect()
    }

    #[test]
    fn a_reader_gets_each_event_once_and_of_the_nic_that_it_asks_for() {
        let journal = Journal::default();
        for (nic, at) in [("a", 1), ("b", 2), ("a", 3)] {
            push(&journal, nic, at);
        }
        let first = journal.read(None, Some("a"), 0);
        assert_eq!(times(&first), [1, 3]);
        let expected = json!({
            "time_us": 1, "nic": "a", "event": "port", "port": 2, "link": true, "admin": false, "in_use": false, "dropped": 1
        });
        assert_eq!(first.events[0], expected);
        assert!(journal.read(Some(first.next), None, 0).events.is_empty());
        push(&journal, "b", 4);
        assert_eq!(times(&journal.read(Some(first.next), None, 0)), [4]);
    }

    #[test]
    fn a_reader_who_is_too_slow_loses_the_oldest_events_and_hears_how_many() {
        let journal = Journal::default();
        let start = journal.read(None, None, 0).next;
        for at in 0..JOURNAL_MAX as u64 + 5 {
            push(&journal, "a", at);
        }
        let late = journal.read(Some(start), None, 2);
        assert_eq!((late.missed, late.events.len()), (7, JOURNAL_MAX));
        assert_eq!((times(&late)[0], &late.events[0]["dropped"]), (5, &json!(8)));
        assert_eq!(journal.read(None, None, 0).missed, 0, "who begins now has missed nothing");
    }
}
