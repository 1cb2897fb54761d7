//! The NIC's own address, and which others are on its network.

use serde::Deserialize;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An address with the length of its network's prefix, as in `10.0.0.1/24`. Without one every address is on the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct InterfaceAddress {
    /// The address.
    pub ip: IpAddr,
    /// Bits that it has in common with the others of its network, 0 to 32 or 128.
    pub prefix: Option<u8>,
}

const fn bits(ip: IpAddr) -> u128 {
    match ip {
        // Both families have their first bit at the top.
        IpAddr::V4(v4) => (v4.to_bits() as u128) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

const fn width(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

impl InterfaceAddress {
    /// Whether `other` is on the network, and so is reached without a gateway.
    #[must_use]
    pub fn is_on_link(&self, other: IpAddr) -> bool {
        if self.ip.is_ipv4() != other.is_ipv4() {
            return false;
        }
        let prefix = u32::from(self.prefix.unwrap_or(0));
        prefix == 0 || (bits(self.ip) ^ bits(other)) >> (128 - prefix) == 0
    }

    /// Checks a gateway: it has to be on the network itself, and somebody else.
    ///
    /// # Errors
    /// In words.
    pub fn check_gateway(&self, gateway: IpAddr) -> Result<(), String> {
        if self.prefix.is_none() {
            return Err(format!(
                "a gateway is for addresses that are not on the network: write the address with its prefix, as in {}/{}",
                self.ip,
                if self.ip.is_ipv4() { 24 } else { 64 }
            ));
        }
        if gateway == self.ip || !self.is_on_link(gateway) {
            return Err(format!(
                "{gateway} is no other address of the network of {self}: give the router's address on it"
            ));
        }
        Ok(())
    }
}

impl From<IpAddr> for InterfaceAddress {
    fn from(ip: IpAddr) -> InterfaceAddress {
        InterfaceAddress { ip, prefix: None }
    }
}

impl FromStr for InterfaceAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<InterfaceAddress, String> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let no_ip = || {
            format!("{text:?} is no IP address: write it as 10.0.0.1, or with the prefix of its network, 10.0.0.1/24")
        };
        let ip: IpAddr = address.parse().map_err(|_| no_ip())?;
        if ip.is_multicast() || ip.is_unspecified() || ip == IpAddr::from([255; 4]) {
            return Err(format!("{ip} is no address of a single NIC: give its own"));
        }
        let longest = width(ip);
        let read = |prefix: &str| {
            let digits = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
            prefix
                .parse()
                .ok()
                .filter(|&prefix: &u8| digits && prefix <= longest)
                .ok_or_else(|| format!("/{prefix} is no prefix of {ip}: it has 0 to {longest} bits"))
        };
        Ok(InterfaceAddress { ip, prefix: prefix.map(read).transpose()? })
    }
}

impl TryFrom<String> for InterfaceAddress {
    type Error = String;

    fn try_from(text: String) -> Result<InterfaceAddress, String> {
        text.parse()
    }
}

impl fmt::Display for InterfaceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix {
            Some(prefix) => write!(f, "{}/{prefix}", self.ip),
            None => self.ip.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_says_by_its_prefix_who_is_on_its_network() {
        let of = |text: &str| text.parse::<InterfaceAddress>().unwrap();
        let near = of("10.0.0.1/24");
        assert_eq!(near.to_string(), "10.0.0.1/24");
        assert!(
            near.is_on_link(ip("10.0.0.255")) && !near.is_on_link(ip("10.0.1.1")) && !near.is_on_link(ip("fd00::1"))
        );
        let wide = of("10.0.0.1");
        assert!(wide.is_on_link(ip("192.0.2.1")) && !wide.is_on_link(ip("fd00::1")));
        let v6 = of("fd00:0:0:1::1/64");
        assert!(v6.is_on_link(ip("fd00:0:0:1:ffff::")) && !v6.is_on_link(ip("fd00:0:0:2::1")));
        assert!(of("10.0.0.1/0").is_on_link(ip("8.8.8.8")));
        assert!(!of("10.0.0.1/32").is_on_link(ip("10.0.0.2")));
    }

    #[test]
    fn what_is_no_address_prefix_or_gateway_is_refused_with_the_way_out() {
        for (text, said) in [
            ("10.0.0", "write it as 10.0.0.1"),
            ("10.0.0.1/33", "0 to 32 bits"),
            ("fd00::1/129", "0 to 128 bits"),
            ("10.0.0.1/", "0 to 32 bits"),
            ("10.0.0.1/+8", "0 to 32 bits"),
            ("224.0.0.1", "no address of a single NIC"),
            ("::", "no address of a single NIC"),
        ] {
            let error = text.parse::<InterfaceAddress>().unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
        let own: InterfaceAddress = "10.0.0.1/24".parse().unwrap();
        assert_eq!(own.check_gateway(ip("10.0.0.254")), Ok(()));
        assert!(own.check_gateway(ip("10.0.1.254")).unwrap_err().contains("the router's address"));
        assert!(own.check_gateway(ip("10.0.0.1")).is_err());
        assert!(InterfaceAddress::from(own.ip).check_gateway(ip("10.0.0.2")).unwrap_err().contains("10.0.0.1/24"));
    }
}
