//! The steps of a QP, and what goes with each.

use crate::abi::{
    MRC_MAX_VENDOR_CFG_SIZE, MRC_QP_CAP, MRC_QP_CAP_DYNAMIC_MPR, MRC_QP_CAP_SVC_TIME_DEST_UNSUPPORTED,
    MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED, MRC_QP_CC_PROFILE_ID, MRC_QP_EV_PROFILE_ID, MRC_QP_HINT, MRC_QP_MAX_WIMM,
    MRC_QP_MAX_WIMM_DEST, MRC_QP_MPR, MRC_QP_MPR_DEST, MRC_QP_RETRY_CNT, MRC_QP_TIMEOUT, MRC_QP_VENDOR_CFG,
    mrc_qp_attr, mrc_qp_mpr, mrc_qp_retry, mrc_qp_wimm,
};
use crate::call::{Errno, borrow, errno, lock};
use crate::context::{MPR_UNIT, mpr_of};
use crate::node::Way;
use crate::port::{GIDS, gid, has_port, ip, mtu};
use crate::qp::mrc_qp;
use crate::verbs::{
    IBV_MTU_4096, IBV_QP_ACCESS_FLAGS, IBV_QP_ALT_PATH, IBV_QP_AV, IBV_QP_CUR_STATE, IBV_QP_DEST_QPN,
    IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MAX_QP_RD_ATOMIC, IBV_QP_MIN_RNR_TIMER, IBV_QP_PATH_MIG_STATE, IBV_QP_PATH_MTU,
    IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY, IBV_QP_RQ_PSN, IBV_QP_SQ_PSN, IBV_QP_STATE,
    IBV_QP_TIMEOUT, IBV_QPS_ERR, IBV_QPS_INIT, IBV_QPS_RESET, IBV_QPS_RTR, IBV_QPS_RTS, ibv_ah_attr, ibv_mtu,
    ibv_qp_attr, ibv_qp_state,
};
use control::host::{LifeState, Patience, ToInit, ToRtr, ToRts};
use dataplane::nic::{Advertised, Endpoint, NicParams, PathSpec, PortId, checked_psn};
use std::ffi::c_int;
use std::net::IpAddr;
use std::sync::atomic::Ordering;

/// A timeout of this many doublings of 1.024 us is the longest.
const TIMEOUT_MAX: u8 = 24;
const TIMEOUT_UNIT_NS: u64 = 1024;
const LINEAR_MAX: u8 = 7;
const EXPONENTIAL_MAX: u8 = 25;
/// QPs whose packets are not sprayed have UDP source ports of this range, by their slots.
const UDP_PORTS: u16 = 49_152;

/// Attributes of verbs that MRC has its own for, or none: they are not looked at.
const LEFT_OUT: u32 = IBV_QP_PORT
    | IBV_QP_TIMEOUT
    | IBV_QP_RETRY_CNT
    | IBV_QP_RNR_RETRY
    | IBV_QP_MIN_RNR_TIMER
    | IBV_QP_MAX_QP_RD_ATOMIC
    | IBV_QP_MAX_DEST_RD_ATOMIC
    | IBV_QP_ALT_PATH
    | IBV_QP_PATH_MIG_STATE;
/// What may come with any step.
const ALWAYS: u32 = IBV_QP_STATE | IBV_QP_CUR_STATE | LEFT_OUT;

/// Attributes, and which of them count.
pub(crate) struct Asked<'a, T> {
    attr: Option<&'a T>,
    mask: u32,
}

impl<'a, T> Asked<'a, T> {
    /// EINVAL where the mask names what is not there.
    pub(crate) const fn new(attr: Option<&'a T>, mask: c_int) -> Result<Asked<'a, T>, Errno> {
        if attr.is_none() && mask != 0 {
            return Err(libc::EINVAL);
        }
        Ok(Asked { attr, mask: mask as u32 })
    }

    /// The attributes, if the mask has any of these bits.
    fn get(&self, bits: u32) -> Option<&'a T> {
        if self.mask & bits != 0 { self.attr } else { None }
    }
}

/// What a QP was told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) attr: mrc_qp_attr,
    av: ibv_ah_attr,
    path_mtu: ibv_mtu,
    dest_qp_num: u32,
    rq_psn: u32,
    sq_psn: u32,
    access: u32,
    /// A timeout or counts of its own.
    patient: (bool, bool),
}

impl Known {
    /// What a QP has that was told nothing: the NIC's own.
    pub(crate) fn of(params: &NicParams) -> Known {
        let transport = &params.transport;
        let (mpr, immediates) =
            (mpr_of(transport.max_psn_range), transport.write_imm_limit.min(u16::MAX.into()) as u16);
        let units = transport.initial_ack_timeout_ns.div_ceil(TIMEOUT_UNIT_NS).max(1);
        let attr = mrc_qp_attr {
            mpr: mrc_qp_mpr { mpr, mpr_dest: mpr },
            wimm: mrc_qp_wimm { max_wimm: immediates, max_wimm_dest: immediates },
            // The shortest that is no shorter.
            timeout: (units.next_power_of_two().trailing_zeros() as u8).min(TIMEOUT_MAX),
            retry: mrc_qp_retry {
                linear_cnt: transport.linear_retry_count,
                exp_cnt: transport.exponential_retry_count,
            },
            cap: if transport.dynamic_mpr { MRC_QP_CAP_DYNAMIC_MPR } else { 0 },
            ..mrc_qp_attr::default()
        };
        let path_mtu = mtu(transport.mss);
        let av = ibv_ah_attr::default();
        Known { attr, av, path_mtu, dest_qp_num: 0, rq_psn: 0, sq_psn: 0, access: 0, patient: (false, false) }
    }
}

const fn state(state: LifeState) -> ibv_qp_state {
    match state {
        LifeState::Reset => IBV_QPS_RESET,
        LifeState::Init => IBV_QPS_INIT,
        LifeState::Rtr => IBV_QPS_RTR,
        LifeState::Rts => IBV_QPS_RTS,
        LifeState::Error => IBV_QPS_ERR,
    }
}

/// The attributes of verbs, and those of MRC, that may come with a step.
fn permitted(from: ibv_qp_state, to: ibv_qp_state) -> Result<(u32, c_int), Errno> {
    let early =
        MRC_QP_HINT | MRC_QP_EV_PROFILE_ID | MRC_QP_CC_PROFILE_ID | MRC_QP_MPR_DEST | MRC_QP_MAX_WIMM_DEST | MRC_QP_CAP;
    let late = MRC_QP_MPR | MRC_QP_MAX_WIMM | MRC_QP_TIMEOUT | MRC_QP_RETRY_CNT | MRC_QP_VENDOR_CFG | MRC_QP_HINT;
    Ok(match (from, to) {
        (IBV_QPS_RESET, IBV_QPS_INIT) | (IBV_QPS_INIT, IBV_QPS_INIT) => {
            (ALWAYS | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS, early | late)
        }
        (IBV_QPS_INIT, IBV_QPS_RTR) => {
            let path = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
            (ALWAYS | path | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS, early | late)
        }
        (IBV_QPS_RTR, IBV_QPS_RTS) => (ALWAYS | IBV_QP_SQ_PSN | IBV_QP_ACCESS_FLAGS, late),
        (IBV_QPS_RTS, IBV_QPS_RTS) => (ALWAYS, MRC_QP_HINT),
        (_, IBV_QPS_ERR) => (ALWAYS, 0),
        (_, IBV_QPS_RESET) => return Err(libc::EOPNOTSUPP),
        _ => return Err(libc::EINVAL),
    })
}

/// What it needs of verbs' attributes.
const fn needed(from: ibv_qp_state, to: ibv_qp_state) -> u32 {
    match (from, to) {
        (IBV_QPS_INIT, IBV_QPS_RTR) => IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
        (IBV_QPS_RTR, IBV_QPS_RTS) => IBV_QP_SQ_PSN,
        _ => 0,
    }
}

fn learn_mrc(qp: &mrc_qp, known: &mut Known, asked: &Asked<'_, mrc_qp_attr>) -> Result<(), Errno> {
    let open = qp.open()?;
    let transport = &open.node.device.params().transport;
    let most = mpr_of(transport.max_psn_range);
    let get = |bit: c_int| asked.get(bit as u32);
    let window = |mpr: u8| if (1..=most).contains(&mpr) { Ok(mpr) } else { Err(libc::EINVAL) };
    let immediates =
        |n: u16| if (1..=transport.write_imm_limit).contains(&n.into()) { Ok(n) } else { Err(libc::EINVAL) };
    if let Some(attr) = get(MRC_QP_MPR) {
        known.attr.mpr.mpr = window(attr.mpr.mpr)?;
    }
    if let Some(attr) = get(MRC_QP_MPR_DEST) {
        known.attr.mpr.mpr_dest = window(attr.mpr.mpr_dest)?;
    }
    if let Some(attr) = get(MRC_QP_MAX_WIMM) {
        known.attr.wimm.max_wimm = immediates(attr.wimm.max_wimm)?;
    }
    if let Some(attr) = get(MRC_QP_MAX_WIMM_DEST) {
        known.attr.wimm.max_wimm_dest = immediates(attr.wimm.max_wimm_dest)?;
    }
    if let Some(attr) = get(MRC_QP_TIMEOUT) {
        if attr.timeout > TIMEOUT_MAX {
            return Err(libc::EINVAL);
        }
        known.attr.timeout = attr.timeout;
        known.patient.0 = true;
    }
    if let Some(attr) = get(MRC_QP_RETRY_CNT) {
        if attr.retry.linear_cnt > LINEAR_MAX || attr.retry.exp_cnt > EXPONENTIAL_MAX {
            return Err(libc::EINVAL);
        }
        known.attr.retry = attr.retry;
        known.patient.1 = true;
    }
    if let Some(attr) = get(MRC_QP_EV_PROFILE_ID) {
        // Profile 0 is what the NIC's file says; who has another one keeps that, or gets a third.
        if attr.profile.ev_profile_id == 0 && known.attr.profile.ev_profile_id != 0 {
            return Err(libc::EINVAL);
        }
        known.attr.profile.ev_profile_id = attr.profile.ev_profile_id;
    }
    if let Some(attr) = get(MRC_QP_CC_PROFILE_ID) {
        // As above.
        if attr.profile.cc_profile_id == 0 && known.attr.profile.cc_profile_id != 0 {
            return Err(libc::EINVAL);
        }
        known.attr.profile.cc_profile_id = attr.profile.cc_profile_id;
    }
    if let Some(attr) = get(MRC_QP_CAP) {
        let told = MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED | MRC_QP_CAP_SVC_TIME_DEST_UNSUPPORTED;
        let can = told | if transport.dynamic_mpr { MRC_QP_CAP_DYNAMIC_MPR } else { 0 };
        if attr.cap & !can != 0 {
            return Err(libc::EINVAL);
        }
        known.attr.cap = attr.cap;
    }
    if get(MRC_QP_VENDOR_CFG).is_some_and(|attr| attr.vendor_cfg != [0; MRC_MAX_VENDOR_CFG_SIZE]) {
        return Err(libc::EINVAL);
    }
    Ok(())
}

fn learn_verbs(qp: &mrc_qp, known: &mut Known, asked: &Asked<'_, ibv_qp_attr>) -> Result<(), Errno> {
    let open = qp.open()?;
    let mss = open.node.device.params().transport.mss;
    if asked.get(IBV_QP_PKEY_INDEX).is_some_and(|attr| attr.pkey_index != 0) {
        return Err(libc::EINVAL);
    }
    if let Some(attr) = asked.get(IBV_QP_ACCESS_FLAGS) {
        known.access = attr.qp_access_flags;
    }
    if let Some(attr) = asked.get(IBV_QP_AV) {
        let port = u32::from(attr.ah_attr.port_num).max(1);
        if attr.ah_attr.is_global == 0 || u32::from(attr.ah_attr.grh.sgid_index) >= GIDS || !has_port(open, port) {
            return Err(libc::EINVAL);
        }
        known.av = attr.ah_attr;
    }
    if let Some(attr) = asked.get(IBV_QP_PATH_MTU) {
        // A packet is as long as the NIC makes it, for all its QPs.
        if !(mtu(mss)..=IBV_MTU_4096).contains(&attr.path_mtu) {
            return Err(libc::EINVAL);
        }
        known.path_mtu = attr.path_mtu;
    }
    if let Some(attr) = asked.get(IBV_QP_DEST_QPN) {
        known.dest_qp_num = attr.dest_qp_num;
    }
    let psn = |psn: u32| checked_psn(psn).map(|_| psn).map_err(|_| libc::EINVAL);
    if let Some(attr) = asked.get(IBV_QP_RQ_PSN) {
        known.rq_psn = psn(attr.rq_psn)?;
    }
    if let Some(attr) = asked.get(IBV_QP_SQ_PSN) {
        known.sq_psn = psn(attr.sq_psn)?;
    }
    Ok(())
}

fn to_init(qp: &mrc_qp) -> Result<(), Errno> {
    let with = ToInit {
        port: PortId(0),
        send_depth: qp.init.cap.max_send_wr as usize,
        receive_depth: qp.init.cap.max_recv_wr as usize,
        write_imm_limit: qp.open()?.node.device.params().transport.write_imm_limit,
    };
    qp.qp.init(with).map_err(|e| errno(&e))
}

fn to_rtr(qp: &mrc_qp, known: &Known) -> Result<(), Errno> {
    let node = &qp.open()?.node;
    let peer = ip(&known.av.grh.dgid);
    let own = node.file.ip;
    if matches!((own, peer), (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_))) {
        return Err(libc::EINVAL);
    }
    let way = node.reach(peer)?;
    let hops = way.macs();
    let first = hops.first().copied().ok_or(libc::EHOSTUNREACH)?;
    let slot = qp.qp.qpn().slot();
    let path = PathSpec {
        paths: node.file.paths(UDP_PORTS + (slot % usize::from(u16::MAX - UDP_PORTS)) as u16),
        next_hops: if hops.len() > 1 { hops.to_vec() } else { Vec::new() },
        encapsulation: None,
        follows: false,
    };
    let with = ToRtr {
        local: Endpoint { mac: node.mac(), ip: own },
        remote: Endpoint { mac: first, ip: peer },
        vlan: node.file.vlan,
        peer_qpn: known.dest_qp_num,
        receive_psn: checked_psn(known.rq_psn).map_err(|_| libc::EINVAL)?,
        path,
        congestion: None,
    };
    match &way {
        Way::Known(_) => qp.qp.rtr(&with),
        Way::Found(reach) => qp.qp.rtr_by(&with, reach),
    }
    .map_err(|e| errno(&e))
}

fn to_rts(qp: &mrc_qp, known: &Known) -> Result<(), Errno> {
    let transport = qp.open()?.node.device.params().transport;
    let attr = &known.attr;
    let peer = Advertised { window: u32::from(attr.mpr.mpr) * MPR_UNIT, immediates: attr.wimm.max_wimm.into() };
    // What was not told is the NIC's own, to the nanosecond.
    let nic = Patience::of(&transport);
    let (timed, counted) = known.patient;
    let patience = Patience {
        ack_timeout_ns: if timed { TIMEOUT_UNIT_NS << attr.timeout } else { nic.ack_timeout_ns },
        linear: if counted { attr.retry.linear_cnt } else { nic.linear },
        exponential: if counted { attr.retry.exp_cnt } else { nic.exponential },
    };
    let send_psn = checked_psn(known.sq_psn).map_err(|_| libc::EINVAL)?;
    qp.qp.rts_with(ToRts { send_psn, peer }, patience).map_err(|e| errno(&e))
}

/// Changes a QP; one that refuses stays as it is.
pub(crate) fn modify(qp: &mrc_qp, verbs: &Asked<'_, ibv_qp_attr>, mrc: &Asked<'_, mrc_qp_attr>) -> Result<(), Errno> {
    let mut told = lock(&qp.known);
    let from = state(qp.qp.state());
    if verbs.get(IBV_QP_CUR_STATE).is_some_and(|attr| attr.cur_qp_state != from) {
        return Err(libc::EINVAL);
    }
    let to = verbs.get(IBV_QP_STATE).map_or(from, |attr| attr.qp_state);
    let (of_verbs, of_mrc) = permitted(from, to)?;
    let missing = needed(from, to) & !verbs.mask;
    if verbs.mask & !of_verbs != 0 || mrc.mask & !(of_mrc as u32) != 0 || missing != 0 {
        return Err(libc::EINVAL);
    }
    let mut known = *told;
    learn_verbs(qp, &mut known, verbs)?;
    learn_mrc(qp, &mut known, mrc)?;
    let hint = mrc.get(MRC_QP_HINT as u32).map(|attr| attr.qp_hint);
    // SAFETY: the caller of the exported function says that it is NULL or a hint.
    let new = hint.and_then(|hint| unsafe { hint.as_ref() });
    if new.is_some_and(|hint| hint.owner.0 != qp.owner.0) {
        return Err(libc::EINVAL);
    }
    let profile = known.attr.profile.ev_profile_id;
    if profile != told.attr.profile.ev_profile_id {
        qp.qp.bind_profile(profile).map_err(|e| errno(&e))?;
        // It is bound from here on, whatever becomes of the step.
        told.attr.profile.ev_profile_id = profile;
    }
    let congestion = known.attr.profile.cc_profile_id;
    if congestion != told.attr.profile.cc_profile_id {
        qp.qp.bind_congestion(congestion).map_err(|e| errno(&e))?;
        told.attr.profile.cc_profile_id = congestion;
    }
    match (from, to) {
        (_, IBV_QPS_ERR) => qp.qp.end().map_err(|e| errno(&e))?,
        (IBV_QPS_RESET, IBV_QPS_INIT) => to_init(qp)?,
        (IBV_QPS_INIT, IBV_QPS_RTR) => to_rtr(qp, &known)?,
        (IBV_QPS_RTR, IBV_QPS_RTS) => to_rts(qp, &known)?,
        _ => {}
    }
    if let Some(hint) = hint {
        // SAFETY: the hint that it had stays as long as it has QPs.
        if let Ok(old) = unsafe { borrow(told.attr.qp_hint) } {
            old.uses.fetch_sub(1, Ordering::AcqRel);
        }
        if let Some(new) = new {
            new.uses.fetch_add(1, Ordering::AcqRel);
        }
        known.attr.qp_hint = hint;
    }
    *told = known;
    Ok(())
}

/// Tells about a QP: all that verbs' attributes can say, and what the mask names of MRC's.
pub(crate) fn query(qp: &mrc_qp, verbs: Option<&mut ibv_qp_attr>, mrc: Option<&mut mrc_qp_attr>, mask: c_int) {
    let known = lock(&qp.known);
    if let Some(to) = verbs {
        let state = state(qp.qp.state());
        *to = ibv_qp_attr {
            qp_state: state,
            cur_qp_state: state,
            path_mtu: known.path_mtu,
            rq_psn: known.rq_psn,
            sq_psn: known.sq_psn,
            dest_qp_num: known.dest_qp_num,
            qp_access_flags: known.access,
            cap: qp.init.cap,
            ah_attr: known.av,
            port_num: 1,
            ..ibv_qp_attr::default()
        };
        if state == IBV_QPS_RESET || state == IBV_QPS_INIT {
            // No peer yet: the address handle is that of nobody.
            to.ah_attr.grh.dgid = gid(std::net::Ipv6Addr::UNSPECIFIED.into());
        }
    }
    let Some(to) = mrc else { return };
    let from = &known.attr;
    let has = |bit: c_int| mask & bit != 0;
    if has(MRC_QP_MAX_WIMM) {
        to.wimm.max_wimm = from.wimm.max_wimm;
    }
    if has(MRC_QP_MAX_WIMM_DEST) {
        to.wimm.max_wimm_dest = from.wimm.max_wimm_dest;
    }
    if has(MRC_QP_MPR) {
        to.mpr.mpr = from.mpr.mpr;
    }
    if has(MRC_QP_MPR_DEST) {
        to.mpr.mpr_dest = from.mpr.mpr_dest;
    }
    if has(MRC_QP_TIMEOUT) {
        to.timeout = from.timeout;
    }
    if has(MRC_QP_EV_PROFILE_ID) {
        to.profile.ev_profile_id = from.profile.ev_profile_id;
    }
    if has(MRC_QP_CC_PROFILE_ID) {
        to.profile.cc_profile_id = from.profile.cc_profile_id;
    }
    if has(MRC_QP_HINT) {
        to.qp_hint = from.qp_hint;
    }
    if has(MRC_QP_RETRY_CNT) {
        to.retry = from.retry;
    }
    if has(MRC_QP_CAP) {
        to.cap = from.cap;
    }
    if has(MRC_QP_VENDOR_CFG) {
        to.vendor_cfg = from.vendor_cfg;
    }
}
