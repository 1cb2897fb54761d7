//! `mrcnic perf`: two processes, a client and a server, each with a NIC of its own, through the host API.
//!
//! The ends agree over an exchange (TCP, or a UNIX socket), which stays open: the client says what is measured, both tell each other their QPs and
//! memory, and after each size what came of it.

mod bandwidth;
mod end;
mod latency;
mod line;
mod place;
mod report;
mod settings;

pub use report::{Direction, Latency, Report, SizeResult};
pub use settings::{Asked, Mode, SIZES_MAX, Settings, Until};

use crate::config::Setup;
use crate::error::Error;
use crate::host::{Device, DeviceFile, Exchange, ExchangeAddress, ExchangeListener, Offer, Patience, any_seed};
use bandwidth::Bandwidth;
use end::{End, Prepared};
use latency::PingPong;
use line::{Line, Message, Sent, VERSION};
use place::Place;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often a server that waits looks whether somebody came.
const LOOK: Duration = Duration::from_millis(20);
/// The other end has so long for a step, which may be starting DPDK.
const STEP: Duration = Duration::from_secs(30);
/// Addresses of server and client where no file says others.
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 18, 51, 1), Ipv4Addr::new(10, 18, 51, 2)];

/// The port of the exchange where nothing is said.
pub const PORT: u16 = 18_515;

/// Whose NIC it is.
#[derive(Clone, Debug)]
pub enum Nic {
    /// That of a file.
    File(Box<DeviceFile>),
    /// One of its own with these attributes, whose port is shared memory (`net_memif`).
    Local(Box<Setup>),
}

/// What an end is to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server to connect to; without one this is the server.
    pub connect: Option<ExchangeAddress>,
    /// Where a server waits for clients.
    pub listen: ExchangeAddress,
    /// What is to be measured, as far as this end's options say.
    pub asked: Asked,
    /// The NIC.
    pub nic: Nic,
    /// How often its QPs try, where that is not as the attributes say.
    pub patience: Option<Patience>,
    /// A server waits for the next client when one has gone.
    pub forever: bool,
}

/// Hears what an end does, a line each, and what came of it.
pub trait Watcher {
    /// It does something that takes a while.
    fn says(&mut self, line: &str);

    /// A measurement has come to its end.
    ///
    /// # Errors
    /// What it could not be written to.
    fn measured(&mut self, report: &Report) -> Result<(), Error>;
}

/// Runs a client or a server. `interrupted` ends it: a client with what was measured until then.
///
/// # Errors
/// What can't be brought up, ends that do not agree, one that has gone, a message that failed, and bytes that are not what was sent.
pub fn run(options: &Options, interrupted: &Arc<AtomicBool>, watcher: &mut dyn Watcher) -> Result<(), Error> {
    match &options.connect {
        Some(address) => client(options, address, interrupted, watcher),
        None => server(options, interrupted, watcher),
    }
}

fn random() -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(any_seed())
}

fn open(file: &DeviceFile) -> Result<Device, Error> {
    let mut spec = file.spec.clone();
    if !file.seeded {
        spec.params.seed = any_seed();
    }
    Device::open(spec)
}

/// The file of a NIC whose port is shared memory at `path`.
fn shared_memory(setup: &Setup, role: usize, path: &Path) -> Result<DeviceFile, Error> {
    let name = ["server", "client"][role];
    // A name in the file system, so that it is nobody else's. A ring's 256 buffers of a frame each stay in a core's cache; the driver's usual
    // 1,024 do not.
    let port = format!("net_memif0,role={name},socket={},socket-abstract=no,rsize=8", path.display());
    let mut file = DeviceFile::of(&port, ADDRESSES[role].into(), setup.clone())?;
    file.spec.name = format!("perf-{name}");
    Ok(file)
}

fn server(options: &Options, interrupted: &Arc<AtomicBool>, watcher: &mut dyn Watcher) -> Result<(), Error> {
    let listener = ExchangeListener::bind(&options.listen)
        .map_err(|e| Error::Failure(format!("can't wait for clients at {}: {e}", options.listen)))?;
    let address = listener.local_addr().map_or_else(|| options.listen.to_string(), |address| address.to_string());
    // Whoever listens at this address alone has the place, too.
    let place = match &options.nic {
        Nic::File(_) => None,
        Nic::Local(_) => Some(Place::of(&options.listen, listener.local_addr().map(|address| address.port()))?),
    };
    let file = match (&options.nic, &place) {
        (Nic::Local(setup), Some(place)) => shared_memory(setup, 0, place.path())?,
        (Nic::File(file), _) => (**file).clone(),
        (Nic::Local(_), None) => return Err(Error::Failure("there is no place for shared memory".into())),
    };
    let device = open(&file)?;
    let ports: Vec<String> = file.spec.ports.iter().map(ToString::to_string).collect();
    watcher.says(&format!("{} over {}; waiting for a client at {address}", file.ip, ports.join(", ")));
    let mut rng = random();
    let memif = place.as_ref().map(|place| place.path().to_owned());
    loop {
        let exchange = loop {
            if interrupted.load(Ordering::Relaxed) {
                watcher.says("interrupted while waiting for a client");
                return Ok(());
            }
            match listener.accept() {
                Ok(Some(exchange)) => break exchange,
                Ok(None) => std::thread::sleep(LOOK),
                Err(e) => return Err(Error::Failure(format!("can't accept clients at {address}: {e}"))),
            }
        };
        let line = Line::new(exchange, "client", interrupted)?;
        let served = serve(options, &file, &device, memif.as_deref(), &line, &mut rng, watcher);
        let served = served.and_then(|report| {
            watcher.measured(&report)?;
            verdict(&report)
        });
        if let Err(e) = &served {
            line.say(Message::Stop { why: e.to_string() });
        }
        drop(line);
        if !options.forever || interrupted.load(Ordering::Relaxed) {
            return served;
        }
        if let Err(e) = served {
            watcher.says(&format!("error: {e}"));
        }
        watcher.says(&format!("waiting for the next client at {address}"));
    }
}

/// Every byte must be where it belongs.
fn verdict(report: &Report) -> Result<(), Error> {
    match report.results.iter().find(|result| !result.is_right()) {
        Some(wrong) => Err(Error::Failure(format!("{} B: the memory does not hold what was written", wrong.size))),
        None => Ok(()),
    }
}

/// Serves one client.
fn serve(
    options: &Options,
    file: &DeviceFile,
    device: &Device,
    memif: Option<&Path>,
    line: &Line,
    rng: &mut Xoshiro256PlusPlus,
    watcher: &mut dyn Watcher,
) -> Result<Report, Error> {
    let settings = match line.expect(STEP)? {
        Message::Hello { version: VERSION, settings } => settings,
        Message::Hello { version, .. } => {
            return Err(Error::Failure(format!(
                "the client speaks version {version} and the server {VERSION}: use the same mrcnic at both ends"
            )));
        }
        other => return Err(line.odd(&other)),
    };
    settings.check().map_err(Error::Failure)?;
    options.asked.agrees(&settings).map_err(Error::Usage)?;
    line.say(Message::Welcome { memif: memif.map(Path::to_owned) });
    let prepared = Prepared::new(device, file, &settings, options.patience, rng)?;
    let other = offers(&prepared, line)?;
    let end = join(prepared, file, &other, line)?;
    watcher.says(&format!("serving {}: {}", other.ip, settings.messages()));
    let mut report = Report { mss: end.mss(), ..Report::new("server", &settings) };
    (report.client, report.server) = (other.ip.to_string(), file.ip.to_string());
    loop {
        // Greetings and the like come without a message.
        match line.wait(&|| end.check_idle(line))? {
            Message::Begin { size, round } if settings.sizes.contains(&size) => answer(&end, line, size, round)?,
            Message::Result { result } => report.results.push(*result),
            Message::End {} => break,
            other => return Err(line.odd(&other)),
        }
    }
    Ok(report)
}

fn client(
    options: &Options,
    address: &ExchangeAddress,
    interrupted: &Arc<AtomicBool>,
    watcher: &mut dyn Watcher,
) -> Result<(), Error> {
    let settings = options.asked.settle();
    settings.check().map_err(Error::Usage)?;
    let exchange = Exchange::connect(address).map_err(|e| {
        Error::Failure(format!(
            "can't connect to {address}: {e}. Is the server there? It is started by mrcnic perf without a HOST"
        ))
    })?;
    let is_local = exchange.is_local();
    let line = Line::new(exchange, "server", interrupted)?;
    let measured = measure(options, settings, is_local, address, &line, watcher);
    match measured {
        Ok(report) => {
            line.say(Message::End {});
            drop(line);
            watcher.measured(&report)?;
            verdict(&report)
        }
        Err(e) => {
            line.say(Message::Stop { why: e.to_string() });
            Err(e)
        }
    }
}

/// Joins the server, and measures one size after the other.
fn measure(
    options: &Options,
    settings: Settings,
    is_local: bool,
    address: &ExchangeAddress,
    line: &Line,
    watcher: &mut dyn Watcher,
) -> Result<Report, Error> {
    line.say(Message::Hello { version: VERSION, settings: settings.clone() });
    let memif = match line.expect(STEP)? {
        Message::Welcome { memif } => memif,
        other => return Err(line.odd(&other)),
    };
    let file = match &options.nic {
        Nic::File(file) => (**file).clone(),
        Nic::Local(setup) => shared_memory(setup, 1, &meeting_place(memif, is_local, address)?)?,
    };
    let device = open(&file)?;
    let prepared = Prepared::new(&device, &file, &settings, options.patience, &mut random())?;
    let other = offers(&prepared, line)?;
    let end = join(prepared, &file, &other, line)?;
    watcher.says(&format!("joined {} at {address}: {}, MSS {}", other.ip, settings.messages(), end.mss()));
    let mut report = Report { mss: end.mss(), ..Report::new("client", &settings) };
    (report.client, report.server) = (file.ip.to_string(), other.ip.to_string());
    for (round, &size) in (1..).zip(&settings.sizes) {
        let result = ask(&end, line, size, round)?;
        line.say(Message::Result { result: Box::new(result.clone()) });
        report.results.push(result);
        if line.is_interrupted() {
            report.interrupted = true;
            break;
        }
    }
    Ok(report)
}

/// Where the server's shared memory is: nobody but a process of this machine is believed.
fn meeting_place(memif: Option<PathBuf>, is_local: bool, address: &ExchangeAddress) -> Result<PathBuf, Error> {
    let Some(path) = memif else {
        return Err(Error::Usage(format!(
            "the NIC of the server at {address} has the ports of a file: give this end a file, too (--config, docs/libmrc.md)"
        )));
    };
    if !is_local {
        return Err(Error::Usage(format!(
            "the server at {address} is on another machine, and its port is shared memory there: give both ends a file with ports that \
             reach each other (--config, docs/libmrc.md)"
        )));
    }
    Ok(path)
}

/// Tells the other end what this one has, and hears what that one has.
fn offers(prepared: &Prepared, line: &Line) -> Result<Offer, Error> {
    line.say(Message::Offer { offer: prepared.own.clone() });
    match line.expect(STEP)? {
        Message::Offer { offer } => Ok(offer),
        other => Err(line.odd(&other)),
    }
}

/// Brings the QPs to RTS, waits for the other end's, and sees that the ports reach each other.
fn join(prepared: Prepared, file: &DeviceFile, other: &Offer, line: &Line) -> Result<End, Error> {
    let end = prepared.join(file, other)?;
    // Both have to be there before either sends, and to have heard of the other before a size begins.
    for step in [true, false] {
        line.say(Message::Ready {});
        match line.expect(STEP)? {
            Message::Ready {} => {}
            other => return Err(line.odd(&other)),
        }
        if step {
            end.greet(line)?;
        }
    }
    Ok(end)
}

/// What the ends fill their memory with in a round: the client's, and the server's.
const fn patterns(round: u64) -> [u64; 2] {
    [2 * round, 2 * round + 1]
}

/// A size at the client.
fn ask(end: &End, line: &Line, size: u32, round: u64) -> Result<SizeResult, Error> {
    let settings = end.settings();
    let [ours, theirs] = patterns(round);
    end.fill(size, ours);
    let mut ping_pong = (settings.mode == Mode::Latency).then(|| PingPong::new(end, line, size));
    let mut bandwidth = Bandwidth::new(end, line, size);
    line.say(Message::Begin { size, round });
    // The other end may send as soon as it has said so.
    let said = match &ping_pong {
        Some(_) => line.wait_out(&|| end.check_idle(line))?,
        None => bandwidth.attend(false)?,
    };
    match said {
        Message::Ready {} => {}
        other => return Err(line.odd(&other)),
    }
    let (own, latency) = match &mut ping_pong {
        Some(ping_pong) => {
            let (sent, trips) = ping_pong.ping(settings.until)?;
            (sent, Latency::of(&trips))
        }
        None => (bandwidth.send(settings.until)?, None),
    };
    line.say(Message::Done { sent: own.clone() });
    let said = match &ping_pong {
        Some(_) => line.wait_out(&|| end.check_idle(line))?,
        None => bandwidth.attend(false)?,
    };
    let other = match said {
        Message::Done { sent } => sent,
        said => return Err(line.odd(&said)),
    };
    let count = |sent: &Sent| sent.messages.iter().sum::<u64>();
    compare(settings, count(&own), other.received, "the server")?;
    let sends = settings.bidirectional || ping_pong.is_some();
    if sends && ping_pong.is_none() {
        compare(settings, count(&other), bandwidth.received(), "the client")?;
    }
    let verified = (settings.verify && sends).then(|| match &ping_pong {
        Some(ping_pong) => ping_pong.holds(theirs, count(&other)),
        None => end.holds(size, theirs, &other.messages),
    });
    let direction = |sent: &Sent, verified| Direction {
        messages: count(sent),
        seconds: sent.seconds,
        retransmits: sent.retransmits,
        verified,
    };
    let back = sends.then(|| direction(&other, verified));
    Ok(SizeResult::of(size, direction(&own, other.verified), back, latency))
}

/// A size at the server.
fn answer(end: &End, line: &Line, size: u32, round: u64) -> Result<(), Error> {
    let settings = end.settings();
    let [theirs, ours] = patterns(round);
    end.fill(size, ours);
    let mut ping_pong = (settings.mode == Mode::Latency).then(|| PingPong::new(end, line, size));
    let mut bandwidth = Bandwidth::new(end, line, size);
    line.say(Message::Ready {});
    let mut own = match &mut ping_pong {
        Some(ping_pong) => ping_pong.pong(settings.until)?,
        None if settings.bidirectional => bandwidth.send(settings.until)?,
        None => Sent { messages: vec![0; settings.qps], ..Sent::default() },
    };
    let said = match &ping_pong {
        Some(_) => line.wait(&|| end.check_idle(line))?,
        None => bandwidth.attend(true)?,
    };
    let other = match said {
        Message::Done { sent } => sent,
        said => return Err(line.odd(&said)),
    };
    let count = other.messages.iter().sum::<u64>();
    own.received = if ping_pong.is_some() { count } else { bandwidth.received() };
    own.verified = settings.verify.then(|| match &ping_pong {
        Some(ping_pong) => ping_pong.holds(theirs, count),
        None => end.holds(size, theirs, &other.messages),
    });
    line.say(Message::Done { sent: own });
    Ok(())
}

/// Messages with immediates that were acknowledged were received, all of them and no others.
fn compare(settings: &Settings, sent: u64, received: u64, whose: &str) -> Result<(), Error> {
    if settings.immediate && sent != received {
        return Err(Error::Failure(format!("{sent} messages were acknowledged, but {whose} received {received}")));
    }
    Ok(())
}
