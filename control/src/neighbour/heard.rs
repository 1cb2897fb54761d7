//! What comes from the network: who asks is answered, who answers is entered, and the rest is refused.

use super::packet::{self, Heard, Ping, What, is_group, solicited_node};
use super::table::Told;
use super::{Neighbours, NextHop, Refused};
use dataplane::Ns;
use dataplane::nic::PortId;
use dataplane::wire::MacAddr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

impl Neighbours {
    /// A frame came in on `port`.
    ///
    /// # Errors
    /// Why it changed nothing and was not answered; it is counted already.
    pub fn on_frame(&mut self, now: Ns, port: PortId, bytes: &[u8]) -> Result<(), Refused> {
        let taken = self.take(now, port, bytes);
        if let Err(reason) = taken {
            self.counters.refuse(reason);
        }
        taken
    }

    fn take(&mut self, now: Ns, port: PortId, bytes: &[u8]) -> Result<(), Refused> {
        let own = self.ports.get(usize::from(port.0)).ok_or(Refused::NotForUs)?.mac;
        let Heard { source, destination, vlan, what } = packet::read(bytes)?;
        let vid = |tci: Option<u16>| tci.unwrap_or(0) & 0x0FFF;
        if vid(vlan) != vid(self.spec.vlan) {
            return Err(Refused::OtherVlan);
        }
        if is_group(source) {
            return Err(Refused::GroupSource);
        }
        if source == own {
            return Err(Refused::OwnFrame);
        }
        if destination != own && !is_group(destination) {
            return Err(Refused::NotForUs);
        }
        match (what, self.spec.address.ip) {
            (What::Arp { request, sender, target }, IpAddr::V4(ip)) => {
                self.take_arp(now, port, ip, request, sender, target)
            }
            (What::Ping(ping), ip) => self.take_ping(now, port, ip, (source, destination), &ping),
            (What::Solicitation { source: from, destination, target, mac }, IpAddr::V6(ip)) => {
                self.take_solicitation(now, port, ip, (from, destination, target), mac, source)
            }
            (What::Advertisement { target, solicited, overrides, mac }, IpAddr::V6(ip)) => {
                self.take_advertisement(now, port, ip, target, mac, solicited, overrides)
            }
            _ => Err(Refused::NotForUs),
        }
    }

    fn take_arp(
        &mut self,
        now: Ns,
        port: PortId,
        own: Ipv4Addr,
        request: bool,
        sender: (MacAddr, Ipv4Addr),
        target: (MacAddr, Ipv4Addr),
    ) -> Result<(), Refused> {
        let (mac, ip) = sender;
        if is_group(mac) {
            return Err(Refused::GroupSource);
        }
        if ip.is_multicast() || ip.is_broadcast() {
            return Err(Refused::BadAddress);
        }
        if mac == self.origin(port).mac {
            return Err(Refused::OwnFrame);
        }
        if ip == own {
            self.conflict = Some(mac);
            return Err(Refused::Conflict);
        }
        // An answer is to this NIC alone; anything else tells where somebody is, and no more (RFC 826, RFC 5227).
        let answer = !request && target == (self.origin(port).mac, own);
        // Nobody is at no address: who sends from there looks whether one is free.
        let heard = if ip.is_unspecified() {
            Err(Refused::Unasked)
        } else {
            self.told(now, port, ip.into(), mac, answer, true)
        };
        if request && target.1 == own {
            self.questions.take(now)?;
            self.counters.answered += 1;
            let reply = self.origin(port).arp_reply(own, sender);
            self.send(port, reply);
            return Ok(());
        }
        match heard {
            Err(Refused::Unasked) if request => Err(Refused::NotForUs),
            heard => heard,
        }
    }

    fn take_solicitation(
        &mut self,
        now: Ns,
        port: PortId,
        own: Ipv6Addr,
        (from, destination, target): (Ipv6Addr, Ipv6Addr, Ipv6Addr),
        mac: Option<MacAddr>,
        source: MacAddr,
    ) -> Result<(), Refused> {
        if mac.is_some_and(is_group) {
            return Err(Refused::GroupSource);
        }
        if from == own {
            self.conflict = Some(source);
            return Err(Refused::Conflict);
        }
        let heard = match mac.filter(|_| !from.is_unspecified()) {
            Some(mac) => self.told(now, port, from.into(), mac, false, true),
            None => Err(Refused::NotForUs),
        };
        if target != own || (destination != own && destination != solicited_node(own)) {
            return heard.map_err(|why| if why == Refused::Unasked { Refused::NotForUs } else { why });
        }
        self.questions.take(now)?;
        self.counters.answered += 1;
        let to = (!from.is_unspecified()).then(|| (mac.unwrap_or(source), from));
        let answer = self.origin(port).advertise(own, to);
        self.send(port, answer);
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "what an advertisement says, field by field")]
    fn take_advertisement(
        &mut self,
        now: Ns,
        port: PortId,
        own: Ipv6Addr,
        target: Ipv6Addr,
        mac: Option<MacAddr>,
        solicited: bool,
        overrides: bool,
    ) -> Result<(), Refused> {
        if mac.is_some_and(is_group) {
            return Err(Refused::GroupSource);
        }
        if target == own {
            self.conflict = mac.or(self.conflict);
            return Err(Refused::Conflict);
        }
        let known = self.entries.get(&(target.into(), port.0)).map(|entry| entry.mac);
        // One who answers a question to it alone may leave the address out.
        let mac = match known {
            None => return Err(Refused::Unasked),
            Some(known) => mac.or(known).ok_or(Refused::DiscoveryOption)?,
        };
        self.told(now, port, target.into(), mac, solicited, overrides)
    }

    fn take_ping(
        &mut self,
        now: Ns,
        port: PortId,
        own: IpAddr,
        (source, destination): (MacAddr, MacAddr),
        ping: &Ping<'_>,
    ) -> Result<(), Refused> {
        // A ping to everybody is not answered, or one frame would draw many.
        if ping.destination != own || is_group(destination) {
            return Err(Refused::NotForUs);
        }
        let from = ping.source;
        let broadcast = from == IpAddr::V4(Ipv4Addr::BROADCAST);
        if from.is_multicast() || from.is_unspecified() || from.is_loopback() || broadcast || from == own {
            return Err(Refused::BadAddress);
        }
        self.pings.take(now)?;
        self.counters.pings += 1;
        let pong = self.origin(port).pong(source, ping);
        self.send(port, pong);
        Ok(())
    }

    /// Somebody said where `ip` is.
    fn told(
        &mut self,
        now: Ns,
        port: PortId,
        ip: IpAddr,
        mac: MacAddr,
        confirmed: bool,
        overrides: bool,
    ) -> Result<(), Refused> {
        let Some(entry) = self.entries.get_mut(&(ip, port.0)) else { return Err(Refused::Unasked) };
        let known = entry.mac;
        let told = entry.tell(now, mac, confirmed, overrides);
        let due = entry.due;
        self.wake_at(due);
        match told {
            Told::Kept => return Err(Refused::Unsettled),
            Told::Same => {}
            Told::New => {
                match known {
                    None => self.counters.found += 1,
                    Some(_) => self.counters.changed += 1,
                }
                let to = self.wanted.iter().filter(|(_, wanted)| wanted.hop == ip && wanted.holders > 0);
                self.hops.extend(to.map(|(&destination, _)| NextHop { destination, port, mac }));
            }
        }
        self.settle(Some(ip));
        Ok(())
    }
}
