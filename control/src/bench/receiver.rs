//! The application that is written to with immediate data: it posts receives, and checks what completes them.

use dataplane::dpdk::Poll;
use dataplane::nic::{CompletionEntry, Nic, Operation, Qpn, Status};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// What a requester and the receiver of its messages know of each other.
///
/// The requester says what comes before it sends the first message of a round. The receiver has counted a message before its
/// acknowledgement leaves: both are done in one turn of its worker, in this order.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    round: AtomicU64,
    /// Bytes of each message of the round.
    size: AtomicU64,
    /// Messages that were received as they should be, ever.
    received: AtomicU64,
    /// What went wrong, ever.
    errors: AtomicU64,
    /// The first thing that went wrong, in words.
    fault: OnceLock<String>,
}

impl Ledger {
    /// A round begins: messages of `size` bytes, whose immediates are 0, 1, 2 .. on each QP.
    pub(super) fn begin(&self, round: u64, size: usize) {
        self.size.store(size as u64, Ordering::Relaxed);
        self.round.store(round, Ordering::Release);
    }

    /// Messages received as they should be, ever.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Acquire)
    }

    /// What went wrong, ever.
    pub(super) fn errors(&self) -> u64 {
        self.errors.load(Ordering::Acquire)
    }

    /// The first thing that went wrong, in words.
    pub(super) fn fault(&self) -> Option<String> {
        self.fault.get().cloned()
    }

    #[cold]
    fn wrong(&self, words: impl FnOnce() -> String) {
        self.fault.get_or_init(words);
        self.errors.fetch_add(1, Ordering::Release);
    }
}

/// Posts receives and takes them back.
pub(super) struct Receiver {
    ledger: Arc<Ledger>,
    qps: Vec<Qpn>,
    /// The immediate that comes next on each QP.
    next: Vec<u32>,
    round: u64,
}

impl Receiver {
    /// Posts `depth` receives on each QP: as many as messages can be in flight.
    ///
    /// # Errors
    /// What the engine says.
    pub(super) fn new(nic: &mut Nic, ledger: Arc<Ledger>, qps: Vec<Qpn>, depth: usize) -> Result<Receiver, String> {
        for (at, &qpn) in qps.iter().enumerate() {
            for _ in 0..depth {
                // A receive's number is its QP's place.
                nic.post_receive(qpn, at as u64).map_err(|e| e.to_string())?;
            }
        }
        Ok(Receiver { ledger, next: vec![0; qps.len()], qps, round: 0 })
    }

    /// Takes all that completed: what is left would be acknowledged before its receives are posted again.
    pub(super) fn poll(&mut self, nic: &mut Nic) -> Poll {
        let mut poll = Poll::Idle;
        while let Some(entry) = nic.poll() {
            poll = Poll::Busy;
            if self.take(&entry) {
                let posted = nic.post_receive(entry.qpn, entry.completion.wr_id);
                if let Err(refusal) = posted {
                    self.ledger.wrong(|| format!("a receive could not be posted again: {refusal}"));
                }
            }
        }
        poll
    }

    /// Checks a completion; false when its QP takes no more receives.
    #[inline]
    fn take(&mut self, entry: &CompletionEntry) -> bool {
        let round = self.ledger.round.load(Ordering::Acquire);
        if round != self.round {
            // A round begins when all of the one before has been acknowledged, so all of that was taken.
            self.round = round;
            self.next.fill(0);
        }
        let completion = &entry.completion;
        let size = self.ledger.size.load(Ordering::Relaxed);
        let at = completion.wr_id as usize;
        let (Some(next), true) = (self.next.get_mut(at), self.qps.get(at) == Some(&entry.qpn)) else {
            self.ledger.wrong(|| format!("a receive completed on QP {:#x}, where it was not posted", entry.qpn.get()));
            return false;
        };
        match (completion.status, completion.operation) {
            (Status::Success, Operation::Receive { immediate }) => {
                let wanted = *next;
                if immediate == wanted && u64::from(completion.len) == size {
                    self.ledger.received.store(self.ledger.received.load(Ordering::Relaxed) + 1, Ordering::Release);
                } else {
                    self.ledger.wrong(|| {
                        format!(
                            "QP {:#x} received immediate {immediate} of a message of {} bytes instead of {wanted} and {size}",
                            entry.qpn.get(),
                            completion.len
                        )
                    });
                }
                // What follows is judged by itself.
                *next = immediate.wrapping_add(1);
                true
            }
            (Status::Flushed, _) => false,
            (status, operation) => {
                self.ledger.wrong(|| format!("a receive ended as {operation:?} with {status:?}"));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataplane::nic::{Completion, QpNumbers};

    fn entry(qpn: Qpn, at: u64, immediate: u32, len: u32) -> CompletionEntry {
        let operation = Operation::Receive { immediate };
        CompletionEntry { qpn, completion: Completion { wr_id: at, operation, status: Status::Success, len } }
    }

    fn receiver() -> (Receiver, Arc<Ledger>) {
        let mut numbers = QpNumbers::default();
        let qps: Vec<Qpn> = (0..2).map(|_| numbers.allocate().unwrap()).collect();
        let ledger = Arc::new(Ledger::default());
        ledger.begin(1, 8);
        (Receiver { ledger: Arc::clone(&ledger), next: vec![0; 2], qps, round: 0 }, ledger)
    }

    #[test]
    fn each_qp_and_each_round_has_a_sequence_of_its_own() {
        let (mut receiver, ledger) = receiver();
        let [a, b] = [receiver.qps[0], receiver.qps[1]];
        for (qpn, at, immediate) in [(a, 0, 0), (b, 1, 0), (a, 0, 1), (a, 0, 2), (b, 1, 1)] {
            assert!(receiver.take(&entry(qpn, at, immediate, 8)));
        }
        ledger.begin(2, 9);
        assert!(receiver.take(&entry(b, 1, 0, 9)));
        assert_eq!((ledger.received(), ledger.errors(), ledger.fault()), (6, 0, None));
    }

    #[test]
    fn an_immediate_twice_out_of_turn_or_of_a_wrong_length_is_an_error_in_words() {
        for (immediate, len, words) in [(0, 8, "immediate 0 "), (2, 8, "immediate 2 "), (1, 9, "of 9 bytes")] {
            let (mut receiver, ledger) = receiver();
            let qpn = receiver.qps[0];
            receiver.take(&entry(qpn, 0, 0, 8));
            receiver.take(&entry(qpn, 0, immediate, len));
            assert_eq!((ledger.received(), ledger.errors()), (1, 1));
            let fault = ledger.fault().unwrap();
            assert!(fault.contains(words) && fault.contains("instead of 1 and 8"), "{fault}");
        }
    }

    #[test]
    fn a_receive_of_another_qp_is_an_error_and_a_flushed_one_is_not_posted_again() {
        let (mut receiver, ledger) = receiver();
        let qpn = receiver.qps[1];
        assert!(!receiver.take(&entry(qpn, 0, 0, 8)));
        assert_eq!(ledger.errors(), 1);
        let mut flushed = entry(qpn, 1, 0, 0);
        flushed.completion.status = Status::Flushed;
        assert!(!receiver.take(&flushed));
        assert_eq!(ledger.errors(), 1);
    }
}
