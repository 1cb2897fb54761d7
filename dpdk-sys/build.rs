//! Generates the bindings, compiles the shim, and says what to install when it can't.

use std::env;
use std::panic;
use std::path::{Path, PathBuf};
use std::process::exit;

/// DPDK 21.11 renamed the `RTE_ETH_` macros that the shim uses.
const OLDEST: &str = "21.11";

/// The libraries called directly. Drivers come as plugins, which EAL loads; `rte_net_ring` is linked because it
/// is the one driver with an interface of its own (and pkg-config leaves it out).
const LIBRARIES: [&str; 7] =
    ["rte_net_ring", "rte_bus_vdev", "rte_ethdev", "rte_mbuf", "rte_mempool", "rte_ring", "rte_eal"];

const FUNCTIONS: [&str; 43] = [
    "mrc_.*",
    "rte_dev_dma_map",
    "rte_dev_dma_unmap",
    "rte_dev_probe",
    "rte_eal_alarm_set",
    "rte_eal_init",
    "rte_eal_iova_mode",
    "rte_eth_dev_adjust_nb_rx_tx_desc",
    "rte_eth_dev_close",
    "rte_eth_dev_configure",
    "rte_eth_dev_get_mtu",
    "rte_eth_dev_get_port_by_name",
    "rte_eth_dev_info_get",
    "rte_eth_dev_start",
    "rte_eth_dev_stop",
    "rte_eth_from_rings",
    "rte_eth_macaddr_get",
    "rte_eth_promiscuous_enable",
    "rte_eth_allmulticast_enable",
    "rte_eth_rx_queue_setup",
    "rte_eth_stats_get",
    "rte_eth_tx_done_cleanup",
    "rte_eth_tx_queue_setup",
    "rte_extmem_register",
    "rte_extmem_unregister",
    "rte_get_tsc_hz",
    "rte_mbuf_platform_mempool_ops",
    "rte_mem_virt2memseg_list",
    "rte_mempool_avail_count",
    "rte_mempool_free",
    "rte_pktmbuf_clone",
    "rte_pktmbuf_copy",
    "rte_pktmbuf_free_bulk",
    "rte_pktmbuf_pool_create_by_ops",
    "rte_ring_create",
    "rte_ring_free",
    "rte_strerror",
    "rte_thread_register",
    "rte_thread_unregister",
    "rte_vdev_init",
    "rte_vdev_uninit",
    "rte_version",
    "rte_eth_dev_socket_id",
];

/// Ends the build with one line. (After a failing exit code Cargo would print all that the script wrote.)
fn fail(why: &str) -> ! {
    println!("cargo::error={why}");
    exit(0);
}

fn main() {
    println!("cargo::rerun-if-changed=src/shim.c");
    println!("cargo::rerun-if-changed=src/shim.h");

    let dpdk = pkg_config::Config::new()
        .atleast_version(OLDEST)
        .cargo_metadata(false)
        .env_metadata(true)
        .probe("libdpdk")
        .unwrap_or_else(|e| fail(&missing_dpdk(&e)));
    // pkg-config also names instruction sets (-march) and a header to force in; both must reach both compilers.
    let flags = cflags();

    require_libclang();
    bindings(&flags);
    shim(&flags);

    for path in &dpdk.link_paths {
        println!("cargo::rustc-link-search=native={}", path.display());
    }
    for library in LIBRARIES {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
}

fn missing_dpdk(e: &pkg_config::Error) -> String {
    match e {
        pkg_config::Error::Command { .. } => {
            "pkg-config is not installed: run scripts/setup, or apt install pkg-config libdpdk-dev libclang-dev"
                .to_owned()
        }
        _ => format!(
            "DPDK {OLDEST} or later was not found by pkg-config (libdpdk): run scripts/setup, or apt install \
             libdpdk-dev libclang-dev"
        ),
    }
}

fn cflags() -> Vec<String> {
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_owned());
    let output = std::process::Command::new(program).args(["--cflags", "libdpdk"]).output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect()
        }
        _ => fail("pkg-config --cflags libdpdk failed: run scripts/setup, or apt install libdpdk-dev libclang-dev"),
    }
}

/// bindgen loads libclang at run time and panics without it.
fn require_libclang() {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let found = panic::catch_unwind(bindgen::clang_version).is_ok();
    panic::set_hook(hook);
    if !found {
        fail("libclang was not found: run scripts/setup, or apt install libclang-dev (or set LIBCLANG_PATH)");
    }
}

fn bindings(flags: &[String]) {
    let mut builder = bindgen::Builder::default()
        .header("src/shim.h")
        .clang_args(flags)
        .parse_callbacks(Box::new(bindgen::CargoCallbacks::new()))
        .allowlist_var("mrc_rss_addresses|mrc_multi_segs")
        // Packed and aligned at once, which Rust refuses; or nobody looks inside.
        .opaque_type("rte_mbuf|rte_mempool|rte_memseg_list|rte_ring|rte_device|rte_arp_.*|rte_gtp_.*|rte_l2tpv2_.*|rte_eth_switch_info")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(true)
        .generate_comments(false)
        .layout_tests(true);
    for function in FUNCTIONS {
        builder = builder.allowlist_function(function);
    }
    // Of rte_eth_rx_mq_mode and rte_iova_mode the modes in use.
    builder = builder.allowlist_var("RTE_ETH_MQ_RX_(NONE|RSS)|RTE_IOVA_VA|RTE_PKTMBUF_HEADROOM|RING_F_S[PC]_(ENQ|DEQ)");
    let generated = builder.generate().unwrap_or_else(|e| {
        fail(&format!("the bindings to DPDK could not be generated: {}", one_line(&e.to_string())))
    });
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    generated
        .write_to_file(Path::new(&out).join("bindings.rs"))
        .unwrap_or_else(|e| fail(&format!("the bindings to DPDK could not be written: {e}")));
}

fn shim(flags: &[String]) {
    let mut build = cc::Build::new();
    build.file("src/shim.c").opt_level(3).warnings(true);
    // Nobody puts functions of their own in the place of the shim's, so they may be inlined.
    build.flag_if_supported("-fvisibility=hidden");
    // A function that no header declares would be taken to return an int.
    build.flag_if_supported("-Werror=implicit-function-declaration");
    for flag in flags {
        build.flag(flag);
    }
    if let Err(e) = build.try_compile("mrc_shim") {
        fail(&format!("the C shim could not be compiled (apt install gcc libc6-dev): {}", one_line(&e.to_string())));
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
