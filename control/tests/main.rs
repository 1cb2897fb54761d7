//! The tests of the command and of the control side, as one program: many would each be linked with all of it. Each test has a
//! process of its own all the same, by cargo-nextest. One module's: `cargo nextest run -p control -E 'test(/^ctl::/)'`.

mod bench;
mod command_line;
mod config;
mod congestion;
mod controlled;
mod controller;
mod ctl;
mod decode;
mod ev;
mod exposition;
mod fabric;
mod failover;
mod host;
mod processes;
mod records;
mod replay;
mod report;
mod run;
mod running;
mod sim;
mod watching;
