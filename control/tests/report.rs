//! `mrcnic report`: pages from records, by the library and by the binary.

mod fixtures;
mod streams;

use control::report::{Made, make};
use fixtures::{Dir, EVENTS, FLOWS, LINKS, MONITOR, STATS};
use std::process::Command;

fn mrcnic() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin("mrcnic"))
}

/// A page as a tree; it must be well-formed.
fn parse(html: &str) -> roxmltree::Document<'_> {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..roxmltree::ParsingOptions::default() };
    roxmltree::Document::parse_with_options(html, options).expect("the page is well-formed")
}

fn text(node: roxmltree::Node<'_, '_>) -> String {
    node.descendants().filter(|node| node.is_text()).filter_map(|node| node.text()).collect()
}

/// The cells of a table, by its id.
fn table(html: &str, id: &str) -> Vec<Vec<String>> {
    let page = parse(html);
    let table = page.descendants().find(|node| node.attribute("id") == Some(id)).expect("the table");
    let rows = table.children().filter(|row| row.has_tag_name("tr"));
    rows.map(|row| row.children().map(text).collect()).collect()
}

/// The figures of a page's summary.
fn summary(made: &Made) -> Vec<(String, String)> {
    table(&made.html, "summary").into_iter().map(|row| (row[0].clone(), row[1].clone())).collect()
}

fn figure(made: &Made, name: &str) -> String {
    let summary = summary(made);
    summary.iter().find(|(of, _)| of == name).unwrap_or_else(|| panic!("{name} in {summary:?}")).1.clone()
}

/// The panels of a page: title, whole text, and whether there is a picture.
fn panels(made: &Made) -> Vec<(String, String, bool)> {
    let page = parse(&made.html);
    let panels = page.descendants().filter(|node| node.attribute("class") == Some("panel"));
    let panel = |node: roxmltree::Node<'_, '_>| {
        let title = node.descendants().find(|node| node.has_tag_name("h3")).map(text).unwrap_or_default();
        let drawn = node.descendants().any(|node| node.attribute("class") == Some("plot"));
        (title, text(node), drawn)
    };
    panels.map(panel).collect()
}

fn panel(made: &Made, begins: &str) -> (String, String, bool) {
    let panels = panels(made);
    let found = panels.iter().find(|(title, ..)| title.starts_with(begins));
    found.unwrap_or_else(|| panic!("{begins} in {:?}", panels.iter().map(|panel| &panel.0).collect::<Vec<_>>())).clone()
}

#[test]
fn the_summary_of_live_records_is_exact() {
    let dir = Dir::new(&[("mrc-transport-stats.csv", STATS), ("mrc-events.csv", EVENTS), ("mrc-monitor.csv", MONITOR)]);
    let made = make(dir.path(), "Run").unwrap();
    assert_eq!(
        summary(&made),
        [
            ("Duration", "3 ms"),
            ("NICs", "2"),
            ("Work requests", "12 completed"),
            ("Payload received", "3,000,000 bytes"),
            ("Mean goodput", "8 Gbit/s, all together"),
            (
                "Sent again",
                "9 packets of 750 data packets (1.2 %): 4 after a gap in a SACK, 3 by timer, 2 after a NACK, 1 needlessly"
            ),
            ("Frames dropped", "5 by NICs"),
            ("Errors", "1 of queue pairs, 2 of work requests"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
    assert_eq!(made.missing, ["flows", "links", "evs"]);
    for (title, needle) in [
        ("Goodput: payload received", "NIC b"),
        ("Wire rate: all frames sent", "NIC a"),
        ("Wire rate: all frames received", "NIC a"),
        ("Congestion windows", "bytes in flight"),
        ("Round-trip times", "base RTT"),
        ("Packets sent again", "timer"),
        ("Reorder depth", "largest"),
        ("Entropy values by state", "assumed bad"),
    ] {
        let (_, text, drawn) = panel(&made, title);
        assert!(drawn && text.contains(needle), "{title}: {text}");
    }
}

#[test]
fn goodput_is_what_came_since_the_row_before_over_the_interval() {
    let dir = Dir::new(&[("mrc-transport-stats.csv", STATS)]);
    let (_, text, _) = panel(&make(dir.path(), "Run").unwrap(), "Goodput");
    // 1,000,000 bytes in 1 ms are 8 Gbit/s.
    assert!(text.contains("1 ms\nNIC a: 0 Gbit/s\nNIC b: 8 Gbit/s"), "{text}");
    assert!(text.contains("3 ms\nNIC a: 0 Gbit/s\nNIC b: 8 Gbit/s"), "{text}");
    assert!(text.contains("Gbit/s") && text.contains("time, ms"), "{text}");
}

#[test]
fn a_nic_that_began_anew_counts_from_nothing_again() {
    let rows = "time_us,nic,interval_us,total_data_bytes_rx\n1000,a,1000,700\n2000,a,1000,1000\n3000,a,1000,50\n";
    let dir = Dir::new(&[("mrc-transport-stats.csv", rows)]);
    assert_eq!(figure(&make(dir.path(), "Run").unwrap(), "Payload received"), "1,050 bytes");
}

#[test]
fn json_lines_give_the_same_page_as_csv() {
    let csv = Dir::new(&[("mrc-transport-stats.csv", STATS), ("mrc-events.csv", EVENTS), ("mrc-monitor.csv", MONITOR)]);
    let json = Dir::new(&[]);
    for (name, rows) in [("mrc-transport-stats", STATS), ("mrc-events", EVENTS), ("mrc-monitor", MONITOR)] {
        json.write(&format!("{name}.jsonl"), &fixtures::json_lines(rows));
    }
    let (csv, json) = (make(csv.path(), "Run").unwrap(), make(json.path(), "Run").unwrap());
    assert_eq!(summary(&csv), summary(&json));
    assert_eq!(panels(&csv), panels(&json));
}

#[test]
fn packets_by_entropy_value_tell_how_even_the_rotation_is() {
    let dir = Dir::new(&[("mrc-monitor.csv", MONITOR)]);
    let made = make(dir.path(), "Run").unwrap();
    let (_, text, drawn) = panel(&made, "Data packets sent by entropy value");
    assert!(drawn && text.contains("3 distinct values: 2 used 1 times, 1 used 2 times."), "{text}");
    assert!(text.contains("256\npackets: 2") && text.contains("258\npackets: 1"), "{text}");
    let (title, _, drawn) = panel(&made, "PSNs of data packets");
    assert!(drawn && title.ends_with("of queue pair 0x10 at 10.0.0.1"), "{title}");
    let (_, text, drawn) = panel(&made, "PSNs around the first packet");
    assert!(drawn && text.contains("sent again"), "{text}");
    let (_, text, _) = panel(&made, "Packets that the monitor saw");
    assert!(text.contains("1 were trimmed and 2 marked by switches"), "{text}");
    let (_, text, _) = panel(&made, "PSNs of data packets");
    for kind in ["sent (4)", "received (2)", "sent again (1)", "received trimmed (1)"] {
        assert!(text.contains(kind), "{kind}: {text}");
    }
    // 24 bits go round: 0xffffff is one before 0.
    assert!(text.contains("16,777,21"), "{text}");
}

#[test]
fn latencies_are_of_requests_that_were_created_and_completed() {
    let dir = Dir::new(&[("mrc-events.csv", EVENTS)]);
    let made = make(dir.path(), "Run").unwrap();
    let (_, text, drawn) = panel(&made, "Latency of work requests");
    assert!(drawn && text.contains("write (2)") && text.contains("write_imm (1)"), "{text}");
    assert!(text.contains("2 work requests have no beginning or no end"), "{text}");
    let (_, text, _) = panel(&made, "Latency by operation");
    assert!(text.contains("write210") && text.contains("write_imm150"), "count and median: {text}");
    assert_eq!(figure(&made, "Errors"), "1 of queue pairs, 1 of work requests");
    assert_eq!(figure(&made, "Work requests"), "5 completed");
}

#[test]
fn requests_of_one_number_end_in_the_order_of_their_creation() {
    let rows = "time_us,event,local_qp,wr_id,operation,status\n10,wr_created,1,5,write,\n20,wr_created,1,5,write,\n\
                110,wr_completed,1,5,write,success\n120,wr_completed,1,5,write,success\n";
    let made = make(Dir::new(&[("mrc-events.csv", rows)]).path(), "Run").unwrap();
    let (_, text, _) = panel(&made, "Latency by operation");
    assert!(text.contains("write2100100100100100"), "two of 100 us: {text}");
}

#[test]
fn a_first_row_after_a_long_wait_does_not_make_all_points_as_wide() {
    let mut rows = String::from("time_us,nic,interval_us,total_data_bytes_rx,calc_mean_rtt_ns\n50000,a,50000,0,\n");
    for n in 1..=20 {
        let rtt = if (8..12).contains(&n) { String::new() } else { "6000".into() };
        rows += &format!("{},a,1000,{},{rtt}\n", 50_000 + n * 1000, n * 125_000);
    }
    let made = make(Dir::new(&[("mrc-transport-stats.csv", &rows)]).path(), "Run").unwrap();
    let (_, text, _) = panel(&made, "Goodput");
    assert_eq!(text.matches("NIC a: 1 Gbit/s").count(), 20, "{text}");
    let page = parse(&made.html);
    let title = page.descendants().find(|node| node.text() == Some("Round-trip times, over all NICs")).unwrap();
    let lines = title.parent().unwrap().descendants().filter(|node| node.has_tag_name("polyline"));
    let colour = |node: &roxmltree::Node<'_, '_>| node.attribute("stroke") == Some("#0072B2");
    assert_eq!(lines.filter(colour).count(), 2, "where there is no sample the line is interrupted");
}

#[test]
fn records_of_a_simulation_are_drawn_too() {
    let dir = Dir::new(&[("flows.csv", FLOWS), ("links.csv", LINKS)]);
    let made = make(dir.path(), "Run").unwrap();
    assert_eq!(figure(&made, "Duration"), "40 us");
    assert_eq!(figure(&made, "Flows"), "2");
    assert_eq!(figure(&made, "NICs"), "3");
    // (80 + 40 + 80) Gbit/s for 10 us each.
    assert_eq!(figure(&made, "Payload received"), "250,000 bytes");
    assert_eq!(figure(&made, "Sent again"), "7 packets; 3 timers ran out");
    assert_eq!(figure(&made, "Frames dropped"), "9 on links");
    let (_, text, drawn) = panel(&made, "Goodput of flows");
    assert!(drawn && text.contains("flow 0: NIC 0 to 2"), "{text}");
    assert!(text.contains("20 us\nflow 0: NIC 0 to 2: 0 Gbit/s"), "what has no row did not happen: {text}");
    let (_, text, _) = panel(&made, "Links with the most frames dropped");
    assert!(text.find("p0.t1.0>p0.t0.1").unwrap() < text.find("nic0.0>p0.t0.0").unwrap(), "{text}");
    assert!(panel(&made, "Queues of links").2 && panel(&made, "Use of links").2);
}

#[test]
fn what_simulations_write_is_read() {
    let dir = Dir::new(&[]);
    let scenario = dir.write(
        "short.toml",
        "duration = \"200us\"\n[fabric]\ntopology = \"paths\"\nnics = 2\npaths = 4\nlinks = { loss = 0.01 }\n\
         [[traffic]]\npattern = \"point-to-point\"\nsrc = 0\ndst = 1\nsize = \"64KiB\"\noutstanding = 4\n",
    );
    let records = dir.path().join("out");
    let run = mrcnic().arg("sim").arg(&scenario).arg("--json").arg("--records").arg(&records).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let report: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let made = make(&records, "Short").unwrap();
    let bytes: u64 = figure(&made, "Payload received").replace([',', ' '], "").replace("bytes", "").parse().unwrap();
    assert_eq!(Some(bytes), report["flows"][0]["bytes"].as_u64());
    let read: Vec<&str> = made.read.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(read, ["mrc-transport-stats.csv", "flows.csv", "links.csv", "evs.csv"]);
    assert!(panel(&made, "Entropy values of flows").2 && panel(&made, "Use of links").2);
}

#[test]
fn what_living_nics_write_is_read_and_nothing_is_left_undrawn() {
    let dir = Dir::new(&[]);
    let config = dir.write(
        "nic.toml",
        "[nic]\nenable_event_logging = true\nenable_monitor = true\ntransport_stats_report_interval = \"10ms\"\n",
    );
    for format in ["csv", "jsonl"] {
        let records = dir.path().join(format);
        let mut bench = mrcnic();
        bench.args([
            "bench",
            "--sizes",
            "64KiB",
            "--seconds",
            "0.1",
            "--loss",
            "0.01",
            "--trim",
            "0.01",
            "--workers",
            "1",
            "--json",
        ]);
        bench.args(["--record-format", format]).arg("--config").arg(&config).arg("--records").arg(&records);
        let run = bench.output().unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let made = make(&records, "Bench").unwrap();
        let read: Vec<&str> = made.read.iter().map(|(name, _)| name.split('.').next().unwrap()).collect();
        assert_eq!(
            (read, made.not_drawn),
            (vec!["mrc-transport-stats", "mrc-events", "mrc-monitor"], 0),
            "{:?}",
            panels(&made)
        );
        assert_eq!(figure(&made, "NICs"), "2");
        assert_eq!(figure(&made, "Errors"), "0 of queue pairs, 0 of work requests");
        let (_, text, _) = panel(&made, "Packets that the monitor saw");
        assert!(!text.contains("received, 0 were trimmed"), "{text}");
        assert!(panel(&made, "PSNs around the first packet").2);
    }
}

#[test]
fn the_page_is_one_file_that_loads_nothing_and_runs_nothing() {
    let all = [
        ("mrc-transport-stats.csv", STATS),
        ("mrc-events.csv", EVENTS),
        ("mrc-monitor.csv", MONITOR),
        ("flows.csv", FLOWS),
        ("links.csv", LINKS),
    ];
    let made = make(Dir::new(&all).path(), "Run").unwrap();
    let page = parse(&made.html);
    for element in page.descendants().filter(|node| node.is_element()) {
        let name = element.tag_name().name();
        assert!(!["script", "link", "img", "iframe", "object", "embed", "image", "use"].contains(&name), "{name}");
        for attribute in element.attributes() {
            assert!(!["src", "href", "srcset", "data"].contains(&attribute.name()), "{attribute:?}");
            assert!(!attribute.name().starts_with("on"), "{attribute:?}");
        }
    }
    for load in ["http://", "https://", "url(", "@import"] {
        assert!(!made.html.contains(load), "{load}");
    }
    assert!(made.html.contains("prefers-color-scheme: dark") && made.html.contains("@media print"));
    assert_eq!(made.html.matches("<!DOCTYPE html>").count(), 1);
}

#[test]
fn text_from_files_is_text_on_the_page() {
    let hostile = "<script>alert('x')</script>&\"";
    let quoted = hostile.replace('"', "\"\"");
    let stats = format!("time_us,nic,interval_us,total_data_bytes_rx\n1000,\"{quoted}\",1000,10\n");
    let links = format!("time_us,link,queue_bytes,used,dropped\n10,\"{quoted}\",5,0.5,1\n20,\"a\u{1}b\",5,0.5,1\n");
    let events =
        format!("time_us,event,wr_id,operation\n1,wr_created,1,\"{quoted}\"\n2,wr_completed,1,\n3,\"{quoted}\",,\n");
    let monitor = format!("time_us,direction,type,psn,ev\n1,tx,write,1,\"{quoted}\"\n2,tx,write,2,7\n");
    let dir = Dir::new(&[
        ("mrc-transport-stats.csv", &stats),
        ("links.csv", &links),
        ("mrc-events.csv", &events),
        ("mrc-monitor.csv", &monitor),
    ]);
    let made = make(dir.path(), hostile).unwrap();
    assert!(!made.html.contains("<script") && !made.html.contains("alert('x')</"), "nothing is taken for markup");
    let page = parse(&made.html);
    let whole = text(page.root_element());
    assert!(whole.matches(hostile).count() >= 5, "title, NIC, link, operation, event and value are shown as they are");
    assert!(whole.contains("a\u{fffd}b"), "what can't stand in a page is replaced");
}

#[test]
fn a_broken_row_is_named_by_file_and_line() {
    let cases = [
        (
            "flows.csv",
            "time_us,goodput_gbps\n10,1\n20,fast\n30,1\n",
            "flows.csv:3: goodput_gbps: \"fast\" is no number",
        ),
        ("flows.csv", "time_us,goodput_gbps\n10,1\n20\n30,1\n", "flows.csv:3: the row has 1 fields, and the header 2"),
        ("flows.csv", "time_us,goodput_gbps\n10,1\n,1\n", "flows.csv:3: time_us: is empty"),
        ("flows.csv", "time_us,goodput_gbps\n-1,1\n", "flows.csv:2: time_us: \"-1\" is no time in us"),
        ("flows.csv", "time_us,goodput_gbps\nNaN,1\n", "flows.csv:2: time_us: \"NaN\" is no time in us"),
        ("links.csv", "time_us,link,dropped\n1,a,-2\n", "links.csv:2: dropped: \"-2\" is no whole number"),
        (
            "mrc-events.jsonl",
            "{\"time_us\":1,\"event\":\"x\"}\n\n{\"time_us\":\n",
            "mrc-events.jsonl:3: this is no JSON object",
        ),
        ("mrc-events.jsonl", "[1]\n", "mrc-events.jsonl:1: this is no JSON object"),
        (
            "mrc-events.jsonl",
            "{\"time_us\":true,\"event\":\"x\"}\n",
            "mrc-events.jsonl:1: time_us: \"true\" is no time in us",
        ),
    ];
    for (name, rows, expected) in cases {
        let dir = Dir::new(&[(name, rows)]);
        let error = make(dir.path(), "Run").unwrap_err();
        assert!(error.to_string().contains(expected), "{error} instead of {expected}");
        let out = dir.path().join("page.html");
        let run = mrcnic().arg("report").arg(dir.path()).arg("--out").arg(&out).output().unwrap();
        assert_eq!((run.status.code(), out.exists()), (Some(1), false), "{expected}");
    }
}

#[test]
fn a_last_row_that_is_cut_short_is_left_out_and_the_page_says_so() {
    for (name, rows) in [
        ("flows.csv", "time_us,goodput_gbps,flow\n10,1,0\n20,2"),
        ("flows.jsonl", "{\"time_us\":10,\"goodput_gbps\":1,\"flow\":0}\n{\"time_us\":20,\"goodp"),
    ] {
        let dir = Dir::new(&[(name, rows)]);
        let made = make(dir.path(), "Run").unwrap();
        assert_eq!(made.read, [(name.to_owned(), 1)]);
        let files = table(&made.html, "files");
        assert!(
            files.iter().any(|row| row[0] == name && row[2] == "1 rows; the last row is cut short, and left out"),
            "{files:?}"
        );
    }
}

#[test]
fn a_missing_column_leaves_its_plot_out_and_is_an_error_only_if_nothing_can_be_drawn() {
    let some = "time_us,interval_us,total_data_bytes_rx,extra\n1000,1000,10,x\n2000,1000,30,y\n";
    let made = make(Dir::new(&[("mrc-transport-stats.csv", some)]).path(), "Run").unwrap();
    assert!(panel(&made, "Goodput").2);
    let (_, text, drawn) = panel(&made, "Reorder depth");
    assert!(!drawn && text.contains("no column calc_mean_reorder_depth, calc_max_reorder_depth"), "{text}");
    for (name, rows, column) in [
        ("mrc-transport-stats.csv", "time_us,extra\n1,2\n", "total_data_bytes_rx"),
        ("mrc-transport-stats.csv", "total_data_bytes_rx\n1\n", "time_us"),
        ("flows.jsonl", "{\"time_us\":1}\n", "goodput_gbps"),
        ("links.csv", "time_us,link\n1,a\n", "queue_bytes"),
        ("mrc-monitor.csv", "time_us\n1\n", "direction"),
    ] {
        let dir = Dir::new(&[(name, rows)]);
        let error = make(dir.path(), "Run").unwrap_err().to_string();
        assert!(error.contains(&format!("{name}: there is no column {column}")), "{error}");
        let run =
            mrcnic().arg("report").arg(dir.path()).arg("--out").arg(dir.path().join("page.html")).output().unwrap();
        assert_eq!(run.status.code(), Some(2));
    }
}

#[test]
fn a_directory_without_records_or_none_at_all_is_an_error_with_the_way_out() {
    let dir = Dir::new(&[("other.txt", "x")]);
    let none = make(dir.path(), "Run").unwrap_err().to_string();
    assert!(none.contains("there are no records") && none.contains("mrcnic sim"), "{none}");
    let nothing = make(&dir.path().join("nowhere"), "Run").unwrap_err().to_string();
    assert!(nothing.contains("can't read") && nothing.contains("nowhere"), "{nothing}");
    let file = make(&dir.path().join("other.txt"), "Run").unwrap_err().to_string();
    assert!(file.contains("it is no directory"), "{file}");
}

#[test]
fn files_without_a_row_give_a_page_that_says_so() {
    let header = "time_us,nic,interval_us,total_data_bytes_rx\n";
    let dir = Dir::new(&[("mrc-transport-stats.csv", header), ("flows.csv", ""), ("mrc-events.jsonl", "")]);
    let made = make(dir.path(), "Run").unwrap();
    assert_eq!(made.drawn, 0);
    assert!(panel(&made, "Goodput").1.contains("Not drawn: mrc-transport-stats has no values for it."));
    assert!(table(&made.html, "files").iter().any(|row| row[0] == "flows.csv" && row[2] == "0 rows"));
}

#[test]
fn the_command_writes_the_page_and_tells_what_is_in_it() {
    let dir = Dir::new(&[("flows.csv", FLOWS)]);
    let out = dir.path().join("page.html");
    let run =
        mrcnic().arg("report").arg(dir.path()).args(["--title", "Two flows"]).arg("--out").arg(&out).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let said = String::from_utf8(run.stdout).unwrap();
    assert!(said.contains("page.html: 4 plots and tables, from flows.csv (4 rows)"), "{said}");
    assert!(said.contains("not there: mrc-transport-stats, mrc-events, mrc-monitor, links, evs"), "{said}");
    let html = std::fs::read_to_string(&out).unwrap();
    assert!(html.contains("<title>Two flows</title>"));
    let piped = mrcnic().arg("report").arg(dir.path()).args(["--title", "Two flows", "--out", "-"]).output().unwrap();
    assert_eq!(String::from_utf8(piped.stdout).unwrap(), html);
    let nowhere = mrcnic().arg("report").arg(dir.path()).args(["--out", "/nowhere/page.html"]).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("can't write /nowhere/page.html"));
}
