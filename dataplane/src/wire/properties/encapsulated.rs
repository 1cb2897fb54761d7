//! What holds for every frame under SRv6.

use super::*;
use etherparse::{IpNumber, Ipv6Slice};

/// A plain IPv6 frame, and the same packet encapsulated.
#[derive(Clone, Debug)]
struct Encapsulated {
    plain: Sample,
    encapsulation: Encapsulation,
    template: Template,
    frame: Vec<u8>,
}

impl Encapsulated {
    fn outer_at(&self) -> usize {
        self.plain.ip_at()
    }

    /// What the encapsulation adds.
    fn added(&self) -> usize {
        if self.encapsulation.srh { 64 } else { 40 }
    }

    fn inner_at(&self) -> usize {
        self.outer_at() + self.added()
    }

    fn set_outer_class(&self, frame: &mut [u8], dscp: u8, ecn: u8) {
        let at = self.outer_at();
        frame[at] = 0x60 | dscp >> 2;
        frame[at + 1] = (frame[at + 1] & 0x0F) | dscp << 6 | ecn << 4;
    }

    fn with_srh(&self) -> Encapsulated {
        encapsulate(&self.plain, Encapsulation { srh: true, ..self.encapsulation })
    }

    /// The frame, which has an SRH, with so many bytes more at its end and another last entry.
    fn with_long_srh(&self, tlv_bytes: usize, last_entry: u8) -> Vec<u8> {
        let mut frame = self.frame.clone();
        let srh = self.outer_at() + 40;
        frame[srh + 1] = ((24 + tlv_bytes) / 8 - 1) as u8;
        frame[srh + 4] = last_entry;
        frame.splice(srh + 24..srh + 24, std::iter::repeat_n(0xEE, tlv_bytes));
        let len = (frame.len() - self.outer_at() - 40) as u16;
        frame[self.outer_at() + 4..self.outer_at() + 6].copy_from_slice(&len.to_be_bytes());
        frame
    }
}

fn encapsulate(plain: &Sample, encapsulation: Encapsulation) -> Encapsulated {
    let template = Template::encapsulated(&plain.addressing, &encapsulation).expect("IPv6");
    let mut frame = vec![0xA5; template.frame_len(plain.ext.len(), plain.payload.len())];
    let at =
        template.write_headers(&mut frame, plain.marks, &plain.bth, &plain.ext, plain.payload.len()).expect("room");
    frame[at..at + plain.payload.len()].copy_from_slice(&plain.payload);
    assert!(template.seal(&mut frame, at, plain.payload.len()));
    Encapsulated { plain: plain.clone(), encapsulation, template, frame }
}

fn path() -> impl Strategy<Value = UsidPath> {
    (any::<u32>(), prop::collection::vec(1_u16.., 1..=USIDS_MAX))
        .prop_map(|(locator, usids)| UsidPath::new(locator, &usids).unwrap())
}

fn encapsulated() -> impl Strategy<Value = Encapsulated> {
    let addresses =
        any::<([u8; 16], [u8; 16])>().prop_map(|(a, b)| (Ipv6Addr::from(a).into(), Ipv6Addr::from(b).into()));
    (sample_between(addresses), any::<[u8; 16]>(), path(), any::<bool>())
        .prop_map(|(plain, source, path, srh)| encapsulate(&plain, Encapsulation { source: source.into(), path, srh }))
}

/// A packet as it would read without its encapsulation.
fn assert_same_packet(encapsulated: &Packet, plain: &Packet, added: usize) {
    assert_eq!((encapsulated.link, encapsulated.ip), (plain.link, plain.ip));
    assert_eq!((encapsulated.bth, encapsulated.ext, encapsulated.trim), (plain.bth, plain.ext, plain.trim));
    assert_eq!((encapsulated.udp_source, encapsulated.udp_destination), (plain.udp_source, plain.udp_destination));
    assert_eq!((encapsulated.ev(), encapsulated.nominal_size()), (plain.ev(), plain.nominal_size()));
    assert_eq!(encapsulated.payload_at, plain.payload_at + added);
    assert_eq!(encapsulated.payload_len, plain.payload_len);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_096))]

    #[test]
    fn encapsulation_adds_headers_and_changes_nothing_inside(e in encapsulated()) {
        let (outer, inner) = (e.outer_at(), e.inner_at());
        prop_assert_eq!(e.frame.len(), e.plain.frame.len() + e.added());
        prop_assert_eq!(&e.frame[..outer], &e.plain.frame[..outer]);
        prop_assert_eq!(&e.frame[inner..], &e.plain.frame[outer..]);
        let packet = read(&e.frame).unwrap();
        assert_same_packet(&packet, &read(&e.plain.frame).unwrap(), e.added());
        prop_assert!(packet.icrc_ok(&e.frame));
        prop_assert_eq!(packet.icrc_at() + ICRC_LEN, e.frame.len());
        prop_assert_eq!(source_address(&e.frame), Some(e.plain.addressing.source));
        prop_assert_eq!(packet.outer_at(), Some(outer));
        let marks = OuterMarks::of(e.encapsulation.path, e.plain.marks);
        let expected = Ip {
            source: e.encapsulation.source.into(),
            destination: marks.destination.into(),
            dscp: marks.dscp,
            ecn: marks.ecn,
            hop_limit: e.plain.addressing.hop_limit,
            flow_label: marks.flow_label,
        };
        prop_assert_eq!(packet.outer(&e.frame), Some(Outer { ip: expected, srh: e.encapsulation.srh }));
        prop_assert_eq!(read(&e.plain.frame).unwrap().outer(&e.plain.frame), None);
    }

    #[test]
    fn the_outer_headers_are_to_etherparse_what_they_are_to_us(e in encapsulated()) {
        let outer = Ipv6Slice::from_slice(&e.frame[e.outer_at()..]).unwrap();
        let (header, payload) = (outer.header(), outer.payload());
        let ours = read(&e.frame).unwrap().outer(&e.frame).unwrap().ip;
        prop_assert_eq!(IpAddr::from(header.source_addr()), ours.source);
        prop_assert_eq!(IpAddr::from(header.destination_addr()), ours.destination);
        prop_assert_eq!((header.dscp().value(), header.ecn().value()), (ours.dscp, ours.ecn));
        prop_assert_eq!((header.hop_limit(), header.flow_label().value()), (ours.hop_limit, ours.flow_label));
        prop_assert_eq!(outer.extensions().slice().len(), if e.encapsulation.srh { 24 } else { 0 });
        prop_assert_eq!(payload.ip_number, IpNumber::IPV6);
        prop_assert_eq!(payload.payload, &e.frame[e.inner_at()..]);
        let inner = Ipv6Slice::from_slice(payload.payload).unwrap();
        prop_assert_eq!(inner.payload().ip_number, IpNumber::UDP);
        prop_assert_eq!(IpAddr::from(inner.header().source_addr()), e.plain.addressing.source);
    }

    #[test]
    fn the_srh_has_the_path_as_its_one_segment_and_none_left(e in encapsulated()) {
        let e = e.with_srh();
        let srh = &e.frame[e.outer_at() + 40..e.inner_at()];
        prop_assert_eq!(&srh[..8], &[41, 2, 4, 0, 0, 0, 0, 0]);
        prop_assert_eq!(&srh[8..], e.encapsulation.path.destination().octets());
    }

    #[test]
    fn another_path_and_other_marks_outside_leave_the_packet_as_it_is(
        e in encapsulated(), path in path(), other in marks(), before: bool,
    ) {
        let marks = OuterMarks { ecn: e.plain.marks.ecn, ..OuterMarks::of(path, other) };
        let mut frame = e.frame.clone();
        prop_assert!(e.template.write_outer(&mut frame, &marks));
        if before {
            let packet = read(&frame).unwrap();
            frame[packet.icrc_at()..].fill(0);
            prop_assert!(e.template.seal(&mut frame, packet.payload_at, packet.payload_len));
        }
        let rewritten = encapsulate(&e.plain, Encapsulation { path, ..e.encapsulation });
        let word = e.outer_at()..e.outer_at() + 4;
        prop_assert_eq!(&frame[word.end..], &rewritten.frame[word.end..]);
        let packet = read(&frame).unwrap();
        assert_same_packet(&packet, &read(&e.plain.frame).unwrap(), e.added());
        prop_assert!(packet.icrc_ok(&frame));
        let outer = packet.outer(&frame).unwrap().ip;
        prop_assert_eq!(outer.destination, IpAddr::from(path.destination()));
        prop_assert_eq!((outer.dscp, outer.ecn, outer.flow_label), (marks.dscp, marks.ecn, marks.flow_label));
        prop_assert!(!e.template.write_outer(&mut frame[..e.template.len() - 1], &marks));
        let plain = Template::new(&e.plain.addressing).unwrap();
        prop_assert!(!plain.write_outer(&mut frame, &marks));
    }

    #[test]
    fn switches_that_use_up_usids_leave_the_packet_as_it_is(e in encapsulated()) {
        let mut frame = e.frame.clone();
        let path = e.encapsulation.path;
        let mut left: Vec<u16> = path.usids().collect();
        while !left.is_empty() {
            let at = e.outer_at() + 24;
            let destination = Ipv6Addr::from(*frame[at..].first_chunk::<16>().unwrap());
            let next = at_switch(destination, path.locator(), left.remove(0)).unwrap();
            prop_assert_eq!(next, next_usid(destination));
            let rest = UsidPath::new(path.locator(), &left);
            let locator_alone = Ipv6Addr::from_bits(u128::from(path.locator()) << 96);
            prop_assert_eq!(next, rest.map_or(locator_alone, UsidPath::destination));
            frame[at..at + 16].copy_from_slice(&next.octets());
            // And one hop less.
            frame[e.outer_at() + 7] = frame[e.outer_at() + 7].wrapping_sub(1);
            let packet = read(&frame).unwrap();
            assert_same_packet(&packet, &read(&e.plain.frame).unwrap(), e.added());
            prop_assert!(packet.icrc_ok(&frame));
        }
    }

    #[test]
    fn a_mark_or_a_trim_that_a_switch_writes_outside_is_seen(
        e in encapsulated(), last_hop: bool, inside: bool, ecn in 0_u8..4,
    ) {
        let mut marked = e.frame.clone();
        e.set_outer_class(&mut marked, e.plain.marks.dscp, 3);
        match read(&marked) {
            Ok(packet) => {
                prop_assert!(e.plain.marks.ecn != 0);
                prop_assert_eq!((packet.ip.ecn, packet.trim), (3, Trim::Whole));
                prop_assert!(packet.icrc_ok(&marked));
            }
            Err(refusal) => prop_assert_eq!((refusal, e.plain.marks.ecn), (Refusal::MarkedNotEct, 0)),
        }
        let (dscp, trim) = if last_hop { (16, Trim::LastHop) } else { (12, Trim::Trimmed) };
        let mut trimmed = e.frame.clone();
        e.set_outer_class(&mut trimmed, if inside { 0 } else { dscp }, ecn);
        if inside {
            Sample::set_dscp(&mut trimmed, e.inner_at(), true, dscp);
        }
        let packet = read(&trimmed).unwrap();
        prop_assert_eq!((packet.trim, packet.ip.dscp, packet.bth), (trim, dscp, e.plain.bth));
    }

    #[test]
    fn a_longer_srh_is_skipped_as_long_as_the_head_holds_all_headers(

        e in encapsulated(),
        units in prop_oneof![0_usize..12, 0_usize..253],
        last_entry in prop_oneof![0_u8..6, any::<u8>()],
        left in 0_u8..3,
    ) {
        let e = e.with_srh();
        let mut frame = e.with_long_srh(units * 8, last_entry);
        frame[e.outer_at() + 43] = left;
        let segments_fit = 8 + (usize::from(last_entry) + 1) * 16 <= 24 + units * 8;
        let whole = read(&frame);
        match whole {
            Ok(packet) => {
                prop_assert!(segments_fit && left < 2 && units <= 9);
                assert_same_packet(&packet, &read(&e.plain.frame).unwrap(), e.added() + units * 8);
                prop_assert!(packet.icrc_ok(&frame));
                prop_assert!(packet.payload_at <= HEAD_MAX);
            }
            Err(Refusal::LongSrh) => prop_assert!(segments_fit && left < 2 && units > 9),
            Err(refusal) => {
                prop_assert_eq!(refusal, Refusal::BadSrh);
                prop_assert!(!segments_fit || left > 1);
            }
        }
        let head = &frame[..frame.len().min(HEAD_MAX)];
        prop_assert_eq!(parse(head, frame.len(), &Rules::default()), whole);
    }

    #[test]
    fn other_things_outside_are_refused_by_name(e in encapsulated(), delta in 1_u16..) {
        let e = e.with_srh();
        let srh = e.outer_at() + 40;
        let refusal = |changes: &[(usize, u8)]| {
            let mut frame = e.frame.clone();
            for &(at, value) in changes {
                frame[at] = value;
            }
            read(&frame).unwrap_err()
        };
        prop_assert_eq!(refusal(&[(e.outer_at() + 6, 6)]), Refusal::NotUdp);
        prop_assert_eq!(refusal(&[(srh, 17)]), Refusal::NoInnerIpv6);
        prop_assert_eq!(refusal(&[(srh, 43)]), Refusal::NoInnerIpv6);
        prop_assert_eq!(refusal(&[(srh + 2, 2)]), Refusal::OtherRoutingHeader);
        prop_assert_eq!(refusal(&[(srh + 3, 2)]), Refusal::BadSrh);
        prop_assert_eq!(refusal(&[(srh + 1, 1)]), Refusal::BadSrh);
        prop_assert_eq!(refusal(&[(srh + 4, 1)]), Refusal::BadSrh);
        prop_assert_eq!(refusal(&[(e.inner_at(), 0x45)]), Refusal::BadIpHeader);
        prop_assert_eq!(refusal(&[(e.inner_at() + 6, 41)]), Refusal::NestedEncapsulation);
        prop_assert_eq!(refusal(&[(e.inner_at() + 6, 43)]), Refusal::NestedEncapsulation);
        prop_assert_eq!(refusal(&[(e.inner_at() + 6, 6)]), Refusal::NotUdp);
        prop_assert_eq!(refusal(&[(e.inner_at() + 42, 0xFF)]), Refusal::OtherUdpPort);
        let at = e.outer_at() + 4;
        let len = u16::from_be_bytes([e.frame[at], e.frame[at + 1]]).wrapping_add(delta).to_be_bytes();
        prop_assert_eq!(refusal(&[(at, len[0]), (at + 1, len[1])]), Refusal::BadOuterLength);
        // IPv4 outside stays something else.
        let mut ipv4 = e.frame.clone();
        let ethertype = e.outer_at() - 2;
        ipv4[ethertype..ethertype + 2].copy_from_slice(&[0x08, 0x00]);
        ipv4[ethertype + 2] = 0x45;
        ipv4[ethertype + 8..ethertype + 10].fill(0);
        ipv4[ethertype + 11] = 41;
        prop_assert_eq!(read(&ipv4), Err(Refusal::NotUdp));
    }

    #[test]
    fn a_change_inside_shows_in_the_icrc_as_without_encapsulation(
        e in encapsulated(), at in any::<Index>(), mask in 1_u8..,
    ) {
        let mut changed = e.frame.clone();
        let at = e.inner_at() + at.index(changed.len() - e.inner_at());
        changed[at] ^= mask;
        if let Ok(packet) = read(&changed) && packet.trim == Trim::Whole {
            let bits = e.plain.mutable_bits(at - e.added());
            prop_assert_eq!(packet.icrc_ok(&changed), mask & !bits == 0, "byte {}", at);
        }
    }

    #[test]
    fn bytes_after_an_encapsulated_packet_are_ignored(
        e in encapsulated(), tail in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut longer = e.frame.clone();
        longer.extend(tail);
        prop_assert_eq!(read(&longer), read(&e.frame));
        prop_assert!(read(&longer).unwrap().icrc_ok(&longer));
    }

    #[test]
    fn arbitrary_bytes_behind_an_outer_header_never_panic(
        e in encapsulated(),
        keep in any::<Index>(),
        noise in prop::collection::vec(any::<u8>(), 0..300),
        flips in prop::collection::vec((any::<Index>(), any::<u8>()), 0..8),
        claimed in 0_usize..300,
    ) {
        let mut frame = e.frame;
        frame.truncate(e.plain.addressing.vlan.map_or(54, |_| 58) + keep.index(80));
        frame.extend(noise);
        for (at, value) in flips {
            let at = at.index(frame.len());
            frame[at] = value;
        }
        for len in [frame.len(), frame.len() + claimed] {
            if let Ok(packet) = parse(&frame, len, &Rules::of_captures()) {
                let _ = (packet.icrc_ok(&frame), packet.outer(&frame));
                prop_assert!(packet.trim != Trim::Whole || packet.icrc_at() + ICRC_LEN <= len);
                prop_assert_eq!(source_address(&frame), Some(packet.ip.source));
            }
        }
        let _ = source_address(&frame);
    }
}

proptest! {
    // Each case tries every length.
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn an_encapsulated_packet_is_refused_wherever_it_is_cut(e in encapsulated()) {
        for cut in 0..e.frame.len() {
            let refusal = read(&e.frame[..cut]).unwrap_err();
            let (outer, inner) = (e.outer_at(), e.inner_at());
            if cut < outer + 40 {
                prop_assert!(cut < outer || refusal == Refusal::TruncatedIpv6, "cut to {}", cut);
            } else if cut < inner {
                prop_assert_eq!(refusal, Refusal::TruncatedSrh, "cut to {}", cut);
            } else if cut < inner + 40 {
                prop_assert_eq!(refusal, Refusal::TruncatedIpv6, "cut to {}", cut);
            }
            // The same where the length is known and the bytes are not all there.
            match parse(&e.frame[..cut], e.frame.len(), &Rules::default()) {
                Ok(packet) => prop_assert!(packet.payload_at <= cut && !packet.icrc_ok(&e.frame[..cut])),
                Err(refusal) => prop_assert!(refusal.name().starts_with("truncated_")),
            }
        }
    }

    #[test]
    fn a_trimmed_packet_under_srv6_is_read_at_every_cut_that_leaves_the_bth(e in encapsulated(), rewritten: bool) {
        let mut frame = e.frame.clone();
        e.set_outer_class(&mut frame, 12, 2);
        let (outer, inner, bth_at) = (e.outer_at(), e.inner_at(), e.inner_at() + 48);
        for cut in (0..=frame.len()).rev() {
            frame.truncate(cut);
            if rewritten && cut >= bth_at {
                frame[outer + 4..outer + 6].copy_from_slice(&((cut - outer - 40) as u16).to_be_bytes());
                frame[inner + 4..inner + 6].copy_from_slice(&((cut - inner - 40) as u16).to_be_bytes());
                frame[inner + 44..inner + 46].copy_from_slice(&((cut - inner - 40) as u16).to_be_bytes());
            }
            if cut < bth_at + Bth::LEN {
                prop_assert!(read(&frame).is_err(), "cut to {}", cut);
                continue;
            }
            let packet = read(&frame).unwrap();
            prop_assert_eq!((packet.trim, packet.bth, packet.payload_len), (Trim::Trimmed, e.plain.bth, 0));
            let headers = bth_at + Bth::LEN + e.plain.ext.len();
            prop_assert_eq!(packet.ext, if cut < headers { Ext::Cut } else { e.plain.ext });
            prop_assert_eq!(packet.ip.source, e.plain.addressing.source);
            prop_assert_eq!(packet.ev(), e.plain.marks.ev);
        }
    }
}

#[test]
fn encapsulated_frames_have_the_documented_lengths() {
    let addressing = |vlan, source: &str| Addressing {
        source_mac: MacAddr::default(),
        destination_mac: MacAddr::default(),
        vlan,
        source: source.parse().unwrap(),
        destination: source.parse().unwrap(),
        hop_limit: 64,
        udp_port: UDP_PORT,
    };
    let path = UsidPath::new(0xFCBB_BB00, &[1]).unwrap();
    for (vlan, tag) in [(None, 0), (Some(7), 4)] {
        for (srh, added) in [(false, 40), (true, 64)] {
            let outer = Encapsulation { source: Ipv6Addr::LOCALHOST, path, srh };
            let template = Template::encapsulated(&addressing(vlan, "::1"), &outer).unwrap();
            // A full data packet, the SACK, and where a trimming switch cuts: after the RETH.
            assert_eq!(template.frame_len(20, 4096), 4096 + 98 + added + tag);
            assert_eq!(template.frame_len(Sack::LEN, 0), 114 + added + tag);
            assert_eq!(template.len() + Bth::LEN + 20, 94 + added + tag);
            let v4 = Template::encapsulated(&addressing(vlan, "10.0.0.1"), &outer);
            assert!(matches!(v4, Err(AddressingError::EncapsulatedIpv4(_))));
        }
    }
}
