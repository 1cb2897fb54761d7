//! The command line of `mrcnic`: one file a subcommand.

mod bench;
mod config;
mod ctl;
mod decode;
mod ev;
mod output;
mod replay;
mod run;
mod sim;

use crate::error;

use clap::{Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

/// A software NIC that speaks MRC (Multipath Reliable Connection) on DPDK.
#[derive(Debug, Parser)]
#[command(name = "mrcnic", version, max_term_width = 100)]
struct Cli {
    /// How much to log to standard error
    #[arg(long, global = true, value_enum, value_name = "LEVEL", default_value_t = Level::Warn)]
    log: Level,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Bench(Box<bench::Args>),
    /// Read, check and convert a NIC's configuration
    Config(config::Args),
    /// Ask a running NIC, over its UNIX socket
    Ctl(ctl::Args),
    /// Decode the MRC packets of a capture
    Decode(decode::Args),
    /// Work with entropy values, by which packets are sprayed over paths
    Ev(ev::Args),
    /// Send a capture through the NIC, and report what it makes of it
    Replay(replay::Args),
    Run(run::Args),
    Sim(sim::Args),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl From<Level> for LevelFilter {
    fn from(level: Level) -> LevelFilter {
        match level {
            Level::Off => LevelFilter::OFF,
            Level::Error => LevelFilter::ERROR,
            Level::Warn => LevelFilter::WARN,
            Level::Info => LevelFilter::INFO,
            Level::Debug => LevelFilter::DEBUG,
            Level::Trace => LevelFilter::TRACE,
        }
    }
}

/// Runs the command that `args` name, the first of which is the program's own name. Errors go to standard error.
///
/// The exit code is 0, 2 where the command line or a file named on it is wrong, and 1 for every other failure.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(e) => {
            // Help and version come this way too; a closed pipe is no reason to complain.
            let _ = e.print();
            return ExitCode::from(u8::try_from(e.exit_code()).unwrap_or(error::USAGE));
        }
    };
    let (level, logs) = reload::Layer::new(LevelFilter::from(cli.log));
    // Colours are for people: a service's log has none.
    let lines =
        tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    // A logger that is there already stays: only tests run a second command in one process.
    let _ = tracing_subscriber::registry().with(level).with(lines).try_init();
    let done = match cli.command {
        Command::Bench(args) => bench::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Ctl(args) => ctl::run(&args),
        Command::Decode(args) => decode::run(&args),
        Command::Ev(args) => ev::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Run(args) => run::run(&args, &|level| drop(logs.reload(LevelFilter::from(level)))),
        Command::Sim(args) => sim::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => e.report(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
