//! Protection domains and memory regions.

use crate::call::{Errno, borrow, caught, code, errno, or_null};
use crate::device::{Use, open};
use crate::verbs::{
    IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_MW_BIND, IBV_ACCESS_ON_DEMAND, IBV_ACCESS_REMOTE_ATOMIC,
    IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_ZERO_BASED, ibv_context, ibv_mr, ibv_pd,
};
use control::host::{MemoryRegion, ProtectionDomain};
use dataplane::memory::{Access, Buffer};
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// How often who takes a region back looks whether the workers have let go of it.
const LOOK: Duration = Duration::from_micros(50);

/// A protection domain, as C has it, and the NIC's.
#[repr(C)]
pub(crate) struct Pd {
    ibv: ibv_pd,
    pub(crate) domain: ProtectionDomain,
    /// Regions and QPs that it has.
    pub(crate) uses: AtomicUsize,
}

/// A region, as C has it, and the NIC's.
#[repr(C)]
struct Mr {
    ibv: ibv_mr,
    region: MemoryRegion,
}

/// Numbers of protection domains and regions, which nobody needs.
static HANDLES: AtomicU32 = AtomicU32::new(1);

/// Makes a protection domain. NULL with errno EINVAL for no device.
///
/// # Safety
/// `context` is NULL or an open device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    or_null(|| {
        // SAFETY: as the caller says.
        let open = unsafe { open(context) }?;
        let domain = open.node.device.domain();
        let ibv = ibv_pd { context, handle: HANDLES.fetch_add(1, Ordering::Relaxed) };
        Use::of(&open.uses).keep();
        Ok(Box::into_raw(Box::new(Pd { ibv, domain, uses: AtomicUsize::new(0) })).cast())
    })
}

/// Borrows a protection domain.
///
/// # Safety
/// `pd` is NULL, or there for as long as what comes out is used.
pub(crate) unsafe fn pd<'a>(pd: *mut ibv_pd) -> Result<&'a Pd, Errno> {
    // SAFETY: what it names is `Pd`, which begins with it.
    unsafe { borrow(pd.cast::<Pd>()) }
}

impl Pd {
    /// The open device that it is of.
    pub(crate) const fn context(&self) -> *mut ibv_context {
        self.ibv.context
    }
}

/// Frees a protection domain. EINVAL for none, EBUSY while it has regions or QPs.
///
/// # Safety
/// `pd` is NULL or a protection domain.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    code(|| {
        // SAFETY: as the caller says.
        let domain = unsafe { self::pd(pd) }?;
        if domain.uses.load(Ordering::Acquire) > 0 {
            return Err(libc::EBUSY);
        }
        // SAFETY: a protection domain's device is open, since it counts among its users.
        let open = unsafe { open(domain.ibv.context) }?;
        // SAFETY: it was made by `ibv_alloc_pd`, and nothing refers to it any more.
        drop(unsafe { Box::from_raw(pd.cast::<Pd>()) });
        open.uses.fetch_sub(1, Ordering::AcqRel);
        Ok(())
    })
}

/// Whether the process has all of these bytes, to be read, and with `write` to be written.
fn is_mapped(address: usize, len: usize, write: bool) -> Result<bool, Errno> {
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(|_| libc::EIO)?;
    let end = address.checked_add(len).ok_or(libc::EINVAL)?;
    let mut reached = address;
    for line in maps.lines() {
        let mut fields = line.split(' ');
        let (Some(range), Some(rights)) = (fields.next(), fields.next()) else { continue };
        let Some((from, to)) = range.split_once('-') else { continue };
        let number = |text| usize::from_str_radix(text, 16);
        let (Ok(from), Ok(to)) = (number(from), number(to)) else { continue };
        // Mappings are in the order of their addresses.
        if from <= reached && reached < to {
            if !rights.starts_with('r') || write && !rights[1..].starts_with('w') {
                return Ok(false);
            }
            reached = to;
        }
        if reached >= end {
            return Ok(true);
        }
    }
    Ok(false)
}

fn register(
    pd_ptr: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> Result<*mut ibv_mr, Errno> {
    // SAFETY: as the caller of the exported function says.
    let pd = unsafe { pd(pd_ptr) }?;
    let start = NonNull::new(addr.cast::<u8>()).ok_or(libc::EINVAL)?;
    let has = |flag: c_uint| access & flag != 0;
    let remote_write = has(IBV_ACCESS_REMOTE_WRITE);
    if length == 0 || (remote_write || has(IBV_ACCESS_REMOTE_ATOMIC)) && !has(IBV_ACCESS_LOCAL_WRITE) {
        return Err(libc::EINVAL);
    }
    if has(IBV_ACCESS_ON_DEMAND) || has(IBV_ACCESS_MW_BIND) {
        return Err(libc::EOPNOTSUPP);
    }
    if !is_mapped(addr.addr(), length, has(IBV_ACCESS_LOCAL_WRITE))? {
        return Err(libc::EFAULT);
    }
    // SAFETY: the program has this memory, as was just seen, and keeps it until the region is given back, as verbs demand. There it is waited
    // for the last reference. Rust code holds no reference to memory of a program in C.
    let buffer = unsafe { Buffer::foreign(start, length) };
    let address = if has(IBV_ACCESS_ZERO_BASED) { 0 } else { iova };
    let region = pd.domain.register(&buffer, Access { remote_write }, Some(address));
    let region = region.map_err(|e| errno(&e))?;
    let key = region.key().0;
    let handle = HANDLES.fetch_add(1, Ordering::Relaxed);
    let ibv = ibv_mr { context: pd.ibv.context, pd: pd_ptr, addr, length, handle, lkey: key, rkey: key };
    Use::of(&pd.uses).keep();
    Ok(Box::into_raw(Box::new(Mr { ibv, region })).cast())
}

/// Registers memory of the program's, which stays where it is. NULL with errno: EINVAL for no domain, no memory, or remote access without local;
/// EFAULT for memory that is not there; EOPNOTSUPP for access that there is none of; ENOMEM when there are 65,536 regions; EIO when the NIC is gone.
///
/// # Safety
/// `pd` is NULL or a protection domain, and the memory stays until the region is given back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr(pd: *mut ibv_pd, addr: *mut c_void, length: usize, access: c_int) -> *mut ibv_mr {
    or_null(|| register(pd, addr, length, addr.addr() as u64, access as c_uint))
}

/// As [`ibv_reg_mr`]; requests name the first byte by `iova`.
///
/// # Safety
/// As [`ibv_reg_mr`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    or_null(|| register(pd, addr, length, iova, access as c_uint))
}

/// As [`ibv_reg_mr_iova`]: what the header makes of the others where access has optional flags.
///
/// # Safety
/// As [`ibv_reg_mr`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    or_null(|| register(pd, addr, length, iova, access))
}

/// Gives a region back: no worker touches its memory once this returns. EINVAL for none.
///
/// # Safety
/// `mr` is NULL or a region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    code(|| {
        // SAFETY: as the caller says: what it names is `Mr`, which begins with it.
        unsafe { borrow(mr.cast::<Mr>()) }?;
        // SAFETY: it was made by `register`, and the caller gives it up.
        let Mr { ibv, region } = *unsafe { Box::from_raw(mr.cast::<Mr>()) };
        // SAFETY: a region's domain is there, since it counts among its users.
        let pd = unsafe { pd(ibv.pd) }?;
        // SAFETY: a protection domain's device is open, since it counts among its users.
        let open = unsafe { open(pd.ibv.context) }?;
        let memory = Arc::clone(region.buffer());
        drop(region);
        // Where a worker has died, what it knew of the region goes with the others, which end after the turn that they are in.
        while Arc::strong_count(&memory) > 1 && !open.node.device.has_ended() {
            std::thread::sleep(LOOK);
        }
        pd.uses.fetch_sub(1, Ordering::AcqRel);
        Ok(())
    })
}

/// For inline data, which is short: memory of the library's own in a domain.
pub(crate) fn own_region(pd: &Pd, len: usize) -> Result<MemoryRegion, Errno> {
    let buffer = Buffer::try_new(len).ok_or(libc::ENOMEM)?;
    caught(|| pd.domain.register_short(&buffer, Access::default(), None).map_err(|e| errno(&e)))
}
