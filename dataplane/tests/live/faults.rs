//! What users do wrong, and what they are told.

use std::fs::File;

use dataplane::dpdk::{Eal, EalOptions, Error, Memory, Port, PortConfig, PortSpec};

use crate::{eal, is_root, live, open, scratch, small};

/// Opens a port that can't be opened.
fn refused(eal: &Eal, spec: &str) -> Error {
    let e = Port::open(eal, &spec.parse().expect("reads as a port"), &small()).expect_err(spec);
    println!("{e}");
    assert!(e.to_string().contains(spec.split(',').next().expect("a name")), "{e}");
    assert!(!e.to_string().contains('\n'), "one line: {e}");
    e
}

/// What this process printed while `run` ran, by file descriptor.
#[allow(unsafe_code)]
fn printed(run: impl FnOnce()) -> String {
    use std::io::Read;
    use std::os::fd::AsRawFd;
    let path = scratch("printed");
    let file = File::create(&path).expect("a scratch file");
    // SAFETY: plain calls on open descriptors; nothing else runs in this process.
    unsafe {
        let saved = [libc::dup(1), libc::dup(2)];
        libc::dup2(file.as_raw_fd(), 1);
        libc::dup2(file.as_raw_fd(), 2);
        run();
        libc::fflush(std::ptr::null_mut());
        libc::dup2(saved[0], 1);
        libc::dup2(saved[1], 2);
    }
    let mut text = String::new();
    File::open(&path).expect("the same").read_to_string(&mut text).expect("text");
    let _ = std::fs::remove_file(path);
    text
}

live! {
    fn dpdk_starts_once_and_says_so_the_second_time() {
        let eal = eal();
        assert!(matches!(Eal::init(&EalOptions::default()), Err(Error::EalTwice)));
        drop(eal);
        let e = Eal::init(&EalOptions::default()).expect_err("not after its end either");
        assert!(matches!(e, Error::EalTwice) && e.to_string().contains("already started"), "{e}");
    }

    fn a_success_prints_nothing_and_leaves_nothing_behind() {
        let said = printed(|| {
            let eal = Eal::init(&EalOptions::default()).expect("DPDK starts");
            let _port = open(&eal, "net_null0", &PortConfig::default());
            let _pair = Port::ring_pair(&eal, 1_024, &PortConfig::default()).expect("a pair");
        });
        assert_eq!(said, "");
        let left = std::fs::read_dir("/var/run/dpdk").into_iter().flatten().flatten();
        let mine = format!("mrcnic-{}", std::process::id());
        assert!(left.into_iter().all(|entry| entry.file_name() != mine.as_str()));
    }

    fn arguments_that_dpdk_refuses_are_quoted_and_nothing_is_printed() {
        let said = printed(|| {
            let options = EalOptions { extra: vec!["--no-such-thing".into()], ..EalOptions::default() };
            let e = Eal::init(&options).expect_err("no such argument");
            assert!(e.to_string().contains("no-such-thing"), "{e}");
        });
        assert_eq!(said, "");
    }

    fn hugepages_that_are_not_there_are_an_error_when_asked_for() {
        match Eal::init(&EalOptions { memory: Memory::Huge, need: 1 << 50, ..EalOptions::default() }) {
            Err(Error::NoHugepages { why }) => assert!(!why.is_empty()),
            other => panic!("{other:?}"),
        }
        // Nothing was started by that.
        eal();
    }

    fn the_calling_thread_keeps_its_cores() {
        let before = std::thread::available_parallelism().expect("a count");
        let eal = eal();
        assert_eq!(std::thread::available_parallelism().expect("a count"), before);
        assert_eq!(eal.cores().len(), before.get());
        assert!(eal.check_core(eal.cores()[0]).is_ok());
        let e = eal.check_core(1_000_000).expect_err("no such core");
        assert!(matches!(e, Error::NoCore { .. }) && e.is_usage() && e.to_string().contains("1000000"), "{e}");
        assert!(Eal::version().starts_with("DPDK "));
    }

    fn a_driver_that_does_not_exist_is_named() {
        let eal = eal();
        let e = refused(&eal, "net_nosuch0,a=b");
        assert!(matches!(&e, Error::NoDriver { name, .. } if name == "net_nosuch0") && e.is_usage(), "{e:?}");
        open(&eal, "net_null0", &small());
    }

    fn arguments_that_a_driver_refuses_are_an_error_of_usage() {
        let eal = eal();
        for spec in [
            "net_null0,nosuch=1",
            "net_memif0,role=king",
            "net_memif0,rsize=99",
            "net_pcap0,nosuch=1",
            "net_pcap0",
        ] {
            let e = refused(&eal, spec);
            assert!(matches!(e, Error::BadDevice { .. }) && e.is_usage(), "{e:?}");
        }
        // A name that failed is free again.
        let _taken = open(&eal, "net_null0", &small());
        let e = refused(&eal, "net_null0");
        assert!(matches!(e, Error::Duplicate { .. }), "{e:?}");
    }

    fn an_interface_that_is_not_there_is_named() {
        let eal = eal();
        for spec in ["net_af_packet0,iface=mrcnothere", "net_pcap0,iface=mrcnothere", "net_af_packet0,iface=a-very-long-name"] {
            let e = refused(&eal, spec);
            assert!(matches!(e, Error::NoInterface { .. }) && e.is_usage(), "{e:?}");
        }
        assert!(matches!(refused(&eal, "net_af_packet0"), Error::BadSpec { .. }));
    }

    fn captures_that_can_not_be_read_are_named() {
        let eal = eal();
        let e = refused(&eal, "net_pcap0,rx_pcap=/no/such/file.pcap");
        assert!(matches!(&e, Error::File { path, .. } if path == "/no/such/file.pcap") && e.is_usage(), "{e:?}");
        let (empty, garbage) = (scratch("empty.pcap"), scratch("garbage.pcap"));
        File::create(&empty).expect("a scratch file");
        assert!(matches!(PortSpec::pcap(0, Some(&empty), None), Err(Error::File { .. })));
        let e = refused(&eal, &format!("net_pcap0,rx_pcap={}", empty.display()));
        assert!(e.to_string().contains("empty"), "{e}");
        std::fs::write(&garbage, [7; 100]).expect("a scratch file");
        let e = refused(&eal, &format!("net_pcap0,rx_pcap={}", garbage.display()));
        assert!(e.is_usage(), "{e:?}");
        let _ = (std::fs::remove_file(empty), std::fs::remove_file(garbage));
        let e = refused(&eal, "net_pcap0,tx_pcap=/no/such/file.pcap");
        assert!(matches!(e, Error::File { .. }), "{e:?}");
    }

    fn a_pci_device_that_is_not_there_is_named() {
        let eal = eal();
        let e = refused(&eal, "0000:ff:1f.7");
        assert!(matches!(e, Error::NoPci { .. }) && e.is_usage(), "{e:?}");
    }

    fn more_queues_than_a_port_has_are_an_error() {
        let eal = eal();
        let config = PortConfig { queues: 2, ..small() };
        let file = scratch("one-queue.pcap");
        let spec = PortSpec::pcap(0, None, Some(&file)).expect("a scratch file");
        let e = Port::open(&eal, &spec, &config).expect_err("one queue");
        assert!(matches!(e, Error::Queues { asked: 2, .. }) && e.is_usage(), "{e:?}");
        let _ = std::fs::remove_file(file);
    }

    fn want_of_memory_is_told_with_its_size() {
        let eal = eal();
        let e = Port::open(&eal, &"net_null0".parse().expect("a port"), &PortConfig { large: 65_535, ..small() })
            .expect_err("512 MiB of buffers in 256");
        assert!(matches!(e, Error::NoMemory { mib: 500..600, .. }) && !e.is_usage(), "{e:?}");
        println!("{e}");
        open(&eal, "net_null0", &small());
    }

    fn without_root_everything_but_interfaces_works() {
        if !is_root() {
            println!("not root anyway");
        }
        #[allow(unsafe_code)]
        // SAFETY: nothing else runs in this process. Without the right to change it, we are somebody else already.
        unsafe {
            libc::setgid(65_534);
            libc::setuid(65_534);
        }
        let eal = Eal::init(&EalOptions::default()).expect("DPDK starts");
        open(&eal, "net_null0", &small());
        open(&eal, "net_memif0,role=server,socket=@mrcnic-test-nobody", &small());
        drop(Port::ring_pair(&eal, 1_024, &small()).expect("a pair"));
        let e = refused(&eal, "net_af_packet0,iface=lo");
        assert!(matches!(e, Error::NoPermission { .. }) && e.to_string().contains("CAP_NET_RAW"), "{e:?}");
        if std::path::Path::new("/dev/net/tun").exists() {
            let e = refused(&eal, "net_tap0,iface=mrctapx");
            assert!(matches!(e, Error::NoPermission { .. }) && e.to_string().contains("CAP_NET_ADMIN"), "{e:?}");
        }
        assert!(!e.is_usage());
    }
}
