//! The header for C is made of the source.

use std::path::Path;

/// Where the header stands.
const HEADER: &str = "include/mrcnic_mrc.h";
/// Set to write the header, rather than to compare it.
const WRITE: &str = "MRCNIC_WRITE_HEADER";

#[test]
fn the_header_is_that_of_the_source() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let sources = [
        "abi",
        "channel",
        "context",
        "cq",
        "ctl",
        "ctl_abi",
        "ctl_cc",
        "ctl_endpoint",
        "ctl_ev",
        "ctl_event",
        "ctl_format",
        "event",
        "hint",
        "post",
        "qp",
    ];
    let builder = cbindgen::Builder::new().with_config(config);
    let builder = sources.iter().fold(builder, |builder, name| builder.with_src(root.join(format!("src/{name}.rs"))));
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let path = root.join(HEADER);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == String::from_utf8(made).unwrap(), "run this test with {WRITE}=1 to write {HEADER} anew");
}
