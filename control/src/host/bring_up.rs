//! Steps that every driver of a NIC takes: a device, and the bench, which has two.

use crate::controller::{ControlEnd, ControlThread, Vicinity, WorkerEnd, link, slow_link};
use crate::error::Error;
use crate::neighbour::{NeighbourPort, NeighbourSpec, Neighbours};
use dataplane::dpdk::{App, EalOptions, Impairments, Lane, Port, PortConfig, PortSpec, Queue, Steering};
use dataplane::nic::{Nic, PortInfo};
use dataplane::wire::{MacAddr, WriteHeaders, frame_len};
use std::sync::Arc;

/// Frames that wait for the worker that owns their source.
const STEERING_FRAMES: usize = 1024;
/// Segment sizes that are tried, from the largest, where a port need not carry a certain one.
const MSS_CHOICES: [u32; 5] = [4096, 2048, 1024, 512, 256];

/// What DPDK needs for `count` ports of such a configuration, of which `named` may be PCI devices.
pub(crate) fn eal_options<'a>(
    named: impl IntoIterator<Item = &'a PortSpec>,
    count: usize,
    config: &PortConfig,
) -> EalOptions {
    let pci = named.into_iter().filter_map(|spec| spec.pci().map(str::to_owned)).collect();
    EalOptions { pci, ..EalOptions::for_ports(count, config) }
}

/// Ports as an engine knows them.
pub(crate) fn port_infos(ports: &[Port]) -> Vec<PortInfo> {
    ports.iter().map(|port| PortInfo { mac: MacAddr(port.mac()), max_frame: port.max_frame() }).collect()
}

/// The longest frame that all ports carry.
pub(crate) fn longest_frame<'a>(ports: impl IntoIterator<Item = &'a Port>) -> usize {
    ports.into_iter().map(Port::max_frame).min().unwrap_or(0)
}

/// Length of the frame that a full packet of `mss` makes, over IPv6 or IPv4, in SRv6 or not.
pub(crate) fn full_frame(ipv6: bool, srv6: bool, mss: u32) -> usize {
    let headers = WriteHeaders { immediate: Some(0), ..WriteHeaders::default() }.len();
    let ip = if ipv6 { 40 } else { 20 };
    let outer = if srv6 { 40 } else { 0 };
    frame_len(14 + outer + ip + 8, headers, mss as usize)
}

/// The largest usual MSS whose frames, as `full_frame` says, fit into `max` bytes.
pub(crate) fn usual_mss(max: usize, full_frame: impl Fn(u32) -> usize) -> Result<u32, Error> {
    let fits = |mss: &u32| full_frame(*mss) <= max;
    let too_few = || Error::Usage(format!("the port carries frames of {max} bytes only, too few for any MSS"));
    MSS_CHOICES.into_iter().find(fits).ok_or_else(too_few)
}

/// A link to the control thread for each of so many workers.
pub(crate) fn links(workers: usize, control: &ControlThread) -> (Vec<WorkerEnd>, Vec<ControlEnd>) {
    (0..workers).map(|_| link(control.waker())).unzip()
}

/// Whether a NIC has neighbours: an address, and a port on an Ethernet.
pub(crate) fn has_neighbours(spec: Option<&NeighbourSpec>, ports: &[Port]) -> bool {
    spec.is_some() && ports.iter().any(Port::is_on_ethernet)
}

/// Who looks after the neighbours of a NIC, if it has any; its engines have a slow path to the control thread then.
pub(crate) fn vicinity(
    spec: Option<&NeighbourSpec>,
    ports: &[Port],
    nics: &mut [Nic],
    control: &ControlThread,
) -> Option<Vicinity> {
    let spec = spec.filter(|_| has_neighbours(spec, ports))?;
    let port = |port: &Port| NeighbourPort {
        name: port.name().to_owned(),
        mac: MacAddr(port.mac()),
        on_ethernet: port.is_on_ethernet(),
    };
    let neighbours = Neighbours::new(spec.clone(), ports.iter().map(port).collect());
    let rings = nics.iter_mut().map(|nic| {
        let (worker, end) = slow_link(control.waker());
        nic.set_slow_path(Some(Box::new(worker)));
        end
    });
    Some(Vicinity::new(neighbours, rings.collect()))
}

/// A lane for each engine of a NIC, over its own queue of each port. `impairments` says what is done to the frames of worker i.
pub(crate) fn lanes<A: App<Nic>>(
    ports: &mut [Port],
    nics: Vec<Nic>,
    apps: Vec<A>,
    impairments: impl Fn(usize) -> Impairments,
) -> Result<Vec<Lane<Nic, A>>, Error> {
    let steering = Steering::new(&*ports, nics.len(), STEERING_FRAMES);
    let lanes = nics.into_iter().zip(apps).enumerate().map(|(k, (nic, app))| {
        let queue = |port: &mut Port| port.take_queue(k as u16).expect("a queue for each worker");
        let queues: Vec<Queue> = ports.iter_mut().map(queue).collect();
        let lane = Lane::new(nic, app, queues).with_steering(Arc::clone(&steering), k);
        lane.with_impairments(&impairments(k)).map_err(|e| Error::Usage(e.to_string()))
    });
    lanes.collect()
}
