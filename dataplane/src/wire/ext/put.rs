//! How extension headers get into a frame.

use super::{Aeth, EndpointRequest, EndpointResponse, Ext, Nack, Probe, Sack, WriteHeaders};

/// Extension headers, whose kind may be known beforehand.
pub trait ExtHeaders {
    /// Writes them at the start of `out`, and returns how many bytes they take; `None` when they do not fit.
    fn put(&self, out: &mut [u8]) -> Option<usize>;
}

impl ExtHeaders for WriteHeaders {
    #[inline(always)]
    fn put(&self, out: &mut [u8]) -> Option<usize> {
        let len = self.len();
        // Most have neither timestamp nor immediate data.
        if len == WriteHeaders::PLAIN {
            self.write(&mut Cursor { out: out.first_chunk_mut::<{ WriteHeaders::PLAIN }>()?, at: 0 });
        } else {
            self.write(&mut Cursor { out: out.get_mut(..len)?, at: 0 });
        }
        Some(len)
    }
}

impl ExtHeaders for Ext {
    #[inline]
    fn put(&self, out: &mut [u8]) -> Option<usize> {
        match self {
            Ext::Write(headers) => headers.put(out),
            Ext::Ack(aeth) => aeth.put(out),
            Ext::Sack(sack) => sack.put(out),
            Ext::Nack(nack) => nack.put(out),
            Ext::Probe(probe) => probe.put(out),
            Ext::EndpointRequest(request) => request.put(out),
            Ext::EndpointResponse(response) => response.put(out),
            Ext::Cut => Some(0),
        }
    }
}

/// Headers of one length.
macro_rules! fixed {
    ($($headers:ty)*) => {$(
        impl ExtHeaders for $headers {
            // Where the length is known, so are all places.
            #[inline]
            fn put(&self, out: &mut [u8]) -> Option<usize> {
                self.write(&mut Cursor { out: out.first_chunk_mut::<{ <$headers>::LEN }>()?, at: 0 });
                Some(<$headers>::LEN)
            }
        }
    )*};
}

fixed! { Aeth Sack Nack Probe EndpointRequest EndpointResponse }

/// Writes one field after the other. What does not fit is left out: callers size the buffer by `len()`.
pub(super) struct Cursor<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl Cursor<'_> {
    #[inline(always)]
    pub(super) fn put(&mut self, bytes: &[u8]) {
        let end = self.at + bytes.len();
        debug_assert!(end <= self.out.len(), "headers longer than their len()");
        if let Some(room) = self.out.get_mut(self.at..end) {
            room.copy_from_slice(bytes);
        }
        self.at = end;
    }

    #[inline]
    pub(super) fn put16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    #[inline]
    pub(super) fn put32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }
}
