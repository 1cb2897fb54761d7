//! The part of a file that is in memory: one record.

use std::io::{self, ErrorKind, Read};

/// What is read at once.
const CHUNK: usize = 1 << 16;

/// A file, of which some bytes ahead are in memory.
pub(super) struct Window {
    input: Box<dyn Read>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes at the front that belong to the current record.
    record: usize,
    /// Byte of the file that stands at `start`.
    at: u64,
}

impl Window {
    pub(super) fn new(input: Box<dyn Read>) -> Window {
        Window { input, buffer: vec![0; CHUNK], start: 0, end: 0, record: 0, at: 0 }
    }

    /// Byte of the file at which the current record begins.
    pub(super) const fn at(&self) -> u64 {
        self.at
    }

    /// Leaves the current record behind; the next one begins there.
    pub(super) fn next_record(&mut self) {
        self.start += self.record;
        self.at += self.record as u64;
        self.record = 0;
    }

    /// Makes the current record `len` bytes long, which [`Window::fill`] has shown to be there.
    pub(super) fn set_record(&mut self, len: usize) {
        debug_assert!(len <= self.end - self.start);
        self.record = len;
    }

    /// The current record.
    pub(super) fn record(&self) -> &[u8] {
        &self.buffer[self.start..self.start + self.record]
    }

    /// What is in memory from the current record's start.
    pub(super) fn ahead(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Reads until `need` bytes are in memory, or the file ends; says how many are.
    pub(super) fn fill(&mut self, need: usize) -> io::Result<usize> {
        while self.end - self.start < need {
            if self.buffer.len() - self.start < need {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            if self.buffer.len() < need {
                self.buffer.resize(need, 0);
            }
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(got) => self.end += got,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(self.end - self.start)
    }
}
