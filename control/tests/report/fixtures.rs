//! Records in directories of their own.

use std::path::{Path, PathBuf};

/// Two NICs, three intervals of 1 ms; a sends to b.
pub(crate) const STATS: &str = "\
time_us,node_id,nic,interval_us,total_bytes_tx,total_bytes_rx,total_data_pkts_tx,total_data_bytes_rx,total_rtx_pkts,total_rtx_sack,\
total_rtx_rto,total_rtx_nack,total_spurious_rtx,calc_mean_reorder_depth,calc_max_reorder_depth,total_drops,total_qp_errors,\
total_wr_completed,total_wr_failed,num_qps,num_groups,num_destinations,num_evs_good,num_evs_skipped,num_evs_assumed_bad,\
num_evs_denied,calc_mean_cwnd_bytes,calc_min_cwnd_bytes,calc_max_cwnd_bytes,calc_inflight_bytes,calc_mean_rtt_ns,\
calc_min_rtt_ns,calc_max_rtt_ns,calc_base_rtt_ns,calc_mean_queue_delay_ns,unknown
1000,0,a,1000,1020000,20000,250,0,3,1,1,1,1,,,1,0,4,0,1,1,1,100,0,0,0,400000,300000,444000,350000,7000,6000,9000,6000,1000,x
1000,1,b,1000,20000,1020000,0,1000000,0,0,0,0,0,1.5,4,0,0,0,0,1,1,1,0,0,0,0,,,,0,,,,,,x
2000,0,a,1000,2040000,40000,500,0,6,2,2,2,1,,,2,0,8,1,1,1,1,98,1,1,0,380000,280000,444000,340000,7500,6000,9900,6000,1500,x
2000,1,b,1000,40000,2040000,0,2000000,0,0,0,0,0,2.5,6,1,1,0,0,1,1,1,0,0,0,0,,,,0,,,,,,x
3000,0,a,1000,3060000,60000,750,0,9,4,3,2,1,,,3,0,12,2,1,1,1,99,0,0,1,390000,290000,444000,345000,7200,6000,9500,6000,1200,x
3000,1,b,1000,60000,3060000,0,3000000,0,0,0,0,0,2,5,2,1,0,0,1,1,1,0,0,0,0,,,,0,,,,,,x
";

/// Three requests with latencies of 10, 50 and 10 us, one without a beginning, one without an end, one that failed; and a receive.
pub(crate) const EVENTS: &str = "\
time_us,node_id,event,local_addr,local_qp,remote_addr,remote_qp,wr_id,operation,bytes,status
1,0,qp_created,10.0.0.1,0x10,10.0.0.2,0x20,,,,
100,0,wr_created,10.0.0.1,0x10,10.0.0.2,0x20,1,write,4096,
101,1,wr_created,10.0.0.2,0x20,10.0.0.1,0x10,1,receive,,
105,0,wr_created,10.0.0.1,0x10,10.0.0.2,0x20,2,write_imm,4096,
110,0,wr_completed,10.0.0.1,0x10,10.0.0.2,0x20,1,write,4096,success
155,0,wr_completed,10.0.0.1,0x10,10.0.0.2,0x20,2,write_imm,4096,success
156,1,wr_completed,10.0.0.2,0x20,10.0.0.1,0x10,1,receive,4096,success
160,0,wr_created,10.0.0.1,0x10,10.0.0.2,0x20,1,write,4096,
170,0,wr_completed,10.0.0.1,0x10,10.0.0.2,0x20,1,write,4096,success
180,0,wr_completed,10.0.0.1,0x11,10.0.0.2,0x20,1,write,4096,success
190,0,wr_created,10.0.0.1,0x10,10.0.0.2,0x20,7,write,4096,
195,0,wr_created,10.0.0.1,0x10,10.0.0.2,0x20,8,write,4096,
200,0,wr_completed,10.0.0.1,0x10,10.0.0.2,0x20,8,write,4096,retry_exceeded
210,0,qp_error,10.0.0.1,0x10,10.0.0.2,0x20,,,,
";

/// Four packets over three values, around the end of the PSNs; one is trimmed and sent again.
pub(crate) const MONITOR: &str = "\
time_us,node_id,direction,type,psn,ev,frame_bytes,payload_bytes,local_addr,local_qp,remote_addr,remote_qp,port,ecn,trimmed,rtx_cause,nack_code,ev_state,verdict
1.0,0,tx,write,16777214,256,4174,4096,10.0.0.1,0x10,10.0.0.2,0x20,1,2,no,,,good,
1.1,0,tx,write,16777215,257,4174,4096,10.0.0.1,0x10,10.0.0.2,0x20,1,2,no,,,good,
1.2,0,tx,write,0,258,4174,4096,10.0.0.1,0x10,10.0.0.2,0x20,1,2,no,,,good,
1.3,0,tx,write,1,256,4174,4096,10.0.0.1,0x10,10.0.0.2,0x20,1,2,no,,,good,
2.0,1,rx,write,16777214,256,4174,4096,10.0.0.2,0x20,10.0.0.1,0x10,1,2,no,,,,accepted
2.1,1,rx,write,16777215,257,78,0,10.0.0.2,0x20,10.0.0.1,0x10,1,3,last_hop,,,,trimmed
2.2,1,rx,write,0,258,4174,4096,10.0.0.2,0x20,10.0.0.1,0x10,1,3,no,,,,accepted
2.3,1,tx,nack,16777215,257,82,0,10.0.0.2,0x20,10.0.0.1,0x10,1,2,no,,trimmed,,
3.0,0,rx,nack,16777215,257,82,0,10.0.0.1,0x10,10.0.0.2,0x20,1,2,no,,trimmed,,accepted
3.1,0,rtx,write,16777215,258,4174,4096,10.0.0.1,0x10,10.0.0.2,0x20,1,2,no,nack,,good,
";

/// Two flows at looks of 10 us; at 20 and 40 us the first one has no row.
pub(crate) const FLOWS: &str = "\
time_us,flow,src,dst,goodput_gbps,cwnd_bytes,inflight_bytes,base_rtt_ns,average_delay_ns,rule,retransmits,timeouts
10.0,0,0,2,80.0,444000,20000,4262,100,fast_increase,1,1
20.0,1,1,2,40.0,444000,20000,4262,100,none,3,0
30.0,0,0,2,80.0,444000,20000,4262,100,none,2,1
40.0,1,1,2,0.0,,0,,,,5,2
";

/// Three links over the same looks.
pub(crate) const LINKS: &str = "\
time_us,link,queue_bytes,control_queue_bytes,used,bytes,marked,trimmed,dropped
10.0,nic0.0>p0.t0.0,4096,0,0.5,20000,0,0,2
10.0,p0.t1.0>p0.t0.1,8192,0,1.0,40000,3,1,4
20.0,p0.t1.0>p0.t0.1,0,0,0.25,10000,0,0,3
30.0,p0.t0.0>p0.t1.0,100,0,0.1,4000,0,0,0
";

/// A directory of files, which goes when this does.
pub(crate) struct Dir(tempfile::TempDir);

impl Dir {
    pub(crate) fn new(files: &[(&str, &str)]) -> Dir {
        let dir = Dir(tempfile::tempdir().unwrap());
        for (name, content) in files {
            dir.write(name, content);
        }
        dir
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

/// Rows of CSV as JSON lines: numbers and flags as such, and null for what is empty.
pub(crate) fn json_lines(csv: &str) -> String {
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let value = |text: &str| match text {
        "" => serde_json::Value::Null,
        "true" | "false" => (text == "true").into(),
        text => text.parse::<u64>().map_or_else(
            |_| text.parse::<f64>().map_or_else(|_| text.into(), serde_json::Value::from),
            serde_json::Value::from,
        ),
    };
    let line = |row: Vec<&str>| {
        let object: serde_json::Map<_, _> =
            header.iter().zip(row).map(|(name, text)| ((*name).to_owned(), value(text))).collect();
        format!("{}\n", serde_json::Value::from(object))
    };
    lines.map(line).collect()
}
