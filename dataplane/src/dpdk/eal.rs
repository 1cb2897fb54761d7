//! Starting DPDK.

use core::ffi::{CStr, c_char, c_int};
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dpdk_sys as sys;

use super::error::{Error, rte_errno, strerror};
use super::log::capture_all;
use super::port::PortConfig;

/// Memory that DPDK gets when nothing is said: enough for two ports with the default buffers.
const DEFAULT_MIB: usize = 512;

/// What DPDK takes for itself, and the room it needs to find large pieces.
const OWN_MIB: usize = 64;

/// Where DPDK's buffers live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// Hugepages if hugetlbfs is mounted, has enough free pages and this user may write there; else ordinary pages.
    #[default]
    Auto,
    /// Ordinary pages, so many MiB. Needs no privilege and no preparation.
    NoHuge {
        /// Size in MiB.
        mib: usize,
    },
    /// Hugepages, or an error.
    Huge,
}

/// How DPDK is to start. The default suits everything but PCI devices.
#[derive(Clone, Debug, Default)]
pub struct EalOptions {
    /// Where buffers live.
    pub memory: Memory,
    /// What the ports will need in bytes ([`PortConfig::memory`], summed): sizes the memory of [`Memory::Auto`], which
    /// has 512 MiB at least.
    pub need: usize,
    /// Two processes with one prefix can't run at once; `None` makes one from the process id.
    pub file_prefix: Option<String>,
    /// PCI devices that DPDK may touch. Empty: the PCI bus is left alone.
    pub pci: Vec<String>,
    /// Further arguments for `rte_eal_init`, as they are.
    pub extra: Vec<String>,
}

impl EalOptions {
    /// Options with memory for `ports` ports of the given configuration.
    #[must_use]
    pub fn for_ports(ports: usize, config: &PortConfig) -> EalOptions {
        EalOptions { need: ports * config.memory(), ..EalOptions::default() }
    }

    fn need_mib(&self) -> usize {
        (self.need.div_ceil(1 << 20) + OWN_MIB).max(DEFAULT_MIB)
    }

    fn arguments(&self, core: usize) -> Result<Vec<String>, Error> {
        let mut args = vec!["mrcnic".to_owned()];
        // One lcore, for the thread that calls: workers are threads of ours, registered one by one.
        args.push(format!("--lcores=0@{core}"));
        args.push("--no-shconf".into());
        args.push("--no-telemetry".into());
        args.push(format!("--file-prefix={}", self.prefix()));
        let no_huge = match self.memory {
            Memory::NoHuge { mib } => Some(mib),
            Memory::Huge => match hugepages(self.need_mib()) {
                Ok(()) => None,
                Err(why) => return Err(Error::NoHugepages { why }),
            },
            Memory::Auto => hugepages(self.need_mib()).is_err().then(|| self.need_mib()),
        };
        match no_huge {
            Some(mib) => args.extend(["--no-huge".into(), "-m".into(), mib.to_string()]),
            // So that a process that is killed leaves no pages behind.
            None => args.push("--huge-unlink".into()),
        }
        if self.pci.is_empty() {
            args.push("--no-pci".into());
        }
        for address in &self.pci {
            args.extend(["-a".into(), address.clone()]);
        }
        args.extend(self.extra.iter().cloned());
        Ok(args)
    }

    fn prefix(&self) -> String {
        self.file_prefix.clone().unwrap_or_else(|| format!("mrcnic-{}", std::process::id()))
    }
}

/// DPDK is up, and stays so until the process ends. Clones are the same; ports keep one.
#[derive(Clone, Debug)]
pub struct Eal {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    cores: Vec<usize>,
    runtime: PathBuf,
}

static STARTED: AtomicBool = AtomicBool::new(false);

impl Eal {
    /// Starts DPDK. It may be done once in a process, whatever came of it.
    ///
    /// The calling thread keeps its CPU affinity. While this runs, what the process writes on standard output and
    /// error is kept away from them: DPDK prints there.
    ///
    /// # Errors
    /// [`Error::EalTwice`], [`Error::NoHugepages`], or [`Error::EalInit`] with DPDK's own words.
    pub fn init(options: &EalOptions) -> Result<Eal, Error> {
        let affinity = Affinity::of_this_thread();
        let cores = affinity.cores();
        let args = options.arguments(cores.first().copied().unwrap_or(0))?;
        let owned = args
            .iter()
            .map(|arg| CString::new(arg.as_str()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| Error::EalInit { why: "an argument has a zero byte".into(), said: Default::default() })?;
        if STARTED.swap(true, Ordering::SeqCst) {
            return Err(Error::EalTwice);
        }
        let mut argv: Vec<*mut c_char> = owned.iter().map(|arg| arg.as_ptr().cast_mut()).collect();
        argv.push(core::ptr::null_mut());
        let argc = c_int::try_from(owned.len()).unwrap_or(c_int::MAX);
        // SAFETY: argv holds argc strings and a null; DPDK permutes the array and copies what it keeps.
        let (code, said) = capture_all(|| unsafe { sys::rte_eal_init(argc, argv.as_mut_ptr()) });
        let errno = rte_errno();
        affinity.restore();
        let runtime = runtime_dir().join(options.prefix());
        if code < 0 {
            let _ = std::fs::remove_dir_all(&runtime);
            let why = match errno {
                libc::EALREADY => return Err(Error::EalTwice),
                libc::ENOMEM => format!("it got no memory (arguments: {})", args[1..].join(" ")),
                libc::EACCES | libc::EPERM => {
                    "not permitted; run without hugepages and PCI devices, or as root".to_owned()
                }
                errno => format!("{} (arguments: {})", strerror(errno), args[1..].join(" ")),
            };
            return Err(Error::EalInit { why, said });
        }
        Ok(Eal { inner: Arc::new(Inner { cores, runtime }) })
    }

    /// DPDK's name and version, such as `DPDK 22.11.7`. Needs no start.
    #[must_use]
    pub fn version() -> String {
        // SAFETY: returns a string that lives as long as the program.
        unsafe { CStr::from_ptr(sys::rte_version()) }.to_string_lossy().into_owned()
    }

    /// The CPU cores that this process may run on, in order, as the operating system numbers them.
    #[must_use]
    pub fn cores(&self) -> &[usize] {
        &self.inner.cores
    }

    /// Checks that a worker may be pinned to `core`.
    ///
    /// # Errors
    /// [`Error::NoCore`].
    pub fn check_core(&self, core: usize) -> Result<(), Error> {
        if self.inner.cores.contains(&core) {
            return Ok(());
        }
        let available = self.inner.cores.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        Err(Error::NoCore { core, available })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // No rte_eal_cleanup: it unmaps the memory while DPDK's own threads still use it (net_memif then crashes now and
        // then), and the end of the process does all that it would do. But DPDK leaves its directory behind, and one for
        // each process id would pile up.
        let _ = std::fs::remove_dir_all(&self.runtime);
    }
}

fn runtime_dir() -> PathBuf {
    // As DPDK chooses it.
    // SAFETY: no precondition.
    if unsafe { libc::getuid() } == 0 {
        return PathBuf::from("/var/run/dpdk");
    }
    PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR").unwrap_or_else(|| "/tmp".into())).join("dpdk")
}

/// Whether `mib` of hugepages can be had, else why not.
fn hugepages(mib: usize) -> Result<(), String> {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mut mounted = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (dir, kind) = (words.next()?, words.next()?);
        (kind == "hugetlbfs").then_some(dir)
    });
    let Some(dir) = mounted.next() else { return Err("hugetlbfs is not mounted".into()) };
    if !core::iter::once(dir).chain(mounted).any(writable) {
        return Err(format!("this user may not write to hugetlbfs ({dir})"));
    }
    let free = free_hugepages(Path::new("/sys/kernel/mm/hugepages"));
    if free >> 20 < mib {
        return Err(format!("{} MiB of hugepages are free, {mib} MiB are needed", free >> 20));
    }
    Ok(())
}

fn writable(dir: &str) -> bool {
    CString::new(dir).is_ok_and(|dir| {
        // SAFETY: the path is a C string.
        unsafe { libc::access(dir.as_ptr(), libc::W_OK | libc::X_OK) == 0 }
    })
}

fn free_hugepages(sysfs: &Path) -> usize {
    let sizes = std::fs::read_dir(sysfs).into_iter().flatten().flatten();
    sizes
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let kib: usize = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let free: usize = std::fs::read_to_string(entry.path().join("free_hugepages")).ok()?.trim().parse().ok()?;
            Some(free * (kib << 10))
        })
        .sum()
}

/// The cores that a thread may run on: `rte_eal_init` narrows them to one.
struct Affinity(libc::cpu_set_t);

impl Affinity {
    fn of_this_thread() -> Affinity {
        // SAFETY: cpu_set_t is plain bits, and the size given is its own.
        unsafe {
            let mut set: libc::cpu_set_t = core::mem::zeroed();
            libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
            Affinity(set)
        }
    }

    fn cores(&self) -> Vec<usize> {
        // SAFETY: the index is within the set.
        (0..libc::CPU_SETSIZE as usize).filter(|core| unsafe { libc::CPU_ISSET(*core, &self.0) }).collect()
    }

    fn restore(&self) {
        // SAFETY: as above.
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_keep_away_from_pci_unless_devices_are_named() {
        let none = EalOptions { memory: Memory::NoHuge { mib: 300 }, ..EalOptions::default() };
        let args = none.arguments(3).expect("no hugepages asked for");
        assert!(args.contains(&"--no-pci".to_owned()) && args.contains(&"--lcores=0@3".to_owned()));
        assert!(args.windows(2).any(|pair| pair == ["-m", "300"]));
        let one = EalOptions { pci: vec!["0000:3b:00.0".into()], ..none };
        let args = one.arguments(0).expect("no hugepages asked for");
        assert!(!args.contains(&"--no-pci".to_owned()) && args.contains(&"0000:3b:00.0".to_owned()));
    }

    #[test]
    fn memory_grows_with_the_need_and_has_a_floor() {
        assert_eq!(EalOptions::default().need_mib(), 512);
        assert_eq!(EalOptions::for_ports(2, &PortConfig::default()).need_mib(), 512);
        assert!(EalOptions::for_ports(16, &PortConfig::default()).need_mib() > 512);
        assert_eq!(EalOptions { need: 1 << 30, ..EalOptions::default() }.need_mib(), 1024 + 64);
    }
}
