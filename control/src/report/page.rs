//! The page: one HTML file, which is well-formed XML too, with its style and its pictures in it. Whatever comes from a file is text, and
//! maud escapes all text.

use super::chart::{self, Drawing, Mark, PALETTE, attribute, colour};
use super::panel::{Body, Panel, Section};
use super::source::is_odd;
use super::summary::{Figure, Span};
use crate::error::Error;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::fmt::Write as _;

const STYLE: &str = include_str!("page.css");

/// A file of records: its name, what it holds, and what became of it.
pub(super) type FileRow = (String, &'static str, String);

/// All of a page.
pub(super) struct Page<'a> {
    pub(super) title: &'a str,
    pub(super) from: &'a str,
    pub(super) figures: &'a [Figure],
    pub(super) sections: &'a [Section],
    pub(super) files: &'a [FileRow],
    pub(super) span: Span,
}

impl Page<'_> {
    /// The page as HTML.
    ///
    /// # Errors
    /// What plotters says: never, of pictures in memory.
    pub(super) fn html(&self) -> Result<String, Error> {
        let sections = self.sections.iter().map(|section| self.section(section)).collect::<Result<Vec<_>, _>>()?;
        let clean = |text: &str| {
            text.chars().map(|c| if is_odd(c) { char::REPLACEMENT_CHARACTER } else { c }).collect::<String>()
        };
        let (title, from) = (clean(self.title), clean(self.from));
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    // Both of HTML and of XML, which maud's own form is not.
                    (PreEscaped("<meta charset=\"utf-8\"/><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>"))
                    title { (title) }
                    style { (PreEscaped(STYLE)) (PreEscaped(palette())) }
                }
                body {
                    h1 { (title) }
                    p class="from" { "From the records in " (from) " by mrcnic " (env!("CARGO_PKG_VERSION")) "." }
                    h2 { "Summary" }
                    div class="wide" {
                        table class="words" id="summary" {
                            @for (name, value) in self.figures { tr { th scope="row" { (name) } td { (value) } } }
                        }
                    }
                    @for section in &sections { (section) }
                    h2 { "Files" }
                    div class="wide" {
                        table class="words" id="files" {
                            @for (name, what, state) in self.files {
                                tr { th scope="row" { (name) } td { (what) } td { (state) } }
                            }
                        }
                    }
                }
            }
        };
        Ok(page.into_string())
    }

    fn section(&self, section: &Section) -> Result<Markup, Error> {
        let panels = section.panels.iter().map(|panel| self.panel(panel)).collect::<Result<Vec<_>, _>>()?;
        Ok(html! {
            h2 { (section.title) }
            @for panel in &panels { (panel) }
        })
    }

    fn panel(&self, panel: &Panel) -> Result<Markup, Error> {
        let body = match &panel.body {
            Body::Nothing(why) => html! { p class="none" { "Not drawn: " (why) } },
            Body::Table { header, rows } => html! {
                div class="wide" {
                    table {
                        tr { @for name in header { th scope="col" { (name) } } }
                        @for row in rows { tr { @for cell in row { td { (cell) } } } }
                    }
                }
            },
            Body::Plot(plot) => {
                let drawing =
                    chart::draw(plot, self.span).map_err(|why| Error::Failure(format!("{}: {why}", panel.title)))?;
                html! { (legend(&drawing)) div class="plot" { (PreEscaped(&drawing.svg)) } }
            }
        };
        Ok(html! {
            div class="panel" {
                h3 { (panel.title) }
                (body)
                @for note in &panel.notes { p class="note" { (note) } }
            }
        })
    }
}

fn legend(drawing: &Drawing) -> Markup {
    html! {
        @if !drawing.legend.is_empty() {
            ul class="legend" {
                @for (n, (mark, name)) in drawing.legend.iter().enumerate() {
                    li { (swatch(*mark, &attribute(colour(n)))) (name) }
                }
            }
        }
    }
}

fn swatch(mark: Mark, colour: &str) -> Markup {
    html! {
        svg viewBox="0 0 28 12" aria-hidden="true" {
            @match mark {
                Mark::Line => line x1="0" y1="6" x2="28" y2="6" stroke=(colour) stroke-width="3" {},
                Mark::Circle => circle cx="14" cy="6" r="3" fill=(colour) {},
                Mark::Ring => circle cx="14" cy="6" r="4" fill="none" stroke=(colour) stroke-width="1.5" {},
                Mark::Triangle => polygon points="14,1 19,11 9,11" fill=(colour) {},
                Mark::Cross => path d="M10 2 L18 10 M18 2 L10 10" stroke=(colour) stroke-width="2" {},
            }
        }
    }
}

/// The palette's rules: dashes, and the colours on dark ground. On light ground they are what the pictures say.
fn palette() -> String {
    let (mut dashes, mut dark) = (String::new(), String::new());
    for (light, on_dark, dashed) in PALETTE {
        let (light, on_dark) = (attribute(light), attribute(on_dark));
        if dashed {
            let _ = writeln!(dashes, "svg [stroke=\"{light}\"] {{ stroke-dasharray: 7 4; }}");
        }
        let _ = writeln!(
            dark,
            "svg [stroke=\"{light}\"] {{ stroke: {on_dark}; }} svg [fill=\"{light}\"] {{ fill: {on_dark}; }}"
        );
    }
    format!("{dashes}@media screen and (prefers-color-scheme: dark) {{\n{dark}}}\n")
}
