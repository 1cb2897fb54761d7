//! What looks on at an engine, and passes on what is recorded: to a recorder in virtual time, over a ring on a live worker.

use super::live::RingEnd;
use super::recorder::{RecordSpec, Recorder};
use super::selector::{MonitorTotals, Selector};
use dataplane::nic::{FrameBytes, LifeEvent, Seen, Tap};
use std::sync::{Arc, Mutex, PoisonError};

/// Where what is seen goes.
pub(super) enum Outlet {
    /// To the recorder, at once: in virtual time there is but one thread.
    Direct {
        recorder: Arc<Mutex<Recorder>>,
        /// Its room for the bytes of a packet.
        bytes: Vec<u8>,
    },
    /// To the thread that records.
    Ring(RingEnd),
}

/// Looks on at an engine.
pub struct RecordTap {
    /// The NIC's number among those that are recorded.
    n: usize,
    selector: Option<Selector>,
    /// Packets get rows.
    rows: bool,
    /// Bytes of a packet that are kept, if there is a capture.
    snaplen: Option<usize>,
    /// The capture has packets of no queue pair, too.
    strangers: bool,
    events: bool,
    outlet: Outlet,
}

impl RecordTap {
    pub(super) fn new(
        spec: &RecordSpec,
        n: usize,
        node: u32,
        totals: &Arc<MonitorTotals>,
        outlet: Outlet,
    ) -> Option<RecordTap> {
        let select = || Selector::new(spec.settings.packets.clone(), node, Arc::clone(totals));
        let selector = spec.wants_packets().then(select);
        let events = spec.wants_events();
        (selector.is_some() || events).then(|| RecordTap {
            n,
            rows: spec.dir.is_some() && spec.settings.monitor.is_some(),
            snaplen: spec.capture.as_ref().map(|capture| capture.snaplen as usize),
            strangers: selector.as_ref().is_some_and(Selector::is_open),
            selector,
            events,
            outlet,
        })
    }

    /// The tap of a NIC in virtual time; `None` where nothing is recorded of packets or events.
    #[must_use]
    pub fn direct(
        spec: &RecordSpec,
        n: usize,
        node: u32,
        totals: &Arc<MonitorTotals>,
        recorder: &Arc<Mutex<Recorder>>,
    ) -> Option<Box<dyn Tap>> {
        let outlet = Outlet::Direct { recorder: Arc::clone(recorder), bytes: Vec::new() };
        RecordTap::new(spec, n, node, totals, outlet).map(|tap| Box::new(tap) as Box<dyn Tap>)
    }
}

impl Tap for RecordTap {
    fn packet(&mut self, seen: &Seen, frame: &dyn FrameBytes) {
        let Some(selector) = &mut self.selector else { return };
        let shown = selector.packet(seen);
        let row = shown && self.rows;
        let stranger = self.strangers && seen.qp.is_none();
        let kept = self.snaplen.filter(|_| shown || stranger).map(|snaplen| snaplen.min(seen.frame_len as usize));
        if !row && kept.is_none() {
            return;
        }
        match &mut self.outlet {
            Outlet::Direct { recorder, bytes } => {
                bytes.resize(kept.unwrap_or(0), 0);
                let copied = frame.copy_to(bytes);
                let bytes = kept.map(|_| &bytes[..copied]);
                recorder.lock().unwrap_or_else(PoisonError::into_inner).packet(self.n, seen, row, bytes);
            }
            Outlet::Ring(ring) => ring.packet(seen, row, kept, frame),
        }
    }

    fn event(&mut self, event: &LifeEvent) {
        if let Some(selector) = &mut self.selector {
            selector.event(event);
        }
        if self.events {
            match &mut self.outlet {
                Outlet::Direct { recorder, .. } => {
                    recorder.lock().unwrap_or_else(PoisonError::into_inner).event(self.n, event);
                }
                Outlet::Ring(ring) => ring.event(event),
            }
        }
    }
}
