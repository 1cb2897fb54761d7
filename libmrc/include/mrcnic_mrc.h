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
 Takes completions, `num_entries` at most: how many. -1 with errno EINVAL for no queue, or no room.

 # Safety
 `cq` is NULL or a completion queue, and `wc` NULL or room for so many.
 */
int mrc_poll_cq(struct mrc_cq *cq, int num_entries, ibv_wc *wc);

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
 What a controller may do with the NIC. -1 with errno EINVAL for no device, or no room for the answer.

 # Safety
 `context` is NULL or an open device, and `ctl_attr` NULL or room for the answer.
 */
int mrc_ctl_query_device(ibv_context *context, struct mrc_ctl_device_attr *ctl_attr);

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
 Whether a port is wanted up (1) or down (0). -1 with errno: EINVAL for no context, port or room, or a bit that means nothing; EIO when the NIC is gone.

 # Safety
 `context` is NULL or an MRC context, and `attr` NULL or attributes.
 */
int mrc_ctl_query_port(struct mrc_context *context,
                       uint8_t port_num,
                       struct mrc_ctl_port_attr *attr,
                       int attr_mask);

/*
 Wants a port up (1) or down (0): `ibv_query_port` says so, and peers are told that they can't reach the NIC by it. -1 with errno: EINVAL for no context,
 port or attributes, another state, or a bit that means nothing; EIO when the NIC is gone.

 # Safety
 As [`mrc_ctl_query_port`].
 */
int mrc_ctl_modify_port(struct mrc_context *context,
                        uint8_t port_num,
                        struct mrc_ctl_port_attr *attr,
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
