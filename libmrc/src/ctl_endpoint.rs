//! Of the API for controllers: endpoint operations.

use crate::call::{Errno, borrow, put, zero_or_minus};
use crate::caps::net_admin;
use crate::context::mrc_context;
use crate::ctl_abi::{
    MRC_CTL_EP_OP_EV_PROBE, MRC_CTL_EP_OP_PORT_STATUS_UPDATE, MRC_CTL_EV_MAX_BYTES, mrc_ctl_ep_req, mrc_ctl_ep_rsp,
};
use crate::ctl_format::kind_of;
use crate::node::Node;
use crate::port::ip;
use control::controller::FormatKind;
use control::host::{HostError, Question, QuestionError};
use dataplane::nic::{Endpoint, EndpointAsk, PortId};
use std::ffi::c_int;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

const fn errno(error: &QuestionError) -> Errno {
    match error {
        QuestionError::Unsupported => libc::ENOTSUP,
        QuestionError::Busy => libc::EAGAIN,
        QuestionError::Host(HostError::Gone) => libc::EIO,
        _ => libc::EINVAL,
    }
}

/// The value of an EV that travels, and its path in the outer header.
fn way(mode: u32, val: &[u8; MRC_CTL_EV_MAX_BYTES]) -> Result<(u32, Option<Ipv6Addr>), Errno> {
    let (used, way) = match kind_of(mode)? {
        FormatKind::Stev => (4, (u32::from_be_bytes([val[0], val[1], val[2], val[3]]), None)),
        FormatKind::Udp => (2, (u16::from_be_bytes([val[0], val[1]]).into(), None)),
        FormatKind::Srv6 => {
            let address: [u8; 16] = std::array::from_fn(|at| val[at]);
            // A segment of its own for the routing header: the NIC writes none.
            if val[16..].iter().any(|&byte| byte != 0) {
                return Err(libc::ENOTSUP);
            }
            // Inside, what hops that hash may tell paths by.
            let fold = |value: u32, word: &[u8]| value ^ u32::from_be_bytes([word[0], word[1], word[2], word[3]]);
            (16, (address.chunks(4).fold(0, fold), Some(Ipv6Addr::from(address))))
        }
    };
    if val[used..].iter().any(|&byte| byte != 0) { Err(libc::EINVAL) } else { Ok(way) }
}

fn question(node: &Node, req: &mrc_ctl_ep_req, dscp: u8, op_type: u32) -> Result<Question, Errno> {
    let own = node.file.ip;
    let (source, peer) = (ip(&req.sgid), ip(&req.dgid));
    // No source is the NIC's own address.
    let is_own = source == own || source == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    if !is_own || own.is_ipv4() != peer.is_ipv4() {
        return Err(libc::EINVAL);
    }
    let (ev, segment) = way(req.ev_fmt_mode, &req.req_ev.val)?;
    let port = req.req_ev.port.checked_sub(1).map(PortId).ok_or(libc::EINVAL)?;
    // An address that is nobody's is a wrong one.
    let there = node.reach(peer).map_err(|_| libc::EINVAL)?;
    let hops = there.macs();
    let mac = hops.get(usize::from(port.0)).or(hops.first()).copied().ok_or(libc::EINVAL)?;
    let ask = match op_type {
        MRC_CTL_EP_OP_EV_PROBE => EndpointAsk::EvProbe,
        MRC_CTL_EP_OP_PORT_STATUS_UPDATE => {
            // SAFETY: all bytes of the union are those of its one member, which is a number.
            let ports = unsafe { req.op.port_status_update.port_status };
            if ports & 1 != 0 {
                return Err(libc::EINVAL);
            }
            // Port N of the API, from 1, is bit N - 1 on the wire.
            EndpointAsk::PortStatus { up: ports >> 1 }
        }
        _ => return Err(libc::ENOTSUP),
    };
    let local = node.device.ports().get(usize::from(port.0)).ok_or(libc::EINVAL)?;
    let local = Endpoint { mac: node.file.mac.unwrap_or(local.mac), ip: own };
    Ok(Question { local, remote: Endpoint { mac, ip: peer }, vlan: node.file.vlan, port, ev, segment, dscp, ask })
}

/// Sends endpoint operations of one kind and waits for the answers, which come in the order of their arrival. -1 with errno: EINVAL for arguments
/// that are wrong, an address that is not reached, or the same number twice; ENOTSUP for another kind, a segment for a routing header, or a NIC
/// without endpoint operations; EAGAIN where others' operations leave no room; ENOMEM; ETIMEDOUT where not all were answered, and `num_rsp`
/// says how many were; EIO when the NIC is gone; EPERM without CAP_NET_ADMIN.
///
/// # Safety
/// `mrc_ctx` is NULL or an MRC context; `req` is NULL or so many operations, `rsp` NULL or room for as many answers, and `num_rsp` NULL or room for
/// a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_ctl_ep_batch_send_wait(
    mrc_ctx: *mut mrc_context,
    req_tc: u8,
    op_type: u32,
    req: *mut mrc_ctl_ep_req,
    num_req: c_int,
    rsp_timeout: u32,
    rsp: *mut mrc_ctl_ep_rsp,
    num_rsp: *mut c_int,
) -> c_int {
    zero_or_minus(|| {
        net_admin()?;
        // SAFETY: as the caller says.
        let context = unsafe { borrow(mrc_ctx) }?;
        let count = usize::try_from(num_req).ok().filter(|&count| count > 0).ok_or(libc::EINVAL)?;
        if req.is_null() || rsp.is_null() || num_rsp.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: as the caller says.
        unsafe { put(num_rsp, 0) }?;
        // SAFETY: as the caller says.
        let requests = unsafe { std::slice::from_raw_parts(req, count) };
        let (mut numbers, mut questions) = (Vec::new(), Vec::new());
        numbers.try_reserve_exact(count).map_err(|_| libc::ENOMEM)?;
        questions.try_reserve_exact(count).map_err(|_| libc::ENOMEM)?;
        numbers.extend(requests.iter().map(|request| request.req_id));
        numbers.sort_unstable();
        if numbers.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(libc::EINVAL);
        }
        let node = &context.open()?.node;
        for request in requests {
            questions.push(question(node, request, req_tc, op_type)?);
        }
        let timeout = Duration::from_nanos(rsp_timeout.into());
        let answers = node.device.ask_endpoints(&questions, timeout).map_err(|e| errno(&e))?;
        for (at, (place, answer)) in answers.iter().enumerate() {
            let told = mrc_ctl_ep_rsp {
                req_id: requests[*place].req_id,
                port: answer.port.0 + 1,
                rtt: u32::try_from(answer.rtt_ns).unwrap_or(u32::MAX),
                adj_svc_time: answer.adjusted.into(),
            };
            // SAFETY: there is room for as many answers as operations, as the caller says, and no more come.
            unsafe { rsp.add(at).write(told) };
        }
        // SAFETY: as the caller says.
        unsafe { put(num_rsp, answers.len() as c_int) }?;
        if answers.len() < count { Err(libc::ETIMEDOUT) } else { Ok(()) }
    })
}
