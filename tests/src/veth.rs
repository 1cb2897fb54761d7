//! Two network namespaces joined by a veth, for tests of NICs on an Ethernet. Making them needs root, and iproute2, which `scripts/setup --test`
//! installs: without, these tests fail and say so.

use std::path::Path;
use std::process::{Command, Output};

/// Two network namespaces, joined by a veth whose ends are called `va` and `vb`. They go when this is dropped, with what still runs in them.
#[derive(Debug)]
pub struct Veth {
    names: [String; 2],
}

fn ip(args: &[&str]) -> Output {
    Command::new("ip").args(args).output().expect("there is no ip: scripts/setup --test installs iproute2")
}

fn must(args: &[&str]) {
    let output = ip(args);
    let said = String::from_utf8_lossy(&output.stderr);
    let what = args.join(" ");
    assert!(output.status.success(), "ip {what}: {said}: this test makes network namespaces, which needs root");
}

impl Veth {
    /// Makes them, for frames with IP packets of `mtu` bytes. One a process.
    #[must_use]
    pub fn new(mtu: u32) -> Veth {
        let name = |end: &str| format!("mrcnic-{}-{end}", std::process::id());
        let veth = Veth { names: [name("a"), name("b")] };
        let [a, b] = [&veth.names[0], &veth.names[1]];
        for name in [a, b] {
            must(&["netns", "add", name]);
            must(&["-n", name, "link", "set", "lo", "up"]);
        }
        must(&["-n", a, "link", "add", "va", "type", "veth", "peer", "name", "vb", "netns", b]);
        for (name, end) in [(a, "va"), (b, "vb")] {
            must(&["-n", name, "link", "set", end, "mtu", &mtu.to_string(), "up"]);
        }
        veth
    }

    /// A command that runs `program` in namespace 0 or 1: it becomes the program.
    #[must_use]
    pub fn within(&self, end: usize, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[end]]).arg(program);
        command
    }

    /// Gives the kernel of namespace 1 an address on the veth.
    pub fn kernel_at(&self, address: &str) {
        // It need not wait until it knows that nobody else has it.
        let at_once: &[&str] = if address.contains(':') { &["nodad"] } else { &[] };
        must(&[&["-n", &self.names[1], "addr", "add", address, "dev", "vb"], at_once].concat());
    }

    /// The kernel of namespace 1 pings `to` three times: what ping says, each of which was answered.
    #[must_use]
    pub fn ping(&self, to: &str) -> String {
        let args = ["-c", "3", "-i", "0.2", "-w", "10", "-s", "1000", to];
        let output = self.within(1, Path::new("ping")).args(args).output().expect("ip is there");
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ping {to} (of iputils-ping, which scripts/setup --test installs): {said}");
        said
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        for name in &self.names {
            // The veth goes with its namespace.
            let _ = ip(&["netns", "del", name]);
        }
    }
}
