//! Two processes, each with a NIC.

mod example;
mod killed;
mod perf;
