//! Packet captures, read one packet at a time: pcap (micro- and nanoseconds) and pcapng, in either byte order.
//!
//! A [`Capture`] holds one record in memory, however large the file. It notices what libpcap, and so DPDK's net_pcap port, passes
//! over in silence: a link type that is not Ethernet, packets cut by the snapshot length, and a last record that is cut off.

mod blocks;
mod error;
mod link;
mod window;

pub use error::{CaptureError, Reason};
pub use link::LinkType;

use blocks::{Located, Step};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use window::Window;

/// Kind of capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The classic format of libpcap.
    Pcap,
    /// The block format of Wireshark.
    Pcapng,
}

/// Order of the bytes of a number in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

/// Where packets of a capture were taken. A pcap file has one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Section of the file that describes it, from 0.
    pub section: u32,
    /// Its name, where the file gives one.
    pub name: Option<String>,
    /// What its packets begin with.
    pub link_type: LinkType,
    /// Most bytes of a packet that are kept; 0 for no limit.
    pub snaplen: u32,
    /// Units of its timestamps in a second: 1,000,000 for microseconds.
    pub ticks_per_second: u64,
    /// Seconds to add to its timestamps.
    offset: i64,
}

/// What a capture file says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Kind of file.
    pub format: Format,
    /// Byte order of the section that was read last; a pcap file is one section.
    pub byte_order: ByteOrder,
    /// Sections so far.
    pub sections: u32,
    /// Interfaces so far, of all sections.
    pub interfaces: Vec<Interface>,
}

/// A record that the end of the file cuts off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutTail {
    /// Byte of the file at which the record begins.
    pub at: u64,
    /// Bytes that are missing.
    pub missing: u64,
    /// False when even the record's length is missing: then `missing` is the least that is.
    pub exact: bool,
}

impl std::fmt::Display for CutTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let least = if self.exact { "" } else { "at least " };
        let bytes = if self.missing == 1 { "byte" } else { "bytes" };
        write!(f, "the last record is cut off: {least}{} {bytes} missing", self.missing)
    }
}

/// What was met on the way; complete once [`Capture::next_packet`] has returned `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observations {
    /// Packets.
    pub packets: u64,
    /// Packets of which the capture holds less than was on the wire.
    pub cut_by_snaplen: u64,
    /// Packets that do not begin with an Ethernet header.
    pub not_ethernet: u64,
    /// Blocks of pcapng that hold no packet and describe no interface: statistics, names, secrets, unknown ones.
    pub skipped_blocks: u64,
    /// Blocks of the obsolete packet type of pcapng, which are not read.
    pub obsolete_packets: u64,
    /// The last record, if it is cut off.
    pub cut_tail: Option<CutTail>,
}

/// A packet, lent until the next one is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedPacket<'a> {
    /// Its place in the file, from 0.
    pub index: u64,
    /// Nanoseconds since 1970; `None` where the record has no timestamp.
    pub time_ns: Option<u64>,
    /// Index into [`Facts::interfaces`].
    pub interface: usize,
    /// What `bytes` begins with.
    pub link_type: LinkType,
    /// What was captured.
    pub bytes: &'a [u8],
    /// Bytes on the wire, never less than were captured.
    pub original_len: usize,
}

impl CapturedPacket<'_> {
    /// True when the capture holds less of the packet than was on the wire.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.bytes.len() < self.original_len
    }
}

/// An open capture.
pub struct Capture {
    name: String,
    window: Window,
    facts: Facts,
    /// First interface of the section being read.
    section_start: usize,
    /// The first packet, found while looking for the interfaces.
    peeked: Option<Located>,
    seen: Observations,
    done: bool,
}

impl Capture {
    /// Opens the file at `path`, or standard input where it is `-`.
    ///
    /// # Errors
    /// The file can't be opened, is empty, is no capture, or holds no Ethernet: see [`Reason`].
    pub fn open(path: &Path) -> Result<Capture, CaptureError> {
        if path == Path::new("-") {
            return Capture::from_reader(Box::new(std::io::stdin().lock()), "standard input");
        }
        let name = path.display().to_string();
        let fail = |reason| CaptureError { name: name.clone(), reason };
        let file = File::open(path).map_err(|e| fail(Reason::Open(e)))?;
        if file.metadata().is_ok_and(|facts| facts.is_dir()) {
            return Err(fail(Reason::Directory));
        }
        Capture::from_reader(Box::new(file), &name)
    }

    /// Reads a capture from `input`, called `name` in errors.
    ///
    /// # Errors
    /// As [`Capture::open`].
    pub fn from_reader(input: Box<dyn Read>, name: &str) -> Result<Capture, CaptureError> {
        let mut window = Window::new(input);
        let facts =
            blocks::read_file_header(&mut window).map_err(|reason| CaptureError { name: name.to_owned(), reason })?;
        let mut capture = Capture {
            name: name.to_owned(),
            window,
            facts,
            section_start: 0,
            peeked: None,
            seen: Observations::default(),
            done: false,
        };
        capture.peeked = capture.locate()?;
        let interfaces = &capture.facts.interfaces;
        if let Some(first) = interfaces.first()
            && !interfaces.iter().any(|interface| interface.link_type.is_ethernet())
        {
            return Err(capture.fail(Reason::NotEthernet(first.link_type)));
        }
        Ok(capture)
    }

    /// The file's name, for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the file says about itself, as far as it was read: in pcapng, sections and interfaces may follow.
    #[must_use]
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What was met so far.
    #[must_use]
    pub const fn observations(&self) -> &Observations {
        &self.seen
    }

    /// The next packet; `None` at the end. A record that the end of the file cuts off is no error:
    /// [`Observations::cut_tail`] tells of it.
    ///
    /// # Errors
    /// The file can't be read, or is damaged. After an error there are no more packets.
    pub fn next_packet(&mut self) -> Result<Option<CapturedPacket<'_>>, CaptureError> {
        let found = match self.peeked.take() {
            Some(packet) => Some(packet),
            None => self.locate()?,
        };
        let Some(packet) = found else { return Ok(None) };
        let index = self.seen.packets;
        let link_type = self.facts.interfaces[packet.interface].link_type;
        let bytes = &self.window.record()[packet.bytes];
        let original_len = packet.original_len.max(bytes.len());
        self.seen.packets += 1;
        self.seen.cut_by_snaplen += u64::from(bytes.len() < original_len);
        self.seen.not_ethernet += u64::from(!link_type.is_ethernet());
        let (time_ns, interface) = (packet.time_ns, packet.interface);
        Ok(Some(CapturedPacket { index, time_ns, interface, link_type, bytes, original_len }))
    }

    /// Reads records up to the next packet.
    fn locate(&mut self) -> Result<Option<Located>, CaptureError> {
        while !self.done {
            match self.step() {
                Ok(Step::Packet(packet)) => return Ok(Some(packet)),
                Ok(Step::Other) => {}
                Ok(Step::End(cut_tail)) => {
                    self.seen.cut_tail = cut_tail;
                    self.done = true;
                }
                Err(reason) => {
                    self.done = true;
                    return Err(self.fail(reason));
                }
            }
        }
        Ok(None)
    }

    fn fail(&self, reason: Reason) -> CaptureError {
        CaptureError { name: self.name.clone(), reason }
    }
}

#[cfg(test)]
mod tests;
