//! Finding and opening the device.

use crate::call::{Errno, Verbs, borrow, caught, code, or_null, put, set_errno, zero_or_minus};
use crate::fd::FdQueue;
use crate::node::{Node, QpEvent, configured};
use crate::verbs::{IBV_NODE_CA, IBV_TRANSPORT_IB, ibv_context, ibv_device, ibv_device_attr};
use control::host::{COMPLETIONS_MAX, DeviceFile};
use dataplane::memory::REGIONS_MAX;
use dataplane::nic::QPS_MAX;
use dataplane::transport::SEND_QUEUE_MAX;
use std::ffi::{c_char, c_int};
use std::net::IpAddr;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Things of one kind at most, where nothing but memory limits them.
const MANY: c_int = 1 << 16;

/// The device, as C has it, and what it is.
#[repr(C)]
struct Listed {
    ibv: ibv_device,
    file: Arc<DeviceFile>,
}

/// The address of the device, which stays for as long as the process does.
struct Place(*mut Listed);

// SAFETY: what is there is never written again, and its parts may be read by any thread.
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

/// An open device, as C has it, and the NIC.
#[repr(C)]
pub(crate) struct Open {
    ibv: ibv_context,
    pub(crate) node: Arc<Node>,
    /// Events of its QPs, under its `async_fd`.
    pub(crate) events: Arc<FdQueue<QpEvent>>,
    /// Protection domains and MRC contexts that it has.
    pub(crate) uses: AtomicUsize,
}

fn copy_name(to: &mut [c_char], text: &str) {
    let room = to.len() - 1;
    for (to, byte) in to.iter_mut().zip(text.bytes().take(room)) {
        *to = byte as c_char;
    }
}

fn listed() -> Result<*mut Listed, Errno> {
    static DEVICE: OnceLock<Place> = OnceLock::new();
    if let Some(place) = DEVICE.get() {
        return Ok(place.0);
    }
    let file = configured()?;
    let place = DEVICE.get_or_init(|| {
        let mut ibv = ibv_device { node_type: IBV_NODE_CA, transport_type: IBV_TRANSPORT_IB, ..ibv_device::default() };
        copy_name(&mut ibv.name, &file.spec.name);
        copy_name(&mut ibv.dev_name, &file.spec.name);
        Place(Box::into_raw(Box::new(Listed { ibv, file: Arc::new(file) })))
    });
    Ok(place.0)
}

/// The device of the file that `MRCNIC_CONFIG` names: an array of one, and a NULL. NULL with errno EINVAL where the file is wrong.
///
/// # Safety
/// `num_devices` is NULL or room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *mut ibv_device {
    let list = or_null(|| {
        let device = listed()?;
        // SAFETY: asks for memory, zeroed: the second entry is the NULL.
        let list: *mut *mut ibv_device = unsafe { libc::calloc(2, size_of::<*mut ibv_device>()) }.cast();
        // SAFETY: the room is there, or NULL.
        unsafe { put(list, device.cast()) }.map_err(|_| libc::ENOMEM)?;
        Ok(list)
    });
    // SAFETY: as the caller says.
    let _ = unsafe { put(num_devices, c_int::from(!list.is_null())) };
    list
}

/// Gives a list back. Devices that are open stay.
///
/// # Safety
/// `list` is NULL, or came from [`ibv_get_device_list`] and was not given back yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    // SAFETY: it was allocated there.
    unsafe { libc::free(list.cast()) };
}

/// The device's name; NULL for none.
///
/// # Safety
/// `device` is NULL or from a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    // SAFETY: as the caller says; devices stay for as long as the process does.
    match unsafe { borrow(device) } {
        Ok(device) => device.name.as_ptr(),
        Err(errno) => {
            set_errno(errno);
            ptr::null()
        }
    }
}

/// A number of the device's own, in network order: of its Ethernet address where the file has one, else of its IP address.
fn guid(file: &DeviceFile) -> u64 {
    let bytes = match (file.mac, file.ip) {
        (Some(mac), _) => {
            let [a, b, c, d, e, f] = mac.0;
            [a ^ 2, b, c, 0xFF, 0xFE, d, e, f]
        }
        (None, IpAddr::V4(ip)) => {
            let [a, b, c, d] = ip.octets();
            [2, 0, 0, 0xFF, a, b, c, d]
        }
        (None, IpAddr::V6(ip)) => {
            let [.., a, b, c, d, e, f, g, h] = ip.octets();
            [a, b, c, d, e, f, g, h]
        }
    };
    u64::from_ne_bytes(bytes)
}

/// The device's number, in network order; 0 for none.
///
/// # Safety
/// `device` is NULL or from a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_guid(device: *mut ibv_device) -> u64 {
    // SAFETY: as the caller says: what it names is `Listed`, which begins with it.
    unsafe { borrow(device.cast::<Listed>()) }.map_or(0, |device| guid(&device.file))
}

/// Opens the device: the NIC comes up if it is not yet. NULL with errno: EINVAL for none, ENODEV where it can't be brought up.
///
/// # Safety
/// `device` is NULL or from a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    or_null(|| {
        // SAFETY: as the caller says: what it names is `Listed`, which begins with it.
        let listed = unsafe { borrow(device.cast::<Listed>()) }?;
        let events = Arc::new(FdQueue::new()?);
        let node = Node::open(&listed.file)?;
        let ibv = ibv_context {
            device,
            cmd_fd: -1,
            async_fd: events.fd(),
            num_comp_vectors: 1,
            // No extensions: the inline functions of the header call the plain ones then.
            abi_compat: ptr::null_mut(),
            ..ibv_context::default()
        };
        Ok(Box::into_raw(Box::new(Open { ibv, node, events, uses: AtomicUsize::new(0) })).cast())
    })
}

/// Borrows an open device.
///
/// # Safety
/// `context` is NULL, or open for as long as what comes out is used.
pub(crate) unsafe fn open<'a>(context: Verbs) -> Result<&'a Open, Errno> {
    // SAFETY: what it names is `Open`, which begins with it.
    unsafe { borrow(context.cast::<Open>()) }
}

/// Closes an open device; the NIC goes down with the last. -1 with errno: EINVAL for none, EBUSY while it has protection domains or MRC contexts.
///
/// # Safety
/// `context` is NULL or an open device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    zero_or_minus(|| {
        // SAFETY: as the caller says.
        if unsafe { open(context) }?.uses.load(Ordering::Acquire) > 0 {
            return Err(libc::EBUSY);
        }
        // SAFETY: it was made by `ibv_open_device`, and nothing refers to it any more.
        let Open { node, .. } = *unsafe { Box::from_raw(context.cast::<Open>()) };
        Node::close(node);
        Ok(())
    })
}

/// What the device can do. EINVAL for none.
///
/// # Safety
/// `context` is NULL or an open device, and `device_attr` NULL or room for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_device(context: *mut ibv_context, device_attr: *mut ibv_device_attr) -> c_int {
    code(|| {
        // SAFETY: as the caller says.
        let open = unsafe { open(context) }?;
        let mut attr = ibv_device_attr {
            node_guid: guid(&open.node.file),
            sys_image_guid: guid(&open.node.file),
            max_mr_size: u64::MAX >> 1,
            page_size_cap: 4096,
            max_qp: QPS_MAX as c_int,
            max_qp_wr: SEND_QUEUE_MAX as c_int,
            max_sge: 1,
            max_cq: MANY,
            max_cqe: COMPLETIONS_MAX as c_int,
            max_mr: REGIONS_MAX as c_int,
            max_pd: MANY,
            max_pkeys: 1,
            phys_port_cnt: open.node.device.ports().len() as u8,
            ..ibv_device_attr::default()
        };
        copy_name(&mut attr.fw_ver, env!("CARGO_PKG_VERSION"));
        // SAFETY: as the caller says.
        unsafe { put(device_attr, attr) }
    })
}

/// Counts one more user of `uses`, and one less when it goes without [`Use::keep`].
pub(crate) struct Use<'a>(Option<&'a AtomicUsize>);

impl<'a> Use<'a> {
    pub(crate) fn of(uses: &'a AtomicUsize) -> Use<'a> {
        uses.fetch_add(1, Ordering::AcqRel);
        Use(Some(uses))
    }

    /// The user is there to stay.
    pub(crate) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Use<'_> {
    fn drop(&mut self) {
        if let Some(uses) = self.0 {
            uses.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Whether the address is that of an open device's part: for functions that return nothing.
pub(crate) fn quietly(work: impl FnOnce() -> Result<(), Errno>) {
    let _ = caught(work);
}
