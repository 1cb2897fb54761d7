//! In virtual time, with frames that are written out.

use super::*;
use proptest::prelude::*;
use std::net::Ipv6Addr;

const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);
const PORT: PortId = PortId(0);
const MS: u64 = 1_000_000;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn at(ms: u64) -> Ns {
    Ns(ms * MS)
}

/// Bytes of hexadecimal digits, in groups as one likes.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn spec(address: &str) -> NeighbourSpec {
    NeighbourSpec::new(address.parse::<InterfaceAddress>().unwrap())
}

/// Neighbours of a NIC with so many ports on Ethernets, all in use, and what these drew taken.
fn nic_with(spec: NeighbourSpec, ports: u8) -> Neighbours {
    let port = |n: u8| NeighbourPort {
        name: format!("net_af_packet{n}"),
        mac: MacAddr([2, 0, 0, 0, n, 1]),
        on_ethernet: true,
    };
    let mut nic = Neighbours::new(spec, (0..ports).map(port).collect());
    for n in 0..ports {
        nic.set_port(Ns::ZERO, PortId(n), true);
        assert!(nic.poll_frame().is_some(), "it tells its address");
    }
    nic
}

fn nic(address: &str) -> Neighbours {
    nic_with(spec(address), 1)
}

fn frames(nic: &mut Neighbours) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| nic.poll_frame()).map(|(_, bytes)| bytes).collect()
}

fn hops(nic: &mut Neighbours) -> Vec<(u8, MacAddr)> {
    std::iter::from_fn(|| nic.poll_next_hop()).map(|hop| (hop.port.0, hop.mac)).collect()
}

/// `ff..` 0806, then Ethernet, IPv4, lengths, operation, and the two ends.
fn arp(operation: u16, from: (MacAddr, [u8; 4]), to: (MacAddr, [u8; 4]), destination: MacAddr) -> Vec<u8> {
    let mut frame = [&destination.0[..], &from.0.0, &[8, 6, 0, 1, 8, 0, 6, 4], &operation.to_be_bytes()].concat();
    frame.extend([&from.0.0[..], &from.1, &to.0.0, &to.1].concat());
    frame
}

fn reply(mac: MacAddr) -> Vec<u8> {
    arp(2, (mac, [10, 0, 0, 2]), (OWN, [10, 0, 0, 1]), OWN)
}

fn gratuitous(mac: MacAddr) -> Vec<u8> {
    arp(1, (mac, [10, 0, 0, 2]), (MacAddr([0; 6]), [10, 0, 0, 2]), MacAddr([255; 6]))
}

/// ICMPv6 of these bytes, whose checksum is filled in.
fn icmpv6(source: &str, destination: &str, hops: u8, to: MacAddr, mut body: Vec<u8>) -> Vec<u8> {
    let octets = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
    let (source, destination) = (octets(source), octets(destination));
    let length = body.len() as u16;
    let mut sum: u32 = 0;
    let pseudo = [&source[..], &destination, &u32::from(length).to_be_bytes(), &[0, 0, 0, 58], &body].concat();
    for pair in pseudo.chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
    }
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    body[2..4].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    let mut frame = [&to.0[..], &PEER.0, &[0x86, 0xDD, 0x60, 0, 0, 0], &length.to_be_bytes(), &[58, hops]].concat();
    frame.extend([&source[..], &destination, &body].concat());
    frame
}

fn target(text: &str) -> Vec<u8> {
    text.parse::<Ipv6Addr>().unwrap().octets().to_vec()
}

fn option(kind: u8, mac: MacAddr) -> Vec<u8> {
    [&[kind, 1][..], &mac.0].concat()
}

fn solicitation(of: &str, options: &[u8]) -> Vec<u8> {
    [&[135, 0, 0, 0, 0, 0, 0, 0][..], &target(of), options].concat()
}

fn advertisement(of: &str, flags: u8, options: &[u8]) -> Vec<u8> {
    [&[136, 0, 0, 0, flags, 0, 0, 0][..], &target(of), options].concat()
}

/// The peer fd00::2 advertises itself to fd00::1.
fn advertised(flags: u8, mac: MacAddr) -> Vec<u8> {
    icmpv6("fd00::2", "fd00::1", 255, OWN, advertisement("fd00::2", flags, &option(2, mac)))
}

#[test]
fn an_arp_request_for_the_nic_is_answered_byte_by_byte_as_rfc_826_has_it() {
    let mut nic = nic("10.0.0.1/24");
    let request =
        hex("ffffffffffff 020000000002 0806 0001 0800 06 04 0001 020000000002 0a000002 000000000000 0a000001");
    assert_eq!(nic.on_frame(at(1), PORT, &request), Ok(()));
    let answer = hex("020000000002 020000000001 0806 0001 0800 06 04 0002 020000000001 0a000001 020000000002 0a000002");
    assert_eq!(frames(&mut nic), [answer]);
    // Padding up to the shortest Ethernet frame is no part of it; a question for somebody else is none of ours.
    let padded = [request.clone(), vec![0; 18]].concat();
    assert_eq!(nic.on_frame(at(1), PORT, &padded), Ok(()));
    let other = arp(1, (PEER, [10, 0, 0, 2]), (MacAddr([0; 6]), [10, 0, 0, 9]), MacAddr([255; 6]));
    assert_eq!(nic.on_frame(at(1), PORT, &other), Err(Refused::NotForUs));
    assert_eq!(frames(&mut nic).len(), 1);
    assert_eq!(nic.table().count(), 0, "nothing is learned of who nobody wants to reach");
    // Who looks whether the address is free hears that it is not (RFC 5227).
    let probe = arp(1, (PEER, [0; 4]), (MacAddr([0; 6]), [10, 0, 0, 1]), MacAddr([255; 6]));
    assert_eq!(nic.on_frame(at(1), PORT, &probe), Ok(()));
    assert_eq!(nic.counters().answered, 3);
}

#[test]
fn a_solicitation_for_the_nic_is_answered_byte_by_byte_as_rfc_4861_has_it() {
    let mut nic = nic("fd00::1/64");
    // To ff02::1:ff00:1, with the source's Ethernet address.
    let asked = icmpv6(
        "fd00::2",
        "ff02::1:ff00:1",
        255,
        MacAddr([0x33, 0x33, 0xff, 0, 0, 1]),
        solicitation("fd00::1", &option(1, PEER)),
    );
    assert_eq!(nic.on_frame(at(1), PORT, &asked), Ok(()));
    let said = advertisement("fd00::1", 0x60, &option(2, OWN));
    let mut answer = icmpv6("fd00::1", "fd00::2", 255, PEER, said.clone());
    answer[6..12].copy_from_slice(&OWN.0);
    assert_eq!(frames(&mut nic), [answer]);
    // Who has no address yet, and looks whether this one is free, hears it with everybody else; flags: not solicited, overrides.
    let looks = icmpv6("::", "ff02::1:ff00:1", 255, MacAddr([0x33, 0x33, 0xff, 0, 0, 1]), solicitation("fd00::1", &[]));
    assert_eq!(nic.on_frame(at(1), PORT, &looks), Ok(()));
    let said = advertisement("fd00::1", 0x20, &option(2, OWN));
    let mut answer = icmpv6("fd00::1", "ff02::1", 255, MacAddr([0x33, 0x33, 0, 0, 0, 1]), said);
    answer[6..12].copy_from_slice(&OWN.0);
    assert_eq!(frames(&mut nic), [answer]);
}

#[test]
fn pings_come_back_with_the_same_numbers_and_data_and_right_checksums() {
    let mut nic = nic("10.0.0.1");
    let ping = hex(
        "020000000001 020000000002 0800 4500 0022 0000 4000 40 01 26d9 0a000002 0a000001 0800 a980 1234 0001 686566726d72",
    );
    assert_eq!(nic.on_frame(at(1), PORT, &ping), Ok(()));
    let [pong] = frames(&mut nic).try_into().unwrap();
    assert_eq!(pong[..14], hex("020000000002 020000000001 0800"));
    assert_eq!(pong[26..34], hex("0a000001 0a000002"));
    assert_eq!((pong[22], pong[23], pong[34], pong[35]), (64, 1, 0, 0), "TTL 64, ICMP, echo reply");
    assert_eq!(pong[38..], ping[38..]);
    // 0x0800 more in the header is as much less in the checksum.
    assert_eq!(pong[36..38], hex("b180"));
    let mut broken = ping.clone();
    broken[40] ^= 1;
    assert_eq!(nic.on_frame(at(1), PORT, &broken), Err(Refused::Checksum));
    let mut to_all = ping;
    to_all[..6].fill(255);
    assert_eq!(nic.on_frame(at(1), PORT, &to_all), Err(Refused::NotForUs));
    let mut nic = super::tests::nic("fd00::1");
    let ping = icmpv6("fd00::2", "fd00::1", 64, OWN, hex("80 00 0000 1234 0001 6869"));
    assert_eq!(nic.on_frame(at(1), PORT, &ping), Ok(()));
    let mut pong = icmpv6("fd00::1", "fd00::2", 64, PEER, hex("81 00 0000 1234 0001 6869"));
    pong[6..12].copy_from_slice(&OWN.0);
    assert_eq!(frames(&mut nic), [pong]);
    assert_eq!(nic.counters().pings, 1);
}

#[test]
fn a_neighbour_is_asked_for_thrice_in_three_seconds_and_the_error_names_address_port_and_way_out() {
    let mut nic = nic("10.0.0.1/24");
    let token = nic.resolve(at(0), ip("10.0.0.2"), Vec::new());
    let asks = hex("ffffffffffff 020000000001 0806 0001 0800 06 04 0001 020000000001 0a000001 000000000000 0a000002");
    for second in 0..3 {
        assert_eq!(frames(&mut nic), std::slice::from_ref(&asks));
        assert_eq!(nic.next_wake(), Some(at(1000 * (second + 1))));
        nic.on_time(at(1000 * second + 999));
        assert!(frames(&mut nic).is_empty() && nic.poll_resolved().is_none());
        nic.on_time(at(1000 * (second + 1)));
    }
    let Some((answered, Err(error))) = nic.poll_resolved() else { panic!("no answer") };
    assert_eq!(answered, token);
    let text = error.to_string();
    for part in ["10.0.0.2", "port 1 (net_af_packet0)", "three times", "give its Ethernet address"] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!((nic.counters().asked, nic.counters().unanswered), (3, 1));
    nic.on_time(at(13_000));
    assert!(frames(&mut nic).is_empty() && nic.table().count() == 0, "nobody wants it: it is forgotten");
}

#[test]
fn an_answer_on_each_port_makes_the_way_and_one_that_is_silent_is_named() {
    let mut nic = nic_with(spec("10.0.0.1"), 2);
    nic.resolve(at(0), ip("10.0.0.2"), Vec::new());
    assert_eq!(frames(&mut nic).len(), 2);
    let to = |n: u8| {
        arp(
            2,
            (MacAddr([2, 0, 0, 0, n, 2]), [10, 0, 0, 2]),
            (MacAddr([2, 0, 0, 0, n, 1]), [10, 0, 0, 1]),
            MacAddr([2, 0, 0, 0, n, 1]),
        )
    };
    nic.on_frame(at(1), PortId(0), &to(0)).unwrap();
    assert!(nic.poll_resolved().is_none());
    nic.on_frame(at(2), PortId(1), &to(1)).unwrap();
    let macs = vec![MacAddr([2, 0, 0, 0, 0, 2]), MacAddr([2, 0, 0, 0, 1, 2])];
    assert_eq!(nic.poll_resolved().unwrap().1, Ok(macs));
    // Another one answers on the first port alone.
    nic.resolve(at(3), ip("10.0.0.3"), Vec::new());
    let from = arp(2, (OTHER, [10, 0, 0, 3]), (OWN, [10, 0, 0, 1]), OWN);
    nic.on_frame(at(4), PortId(0), &from).unwrap();
    (1..=3).for_each(|second| nic.on_time(at(3 + 1000 * second)));
    let (_, error) = nic.poll_resolved().unwrap();
    let silent = vec![Silent { port: 2, name: "net_af_packet1".into() }];
    assert_eq!(error, Err(NeighbourError::NoAnswer { ip: ip("10.0.0.3"), hop: ip("10.0.0.3"), silent }));
    // With its second port out of use nothing is asked there, and any address will do until it comes back.
    nic.set_port(at(4000), PortId(1), false);
    nic.resolve(at(4000), ip("10.0.0.3"), Vec::new());
    nic.on_frame(at(4001), PortId(0), &from).unwrap();
    assert_eq!(nic.poll_resolved().unwrap().1, Ok(vec![OTHER, OTHER]));
    frames(&mut nic);
    nic.set_port(at(5000), PortId(1), true);
    nic.on_time(at(5000));
    let sent = frames(&mut nic);
    assert_eq!(sent.len(), 3, "its own address, and questions for the two that are held: {sent:02x?}");
}

#[test]
fn who_asks_while_no_port_is_in_use_waits_for_one_for_three_seconds() {
    let port = NeighbourPort { name: "0000:3b:00.0".into(), mac: OWN, on_ethernet: true };
    let mut nic = Neighbours::new(spec("10.0.0.1"), vec![port]);
    nic.resolve(at(0), ip("10.0.0.2"), Vec::new());
    nic.on_time(at(2_999));
    assert_eq!((nic.poll_resolved(), nic.next_wake()), (None, Some(at(3_000))));
    nic.on_time(at(3_000));
    assert_eq!(nic.poll_resolved().unwrap().1, Err(NeighbourError::NoPort { ip: ip("10.0.0.2") }));
    assert_eq!(nic.next_wake(), None);
    nic.resolve(at(4_000), ip("10.0.0.2"), Vec::new());
    nic.set_port(at(5_000), PORT, true);
    assert_eq!(frames(&mut nic).len(), 2, "its own address, and the question");
    nic.on_frame(at(5_001), PORT, &reply(PEER)).unwrap();
    assert_eq!(nic.poll_resolved().unwrap().1, Ok(vec![PEER]));
}

#[test]
fn who_is_in_use_is_asked_again_when_its_address_is_old_and_who_is_not_is_forgotten() {
    let mut nic = nic("10.0.0.1");
    nic.resolve(at(0), ip("10.0.0.2"), Vec::new());
    nic.on_frame(at(0), PORT, &reply(PEER)).unwrap();
    assert_eq!(nic.poll_resolved().unwrap().1, Ok(vec![PEER]));
    assert_eq!(hops(&mut nic), [], "nobody holds it yet");
    frames(&mut nic);
    nic.on_time(at(29_999));
    assert!(frames(&mut nic).is_empty());
    nic.on_time(at(30_000));
    let probe = hex("020000000002 020000000001 0806 0001 0800 06 04 0001 020000000001 0a000001 000000000000 0a000002");
    assert_eq!(frames(&mut nic), [probe], "to it alone");
    nic.on_frame(at(30_100), PORT, &reply(PEER)).unwrap();
    nic.on_time(at(31_000));
    assert!(frames(&mut nic).is_empty());
    // It falls silent: three questions to it, three to everybody, and again ten seconds later. What was known stays.
    let mut sent = Vec::new();
    for ms in (60_100..80_000).step_by(100) {
        nic.on_time(at(ms));
        sent.extend(frames(&mut nic).iter().map(|frame| (ms, frame[0] == 255)));
    }
    let unicast = [60_100, 61_100, 62_100].map(|ms| (ms, false));
    let broadcast = [63_100, 64_100, 65_100, 76_100, 77_100, 78_100].map(|ms| (ms, true));
    assert_eq!(sent, [&unicast[..], &broadcast].concat());
    assert_eq!(nic.table().next().unwrap().mac, Some(PEER));
    nic.release(ip("10.0.0.2"));
    (80_000..200_000).step_by(1000).for_each(|ms| nic.on_time(at(ms)));
    assert_eq!((nic.table().count(), nic.next_wake(), frames(&mut nic).len()), (0, None, 0));
}

#[test]
fn a_gratuitous_arp_moves_qps_to_the_new_address_which_is_then_asked() {
    let mut nic = nic("10.0.0.1");
    nic.resolve(at(0), ip("10.0.0.2"), Vec::new());
    nic.on_frame(at(0), PORT, &reply(PEER)).unwrap();
    nic.poll_resolved().unwrap().1.unwrap();
    frames(&mut nic);
    nic.on_frame(at(5_000), PORT, &gratuitous(OTHER)).unwrap();
    assert_eq!(hops(&mut nic), [(0, OTHER)]);
    nic.on_time(at(5_000));
    assert_eq!(frames(&mut nic)[0][..6], OTHER.0, "the new one is asked whether it is so");
    nic.on_frame(at(5_001), PORT, &reply(OTHER)).unwrap();
    // Two that fight for an address do not make it flutter.
    assert_eq!(nic.on_frame(at(5_500), PORT, &gratuitous(PEER)), Err(Refused::Unsettled));
    assert_eq!(nic.on_frame(at(6_000), PORT, &gratuitous(PEER)), Ok(()));
    assert_eq!(hops(&mut nic), [(0, PEER)]);
    assert_eq!((nic.counters().found, nic.counters().changed), (1, 2));
    nic.repeat(ip("10.0.0.2"));
    assert_eq!(hops(&mut nic), [(0, PEER)], "for QPs that were opened meanwhile");
}

#[test]
fn an_advertisement_overrides_only_with_the_flag_and_confirms_only_when_it_answers() {
    const SOLICITED: u8 = 0x40;
    const OVERRIDES: u8 = 0x20;
    let mut nic = nic("fd00::1/64");
    nic.resolve(at(0), ip("fd00::2"), Vec::new());
    let mut question = icmpv6(
        "fd00::1",
        "ff02::1:ff00:2",
        255,
        MacAddr([0x33, 0x33, 0xff, 0, 0, 2]),
        solicitation("fd00::2", &option(1, OWN)),
    );
    question[6..12].copy_from_slice(&OWN.0);
    assert_eq!(frames(&mut nic), [question]);
    nic.on_frame(at(1), PORT, &advertised(SOLICITED | OVERRIDES, PEER)).unwrap();
    assert_eq!(nic.poll_resolved().unwrap().1, Ok(vec![PEER]));
    let state = |nic: &Neighbours| nic.table().next().map(|entry| (entry.mac.unwrap(), entry.state)).unwrap();
    assert_eq!(state(&nic), (PEER, NeighbourState::Reachable));
    assert_eq!(nic.on_frame(at(2), PORT, &advertised(SOLICITED, OTHER)), Err(Refused::Unsettled));
    assert_eq!(state(&nic), (PEER, NeighbourState::Stale), "someone else may have it: it is asked");
    nic.on_frame(at(3), PORT, &advertised(OVERRIDES, OTHER)).unwrap();
    assert_eq!((state(&nic), hops(&mut nic)), ((OTHER, NeighbourState::Stale), vec![(0, OTHER)]));
    nic.on_time(at(3));
    assert_eq!(state(&nic), (OTHER, NeighbourState::Probing));
    // An answer to a question to it alone need not repeat the address.
    let bare = icmpv6("fd00::2", "fd00::1", 255, OWN, advertisement("fd00::2", SOLICITED, &[]));
    nic.on_frame(at(4), PORT, &bare).unwrap();
    assert_eq!(state(&nic), (OTHER, NeighbourState::Reachable));
}

#[test]
fn whoever_is_beyond_the_network_is_reached_by_the_gateway_and_without_one_not() {
    let mut nic = nic_with(NeighbourSpec { gateway: Some(ip("10.0.0.254")), ..spec("10.0.0.1/24") }, 1);
    for far in ["192.0.2.1", "192.0.2.2"] {
        nic.resolve(at(0), ip(far), Vec::new());
    }
    let sent = frames(&mut nic);
    assert_eq!((sent.len(), &sent[0][38..]), (1, &[10, 0, 0, 254][..]), "one question for both");
    let router = |mac| arp(2, (mac, [10, 0, 0, 254]), (OWN, [10, 0, 0, 1]), OWN);
    nic.on_frame(at(1), PORT, &router(PEER)).unwrap();
    for _ in 0..2 {
        assert_eq!(nic.poll_resolved().unwrap().1, Ok(vec![PEER]));
    }
    nic.on_frame(at(2), PORT, &router(OTHER)).unwrap();
    assert_eq!(hops(&mut nic), [(0, OTHER), (0, OTHER)], "both move with their router");
    let mut nic = nic_with(spec("10.0.0.1/24"), 1);
    for (other, said) in [
        ("192.0.2.1", "no gateway"),
        ("fd00::2", "not of one address family"),
        ("224.0.0.5", "no address of a single host"),
    ] {
        nic.resolve(at(0), ip(other), Vec::new());
        let error = nic.poll_resolved().unwrap().1.unwrap_err().to_string();
        assert!(error.contains(said) && error.contains(other), "{error}");
    }
}

#[test]
fn a_fixed_neighbour_and_the_nic_itself_need_no_question_and_no_frame_changes_them() {
    let fixed = HashMap::from([(ip("10.0.0.2"), vec![PEER])]);
    let mut nic = nic_with(NeighbourSpec { fixed, ..spec("10.0.0.1") }, 1);
    for (other, mac) in [("10.0.0.2", PEER), ("10.0.0.1", OWN)] {
        nic.resolve(at(0), ip(other), Vec::new());
        assert_eq!(nic.poll_resolved().unwrap().1, Ok(vec![mac]));
    }
    assert_eq!(nic.on_frame(at(1), PORT, &gratuitous(OTHER)), Err(Refused::NotForUs));
    assert_eq!((frames(&mut nic).len(), hops(&mut nic).len(), nic.next_wake()), (0, 0, None));
    nic.release(ip("10.0.0.2"));
}

#[test]
fn a_port_that_is_joined_to_another_nic_takes_what_the_peer_told_and_is_never_asked_on() {
    let port = NeighbourPort { name: "net_memif0".into(), mac: OWN, on_ethernet: false };
    let mut nic = Neighbours::new(spec("10.0.0.1"), vec![port]);
    nic.set_port(at(0), PORT, true);
    nic.resolve(at(0), ip("10.0.0.2"), vec![PEER]);
    assert_eq!(nic.poll_resolved().unwrap().1, Ok(vec![PEER]));
    nic.resolve(at(0), ip("10.0.0.2"), Vec::new());
    let error = nic.poll_resolved().unwrap().1.unwrap_err().to_string();
    assert!(error.contains("port 1 (net_memif0) leads to another NIC alone"), "{error}");
    assert!(frames(&mut nic).is_empty());
}

#[test]
fn frames_carry_the_vlan_tag_of_the_nic_and_others_are_not_for_it() {
    let tagged = |tci: [u8; 2]| {
        let frame = arp(1, (PEER, [10, 0, 0, 2]), (MacAddr([0; 6]), [10, 0, 0, 1]), MacAddr([255; 6]));
        [&frame[..12], &[0x81, 0], &tci, &frame[12..]].concat()
    };
    let mut nic = nic_with(NeighbourSpec { vlan: Some(0x6007), ..spec("10.0.0.1") }, 1);
    assert_eq!(nic.on_frame(at(1), PORT, &tagged([0, 7])), Ok(()), "of any priority");
    let [answer] = frames(&mut nic).try_into().unwrap();
    assert_eq!(answer[12..18], [0x81, 0, 0x60, 7, 8, 6]);
    assert_eq!(nic.on_frame(at(1), PORT, &tagged([0, 8])), Err(Refused::OtherVlan));
    let bare = arp(1, (PEER, [10, 0, 0, 2]), (MacAddr([0; 6]), [10, 0, 0, 1]), MacAddr([255; 6]));
    assert_eq!(nic.on_frame(at(1), PORT, &bare), Err(Refused::OtherVlan));
    let mut plain = super::tests::nic("10.0.0.1");
    assert_eq!(plain.on_frame(at(1), PORT, &tagged([0x60, 0])), Ok(()), "a priority tag is no VLAN");
    assert_eq!(plain.on_frame(at(1), PORT, &tagged([0, 7])), Err(Refused::OtherVlan));
    // The same over IPv6, with a ping.
    let ping = icmpv6("fd00::2", "fd00::1", 64, OWN, hex("80 00 0000 1234 0001 6869"));
    let ping = [&ping[..12], &[0x81, 0, 0, 7], &ping[12..]].concat();
    let mut nic = nic_with(NeighbourSpec { vlan: Some(7), ..spec("fd00::1") }, 1);
    assert_eq!(nic.on_frame(at(1), PORT, &ping), Ok(()));
    assert_eq!(frames(&mut nic)[0][12..18], [0x81, 0, 0, 7, 0x86, 0xDD]);
}

#[test]
fn hostile_frames_are_refused_each_for_its_reason_which_is_counted() {
    let ns = |hops, options: &[u8]| icmpv6("fd00::2", "fd00::1", hops, OWN, solicitation("fd00::1", options));
    let na = |destination, flags, options: &[u8]| {
        icmpv6("fd00::2", destination, 255, OWN, advertisement("fd00::2", flags, options))
    };
    let with = |mut frame: Vec<u8>, at: usize, byte: u8| {
        frame[at] = byte;
        frame
    };
    let v4: &[(&str, Vec<u8>, Refused)] = &[
        ("a broadcast sender", with(gratuitous(PEER), 6, 0xFF), Refused::GroupSource),
        ("a multicast sender in ARP", gratuitous(MacAddr([1, 0, 0x5e, 0, 0, 1])), Refused::GroupSource),
        ("no sender", gratuitous(MacAddr([0; 6])), Refused::GroupSource),
        ("half an ARP packet", reply(PEER)[..30].to_vec(), Refused::Malformed),
        ("another operation", arp(3, (PEER, [10, 0, 0, 2]), (OWN, [10, 0, 0, 1]), OWN), Refused::ArpKind),
        ("another protocol", with(reply(PEER), 16, 9), Refused::ArpKind),
        ("addresses of another length", with(reply(PEER), 19, 3), Refused::ArpKind),
        ("a multicast address", arp(1, (PEER, [224, 0, 0, 1]), (OWN, [10, 0, 0, 1]), OWN), Refused::BadAddress),
        ("our own address", arp(1, (PEER, [10, 0, 0, 1]), (OWN, [10, 0, 0, 1]), OWN), Refused::Conflict),
        ("our own frame", reply(OWN), Refused::OwnFrame),
        ("somebody else's", with(reply(PEER), 5, 9), Refused::NotForUs),
        ("an answer to nothing", reply(PEER), Refused::Unasked),
    ];
    let v6 = &[
        ("through a router", ns(254, &option(1, PEER)), Refused::HopLimit),
        ("an advertisement through a router", with(na("fd00::1", 0x60, &option(2, PEER)), 21, 64), Refused::HopLimit),
        ("an option of no length", ns(255, &[1, 0, 2, 0, 0, 0, 0, 2]), Refused::DiscoveryOption),
        ("an option that is cut", ns(255, &[1, 1, 2, 0]), Refused::DiscoveryOption),
        (
            "a solicitation without a target",
            icmpv6("fd00::2", "fd00::1", 255, OWN, hex("87000000 00000000 fd00")),
            Refused::Malformed,
        ),
        (
            "a multicast target",
            icmpv6("fd00::2", "fd00::1", 255, OWN, solicitation("ff02::1", &[])),
            Refused::BadAddress,
        ),
        (
            "a search with an address",
            icmpv6("::", "ff02::1:ff00:1", 255, OWN, solicitation("fd00::1", &option(1, PEER))),
            Refused::DiscoveryForm,
        ),
        ("an answer to everybody", na("ff02::1", 0x40, &option(2, PEER)), Refused::DiscoveryForm),
        ("a group's address", na("fd00::1", 0x60, &option(2, MacAddr([255; 6]))), Refused::GroupSource),
        ("an answer to nothing", na("fd00::1", 0x60, &option(2, PEER)), Refused::Unasked),
        ("a wrong checksum", with(ns(255, &[]), 56, 1), Refused::Checksum),
        (
            "a router's word",
            icmpv6("fd00::2", "fd00::1", 255, OWN, hex("86000000 40000000 00000000 00000000")),
            Refused::OtherIcmp,
        ),
        (
            "another one's address",
            icmpv6("fd00::2", "fd00::1", 255, OWN, advertisement("fd00::1", 0x20, &option(2, PEER))),
            Refused::Conflict,
        ),
    ];
    for (address, frames_of) in [("10.0.0.1", v4), ("fd00::1", &v6[..])] {
        let mut nic = nic(address);
        for (what, frame, why) in frames_of {
            let before = nic.counters().refused(*why);
            assert_eq!(nic.on_frame(at(1), PORT, frame), Err(*why), "{what}");
            assert_eq!(nic.counters().refused(*why), before + 1, "{what}");
        }
        assert!(frames(&mut nic).is_empty() && nic.table().count() == 0);
        assert_eq!(nic.poll_conflict(), Some(PEER));
        assert_eq!(nic.poll_conflict(), None);
    }
    let mut nic = nic("fd00::1");
    let code = with(ns(255, &option(1, PEER)), 55, 1);
    assert!(nic.on_frame(at(1), PORT, &code).is_err(), "a code that is not 0");
}

#[test]
fn a_flood_of_questions_is_answered_a_thousand_times_a_second_and_no_more() {
    let mut nic = nic("10.0.0.1");
    let question = arp(1, (PEER, [10, 0, 0, 2]), (MacAddr([0; 6]), [10, 0, 0, 1]), MacAddr([255; 6]));
    let mut answered = 0;
    for us in 0..1_000_000 / 50 {
        let now = Ns(10 * SEC + us * 50_000);
        answered += usize::from(nic.on_frame(now, PORT, &question).is_ok());
        frames(&mut nic);
    }
    assert!((1_000..=1_064).contains(&answered), "{answered}");
    assert_eq!(nic.counters().refused(Refused::Rate), 20_000 - answered as u64);
}

#[test]
fn the_table_is_bounded_by_the_peers_that_are_wanted() {
    let mut nic = nic("10.0.0.1");
    for n in 0..NEIGHBOURS_MAX as u32 {
        nic.resolve(at(0), IpAddr::V4(Ipv4Addr::from(0x0A00_0100 + n)), Vec::new());
    }
    assert!(nic.poll_resolved().is_none());
    nic.resolve(at(0), ip("10.1.0.1"), Vec::new());
    let error = nic.poll_resolved().unwrap().1.unwrap_err();
    assert!(error.to_string().contains("4096 addresses are in use"), "{error}");
    assert_eq!((nic.table().count(), frames(&mut nic).len()), (NEIGHBOURS_MAX, FRAMES_MAX));
    assert_eq!(nic.counters().unsent, (NEIGHBOURS_MAX - FRAMES_MAX) as u64);
}

/// A frame that is nearly one of ours.
fn bent() -> impl Strategy<Value = Vec<u8>> {
    let v6 = || icmpv6("fd00::2", "fd00::1", 255, OWN, solicitation("fd00::1", &option(1, PEER)));
    let seeds = vec![
        reply(PEER),
        gratuitous(PEER),
        v6(),
        advertised(0x60, PEER),
        icmpv6("fd00::2", "fd00::1", 64, OWN, hex("80 00 0000 1234 0001 6869")),
        hex(
            "020000000001 020000000002 0800 4500 0022 0000 4000 40 01 26d9 0a000002 0a000001 0800 a980 1234 0001 686566726d72",
        ),
    ];
    let change = (0_usize..128, any::<u8>());
    (proptest::sample::select(seeds), proptest::collection::vec(change, 0..6), 0_usize..128).prop_map(
        |(mut frame, changes, len)| {
            for (at, byte) in changes {
                let n = frame.len();
                frame[at % n] = byte;
            }
            frame.truncate(len);
            frame
        },
    )
}

proptest! {
    #[test]
    fn no_bytes_from_the_network_make_a_panic_or_fill_the_table(
        bytes in proptest::collection::vec(any::<u8>(), 0..128),
        bent in proptest::collection::vec(bent(), 1..16),
    ) {
        for address in ["10.0.0.1/24", "fd00::1/64"] {
            let mut nic = nic(address);
            nic.resolve(at(0), ip(if address.contains(':') { "fd00::2" } else { "10.0.0.2" }), Vec::new());
            let _ = nic.on_frame(at(1), PORT, &bytes);
            for (ms, frame) in (2..).zip(&bent) {
                let _ = nic.on_frame(at(ms * 100), PORT, frame);
                nic.on_time(at(ms * 100));
            }
            prop_assert!(nic.table().count() <= 1);
            for frame in frames(&mut nic) {
                prop_assert!(frame.len() >= 42 && frame[6..12] == OWN.0, "{frame:02x?}");
                prop_assert!(packet::read(&frame).is_ok() || frame.get(34) == Some(&0) || frame.get(54) == Some(&129));
            }
        }
    }
}
