//! A NIC as tests see it.

use crate::controller::{
    ControlCounters, DestinationReport, EvStates, EvView, GroupView, NeighbourReport, NicReport, NsccView, PortReport,
    QpReport, QpStates, SurveyReport,
};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Entropy values of the NIC, over four ports.
const EVS: u32 = 72;

fn counters(t: u64) -> BTreeMap<String, u64> {
    let per_second = [
        ("tx_frames", 30_000),
        ("tx_bytes", 120_000_000),
        ("rx_frames", 28_000),
        ("rx_bytes", 2_800_000),
        ("placed_bytes", 0),
        ("completed", 500),
        ("failed", 0),
        ("received_immediates", 0),
        ("tx_data", 25_000),
        ("retransmits", 250),
        ("lost_by_gap", 100),
        ("lost_by_timeout", 140),
        ("refused", 10),
        ("spurious_retransmits", 50),
    ];
    per_second.iter().map(|&(name, rate)| (name.to_owned(), 7 + rate * t)).collect()
}

fn qp(n: u32, t: u64) -> QpReport {
    let local = "10.77.0.1".parse().unwrap();
    let remote = "10.78.0.1".parse().unwrap();
    QpReport {
        qpn: 0x01_0000 + n,
        peer_qpn: 0x02_0000 + n,
        local,
        remote,
        state: if n == 5 { "error" } else { "rts" }.into(),
        pending: 128 - n as usize,
        psns_in_flight: 40 + n,
        psn_window: 1024,
        sent: 9 + (2_000 + 10 * u64::from(n)) * t,
        retransmits: u64::from(n) * t,
        timeouts: u64::from(n) * t,
        delivered: 0,
        delivered_bytes: 0,
        duplicates: 0,
        out_of_window: 0,
        missing: 0,
        received_immediates: 0,
    }
}

/// Value 257 is denied, 258 assumed bad, 259 to be skipped; port 2 is out.
fn ev(n: u32, t: u64) -> EvView {
    let port = (n % 4 + 1) as u8;
    let state = match n {
        1 => "denied",
        2 => "assumed_bad",
        3 => "skip",
        _ => "good",
    };
    let still = port == 2 || n == 2;
    EvView {
        ev: 256 + n,
        port,
        state: state.into(),
        port_out: port == 2,
        sent: 1_000 + if still { 0 } else { 100 * t },
        profile: None,
        segment: None,
    }
}

fn destination(t: u64) -> DestinationReport {
    let nscc =
        NsccView { base_rtt_us: 40.0, average_delay_us: 12.5, max_window: 450_000, rule: "fair_increase".into() };
    let group = GroupView {
        profile: None,
        state: "pending".into(),
        qps: 16,
        window: Some(131_072),
        inflight: 98_304,
        nscc: Some(nscc),
    };
    DestinationReport {
        destination: "10.78.0.1".parse().unwrap(),
        qps: 16,
        sent: 25_000 * t,
        delivered: 0,
        delivered_bytes: 0,
        window: Some(131_072),
        inflight: 98_304,
        rtt_us: Some(88.25),
        groups: vec![group],
        groups_left_out: 0,
        ev_states: EvStates { good: 69, skip: 1, assumed_bad: 1, denied: 1, port_out: 18 },
        evs: (0..EVS).map(|n| ev(n, t)).collect(),
        evs_left_out: 0,
        peer_ports_out: vec![3],
    }
}

/// NIC `name` after `t` seconds.
pub(super) fn nic(name: &str, t: u64) -> NicReport {
    let port = |port| PortReport { port, link: port != 4, admin: port != 2, in_use: port != 2 && port != 4 };
    let other: IpAddr = "2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff".parse().unwrap();
    let mut second = destination(t);
    (second.destination, second.window, second.rtt_us, second.groups) = (other, None, None, Vec::new());
    NicReport {
        neighbours: NeighbourReport::default(),
        name: name.into(),
        workers: 2,
        silent_workers: Vec::new(),
        ports: (1..=4).map(port).collect(),
        counters: counters(t),
        drops: BTreeMap::from([("unknown_probe".into(), 4 * t), ("old_qp_generation".into(), 3)]),
        control: ControlCounters::default(),
        qp_states: QpStates { rtr: 0, rts: 15, error: 1 },
        pending: 1_928,
        qps: (0..16).map(|n| qp(n, t)).collect(),
        qps_left_out: 0,
        destinations: vec![destination(t), second],
        destinations_left_out: 0,
        denials: 1,
    }
}

/// Both NICs after `t` seconds.
pub(super) fn report(t: u64) -> SurveyReport {
    SurveyReport {
        version: "0.1.0".into(),
        time_us: 1e6 * t as f64,
        uptime_us: 1e6 * t as f64,
        nics: vec![nic("a", t), nic("b", t)],
    }
}
