use super::*;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::blocks::interface_statistics::InterfaceStatisticsBlock;
use pcap_file::pcapng::blocks::section_header::SectionHeaderBlock;
use pcap_file::pcapng::blocks::simple_packet::SimplePacketBlock;
use pcap_file::{DataLink, Endianness, TsResolution};
use proptest::prelude::*;
use std::borrow::Cow;
use std::io::Cursor;
use std::time::Duration;

type Seen = (Vec<u8>, usize, Option<u64>);

fn open(bytes: &[u8]) -> Result<Capture, CaptureError> {
    Capture::from_reader(Box::new(Cursor::new(bytes.to_vec())), "test")
}

fn read_all(capture: &mut Capture) -> Result<Vec<Seen>, CaptureError> {
    let mut packets = Vec::new();
    while let Some(packet) = capture.next_packet()? {
        assert_eq!(packet.index, packets.len() as u64);
        packets.push((packet.bytes.to_vec(), packet.original_len, packet.time_ns));
    }
    Ok(packets)
}

fn pcap(header: PcapHeader, packets: &[(&[u8], u32, Duration)]) -> Vec<u8> {
    let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
    for &(bytes, original, time) in packets {
        writer.write_packet(&PcapPacket::new(time, original, bytes)).unwrap();
    }
    writer.into_writer()
}

fn interface(linktype: DataLink, snaplen: u32) -> InterfaceDescriptionBlock<'static> {
    InterfaceDescriptionBlock { linktype, snaplen, options: vec![] }
}

fn enhanced(interface_id: u32, timestamp: Duration, data: &[u8]) -> EnhancedPacketBlock<'_> {
    EnhancedPacketBlock {
        interface_id,
        timestamp,
        original_len: data.len() as u32,
        data: Cow::Borrowed(data),
        options: vec![],
    }
}

fn big_endian_section() -> SectionHeaderBlock<'static> {
    SectionHeaderBlock { endianness: Endianness::Big, ..Default::default() }
}

#[test]
fn pcap_is_read_in_either_byte_order_and_resolution() {
    let time = Duration::new(1_700_000_000, 123_456_789);
    for endianness in [Endianness::Little, Endianness::Big] {
        for (ts_resolution, ns) in [
            (TsResolution::MicroSecond, 1_700_000_000_123_456_000),
            (TsResolution::NanoSecond, 1_700_000_000_123_456_789),
        ] {
            let header = PcapHeader { endianness, ts_resolution, snaplen: 100, ..Default::default() };
            let bytes = pcap(header, &[(&[1; 60], 60, time), (&[2; 100], 4_174, time)]);
            let mut capture = open(&bytes).unwrap();
            let facts = capture.facts().clone();
            assert_eq!(facts.format, Format::Pcap);
            assert_eq!(facts.byte_order == ByteOrder::Big, endianness == Endianness::Big);
            assert_eq!((facts.interfaces[0].link_type, facts.interfaces[0].snaplen), (LinkType::ETHERNET, 100));
            let packets = read_all(&mut capture).unwrap();
            assert_eq!(packets, [(vec![1; 60], 60, Some(ns)), (vec![2; 100], 4_174, Some(ns))]);
            assert_eq!(
                *capture.observations(),
                Observations { packets: 2, cut_by_snaplen: 1, ..Observations::default() }
            );
        }
    }
}

#[test]
fn pcapng_sections_interfaces_and_other_blocks_are_read_or_skipped() {
    let mut writer = PcapNgWriter::with_endianness(Vec::new(), Endianness::Little).unwrap();
    let mut named = interface(DataLink::ETHERNET, 96);
    named.options.push(InterfaceDescriptionOption::IfName(Cow::Borrowed("eth0")));
    let mut fine = interface(DataLink::ETHERNET, 0);
    fine.options.push(InterfaceDescriptionOption::IfTsResol(9));
    writer.write_pcapng_block(named).unwrap();
    writer.write_pcapng_block(fine).unwrap();
    // The writer puts a timestamp's nanoseconds down as the interface's units.
    writer.write_pcapng_block(enhanced(1, Duration::from_nanos(5_000), &[1; 61])).unwrap();
    writer.write_pcapng_block(InterfaceStatisticsBlock { interface_id: 0, timestamp: 0, options: vec![] }).unwrap();
    writer.write_pcapng_block(SimplePacketBlock { original_len: 1_000, data: Cow::Borrowed(&[2; 96]) }).unwrap();
    writer.write_pcapng_block(big_endian_section()).unwrap();
    writer.write_pcapng_block(interface(DataLink::LINUX_SLL, 0)).unwrap();
    writer.write_pcapng_block(interface(DataLink::ETHERNET, 0)).unwrap();
    writer.write_pcapng_block(enhanced(1, Duration::from_nanos(7), &[3; 5])).unwrap();
    writer.write_pcapng_block(enhanced(0, Duration::from_nanos(8), &[4; 4])).unwrap();
    let bytes = writer.into_inner();

    let mut capture = open(&bytes).unwrap();
    let packets = read_all(&mut capture).unwrap();
    assert_eq!(
        packets,
        [
            (vec![1; 61], 61, Some(5_000)),
            (vec![2; 96], 1_000, None),
            (vec![3; 5], 5, Some(7_000)),
            (vec![4; 4], 4, Some(8_000)),
        ]
    );
    let facts = capture.facts();
    assert_eq!((facts.format, facts.sections, facts.byte_order), (Format::Pcapng, 2, ByteOrder::Big));
    let sections: Vec<u32> = facts.interfaces.iter().map(|i| i.section).collect();
    assert_eq!(sections, [0, 0, 1, 1]);
    assert_eq!(facts.interfaces[0].name.as_deref(), Some("eth0"));
    assert_eq!(facts.interfaces[1].ticks_per_second, 1_000_000_000);
    let expected =
        Observations { packets: 4, cut_by_snaplen: 1, not_ethernet: 1, skipped_blocks: 1, ..Observations::default() };
    assert_eq!(*capture.observations(), expected);
}

#[test]
fn a_time_offset_and_a_binary_resolution_count_in_either_byte_order() {
    for endianness in [Endianness::Little, Endianness::Big] {
        let mut writer = PcapNgWriter::with_endianness(Vec::new(), endianness).unwrap();
        let mut shifted = interface(DataLink::ETHERNET, 0);
        shifted.options.push(InterfaceDescriptionOption::IfTsResol(0x80 | 10));
        shifted.options.push(InterfaceDescriptionOption::IfTsOffset(3));
        writer.write_pcapng_block(shifted).unwrap();
        writer.write_pcapng_block(enhanced(0, Duration::from_nanos(512), &[0; 14])).unwrap();
        let packets = read_all(&mut open(&writer.into_inner()).unwrap()).unwrap();
        assert_eq!(packets[0].2, Some(3_500_000_000), "{endianness:?}");
    }
}

#[test]
fn a_file_cut_anywhere_gives_what_is_whole_and_tells_how_much_is_missing() {
    let packets: [(&[u8], u32, Duration); 2] = [(&[1; 60], 60, Duration::ZERO), (&[2; 44], 44, Duration::ZERO)];
    let bytes = pcap(PcapHeader::default(), &packets);
    let first_end = 24 + 16 + 60;
    for len in first_end + 1..bytes.len() {
        let mut capture = open(&bytes[..len]).unwrap();
        assert_eq!(read_all(&mut capture).unwrap().len(), 1);
        let tail = capture.observations().cut_tail.unwrap();
        assert_eq!(tail.at, first_end as u64);
        let exact = len >= first_end + 16;
        let missing = if exact { bytes.len() - len } else { first_end + 16 - len };
        assert_eq!((tail.missing, tail.exact), (missing as u64, exact), "{len}");
    }
    let mut whole = open(&bytes).unwrap();
    assert_eq!(read_all(&mut whole).unwrap().len(), 2);
    assert_eq!(whole.observations().cut_tail, None);
    let tail = CutTail { at: 100, missing: 1, exact: true };
    assert_eq!(tail.to_string(), "the last record is cut off: 1 byte missing");
}

#[test]
fn the_wrong_file_is_told_apart_from_a_damaged_one() {
    let message = |bytes: &[u8]| {
        let error = open(bytes).err().expect("an error");
        assert!(error.is_wrong_file(), "{error}");
        error.to_string()
    };
    assert!(message(b"").contains("is empty"));
    assert!(
        message(b"hello, world").contains("not a capture: neither pcap nor pcapng begins with the bytes 68 65 6c 6c")
    );
    assert!(message(&[0x1F, 0x8B, 8, 0]).contains("gunzip"));
    assert!(
        message(&[0xD4, 0xC3, 0xB2, 0xA1, 2, 0])
            .contains("ends inside the file header, which takes 24 bytes; it has 6")
    );
    for (datalink, name) in
        [(DataLink::LINUX_SLL, "Linux cooked SLL (link type 113)"), (DataLink::RAW, "raw IP (link type 101)")]
    {
        let header = PcapHeader { datalink, ..Default::default() };
        assert!(message(&pcap(header, &[])).contains(name));
        let mut writer = PcapNgWriter::new(Vec::new()).unwrap();
        writer.write_pcapng_block(interface(datalink, 0)).unwrap();
        writer.write_pcapng_block(enhanced(0, Duration::ZERO, &[0; 60])).unwrap();
        assert!(message(&writer.into_inner()).contains(name));
    }
}

#[test]
fn a_record_that_claims_more_than_any_capture_holds_is_damage_and_takes_no_memory() {
    let mut bytes = pcap(PcapHeader::default(), &[(&[1; 60], 60, Duration::ZERO)]);
    bytes.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]);
    bytes.resize(bytes.len() + 100, 0);
    let mut capture = open(&bytes).unwrap();
    assert!(capture.next_packet().unwrap().is_some());
    let error = capture.next_packet().expect_err("damage");
    assert!(!error.is_wrong_file());
    assert!(error.to_string().contains("damaged at byte 100: a packet of 4294967295 bytes"), "{error}");
    assert!(capture.next_packet().unwrap().is_none(), "after an error there are no more packets");
}

/// Gives its bytes in small pieces, as a pipe may.
struct Trickle(Cursor<Vec<u8>>);

impl Read for Trickle {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let some = out.len().min(7);
        self.0.read(&mut out[..some])
    }
}

#[test]
fn a_pipe_that_trickles_is_read_like_a_file() {
    let bytes = include_bytes!("../../../../tests/vectors/frames.pcap").to_vec();
    let mut slow = Capture::from_reader(Box::new(Trickle(Cursor::new(bytes.clone()))), "pipe").unwrap();
    let packets = read_all(&mut slow).unwrap();
    assert_eq!(packets.len(), 72);
    assert_eq!(packets, read_all(&mut open(&bytes).unwrap()).unwrap());
}

fn sample(pcapng: bool, big: bool) -> Vec<u8> {
    let endianness = if big { Endianness::Big } else { Endianness::Little };
    if !pcapng {
        let header = PcapHeader { endianness, ..Default::default() };
        return pcap(header, &[(&[1; 61], 61, Duration::ZERO), (&[2; 30], 90, Duration::ZERO)]);
    }
    let mut writer = PcapNgWriter::with_endianness(Vec::new(), endianness).unwrap();
    let mut named = interface(DataLink::ETHERNET, 96);
    named.options.push(InterfaceDescriptionOption::IfTsResol(9));
    named.options.push(InterfaceDescriptionOption::IfTsOffset(3));
    writer.write_pcapng_block(named).unwrap();
    writer.write_pcapng_block(enhanced(0, Duration::ZERO, &[1; 61])).unwrap();
    writer.write_pcapng_block(SimplePacketBlock { original_len: 9, data: Cow::Borrowed(&[2; 9]) }).unwrap();
    writer.into_inner()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_bytes_make_the_reader_panic(
        pcapng: bool,
        big: bool,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        tail in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut bytes = sample(pcapng, big);
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len() * 2));
        bytes.extend(tail);
        if let Ok(mut capture) = open(&bytes) {
            let _ = read_all(&mut capture);
        }
    }
}
