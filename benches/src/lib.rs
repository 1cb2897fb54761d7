//! What the benches share.

use dataplane::nic::{PortId, TxBurst};
use dataplane::wire::{Addressing, Bth, Ext, MacAddr, Marks, Meth, Opcode, Reth, Template, UDP_PORT, WriteHeaders};
use std::net::Ipv4Addr;

/// Frames in memory that stays where it is, as a driver's bursts have them.
#[derive(Debug)]
pub struct Burst {
    frames: Vec<Vec<u8>>,
    used: usize,
}

impl Burst {
    /// Room for `frames` frames.
    #[must_use]
    pub fn new(frames: usize) -> Burst {
        Burst { frames: vec![Vec::with_capacity(16_384); frames], used: 0 }
    }

    /// What was committed.
    pub fn frames(&self) -> impl Iterator<Item = &[u8]> {
        self.frames[..self.used].iter().map(Vec::as_slice)
    }

    /// Forgets what was committed.
    pub const fn clear(&mut self) {
        self.used = 0;
    }
}

impl TxBurst for Burst {
    fn slot(&mut self, _port: PortId, len: usize) -> Option<&mut [u8]> {
        let frame = self.frames.get_mut(self.used)?;
        frame.resize(len, 0);
        Some(frame)
    }

    fn commit(&mut self) {
        self.used += 1;
    }
}

/// A template between two addresses over IPv4.
#[must_use]
pub fn template() -> Template {
    let addressing = Addressing {
        source_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        vlan: None,
        source: Ipv4Addr::new(10, 0, 0, 1).into(),
        destination: Ipv4Addr::new(10, 0, 0, 2).into(),
        hop_limit: 64,
        udp_port: UDP_PORT,
    };
    Template::new(&addressing).expect("one address family")
}

/// Extension headers of a Write of `len` bytes.
#[must_use]
pub fn write_headers(len: u32) -> Ext {
    let reth = Reth { va: 0x1000, rkey: 0x100, dmalen: len };
    Ext::Write(WriteHeaders { meth: Meth::default(), timestamp: None, reth, immediate: None })
}

/// Writes a data frame with `payload` bytes into `frame`, which has its length. False when it does not fit.
pub fn write_frame(template: &Template, frame: &mut [u8], ext: &Ext, payload: usize) -> bool {
    let marks = Marks { ev: 300, dscp: 4, ecn: 2 };
    let at = template.write_headers(frame, marks, &Bth::new(Opcode::WriteOnly, 0x01_0000, 7), ext, payload);
    at.is_some_and(|at| template.seal(frame, at, payload))
}
