//! Standard output.

use std::io::{self, BufWriter, IsTerminal, Write};

/// Bytes that are written at once.
const CHUNK: usize = 1 << 16;

/// Standard output, in large writes; line by line where somebody waits for each (`live`, or a terminal).
pub(super) fn standard_output(live: bool) -> Box<dyn Write> {
    let out = io::stdout();
    if live || out.is_terminal() { Box::new(out.lock()) } else { Box::new(BufWriter::with_capacity(CHUNK, out.lock())) }
}
