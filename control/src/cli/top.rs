//! `mrcnic top`.

use super::output::standard_output;
use crate::error::Error;
use crate::top::{self, End, Options};
use ratatui::crossterm::terminal;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Columns of a frame that goes to no terminal.
const COLUMNS: u16 = 160;

/// Watch running NICs: rates, QPs, destinations, entropy values
///
/// A NIC can be watched when it was started with --ctl PATH. It ends with the NIC.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The NICs' socket
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Time between looks, such as 1s or 250ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// The NIC to begin with [default: the first]
    #[arg(long, value_name = "NAME")]
    nic: Option<String>,
    /// Print one frame as plain text, after one interval, and end; no terminal is needed
    #[arg(long)]
    once: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let scale = match unit {
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        _ => return Err("give a number with ms, s or min, as in 1s".into()),
    };
    match number.trim().parse::<f64>().map(|number| number * scale) {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        Ok(_) => Err("give 100ms to 60min".into()),
        Err(_) => Err("give a number with ms, s or min, as in 1s".into()),
    }
}

/// How long a view that is told to end has for it.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Error> {
    let options = Options { socket: args.socket.clone(), interval: args.interval, nic: args.nic.clone() };
    let mut out = standard_output(false);
    if args.once {
        let columns =
            if std::io::stdout().is_terminal() { terminal::size().map_or(COLUMNS, |(x, _)| x) } else { COLUMNS };
        top::once(&options, columns, &mut out)?;
        out.flush()?;
        return Ok(());
    }
    if !std::io::stdout().is_terminal() {
        return Err(Error::Usage("standard output is no terminal: give --once for a frame of plain text".into()));
    }
    drop(out);
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    ctrlc::set_handler(move || end(&flag)).map_err(|e| Error::Failure(format!("can't watch for signals: {e}")))?;
    if top::run(&options, &interrupted)? == End::NicEnded {
        writeln!(standard_output(false), "{}: the NIC has ended", args.socket.display())?;
    }
    Ok(())
}

/// A signal came. A terminal that went away keeps crossterm in its reading for ever, so the process ends here when it does not by itself.
fn end(interrupted: &AtomicBool) {
    interrupted.store(true, Ordering::Relaxed);
    std::thread::sleep(LAST_WORDS);
    let _ = ratatui::try_restore();
    std::process::exit(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_a_unit_and_is_a_tenth_of_a_second_to_an_hour() {
        assert_eq!(interval("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(interval("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(interval("2min"), Ok(Duration::from_secs(120)));
        for wrong in ["", "1", "s", "10ms", "2h", "-1s", "infs", "NaNs"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
