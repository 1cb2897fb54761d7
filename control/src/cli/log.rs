//! `--log` and `--log-format`: which events are told on standard error, and how.

use std::io::IsTerminal;
use std::str::FromStr;
use tracing_subscriber::filter::{Directive, LevelFilter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

/// Roots of the targets that there are: the names of the crates that tell something.
const ROOTS: [&str; 2] = ["control", "dataplane"];

/// What `--log` says: directives with commas between them.
#[derive(Clone, Debug)]
pub(super) struct Filter(Vec<Directive>);

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// A line each, for people
    Text,
    /// A JSON object a line
    Json,
}

impl FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Filter, String> {
        let directives = text.split(',').map(str::trim).map(directive).collect::<Result<Vec<_>, _>>()?;
        Ok(Filter(directives))
    }
}

/// One directive. A word alone is a level, or a target of ours with all its events: anything else is a slip of the pen that would
/// silence everything.
fn directive(text: &str) -> Result<Directive, String> {
    let known = ROOTS.iter().any(|root| {
        text.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with("::") || rest.starts_with('['))
    });
    let is_level = text.parse::<LevelFilter>().is_ok() && !text.is_empty();
    let fault = || {
        format!(
            "the directive '{text}' is none: give a level (off, error, warn, info, debug, trace), or TARGET=LEVEL as in control::controller=debug"
        )
    };
    if !is_level && !known && !text.contains(['=', '[']) {
        return Err(fault());
    }
    text.parse().map_err(|_| fault())
}

impl Filter {
    fn layer(self) -> EnvFilter {
        // What no directive says is not told.
        let none = EnvFilter::builder().with_default_directive(LevelFilter::OFF.into()).parse_lossy("");
        self.0.into_iter().fold(none, EnvFilter::add_directive)
    }
}

/// What is told, to be changed later.
pub(super) struct Logs(reload::Handle<EnvFilter, Registry>);

impl Logs {
    /// Tells what has this level or a graver one, and nothing else.
    pub(super) fn set(&self, level: LevelFilter) {
        // It fails when nobody is told anything any more.
        let _ = self.0.reload(Filter(vec![level.into()]).layer());
    }
}

/// Tells events from now on, on standard error. A logger that is there already stays: only tests run a second command in one process.
pub(super) fn start(filter: Filter, format: Format) -> Logs {
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    let (filter, handle) = reload::Layer::new(filter.layer());
    let (told, lines) = (tracing_subscriber::registry().with(filter), fmt::layer().with_writer(std::io::stderr));
    let _ = match format {
        Format::Text => told.with(lines.with_ansi(colours)).try_init(),
        Format::Json => told.with(lines.json().flatten_event(true)).try_init(),
    };
    Logs(handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_targets_are_directives_and_the_faulty_one_is_named() {
        for good in ["off", "WARN", "control", "control::controller=debug,warn", "dataplane::dpdk::pool=trace, error"] {
            assert!(good.parse::<Filter>().is_ok(), "{good}");
        }
        for (bad, named) in [
            ("verbose", "'verbose'"),
            ("control=debug,warm", "'warm'"),
            ("control=loud", "'control=loud'"),
            ("info,,debug", "''"),
            ("", "''"),
            ("controller", "'controller'"),
        ] {
            let why = bad.parse::<Filter>().unwrap_err();
            assert!(why.contains(named) && why.contains("TARGET=LEVEL"), "{bad}: {why}");
        }
    }
}
