//! Records of many rows.

use super::fixtures::Dir;
use super::{figure, panel};
use control::report::make;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};

/// Largest resident memory of this process until now, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_million_packets_take_little_memory_and_little_room_on_the_page() {
    const PACKETS: u32 = 1_000_000;
    let dir = Dir::new(&[]);
    let mut file = BufWriter::new(File::create(dir.path().join("mrc-monitor.csv")).unwrap());
    writeln!(file, "time_us,direction,type,psn,ev,local_addr,local_qp,trimmed").unwrap();
    for n in 0..PACKETS {
        writeln!(file, "{}.{},tx,write,{},{},10.0.0.1,16,false", n / 10, n % 10, n & 0xff_ffff, 256 + n % 100).unwrap();
    }
    drop(file);
    let bytes = dir.path().join("mrc-monitor.csv").metadata().unwrap().len();
    let before = peak_kib();
    let made = make(dir.path(), "Many").unwrap();
    let grown = (peak_kib() - before) * 1024;
    assert!(grown < bytes / 3, "{bytes} bytes of records took {grown} bytes of memory");
    assert!(made.html.len() < 1_000_000, "{} bytes", made.html.len());
    let (_, text, _) = panel(&made, "Data packets sent by entropy value");
    assert!(text.contains("100 distinct values: 100 used 10,000 times."), "{text}");
    let (_, text, _) = panel(&made, "PSNs");
    assert!(text.contains("of 1,000,000 packets are drawn, evenly"), "{text}");
}

#[test]
fn totals_of_a_long_run_of_many_nics_are_exact_and_lines_are_few() {
    let mut rows = String::from("time_us,nic,interval_us,total_data_bytes_rx,num_evs_good\n");
    for look in 1..=2_000_u64 {
        for nic in 0..20_u64 {
            writeln!(rows, "{},{nic},1000,{},{}", look * 1000, look * (nic + 1), 10 + nic).unwrap();
        }
    }
    let dir = Dir::new(&[("mrc-transport-stats.csv", &rows)]);
    let made = make(dir.path(), "Many").unwrap();
    assert_eq!(figure(&made, "Payload received"), "420,000 bytes");
    assert_eq!(figure(&made, "Duration"), "2 s");
    let (title, text, _) = panel(&made, "Goodput");
    assert_eq!(title, "Goodput: payload received, 20 NICs");
    for line in ["mean of all NICs", "highest", "lowest"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(text.contains("highest: 0.16 Mbit/s") && text.contains("lowest: 0.008 Mbit/s"), "{text}");
    let (_, text, _) = panel(&made, "Entropy values by state");
    assert!(text.contains("good: 390 entropy values"), "all NICs together: {text}");
    assert!(made.html.len() < 400_000, "{} bytes", made.html.len());
}
