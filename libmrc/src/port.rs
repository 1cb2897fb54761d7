//! Ports and their addresses.

use crate::call::{Errno, code, or_minus, put, zero_or_minus};
use crate::device::{Open, open};
use crate::verbs::{
    IBV_GID_TYPE_ROCE_V2, IBV_LINK_LAYER_ETHERNET, IBV_MTU_256, IBV_MTU_512, IBV_MTU_1024, IBV_MTU_2048, IBV_MTU_4096,
    IBV_PORT_ACTIVE, IBV_PORT_DOWN, ibv_context, ibv_gid, ibv_gid_entry, ibv_mtu, ibv_port_attr,
};
use control::controller::PortReport;
use dataplane::transport::MESSAGE_MAX;
use std::ffi::c_int;
use std::net::{IpAddr, Ipv6Addr};

/// The NIC's address stands at so many places of the table: programs take the fourth by habit, which is RoCE v2 over IPv4 on other NICs.
pub(crate) const GIDS: u32 = 4;
/// Bytes of the port's attributes that programs of any age have room for: up to the link layer.
const PORT_ATTR_OLD: usize = std::mem::offset_of!(ibv_port_attr, link_layer) + 1;
const PHYS_LINK_UP: u8 = 5;
const PHYS_DISABLED: u8 = 3;

/// An address as a GID.
pub(crate) fn gid(ip: IpAddr) -> ibv_gid {
    let raw = match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    ibv_gid { raw }
}

/// The address that a GID is.
pub(crate) fn ip(gid: &ibv_gid) -> IpAddr {
    // SAFETY: all bytes of the union are those of `raw`.
    let ip = Ipv6Addr::from(unsafe { gid.raw });
    ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4)
}

/// The largest MTU whose payload is that of an MSS.
pub(crate) const fn mtu(mss: u32) -> ibv_mtu {
    match mss {
        4096.. => IBV_MTU_4096,
        2048.. => IBV_MTU_2048,
        1024.. => IBV_MTU_1024,
        512.. => IBV_MTU_512,
        _ => IBV_MTU_256,
    }
}

/// Whether there is such a port, from 1.
pub(crate) fn has_port(open: &Open, port: u32) -> bool {
    port >= 1 && port as usize <= open.node.device.ports().len()
}

/// What a port is. EINVAL for none.
///
/// # Safety
/// `context` is NULL or an open device, and `port_attr` NULL or room for the answer: that of `struct ibv_port_attr`, at least up to its link layer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port(
    context: *mut ibv_context,
    port_num: u8,
    port_attr: *mut ibv_port_attr,
) -> c_int {
    code(|| {
        // SAFETY: as the caller says.
        let open = unsafe { open(context) }?;
        if port_attr.is_null() || !has_port(open, port_num.into()) {
            return Err(libc::EINVAL);
        }
        let mtu = mtu(open.node.device.params().transport.mss);
        let up = report(open, port_num).is_some_and(|port| port.in_use);
        let attr = ibv_port_attr {
            state: if up { IBV_PORT_ACTIVE } else { IBV_PORT_DOWN },
            phys_state: if up { PHYS_LINK_UP } else { PHYS_DISABLED },
            max_mtu: mtu,
            active_mtu: mtu,
            gid_tbl_len: GIDS as c_int,
            max_msg_sz: MESSAGE_MAX,
            pkey_tbl_len: 1,
            max_vl_num: 1,
            active_width: 2,
            active_speed: 32,
            link_layer: IBV_LINK_LAYER_ETHERNET as u8,
            ..ibv_port_attr::default()
        };
        // SAFETY: there is room for so many bytes, as the caller says; the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping((&raw const attr).cast::<u8>(), port_attr.cast(), PORT_ATTR_OLD) };
        Ok(())
    })
}

/// What the control thread says of a port, from 1.
pub(crate) fn report(open: &Open, port: u8) -> Option<PortReport> {
    let report = open.node.device.operator()?.survey(None, false, false).ok()?;
    report.nics.first()?.ports.iter().find(|of| of.port == port).copied()
}

/// The NIC's address as a GID: the same at each of four places, on each port. -1 with errno EINVAL for no such place.
///
/// # Safety
/// `context` is NULL or an open device, and `gid` NULL or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_gid(
    context: *mut ibv_context,
    port_num: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    zero_or_minus(|| {
        // SAFETY: as the caller says.
        let open = unsafe { open(context) }?;
        if !has_port(open, port_num.into()) || !(0..GIDS as c_int).contains(&index) {
            return Err(libc::EINVAL);
        }
        // SAFETY: as the caller says.
        unsafe { put(gid, self::gid(open.node.file.ip)) }
    })
}

fn entry(open: &Open, port: u32, index: u32) -> ibv_gid_entry {
    ibv_gid_entry {
        gid: gid(open.node.file.ip),
        gid_index: index,
        port_num: port,
        gid_type: IBV_GID_TYPE_ROCE_V2,
        ndev_ifindex: 0,
    }
}

/// A place of the table, with its type: what `ibv_query_gid_ex` of the header calls. EINVAL for no such port, EOPNOTSUPP for flags, ENODATA for no
/// such place.
///
/// # Safety
/// `context` is NULL or an open device, and `entry` NULL or room for `entry_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_ex(
    context: *mut ibv_context,
    port_num: u32,
    gid_index: u32,
    entry: *mut ibv_gid_entry,
    flags: u32,
    entry_size: usize,
) -> c_int {
    code(|| {
        // SAFETY: as the caller says.
        let open = unsafe { open(context) }?;
        if !has_port(open, port_num) || entry_size < size_of::<ibv_gid_entry>() {
            return Err(libc::EINVAL);
        }
        if flags != 0 {
            return Err(libc::EOPNOTSUPP);
        }
        if gid_index >= GIDS {
            return Err(libc::ENODATA);
        }
        // SAFETY: there is room, as the size says.
        unsafe { put(entry, self::entry(open, port_num, gid_index)) }
    })
}

fn table(
    open: &Open,
    entries: *mut ibv_gid_entry,
    max_entries: usize,
    flags: u32,
    entry_size: usize,
) -> Result<c_int, Errno> {
    if entries.is_null() || entry_size < size_of::<ibv_gid_entry>() {
        return Err(libc::EINVAL);
    }
    if flags != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    let ports = open.node.device.ports().len() as u32;
    let all = (1..=ports).flat_map(|port| (0..GIDS).map(move |index| (port, index)));
    if all.clone().count() > max_entries {
        return Err(libc::EINVAL);
    }
    let mut count = 0;
    for (port, index) in all {
        // SAFETY: `max_entries` of `entry_size` bytes each are there, as the caller of the function says.
        let to = unsafe { entries.byte_add(count * entry_size) };
        // SAFETY: as above.
        unsafe { put(to, entry(open, port, index)) }?;
        count += 1;
    }
    Ok(count as c_int)
}

/// All places of the table: how many, or the negative number of an error, EINVAL or EOPNOTSUPP. What `ibv_query_gid_table` of the header calls.
///
/// # Safety
/// `context` is NULL or an open device, and `entries` NULL or room for `max_entries` of `entry_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    max_entries: usize,
    flags: u32,
    entry_size: usize,
) -> isize {
    let mut failed = 0;
    let count = or_minus(|| {
        // SAFETY: as the caller says.
        let open = unsafe { open(context) };
        open.and_then(|open| table(open, entries, max_entries, flags, entry_size)).inspect_err(|errno| failed = *errno)
    });
    if failed == 0 { count as isize } else { -failed as isize }
}
