/* Each function of lib_mrc.so: that it does what it is for, and the errors that it documents. The argument says which part. */
#include "common.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

static void discovery(void) {
    int count = -1;
    struct ibv_device **list = ibv_get_device_list(&count);
    CHECK(list != NULL && count == 1 && list[1] == NULL);
    CHECK(strcmp(ibv_get_device_name(list[0]), "mrcnic0") == 0);
    CHECK(ibv_get_device_name(NULL) == NULL);
    CHECK(ibv_get_device_guid(list[0]) != 0 && ibv_get_device_guid(NULL) == 0);
    NOTHING(ibv_open_device(NULL), EINVAL);
    MINUS(ibv_close_device(NULL), EINVAL);
    struct ibv_context *verbs = ibv_open_device(list[0]);
    CHECK(verbs != NULL && verbs->device == list[0] && verbs->num_comp_vectors == 1 && verbs->async_fd >= 0);
    struct ibv_context *second = ibv_open_device(list[0]);
    CHECK(second != NULL && second != verbs && ibv_close_device(second) == 0);
    ibv_free_device_list(list);
    ibv_free_device_list(NULL);

    struct ibv_device_attr device;
    CHECK(ibv_query_device(verbs, &device) == 0);
    CHECK(device.phys_port_cnt == 1 && device.max_qp == 65536 && device.max_sge == 1);
    FAILS(ibv_query_device(NULL, &device), EINVAL);
    FAILS(ibv_query_device(verbs, NULL), EINVAL);

    /* A macro of the header, which clears the answer and calls the function. */
    struct ibv_port_attr port;
    CHECK(ibv_query_port(verbs, 1, &port) == 0);
    CHECK(port.state == IBV_PORT_ACTIVE && port.link_layer == IBV_LINK_LAYER_ETHERNET && port.gid_tbl_len == 4);
    CHECK(port.active_mtu >= IBV_MTU_1024 && port.max_msg_sz == 1u << 30 && port.port_cap_flags2 == 0);
    FAILS(ibv_query_port(verbs, 0, &port), EINVAL);
    FAILS(ibv_query_port(verbs, 2, &port), EINVAL);

    union ibv_gid gid;
    for (int index = 0; index < 4; index++) {
        CHECK(ibv_query_gid(verbs, 1, index, &gid) == 0);
        CHECK(gid.raw[10] == 0xff && gid.raw[11] == 0xff && gid.raw[12] == 127 && gid.raw[15] == 1);
    }
    MINUS(ibv_query_gid(verbs, 1, 4, &gid), EINVAL);
    MINUS(ibv_query_gid(verbs, 1, -1, &gid), EINVAL);
    MINUS(ibv_query_gid(verbs, 2, 0, &gid), EINVAL);
    MINUS(ibv_query_gid(NULL, 1, 0, &gid), EINVAL);
    MINUS(ibv_query_gid(verbs, 1, 0, NULL), EINVAL);
    struct ibv_gid_entry entries[4];
    CHECK(ibv_query_gid_ex(verbs, 1, 3, &entries[0], 0) == 0);
    CHECK(entries[0].gid_index == 3 && entries[0].port_num == 1 && entries[0].gid_type == IBV_GID_TYPE_ROCE_V2);
    FAILS(ibv_query_gid_ex(verbs, 1, 4, &entries[0], 0), ENODATA);
    FAILS(ibv_query_gid_ex(verbs, 1, 0, &entries[0], 1), EOPNOTSUPP);
    FAILS(ibv_query_gid_ex(verbs, 9, 0, &entries[0], 0), EINVAL);
    CHECK(ibv_query_gid_table(verbs, entries, 4, 0) == 4 && entries[2].gid_index == 2);
    CHECK(ibv_query_gid_table(verbs, entries, 3, 0) == -EINVAL);
    CHECK(ibv_query_gid_table(verbs, entries, 4, 1) == -EOPNOTSUPP);
    CHECK(ibv_close_device(verbs) == 0);

    /* The NIC went down with the last, and comes up again. */
    verbs = open_device();
    CHECK(ibv_query_gid(verbs, 1, 0, &gid) == 0);
    CHECK(ibv_close_device(verbs) == 0);

    CHECK(strcmp(ibv_wc_status_str(IBV_WC_SUCCESS), "success") == 0);
    CHECK(strcmp(ibv_wc_status_str((enum ibv_wc_status)999), "unknown") == 0);
    CHECK(strstr(ibv_wc_status_str(IBV_WC_WR_FLUSH_ERR), "flushed") != NULL);
    CHECK(strcmp(ibv_node_type_str(IBV_NODE_CA), "channel adapter") == 0);
    CHECK(strcmp(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown") == 0);
    CHECK(strcmp(ibv_port_state_str(IBV_PORT_ACTIVE), "active") == 0);
    CHECK(strcmp(ibv_port_state_str((enum ibv_port_state)77), "invalid state") == 0);
}

static void memory(void) {
    struct ibv_context *verbs = open_device();
    NOTHING(ibv_alloc_pd(NULL), EINVAL);
    FAILS(ibv_dealloc_pd(NULL), EINVAL);
    FAILS(ibv_dereg_mr(NULL), EINVAL);
    struct ibv_pd *pd = ibv_alloc_pd(verbs);
    CHECK(pd != NULL && pd->context == verbs);
    MINUS(ibv_close_device(verbs), EBUSY);
    static char bytes[8192];
    struct ibv_mr *mr = ibv_reg_mr(pd, bytes, sizeof bytes, REMOTE | IBV_ACCESS_RELAXED_ORDERING);
    CHECK(mr != NULL && mr->addr == bytes && mr->length == sizeof bytes && mr->pd == pd && mr->context == verbs);
    CHECK(mr->lkey == mr->rkey);
    FAILS(ibv_dealloc_pd(pd), EBUSY);
    struct ibv_mr *other = ibv_reg_mr_iova(pd, bytes, 100, 0x1000, IBV_ACCESS_LOCAL_WRITE);
    CHECK(other != NULL && other->lkey != mr->lkey && ibv_dereg_mr(other) == 0);
    other = ibv_reg_mr_iova2(pd, bytes, 100, 0, IBV_ACCESS_ZERO_BASED);
    CHECK(other != NULL && ibv_dereg_mr(other) == 0);
    int local = IBV_ACCESS_LOCAL_WRITE, demand = IBV_ACCESS_ON_DEMAND, remote = IBV_ACCESS_REMOTE_WRITE;
    NOTHING(ibv_reg_mr(NULL, bytes, 10, local), EINVAL);
    NOTHING(ibv_reg_mr(pd, NULL, 10, local), EINVAL);
    NOTHING(ibv_reg_mr(pd, bytes, 0, local), EINVAL);
    NOTHING(ibv_reg_mr(pd, bytes, 10, remote), EINVAL);
    NOTHING(ibv_reg_mr(pd, bytes, 10, demand), EOPNOTSUPP);
    /* What is not there, or can't be written, is refused: a worker that ran into it would end the program. */
    size_t page = 4096;
    char *gap = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(gap != MAP_FAILED && munmap(gap + page, page) == 0);
    NOTHING(ibv_reg_mr(pd, gap, 3 * page, local), EFAULT);
    NOTHING(ibv_reg_mr(pd, gap + page - 1, 2, local), EFAULT);
    CHECK(mprotect(gap + 2 * page, page, PROT_READ) == 0);
    NOTHING(ibv_reg_mr(pd, gap + 2 * page, page, local), EFAULT);
    other = ibv_reg_mr(pd, gap + 2 * page, page, 0);
    CHECK(other != NULL && ibv_dereg_mr(other) == 0);
    CHECK(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_close_device(verbs) == 0);
}

static void contexts(void) {
    uint32_t version[4] = {0};
    mrc_query_version(&version[0], &version[1], &version[2], &version[3]);
    CHECK(version[0] == 0x01000001 && version[1] == 0 && version[2] == 0x01000000 && version[3] == 0);
    mrc_query_version(NULL, NULL, NULL, NULL);
    struct ibv_context *verbs = open_device();
    struct mrc_device_attr attr;
    int supported = 0;
    CHECK(mrc_query_device(verbs, &attr, &supported) == 0 && supported != 0);
    CHECK(attr.mrc_protocol_version == 1 && attr.mpr_attr.max_mpr == 8 && attr.mpr_attr.mpr_resolution == 1);
    CHECK(attr.wimm_attr.max_wimm == 64 && attr.wimm_attr.max_wimm_dest == 64 && attr.qp_attr.max_qp_hint > 0);
    MINUS(mrc_query_device(NULL, &attr, &supported), EINVAL);
    MINUS(mrc_query_device(verbs, NULL, &supported), EINVAL);
    MINUS(mrc_query_device(verbs, &attr, NULL), EINVAL);

    NOTHING(mrc_create_context(NULL, NULL), EINVAL);
    struct mrc_context_attr used = {.mrc_api_version_used = 0x01000001, .mrc_vendor_api_version_used = 0x01000000};
    struct mrc_context *mrc = mrc_create_context(verbs, &used);
    CHECK(mrc != NULL);
    MINUS(ibv_close_device(verbs), EBUSY);
    used.mrc_api_version_used = 0x01010000;
    NOTHING(mrc_create_context(verbs, &used), EINVAL);
    used.mrc_api_version_used = 0xffffffff;
    struct mrc_context *latest = mrc_create_context(verbs, &used);
    CHECK(latest != NULL && mrc_destroy_context(latest) == 0);
    used.mrc_vendor_api_version_used = 0x02000000;
    NOTHING(mrc_create_context(verbs, &used), EINVAL);
    CHECK(mrc_query_device_ex(verbs, mrc, &attr, &supported) == 0);
    struct ibv_context *second = open_device();
    MINUS(mrc_query_device_ex(second, mrc, &attr, &supported), EINVAL);
    MINUS(mrc_query_device_ex(verbs, NULL, &attr, &supported), EINVAL);
    CHECK(ibv_close_device(second) == 0);
    MINUS(mrc_destroy_context(NULL), EINVAL);

    struct mrc_comp_channel *channel = NULL;
    int fd = -1;
    FAILS(mrc_create_comp_channel(NULL, &channel), EINVAL);
    FAILS(mrc_create_comp_channel(mrc, NULL), EINVAL);
    CHECK(mrc_create_comp_channel(mrc, &channel) == 0 && mrc_get_comp_channel_fd(channel, &fd) == 0 && fd >= 0);
    MINUS(mrc_get_comp_channel_fd(channel, NULL), EINVAL);
    MINUS(mrc_get_comp_channel_fd(NULL, &fd), EINVAL);
    MINUS(mrc_destroy_context(mrc), EBUSY);
    int tag;
    struct mrc_cq *cq = mrc_create_cq(mrc, 16, &tag, channel, 0);
    CHECK(cq != NULL);
    NOTHING(mrc_create_cq(NULL, 16, NULL, NULL, 0), EINVAL);
    NOTHING(mrc_create_cq(mrc, 0, NULL, NULL, 0), EINVAL);
    NOTHING(mrc_create_cq(mrc, -1, NULL, NULL, 0), EINVAL);
    NOTHING(mrc_create_cq(mrc, (1 << 20) + 1, NULL, NULL, 0), EINVAL);
    NOTHING(mrc_create_cq(mrc, 16, NULL, channel, 1), EINVAL);
    struct mrc_context *stranger = mrc_create_context(verbs, NULL);
    NOTHING(mrc_create_cq(stranger, 16, NULL, channel, 0), EINVAL);
    CHECK(mrc_destroy_context(stranger) == 0);
    FAILS(mrc_destroy_comp_channel(channel), EBUSY);
    FAILS(mrc_destroy_comp_channel(NULL), EINVAL);
    FAILS(mrc_destroy_cq(NULL), EINVAL);
    struct ibv_wc wc;
    CHECK(mrc_poll_cq(cq, 1, &wc) == 0 && mrc_poll_cq(cq, 0, NULL) == 0);
    MINUS(mrc_poll_cq(NULL, 1, &wc), EINVAL);
    MINUS(mrc_poll_cq(cq, -1, &wc), EINVAL);
    MINUS(mrc_poll_cq(cq, 1, NULL), EINVAL);
    FAILS(mrc_req_notify_cq(NULL, 0), EINVAL);
    struct mrc_cq *silent = mrc_create_cq(mrc, 16, NULL, NULL, 0);
    FAILS(mrc_req_notify_cq(silent, 0), EINVAL);
    CHECK(mrc_destroy_cq(silent) == 0);
    CHECK(mrc_destroy_cq(cq) == 0 && mrc_destroy_comp_channel(channel) == 0);
    CHECK(mrc_destroy_context(mrc) == 0 && ibv_close_device(verbs) == 0);
}

static void hints(void) {
    struct all all;
    set_up(&all);
    struct mrc_qp_hint_init_attr init = {.attr = {.num_qps_per_peer = 2, .num_send_peers = 8, .num_remote_recv_peers = 3}};
    init.attr.vendor_cfg[127] = 9;
    NOTHING(mrc_create_qp_hint(NULL, &init), EINVAL);
    NOTHING(mrc_create_qp_hint(all.mrc, NULL), EINVAL);
    struct mrc_qp_hint *hint = mrc_create_qp_hint(all.mrc, &init);
    CHECK(hint != NULL);
    init.attr.num_send_peers = -1;
    NOTHING(mrc_create_qp_hint(all.mrc, &init), EINVAL);
    struct mrc_qp_hint_attr attr = {0};
    CHECK(mrc_query_qp_hint(hint, &attr, MRC_QP_HINT_NUM_SEND_PEERS | MRC_QP_HINT_VENDOR_CFG) == 0);
    CHECK(attr.num_send_peers == 8 && attr.num_qps_per_peer == 0 && attr.vendor_cfg[127] == 9);
    attr = (struct mrc_qp_hint_attr){.num_qps_per_peer = 7, .num_send_peers = 6, .num_remote_recv_peers = 5};
    CHECK(mrc_modify_qp_hint(hint, &attr, MRC_QP_HINT_NUM_QPS_PER_PEER | MRC_QP_HINT_NUM_REMOTE_RECV_PEERS) == 0);
    CHECK(mrc_query_qp_hint(hint, &attr, MRC_QP_HINT_NUM_QPS_PER_PEER | MRC_QP_HINT_NUM_SEND_PEERS) == 0);
    CHECK(attr.num_qps_per_peer == 7 && attr.num_send_peers == 8);
    MINUS(mrc_query_qp_hint(hint, &attr, 1 << 5), EINVAL);
    MINUS(mrc_query_qp_hint(NULL, &attr, 1), EINVAL);
    MINUS(mrc_query_qp_hint(hint, NULL, 1), EINVAL);
    MINUS(mrc_modify_qp_hint(hint, &attr, 1 << 5), EINVAL);
    MINUS(mrc_modify_qp_hint(NULL, &attr, 1), EINVAL);
    MINUS(mrc_modify_qp_hint(hint, NULL, 1), EINVAL);
    attr.num_qps_per_peer = -3;
    MINUS(mrc_modify_qp_hint(hint, &attr, MRC_QP_HINT_NUM_QPS_PER_PEER), EINVAL);

    struct ibv_qp_attr verbs = {.qp_state = IBV_QPS_INIT};
    struct mrc_qp_attr mrc = {.qp_hint = hint};
    CHECK(mrc_modify_qp(all.side[0].qp, &verbs, IBV_QP_STATE, &mrc, MRC_QP_HINT) == 0);
    mrc.qp_hint = NULL;
    CHECK(mrc_query_qp(all.side[0].qp, NULL, 0, &mrc, MRC_QP_HINT, NULL) == 0 && mrc.qp_hint == hint);
    MINUS(mrc_destroy_qp_hint(hint), EBUSY);
    mrc.qp_hint = NULL;
    CHECK(mrc_modify_qp(all.side[0].qp, NULL, 0, &mrc, MRC_QP_HINT) == 0);
    MINUS(mrc_destroy_qp_hint(NULL), EINVAL);
    CHECK(mrc_destroy_qp_hint(hint) == 0);
    tear_down(&all);
}

static void states(void) {
    struct all all;
    set_up(&all);
    struct side *a = &all.side[0], *b = &all.side[1];

    struct mrc_qp_init_attr init = init_attr(&all, a);
    NOTHING(mrc_create_qp(NULL, &init), EINVAL);
    NOTHING(mrc_create_qp(all.mrc, NULL), EINVAL);
#define REFUSED(change, error)                                                                                         \
    do {                                                                                                               \
        struct mrc_qp_init_attr wrong = init_attr(&all, a);                                                            \
        wrong.change;                                                                                                  \
        NOTHING(mrc_create_qp(all.mrc, &wrong), error);                                                                \
    } while (0)
    REFUSED(send_cq = NULL, EINVAL);
    REFUSED(recv_cq = NULL, EINVAL);
    REFUSED(pd = NULL, EINVAL);
    REFUSED(cap.max_send_wr = 32769, EINVAL);
    REFUSED(cap.max_recv_wr = 32769, EINVAL);
    REFUSED(cap.max_send_sge = 2, EINVAL);
    REFUSED(cap.max_inline_data = 257, EINVAL);
    REFUSED(protocol_version = 2, EINVAL);
    REFUSED(send_ops_flags = IBV_QP_EX_WITH_SEND, EOPNOTSUPP);
    uint32_t qpn;
    MINUS(mrc_get_qpn(NULL, &qpn), EINVAL);
    MINUS(mrc_get_qpn(a->qp, NULL), EINVAL);
    FAILS(mrc_destroy_qp(NULL), EINVAL);
    FAILS(mrc_destroy_cq(a->send_cq), EBUSY);
    FAILS(ibv_dealloc_pd(all.pd), EBUSY);

    /* What follows from no state but another. */
    struct ibv_sge sge;
    struct ibv_send_wr wr = write_wr(&all, &sge, 0, 0, 1);
    FAILS(post(a, &wr), EINVAL);
    MINUS(receive(a, 1), EINVAL);
    FAILS(to_rtr(&all, a, b), EINVAL);
    FAILS(to_rts(a), EINVAL);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .cur_qp_state = IBV_QPS_RTS};
    FAILS(mrc_modify_qp(NULL, &attr, IBV_QP_STATE, NULL, 0), EINVAL);
    FAILS(mrc_modify_qp(a->qp, NULL, IBV_QP_STATE, NULL, 0), EINVAL);
    FAILS(mrc_modify_qp(a->qp, &attr, IBV_QP_STATE, NULL, MRC_QP_MPR), EINVAL);
    FAILS(mrc_modify_qp(a->qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE, NULL, 0), EINVAL);
    FAILS(mrc_modify_qp(a->qp, &attr, IBV_QP_STATE | IBV_QP_QKEY, NULL, 0), EINVAL);
    attr.pkey_index = 1;
    FAILS(mrc_modify_qp(a->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX, NULL, 0), EINVAL);

    /* Values out of range, each by itself. */
#define RANGE(change, mask)                                                                                            \
    do {                                                                                                               \
        struct mrc_qp_attr wrong = {0};                                                                                \
        wrong.change;                                                                                                  \
        FAILS(mrc_modify_qp(a->qp, &attr, IBV_QP_STATE, &wrong, mask), EINVAL);                                        \
    } while (0)
    RANGE(mpr.mpr = 0, MRC_QP_MPR);
    RANGE(mpr.mpr = 9, MRC_QP_MPR);
    RANGE(mpr.mpr_dest = 9, MRC_QP_MPR_DEST);
    RANGE(wimm.max_wimm = 0, MRC_QP_MAX_WIMM);
    RANGE(wimm.max_wimm = 65, MRC_QP_MAX_WIMM);
    RANGE(wimm.max_wimm_dest = 65, MRC_QP_MAX_WIMM_DEST);
    RANGE(timeout = 25, MRC_QP_TIMEOUT);
    RANGE(retry.linear_cnt = 8, MRC_QP_RETRY_CNT);
    RANGE(retry.exp_cnt = 26, MRC_QP_RETRY_CNT);
    RANGE(cap = MRC_QP_CAP_DYNAMIC_MPR, MRC_QP_CAP);
    RANGE(cap = 1 << 9, MRC_QP_CAP);
    RANGE(profile.ev_profile_id = 4711, MRC_QP_EV_PROFILE_ID);
    RANGE(profile.cc_profile_id = 1, MRC_QP_CC_PROFILE_ID);
    RANGE(vendor_cfg[3] = 1, MRC_QP_VENDOR_CFG);
    RANGE(timeout = 1, 1 << 20);

    CHECK(to_init(a) == 0);
    struct mrc_qp_attr mrc = {.mpr = {.mpr = 4, .mpr_dest = 8}, .wimm = {.max_wimm = 2, .max_wimm_dest = 64}, .timeout = 8};
    mrc.cap = MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED;
    int early = MRC_QP_MPR | MRC_QP_MPR_DEST | MRC_QP_MAX_WIMM | MRC_QP_MAX_WIMM_DEST | MRC_QP_CAP | MRC_QP_TIMEOUT;
    CHECK(mrc_modify_qp(a->qp, NULL, 0, &mrc, early) == 0);
#define NO_RTR(change, error)                                                                                          \
    do {                                                                                                               \
        struct ibv_qp_attr wrong = rtr_attr(&all, b);                                                                  \
        wrong.change;                                                                                                  \
        FAILS(mrc_modify_qp(a->qp, &wrong, RTR_MASK, NULL, 0), error);                                                 \
    } while (0)
    NO_RTR(ah_attr.is_global = 0, EINVAL);
    NO_RTR(ah_attr.grh.sgid_index = 4, EINVAL);
    NO_RTR(ah_attr.port_num = 2, EINVAL);
    NO_RTR(ah_attr.grh.dgid.raw[15] = 9, EHOSTUNREACH);
    NO_RTR(ah_attr.grh.dgid.raw[0] = 0xfd, EINVAL);
    NO_RTR(dest_qp_num = 1, EINVAL);
    NO_RTR(dest_qp_num = 1 << 24, EINVAL);
    NO_RTR(rq_psn = 1 << 24, EINVAL);
    NO_RTR(path_mtu = 0, EINVAL);
    NO_RTR(path_mtu = 6, EINVAL);
    struct ibv_qp_attr rtr = rtr_attr(&all, b);
    FAILS(mrc_modify_qp(a->qp, &rtr, RTR_MASK & ~IBV_QP_AV, NULL, 0), EINVAL);
    FAILS(mrc_modify_qp(a->qp, &rtr, RTR_MASK & ~IBV_QP_DEST_QPN, NULL, 0), EINVAL);
    FAILS(mrc_modify_qp(a->qp, &rtr, RTR_MASK & ~IBV_QP_RQ_PSN, NULL, 0), EINVAL);
    CHECK(mrc_modify_qp(a->qp, &rtr, RTR_MASK, NULL, 0) == 0);
    FAILS(post(a, &wr), EINVAL);
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .sq_psn = 1 << 24};
    FAILS(mrc_modify_qp(a->qp, &rts, IBV_QP_STATE, NULL, 0), EINVAL);
    FAILS(mrc_modify_qp(a->qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN, NULL, 0), EINVAL);
    FAILS(mrc_modify_qp(a->qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN, &mrc, MRC_QP_MPR_DEST), EINVAL);
    CHECK(to_rts(a) == 0);
    FAILS(mrc_modify_qp(a->qp, NULL, 0, &mrc, MRC_QP_MPR), EINVAL);

    struct ibv_qp_attr told;
    struct mrc_qp_attr mrc_told = {0};
    struct mrc_qp_init_attr init_told;
    CHECK(mrc_query_qp(a->qp, &told, IBV_QP_STATE, &mrc_told, early | MRC_QP_RETRY_CNT, &init_told) == 0);
    CHECK(told.qp_state == IBV_QPS_RTS && told.cur_qp_state == IBV_QPS_RTS && told.rq_psn == 77 && told.sq_psn == 77);
    CHECK(told.dest_qp_num == b->qpn && told.cap.max_send_wr == DEPTH && told.ah_attr.grh.dgid.raw[15] == 1);
    CHECK(mrc_told.mpr.mpr == 4 && mrc_told.wimm.max_wimm == 2 && mrc_told.timeout == 14 && mrc_told.retry.exp_cnt == 2);
    CHECK(mrc_told.cap == MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED && mrc_told.retry.linear_cnt == 3);
    CHECK(init_told.qp_context == a && init_told.send_cq == a->send_cq && init_told.pd == all.pd);
    FAILS(mrc_query_qp(NULL, &told, IBV_QP_STATE, NULL, 0, NULL), EINVAL);
    FAILS(mrc_query_qp(a->qp, NULL, IBV_QP_STATE, NULL, 0, NULL), EINVAL);
    FAILS(mrc_query_qp(a->qp, &told, 0, NULL, MRC_QP_MPR, NULL), EINVAL);

    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET};
    FAILS(mrc_modify_qp(a->qp, &attr, IBV_QP_STATE, NULL, 0), EOPNOTSUPP);
    attr.qp_state = IBV_QPS_ERR;
    /* Receives that wait end as flushed, in RTS as well as in INIT; requests on a QP in error do, too. */
    CHECK(receive(a, 21) == 0 && mrc_modify_qp(a->qp, &attr, IBV_QP_STATE, NULL, 0) == 0);
    struct ibv_wc wc = completion(a->recv_cq);
    CHECK(wc.wr_id == 21 && wc.status == IBV_WC_WR_FLUSH_ERR && wc.qp_num == a->qpn);
    CHECK(post(a, &wr) == 0);
    CHECK(completion(a->send_cq).status == IBV_WC_WR_FLUSH_ERR);
    CHECK(mrc_query_qp(a->qp, &told, IBV_QP_STATE, NULL, 0, NULL) == 0 && told.qp_state == IBV_QPS_ERR);
    CHECK(to_init(b) == 0 && receive(b, 22) == 0 && mrc_modify_qp(b->qp, &attr, IBV_QP_STATE, NULL, 0) == 0);
    wc = completion(b->recv_cq);
    CHECK(wc.wr_id == 22 && wc.status == IBV_WC_WR_FLUSH_ERR);
    tear_down(&all);
}

static void transfer(void) {
    struct all all;
    set_up(&all);
    to_send(&all);
    struct side *a = &all.side[0], *b = &all.side[1];
    size_t half = SIZE / 2;
    for (size_t n = 0; n < half; n++)
        all.memory[n] = (unsigned char)(n ^ (n >> 8));
    struct ibv_sge sge, sge2;
    struct ibv_send_wr wr = write_wr(&all, &sge, 0, half, half), wr2;
    CHECK(post(a, &wr) == 0);
    struct ibv_wc wc = completion(a->send_cq);
    CHECK(wc.wr_id == 5 && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RDMA_WRITE && wc.qp_num == a->qpn);
    CHECK(wc.byte_len == half && memcmp(all.memory, all.memory + half, half) == 0);

    /* A list: the first without a completion, the second with an immediate. */
    CHECK(receive(b, 31) == 0 && receive(b, 32) == 0);
    wr = write_wr(&all, &sge, 100, half, 1000);
    wr.send_flags = 0;
    wr2 = write_wr(&all, &sge2, 0, half + 5000, 7);
    wr2.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr2.imm_data = htonl(0x01020304);
    wr2.wr_id = 6;
    wr.next = &wr2;
    CHECK(post(a, &wr) == 0);
    wc = completion(a->send_cq);
    CHECK(wc.wr_id == 6 && wc.status == IBV_WC_SUCCESS && memcmp(all.memory + 100, all.memory + half, 1000) == 0);
    wc = completion(b->recv_cq);
    CHECK(wc.wr_id == 31 && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.byte_len == 7);
    CHECK(ntohl(wc.imm_data) == 0x01020304 && (wc.wc_flags & IBV_WC_WITH_IMM) != 0 && wc.qp_num == b->qpn);

    /* No bytes at all, but an immediate. */
    wr2.next = NULL;
    wr2.num_sge = 0;
    wr2.sg_list = NULL;
    CHECK(post(a, &wr2) == 0);
    CHECK(completion(a->send_cq).status == IBV_WC_SUCCESS);
    wc = completion(b->recv_cq);
    CHECK(wc.wr_id == 32 && wc.byte_len == 0);

    /* Inline data needs no key, and is taken before the call returns; more requests than the queue holds find their places anew. */
    for (uint64_t n = 0; n < 5 * DEPTH; n++) {
        uint64_t value = 0x1122334455667788 ^ n;
        wr = write_wr(&all, &sge, 0, half + 8 * n, 8);
        sge = (struct ibv_sge){.addr = (uintptr_t)&value, .length = 8, .lkey = 0};
        wr.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
        CHECK(post(a, &wr) == 0);
        value = 0;
        if (n % 4 == 3)
            for (int k = 0; k < 4; k++)
                CHECK(completion(a->send_cq).status == IBV_WC_SUCCESS);
    }
    for (uint64_t n = 0; n < 5 * DEPTH; n++) {
        uint64_t arrived;
        memcpy(&arrived, all.memory + half + 8 * n, 8);
        CHECK(arrived == (0x1122334455667788 ^ n));
    }

    /* What posting refuses. */
    struct ibv_send_wr *bad = NULL;
    wr = write_wr(&all, &sge, 0, half, 65);
    wr.send_flags = IBV_SEND_INLINE;
    FAILS(post(a, &wr), EINVAL);
    wr = write_wr(&all, &sge, 0, half, 1);
    wr.opcode = IBV_WR_SEND;
    FAILS(post(a, &wr), EINVAL);
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.num_sge = 2;
    FAILS(post(a, &wr), EINVAL);
    wr.num_sge = -1;
    FAILS(post(a, &wr), EINVAL);
    wr.num_sge = 1;
    wr.sg_list = NULL;
    FAILS(post(a, &wr), EINVAL);
    wr.sg_list = &sge;
    wr.send_flags = IBV_SEND_IP_CSUM;
    FAILS(post(a, &wr), EINVAL);
    wr.send_flags = 0;
    sge.length = (1u << 30) + 1;
    FAILS(post(a, &wr), EINVAL);
    FAILS(mrc_post_send(a->qp, NULL, &bad), EINVAL);
    FAILS(mrc_post_send(NULL, &wr, &bad), EINVAL);
    wr = write_wr(&all, &sge, 0, half, 1);
    wr2 = write_wr(&all, &sge2, 0, half, 1);
    wr2.opcode = IBV_WR_RDMA_READ;
    wr.next = &wr2;
    FAILS(mrc_post_send(a->qp, &wr, &bad), EINVAL);
    CHECK(bad == &wr2 && completion(a->send_cq).status == IBV_WC_SUCCESS);
    struct ibv_recv_wr receive_wr = {.num_sge = 2}, *bad_receive = NULL;
    MINUS(mrc_post_recv(b->qp, &receive_wr, &bad_receive), EINVAL);
    CHECK(bad_receive == &receive_wr);
    MINUS(mrc_post_recv(NULL, &receive_wr, &bad_receive), EINVAL);
    MINUS(mrc_post_recv(b->qp, NULL, &bad_receive), EINVAL);
    for (int n = 0; n < DEPTH; n++)
        CHECK(receive(b, 100) == 0);
    MINUS(receive(b, 101), ENOMEM);
    /* A full send queue says so, and loses nothing. */
    int posted = 0, refused = 0;
    for (int n = 0; n < 10000 && refused == 0; n++) {
        wr = write_wr(&all, &sge, 0, half, 4096);
        int code = post(a, &wr);
        CHECK(code == 0 || code == ENOMEM);
        if (code == 0)
            posted++;
        else
            refused++;
    }
    CHECK(refused == 1);
    for (int n = 0; n < posted; n++)
        CHECK(completion(a->send_cq).status == IBV_WC_SUCCESS);
    tear_down(&all);
}

static void notify(void) {
    struct all all;
    set_up(&all);
    to_send(&all);
    struct side *a = &all.side[0], *b = &all.side[1];
    struct mrc_cq *cq = NULL;
    void *context = NULL;
    int fd;
    CHECK(mrc_get_comp_channel_fd(all.channel, &fd) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    MINUS(mrc_get_cq_event(all.channel, &cq, &context), EAGAIN);
    MINUS(mrc_get_cq_event(NULL, &cq, &context), EINVAL);
    MINUS(mrc_get_cq_event(all.channel, NULL, &context), EINVAL);
    MINUS(mrc_get_cq_event(all.channel, &cq, NULL), EINVAL);
    CHECK(fcntl(fd, F_SETFL, 0) == 0);
    CHECK(mrc_req_notify_cq(a->send_cq, 0) == 0 && mrc_req_notify_cq(b->recv_cq, 1) == 0);
    CHECK(receive(b, 1) == 0);
    struct ibv_sge sge;
    struct ibv_send_wr wr = write_wr(&all, &sge, 0, SIZE / 2, 8);
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    CHECK(post(a, &wr) == 0);
    struct mrc_cq *heard[2];
    for (int n = 0; n < 2; n++) {
        CHECK(mrc_get_cq_event(all.channel, &heard[n], &context) == 0);
        CHECK(context == (heard[n] == a->send_cq ? a : b));
    }
    CHECK((heard[0] == a->send_cq && heard[1] == b->recv_cq) || (heard[0] == b->recv_cq && heard[1] == a->send_cq));
    CHECK(completion(a->send_cq).status == IBV_WC_SUCCESS && completion(b->recv_cq).wr_id == 1);
    mrc_ack_cq_events(a->send_cq, 1);
    mrc_ack_cq_events(b->recv_cq, 1);
    mrc_ack_cq_events(NULL, 1);
    /* Armed once, told once; solicited events alone tell of no Write that succeeds. */
    wr.opcode = IBV_WR_RDMA_WRITE;
    CHECK(post(a, &wr) == 0 && completion(a->send_cq).status == IBV_WC_SUCCESS);
    CHECK(mrc_req_notify_cq(a->send_cq, 1) == 0);
    CHECK(post(a, &wr) == 0 && completion(a->send_cq).status == IBV_WC_SUCCESS);
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    CHECK(poll(&readable, 1, 50) == 0);
    /* An event that nobody took goes with its completion queue. */
    CHECK(mrc_req_notify_cq(a->send_cq, 0) == 0);
    CHECK(post(a, &wr) == 0 && completion(a->send_cq).status == IBV_WC_SUCCESS);
    CHECK(poll(&readable, 1, 5000) == 1);
    tear_down(&all);
}

static void events(void) {
    struct all all;
    set_up(&all);
    to_send(&all);
    struct side *a = &all.side[0], *b = &all.side[1];
    struct mrc_async_event event;
    CHECK(fcntl(all.verbs->async_fd, F_SETFL, O_NONBLOCK) == 0);
    FAILS(mrc_get_async_event(all.mrc, &event), EAGAIN);
    FAILS(mrc_get_async_event(NULL, &event), EINVAL);
    FAILS(mrc_get_async_event(all.mrc, NULL), EINVAL);
    CHECK(fcntl(all.verbs->async_fd, F_SETFL, 0) == 0);
    /* A key that is none: the peer refuses, and both QPs end. */
    struct ibv_sge sge;
    struct ibv_send_wr wr = write_wr(&all, &sge, 0, SIZE / 2, 8);
    wr.wr.rdma.rkey ^= 0xff00;
    CHECK(post(a, &wr) == 0);
    struct ibv_wc wc = completion(a->send_cq);
    CHECK(wc.status == IBV_WC_REM_ACCESS_ERR && wc.wr_id == 5);
    for (int n = 0; n < 2; n++) {
        CHECK(mrc_get_async_event(all.mrc, &event) == 0);
        CHECK(event.element.qp == a->qp ? event.event_type == IBV_EVENT_QP_FATAL
                                        : event.element.qp == b->qp && event.event_type == IBV_EVENT_QP_ACCESS_ERR);
        mrc_ack_async_event(&event);
    }
    mrc_ack_async_event(NULL);
    struct ibv_qp_attr told;
    CHECK(mrc_query_qp(a->qp, &told, IBV_QP_STATE, NULL, 0, NULL) == 0 && told.qp_state == IBV_QPS_ERR);
    tear_down(&all);

    /* A peer that never answers: the retries of its own end the QP, and memory that is not registered does. */
    set_up(&all);
    to_send(&all);
    CHECK(mrc_destroy_qp(all.side[1].qp) == 0);
    wr = write_wr(&all, &sge, 0, SIZE / 2, 8);
    CHECK(post(a, &wr) == 0 && completion(a->send_cq).status == IBV_WC_RETRY_EXC_ERR);
    struct mrc_qp_init_attr init = init_attr(&all, b);
    b->qp = mrc_create_qp(all.mrc, &init);
    CHECK(b->qp != NULL && mrc_get_qpn(b->qp, &b->qpn) == 0);
    CHECK(to_init(b) == 0 && to_rtr(&all, b, a) == 0 && to_rts(b) == 0);
    sge.lkey ^= 0xff00;
    CHECK(post(b, &wr) == 0 && completion(b->send_cq).status == IBV_WC_LOC_PROT_ERR);
    tear_down(&all);
}

static const struct part parts[] = {
    {"discovery", discovery}, {"memory", memory},     {"contexts", contexts}, {"hints", hints},
    {"states", states},       {"transfer", transfer}, {"notify", notify},     {"events", events},
};

int main(int argc, char **argv) { return run_part(parts, sizeof parts / sizeof parts[0], argc, argv); }
