//! Records of a capture file. Where one begins and ends is found here, so that no length that the file claims is trusted; what is in
//! it is read by pcap-parser.

use super::{ByteOrder, Capture, CutTail, Facts, Format, Interface, LinkType, Reason, Window};
use pcap_parser::pcapng::{self, Block, OptionCode, PcapNGOption};
use pcap_parser::{parse_pcap_frame, parse_pcap_frame_be, parse_pcap_header};
use std::ops::Range;

/// Most captured bytes of a packet, as in libpcap.
const PACKET_MAX: usize = 262_144;
/// Longest block of pcapng, as in libpcap.
const BLOCK_MAX: usize = 16 << 20;
/// Most interfaces of a file.
const INTERFACES_MAX: usize = 4_096;

const PCAP_HEADER: usize = 24;
const PCAP_RECORD: usize = 16;
/// Type and length of a block, and the magic that tells a section's byte order.
const BLOCK_START: usize = 12;
const SECTION: [u8; 4] = [0x0A, 0x0D, 0x0D, 0x0A];
const OBSOLETE_PACKET: u32 = 2;
/// Where the packet begins in its block.
const ENHANCED_DATA: usize = 28;
const SIMPLE_DATA: usize = 12;

/// A packet in the current record.
pub(super) struct Located {
    pub(super) bytes: Range<usize>,
    pub(super) original_len: usize,
    pub(super) time_ns: Option<u64>,
    pub(super) interface: usize,
}

/// What the next record is.
pub(super) enum Step {
    Packet(Located),
    Other,
    End(Option<CutTail>),
}

/// Reads the header of a pcap file; of a pcapng file only which byte order it begins with.
pub(super) fn read_file_header(window: &mut Window) -> Result<Facts, Reason> {
    let got = window.fill(PCAP_HEADER).map_err(Reason::Read)?;
    let head = window.ahead();
    if got == 0 {
        return Err(Reason::Empty);
    }
    if head.starts_with(&SECTION) {
        let byte_order = section_order(head).ok_or_else(|| {
            Reason::NotACapture("it begins as pcapng does, but its section header is damaged".to_owned())
        })?;
        return Ok(Facts { format: Format::Pcapng, byte_order, sections: 0, interfaces: Vec::new() });
    }
    check_magic(head)?;
    if got < PCAP_HEADER {
        return Err(Reason::NotACapture(format!(
            "it ends inside the file header, which takes {PCAP_HEADER} bytes; it has {got}"
        )));
    }
    let (_, header) =
        parse_pcap_header(head).map_err(|_| Reason::NotACapture("its header can't be read".to_owned()))?;
    if header.version_major != 2 {
        let (major, minor) = (header.version_major, header.version_minor);
        return Err(Reason::NotACapture(format!("it is of pcap version {major}.{minor}, and only 2.x is known")));
    }
    let interface = Interface {
        section: 0,
        name: None,
        // The high bits say whether frames end in an FCS, which is ignored like all trailing bytes.
        link_type: LinkType(header.network.0 as u16),
        snaplen: header.snaplen,
        ticks_per_second: if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 },
        offset: 0,
    };
    let byte_order = if header.is_bigendian() { ByteOrder::Big } else { ByteOrder::Little };
    window.set_record(PCAP_HEADER);
    Ok(Facts { format: Format::Pcap, byte_order, sections: 1, interfaces: vec![interface] })
}

/// Names what is not pcap by its first bytes.
fn check_magic(head: &[u8]) -> Result<(), Reason> {
    let magic = head.get(..4).unwrap_or(head);
    let what = match magic {
        [0xD4, 0xC3, 0xB2, 0xA1] | [0x4D, 0x3C, 0xB2, 0xA1] | [0xA1, 0xB2, 0xC3, 0xD4] | [0xA1, 0xB2, 0x3C, 0x4D] => {
            return Ok(());
        }
        [0x34, 0xCD, 0xB2, 0xA1] | [0xA1, 0xB2, 0xCD, 0x34] => {
            "it is of a variant of pcap with longer record headers; convert it with editcap -F pcap"
        }
        [0x1F, 0x8B, ..] => "it is compressed by gzip; uncompress it first (gunzip)",
        [0x28, 0xB5, 0x2F, 0xFD] => "it is compressed by zstd; uncompress it first (unzstd)",
        [0xFD, b'7', b'z', b'X'] => "it is compressed by xz; uncompress it first (unxz)",
        [0x04, 0x22, 0x4D, 0x18] => "it is compressed by lz4; uncompress it first (unlz4)",
        b"snoo" => "it is a snoop file; convert it with editcap -F pcap",
        _ => {
            let bytes: Vec<String> = magic.iter().map(|byte| format!("{byte:02x}")).collect();
            return Err(Reason::NotACapture(format!(
                "neither pcap nor pcapng begins with the bytes {}",
                bytes.join(" ")
            )));
        }
    };
    Err(Reason::NotACapture(what.to_owned()))
}

/// The byte order of the section that `head` begins.
fn section_order(head: &[u8]) -> Option<ByteOrder> {
    match head.get(8..12)? {
        [0x4D, 0x3C, 0x2B, 0x1A] => Some(ByteOrder::Little),
        [0x1A, 0x2B, 0x3C, 0x4D] => Some(ByteOrder::Big),
        _ => None,
    }
}

/// The number at `at`, 0 where it is not there.
fn number(bytes: &[u8], at: usize, order: ByteOrder) -> u32 {
    let Some(&b) = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()) else { return 0 };
    match order {
        ByteOrder::Little => u32::from_le_bytes(b),
        ByteOrder::Big => u32::from_be_bytes(b),
    }
}

/// Units of a timestamp in a second: a power of ten, or of two where the top bit is set (pcapng, if_tsresol).
fn ticks_per_second(resolution: u8) -> Option<u64> {
    let power = u32::from(resolution & 0x7F);
    if resolution & 0x80 == 0 { 10_u64.checked_pow(power) } else { 1_u64.checked_shl(power) }
}

fn option<'a>(options: &'a [PcapNGOption<'_>], code: OptionCode) -> Option<&'a [u8]> {
    options.iter().find(|o| o.code == code)?.as_bytes().ok()
}

impl Interface {
    /// Nanoseconds since 1970 of a timestamp in this interface's units.
    fn time_ns(&self, ticks: u64) -> u64 {
        let ns = u128::from(ticks) * 1_000_000_000 / u128::from(self.ticks_per_second);
        let ns = i128::try_from(ns).unwrap_or(i128::MAX).saturating_add(i128::from(self.offset) * 1_000_000_000);
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}

impl Capture {
    /// Goes on to the next record.
    pub(super) fn step(&mut self) -> Result<Step, Reason> {
        self.window.next_record();
        match self.facts.format {
            Format::Pcap => self.step_pcap(),
            Format::Pcapng => self.step_pcapng(),
        }
    }

    fn damaged(&self, what: String) -> Reason {
        Reason::Damaged { at: self.window.at(), what }
    }

    /// Brings a record of `need` bytes into memory, or says that the file ends before it does.
    fn whole(&mut self, need: usize, exact: bool) -> Result<Option<Step>, Reason> {
        let got = self.window.fill(need).map_err(Reason::Read)?;
        Ok(match got {
            0 => Some(Step::End(None)),
            got if got < need => {
                let missing = (need - got) as u64;
                Some(Step::End(Some(CutTail { at: self.window.at(), missing, exact })))
            }
            _ => None,
        })
    }

    fn step_pcap(&mut self) -> Result<Step, Reason> {
        if let Some(end) = self.whole(PCAP_RECORD, false)? {
            return Ok(end);
        }
        let order = self.facts.byte_order;
        let captured = number(self.window.ahead(), 8, order) as usize;
        if captured > PACKET_MAX {
            return Err(
                self.damaged(format!("a packet of {captured} bytes, more than the {PACKET_MAX} that pcap allows"))
            );
        }
        let need = PCAP_RECORD + captured;
        if let Some(end) = self.whole(need, true)? {
            return Ok(end);
        }
        let parse = if order == ByteOrder::Big { parse_pcap_frame_be } else { parse_pcap_frame };
        let (_, frame) =
            parse(&self.window.ahead()[..need]).map_err(|_| self.damaged("a record that can't be read".to_owned()))?;
        let tick_ns = 1_000_000_000 / self.facts.interfaces[0].ticks_per_second;
        let packet = Located {
            bytes: PCAP_RECORD..need,
            original_len: frame.origlen as usize,
            time_ns: Some(u64::from(frame.ts_sec) * 1_000_000_000 + u64::from(frame.ts_usec) * tick_ns),
            interface: 0,
        };
        self.window.set_record(need);
        Ok(Step::Packet(packet))
    }

    fn step_pcapng(&mut self) -> Result<Step, Reason> {
        if let Some(end) = self.whole(BLOCK_START, false)? {
            return Ok(end);
        }
        let head = self.window.ahead();
        if head.starts_with(&SECTION) {
            let order = section_order(head);
            self.facts.byte_order =
                order.ok_or_else(|| self.damaged("a section header of neither byte order".to_owned()))?;
        }
        let len = number(self.window.ahead(), 4, self.facts.byte_order) as usize;
        if len < BLOCK_START || !len.is_multiple_of(4) {
            return Err(self.damaged(format!("a block of {len} bytes, which can't be: it takes 12 or more, in fours")));
        }
        if len > BLOCK_MAX {
            return Err(self.damaged(format!("a block of {len} bytes, more than the {BLOCK_MAX} that are read")));
        }
        if let Some(end) = self.whole(len, true)? {
            return Ok(end);
        }
        self.window.set_record(len);
        self.read_block()
    }

    /// Reads the block that is the current record.
    fn read_block(&mut self) -> Result<Step, Reason> {
        let order = self.facts.byte_order;
        let parse = if order == ByteOrder::Big { pcapng::parse_block_be } else { pcapng::parse_block_le };
        // A block that can't be read matters only when it is one that we use.
        let kind = number(self.window.record(), 0, order);
        let used = [pcapng::SHB_MAGIC, pcapng::IDB_MAGIC, pcapng::EPB_MAGIC, pcapng::SPB_MAGIC].contains(&kind);
        let Ok((_, block)) = parse(self.window.record()) else {
            if used {
                return Err(self.damaged(format!("a block of type {kind} that can't be read")));
            }
            self.seen.skipped_blocks += 1;
            return Ok(Step::Other);
        };
        match block {
            Block::SectionHeader(section) if section.major_version != 1 => {
                let (major, minor) = (section.major_version, section.minor_version);
                return Err(self.damaged(format!("a section of pcapng version {major}.{minor}, and only 1.x is known")));
            }
            Block::SectionHeader(_) => {
                self.facts.sections += 1;
                self.section_start = self.facts.interfaces.len();
            }
            Block::InterfaceDescription(interface) => {
                let interface = read_interface(&interface, order, self.facts.sections.saturating_sub(1));
                let interface = interface.map_err(|what| self.damaged(what))?;
                if self.facts.interfaces.len() == INTERFACES_MAX {
                    return Err(self.damaged(format!("more than {INTERFACES_MAX} interfaces")));
                }
                self.facts.interfaces.push(interface);
            }
            Block::EnhancedPacket(packet) => {
                let (at, ticks) = (packet.if_id, u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low));
                let (captured, original_len) = (packet.caplen as usize, packet.origlen as usize);
                let interface = self.interface(at)?;
                return Ok(Step::Packet(Located {
                    bytes: ENHANCED_DATA..ENHANCED_DATA + captured,
                    original_len,
                    time_ns: Some(self.facts.interfaces[interface].time_ns(ticks)),
                    interface,
                }));
            }
            Block::SimplePacket(packet) => {
                let (room, original_len) = (packet.data.len(), packet.origlen as usize);
                let interface = self.interface(0)?;
                let limit = match self.facts.interfaces[interface].snaplen as usize {
                    0 => usize::MAX,
                    snaplen => snaplen,
                };
                let captured = original_len.min(limit).min(room);
                let bytes = SIMPLE_DATA..SIMPLE_DATA + captured;
                return Ok(Step::Packet(Located { bytes, original_len, time_ns: None, interface }));
            }
            Block::Unknown(_) if kind == OBSOLETE_PACKET => self.seen.obsolete_packets += 1,
            _ => self.seen.skipped_blocks += 1,
        }
        Ok(Step::Other)
    }

    /// The place of a section's interface `id` among all.
    fn interface(&self, id: u32) -> Result<usize, Reason> {
        let place = self.section_start + id as usize;
        if place < self.facts.interfaces.len() {
            Ok(place)
        } else {
            Err(self.damaged(format!("a packet of interface {id}, which the file has not described")))
        }
    }
}

fn read_interface(
    block: &pcapng::InterfaceDescriptionBlock<'_>,
    order: ByteOrder,
    section: u32,
) -> Result<Interface, String> {
    let resolution = option(&block.options, OptionCode::IfTsresol).and_then(|v| v.first().copied()).unwrap_or(6);
    let offset = option(&block.options, OptionCode::IfTsoffset).and_then(|v| v.first_chunk::<8>());
    Ok(Interface {
        section,
        name: option(&block.options, OptionCode::IfName)
            .map(|name| String::from_utf8_lossy(name).trim_end_matches('\0').to_owned()),
        link_type: LinkType(block.linktype.0 as u16),
        snaplen: block.snaplen,
        ticks_per_second: ticks_per_second(resolution)
            .ok_or_else(|| format!("an interface whose time resolution is {resolution}"))?,
        offset: offset.map_or(0, |&b| match order {
            ByteOrder::Little => i64::from_le_bytes(b),
            ByteOrder::Big => i64::from_be_bytes(b),
        }),
    })
}
