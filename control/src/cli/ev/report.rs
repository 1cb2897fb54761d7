//! What an expansion shows: one JSON object, or two tables.

use super::Format;
use comfy_table::{CellAlignment, Table, TableComponent, presets};
use dataplane::path::profile::{EvField, EvFormat, Expanded, Expansion, PortSet, Span};
use serde::Serialize;
use std::io::{self, Write};
use std::net::Ipv6Addr;

/// Version of the JSON form.
const SCHEMA: u32 = 1;
/// Bits of the UDP source port.
const PORT_BITS: u32 = 16;

/// EVs, and how they are made. Serialised, it is the JSON form.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    schema: u32,
    format: &'static str,
    seed: u64,
    /// How many EVs the fields allow.
    space: u64,
    fields: Vec<FieldRow>,
    evs: Vec<EvRow>,
    pub(super) notes: Vec<String>,
    #[serde(skip)]
    title: String,
}

#[derive(Debug, Serialize)]
struct FieldRow {
    name: String,
    width: u8,
    init: u32,
    min: u32,
    max: u32,
    mask: u32,
    /// How many values it takes.
    values: u64,
    /// Its bits in the EV, or in the IPv6 address.
    high: u32,
    low: u32,
    /// `*` for a generated bit.
    pattern: String,
    #[serde(skip)]
    place: String,
}

#[derive(Debug, Serialize)]
struct EvRow {
    ev: u32,
    udp_source_port: u16,
    flow_label: u16,
    /// Destination of the outer header, with SRv6.
    #[serde(skip_serializing_if = "Option::is_none")]
    segment: Option<Ipv6Addr>,
    /// The port (plane) of the NIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u8>,
    /// The value of each field, in the order of `fields`.
    hops: Vec<u32>,
}

impl Report {
    pub(super) fn new(
        format: Format,
        names: &[&str],
        expansion: &Expansion,
        count: u32,
        ports: Option<PortSet>,
    ) -> Report {
        let fields: Vec<FieldRow> = names
            .iter()
            .zip(expansion.fields())
            .zip(expansion.spans())
            .map(|((name, field), span)| FieldRow::new(name, field, span, format))
            .collect();
        let evs: Vec<EvRow> = expansion
            .iter()
            .take(count as usize)
            .zip(0..)
            .map(|(ev, index)| EvRow::new(expansion, &ev, ports.map(|ports| ports.dealt(index))))
            .collect();
        Report {
            schema: SCHEMA,
            format: format.name(),
            seed: expansion.seed(),
            space: expansion.space(),
            notes: notes(&fields, expansion, count),
            title: title(expansion, evs.len()),
            fields,
            evs,
        }
    }

    pub(super) fn write_json(&self, mut out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(&mut out, self)?;
        writeln!(out)
    }

    pub(super) fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}\n", self.title)?;
        let mut fields = table(["field", "bits", "in the packet", "pattern", "generated", "values"], &[1, 5]);
        for field in &self.fields {
            fields.add_row(field.cells());
        }
        print(out, "fields (* is a generated bit)", &fields)?;
        let first = self.evs.first();
        let (segments, ports) =
            (first.is_some_and(|ev| ev.segment.is_some()), first.is_some_and(|ev| ev.port.is_some()));
        let mut head = vec!["EV", "UDP source port", "flow label"];
        head.extend(ports.then_some("port"));
        head.extend(segments.then_some("IPv6 destination"));
        head.extend(self.fields.iter().map(|field| field.name.as_str()));
        let mut evs = table(head, &[1]);
        for ev in &self.evs {
            evs.add_row(ev.cells(&self.fields));
        }
        print(out, "entropy values, fields in binary", &evs)
    }
}

impl FieldRow {
    fn new(name: &str, field: &EvField, span: Span, format: Format) -> FieldRow {
        let EvField { width, init, min, max, mask } = *field;
        let bit = |value: u32, at: u8| value >> at & 1 == 1;
        let pattern = (0..width).rev().map(|at| match (bit(mask, at), bit(init, at)) {
            (true, _) => '*',
            (false, true) => '1',
            (false, false) => '0',
        });
        FieldRow {
            name: name.to_owned(),
            width,
            init,
            min,
            max,
            mask,
            values: field.values(),
            high: span.high,
            low: span.low,
            pattern: pattern.collect(),
            place: place(span, format),
        }
    }

    fn cells(&self) -> [String; 6] {
        let generated = if self.mask == 0 { "fixed".to_owned() } else { format!("{} to {}", self.min, self.max) };
        [
            self.name.clone(),
            bits(self.high, self.low),
            self.place.clone(),
            self.pattern.clone(),
            generated,
            self.values.to_string(),
        ]
    }
}

impl EvRow {
    fn new(expansion: &Expansion, ev: &Expanded, port: Option<u8>) -> EvRow {
        EvRow {
            ev: ev.ev,
            udp_source_port: ev.udp_source_port(),
            flow_label: ev.flow_label(),
            segment: ev.segment,
            port,
            hops: expansion.values(ev.ev).unwrap_or_default(),
        }
    }

    fn cells(&self, fields: &[FieldRow]) -> Vec<String> {
        let mut cells =
            vec![format!("{:#010x}", self.ev), self.udp_source_port.to_string(), format!("{:#06x}", self.flow_label)];
        cells.extend(self.port.map(|port| port.to_string()));
        cells.extend(self.segment.map(|segment| segment.to_string()));
        let hops = self.hops.iter().zip(fields);
        cells.extend(hops.map(|(value, field)| format!("{value:0width$b}", width = usize::from(field.width))));
        cells
    }
}

/// Where a switch finds the bits.
fn place(Span { high, low }: Span, format: Format) -> String {
    if format == Format::Srv6 {
        return format!("IPv6 destination {}", bits(high, low));
    }
    let label =
        (high >= PORT_BITS).then(|| format!("flow label {}", bits(high - PORT_BITS, low.saturating_sub(PORT_BITS))));
    let port = (low < PORT_BITS).then(|| format!("UDP source port {}", bits(high.min(PORT_BITS - 1), low)));
    label.into_iter().chain(port).collect::<Vec<_>>().join(", ")
}

fn bits(high: u32, low: u32) -> String {
    if high == low { high.to_string() } else { format!("{high}:{low}") }
}

fn title(expansion: &Expansion, shown: usize) -> String {
    let space = expansion.space();
    let plural = if space == 1 { "" } else { "s" };
    let unused = match (expansion.format(), expansion.format().unused()) {
        (_, 0) => String::new(),
        (EvFormat::Usid(_), bits) => format!(", last {bits} bits of the address 0"),
        (_, bits) => format!(", lowest {bits} bits 0"),
    };
    format!(
        "{}{unused}: {space} EV{plural}, {shown} of them shown, in the order of seed {}",
        expansion.format(),
        expansion.seed()
    )
}

/// What the reader may not have meant.
fn notes(fields: &[FieldRow], expansion: &Expansion, count: u32) -> Vec<String> {
    let mut notes = Vec::new();
    for FieldRow { name, init, mask, .. } in fields {
        if init & mask != 0 {
            notes.push(format!(
                "field {name}: init {init:#x} has bits under mask {mask:#x}, which are generated instead; for a fixed value use fixed={init:#x}"
            ));
        }
    }
    if u64::from(count) > expansion.space() {
        notes.push(format!("{count} EVs were asked for, and the fields allow {}", expansion.space()));
    }
    let port_varies =
        fields.iter().any(|field| field.low < PORT_BITS && u64::from(field.mask) << field.low & 0xFFFF != 0);
    if matches!(expansion.format(), EvFormat::Structured(_)) && expansion.space() > 1 && !port_varies {
        notes.push(
            "the UDP source port is the same in every EV: paths differ only where switches read the IPv6 flow label; \
             --format udp puts the fields into the port"
                .to_owned(),
        );
    }
    notes
}

fn print(out: &mut dyn Write, title: &str, table: &Table) -> io::Result<()> {
    writeln!(out, "{title}")?;
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    writeln!(out)
}

/// A table whose columns with these numbers are of numbers.
fn table<'a>(head: impl IntoIterator<Item = &'a str>, numbers: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(head);
    for part in [TableComponent::HeaderLines, TableComponent::MiddleHeaderIntersections] {
        table.set_style(part, '─');
    }
    for &column in numbers {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
