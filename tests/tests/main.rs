//! Two NICs in virtual time, as one program: many would each be linked with all of it. One module's tests:
//! `cargo nextest run -p mrcnic-tests -E 'test(/^writes::/)'`.

mod dissector;
mod endpoint;
mod groups;
mod hostile;
mod late;
mod many_qps;
mod model;
mod port_log;
mod survey;
mod table_one;
mod table_one_paths;
mod table_one_resilience;
mod tap;
mod write_imm;
mod writes;
