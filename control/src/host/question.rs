//! Endpoint operations: questions to any address, without a QP, and the wait for their answers.

use super::books::Books;
use super::device::Device;
use super::error::HostError;
use crossbeam::queue::ArrayQueue;
use dataplane::nic::{Endpoint, EndpointAnswer, EndpointAsk, EndpointOrder, Nic, PortId, owner};
use dataplane::wire::{Addressing, AddressingError, Encapsulation, Template, UsidError, UsidPath};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Questions that are sent at a time. A NIC answers 64 at once, and 20,000 a second.
const BURST: usize = 32;
/// How long the next of them wait.
const PAUSE: Duration = Duration::from_micros(1_600);
/// Who waits looks this often even if nobody wakes it.
const LOOK: Duration = Duration::from_millis(5);

/// A question, and its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// This end.
    pub local: Endpoint,
    /// The other end, and the Ethernet address by which it is reached on the port.
    pub remote: Endpoint,
    /// VLAN tag control information.
    pub vlan: Option<u16>,
    /// The port that it leaves by.
    pub port: PortId,
    /// Its entropy value: flow label and UDP source port. Over IPv4 only the port travels.
    pub ev: u32,
    /// Its SRv6 path.
    pub segment: Option<Ipv6Addr>,
    /// Differentiated services codepoint, 0 to 63.
    pub dscp: u8,
    /// What is asked.
    pub ask: EndpointAsk,
}

/// Why nothing was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuestionError {
    /// The NIC takes no part in endpoint operations.
    #[error("the NIC's attributes leave endpoint operations out")]
    Unsupported,
    /// The NIC has no such port.
    #[error("the NIC has no port {0}")]
    NoSuchPort(u8),
    /// More than 63.
    #[error("DSCP {0} is more than 63")]
    Dscp(u8),
    /// Addresses that do not go together.
    #[error(transparent)]
    Addressing(#[from] AddressingError),
    /// No SRv6 path.
    #[error("the SRv6 path: {0}")]
    Path(UsidError),
    /// As many questions wait for answers as may, of other callers.
    #[error("as many questions wait for their answers as may: try again")]
    Busy,
    /// The NIC is gone.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// Where answers go, and who waits for them.
pub(super) struct Waiter {
    /// With the place of each question.
    answers: ArrayQueue<(usize, EndpointAnswer)>,
    waits: Thread,
}

/// Questions that a worker's callers wait for.
#[derive(Default)]
pub(super) struct Awaited(Vec<(u16, usize, Arc<Waiter>)>);

impl Awaited {
    /// Hands an answer on.
    #[cold]
    pub(super) fn answered(&mut self, answer: EndpointAnswer) {
        if let Some(at) = self.0.iter().position(|(id, ..)| *id == answer.id) {
            let (_, place, waiter) = self.0.swap_remove(at);
            // There is a place for each question.
            let _ = waiter.answers.push((place, answer));
            waiter.waits.unpark();
        }
    }

    /// Asks as many as there is room for; how many that were.
    fn ask(&mut self, nic: &mut Nic, orders: &[(usize, EndpointOrder)], waiter: &Arc<Waiter>) -> usize {
        for (n, (place, order)) in orders.iter().enumerate() {
            let Some(id) = nic.ask_endpoint(order) else { return n };
            self.0.push((id, *place, Arc::clone(waiter)));
        }
        orders.len()
    }

    fn give_up(&mut self, nic: &mut Nic, waiter: &Arc<Waiter>) {
        self.0.retain(|(id, _, other)| {
            let mine = Arc::ptr_eq(other, waiter);
            if mine {
                nic.give_up_endpoint(*id);
            }
            !mine
        });
    }
}

impl Device {
    /// Asks, and waits for the answers, for `timeout` at most: they come in the order of their arrival, each with the place of its question. More
    /// than 32 questions are sent in bursts, as fast as one NIC answers them.
    ///
    /// # Errors
    /// [`QuestionError`]; nothing was asked then, but where the NIC went down meanwhile.
    pub fn ask_endpoints(
        &self,
        questions: &[Question],
        timeout: Duration,
    ) -> Result<Vec<(usize, EndpointAnswer)>, QuestionError> {
        let end = Instant::now() + timeout;
        let workers = &self.inner.workers;
        let mut left: Vec<VecDeque<(usize, EndpointOrder)>> = vec![VecDeque::new(); workers.len()];
        for (place, question) in questions.iter().enumerate() {
            left[owner(question.remote.ip, workers.len())].push_back((place, self.order(question)?));
        }
        let waits = std::thread::current();
        let waiter = Arc::new(Waiter { answers: ArrayQueue::new(questions.len().max(1)), waits });
        let mut answers = Vec::with_capacity(questions.len());
        let (mut sent, mut next) = (0, Instant::now());
        while answers.len() < questions.len() {
            if Instant::now() >= next && sent < questions.len() {
                for (worker, left) in workers.iter().zip(&mut left).filter(|(_, left)| !left.is_empty()) {
                    let burst: Vec<_> = left.iter().take(BURST).copied().collect();
                    let to = Arc::clone(&waiter);
                    let count = worker.call(move |_, nic, books: &mut Books| books.awaited.ask(nic, &burst, &to))?;
                    left.drain(..count);
                    sent += count;
                }
                next = Instant::now() + PAUSE;
            }
            while let Some(answer) = waiter.answers.pop() {
                answers.push(answer);
            }
            if Instant::now() >= end {
                break;
            }
            if answers.len() < questions.len() {
                let until = if sent < questions.len() { end.min(next) } else { end };
                std::thread::park_timeout(until.saturating_duration_since(Instant::now()).min(LOOK));
            }
        }
        if answers.len() < questions.len() {
            for worker in workers {
                let to = Arc::clone(&waiter);
                worker.call(move |_, nic, books: &mut Books| books.awaited.give_up(nic, &to))?;
            }
            while let Some(answer) = waiter.answers.pop() {
                answers.push(answer);
            }
        }
        if sent == 0 && !questions.is_empty() { Err(QuestionError::Busy) } else { Ok(answers) }
    }

    fn order(&self, question: &Question) -> Result<EndpointOrder, QuestionError> {
        let Question { local, remote, vlan, port, ev, segment, dscp, ask } = *question;
        let params = self.params();
        if !params.endpoint_operations {
            return Err(QuestionError::Unsupported);
        }
        if usize::from(port.0) >= self.ports().len() {
            return Err(QuestionError::NoSuchPort(port.0 + 1));
        }
        if dscp > 63 {
            return Err(QuestionError::Dscp(dscp));
        }
        let addressing = Addressing {
            source_mac: local.mac,
            destination_mac: remote.mac,
            vlan,
            source: local.ip,
            destination: remote.ip,
            hop_limit: params.hop_limit,
            udp_port: params.udp_port,
        };
        let template = match segment {
            None => Template::new(&addressing)?,
            Some(segment) => {
                let path = UsidPath::from_address(segment).map_err(QuestionError::Path)?;
                // Over IPv4 the template is refused, with the reason.
                let source = if let IpAddr::V6(source) = local.ip { source } else { Ipv6Addr::UNSPECIFIED };
                Template::encapsulated(&addressing, &Encapsulation { source, path, srh: false })?
            }
        };
        Ok(EndpointOrder { template, remote: remote.ip, port, ev, segment, dscp, ask })
    }
}
