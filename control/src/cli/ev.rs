//! `mrcnic ev`: entropy values.

mod report;

use super::output::standard_output;
use crate::error::{Error, say};
use crate::field::Field;
use clap::{Subcommand, ValueEnum};
use dataplane::path::profile::{
    EVS_PER_PROFILE_MAX, EvField, EvFormat, Expansion, ExpansionError, PLANES_MAX, PortSet,
};
use report::Report;
use std::io::Write;

/// Arguments of `mrcnic ev`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the entropy values (EVs) that fields allow, and the bits that each switch reads
    Expand(Expand),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
KEY is min, max, init or mask; a value is decimal, 0x.. or 0b..:
  mask  the bits that are generated (all)           init  the other bits (0)
  min, max  bounds of the generated number (0, all ones)
fixed=V stands for init=V,mask=0. The first field is the first hop, in the uppermost bits.

Examples:
  mrcnic ev expand --field hop1:4:min=0,max=3 --field hop2:4 --field hop3:8:init=0x10,mask=0x0f
  mrcnic ev expand --format udp --field prefix:4:fixed=0b1100 --field hash:12 --ports 4
  mrcnic ev expand --format srv6 --field locator:32:fixed=0xfcbbbbbb --field tor:16:init=0x100,mask=0xff --json")]
struct Expand {
    /// A field: its name, its bits, and which values it takes; once for each hop
    #[arg(long = "field", value_name = "NAME:BITS[:KEY=V,..]", required = true)]
    fields: Vec<Field>,
    /// Where EVs are in a packet
    #[arg(long, value_enum, default_value_t = Format::Stev)]
    format: Format,
    /// EVs to show, the first of the order
    #[arg(
        long,
        value_name = "N",
        default_value_t = 16,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(EVS_PER_PROFILE_MAX)),
    )]
    count: u32,
    /// Seed of the order: the same seed, the same EVs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Ports (planes) of the NIC, 1 to 8, over which the EVs are split
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=i64::from(PLANES_MAX)))]
    ports: Option<u8>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Where EVs are in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Structured EV, 32 bits: flow label, then UDP source port
    Stev,
    /// UDP source port, 16 bits
    Udp,
    /// SRv6: a locator of 32 bits, then one to six uSIDs of 16
    Srv6,
}

/// Runs a subcommand of `mrcnic ev`.
pub(super) fn run(args: &Args) -> Result<(), Error> {
    match &args.command {
        Command::Expand(args) => expand(args),
    }
}

/// Expands fields to standard output; what is odd about them goes to standard error.
fn expand(args: &Expand) -> Result<(), Error> {
    let expansion = args.expansion()?;
    let names: Vec<&str> = args.fields.iter().map(|field| field.name.as_str()).collect();
    let report = Report::new(args.format, &names, &expansion, args.count, args.ports.map(PortSet::first));
    for note in &report.notes {
        say(&format!("note: {note}"));
    }
    let mut out = standard_output(false);
    if args.json { report.write_json(&mut *out) } else { report.write_text(&mut *out) }?;
    Ok(out.flush()?)
}

impl Expand {
    fn expansion(&self) -> Result<Expansion, Error> {
        self.check_names()?;
        let fields: Vec<EvField> = self.fields.iter().map(|field| field.field).collect();
        for Field { name, field } in &self.fields {
            field.validate().map_err(|error| Error::Usage(format!("--field {name}: {error}")))?;
        }
        let format = self.format_of(&fields)?;
        Expansion::new(&format, &fields, self.seed).map_err(|error| match error {
            ExpansionError::Field { at, error } => Error::Usage(format!("--field {}: {error}", self.fields[at].name)),
            error => Error::Usage(format!("--field {}: {error}", self.beyond_ev())),
        })
    }

    /// The field with which the masks have more bits than an EV has.
    fn beyond_ev(&self) -> &str {
        let mut bits = 0;
        let beyond = self.fields.iter().find(|Field { field, .. }| {
            bits += field.mask.count_ones();
            bits > 32
        });
        beyond.map_or("", |field| &field.name)
    }

    fn check_names(&self) -> Result<(), Error> {
        for (at, Field { name, .. }) in self.fields.iter().enumerate() {
            if self.fields[..at].iter().any(|other| other.name == *name) {
                return Err(Error::Usage(format!(
                    "--field {name}: the name is given twice: give each field a name of its own"
                )));
            }
        }
        Ok(())
    }

    /// The format that has the fields: for SRv6 a locator and uSIDs, else a field for each.
    fn format_of(&self, fields: &[EvField]) -> Result<EvFormat, Error> {
        let widths: Vec<u8> = fields.iter().map(|field| field.width).collect();
        let usage = |error: &dyn std::fmt::Display| Error::Usage(format!("--field: {error}"));
        let room: u32 = match self.format {
            Format::Srv6 => {
                let usids = u8::try_from(fields.len() - 1).unwrap_or(u8::MAX);
                return EvFormat::usid(usids).map_err(|error| {
                    usage(&format_args!("{error}; the first field is the locator, and each other one a uSID"))
                });
            }
            Format::Stev => 32,
            Format::Udp => 16,
        };
        let mut bits = 0;
        for Field { name, field } in &self.fields {
            bits += u32::from(field.width);
            if bits > room {
                return Err(Error::Usage(format!(
                    "--field {name}: with it the fields have {bits} bits, and --format {} has {room}: make fields narrower, or take some away",
                    self.format.name()
                )));
            }
        }
        if self.format == Format::Udp { EvFormat::udp_port(&widths) } else { EvFormat::structured(&widths) }
            .map_err(|error| usage(&error))
    }
}

impl Format {
    const fn name(self) -> &'static str {
        match self {
            Format::Stev => "stev",
            Format::Udp => "udp",
            Format::Srv6 => "srv6",
        }
    }
}
