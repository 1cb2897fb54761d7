//! `mrcnic run`: a NIC as a process that stays, as a file has it. Its peers join it by themselves, operators write over its socket.

mod bond;
mod file;
mod notify;
mod peer;
mod region;
mod reload;
mod service;
mod show;

pub use file::{AddressTable, LogLevel, PeerTable, QPS_MAX, RecordsTable, RegionTable, RunFile, RunTable};

use crate::config::{Finding, Loaded, RecordSettings, Setup};
use crate::controller::Server;
use crate::controller::metrics::MetricsServer;
use crate::error::{Error, say};
use crate::host::{Device, DeviceSpec, ExchangeListener, any_seed};
use crate::records::{CaptureSpec, RecordSpec, SNAPLEN_MAX};
use dataplane::nic::NicParams;
use notify::Notify;
use reload::Running;
use service::Service;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the main thread looks for signals.
const LOOK: Duration = Duration::from_millis(20);

/// A NIC's file, read whole: its attributes, and its `[run]` table.
#[derive(Clone, Debug)]
pub struct NicFile {
    /// Its name.
    pub path: PathBuf,
    /// The attributes.
    pub loaded: Loaded,
    /// The `[run]` table.
    pub run: RunFile,
}

impl NicFile {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::Usage`]: it can't be read, has no `[run]` table, or all that is wrong with it.
    pub fn load(path: &Path) -> Result<NicFile, Error> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|e| Error::Usage(format!("can't read {name}: {e}")))?;
        let loaded = Loaded::read(&text, &name).map_err(|findings| Finding::refusal(&findings))?;
        let run = file::load(path, &text)?;
        Ok(NicFile { path: path.to_owned(), loaded, run })
    }

    /// The attributes as the engine takes them.
    fn setup(&self) -> Setup {
        self.loaded.config.setup()
    }

    /// What a user should know of it.
    #[must_use]
    pub fn warnings(&self) -> Vec<Finding> {
        self.loaded.warnings(crate::config::Switches::default())
    }

    /// What the files of peers with fixed numbers need, without a NIC that runs.
    #[must_use]
    pub fn pairing(&self) -> String {
        show::pairing(&self.run.table.name, &show::offers(&self.run, &self.setup()))
    }

    fn records(&self, settings: RecordSettings) -> RecordSpec {
        let RecordsTable { dir, format, capture, snaplen } = self.run.table.records.clone();
        let snaplen = snaplen.unwrap_or(SNAPLEN_MAX);
        RecordSpec { dir, format, settings, capture: capture.map(|path| CaptureSpec { path, snaplen }) }
    }

    fn device(&self, seed: u64) -> DeviceSpec {
        let (table, setup) = (&self.run.table, self.setup());
        DeviceSpec {
            name: table.name.clone(),
            ports: self.run.ports.clone(),
            workers: table.workers,
            cores: table.cores.clone(),
            params: NicParams { seed, ..setup.nic },
            probe_period_ns: setup.probe_period_ns,
            idle_polls: table.idle_polls,
            node_id: table.node_id,
            records: self.records(setup.records),
            neighbours: Some(self.run.neighbours()),
            ..DeviceSpec::default()
        }
    }
}

/// Runs the NIC of a file until it is told to go: by SIGTERM or SIGINT, upon which it waits for what is in flight. SIGHUP has it read the
/// file again. What it is goes to `out` once it is up, and `log` is told how much the file wants logged.
///
/// # Errors
/// What can't be brought up; a worker that died; and a second signal, which ends it at once.
pub fn run(file: NicFile, out: &mut dyn Write, log: &dyn Fn(LogLevel)) -> Result<(), Error> {
    file.run.table.log.into_iter().for_each(log);
    let notify = Notify::from_env();
    // From here on no signal is lost, or ends the process before its time.
    let signals = Signals::new([SIGHUP, SIGINT, SIGTERM]);
    let mut signals = signals.map_err(|e| Error::Failure(format!("can't watch for signals: {e}")))?;
    let seed = file.run.table.seed.unwrap_or_else(any_seed);
    let device = Device::open(file.device(seed))?;
    let operator = device.operator().ok_or_else(|| Error::Failure("the control thread died".into()))?;
    let service = Service::new(device, &file.run, &file.setup(), seed)?;
    for n in 0..file.run.table.peer.len() {
        service.add_peer(&file.run, n).map_err(Error::Usage)?;
    }
    let bound = |address: &crate::host::ExchangeAddress| {
        ExchangeListener::bind(address).map_err(|e| Error::Usage(format!("run.listen: can't listen at {address}: {e}")))
    };
    let listener = file.run.listen.as_ref().map(bound).transpose()?;
    let host: Arc<dyn crate::controller::Host> = service.clone();
    let metered = operator.clone();
    let ctl = file.run.table.ctl.as_deref().map(|path| Server::listen(path, operator.with_host(host)));
    let ctl = ctl.transpose()?;
    let metrics = file.run.metrics.as_ref().map(|at| MetricsServer::listen(at, metered)).transpose()?;
    service.serve(listener).map_err(Error::Failure)?;
    out.write_all(describe(&service, &file).as_bytes())?;
    out.flush()?;
    notify.tell("READY=1");
    let ended = wait(&service, file, &mut signals, &notify, log);
    notify.tell("STOPPING=1");
    // Whoever is still asked for something answers now.
    service.end();
    drop((ctl, metrics));
    ended
}

/// Runs until a signal says otherwise.
fn wait(
    service: &Arc<Service>,
    file: NicFile,
    signals: &mut Signals,
    notify: &Notify,
    log: &dyn Fn(LogLevel),
) -> Result<(), Error> {
    let mut running = Running::new(file);
    loop {
        for signal in signals.pending() {
            tracing::info!(signal, "a signal");
            if signal != SIGHUP {
                return drain(service, running.drain(), signals, notify);
            }
            notify.tell("STATUS=reading its file again");
            running.reload(service).iter().for_each(|line| say(line));
            running.log().into_iter().for_each(log);
            notify.tell("STATUS=");
        }
        if !service.device().is_running() {
            return Err(Error::Failure("a worker died".into()));
        }
        std::thread::sleep(LOOK);
    }
}

/// Waits for what is in flight, but not for ever.
fn drain(service: &Service, patience: Duration, signals: &mut Signals, notify: &Notify) -> Result<(), Error> {
    service.drain();
    let orders = service.orders();
    say(&format!("going down: no new writes; {orders} under way"));
    notify.tell("STOPPING=1");
    let began = Instant::now();
    while service.orders() > 0 && began.elapsed() < patience {
        if signals.pending().any(|signal| signal != SIGHUP) {
            return Err(Error::Failure(format!("ended at once, with {} writes under way", service.orders())));
        }
        std::thread::sleep(LOOK);
    }
    let left = service.orders();
    let (messages, failed) = (service.messages_written(), service.messages_failed());
    let how = match left {
        0 => "nothing is in flight".to_owned(),
        _ => format!("{left} writes were given up after {} s", patience.as_secs_f64()),
    };
    say(&format!("down: {how}; {messages} messages written since the start, {failed} failed"));
    Ok(())
}

/// What a NIC is that has come up, and what its peers need.
fn describe(service: &Service, file: &NicFile) -> String {
    let device = service.device();
    let RunTable { name, workers, region, peer, .. } = &file.run.table;
    let mut lines = vec![format!("{name}: up, {workers} workers, MSS {}", device.params().transport.mss)];
    for (n, (port, info)) in file.run.ports.iter().zip(device.ports()).enumerate() {
        lines.push(format!("port {}: {port}, {}, frames of {} bytes", n + 1, info.mac, info.max_frame));
    }
    for region in region {
        let key = service.region_key(&region.name).unwrap_or_default();
        let of = region.file.as_ref().map_or_else(String::new, |file| format!(", {}", file.display()));
        lines.push(format!("region {}: {} bytes, key {key:#x}{of}", region.name, region.size.0));
    }
    for peer in peer {
        let how = match (peer.exchange, &peer.connect) {
            (false, _) => "its numbers are in the file".to_owned(),
            (true, Some(address)) => format!("connects to {address}"),
            (true, None) => format!("waits for it at {}", file.run.table.listen.as_deref().unwrap_or_default()),
        };
        lines.push(format!("peer {}: {} QPs, {how}", peer.name, peer.qps));
    }
    let mut text = lines.join("\n") + "\n";
    let fixed: Vec<_> = service.fixed_offers();
    text += &show::pairing(name, &fixed);
    text
}
