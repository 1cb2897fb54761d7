//! Endpoint operations that the host words itself: to any address, whether a QP is open with it or not, on any path.

use super::endpoint::{Asked, Content, ENDPOINT_QUEUE_MAX, Frame};
use super::{Nic, PortId};
use crate::Ns;
use crate::path::profile::Ev;
use crate::transport::reflected_rtt;
use crate::wire::Template;
use core::net::{IpAddr, Ipv6Addr};
use std::collections::VecDeque;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointAsk {
    /// Whether the path is alive.
    EvProbe,
    /// That the peer takes note of which ports are up: bit i stands for port i. A peer answers only if a QP is open with it.
    PortStatus {
        /// The ports.
        up: u32,
    },
}

/// A question, and its way.
#[derive(Clone, Copy, Debug)]
pub struct EndpointOrder {
    /// Addresses of both ends. With an outer header where `segment` is given.
    pub template: Template,
    /// The other end's address.
    pub remote: IpAddr,
    /// The port that it leaves by.
    pub port: PortId,
    /// Its entropy value; over IPv4 the lower 16 bits travel.
    pub ev: u32,
    /// Its path in the outer header.
    pub segment: Option<Ipv6Addr>,
    /// Differentiated services codepoint, 0 to 63.
    pub dscp: u8,
    /// What is asked.
    pub ask: EndpointAsk,
}

/// An answer to [`Nic::ask_endpoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointAnswer {
    /// The question's number.
    pub id: u16,
    /// The port that the answer came in by.
    pub port: PortId,
    /// Round-trip time in ns.
    pub rtt_ns: u64,
    /// Whether the peer's service time is taken off: it is where the clock's 16 bits tell, which tick each 128 ns and wrap.
    pub adjusted: bool,
}

/// Questions of the host's that wait for their answers, [`ENDPOINT_QUEUE_MAX`] at most, and answers that nobody has taken.
#[derive(Debug, Default)]
pub(super) struct Direct {
    asked: VecDeque<Asked>,
    answers: VecDeque<EndpointAnswer>,
}

impl Direct {
    pub(super) fn take(&mut self, is_it: impl FnMut(&Asked) -> bool) -> Option<Asked> {
        let at = self.asked.iter().position(is_it)?;
        self.asked.remove(at)
    }

    pub(super) fn sent(&mut self, now: Ns, id: u16) {
        if let Some(asked) = self.asked.iter_mut().find(|asked| asked.id == id) {
            asked.sent = now;
        }
    }

    pub(super) fn answered(&mut self, now: Ns, port: PortId, asked: &Asked, reflected: u16) {
        let told = reflected_rtt(now, asked.sent, reflected);
        let (rtt_ns, adjusted) = told.map_or((now.since(asked.sent), false), |rtt| (rtt, true));
        // Each was asked for, and there is room for as many.
        self.answers.push_back(EndpointAnswer { id: asked.id, port, rtt_ns, adjusted });
    }
}

impl Nic {
    /// Asks; the question's number, or `None` when as many wait as may, or there is no such port. Its answer changes nothing of any path's state,
    /// and is there in [`Nic::poll_endpoint_answer`]. One that is awaited no more is to be given up.
    pub fn ask_endpoint(&mut self, order: &EndpointOrder) -> Option<u16> {
        let EndpointOrder { template, remote, port, ev, segment, dscp, ask } = *order;
        let endpoints = &mut self.endpoints;
        let waiting = endpoints.direct.asked.len() + endpoints.direct.answers.len();
        if usize::from(port.0) >= self.ports.len()
            || endpoints.frames.len() >= ENDPOINT_QUEUE_MAX
            || waiting >= ENDPOINT_QUEUE_MAX
        {
            return None;
        }
        let content = match ask {
            EndpointAsk::EvProbe => Content::Probe(Ev { segment, ..Ev::new(ev, port.0 + 1) }),
            EndpointAsk::PortStatus { up } => Content::Told { up },
        };
        endpoints.next = endpoints.next.wrapping_add(1);
        let id = endpoints.next;
        endpoints.direct.asked.push_back(Asked { id, remote, sent: Ns::ZERO, content });
        endpoints.frames.push_back(Frame { template, port, id, ev, segment, dscp, content });
        Some(id)
    }

    /// Takes the oldest answer to what the host asked.
    #[inline]
    pub fn poll_endpoint_answer(&mut self) -> Option<EndpointAnswer> {
        self.endpoints.direct.answers.pop_front()
    }

    /// Nobody waits for the answer to a question any more: one that was not sent is not sent, and one that is answered yet is dropped as an
    /// answer that nobody asked for.
    pub fn give_up_endpoint(&mut self, id: u16) {
        let endpoints = &mut self.endpoints;
        endpoints.direct.asked.retain(|asked| asked.id != id);
        endpoints.direct.answers.retain(|answer| answer.id != id);
        // An answer of ours may have the same number, which is its asker's.
        endpoints.frames.retain(|frame| frame.id != id || matches!(frame.content, Content::Answer { .. }));
    }
}
