//! Things that happened, in order, with a file descriptor that is readable while there are any.

use crate::call::{Errno, lock};
use crossbeam::queue::SegQueue;
use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::Mutex;
use std::time::Duration;

/// A queue whose descriptor can be polled. Who puts something in never waits.
#[derive(Debug)]
pub(crate) struct FdQueue<T> {
    fd: c_int,
    incoming: SegQueue<T>,
    inner: Mutex<Inner<T>>,
}

#[derive(Debug)]
struct Inner<T> {
    sorted: VecDeque<T>,
    /// Entries that were taken before their mark was on the descriptor.
    debt: usize,
}

/// How long who finds only what is not for it waits.
const OTHERS: Duration = Duration::from_millis(2);

fn last() -> Errno {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

impl<T> FdQueue<T> {
    pub(crate) fn new() -> Result<FdQueue<T>, Errno> {
        // SAFETY: takes no memory of ours.
        let fd = unsafe { libc::eventfd(0, libc::EFD_SEMAPHORE | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(last());
        }
        let inner = Mutex::new(Inner { sorted: VecDeque::new(), debt: 0 });
        Ok(FdQueue { fd, incoming: SegQueue::new(), inner })
    }

    pub(crate) const fn fd(&self) -> c_int {
        self.fd
    }

    /// Puts something in.
    pub(crate) fn put(&self, value: T) {
        self.incoming.push(value);
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the eight bytes are there to be read. It fails at 2^64 marks alone.
        let _ = unsafe { libc::write(self.fd, one.as_ptr().cast(), one.len()) };
    }

    /// Waits until the descriptor is readable, for so many milliseconds, -1 for ever; whether it is.
    fn poll(&self, timeout: c_int) -> Result<bool, Errno> {
        let mut entry = libc::pollfd { fd: self.fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which is ours.
        match unsafe { libc::poll(&raw mut entry, 1, timeout) } {
            0 => Ok(false),
            n if n > 0 => Ok(true),
            _ => Err(last()),
        }
    }

    /// Takes marks off the descriptor, for as many entries as were taken.
    fn pay(&self, inner: &mut Inner<T>) {
        while inner.debt > 0 && self.poll(0) == Ok(true) {
            let mut mark = [0_u8; 8];
            // SAFETY: there is room for the eight bytes.
            let _ = unsafe { libc::read(self.fd, mark.as_mut_ptr().cast(), mark.len()) };
            inner.debt -= 1;
        }
    }

    /// Takes the oldest entry that `mine` likes. Without one it waits, or says EAGAIN where the descriptor does not block.
    pub(crate) fn take(&self, mine: impl Fn(&T) -> bool) -> Result<T, Errno> {
        loop {
            let mut inner = lock(&self.inner);
            while let Some(value) = self.incoming.pop() {
                inner.sorted.push_back(value);
            }
            let at = inner.sorted.iter().position(&mine);
            if let Some(value) = at.and_then(|at| inner.sorted.remove(at)) {
                inner.debt += 1;
                self.pay(&mut inner);
                return Ok(value);
            }
            self.pay(&mut inner);
            let others = !inner.sorted.is_empty();
            drop(inner);
            // SAFETY: asks for a number.
            let flags = unsafe { libc::fcntl(self.fd, libc::F_GETFL) };
            if flags < 0 {
                return Err(last());
            }
            if flags & libc::O_NONBLOCK != 0 {
                return Err(libc::EAGAIN);
            }
            if others {
                std::thread::sleep(OTHERS);
            } else {
                self.poll(-1)?;
            }
        }
    }

    /// Takes out all that `gone` says.
    pub(crate) fn purge(&self, gone: impl Fn(&T) -> bool) {
        let mut inner = lock(&self.inner);
        while let Some(value) = self.incoming.pop() {
            inner.sorted.push_back(value);
        }
        let before = inner.sorted.len();
        inner.sorted.retain(|value| !gone(value));
        inner.debt += before - inner.sorted.len();
        self.pay(&mut inner);
    }
}

impl<T> Drop for FdQueue<T> {
    fn drop(&mut self) {
        // SAFETY: opened in `new`, and closed here alone.
        unsafe { libc::close(self.fd) };
    }
}

/// Something that was handed out and wants to be acknowledged, so often.
#[derive(Debug, Default)]
pub(crate) struct Unacked {
    count: Mutex<u64>,
    changed: std::sync::Condvar,
}

impl Unacked {
    pub(crate) fn add(&self) {
        *lock(&self.count) += 1;
    }

    pub(crate) fn ack(&self, count: u64) {
        let mut left = lock(&self.count);
        *left = left.saturating_sub(count);
        self.changed.notify_all();
    }

    /// Waits until all are acknowledged.
    pub(crate) fn wait(&self) {
        let mut left = lock(&self.count);
        while *left > 0 {
            left = self.changed.wait(left).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> FdQueue<u32> {
        FdQueue::new().unwrap()
    }

    #[test]
    fn a_queue_is_readable_exactly_while_there_is_something_in_it() {
        let queue = queue();
        assert_eq!(queue.poll(0), Ok(false));
        (1..=3).for_each(|n| queue.put(n));
        assert_eq!(queue.poll(0), Ok(true));
        assert_eq!(queue.take(|&n| n == 2), Ok(2));
        assert_eq!(queue.take(|_| true), Ok(1));
        assert_eq!(queue.poll(0), Ok(true));
        queue.purge(|&n| n == 3);
        assert_eq!(queue.poll(0), Ok(false));
    }

    #[test]
    fn who_takes_waits_for_what_comes_unless_the_descriptor_does_not_block() {
        let queue = queue();
        // SAFETY: sets a flag of a descriptor that is open.
        unsafe { libc::fcntl(queue.fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        assert_eq!(queue.take(|_| true), Err(libc::EAGAIN));
        // SAFETY: as above.
        unsafe { libc::fcntl(queue.fd(), libc::F_SETFL, 0) };
        std::thread::scope(|scope| {
            let taker = scope.spawn(|| queue.take(|&n| n == 7));
            queue.put(6);
            std::thread::sleep(Duration::from_millis(20));
            queue.put(7);
            assert_eq!(taker.join().unwrap(), Ok(7));
        });
        assert_eq!(queue.take(|_| true), Ok(6));
    }

    #[test]
    fn who_waits_for_acknowledgements_goes_on_once_all_are_there() {
        let unacked = Unacked::default();
        unacked.wait();
        unacked.add();
        unacked.add();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| unacked.wait());
            unacked.ack(1);
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiter.is_finished());
            unacked.ack(1);
        });
    }
}
