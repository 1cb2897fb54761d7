//! What the calling thread may do.

use crate::call::Errno;

/// Version 3 of the system call's structures: 64 capabilities, in two halves.
const VERSION_3: u32 = 0x2008_0522;
/// CAP_NET_ADMIN, among the lower ones.
const NET_ADMIN: u32 = 12;

/// Half of the capabilities, as the system call tells them.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Half {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// EPERM unless the calling thread has the effective capability CAP_NET_ADMIN, in its user namespace.
pub(crate) fn net_admin() -> Result<(), Errno> {
    // 0 is the calling thread.
    let mut header = [VERSION_3, 0];
    let mut halves = [Half::default(); 2];
    // SAFETY: the header is two numbers of 32 bits, and there is room for both halves that version 3 has.
    let told = unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), halves.as_mut_ptr()) };
    if told == 0 && halves[0].effective >> NET_ADMIN & 1 == 1 { Ok(()) } else { Err(libc::EPERM) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_says_the_same_of_this_thread() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
        let effective = u64::from_str_radix(line.trim(), 16).unwrap();
        assert_eq!(net_admin().is_ok(), effective >> NET_ADMIN & 1 == 1);
    }
}
