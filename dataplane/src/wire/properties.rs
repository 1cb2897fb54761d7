//! What holds for every frame, tried on random ones.

mod encapsulated;
mod image;

use super::*;
use crate::nic::HEAD_MAX;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use etherparse::{
    IpHeaders, Ipv4Extensions, Ipv4Header, Ipv4HeaderSlice, Ipv6Extensions, Ipv6FlowLabel, Ipv6Header, LaxLinkExtSlice,
    LaxNetSlice, LaxSlicedPacket, LinkSlice, PacketBuilder, SingleVlanHeader, TransportSlice, VlanHeader, VlanId,
    VlanPcp,
};
use proptest::prelude::*;
use proptest::sample::Index;

/// A frame and what it was made of.
#[derive(Clone, Debug)]
struct Sample {
    addressing: Addressing,
    marks: Marks,
    bth: Bth,
    ext: Ext,
    payload: Vec<u8>,
    frame: Vec<u8>,
}

impl Sample {
    fn v6(&self) -> bool {
        self.addressing.source.is_ipv6()
    }

    fn ip_at(&self) -> usize {
        14 + if self.addressing.vlan.is_some() { 4 } else { 0 }
    }

    fn udp_at(&self) -> usize {
        self.ip_at() + if self.v6() { 40 } else { 20 }
    }

    fn bth_at(&self) -> usize {
        self.udp_at() + 8
    }

    /// Bits of the byte at `at` that a switch may change on the way.
    fn mutable_bits(&self, at: usize) -> u8 {
        let ip = self.ip_at();
        let masked: &[(usize, u8)] = if self.v6() {
            &[(0, 0x0F), (1, 0xFF), (2, 0xFF), (3, 0xFF), (7, 0xFF)]
        } else {
            &[(1, 0xFF), (8, 0xFF), (10, 0xFF), (11, 0xFF)]
        };
        let udp_checksum = self.udp_at() + 6..self.udp_at() + 8;
        if udp_checksum.contains(&at) || at == self.bth_at() + 4 {
            return 0xFF;
        }
        masked.iter().find(|(offset, _)| ip + offset == at).map_or(0, |&(_, bits)| bits)
    }

    fn set_dscp(frame: &mut [u8], ip_at: usize, v6: bool, dscp: u8) {
        if v6 {
            frame[ip_at] = 0x60 | dscp >> 2;
            frame[ip_at + 1] = (frame[ip_at + 1] & 0x3F) | dscp << 6;
        } else {
            frame[ip_at + 1] = dscp << 2;
        }
    }
}

fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    prop_oneof![
        any::<([u8; 4], [u8; 4])>().prop_map(|(a, b)| (Ipv4Addr::from(a).into(), Ipv4Addr::from(b).into())),
        any::<([u8; 16], [u8; 16])>().prop_map(|(a, b)| (Ipv6Addr::from(a).into(), Ipv6Addr::from(b).into())),
    ]
}

fn addressing(addresses: impl Strategy<Value = (IpAddr, IpAddr)>) -> impl Strategy<Value = Addressing> {
    (any::<[u8; 6]>(), any::<[u8; 6]>(), any::<Option<u16>>(), addresses, 1_u8..).prop_map(
        |(source, destination, vlan, ips, hop_limit)| Addressing {
            source_mac: MacAddr(source),
            destination_mac: MacAddr(destination),
            vlan,
            source: ips.0,
            destination: ips.1,
            hop_limit,
            udp_port: UDP_PORT,
        },
    )
}

/// Any marks but the codepoints of trimmed packets.
fn marks() -> impl Strategy<Value = Marks> {
    let dscp = (0_u8..64).prop_filter("not trimmed", |dscp| ![12, 16].contains(dscp));
    (any::<u32>(), dscp, 0_u8..4).prop_map(|(ev, dscp, ecn)| Marks { ev, dscp, ecn })
}

fn bth() -> impl Strategy<Value = Bth> {
    let flags = any::<(bool, bool, bool, bool, bool)>();
    (prop::sample::select(&Opcode::ALL[..]), flags, any::<u16>(), 0..1_u32 << 24, 0..1_u32 << 24).prop_map(
        |(opcode, (se, m, ack_request, rtx, tsh), pkey, dqp, psn)| Bth {
            opcode,
            se,
            m,
            pad: 0,
            pkey,
            dqp,
            ack_request,
            rtx,
            tsh,
            psn,
        },
    )
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    (any::<u16>(), any::<bool>(), 0_u8..16).prop_map(|(ticks, tsr, ftype)| Timestamp { ticks, tsr, ftype })
}

fn endpoint_op() -> impl Strategy<Value = EndpointOp> {
    prop::sample::select(
        &[EndpointOp::PortStatusUpdate, EndpointOp::EvProbe, EndpointOp::Reserved2, EndpointOp::Reserved3][..],
    )
}

fn sack() -> impl Strategy<Value = Ext> {
    let cc = (any::<u16>(), 0_u16..1 << 15, any::<bool>(), 0_u8..128, 0_u32..1 << 24).prop_map(
        |(tx_timestamp, ooo_count, restore_cwnd, rcv_cwnd_pen, rcvd_bytes)| CcState {
            tx_timestamp,
            ooo_count,
            restore_cwnd,
            rcv_cwnd_pen,
            rcvd_bytes,
        },
    );
    let answers = prop_oneof![
        any::<i16>().prop_map(|offset| SackFor::Packet { offset }),
        any::<u16>().prop_map(|id| SackFor::Probe { id }),
    ];
    let skip = prop::sample::select(&[Skip::None, Skip::Once, Skip::Always, Skip::Reserved][..]);
    let numbers = any::<(u32, u16, u16, u8, i16, u64)>();
    (skip, answers, numbers, 0_u32..1 << 24, 0_u8..16, 0_u8..16, cc).prop_map(
        |(skip, answers, (entropy, spdcid, dpdcid, mpr, sack_offset, sack_bitmap), cack_psn, cc_type, cc_flags, cc)| {
            Ext::Sack(Sack {
                skip,
                answers,
                entropy,
                spdcid,
                dpdcid,
                cack_psn,
                cc_type,
                cc_flags,
                mpr,
                sack_offset,
                sack_bitmap,
                cc,
            })
        },
    )
}

fn nack() -> impl Strategy<Value = Ext> {
    (any::<(u8, u8, u32, u16, u16, u16)>(), 0_u32..1 << 24, 0_u8..16, 0_u8..16).prop_map(
        |((reason, vendor_info, entropy, spdcid, dpdcid, tx_timestamp), nack_psn, cc_type, cc_flags)| {
            Ext::Nack(Nack { reason, vendor_info, entropy, spdcid, dpdcid, nack_psn, cc_type, cc_flags, tx_timestamp })
        },
    )
}

/// Extension headers that go with `bth`.
fn ext(bth: &Bth) -> BoxedStrategy<Ext> {
    let (tsh, with_immediate) = (bth.tsh, bth.opcode.has_immediate());
    match bth.opcode {
        Opcode::Ack => {
            (any::<u8>(), 0_u32..1 << 24).prop_map(|(syndrome, msn)| Ext::Ack(Aeth { syndrome, msn })).boxed()
        }
        Opcode::Sack => sack().boxed(),
        Opcode::Nack => nack().boxed(),
        Opcode::Probe => (any::<(u8, u16, u16, u16)>(), timestamp())
            .prop_map(|((vendor_info, id, spdcid, dpdcid), timestamp)| {
                Ext::Probe(Probe { vendor_info, id, spdcid, dpdcid, timestamp })
            })
            .boxed(),
        Opcode::EndpointRequest => (endpoint_op(), any::<(u8, u32)>(), timestamp())
            .prop_map(|(op, (vendor_info, port_status_mask), timestamp)| {
                Ext::EndpointRequest(EndpointRequest { op, vendor_info, port_status_mask, timestamp })
            })
            .boxed(),
        Opcode::EndpointResponse => (endpoint_op(), any::<u16>())
            .prop_map(|(op, tx_timestamp)| Ext::EndpointResponse(EndpointResponse { op, tx_timestamp }))
            .boxed(),
        _ => (any::<(u16, u16)>(), any::<(u64, u32, u32)>(), any::<u32>(), timestamp())
            .prop_map(move |((rqmsn, msn), (va, rkey, dmalen), immediate, timestamp)| {
                Ext::Write(WriteHeaders {
                    meth: Meth { rqmsn, msn },
                    timestamp: tsh.then_some(timestamp),
                    reth: Reth { va, rkey, dmalen },
                    immediate: with_immediate.then_some(immediate),
                })
            })
            .boxed(),
    }
}

fn sample() -> impl Strategy<Value = Sample> {
    sample_between(addresses())
}

fn sample_between(addresses: impl Strategy<Value = (IpAddr, IpAddr)>) -> impl Strategy<Value = Sample> {
    let layers = (addressing(addresses), marks(), bth(), prop::collection::vec(any::<u8>(), 0..70));
    layers.prop_flat_map(|(addressing, marks, bth, payload)| {
        ext(&bth).prop_map(move |ext| {
            let payload = if bth.opcode.is_data() { payload.clone() } else { Vec::new() };
            let template = Template::new(&addressing).expect("one family");
            let mut frame = vec![0xA5; template.frame_len(ext.len(), payload.len())];
            let at = template.write_headers(&mut frame, marks, &bth, &ext, payload.len()).expect("room");
            frame[at..at + payload.len()].copy_from_slice(&payload);
            assert!(template.seal(&mut frame, at, payload.len()));
            let bth = Bth { pad: padding(payload.len()) as u8, ..bth };
            Sample { addressing, marks, bth, ext, payload, frame }
        })
    })
}

fn read(frame: &[u8]) -> Result<Packet, Refusal> {
    parse(frame, frame.len(), &Rules::default())
}

/// Holds our reading of the layers below MRC against etherparse's, where that has one.
fn assert_etherparse_agrees(frame: &[u8], layers: &net::Layers<'_>) {
    let (link_read, ip_read) = (layers.link(), layers.ip());
    let other = LaxSlicedPacket::from_ethernet(frame).expect("Ethernet");
    let Some(LinkSlice::Ethernet2(link)) = &other.link else { panic!("no Ethernet header") };
    assert_eq!((link.source(), link.destination()), (link_read.source.0, link_read.destination.0));
    let outer_tag = other.link_exts.first().map(|ext| match ext {
        LaxLinkExtSlice::Vlan(tag) => u16::from_be_bytes([tag.slice()[0], tag.slice()[1]]),
        LaxLinkExtSlice::Macsec(_) => panic!("MACsec read as IP"),
    });
    assert_eq!(outer_tag, link_read.vlan);
    let (source, destination, dscp, ecn, ttl, flow_label, end) = match other.net.as_ref().expect("IP") {
        LaxNetSlice::Ipv4(ip) => {
            let h = ip.header();
            let addresses = (IpAddr::from(h.source_addr()), IpAddr::from(h.destination_addr()));
            let end = usize::from(h.total_len());
            (addresses.0, addresses.1, h.dcp().value(), h.ecn().value(), h.ttl(), 0, end)
        }
        LaxNetSlice::Ipv6(ip) => {
            let h = ip.header();
            let addresses = (IpAddr::from(h.source_addr()), IpAddr::from(h.destination_addr()));
            let end = 40 + usize::from(h.payload_length());
            let label = h.flow_label().value();
            (addresses.0, addresses.1, h.dscp().value(), h.ecn().value(), h.hop_limit(), label, end)
        }
        LaxNetSlice::Arp(_) => panic!("ARP read as IP"),
    };
    let expected = Ip { source, destination, dscp, ecn, hop_limit: ttl, flow_label };
    assert_eq!(expected, ip_read);
    assert_eq!(layers.ip_at + end, layers.ip_end);
    // It gives up on a UDP length that cannot be; ours is judged later.
    if let Some(TransportSlice::Udp(udp)) = &other.transport {
        assert_eq!((udp.source_port(), udp.destination_port()), (layers.udp_source(), layers.udp_destination()));
        assert_eq!(usize::from(udp.length()), layers.udp_len());
        assert_eq!(udp.slice().as_ptr(), frame[layers.udp_at..].as_ptr());
    }
}

/// A frame by etherparse: up to two VLAN tags, IPv4 with options or IPv6, UDP.
fn foreign_frame() -> impl Strategy<Value = Vec<u8>> {
    let options = prop::collection::vec(any::<[u8; 4]>(), 0..=10).prop_map(|words| words.concat());
    let tags = prop::collection::vec(any::<u16>(), 0..=2);
    let numbers = (0_u8..64, 0_u8..4, any::<u8>(), 0_u32..1 << 20, any::<u16>());
    let payload = prop::collection::vec(any::<u8>(), 0..60);
    (any::<([u8; 6], [u8; 6])>(), tags, addresses(), options, numbers, payload).prop_map(
        |(macs, tags, ips, options, (dscp, ecn, ttl, flow_label, source_port), payload)| {
            let tag = |tci: &u16| SingleVlanHeader {
                pcp: VlanPcp::try_new((tci >> 13) as u8).unwrap(),
                drop_eligible_indicator: tci & 0x1000 != 0,
                vlan_id: VlanId::try_new(tci & 0x0FFF).unwrap(),
                ether_type: etherparse::EtherType(0),
            };
            let ip = match ips {
                (IpAddr::V4(source), IpAddr::V4(destination)) => {
                    let mut header = Ipv4Header {
                        dscp: dscp.try_into().unwrap(),
                        ecn: ecn.try_into().unwrap(),
                        time_to_live: ttl,
                        source: source.octets(),
                        destination: destination.octets(),
                        ..Default::default()
                    };
                    header.options = options.as_slice().try_into().unwrap();
                    IpHeaders::Ipv4(header, Ipv4Extensions::default())
                }
                (IpAddr::V6(source), IpAddr::V6(destination)) => IpHeaders::Ipv6(
                    Ipv6Header {
                        traffic_class: dscp << 2 | ecn,
                        flow_label: Ipv6FlowLabel::try_new(flow_label).unwrap(),
                        hop_limit: ttl,
                        source: source.octets(),
                        destination: destination.octets(),
                        ..Default::default()
                    },
                    Ipv6Extensions::default(),
                ),
                _ => unreachable!("one family"),
            };
            let link = PacketBuilder::ethernet2(macs.0, macs.1);
            let link = match tags.as_slice() {
                [] => link.ip(ip),
                [one] => link.vlan(VlanHeader::Single(tag(one))).ip(ip),
                [outer, inner, ..] => link
                    .vlan(VlanHeader::Double(etherparse::DoubleVlanHeader { outer: tag(outer), inner: tag(inner) }))
                    .ip(ip),
            };
            let builder = link.udp(source_port, UDP_PORT);
            let mut frame = Vec::with_capacity(builder.size(payload.len()));
            builder.write(&mut frame, &payload).unwrap();
            frame
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_096))]

    #[test]
    fn a_written_frame_reads_back_as_what_was_written(s in sample()) {
        let packet = read(&s.frame).unwrap();
        prop_assert_eq!(packet.bth, s.bth);
        prop_assert_eq!(packet.ext, s.ext);
        prop_assert_eq!(packet.trim, Trim::Whole);
        prop_assert_eq!(&s.frame[packet.payload_at..packet.payload_at + packet.payload_len], &s.payload[..]);
        prop_assert_eq!((packet.ip.source, packet.ip.destination), (s.addressing.source, s.addressing.destination));
        prop_assert_eq!((packet.ip.dscp, packet.ip.ecn), (s.marks.dscp, s.marks.ecn));
        prop_assert_eq!(packet.ip.hop_limit, s.addressing.hop_limit);
        prop_assert_eq!(packet.link.vlan, s.addressing.vlan);
        let travels = if s.v6() { u32::MAX } else { 0xFFFF };
        prop_assert_eq!(packet.ev(), s.marks.ev & travels);
        prop_assert_eq!(packet.icrc_at() + ICRC_LEN, s.frame.len());
        prop_assert!(packet.icrc_ok(&s.frame));
        prop_assert_eq!(source_address(&s.frame), Some(s.addressing.source));
    }

    #[test]
    fn bytes_after_the_icrc_are_ignored(s in sample(), tail in prop::collection::vec(any::<u8>(), 0..20)) {
        let mut longer = s.frame.clone();
        longer.extend(tail);
        prop_assert_eq!(read(&longer), read(&s.frame));
        prop_assert!(read(&longer).unwrap().icrc_ok(&longer));
    }

    #[test]
    fn the_head_of_a_frame_is_enough_to_read_it(s in sample()) {
        let head = &s.frame[..s.frame.len().min(HEAD_MAX)];
        let headers = &s.frame[..read(&s.frame).unwrap().payload_at];
        prop_assert_eq!(parse(head, s.frame.len(), &Rules::default()), read(&s.frame));
        prop_assert_eq!(parse(headers, s.frame.len(), &Rules::default()), read(&s.frame));
    }

    #[test]
    fn any_change_of_a_byte_shows_in_the_icrc_unless_the_network_may_make_it(
        s in sample(), at in any::<Index>(), mask in 1_u8..,
    ) {
        let mut changed = s.frame.clone();
        let at = s.ip_at() + at.index(changed.len() - s.ip_at());
        changed[at] ^= mask;
        if let Ok(packet) = read(&changed) && packet.trim == Trim::Whole {
            prop_assert_eq!(packet.icrc_ok(&changed), mask & !s.mutable_bits(at) == 0, "byte {}", at);
        }
    }

    #[test]
    fn what_the_network_may_change_leaves_the_icrc_right(s in sample(), noise in any::<[u8; 16]>()) {
        let mut changed = s.frame.clone();
        for (i, at) in (s.ip_at()..s.bth_at() + 5).filter(|&at| s.mutable_bits(at) != 0).enumerate() {
            changed[at] ^= noise[i] & s.mutable_bits(at);
        }
        Sample::set_dscp(&mut changed, s.ip_at(), s.v6(), s.marks.dscp);
        prop_assert!(read(&changed).unwrap().icrc_ok(&changed));
    }

    #[test]
    fn mutated_and_cut_frames_never_panic(
        s in sample(),
        flips in prop::collection::vec((any::<Index>(), any::<u8>()), 0..8),
        cut in any::<Index>(),
        claimed in 0_usize..300,
    ) {
        let mut frame = s.frame;
        for (at, value) in flips {
            let at = at.index(frame.len());
            frame[at] = value;
        }
        frame.truncate(cut.index(frame.len() + 1));
        for len in [frame.len(), frame.len() + claimed] {
            if let Ok(packet) = parse(&frame, len, &Rules::of_captures()) {
                let _ = packet.icrc_ok(&frame);
                prop_assert!(packet.trim != Trim::Whole || packet.icrc_at() + ICRC_LEN <= len);
            }
        }
        let _ = source_address(&frame);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), len in 0_usize..10_000) {
        let _ = parse(&bytes, len, &Rules::default());
        let _ = source_address(&bytes);
    }

    #[test]
    fn the_written_ipv4_checksum_is_etherparses(s in sample()) {
        if !s.v6() {
            let header = Ipv4HeaderSlice::from_slice(&s.frame[s.ip_at()..]).unwrap();
            prop_assert_eq!(header.header_checksum(), header.to_header().calc_header_checksum());
        }
    }

    #[test]
    fn layers_below_read_as_etherparse_reads_them(
        mut frame in foreign_frame(),
        flips in prop::collection::vec((any::<Index>(), any::<u8>()), 0..4),
    ) {
        let read = |frame: &[u8]| net::with_layers(frame, &Rules::default(), &EtherparseAgrees(frame));
        read(&frame).unwrap();
        for (at, value) in flips {
            let at = at.index(frame.len());
            frame[at] = value;
        }
        // Refused or read alike.
        let _ = read(&frame);
    }
}

proptest! {
    // Each case tries every length.
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_trimmed_packet_is_read_at_every_cut_that_leaves_the_bth(s in sample(), last_hop: bool, rewritten: bool) {
        let dscp = DscpMap::default();
        let (code, trim) =
            if last_hop { (dscp.trimmed_last_hop, Trim::LastHop) } else { (dscp.trimmed, Trim::Trimmed) };
        let mut frame = s.frame.clone();
        Sample::set_dscp(&mut frame, s.ip_at(), s.v6(), code);
        let headers = s.bth_at() + Bth::LEN + s.ext.len();
        for cut in (0..=frame.len()).rev() {
            frame.truncate(cut);
            if rewritten && cut >= s.bth_at() {
                let (ip_len, udp_len) = ((cut - s.ip_at()) as u16, (cut - s.udp_at()) as u16);
                let (at, len) = if s.v6() { (s.ip_at() + 4, udp_len) } else { (s.ip_at() + 2, ip_len) };
                frame[at..at + 2].copy_from_slice(&len.to_be_bytes());
                frame[s.udp_at() + 4..s.udp_at() + 6].copy_from_slice(&udp_len.to_be_bytes());
            }
            if cut < s.bth_at() + Bth::LEN {
                prop_assert!(read(&frame).is_err(), "cut to {}", cut);
                continue;
            }
            let packet = read(&frame).unwrap();
            prop_assert_eq!((packet.trim, packet.bth, packet.payload_len), (trim, s.bth, 0));
            prop_assert_eq!(packet.ext, if cut < headers { Ext::Cut } else { s.ext });
            prop_assert_eq!(packet.ip.source, s.addressing.source);
        }
    }
}

/// Compares the layers that were read of a frame.
struct EtherparseAgrees<'a>(&'a [u8]);

impl net::Above for EtherparseAgrees<'_> {
    type Read = ();

    fn read(&self, layers: &net::Layers<'_>) -> Result<(), Refusal> {
        assert_etherparse_agrees(self.0, layers);
        Ok(())
    }
}
