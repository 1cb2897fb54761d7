//! Each of DPDK's software ports, as it behaves and not as it reports.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use dataplane::dpdk::{Error, Port, PortConfig, PortSpec, Queue};
use dataplane::nic::RxFrame;

use crate::{Lender, bytes, drain, eal, is_pattern, is_root, live, open, pattern, put, receive, scratch, small};

const LENS: [usize; 6] = [60, 74, 256, 1_514, 4_174, 4_230];

fn mtu(mtu: u16) -> PortConfig {
    PortConfig { mtu: Some(mtu), ..small() }
}

/// A capture of Ethernet frames; with time stamps in nanoseconds when `nanos`.
fn capture(path: &Path, nanos: bool, frames: &[Vec<u8>]) {
    let magic = if nanos { 0xa1b2_3c4d_u32 } else { 0xa1b2_c3d4 };
    let mut file = Vec::new();
    for word in [magic, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for (i, frame) in frames.iter().enumerate() {
        for word in [i as u32, 0, frame.len() as u32, frame.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    std::fs::write(path, file).expect("a scratch file");
}

/// The frames of a capture that [`capture`] or DPDK wrote.
fn frames_of(path: &Path) -> Vec<Vec<u8>> {
    let file = std::fs::read(path).expect("a capture");
    let mut rest = &file[24..];
    let mut frames = Vec::new();
    while rest.len() >= 16 {
        let len = u32::from_le_bytes(rest[8..12].try_into().expect("four bytes")) as usize;
        frames.push(rest[16..16 + len].to_vec());
        rest = &rest[16 + len..];
    }
    frames
}

fn ip(line: &str) {
    let done = Command::new("ip").args(line.split(' ')).status().expect("ip(8), of iproute2");
    assert!(done.success(), "ip {line}");
}

/// Moves this thread, and what it starts from now on, into a network namespace that goes away with the process.
#[allow(unsafe_code)]
fn own_network() -> bool {
    // SAFETY: changes the calling thread's network namespace and nothing else.
    let moved = is_root() && unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
    if !moved {
        println!("skipped: this needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_SYS_ADMIN");
    }
    moved
}

/// Flushes one queue and polls the other until `wanted` frames came, or ten seconds passed.
fn exchange(from: &mut Queue, to: &mut Queue, wanted: usize) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    let end = Instant::now() + Duration::from_secs(10);
    while got.len() < wanted && Instant::now() < end {
        from.tx.flush();
        let batch = to.rx.burst();
        got.extend((0..batch.len()).map(|i| bytes(&batch.frame(i).expect("a frame received"))));
        std::thread::sleep(Duration::from_micros(50));
    }
    got
}

/// Sends back what it receives until standard input ends.
fn echo(device: &str) {
    let eal = eal();
    let mut port = open(&eal, device, &small());
    let mut queue = port.take_queue(0).expect("a queue");
    let over = std::thread::spawn(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    while !over.is_finished() {
        let batch = queue.rx.burst();
        let frames: Vec<_> = (0..batch.len()).map(|i| bytes(&batch.frame(i).expect("a frame received"))).collect();
        for frame in frames {
            assert!(put(&mut queue, &frame));
        }
        queue.tx.flush();
        port.link();
        std::thread::sleep(Duration::from_micros(50));
    }
}

live! {
    fn a_null_port_receives_frames_of_64_zeros_and_swallows_what_is_sent() {
        let eal = eal();
        let mut port = open(&eal, "net_null0", &small());
        let mut queue = port.take_queue(0).expect("a queue");
        let batch = queue.rx.burst();
        assert_eq!(batch.len(), 32);
        for i in 0..32 {
            assert_eq!(bytes(&batch.frame(i).expect("a frame")), [0; 64]);
        }
        for len in LENS {
            assert!(put(&mut queue, &pattern(0, len)));
        }
        assert_eq!(drain(&mut queue), LENS.len());
        assert_eq!((port.stats().opackets, port.mtu()), (LENS.len() as u64, 4_500));
    }

    fn a_capture_is_received_whole_and_written_whole_whatever_its_name() {
        let eal = eal();
        let (rx, tx) = (scratch("in, with a comma [1].pcap"), scratch("out, too=1.pcap"));
        let frames: Vec<_> = LENS.iter().map(|len| pattern(3, *len)).collect();
        capture(&rx, false, &frames);
        let spec = PortSpec::pcap(0, Some(&rx), Some(&tx)).expect("both files can be opened");
        let mut port = Port::open(&eal, &spec, &small()).expect("a port");
        let mut queue = port.take_queue(0).expect("a queue");
        assert_eq!(receive(&mut queue, frames.len(), |_| true), frames);
        for frame in &frames {
            assert!(put(&mut queue, frame));
        }
        assert_eq!(drain(&mut queue), frames.len());
        drop((queue, port));
        assert_eq!(frames_of(&tx), frames);
        let _ = (std::fs::remove_file(rx), std::fs::remove_file(tx));
    }

    fn a_restart_begins_a_capture_again_and_is_refused_for_a_queue_of_another_port() {
        let eal = eal();
        let file = scratch("again.pcap");
        let frames: Vec<_> = LENS.iter().map(|len| pattern(4, *len)).collect();
        capture(&file, false, &frames);
        let spec = PortSpec::pcap(0, Some(&file), None).expect("the file can be opened");
        let mut port = Port::open(&eal, &spec, &small()).expect("a port");
        let mut queue = port.take_queue(0).expect("a queue");
        assert_eq!(receive(&mut queue, frames.len(), |_| true), frames);
        for _ in 0..3 {
            assert!(queue.rx.burst().is_empty());
            port.restart(&mut queue).expect("a port that can be stopped and started");
            assert_eq!(receive(&mut queue, frames.len(), |_| true), frames);
        }
        let mut other = open(&eal, "net_null0", &small());
        let e = other.restart(&mut queue).expect_err("not its queue");
        assert!(e.to_string().contains("restarting the port"), "{e}");
        let _ = std::fs::remove_file(file);
    }

    fn a_capture_with_nanoseconds_is_received() {
        let eal = eal();
        let file = scratch("nanos.pcap");
        capture(&file, true, &[pattern(1, 4_230)]);
        let spec = PortSpec::pcap(0, Some(&file), None).expect("the file can be opened");
        let mut port = Port::open(&eal, &spec, &small()).expect("a port");
        let mut queue = port.take_queue(0).expect("a queue");
        assert_eq!(receive(&mut queue, 1, |_| true), [pattern(1, 4_230)]);
        let _ = std::fs::remove_file(file);
    }

    fn a_frame_in_three_segments_is_read_whole() {
        let eal = eal();
        let file = scratch("long.pcap");
        // The head of the last is split over segments only if a buffer is shorter than HEAD_MAX; net_pcap fills each.
        let frames = [pattern(5, 9_000), pattern(6, 4_230), pattern(7, 60)];
        capture(&file, false, &frames);
        let spec = PortSpec::pcap(0, Some(&file), None).expect("the file can be opened");
        for (number, port_mtu) in [(0, 3_000), (1, 100)] {
            let spec = spec.to_string().replacen("net_pcap0", &format!("net_pcap{number}"), 1);
            let mut port = open(&eal, &spec, &mtu(port_mtu));
            let mut queue = port.take_queue(0).expect("a queue");
            let batch = queue.rx.burst();
            assert_eq!(batch.len(), frames.len());
            for (i, wanted) in frames.iter().enumerate() {
                let frame = batch.frame(i).expect("a frame");
                assert_eq!((frame.len(), frame.head()), (wanted.len(), &wanted[..wanted.len().min(256)]));
                assert!(bytes(&frame) == *wanted);
                for (at, len) in [(0, 1), (100, 200), (121, 3_000), (3_021, 2), (8_999, 5), (9_000, 1), (5, usize::MAX)] {
                    let mut got = Vec::new();
                    frame.body(at, len, |extent| got.extend(crate::copy(extent)));
                    let end = at.saturating_add(len).min(wanted.len());
                    assert!(got == wanted[at.min(end)..end], "{at} {len}");
                }
            }
        }
        let _ = std::fs::remove_file(file);
    }

    fn a_memif_keeps_frames_in_order_until_its_peer_comes() {
        let eal = eal();
        let socket = format!("@mrcnic-test-{}", std::process::id());
        let mut server = open(&eal, &format!("net_memif0,role=server,socket={socket}"), &small());
        let mut qs = server.take_queue(0).expect("a queue");
        assert_eq!(server.link(), None);
        let mut waiting = 0;
        while put(&mut qs, &pattern(waiting, 4_230)) {
            waiting += 1;
            assert_eq!(qs.tx.flush(), 0);
        }
        assert_eq!((waiting, qs.tx.waiting()), (32, 32));
        let mut client = open(&eal, &format!("net_memif1,role=client,socket={socket}"), &small());
        let mut qc = client.take_queue(0).expect("a queue");
        // The client lends the buffers, when it receives.
        assert_eq!(exchange(&mut qs, &mut qc, 32), (0..32).map(|i| pattern(i, 4_230)).collect::<Vec<_>>());
        let frames: Vec<_> = LENS.iter().map(|len| pattern(3, *len)).collect();
        for frame in &frames {
            assert!(put(&mut qc, frame));
        }
        assert_eq!(drain(&mut qc), frames.len());
        assert_eq!(receive(&mut qs, frames.len(), |_| true), frames);
    }

    fn what_waits_for_a_port_gets_a_copy_of_its_piece_when_that_is_wanted_back() {
        let eal = eal();
        let socket = format!("@mrcnic-test-{}", std::process::id());
        let mut server = open(&eal, &format!("net_memif0,role=server,socket={socket}"), &small());
        let mut qs = server.take_queue(0).expect("a queue");
        let frame = pattern(5, 4_000);
        let mut lender = Lender::new(&frame[266..]);
        for _ in 0..3 {
            assert!(lender.put(&mut qs, &frame[..266], 3_730, &frame[3_996..]) && put(&mut qs, &pattern(6, 80)));
        }
        assert_eq!((qs.tx.flush(), lender.is_out()), (0, true));
        qs.tx.copy_pieces();
        assert!(!lender.is_out());
        lender.memory.write(0, &[0; 3_734]).expect("as many bytes");
        // And one that is read where it lies, once the peer is there.
        let mut other = Lender::new(&frame[266..]);
        assert!(other.put(&mut qs, &frame[..266], 3_730, &frame[3_996..]));
        let mut client = open(&eal, &format!("net_memif1,role=client,socket={socket}"), &small());
        let mut qc = client.take_queue(0).expect("a queue");
        let small_one = pattern(6, 80);
        let wanted = [&frame, &small_one, &frame, &small_one, &frame, &small_one, &frame].map(Clone::clone);
        assert_eq!(exchange(&mut qs, &mut qc, 7), wanted);
        assert!(!other.is_out());
    }

    fn a_memif_goes_on_when_its_peer_comes_late_and_leaves_and_comes_back() {
        const ROLE: &str = "MRCNIC_TEST_MEMIF";
        if let Ok(device) = std::env::var(ROLE) {
            return echo(&device);
        }
        let eal = eal();
        for (number, (mine, other)) in [("server", "client"), ("client", "server")].into_iter().enumerate() {
            let socket = format!("@mrcnic-test-{}-{number}", std::process::id());
            let mut port = open(&eal, &format!("net_memif0,role={mine},socket={socket}"), &small());
            let mut queue = port.take_queue(0).expect("a queue");
            assert!(put(&mut queue, &pattern(0, 4_230)) && queue.tx.flush() == 0);
            for round in 0..4 {
                // The peer is a process of its own, as DPDK has it: within one, the second finds the first's socket.
                let program = std::env::current_exe().expect("a running program has a name");
                let mut peer = Command::new(program)
                    .args(std::env::args().skip(1))
                    .env(ROLE, format!("net_memif0,role={other},socket={socket}"))
                    .stdin(Stdio::piped())
                    .stdout(Stdio::null())
                    .spawn()
                    .expect("a test starts itself");
                let end = Instant::now() + Duration::from_secs(20);
                while port.link().is_none() && Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(1));
                }
                for len in LENS {
                    // The first was put before the peer came.
                    if queue.tx.waiting() == 0 {
                        assert!(put(&mut queue, &pattern(round, len)));
                    }
                    drain(&mut queue);
                    assert_eq!(receive(&mut queue, 1, |_| true).len(), 1);
                }
                // It leaves with a word, and without.
                if round % 2 == 0 {
                    drop(peer.stdin.take());
                    assert!(peer.wait().expect("a child").success());
                } else {
                    peer.kill().expect("a child");
                    peer.wait().expect("a child");
                }
                while port.link().is_some() && Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(1));
                }
                assert!(put(&mut queue, &pattern(round, 4_230)) && queue.tx.flush() == 0);
            }
        }
    }

    fn an_af_packet_port_carries_4174_bytes_over_a_veth() {
        if !own_network() {
            return;
        }
        ip("link add mrca mtu 4500 type veth peer name mrcb mtu 4500");
        ip("link set mrca up");
        ip("link set mrcb up");
        let eal = eal();
        let mut a = open(&eal, "net_af_packet0,iface=mrca", &small());
        let mut b = open(&eal, "net_af_packet1,iface=mrcb", &small());
        assert_eq!((a.mtu(), a.max_frame()), (4_500, 4_514));
        let (mut qa, mut qb) = (a.take_queue(0).expect("a queue"), b.take_queue(0).expect("a queue"));
        let lens = [60, 74, 1_514, 4_174, 4_230, a.max_frame()];
        let frames: Vec<_> = lens.iter().map(|len| pattern(3, *len)).collect();
        for _ in 0..100 {
            for frame in &frames {
                assert!(put(&mut qa, frame));
            }
            assert_eq!(drain(&mut qa), frames.len());
            assert_eq!(receive(&mut qb, frames.len(), is_pattern), frames);
        }
        assert_eq!(a.stats().oerrors, 0);
    }

    fn an_af_packet_port_takes_the_mtu_of_its_interface() {
        if !own_network() {
            return;
        }
        ip("link add mrca type veth peer name mrcb");
        let eal = eal();
        let open_with = |config| Port::open(&eal, &"net_af_packet0,iface=mrca".parse().expect("a port"), &config);
        let e = open_with(mtu(4_500)).expect_err("the interface has 1500");
        assert!(matches!(e, Error::Mtu { asked: 4_500, .. }) && e.is_usage(), "{e}");
        assert!(e.to_string().contains("ip link set mrca mtu 4500"), "{e}");
        let port = open_with(small()).expect("as much as there is");
        assert_eq!((port.mtu(), port.max_frame()), (1_500, 1_514));
        drop(port);
        ip("link set mrca mtu 4500");
        let spec = "net_af_packet0,iface=mrca,framesz=2048".parse().expect("a port");
        let e = Port::open(&eal, &spec, &mtu(4_500)).expect_err("a slot of 2 KiB");
        assert!(e.to_string().contains("framesz=2048"), "{e}");
        assert!(Port::open(&eal, &spec, &small()).expect("what the slot holds").max_frame() < 2_048);
    }

    fn a_tap_carries_1522_bytes_and_refuses_more_with_its_limit() {
        if !own_network() {
            return;
        }
        if !Path::new("/dev/net/tun").exists() {
            return println!("skipped: there is no /dev/net/tun");
        }
        let eal = eal();
        let e = Port::open(&eal, &"net_tap0,iface=mrctap".parse().expect("a port"), &mtu(1_501)).expect_err("too large");
        assert!(matches!(e, Error::Mtu { .. }) && e.to_string().contains("1522"), "{e}");
        let mut tap = open(&eal, "net_tap0,iface=mrctap", &small());
        assert_eq!((tap.mtu(), tap.max_frame()), (1_500, 1_522));
        ip("link set mrctap up");
        let mut other = open(&eal, "net_af_packet0,iface=mrctap", &small());
        let (mut qt, mut qo) = (tap.take_queue(0).expect("a queue"), other.take_queue(0).expect("a queue"));
        assert!(qt.tx.slot(1_523).is_none() && qt.tx.too_long() == 1);
        let frames: Vec<_> = [60, 74, 1_514, 1_522].map(|len| pattern(2, len)).into();
        for frame in &frames {
            assert!(put(&mut qt, frame));
        }
        assert_eq!(drain(&mut qt), 4);
        assert_eq!(receive(&mut qo, 4, is_pattern), frames);
        for frame in &frames[..3] {
            assert!(put(&mut qo, frame));
        }
        assert_eq!(drain(&mut qo), 3);
        assert_eq!(receive(&mut qt, 3, is_pattern), frames[..3]);
    }
}
