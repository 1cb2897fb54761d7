//! The life of a QP before its worker knows it: RESET, INIT, RTR, RTS.
//!
//! A QP number exists before the peer's address does, so the first steps belong to the host. From RTR on the QP belongs to the
//! worker that owns the peer's address; each step says what the engine is to be told.

use super::{CcProfileRef, Endpoint, PathSpec, Placement, PortId, QpSpec, QpState, Qpn};
use crate::memory::Domain;
use crate::time::SEC;
use crate::transport::{Advertised, Psn, RETRY_FOREVER, TransportParams};

/// What INIT needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToInit {
    /// The port that the QP sends on.
    pub port: PortId,
    /// Requests that the send queue holds.
    pub send_depth: usize,
    /// Receives that the receive queue holds.
    pub receive_depth: usize,
    /// Writes with Immediate that the QP takes and sends in flight.
    pub write_imm_limit: u32,
}

/// What RTR needs.
#[derive(Clone, Debug)]
pub struct ToRtr {
    /// This end.
    pub local: Endpoint,
    /// The other end.
    pub remote: Endpoint,
    /// VLAN tag control information.
    pub vlan: Option<u16>,
    /// The peer's QP number.
    pub peer_qpn: u32,
    /// First PSN to expect.
    pub receive_psn: Psn,
    /// How its packets find their way.
    pub path: PathSpec,
    /// Its CC profile.
    pub congestion: Option<CcProfileRef>,
}

/// What RTS needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToRts {
    /// First PSN to send.
    pub send_psn: Psn,
    /// What the peer takes.
    pub peer: Advertised,
}

/// How long a QP waits for acknowledgements, and how often it tries. Values outside their ranges count as the nearest within.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// `InitialAckTimeout` in ns, 1 ns to 8 s.
    pub ack_timeout_ns: u64,
    /// `LinearRetryCount`, 0 to 7.
    pub linear: u8,
    /// `ExponentialRetryCount`, 0 to 25; 25 never gives up.
    pub exponential: u8,
}

impl Patience {
    /// That of a NIC.
    #[must_use]
    pub const fn of(params: &TransportParams) -> Patience {
        Patience {
            ack_timeout_ns: params.initial_ack_timeout_ns,
            linear: params.linear_retry_count,
            exponential: params.exponential_retry_count,
        }
    }

    /// The NIC's parameters with this patience.
    pub(super) fn apply(self, params: TransportParams) -> TransportParams {
        TransportParams {
            initial_ack_timeout_ns: self.ack_timeout_ns.clamp(1, 8 * SEC),
            linear_retry_count: self.linear.min(7),
            exponential_retry_count: self.exponential.min(RETRY_FOREVER),
            ..params
        }
    }
}

/// The states of a QP, as verbs name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifeState {
    /// Made, and nothing more.
    Reset,
    /// Knows its port.
    Init,
    /// Ready to receive.
    Rtr,
    /// Ready to send.
    Rts,
    /// Ended.
    Error,
}

/// A step that does not follow from the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LifeError {
    /// The step leads from another state.
    #[error("a QP goes to {to} from {from}, but it is in {is}")]
    OutOfOrder {
        /// Where it was to go.
        to: &'static str,
        /// Where that step begins.
        from: &'static str,
        /// Where it is.
        is: &'static str,
    },
    /// A PSN of more than 24 bits.
    #[error("PSN {0:#x} has more than 24 bits")]
    Psn(u32),
    /// A QP number that is reserved, or has more than 24 bits.
    #[error("{0:#x} is no QP number: they have 24 bits, and 0 to 2 are reserved")]
    PeerQpn(u32),
}

impl LifeState {
    const fn name(self) -> &'static str {
        match self {
            LifeState::Reset => "RESET",
            LifeState::Init => "INIT",
            LifeState::Rtr => "RTR",
            LifeState::Rts => "RTS",
            LifeState::Error => "ERROR",
        }
    }
}

/// Checks a PSN that somebody hands over as a number.
///
/// # Errors
/// [`LifeError::Psn`].
pub fn checked_psn(value: u32) -> Result<Psn, LifeError> {
    if value < crate::transport::PSN_SPACE { Ok(Psn::new(value)) } else { Err(LifeError::Psn(value)) }
}

/// A QP on its way to RTS.
#[derive(Clone, Debug)]
pub struct QpLife {
    qpn: Qpn,
    domain: Domain,
    state: LifeState,
    init: Option<ToInit>,
}

impl QpLife {
    /// A QP in RESET.
    #[must_use]
    pub const fn new(qpn: Qpn, domain: Domain) -> QpLife {
        QpLife { qpn, domain, state: LifeState::Reset, init: None }
    }

    /// Its number.
    #[must_use]
    pub const fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// Where it is.
    #[must_use]
    pub const fn state(&self) -> LifeState {
        self.state
    }

    fn step(&mut self, from: LifeState, to: LifeState) -> Result<(), LifeError> {
        if self.state != from {
            return Err(LifeError::OutOfOrder { to: to.name(), from: from.name(), is: self.state.name() });
        }
        self.state = to;
        Ok(())
    }

    /// RESET to INIT.
    ///
    /// # Errors
    /// [`LifeError::OutOfOrder`].
    pub fn init(&mut self, with: ToInit) -> Result<(), LifeError> {
        self.step(LifeState::Reset, LifeState::Init)?;
        self.init = Some(with);
        Ok(())
    }

    /// INIT to RTR: what to open at the worker that owns the peer's address.
    ///
    /// # Errors
    /// [`LifeError::OutOfOrder`], [`LifeError::PeerQpn`].
    pub fn rtr(&mut self, with: &ToRtr) -> Result<QpSpec, LifeError> {
        if with.peer_qpn <= 2 || with.peer_qpn >= 1 << 24 {
            return Err(LifeError::PeerQpn(with.peer_qpn));
        }
        self.step(LifeState::Init, LifeState::Rtr)?;
        let init = self.init.ok_or(LifeError::OutOfOrder { to: "RTR", from: "INIT", is: "RESET" })?;
        Ok(QpSpec {
            qpn: self.qpn,
            state: QpState::Rtr,
            port: init.port,
            local: with.local,
            remote: with.remote,
            vlan: with.vlan,
            peer_qpn: with.peer_qpn,
            // RTS says what these are.
            send_psn: Psn::default(),
            peer: Advertised { window: 1, immediates: 1 },
            receive_psn: with.receive_psn,
            domain: self.domain,
            send_depth: init.send_depth,
            receive_depth: init.receive_depth,
            write_imm_limit: init.write_imm_limit,
            placement: Placement::Keyed,
            path: with.path.clone(),
            congestion: with.congestion,
        })
    }

    /// RTR to RTS: the engine is told by [`super::Nic::ready_to_send`].
    ///
    /// # Errors
    /// [`LifeError::OutOfOrder`].
    pub fn rts(&mut self, with: ToRts) -> Result<ToRts, LifeError> {
        self.step(LifeState::Rtr, LifeState::Rts)?;
        Ok(with)
    }

    /// To ERROR, from anywhere.
    pub const fn error(&mut self) {
        self.state = LifeState::Error;
    }

    /// Back to RESET, from anywhere: the engine closes the QP, and its number is given back for another.
    pub fn reset(&mut self, qpn: Qpn) {
        *self = QpLife::new(qpn, self.domain);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nic::QpNumbers;
    use crate::wire::MacAddr;
    use core::net::Ipv4Addr;

    fn life() -> QpLife {
        QpLife::new(QpNumbers::default().allocate().unwrap(), Domain(1))
    }

    fn to_init() -> ToInit {
        ToInit { port: PortId(0), send_depth: 8, receive_depth: 8, write_imm_limit: 4 }
    }

    fn to_rtr(peer_qpn: u32) -> ToRtr {
        let end = |n| Endpoint { mac: MacAddr([2, 0, 0, 0, 0, n]), ip: Ipv4Addr::new(10, 0, 0, n).into() };
        ToRtr {
            local: end(1),
            remote: end(2),
            vlan: None,
            peer_qpn,
            receive_psn: Psn::new(7),
            path: PathSpec::default(),
            congestion: None,
        }
    }

    fn to_rts() -> ToRts {
        ToRts { send_psn: Psn::new(9), peer: Advertised { window: 1024, immediates: 64 } }
    }

    #[test]
    fn a_qp_goes_from_reset_over_init_and_rtr_to_rts_and_no_other_way() {
        let mut qp = life();
        assert!(matches!(
            qp.rtr(&to_rtr(0x10003)),
            Err(LifeError::OutOfOrder { to: "RTR", from: "INIT", is: "RESET" })
        ));
        assert!(qp.rts(to_rts()).is_err());
        qp.init(to_init()).unwrap();
        assert!(qp.init(to_init()).is_err());
        assert!(qp.rts(to_rts()).is_err());
        let spec = qp.rtr(&to_rtr(0x10003)).unwrap();
        assert_eq!((spec.state, spec.receive_psn, spec.send_depth), (QpState::Rtr, Psn::new(7), 8));
        assert!(qp.rtr(&to_rtr(0x10003)).is_err());
        assert_eq!(qp.rts(to_rts()), Ok(to_rts()));
        assert_eq!(qp.state(), LifeState::Rts);
        assert!(qp.rts(to_rts()).is_err());
        qp.error();
        assert_eq!(qp.init(to_init()).unwrap_err().to_string(), "a QP goes to INIT from RESET, but it is in ERROR");
        qp.reset(QpNumbers::default().allocate().unwrap());
        assert_eq!(qp.state(), LifeState::Reset);
    }

    #[test]
    fn a_start_psn_above_24_bits_and_a_reserved_peer_number_are_refused() {
        assert_eq!(checked_psn(0xFF_FFFF), Ok(Psn::new(0xFF_FFFF)));
        assert_eq!(checked_psn(0x100_0000), Err(LifeError::Psn(0x100_0000)));
        for wrong in [0, 1, 2, 1 << 24] {
            let mut qp = life();
            qp.init(to_init()).unwrap();
            assert_eq!(qp.rtr(&to_rtr(wrong)).unwrap_err(), LifeError::PeerQpn(wrong));
            assert_eq!(qp.state(), LifeState::Init, "a refused step changes nothing");
        }
    }
}
