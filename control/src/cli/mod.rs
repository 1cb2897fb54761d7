//! The command line of `mrcnic`: one file a subcommand.

mod bench;
mod completions;
mod config;
mod ctl;
mod decode;
mod ev;
mod log;
mod man;
mod output;
mod perf;
mod records;
mod replay;
mod report;
mod run;
mod signal;
mod sim;
mod top;

use crate::error;

use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;

/// A software NIC that speaks MRC (Multipath Reliable Connection) on DPDK.
#[derive(Debug, Parser)]
#[command(name = "mrcnic", version, max_term_width = 100)]
struct Cli {
    /// What to log to standard error: a level (off, error, warn, info, debug, trace), TARGET=LEVEL, or several with commas between them
    #[arg(long, global = true, value_name = "FILTER", default_value = "warn")]
    log: log::Filter,
    /// How to log
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t = log::Format::Text)]
    log_format: log::Format,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Bench(Box<bench::Args>),
    /// Print a script that lets a shell complete the command line
    Completions(completions::Args),
    /// Read, check and convert a NIC's configuration
    Config(config::Args),
    /// Ask a running NIC, over its UNIX socket
    Ctl(ctl::Args),
    /// Decode the MRC packets of a capture
    Decode(decode::Args),
    /// Work with entropy values, by which packets are sprayed over paths
    Ev(ev::Args),
    /// Print the manual page, or write those of all subcommands
    Man(man::Args),
    Perf(Box<perf::Args>),
    /// Send a capture through the NIC, and report what it makes of it
    Replay(replay::Args),
    Report(report::Args),
    Run(run::Args),
    Sim(sim::Args),
    Top(top::Args),
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
    let logs = log::start(cli.log, cli.log_format);
    let done = match cli.command {
        Command::Bench(args) => bench::run(&args),
        Command::Completions(args) => completions::run(&args, Cli::command()),
        Command::Config(args) => config::run(&args),
        Command::Ctl(args) => ctl::run(&args),
        Command::Decode(args) => decode::run(&args),
        Command::Ev(args) => ev::run(&args),
        Command::Man(args) => man::run(&args, Cli::command()),
        Command::Perf(args) => perf::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Run(args) => run::run(&args, &|level| logs.set(level.into())),
        Command::Sim(args) => sim::run(&args),
        Command::Top(args) => top::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => e.report(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// What has no help text, of a command and all below it.
    fn unexplained(command: &clap::Command, path: &str, found: &mut Vec<String>) {
        let path = format!("{path} {}", command.get_name());
        if command.get_about().is_none_or(|about| about.to_string().is_empty()) {
            found.push(path.clone());
        }
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            if argument.get_help().is_none_or(|help| help.to_string().is_empty()) {
                found.push(format!("{path} {}", argument.get_id()));
            }
        }
        command.get_subcommands().for_each(|sub| unexplained(sub, &path, found));
    }

    #[test]
    fn every_subcommand_and_every_option_has_a_help_text() {
        let mut command = Cli::command();
        command.build();
        let mut found = Vec::new();
        unexplained(&command, "", &mut found);
        assert!(found.is_empty(), "without help: {found:#?}");
    }

    #[test]
    fn every_subcommand_has_a_page_of_its_own_with_exit_codes() {
        fn count(command: &clap::Command) -> usize {
            1 + command.get_subcommands().map(count).sum::<usize>()
        }
        let pages = man::pages(Cli::command()).unwrap();
        let mut command = Cli::command().disable_help_subcommand(true);
        command.build();
        assert_eq!(pages.len(), count(&command));
        let names: std::collections::BTreeSet<&String> = pages.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), pages.len(), "no two are of one name");
        assert!(names.contains(&"mrcnic-ctl-ev-deny.1".to_owned()), "{names:?}");
        for (name, page) in &pages {
            let page = String::from_utf8_lossy(page);
            for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "\"EXIT STATUS\"", "ENVIRONMENT", "FILES"] {
                assert!(page.contains(&format!(".SH {section}\n")), "{name} has no {section}");
            }
        }
    }
}
