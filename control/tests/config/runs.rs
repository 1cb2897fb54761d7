//! NICs in virtual time that a configuration made.

use super::read;
use dataplane::Ns;
use dataplane::nic::{DropReason, WriteRequest};
use dataplane::time::{MS, US};
use mrcnic_tests::{Channel, Fate, Pair};
use std::cell::RefCell;
use std::rc::Rc;

const BYTES: usize = 1 << 20;

/// Sends a mebibyte between two NICs of a configuration, and gives them and the time when it was done.
fn run(text: &str) -> (Pair, Ns) {
    let setup = read(text).config.setup();
    let mut pair = Pair::new(setup.nic, BYTES, Channel::default(), 1);
    let qp = pair.connect_with(0, |_, spec| spec.path.paths = setup.paths(50_000));
    pair.fill(7);
    let write = pair.write(0, 0, 0, BYTES);
    pair.nics[0].post_write(qp.qpn[0], &write).unwrap();
    while pair.completions[0].is_empty() {
        assert!(pair.now < Ns(100 * MS), "{text} does not end");
        pair.run_for(US);
    }
    assert!(pair.bytes(1, 0, BYTES) == pair.bytes(0, 0, BYTES));
    let now = pair.now;
    (pair, now)
}

#[test]
fn a_limited_nic_is_as_fast_as_its_port_or_the_lanes_to_its_host() {
    // 256 full packets take 21.4 us of 400 Gbps; their payload takes 66.5 us of 4 lanes.
    let (_, by_port) = run("model.limits = true");
    assert!((22 * US..30 * US).contains(&by_port.0), "{by_port:?}");
    let (_, by_lanes) = run("model.limits = true\nhost_interface.host_side.lane_count = 4");
    assert!((67 * US..75 * US).contains(&by_lanes.0), "{by_lanes:?}");
    let (_, unlimited) = run("host_interface.host_side.lane_count = 4");
    assert!(unlimited < by_port);
}

/// Each frame between two NICs of a configuration that write to each other: when it was sent, by which, and its bytes.
fn history(text: &str, len: usize) -> Vec<(Ns, usize, Vec<u8>)> {
    let mut pair = Pair::new(read(text).config.setup().nic, BYTES, Channel::default(), 1);
    let qp = pair.connect(0);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = Rc::clone(&seen);
    pair.filter = Some(Box::new(move |now, from, _, frame| {
        log.borrow_mut().push((now, from, frame.to_vec()));
        Fate::Pass
    }));
    for id in 0..300.min(BYTES / len) as u64 {
        let there = pair.write(id, 0, 0, len);
        let back = WriteRequest { local_key: pair.keys[1], remote_key: pair.keys[0], ..there };
        pair.nics[0].post_write(qp.qpn[0], &there).unwrap();
        pair.nics[1].post_write(qp.qpn[1], &back).unwrap();
    }
    pair.run_for(MS);
    assert_eq!((pair.completions[0].len(), pair.completions[1].len()), (300.min(BYTES / len), 300.min(BYTES / len)));
    seen.take()
}

#[test]
fn at_the_defaults_credits_change_no_frame_and_no_time_of_large_and_small_messages() {
    for len in [1, 64, 4096, BYTES] {
        let history = |more: &str| history(&format!("model.limits = true\n{more}"), len);
        let without = history("model.pcie_round_trip = \"0ns\"");
        assert!(history("") == without, "messages of {len} bytes");
        let small = "host_interface.host_side.tx_header_buffer_size = \"32B\"";
        assert!(history(small) != without, "it would be seen in messages of {len} bytes");
    }
}

#[test]
fn too_few_lanes_for_what_comes_fill_the_receive_buffer() {
    let small = "model.limits = true\nnetwork_interface.ingress_buffer.total_buffer_size = \"40KB\"\n";
    let drops = |pair: &Pair| pair.nics[1].stats().drops_by(DropReason::IngressFull);
    assert_eq!(drops(&run(&format!("{small}host_interface.nic_side.lane_count = 14")).0), 0);
    assert!(drops(&run(&format!("{small}host_interface.nic_side.lane_count = 4")).0) > 0);
}

#[test]
fn packets_are_sprayed_as_the_type_and_the_range_say() {
    let values = |text: &str| {
        let pair = run(text).0;
        pair.nics[0].ev_states(pair.address(1)).map(|(ev, _)| ev).collect::<Vec<u32>>()
    };
    assert_eq!(values("").len(), 72);
    assert!(values("qp_manager.packet_spraying_type = \"None\"").is_empty());
    let two = values("[packet_spraying]\nentropy_mask_bits = 1\nstarting_port_offset = 65534");
    assert!(two.len() == 2 && two.contains(&65_534) && two.contains(&65_535), "{two:?}");
}
