//! What a NIC has for its peers, in the words of a file.

use super::bond::RECEIVE_DEPTH;
use super::file::{RunFile, RunTable};
use crate::config::Setup;
use crate::host::{Offer, QpOffer, RegionOffer};
use dataplane::memory::Keys;
use dataplane::nic::QpNumbers;
use std::fmt::Write as _;

/// An offer as a table of a file, such as `[run.peer.other]`.
pub(super) fn table(name: &str, offer: &Offer) -> String {
    let macs: Vec<String> = offer.macs.iter().map(|mac| format!("\"{mac}\"")).collect();
    let macs = match macs.is_empty() {
        true => "[]  # the addresses of its ports, which a NIC that runs shows: or give it run.address.mac".to_owned(),
        false => format!("[{}]", macs.join(", ")),
    };
    let qps: Vec<String> =
        offer.qps.iter().map(|qp| format!("{{ qpn = {:#08x}, psn = {:#x} }}", qp.qpn, qp.psn)).collect();
    let mut text = format!(
        "[{name}]\nip = \"{}\"\nmacs = {macs}\nmss = {}\nwindow = {}\nimmediates = {}\nqps = [{}]\n",
        offer.ip,
        offer.mss,
        offer.window,
        offer.immediates,
        qps.join(", ")
    );
    if let Some(RegionOffer { key, address, size }) = offer.region {
        let _ = writeln!(text, "region = {{ key = {key:#x}, address = {address:#x}, size = {size} }}");
    }
    text
}

/// The offers to peers whose numbers are in the file, as a NIC that has just started makes them: numbers are given out in the order of the
/// file. The MSS is that of the configuration, which the ports may not carry.
pub(super) fn offers(file: &RunFile, setup: &Setup) -> Vec<(String, Offer)> {
    let (mut keys, mut numbers) = (Keys::default(), QpNumbers::default());
    let RunTable { region, peer, address, .. } = &file.table;
    let regions: Vec<(&str, u32, u64)> =
        region.iter().filter_map(|region| Some((region.name.as_str(), keys.allocate()?.0, region.size.0))).collect();
    let transport = &setup.nic.transport;
    let mut offers = Vec::new();
    for peer in peer.iter().filter(|peer| !peer.exchange) {
        let qps = (0..peer.qps).filter_map(|_| numbers.allocate()).map(|qpn| QpOffer { qpn: qpn.get(), psn: 0 });
        let own = regions.iter().find(|(name, ..)| *name == peer.region);
        let offer = Offer {
            ip: address.ip.ip,
            macs: file.mac.into_iter().collect(),
            mss: transport.mss,
            window: transport.max_psn_range,
            immediates: transport.write_imm_limit.min(RECEIVE_DEPTH as u32),
            qps: qps.collect(),
            region: own.map(|&(_, key, size)| RegionOffer { key, address: 0, size }),
        };
        offers.push((peer.name.clone(), offer));
    }
    offers
}

/// What belongs into the files of peers, of these offers.
pub(super) fn pairing(own: &str, offers: &[(String, Offer)]) -> String {
    let mut text = String::new();
    for (peer, offer) in offers {
        let _ = write!(
            text,
            "# in the file of {peer}, under its [[run.peer]] of the name \"{own}\"\n{}# and under [[run.peer]] of the name \"{peer}\" here, to have it checked\n{}\n",
            table("run.peer.other", offer),
            table("run.peer.own", offer)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[test]
    fn an_offer_reads_back_from_the_table_that_shows_it() {
        #[derive(Deserialize)]
        struct Back {
            offer: Offer,
        }
        let offer = Offer {
            ip: "10.0.0.1".parse().unwrap(),
            macs: vec!["02:00:00:00:00:01".parse().unwrap(), "02:00:00:00:00:02".parse().unwrap()],
            mss: 4096,
            window: 1024,
            immediates: 16,
            qps: vec![QpOffer { qpn: 0x01_0000, psn: 0 }, QpOffer { qpn: 0x01_0001, psn: 7 }],
            region: Some(RegionOffer { key: 0x101, address: 0, size: 1 << 20 }),
        };
        let back: Back = toml::from_str(&table("offer", &offer)).unwrap();
        assert_eq!(back.offer, offer);
    }
}
