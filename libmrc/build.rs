//! Types of libibverbs from the system's header, and the name that programs look for at run time.

use std::env;
use std::path::PathBuf;
use std::process::exit;

/// Ends the build with one line.
fn fail(why: &str) -> ! {
    println!("cargo::error={why}");
    exit(0);
}

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,lib_mrc.so");
    println!("cargo::rerun-if-changed=build.rs");
    let types = [
        "ibv_device",
        "ibv_context",
        "ibv_pd",
        "ibv_mr",
        "ibv_wc",
        "ibv_send_wr",
        "ibv_recv_wr",
        "ibv_sge",
        "ibv_qp_attr",
        "ibv_qp_cap",
        "ibv_qp_attr_mask",
        "ibv_device_attr",
        "ibv_port_attr",
        "ibv_gid",
        "ibv_gid_entry",
        "ibv_gid_type",
        "ibv_wc_status",
        "ibv_wc_opcode",
        "ibv_wc_flags",
        "ibv_access_flags",
        "ibv_send_flags",
        "ibv_event_type",
        "ibv_node_type",
        "ibv_port_state",
        "ibv_wr_opcode",
        "ibv_qp_create_send_ops_flags",
        "ibv_atomic_cap",
    ];
    let builder = bindgen::Builder::default()
        .header_contents("verbs.h", "#include <infiniband/verbs.h>\n")
        .allowlist_function("^$")
        .allowlist_var("IBV_LINK_LAYER_.*")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .layout_tests(true)
        .generate_comments(false)
        .derive_default(true)
        .impl_debug(true);
    let builder = types.iter().fold(builder, |builder, name| builder.allowlist_type(*name));
    let Ok(bindings) = builder.generate() else {
        fail(
            "libmrc needs the headers of libibverbs, and libclang to read them: run scripts/setup, or apt install libibverbs-dev libclang-dev",
        );
    };
    let Some(out) = env::var_os("OUT_DIR").map(PathBuf::from) else { fail("there is no OUT_DIR: build with cargo") };
    if let Err(e) = bindings.write_to_file(out.join("verbs.rs")) {
        fail(&format!("can't write the bindings: {e}"));
    }
}
