/* What the test programs share: two QPs of one NIC whose frames come back to it. */
#ifndef COMMON_H
#define COMMON_H

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mrcnic_mrc.h"

/* Ends the program where something is not as it should be. */
#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "%s:%d: %s (errno %d, %s)\n", __FILE__, __LINE__, #what, errno, strerror(errno));          \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
/* The call gives the number of an error itself. */
#define FAILS(call, error)                                                                                             \
    do {                                                                                                               \
        errno = 0;                                                                                                     \
        int code_ = (call);                                                                                            \
        if (code_ != (error)) {                                                                                        \
            fprintf(stderr, "%s:%d: %s is %d, not " #error "\n", __FILE__, __LINE__, #call, code_);                    \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
/* The call gives -1, and errno the number. */
#define MINUS(call, error)                                                                                             \
    do {                                                                                                               \
        errno = 0;                                                                                                     \
        CHECK((call) == -1 && errno == (error));                                                                       \
    } while (0)
/* The call gives NULL, and errno the number. */
#define NOTHING(call, error)                                                                                           \
    do {                                                                                                               \
        errno = 0;                                                                                                     \
        CHECK((call) == NULL && errno == (error));                                                                     \
    } while (0)

#define DEPTH 16
#define SIZE (1 << 20)
#define REMOTE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

struct side {
    struct mrc_cq *send_cq, *recv_cq;
    struct mrc_qp *qp;
    uint32_t qpn;
};

struct all {
    struct ibv_context *verbs;
    struct ibv_pd *pd;
    struct mrc_context *mrc;
    struct ibv_mr *mr;
    unsigned char *memory;
    struct mrc_comp_channel *channel;
    struct side side[2];
};

/* A part of a program, by its name. */
struct part {
    const char *name;
    void (*run)(void);
};

/* Runs the part that the one argument names, and says so. */
static inline int run_part(const struct part *parts, size_t count, int argc, char **argv) {
    for (size_t n = 0; argc == 2 && n < count; n++) {
        if (strcmp(argv[1], parts[n].name) == 0) {
            parts[n].run();
            printf("%s: as it should be\n", argv[1]);
            return 0;
        }
    }
    fprintf(stderr, "no such part\n");
    return 2;
}

static inline struct ibv_context *open_device(void) {
    struct ibv_device **list = ibv_get_device_list(NULL);
    CHECK(list != NULL);
    struct ibv_context *verbs = ibv_open_device(list[0]);
    CHECK(verbs != NULL);
    ibv_free_device_list(list);
    return verbs;
}

static inline struct mrc_qp_init_attr init_attr(struct all *all, struct side *side) {
    struct mrc_qp_init_attr attr = {.qp_context = side, .send_cq = side->send_cq, .recv_cq = side->recv_cq, .pd = all->pd};
    attr.cap.max_send_wr = DEPTH;
    attr.cap.max_recv_wr = DEPTH;
    attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
    attr.cap.max_inline_data = 64;
    return attr;
}

static inline void set_up(struct all *all) {
    memset(all, 0, sizeof *all);
    all->verbs = open_device();
    all->pd = ibv_alloc_pd(all->verbs);
    CHECK(all->pd != NULL);
    all->mrc = mrc_create_context(all->verbs, NULL);
    CHECK(all->mrc != NULL);
    CHECK(posix_memalign((void **)&all->memory, 4096, SIZE) == 0);
    memset(all->memory, 0, SIZE);
    all->mr = ibv_reg_mr(all->pd, all->memory, SIZE, REMOTE);
    CHECK(all->mr != NULL);
    CHECK(mrc_create_comp_channel(all->mrc, &all->channel) == 0);
    for (int n = 0; n < 2; n++) {
        struct side *side = &all->side[n];
        side->send_cq = mrc_create_cq(all->mrc, 64, side, all->channel, 0);
        side->recv_cq = mrc_create_cq(all->mrc, 64, side, all->channel, 0);
        CHECK(side->send_cq != NULL && side->recv_cq != NULL);
        struct mrc_qp_init_attr attr = init_attr(all, side);
        side->qp = mrc_create_qp(all->mrc, &attr);
        CHECK(side->qp != NULL);
        CHECK(mrc_get_qpn(side->qp, &side->qpn) == 0 && side->qpn > 2);
    }
}

static inline int to_init(struct side *side) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .qp_access_flags = REMOTE, .port_num = 1};
    return mrc_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, NULL, 0);
}

#define RTR_MASK (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)

static inline struct ibv_qp_attr rtr_attr(struct all *all, struct side *other) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = other->qpn, .rq_psn = 77};
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    CHECK(ibv_query_gid(all->verbs, 1, 3, &attr.ah_attr.grh.dgid) == 0);
    return attr;
}

static inline int to_rtr(struct all *all, struct side *side, struct side *other) {
    struct ibv_qp_attr attr = rtr_attr(all, other);
    return mrc_modify_qp(side->qp, &attr, RTR_MASK, NULL, 0);
}

static inline int to_rts_from(struct side *side, uint32_t psn) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .sq_psn = psn};
    struct mrc_qp_attr mrc = {.timeout = 14, .retry = {.linear_cnt = 3, .exp_cnt = 2}};
    return mrc_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN, &mrc, MRC_QP_TIMEOUT | MRC_QP_RETRY_CNT);
}

static inline int to_rts(struct side *side) { return to_rts_from(side, 77); }

static inline void to_send(struct all *all) {
    for (int n = 0; n < 2; n++) {
        CHECK(to_init(&all->side[n]) == 0);
        CHECK(to_rtr(all, &all->side[n], &all->side[1 - n]) == 0);
        CHECK(to_rts(&all->side[n]) == 0);
    }
}

static inline void tear_down(struct all *all) {
    for (int n = 0; n < 2; n++) {
        CHECK(mrc_destroy_qp(all->side[n].qp) == 0);
        CHECK(mrc_destroy_cq(all->side[n].send_cq) == 0);
        CHECK(mrc_destroy_cq(all->side[n].recv_cq) == 0);
    }
    CHECK(mrc_destroy_comp_channel(all->channel) == 0);
    CHECK(ibv_dereg_mr(all->mr) == 0);
    CHECK(ibv_dealloc_pd(all->pd) == 0);
    CHECK(mrc_destroy_context(all->mrc) == 0);
    CHECK(ibv_close_device(all->verbs) == 0);
    free(all->memory);
}

static inline double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The next completion, in twenty seconds. */
static inline struct ibv_wc completion(struct mrc_cq *cq) {
    struct ibv_wc wc;
    int n;
    double end = seconds() + 20;
    while ((n = mrc_poll_cq(cq, 1, &wc)) == 0)
        CHECK(seconds() < end);
    CHECK(n == 1);
    return wc;
}

/* A signaled Write of `length` bytes at `from` to `to`, both counted from the start of the memory. */
static inline struct ibv_send_wr write_wr(struct all *all, struct ibv_sge *sge, size_t from, size_t to, uint32_t length) {
    *sge = (struct ibv_sge){.addr = (uintptr_t)all->memory + from, .length = length, .lkey = all->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 5, .sg_list = sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = (uintptr_t)all->memory + to;
    wr.wr.rdma.rkey = all->mr->rkey;
    return wr;
}

static inline int post(struct side *side, struct ibv_send_wr *wr) {
    struct ibv_send_wr *bad = NULL;
    int code = mrc_post_send(side->qp, wr, &bad);
    CHECK(code == 0 ? bad == NULL : bad != NULL);
    return code;
}

static inline int receive(struct side *side, uint64_t wr_id) {
    struct ibv_recv_wr wr = {.wr_id = wr_id}, *bad = NULL;
    int code = mrc_post_recv(side->qp, &wr, &bad);
    CHECK(code == 0 ? bad == NULL : bad == &wr);
    return code;
}

#endif
