//! What two ends tell each other so that their QPs can be joined.

use dataplane::nic::{Advertised, CcProfileRef, Endpoint, PathSpec, ToRtr};
use dataplane::transport::{PSN_SPACE, Psn};
use dataplane::wire::MacAddr;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A QP as it is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QpOffer {
    /// Its number, 24 bits.
    pub qpn: u32,
    /// The first PSN that it sends, 24 bits.
    pub psn: u32,
}

/// A region that the other end may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionOffer {
    /// Its key.
    pub key: u32,
    /// The address of its first byte.
    pub address: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// What an end tells the other: all that is needed to join QPs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// Its IP address.
    pub ip: IpAddr,
    /// The Ethernet address of each of its ports.
    #[serde(with = "macs")]
    pub macs: Vec<MacAddr>,
    /// Payload of a full packet in bytes: both ends must have the same.
    pub mss: u32,
    /// PSNs that each of its responders lets be in flight.
    pub window: u32,
    /// Writes with Immediate that each of them lets be in flight.
    pub immediates: u32,
    /// Its QPs; number i is for number i of the other end.
    pub qps: Vec<QpOffer>,
    /// What may be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<RegionOffer>,
}

/// Ethernet addresses as text.
mod macs {
    use dataplane::wire::MacAddr;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(macs: &[MacAddr], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(macs.iter().map(ToString::to_string))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<MacAddr>, D::Error> {
        let read = |text: String| crate::host::table::mac(&text).map_err(D::Error::custom);
        Vec::<String>::deserialize(deserializer)?.into_iter().map(read).collect()
    }
}

impl Offer {
    /// What is wrong with the other end's offer for an end that made this one.
    ///
    /// # Errors
    /// In words.
    pub fn check(&self, other: &Offer) -> Result<(), String> {
        if other.qps.len() != self.qps.len() {
            return Err(format!(
                "one end has {} QPs and the other {}: give both the same",
                self.qps.len(),
                other.qps.len()
            ));
        }
        if other.mss != self.mss {
            return Err(format!(
                "the MSS is {} at one end and {} at the other: give both the same",
                self.mss, other.mss
            ));
        }
        if other.macs.len() != self.macs.len() {
            let (own, theirs) = (self.macs.len(), other.macs.len());
            return Err(format!(
                "one end has {own} ports and the other {theirs}: port i of one reaches port i of the other"
            ));
        }
        if other.ip.is_ipv4() != self.ip.is_ipv4() {
            return Err(format!("{} and {} are not of one family", self.ip, other.ip));
        }
        if let Some(psn) = other.qps.iter().map(|qp| qp.psn).find(|&psn| psn >= PSN_SPACE) {
            return Err(format!("PSN {psn:#x} has more than 24 bits"));
        }
        Ok(())
    }

    /// What brings QP number `n` of this end to RTR, with the other end's offer, which was checked.
    #[must_use]
    pub fn to_rtr(
        &self,
        other: &Offer,
        n: usize,
        path: PathSpec,
        vlan: Option<u16>,
        congestion: Option<CcProfileRef>,
    ) -> Option<ToRtr> {
        let qp = other.qps.get(n)?;
        let end = |offer: &Offer| Some(Endpoint { mac: *offer.macs.first()?, ip: offer.ip });
        Some(ToRtr {
            local: end(self)?,
            remote: end(other)?,
            vlan,
            peer_qpn: qp.qpn,
            receive_psn: Psn::new(qp.psn),
            path,
            congestion,
        })
    }

    /// What its responders take.
    #[must_use]
    pub const fn advertised(&self) -> Advertised {
        Advertised { window: self.window, immediates: self.immediates }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn offer(n: u8) -> Offer {
        Offer {
            ip: [10, 0, 0, n].into(),
            macs: vec![MacAddr([2, 0, 0, 0, 0, n])],
            mss: 4096,
            window: 1024,
            immediates: 64,
            qps: vec![QpOffer { qpn: 0x01_0000, psn: 7 }],
            region: Some(RegionOffer { key: 1, address: 0, size: 4096 }),
        }
    }

    #[test]
    fn ends_that_do_not_fit_are_told_apart_in_words() {
        let wrong = |change: fn(&mut Offer)| {
            let mut other = offer(2);
            change(&mut other);
            offer(1).check(&other)
        };
        assert_eq!(wrong(|_| ()), Ok(()));
        assert!(wrong(|o| o.mss = 1024).unwrap_err().contains("MSS is 4096 at one end and 1024"));
        assert!(wrong(|o| o.qps.push(o.qps[0])).unwrap_err().contains("1 QPs and the other 2"));
        assert!(wrong(|o| o.ip = "fd00::1".parse().unwrap()).unwrap_err().contains("one family"));
        assert!(wrong(|o| o.macs.push(o.macs[0])).unwrap_err().contains("1 ports and the other 2"));
        assert!(wrong(|o| o.qps[0].psn = 1 << 24).unwrap_err().contains("24 bits"));
    }
}
