//! Two processes, each with a NIC.

#[path = "processes/example.rs"]
mod example;
#[path = "processes/killed.rs"]
mod killed;
#[path = "processes/perf.rs"]
mod perf;
