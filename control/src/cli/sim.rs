//! `mrcnic sim`.

use super::output::standard_output;
use super::records::RecordArgs;
use crate::error::{Error, say};
use crate::sim::{Beside, Plot, Records, Run, Scenario};
use dataplane::Ns;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Instant;

/// Parts of the duration after which the progress bar moves.
const STEPS: u64 = 200;

/// Run a scenario in virtual time: many NICs, and a fabric of links and switches that break as the file says
///
/// Nothing is sent anywhere: no port, no privilege and no hugepages are needed. One seed gives one history, byte for byte.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mrcnic sim docs/scenarios/failover.toml
  mrcnic sim docs/scenarios/incast.toml --records out --plot incast.svg
  mrcnic sim docs/scenarios/failover.toml --seed 7 --json | jq .fct_us
  mrcnic sim docs/scenarios/victim-alone.toml --config nic.toml --set qp_manager.initial_ack_timeout=200us")]
pub(super) struct Args {
    /// The scenario, in TOML
    scenario: PathBuf,
    /// Seed of all that is random, in place of the file's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The NICs' configuration, as `mrcnic config` reads it, in place of the one that the scenario names
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// An attribute of that configuration, or of the defaults without one, as in qp_manager.mss=1024; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    records: RecordArgs,
    /// Draw goodput, windows, queues and the use of paths over virtual time
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

/// Runs a scenario.
pub(super) fn run(args: &Args) -> Result<(), Error> {
    let name = args.scenario.display().to_string();
    let text = std::fs::read_to_string(&args.scenario).map_err(|e| Error::Usage(format!("can't read {name}: {e}")))?;
    let beside = Beside { seed: args.seed, config: args.config.as_deref(), set: &args.set };
    let scenario = Scenario::read_beside(&text, &name, &beside).map_err(|e| Error::Usage(e.to_string()))?;
    for finding in &scenario.warnings {
        say(&format!("warning: {finding}"));
    }
    let failure = |what: &str, why: String| Error::Failure(format!("{what}: {why}"));
    tracing::debug!(file = name, seed = scenario.seed, duration_us = scenario.duration.micros(), "a scenario is read");
    let began = Instant::now();
    let bar = bar(scenario.duration, args.json);
    let spec = args.records.spec(Some(scenario.records.clone()));
    let mut run = Run::new(scenario).map_err(|e| failure(&name, e.to_string()))?;
    run.record(&spec)?;
    let mut records = match &spec.dir {
        Some(dir) => {
            let made = Records::create(dir, spec.format);
            Some(made.map_err(|e| Error::Usage(format!("can't write records into {}: {e}", dir.display())))?)
        }
        None => None,
    };
    if let Some(file) = &args.plot {
        // Before the run rather than after it.
        let made = std::fs::OpenOptions::new().create(true).append(true).open(file);
        made.map_err(|e| Error::Usage(format!("can't write a picture to {}: {e}", file.display())))?;
    }
    let mut plot = args.plot.as_ref().map(|_| Plot::new(&run));
    let duration = run.scenario().duration.0;
    let sampled = records.is_some() || plot.is_some();
    let step = if sampled { run.scenario().interval_ns } else { (duration / STEPS).max(1) };
    while !run.is_over() {
        let next = Ns((run.world().now().0 / step + 1).saturating_mul(step));
        run.until(next).map_err(|e| failure(&name, e.to_string()))?;
        bar.set_position(run.world().now().0 / 1_000);
        if sampled {
            let sample = run.sample();
            if let Some(records) = &mut records {
                records.write(&sample).map_err(|e| failure("records", e.to_string()))?;
            }
            if let Some(plot) = &mut plot {
                plot.add(&sample);
            }
        }
    }
    bar.finish_and_clear();
    let report = run.report(began.elapsed().as_secs_f64());
    records.map_or(Ok(()), Records::finish).map_err(|e| failure("records", e.to_string()))?;
    run.finish_records()?;
    if let Some(dir) = &spec.dir {
        tracing::info!(dir = %dir.display(), "records are written");
    }
    let mut out = standard_output(false);
    if args.json { report.write_json(&mut *out) } else { report.write_text(&mut *out) }?;
    out.flush()?;
    if let (Some(plot), Some(file)) = (plot, &args.plot) {
        plot.write(file).map_err(|why| failure(&file.display().to_string(), why))?;
        tracing::info!(file = %file.display(), "a picture is written");
    }
    match report.corrupt_bytes {
        0 => Ok(()),
        bytes => Err(failure(&name, format!("{bytes} bytes are not as they were sent"))),
    }
}

/// Virtual time as it passes, on a terminal.
fn bar(duration: Ns, quiet: bool) -> ProgressBar {
    let terminal = std::io::stderr().is_terminal() && !quiet;
    let target = if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(duration.0 / 1_000), target);
    let style = ProgressStyle::with_template("virtual time [{bar:40}] {pos} of {len} us, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
    bar
}
