//! `mrcnic replay`, by the binary. DPDK starts once a process, and each run is a process.

mod captures;
mod files;
mod learned;
mod pair;

use assert_cmd::Command;
use dataplane::wire::{Addressing, Bth, Ext, MacAddr, Marks, Template};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use serde_json::Value;
use std::io::BufRead;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const C: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3));

fn vectors(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors").join(file)
}

fn mrcnic(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("mrcnic").unwrap();
    command.args(args);
    command
}

fn golden() -> Vec<Value> {
    serde_json::from_str(&std::fs::read_to_string(vectors("frames.json")).unwrap()).unwrap()
}

/// The golden frame of this name.
fn named(name: &str) -> Vec<u8> {
    let golden = golden();
    let text = golden.iter().find(|frame| frame["name"] == name).unwrap()["frame"].as_str().unwrap();
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

/// A folder that lives as long as the value.
struct Scratch {
    dir: TempDir,
}

impl Scratch {
    fn new() -> Scratch {
        Scratch { dir: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

fn pcap_with(header: PcapHeader, frames: &[(&[u8], usize)]) -> Vec<u8> {
    let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
    for (i, &(bytes, original)) in frames.iter().enumerate() {
        let time = Duration::new(1_700_000_000, i as u32 * 1_001);
        writer.write_packet(&PcapPacket::new(time, original as u32, bytes)).unwrap();
    }
    writer.into_writer()
}

fn pcap<F: AsRef<[u8]>>(frames: &[F]) -> Vec<u8> {
    let frames: Vec<_> = frames.iter().map(|frame| (frame.as_ref(), frame.as_ref().len())).collect();
    pcap_with(PcapHeader::default(), &frames)
}

/// What a replay came to: the report, what was said on standard error, and the answers.
struct Replayed {
    report: Value,
    said: String,
    answers: Vec<Value>,
}

impl Replayed {
    /// The one QP that was learned.
    fn qp(&self) -> &Value {
        let qps = self.report["qps"].as_array().unwrap();
        assert_eq!(qps.len(), 1, "{qps:?}");
        &qps[0]
    }

    fn numbers(&self, fields: &[&str]) -> Vec<u64> {
        fields.iter().map(|field| self.qp()[*field].as_u64().unwrap()).collect()
    }
}

/// Replays a file, and decodes its answers: each has a right iCRC.
fn replay_file(path: &Path, args: &[&str]) -> Replayed {
    let scratch = Scratch::new();
    let out = scratch.path("answers.pcap");
    let run = mrcnic(&["replay", "--json"]).arg(path).arg("--out").arg(&out).args(args).assert().success();
    let report: Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
    let said = String::from_utf8(run.get_output().stderr.clone()).unwrap();
    let ports = ["--port", "4791,4971,5000"];
    let run = mrcnic(&["decode", "--json"]).arg(&out).args(ports).assert().success();
    let answers: Vec<Value> =
        run.get_output().stdout.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    for answer in &answers {
        assert_eq!((&answer["ok"], &answer["icrc_ok"]), (&Value::Bool(true), &Value::Bool(true)), "{answer}");
    }
    assert_eq!(report["responses"], answers.len());
    Replayed { report, said, answers }
}

/// Replays a file's bytes.
fn replay_bytes(bytes: &[u8], args: &[&str]) -> Replayed {
    let scratch = Scratch::new();
    replay_file(&scratch.file("in.pcap", bytes), args)
}

/// A frame from `source` to `destination` with `payload` zeros.
fn frame(source: IpAddr, destination: IpAddr, bth: &Bth, ext: &Ext, payload: usize, vlan: Option<u16>) -> Vec<u8> {
    let template = Template::new(&Addressing {
        source_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        vlan,
        source,
        destination,
        hop_limit: 64,
        udp_port: 4791,
    })
    .unwrap();
    let mut frame = vec![0; template.frame_len(ext.len(), payload)];
    let at = template.write_headers(&mut frame, Marks { ev: 300, dscp: 4, ecn: 0 }, bth, ext, payload).unwrap();
    assert!(template.seal(&mut frame, at, payload));
    frame
}
