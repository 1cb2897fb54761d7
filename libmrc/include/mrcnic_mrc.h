/* The MRC API 1.0.1 as lib_mrc.so of mrcnic has it. Made by cbindgen: tests/header.rs of libmrc says how. */

#ifndef MRCNIC_MRC_H
#define MRCNIC_MRC_H

#include <stdint.h>
#include <infiniband/verbs.h>

/* What Rust calls by its name alone. */
typedef struct ibv_context ibv_context;
typedef struct ibv_pd ibv_pd;
typedef struct ibv_qp_cap ibv_qp_cap;
typedef struct ibv_qp_attr ibv_qp_attr;
typedef struct ibv_wc ibv_wc;
typedef struct ibv_send_wr ibv_send_wr;
typedef struct ibv_recv_wr ibv_recv_wr;
typedef enum ibv_event_type ibv_event_type;
typedef union ibv_gid ibv_gid;

/* A place of a profile that has no EV yet. */
#define MRC_CTL_EV_UNPOPULATED ((struct mrc_ctl_ev){{0}, 0})


/*
 The API that is implemented.
 */
#define MRC_API_CURRENT_VERSION 16777217

/*
 The oldest that programs may use.
 */
#define MRC_API_LAST_SUPPORTED_VERSION 0

/*
 What programs say that do not care.
 */
#define MRC_API_VER_LATEST 4294967295

/*
 The vendor's API: there is none beyond the common one.
 */
#define MRC_VENDOR_API_CURRENT_VERSION 16777216

/*
 The API for controllers that is implemented.
 */
#define MRC_CTL_API_CURRENT_VERSION 16777217

/*
 `port_admin_state` counts.
 */
#define MRC_CTL_PORT_ADMIN_STATE (1 << 0)

/*
 The version of the protocol.
 */
#define MRC_PROTOCOL_VERSION_1 1

/*
 Bytes of a vendor's own settings.
 */
#define MRC_MAX_VENDOR_CFG_SIZE 128

/*
 Trimmed packets draw NACKs.
 */
#define MRC_DEVICE_CAP_TRIM_NACK (1 << 0)

/*
 SACKs carry the responder's window.
 */
#define MRC_DEVICE_CAP_DYNAMIC_MPR (1 << 1)

/*
 SACKs carry the responder's service time.
 */
#define MRC_DEVICE_CAP_SVC_TIME (1 << 2)

/*
 `num_qps_per_peer` counts.
 */
#define MRC_QP_HINT_NUM_QPS_PER_PEER (1 << 0)

/*
 `num_send_peers` counts.
 */
#define MRC_QP_HINT_NUM_SEND_PEERS (1 << 1)

/*
 `num_remote_recv_peers` counts.
 */
#define MRC_QP_HINT_NUM_REMOTE_RECV_PEERS (1 << 2)

/*
 `vendor_cfg` of a hint counts.
 */
#define MRC_QP_HINT_VENDOR_CFG (1 << 31)

/*
 `wimm.max_wimm` counts.
 */
#define MRC_QP_MAX_WIMM (1 << 0)

/*
 `wimm.max_wimm_dest` counts.
 */
#define MRC_QP_MAX_WIMM_DEST (1 << 1)

/*
 `mpr.mpr` counts.
 */
#define MRC_QP_MPR (1 << 2)

/*
 `mpr.mpr_dest` counts.
 */
#define MRC_QP_MPR_DEST (1 << 3)

/*
 `timeout` counts.
 */
#define MRC_QP_TIMEOUT (1 << 4)

/*
 `profile.ev_profile_id` counts.
 */
#define MRC_QP_EV_PROFILE_ID (1 << 5)

/*
 `profile.cc_profile_id` counts.
 */
#define MRC_QP_CC_PROFILE_ID (1 << 6)

/*
 `qp_hint` counts.
 */
#define MRC_QP_HINT (1 << 7)

/*
 `retry` counts.
 */
#define MRC_QP_RETRY_CNT (1 << 8)

/*
 `cap` counts.
 */
#define MRC_QP_CAP (1 << 9)

/*
 `vendor_cfg` of a QP counts.
 */
#define MRC_QP_VENDOR_CFG (1 << 31)

/*
 The peer answers trimmed packets with no NACK.
 */
#define MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED (1 << 0)

/*
 Dynamic MPR, in both directions.
 */
#define MRC_QP_CAP_DYNAMIC_MPR (1 << 1)

/*
 The peer reports no service time.
 */
#define MRC_QP_CAP_SVC_TIME_DEST_UNSUPPORTED (1 << 2)

/*
 A profile's states: initialized,
 */
#define MRC_CTL_PROFILE_INIT 0

/*
 configured,
 */
#define MRC_CTL_PROFILE_OFFLINE 1

/*
 and usable.
 */
#define MRC_CTL_PROFILE_ONLINE 2

/*
 EV profiles may be changed ONLINE.
 */
#define MRC_CTL_OPT_CAP_EV_PROFILE_MODIFY_ONLINE (1 << 0)

/*
 CC profiles may be changed ONLINE.
 */
#define MRC_CTL_OPT_CAP_CC_PROFILE_MODIFY_ONLINE (1 << 1)

/*
 There are EV events.
 */
#define MRC_CTL_OPT_CAP_EV_EVENT (1 << 2)

/*
 Explicit EVs are a range.
 */
#define MRC_CTL_OPT_CAP_EV_EXPLICIT_RANGE (1 << 3)

/*
 Drop counts are counts.
 */
#define MRC_CTL_OPT_CAP_EV_EVENT_PRECISE_DROP_CNT (1 << 4)

/*
 There are EV probes.
 */
#define MRC_CTL_OPT_CAP_EP_OP_EV_PROBE (1 << 5)

/*
 EVs in flow label and UDP source port.
 */
#define MRC_CTL_EV_FMT_MODE_STEV (1 << 0)

/*
 EVs in an outer IPv6 header.
 */
#define MRC_CTL_EV_FMT_MODE_SRV6 (1 << 1)

/*
 EVs in the UDP source port.
 */
#define MRC_CTL_EV_FMT_MODE_UDP (1 << 2)

/*
 Gives a format its fields.
 */
#define MRC_CTL_EV_FMT_OP_MODIFY_FIELDS 0

/*
 Asks for a format's fields.
 */
#define MRC_CTL_EV_FMT_OP_QUERY_FIELDS 1

/*
 `profile_state` of a format counts.
 */
#define MRC_CTL_EV_FMT_PROFILE_STATE (1 << 0)

/*
 `cur_profile_state` of a format counts.
 */
#define MRC_CTL_EV_FMT_PROFILE_CUR_STATE (1 << 1)

/*
 `ev_fmt_mode` counts.
 */
#define MRC_CTL_EV_FMT_PROFILE_MODE (1 << 2)

/*
 `ev_fmt_op` counts.
 */
#define MRC_CTL_EV_FMT_PROFILE_OP (1 << 3)

/*
 `vendor_cfg` of a format counts.
 */
#define MRC_CTL_EV_FMT_VENDOR_CFG (1 << 31)

/*
 Bytes of a vendor's own settings.
 */
#define MRC_CTL_MAX_VENDOR_CFG_SIZE 128

/*
 Bytes of an EV.
 */
#define MRC_CTL_EV_MAX_BYTES 32

/*
 In use.
 */
#define MRC_CTL_EV_GOOD (1 << 0)

/*
 Out of use until a probe is answered.
 */
#define MRC_CTL_EV_ASSUMED_BAD (1 << 1)

/*
 Out of use until a controller lets it in.
 */
#define MRC_CTL_EV_DENIED (1 << 2)

/*
 None of these: a place without an EV.
 */
#define MRC_CTL_EV_UNKNOWN 2147483648

/*
 The NIC draws EVs.
 */
#define MRC_CTL_EV_MODE_AUTO (1 << 0)

/*
 A list of EVs.
 */
#define MRC_CTL_EV_MODE_EXP (1 << 1)

/*
 EVs drawn from fields.
 */
#define MRC_CTL_EV_MODE_GEN (1 << 2)

/*
 Puts EVs into the places of others.
 */
#define MRC_CTL_EV_OP_REPLACE_EV 0

/*
 Changes states of EVs.
 */
#define MRC_CTL_EV_OP_MODIFY_EV_STATE 1

/*
 Asks for states of EVs.
 */
#define MRC_CTL_EV_OP_QUERY_EV_STATE 2

/*
 Asks for all EVs.
 */
#define MRC_CTL_EV_OP_QUERY_EV_ARRAY 3

/*
 Every place that has the EV.
 */
#define MRC_CTL_EV_OP_F_ALL_COPIES (1 << 0)

/*
 Gives an EV profile its fields.
 */
#define MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS 0

/*
 Asks for an EV profile's fields.
 */
#define MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS 1

/*
 `profile_state` of an EV profile counts.
 */
#define MRC_CTL_EV_PROFILE_STATE (1 << 0)

/*
 `cur_profile_state` of an EV profile counts.
 */
#define MRC_CTL_EV_PROFILE_CUR_STATE (1 << 1)

/*
 `ev_mode` counts.
 */
#define MRC_CTL_EV_PROFILE_MODE (1 << 2)

/*
 `ev_fmt_profile_id` counts.
 */
#define MRC_CTL_EV_PROFILE_FMT_ID (1 << 3)

/*
 `ev_count` counts.
 */
#define MRC_CTL_EV_PROFILE_COUNT (1 << 4)

/*
 `ev_min_active` counts.
 */
#define MRC_CTL_EV_PROFILE_MIN_ACTIVE (1 << 5)

/*
 `ev_event_mask` counts.
 */
#define MRC_CTL_EV_PROFILE_EVENT_MASK (1 << 6)

/*
 `ev_op` counts.
 */
#define MRC_CTL_EV_PROFILE_EV_OP (1 << 7)

/*
 `ev_fields_op` counts.
 */
#define MRC_CTL_EV_PROFILE_EV_FIELDS_OP (1 << 8)

/*
 `vendor_cfg` of an EV profile counts.
 */
#define MRC_CTL_EV_PROFILE_VENDOR_CFG (1 << 31)

/*
 `profile_state` of a CC profile counts.
 */
#define MRC_CTL_CC_PROFILE_STATE (1 << 0)

/*
 `cur_profile_state` of a CC profile counts.
 */
#define MRC_CTL_CC_PROFILE_CUR_STATE (1 << 1)

/*
 `algorithm` counts.
 */
#define MRC_CTL_CC_PROFILE_ALGORITHM (1 << 2)

/*
 `cc_config` counts.
 */
#define MRC_CTL_CC_PROFILE_CONFIG (1 << 3)

/*
 `vendor_cfg` of a CC profile counts.
 */
#define MRC_CTL_CC_PROFILE_VENDOR_CFG (1 << 31)

/*
 Asks whether a path is alive.
 */
#define MRC_CTL_EP_OP_EV_PROBE 0

/*
 Tells which ports are up.
 */
#define MRC_CTL_EP_OP_PORT_STATUS_UPDATE 1

/*
 A channel: completion queues put themselves in when they have a completion and were armed.
 */
struct mrc_comp_channel;

/*
 An instance of the library, on an open device.
 */
struct mrc_context;

/*
 A completion queue.
 */
struct mrc_cq;

/*
 A queue pair.
 */
struct mrc_qp;

/*
 A hint.
 */
struct mrc_qp_hint;

/*
 What the NIC can do with Writes with Immediate.
 */
struct mrc_wimm_attr {
    /*
     Most in flight as requester.
     */
    uint16_t max_wimm;
    /*
     Most in flight as responder.
     */
    uint16_t max_wimm_dest;
};

/*
 Windows, in units of 128 PSNs.
 */
struct mrc_mpr_attr {
    /*
     The largest.
     */
    uint8_t max_mpr;
    /*
     Steps.
     */
    uint8_t mpr_resolution;
};

/*
 QPs.
 */
struct mrc_hint_limits {
    /*
     Hints at a time.
     */
    uint32_t max_qp_hint;
};

/*
 What the NIC can do.
 */
struct mrc_device_attr {
    /*
     Versions of the protocol, a bit each.
     */
    uint32_t mrc_protocol_version;
    /*
     Writes with Immediate.
     */
    struct mrc_wimm_attr wimm_attr;
    /*
     Windows.
     */
    struct mrc_mpr_attr mpr_attr;
    /*
     QPs.
     */
    struct mrc_hint_limits qp_attr;
    /*
     `DEVICE_CAP_..`.
     */
    uint32_t cap;
};

/*
 What a program was built with.
 */
struct mrc_context_attr {
    /*
     Version of the API; 0 for any.
     */
    uint32_t mrc_api_version_used;
    /*
     Version of the vendor's API; 0 for any.
     */
    uint32_t mrc_vendor_api_version_used;
};

/*
 What a controller can do with entropy values.
 */
struct mrc_ctl_ev_limits {
    /*
     Format profiles at most.
     */
    uint32_t ev_max_fmt_profiles;
    /*
     Profiles at most.
     */
    uint32_t ev_max_profiles;
    /*
     Values of all profiles at most.
     */
    uint32_t ev_max_count;
    /*
     How many of them are free.
     */
    uint32_t ev_free_count;
    /*
     Values of a profile at most.
     */
    uint32_t ev_max_count_profile;
    /*
     Lists of values have a multiple of this.
     */
    uint32_t ev_count_align;
    /*
     Bits of a value at most.
     */
    uint32_t ev_max_width;
    /*
     Modes of formats, a bit each.
     */
    uint32_t ev_fmt_mode_mask;
    /*
     Modes of profiles, a bit each.
     */
    uint32_t ev_mode_mask;
    /*
     Entries of a batch at most; 0 for any number.
     */
    uint32_t ev_op_max_entries;
};

/*
 What a controller can do with congestion control.
 */
struct mrc_ctl_cc_limits {
    /*
     Profiles at most.
     */
    uint32_t cc_max_profiles;
    /*
     Names of algorithms, and a NULL; they are not to be freed.
     */
    const char **algorithms;
};

/*
 What a controller can do with the NIC.
 */
struct mrc_ctl_device_attr {
    /*
     Versions of the API, a bit each.
     */
    uint32_t mrc_ctl_protocol_version;
    /*
     Entropy values.
     */
    struct mrc_ctl_ev_limits ev;
    /*
     Congestion control.
     */
    struct mrc_ctl_cc_limits cc;
    /*
     Ports: bit N for port N, from 1.
     */
    uint32_t phy_port_mask;
    /*
     What else there is, a bit each.
     */
    uint32_t opt_attr;
};

/*
 A port.
 */
struct mrc_ctl_port_attr {
    /*
     1 for up, 0 for down.
     */
    uint32_t port_admin_state;
};

/*
 A CC profile.
 */
struct mrc_ctl_cc_profile_attr {
    /*
     The state that it is to go to; of a query, that it is in.
     */
    uint32_t profile_state;
    /*
     The state that it is in.
     */
    uint32_t cur_profile_state;
    /*
     The name of its algorithm, or NULL for none.
     */
    const char *algorithm;
    /*
     The algorithm's settings.
     */
    const void *cc_config;
    /*
     A vendor's own.
     */
    uint8_t vendor_cfg[MRC_CTL_MAX_VENDOR_CFG_SIZE];
};

/*
 An EV, and its port.
 */
struct mrc_ctl_ev {
    /*
     The bits that fields take, the most significant one of the first byte first.
     */
    uint8_t val[MRC_CTL_EV_MAX_BYTES];
    /*
     The port, from 1.
     */
    uint8_t port;
};

/*
 A port status update.
 */
struct mrc_ctl_port_status {
    /*
     Ports that are up: bit N for port N, from 1.
     */
    uint32_t port_status;
};

/*
 What an endpoint operation needs more.
 */
union mrc_ctl_ep_op {
    /*
     Of a port status update.
     */
    struct mrc_ctl_port_status port_status_update;
};

/*
 An endpoint operation.
 */
struct mrc_ctl_ep_req {
    /*
     Its number, which the answer has too.
     */
    uint16_t req_id;
    /*
     The NIC's address.
     */
    ibv_gid sgid;
    /*
     Whom it goes to.
     */
    ibv_gid dgid;
    /*
     Where its EV is.
     */
    uint32_t ev_fmt_mode;
    /*
     Its EV, as it is in the packet, and its port.
     */
    struct mrc_ctl_ev req_ev;
    /*
     What it needs more.
     */
    union mrc_ctl_ep_op op;
};

/*
 An answer.
 */
struct mrc_ctl_ep_rsp {
    /*
     The number of what it answers.
     */
    uint16_t req_id;
    /*
     The port that it came in by, from 1.
     */
    uint8_t port;
    /*
     Round-trip time in ns.
     */
    unsigned int rtt;
    /*
     Whether the responder's service time is taken off.
     */
    uint8_t adj_svc_time;
};

/*
 An EV of an operation.
 */
struct mrc_ctl_ev_op_entry {
    /*
     The EV.
     */
    struct mrc_ctl_ev ev;
    /*
     What comes into its place.
     */
    struct mrc_ctl_ev ev_new;
    /*
     `MRC_CTL_EV_GOOD` and so on.
     */
    uint32_t state;
    /*
     `MRC_CTL_EV_OP_F_..`.
     */
    uint32_t flags;
};

/*
 What is done with EVs.
 */
struct mrc_ctl_ev_entries_op {
    /*
     `MRC_CTL_EV_OP_..`.
     */
    uint32_t op;
    /*
     The EVs.
     */
    struct mrc_ctl_ev_op_entry *entries;
    /*
     How many there are, or there is room for; how many there should be.
     */
    int entry_count;
};

/*
 A field of an EV profile.
 */
struct mrc_ctl_ev_field {
    /*
     Its bits.
     */
    uint32_t width;
    /*
     Its value where no bit of the EV goes.
     */
    uint32_t init_val;
    /*
     The smallest number that is generated.
     */
    uint32_t min_val;
    /*
     The largest.
     */
    uint32_t max_val;
    /*
     Where bits of the EV go.
     */
    uint32_t mask;
};

/*
 What is done with fields.
 */
struct mrc_ctl_ev_fields_op {
    /*
     `MRC_CTL_EV_FIELDS_OP_..`.
     */
    uint32_t op;
    /*
     The fields.
     */
    struct mrc_ctl_ev_field *fields;
    /*
     How many there are, or there is room for; how many there should be.
     */
    int field_count;
};

/*
 An EV profile.
 */
struct mrc_ctl_ev_profile_attr {
    /*
     The state that it is to go to; of a query, that it is in.
     */
    uint32_t profile_state;
    /*
     The state that it is in.
     */
    uint32_t cur_profile_state;
    /*
     `MRC_CTL_EV_MODE_..`.
     */
    uint32_t ev_mode;
    /*
     Its format.
     */
    uint64_t ev_fmt_profile_id;
    /*
     How many EVs it has.
     */
    uint32_t ev_count;
    /*
     EVs that stay in use.
     */
    uint32_t ev_min_active;
    /*
     States whose beginning is an event.
     */
    int ev_event_mask;
    /*
     Its EVs.
     */
    struct mrc_ctl_ev_entries_op ev_op;
    /*
     Its fields.
     */
    struct mrc_ctl_ev_fields_op ev_fields_op;
    /*
     A vendor's own.
     */
    uint8_t vendor_cfg[MRC_CTL_MAX_VENDOR_CFG_SIZE];
};

/*
 An EV changed its state.
 */
struct mrc_ctl_ev_event {
    /*
     Its profile.
     */
    uint64_t profile_id;
    /*
     The EV.
     */
    struct mrc_ctl_ev ev;
    /*
     Events that were dropped before this one.
     */
    uint32_t drop_count;
    /*
     The state; since 1.0.1.
     */
    uint32_t state;
};

/*
 A field of a format.
 */
struct mrc_ctl_ev_fmt_field {
    /*
     Its bits.
     */
    uint8_t width;
};

/*
 What is done with a format's fields.
 */
struct mrc_ctl_ev_fmt_op {
    /*
     `MRC_CTL_EV_FMT_OP_..`.
     */
    uint32_t op;
    /*
     The fields.
     */
    struct mrc_ctl_ev_fmt_field *fmt_fields;
    /*
     How many there are, or there is room for; how many there should be.
     */
    int fmt_field_count;
};

/*
 An EV format profile.
 */
struct mrc_ctl_ev_fmt_profile_attr {
    /*
     The state that it is to go to; of a query, that it is in.
     */
    uint32_t profile_state;
    /*
     The state that it is in.
     */
    uint32_t cur_profile_state;
    /*
     `MRC_CTL_EV_FMT_MODE_..`.
     */
    uint32_t ev_fmt_mode;
    /*
     Its fields.
     */
    struct mrc_ctl_ev_fmt_op ev_fmt_op;
    /*
     A vendor's own.
     */
    uint8_t vendor_cfg[MRC_CTL_MAX_VENDOR_CFG_SIZE];
};

/*
 What an event is about.
 */
union mrc_async_element {
    /*
     A completion queue.
     */
    struct mrc_cq *cq;
    /*
     A QP.
     */
    struct mrc_qp *qp;
    /*
     A port.
     */
    int port_num;
};

/*
 An event.
 */
struct mrc_async_event {
    /*
     What it is about.
     */
    union mrc_async_element element;
    /*
     What happened.
     */
    ibv_event_type event_type;
};

/*
 What a program expects of its QPs.
 */
struct mrc_qp_hint_attr {
    /*
     QPs that send to a peer at a time.
     */
    int num_qps_per_peer;
    /*
     Peers that are sent to at a time.
     */
    int num_send_peers;
    /*
     QPs of others that send to the same peer.
     */
    int num_remote_recv_peers;
    /*
     A vendor's own.
     */
    uint8_t vendor_cfg[MRC_MAX_VENDOR_CFG_SIZE];
};

/*
 What a hint is created with.
 */
struct mrc_qp_hint_init_attr {
    /*
     The hint.
     */
    struct mrc_qp_hint_attr attr;
};

/*
 What a QP is created with.
 */
struct mrc_qp_init_attr {
    /*
     The program's own.
     */
    void *qp_context;
    /*
     Where its requests complete.
     */
    struct mrc_cq *send_cq;
    /*
     Where its receives complete.
     */
    struct mrc_cq *recv_cq;
    /*
     Its queues.
     */
    ibv_qp_cap cap;
    /*
     Whether all its requests complete with a completion.
     */
    int sq_sig_all;
    /*
     Its protection domain.
     */
    ibv_pd *pd;
    /*
     What it is to send.
     */
    uint64_t send_ops_flags;
    /*
     Version of the protocol; 0 for any.
     */
    uint32_t protocol_version;
};

/*
 Windows, in units of 128 PSNs.
 */
struct mrc_qp_mpr {
    /*
     The peer's, that it sends into.
     */
    uint8_t mpr;
    /*
     Its own, that the peer sends into.
     */
    uint8_t mpr_dest;
};

/*
 Writes with Immediate in flight.
 */
struct mrc_qp_wimm {
    /*
     That it sends.
     */
    uint16_t max_wimm;
    /*
     That it takes.
     */
    uint16_t max_wimm_dest;
};

/*
 Profiles.
 */
struct mrc_qp_profile {
    /*
     Of its entropy values.
     */
    uint64_t ev_profile_id;
    /*
     Of its congestion control.
     */
    uint64_t cc_profile_id;
};

/*
 How often it tries.
 */
struct mrc_qp_retry {
    /*
     After waits of one length, up to 7.
     */
    uint8_t linear_cnt;
    /*
     After waits that double, up to 25, which is for ever.
     */
    uint8_t exp_cnt;
};

/*
 What a QP may be told, and asked.
 */
struct mrc_qp_attr {
    /*
     Windows.
     */
    struct mrc_qp_mpr mpr;
    /*
     Writes with Immediate.
     */
    struct mrc_qp_wimm wimm;
    /*
     It waits 1.024 us times two to the power of this for an acknowledgement, up to 24.
     */
    uint8_t timeout;
    /*
     Profiles.
     */
    struct mrc_qp_profile profile;
    /*
     How often it tries.
     */
    struct mrc_qp_retry retry;
    /*
     Its hint, or NULL.
     */
    struct mrc_qp_hint *qp_hint;
    /*
     `QP_CAP_..`.
     */
    uint32_t cap;
    /*
     A vendor's own.
     */
    uint8_t vendor_cfg[MRC_MAX_VENDOR_CFG_SIZE];
};

/*
 NSCC's settings.
 */
struct mrc_ctl_cc_nscc_cfg {
    /*
     Quick adapt never acts.
     */
    uint8_t disable_qa;
    /*
     Bytes.
     */
    uint32_t adjust_bytes_threshold;
    /*
     Nanoseconds.
     */
    uint32_t adjust_period_threshold;
    /*
     Nanoseconds.
     */
    uint32_t base_rtt;
    /*
     Full packets each period.
     */
    float eta;
    /*
     Scales fair increase.
     */
    float fi;
    /*
     Scales fast increase.
     */
    float fi_scale;
    /*
     What a decrease takes of the excess.
     */
    float gamma;
    /*
     What a decrease takes of the window at most.
     */
    float max_md_jump;
    /*
     Bytes.
     */
    uint32_t max_cwnd;
    /*
     A power of two.
     */
    uint8_t qa_gate;
    /*
     Nanoseconds.
     */
    uint32_t qa_threshold;
    /*
     Nanoseconds.
     */
    uint32_t target_delay;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Makes a channel. EINVAL for no context or no room for the channel.

 # Safety
 `mrc_ctx` is NULL or an MRC context, and `channel` NULL or room for an address.
 */
int mrc_create_comp_channel(struct mrc_context *mrc_ctx, struct mrc_comp_channel **channel);

/*
 The channel's descriptor, which is readable while there is an event. -1 with errno EINVAL for no channel, or no room for the number.

 # Safety
 `channel` is NULL or a channel, and `fd` NULL or room for a number.
 */
int mrc_get_comp_channel_fd(struct mrc_comp_channel *channel,
                            int *fd);

/*
 Frees a channel. EINVAL for none, EBUSY while it has completion queues.

 # Safety
 `channel` is NULL or a channel.
 */
int mrc_destroy_comp_channel(struct mrc_comp_channel *channel);

/*
 Takes the next event, and waits for one unless the descriptor does not block. -1 with errno: EINVAL for no channel or no room, EAGAIN where
 there is none.

 # Safety
 `channel` is NULL or a channel; `cq` is NULL or room for an address, and so is `cq_context`.
 */
int mrc_get_cq_event(struct mrc_comp_channel *channel,
                     struct mrc_cq **cq,
                     void **cq_context);

/*
 Acknowledges events.

 # Safety
 `cq` is NULL or a completion queue.
 */
void mrc_ack_cq_events(struct mrc_cq *cq, unsigned int nevents);

/*
 What the NIC can do. -1 with errno EINVAL for no device, or no room for the answer.

 # Safety
 `context` is NULL or an open device; the others are NULL or room for the answers.
 */
int mrc_query_device(ibv_context *context, struct mrc_device_attr *attr, int *supported);

/*
 As [`mrc_query_device`], for a context of that device. -1 with errno EINVAL, too, where the two do not belong together.

 # Safety
 As [`mrc_query_device`]; `mcontext` is NULL or an MRC context.
 */
int mrc_query_device_ex(ibv_context *context,
                        struct mrc_context *mcontext,
                        struct mrc_device_attr *attr,
                        int *supported);

/*
 The versions that the library has. Where there is no room for one, it is not told.

 # Safety
 Each is NULL or room for a number.
 */
void mrc_query_version(uint32_t *current_version,
                       uint32_t *last_supported_version,
                       uint32_t *vendor_version,
                       uint32_t *last_supported_vendor_version);

/*
 Makes an instance of the library. NULL with errno EINVAL for no device, or versions that are newer than the library's.

 # Safety
 `vcontext` is NULL or an open device, and `context_attr` NULL or attributes.
 */
struct mrc_context *mrc_create_context(ibv_context *vcontext, struct mrc_context_attr *context_attr);

/*
 Ends an instance of the library. -1 with errno: EINVAL for none, EBUSY while it has channels, completion queues, hints or QPs.

 # Safety
 `mrc_ctx` is NULL or an MRC context.
 */
int mrc_destroy_context(struct mrc_context *mrc_ctx);

/*
 Makes a completion queue of `cqe` completions at least. NULL with errno EINVAL for no context, a channel of another context, a number outside of
 1 to 1,048,576, or a vector but 0.

 # Safety
 `mrc_ctx` is NULL or an MRC context, and `channel` NULL or a channel.
 */
struct mrc_cq *mrc_create_cq(struct mrc_context *mrc_ctx,
                             int cqe,
                             void *cq_context,
                             struct mrc_comp_channel *channel,
                             int comp_vector);

/*
 Frees a completion queue, once all its events are acknowledged. EINVAL for none, EBUSY while QPs complete there.

 # Safety
 `cq` is NULL or a completion queue.
 */
int mrc_destroy_cq(struct mrc_cq *cq);

/*
 Takes completions, `num_entries` at most: how many. -1 with errno EINVAL for no queue, one of events of EVs, or no room.

 # Safety
 `cq` is NULL or a completion queue, and `wc` NULL or room for so many.
 */
int mrc_poll_cq(struct mrc_cq *cq,
                int num_entries,
                ibv_wc *wc);

/*
 Has the queue put itself into its channel at the next completion; with `solicited_only` at the next that is a receive, or no success. EINVAL for
 none, or one without a channel.

 # Safety
 `cq` is NULL or a completion queue.
 */
int mrc_req_notify_cq(struct mrc_cq *cq,
                      int solicited_only);

/*
 The versions of the API for controllers. Where there is no room for one, it is not told.

 # Safety
 Each is NULL or room for a number.
 */
void mrc_ctl_query_version(uint32_t *current_version,
                           uint32_t *last_supported_version,
                           uint32_t *vendor_version,
                           uint32_t *last_supported_vendor_version);

/*
 What a controller may do with the NIC. -1 with errno: EINVAL for no device, or no room for the answer; EIO when the NIC is gone.

 # Safety
 `context` is NULL or an open device, and `ctl_attr` NULL or room for the answer.
 */
int mrc_ctl_query_device(ibv_context *context,
                         struct mrc_ctl_device_attr *ctl_attr);

/*
 As [`mrc_ctl_query_device`], for a context of that device. -1 with errno EINVAL, too, where the two do not belong together.

 # Safety
 As [`mrc_ctl_query_device`]; `mcontext` is NULL or an MRC context, and `supported` NULL or room for a number.
 */
int mrc_ctl_query_device_ex(ibv_context *context,
                            struct mrc_context *mcontext,
                            struct mrc_ctl_device_attr *ctl_attr,
                            int *supported);

/*
 Whether a port is wanted up (1) or down (0). -1 with errno: EINVAL for no context, port or room, or a bit that means nothing; EIO when the NIC is gone; EPERM without CAP_NET_ADMIN.

 # Safety
 `context` is NULL or an MRC context, and `attr` NULL or attributes.
 */
int mrc_ctl_query_port(struct mrc_context *context,
                       uint8_t port_num,
                       struct mrc_ctl_port_attr *attr,
                       int attr_mask);

/*
 Wants a port up (1) or down (0): `ibv_query_port` says so, and peers are told that they can't reach the NIC by it. -1 with errno: EINVAL for no context,
 port or attributes, another state, or a bit that means nothing; EIO when the NIC is gone; EPERM without CAP_NET_ADMIN.

 # Safety
 As [`mrc_ctl_query_port`].
 */
int mrc_ctl_modify_port(struct mrc_context *context,
                        uint8_t port_num,
                        struct mrc_ctl_port_attr *attr,
                        int attr_mask);

/*
 Takes a CC profile a step of its life, or changes it while it is OFFLINE. Numbers are the controller's own, from 1: who has not been changed
 is in INIT. -1 with errno: EINVAL for arguments that are wrong or out of range, or not in this state; EBUSY while QPs use it; E2BIG for one
 profile too many; EIO when the NIC is gone; EPERM without CAP_NET_ADMIN.

 # Safety
 `mrc_ctx` is NULL or an MRC context, and `attr` NULL or attributes, whose name and settings are there where the mask names them.
 */
int mrc_ctl_modify_cc_profile(struct mrc_context *mrc_ctx,
                              uint64_t cc_profile_id,
                              struct mrc_ctl_cc_profile_attr *attr,
                              int attr_mask);

/*
 Tells of a CC profile what the mask names. Settings are written where `cc_config` points; where it is NULL, it points to a copy of the context's
 afterwards, which stays until the next such query. -1 with errno: EINVAL for arguments that are wrong, settings that were not given, or
 anything but the state in INIT; EIO; EPERM.

 # Safety
 As [`mrc_ctl_modify_cc_profile`]; `cc_config` is NULL or room for the settings, where the mask names them.
 */
int mrc_ctl_query_cc_profile(struct mrc_context *mrc_ctx,
                             uint64_t cc_profile_id,
                             struct mrc_ctl_cc_profile_attr *attr,
                             int attr_mask);

/*
 Sends endpoint operations of one kind and waits for the answers, which come in the order of their arrival. -1 with errno: EINVAL for arguments
 that are wrong, an address that is not reached, or the same number twice; ENOTSUP for another kind, a segment for a routing header, or a NIC
 without endpoint operations; EAGAIN where others' operations leave no room; ENOMEM; ETIMEDOUT where not all were answered, and `num_rsp`
 says how many were; EIO when the NIC is gone; EPERM without CAP_NET_ADMIN.

 # Safety
 `mrc_ctx` is NULL or an MRC context; `req` is NULL or so many operations, `rsp` NULL or room for as many answers, and `num_rsp` NULL or room for
 a number.
 */
int mrc_ctl_ep_batch_send_wait(struct mrc_context *mrc_ctx,
                               uint8_t req_tc,
                               uint32_t op_type,
                               struct mrc_ctl_ep_req *req,
                               int num_req,
                               uint32_t rsp_timeout,
                               struct mrc_ctl_ep_rsp *rsp,
                               int *num_rsp);

/*
 Takes an EV profile a step of its life, or changes it. Numbers are the controller's own, from 1: who has not been changed is in INIT. Entries
 of an operation are changed each by itself, up to the first that is refused. -1 with errno: EINVAL for arguments that are wrong, or not in
 this state; ENOENT for an EV that the profile does not have; EBUSY while QPs use it; E2BIG for more EVs, fields or profiles than there may
 be, or fewer places than there are answers, whose number is told; EIO when the NIC is gone; EPERM without CAP_NET_ADMIN.

 # Safety
 `mrc_ctx` is NULL or an MRC context, and `attr` NULL or attributes, whose entries and fields are there where the mask and the operation name
 them.
 */
int mrc_ctl_modify_ev_profile(struct mrc_context *mrc_ctx,
                              uint64_t ev_profile_id,
                              struct mrc_ctl_ev_profile_attr *attr,
                              int attr_mask);

/*
 Tells of an EV profile what the mask names. -1 with errno: EINVAL for arguments that are wrong, or anything but the state in INIT; ENOENT for an
 EV that the profile does not have, and those behind it are not told; E2BIG for fewer places than there are EVs or fields, whose number is
 told; EIO; EPERM.

 # Safety
 As [`mrc_ctl_modify_ev_profile`]; entries and fields are room for as many as their number says.
 */
int mrc_ctl_query_ev_profile(struct mrc_context *mrc_ctx,
                             uint64_t ev_profile_id,
                             struct mrc_ctl_ev_profile_attr *attr,
                             int attr_mask);

/*
 Makes a completion queue for `cqe` events of EVs. What comes while it is full is counted, and the next event says how much that was. NULL with
 errno: EINVAL for no context, a channel of another context, a number outside of 1 to 1,048,576, or a vector but 0; EIO when the NIC is gone;
 EPERM without CAP_NET_ADMIN.

 # Safety
 `mrc_ctx` is NULL or an MRC context, and `channel` NULL or a channel.
 */
struct mrc_cq *mrc_ctl_create_ev_event_cq(struct mrc_context *mrc_ctx,
                                          int cqe,
                                          void *cq_context,
                                          struct mrc_comp_channel *channel,
                                          int comp_vector);

/*
 Takes events, `num_entries` at most: how many. A program that has told its version by `mrc_ctl_query_device_ex` gets their states, too; any
 other may have been built with 1.0.0, where an event is shorter, and gets one event at a time. The negative number of the error: EINVAL for no
 queue, one of completions, or no room.

 # Safety
 `ev_cq` is NULL or a completion queue, and `ev_event` NULL or room for so many.
 */
int mrc_ctl_poll_ev_event(struct mrc_cq *ev_cq,
                          int num_entries,
                          struct mrc_ctl_ev_event *ev_event);

/*
 Takes a format profile a step of its life, or changes it. Numbers are the controller's own: who has not been changed is in INIT. -1 with errno:
 EINVAL for arguments that are wrong, or not in this state; EBUSY while EV profiles need it; E2BIG for fields that no packet has room for, or
 one profile too many; EIO when the NIC is gone; EPERM without CAP_NET_ADMIN.

 # Safety
 `mrc_ctx` is NULL or an MRC context, and `attr` NULL or attributes, whose fields are there where the mask and the operation name them.
 */
int mrc_ctl_modify_ev_fmt_profile(struct mrc_context *mrc_ctx,
                                  uint64_t ev_fmt_profile_id,
                                  struct mrc_ctl_ev_fmt_profile_attr *attr,
                                  int attr_mask);

/*
 Tells of a format profile what the mask names; of its fields, the number too. -1 with errno: EINVAL for arguments that are wrong, or anything but
 the state in INIT; E2BIG for fewer places than fields, whose number is told; EIO; EPERM.

 # Safety
 As [`mrc_ctl_modify_ev_fmt_profile`]; fields are room for as many as their number says.
 */
int mrc_ctl_query_ev_fmt_profile(struct mrc_context *mrc_ctx,
                                 uint64_t ev_fmt_profile_id,
                                 struct mrc_ctl_ev_fmt_profile_attr *attr,
                                 int attr_mask);

/*
 Takes the next event of the context's QPs, and waits for one unless the device's `async_fd` does not block. EINVAL for no context or no room, EAGAIN
 where there is none.

 # Safety
 `mrc_ctx` is NULL or an MRC context, and `event` NULL or room for one.
 */
int mrc_get_async_event(struct mrc_context *mrc_ctx,
                        struct mrc_async_event *event);

/*
 Acknowledges an event.

 # Safety
 `event` is NULL, or an event that [`mrc_get_async_event`] gave.
 */
void mrc_ack_async_event(struct mrc_async_event *event);

/*
 Makes a hint. NULL with errno: EINVAL for no context, no attributes, or a count below 0; ENOMEM when the context has 4,096.

 # Safety
 `mrc_ctx` is NULL or an MRC context, and `init_attr` NULL or attributes.
 */
struct mrc_qp_hint *mrc_create_qp_hint(struct mrc_context *mrc_ctx,
                                       struct mrc_qp_hint_init_attr *init_attr);

/*
 Frees a hint. -1 with errno: EINVAL for none, EBUSY while a QP has it.

 # Safety
 `qp_hint` is NULL or a hint.
 */
int mrc_destroy_qp_hint(struct mrc_qp_hint *qp_hint);

/*
 Tells what the mask names of a hint. -1 with errno EINVAL for no hint, no room, or a bit that means nothing.

 # Safety
 `qp_hint` is NULL or a hint, and `qp_hint_attr` NULL or attributes.
 */
int mrc_query_qp_hint(struct mrc_qp_hint *qp_hint, struct mrc_qp_hint_attr *qp_hint_attr, int qp_hint_attr_mask);

/*
 Changes what the mask names of a hint. -1 with errno EINVAL for no hint, no attributes, a bit that means nothing, or a count below 0.

 # Safety
 As [`mrc_query_qp_hint`].
 */
int mrc_modify_qp_hint(struct mrc_qp_hint *qp_hint,
                       struct mrc_qp_hint_attr *qp_hint_attr,
                       int qp_hint_attr_mask);

/*
 Posts Writes, in the order of their list. EINVAL for no QP or list, a QP that is not in RTS or ERR, an operation but a Write, more than one piece of
 memory, a flag that means nothing here, or too many bytes; ENOMEM when the send queue or the completion queue is full; EIO when the NIC is gone.
 `bad_wr` is the request that was refused: those before it are posted.

 # Safety
 `qp` is NULL or a QP, `wr` NULL or a list, and `bad_wr` NULL or room for an address.
 */
int mrc_post_send(struct mrc_qp *qp,
                  ibv_send_wr *wr,
                  ibv_send_wr **bad_wr);

/*
 Posts receives, for Writes with Immediate of the peer, in the order of their list. -1 with errno: EINVAL for no QP or list, a QP in RESET, or more than
 one piece of memory, which is not used in any case; ENOMEM when the receive queue or the completion queue is full; EIO when the NIC is gone. `bad_wr` is
 the receive that was refused: those before it are posted.

 # Safety
 `qp` is NULL or a QP, `wr` NULL or a list, and `bad_wr` NULL or room for an address.
 */
int mrc_post_recv(struct mrc_qp *qp,
                  ibv_recv_wr *wr,
                  ibv_recv_wr **bad_wr);

/*
 Creates a QP in RESET, and tells its queues in `cap`. NULL with errno: EINVAL for what is not there or does not belong together, queues that are too
 long, or another version of the protocol; EOPNOTSUPP for operations but Writes; ENOMEM when there are 65,536 QPs.

 # Safety
 `mrc_ctx` is NULL or an MRC context, `mrc_qp_attr` NULL or attributes that name what is there.
 */
struct mrc_qp *mrc_create_qp(struct mrc_context *mrc_ctx,
                             struct mrc_qp_init_attr *mrc_qp_attr);

/*
 Closes a QP, once all its events are acknowledged: what has not ended completes as flushed. EINVAL for none.

 # Safety
 `qp` is NULL or a QP.
 */
int mrc_destroy_qp(struct mrc_qp *qp);

/*
 The QP's number. -1 with errno EINVAL for no QP, or no room for the number.

 # Safety
 `qp` is NULL or a QP, and `qpn` NULL or room for a number.
 */
int mrc_get_qpn(struct mrc_qp *qp, uint32_t *qpn);

/*
 Changes a QP: its state, and what goes with the step. EINVAL for no QP, a step that does not follow, what is missing for it, comes too late, or is out of
 range; EHOSTUNREACH for an address that is no neighbour of the file and does not answer, which takes three seconds; EOPNOTSUPP for the step to RESET; EIO when the NIC is gone. A QP that refuses stays as it is.

 # Safety
 `qp` is NULL or a QP; `vattr` and `mrc_attr` are NULL or attributes.
 */
int mrc_modify_qp(struct mrc_qp *qp,
                  ibv_qp_attr *vattr,
                  int vattr_mask,
                  struct mrc_qp_attr *mrc_attr,
                  int mrc_attr_mask);

/*
 Tells about a QP what the masks name, and what it was created with. EINVAL for no QP, or no room for what a mask names. With a mask of 0 the
 attributes may be NULL; so may `init_attr`.

 # Safety
 `qp` is NULL or a QP; the others are NULL or attributes.
 */
int mrc_query_qp(struct mrc_qp *qp,
                 ibv_qp_attr *vattr,
                 int vattr_mask,
                 struct mrc_qp_attr *mrc_attr,
                 int mrc_attr_mask,
                 struct mrc_qp_init_attr *init_attr);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MRCNIC_MRC_H */
