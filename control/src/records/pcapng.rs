//! Packets as a capture for Wireshark: an interface for each port of each NIC, and a comment for each packet.

use super::rows::{Node, cause_name, kind_name, nack_name, verdict_name};
use dataplane::nic::{Direction, EvState, Seen};
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

/// Times have units of 10^-9 s.
const NANOSECONDS: u8 = 9;
/// Direction of a packet in its flags.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// A capture that is written.
pub struct PacketCapture {
    writer: PcapNgWriter<BufWriter<File>>,
    interfaces: HashMap<(u32, u8), u32>,
    snaplen: u32,
    /// What time it was when the NICs' clock stood at 0.
    epoch: Duration,
}

fn failed(error: pcap_file::PcapError) -> io::Error {
    match error {
        pcap_file::PcapError::IoError(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

impl PacketCapture {
    /// Makes the file anew. Packets are cut to `snaplen` bytes; `epoch` is the time of day when the NICs' clock stood at 0.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path, snaplen: u32, epoch: Duration) -> io::Result<PacketCapture> {
        let writer = PcapNgWriter::new(BufWriter::new(File::create(path)?)).map_err(failed)?;
        Ok(PacketCapture { writer, interfaces: HashMap::new(), snaplen, epoch })
    }

    /// Adds a packet, of which `bytes` were kept.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&mut self, node: &Node, seen: &Seen, bytes: &[u8]) -> io::Result<()> {
        let interface_id = self.interface(node, seen.port.0)?;
        let direction = if seen.direction == Direction::Rx { INBOUND } else { OUTBOUND };
        let block = EnhancedPacketBlock {
            interface_id,
            timestamp: self.epoch + Duration::from_nanos(seen.at.0),
            original_len: seen.frame_len,
            data: Cow::Borrowed(bytes),
            options: vec![EnhancedPacketOption::Comment(comment(seen).into()), EnhancedPacketOption::Flags(direction)],
        };
        self.writer.write_pcapng_block(block).map_err(failed).map(drop)
    }

    fn interface(&mut self, node: &Node, port: u8) -> io::Result<u32> {
        if let Some(&id) = self.interfaces.get(&(node.id, port)) {
            return Ok(id);
        }
        let block = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: self.snaplen,
            options: vec![
                InterfaceDescriptionOption::IfName(format!("{}:{}", node.name, port + 1).into()),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        };
        self.writer.write_pcapng_block(block).map_err(failed)?;
        let id = self.interfaces.len() as u32;
        self.interfaces.insert((node.id, port), id);
        Ok(id)
    }

    /// Writes what is held back.
    ///
    /// # Errors
    /// What the system says.
    pub fn flush(&mut self) -> io::Result<()> {
        self.writer.get_mut().flush()
    }
}

/// What Wireshark cannot see: what became of a packet, and what the NIC thought of its path.
fn comment(seen: &Seen) -> String {
    let mut text = match seen.direction {
        Direction::Tx => "tx".to_owned(),
        Direction::Rtx(cause) => format!("rtx after {}", cause_name(cause)),
        Direction::Rx => format!("rx: {}", verdict_name(seen)),
    };
    // Writing into a String cannot fail.
    if let Some(kind) = seen.kind {
        let _ = write!(text, "; {} on EV {}", kind_name(kind), seen.ev);
    }
    if let Some(state) = seen.ev_state.map(EvState::name) {
        let _ = write!(text, ", which is {state}");
    }
    if let Some(nack) = seen.nack {
        let _ = write!(text, "; NACK: {}", nack_name(nack));
    }
    text
}
