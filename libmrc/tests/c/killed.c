/* A survivor, and peers of it that are killed in the middle of a transfer: one that is written to, and one that writes. Then one that lives.
 *
 *     killed survivor PATH       listens at PATH1, PATH2 and PATH3, a peer each, and says when to kill the first and the second
 *     killed taken PATH1         is written to
 *     killed writes PATH2        writes, with immediates
 *     killed lives PATH3         is written to once
 */
#include "common.h"
#include "meet.h"

#define PIECE 65536
#define RECEIVES 4

/* Tells the peer of a QP in RESET, hears of its own, and brings the QP to RTS. */
static struct wire join(struct all *all, struct side *side, int fd) {
    CHECK(to_init(side) == 0);
    struct wire own = {.qpn = side->qpn, .rkey = all->mr->rkey, .address = (uintptr_t)all->memory}, other;
    /* A number of its own for each QP: frames of the one before may be waiting in the port, and peers that start again have the same QPNs. */
    static uint32_t joined;
    own.psn = ((uint32_t)(seconds() * 1e6) + (uint32_t)getpid() * 7919 + ++joined * 100000) & 0xffffff;
    CHECK(ibv_query_gid(all->verbs, 1, 3, &own.gid) == 0);
    for (int n = 0; n < RECEIVES; n++)
        CHECK(receive(side, 100 + (uint64_t)n) == 0);
    tell(fd, &own, sizeof own);
    hear(fd, &other, sizeof other);
    struct side peer = {.qpn = other.qpn};
    struct ibv_qp_attr rtr = rtr_attr(all, &peer);
    rtr.ah_attr.grh.dgid = other.gid;
    rtr.rq_psn = other.psn;
    CHECK(mrc_modify_qp(side->qp, &rtr, RTR_MASK, NULL, 0) == 0);
    CHECK(to_rts_from(side, own.psn) == 0);
    /* Retries are counted from the first post on: the ports are to have met by then. */
    struct ibv_port_attr port = {0};
    double end = seconds() + 20;
    while (ibv_query_port(all->verbs, 1, &port) == 0 && port.state != IBV_PORT_ACTIVE) {
        CHECK(seconds() < end);
        usleep(5000);
    }
    char go = 0;
    tell(fd, &go, 1);
    hear(fd, &go, 1);
    return other;
}

static int post_piece(struct all *all, struct side *side, const struct wire *other, enum ibv_wr_opcode opcode, uint64_t wr_id,
                      uint32_t length) {
    struct ibv_sge sge;
    struct ibv_send_wr wr = write_wr(all, &sge, 0, 0, length);
    wr.wr_id = wr_id;
    wr.opcode = opcode;
    wr.imm_data = htonl((uint32_t)wr_id);
    wr.wr.rdma.remote_addr = other->address;
    wr.wr.rdma.rkey = other->rkey;
    return post(side, &wr);
}

/* The QP has failed: what was posted from `oldest` to before `next` has ended, the oldest with the cause, and its receives are flushed. */
static void ended(struct all *all, struct side *side, struct ibv_wc first, uint64_t oldest, uint64_t next) {
    CHECK(first.status == IBV_WC_RETRY_EXC_ERR && first.wr_id == oldest && first.qp_num == side->qpn);
    for (uint64_t wr_id = oldest + 1; wr_id < next; wr_id++) {
        struct ibv_wc wc = completion(side->send_cq);
        CHECK(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == wr_id);
    }
    for (int n = 0; n < RECEIVES; n++)
        CHECK(completion(side->recv_cq).status == IBV_WC_WR_FLUSH_ERR);
    struct ibv_wc none;
    CHECK(mrc_poll_cq(side->send_cq, 1, &none) == 0 && mrc_poll_cq(side->recv_cq, 1, &none) == 0);
    struct mrc_async_event event;
    CHECK(mrc_get_async_event(all->mrc, &event) == 0);
    CHECK(event.event_type == IBV_EVENT_QP_FATAL && event.element.qp == side->qp);
    mrc_ack_async_event(&event);
    /* A QP in error takes requests, and gives them back. */
    struct wire nowhere = {0};
    CHECK(post_piece(all, side, &nowhere, IBV_WR_RDMA_WRITE, 7, 1) == 0);
    CHECK(completion(side->send_cq).status == IBV_WC_WR_FLUSH_ERR);
}

/* Writes until the peer has been killed. */
static void outlive_a_responder(struct all *all, struct side *side, int fd) {
    struct wire other = join(all, side, fd);
    uint64_t next = 0, done = 0;
    struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
    double end = seconds() + 60;
    for (;;) {
        while (next - done < DEPTH)
            CHECK(post_piece(all, side, &other, IBV_WR_RDMA_WRITE, next++, PIECE) == 0);
        wc = completion(side->send_cq);
        if (wc.status != IBV_WC_SUCCESS)
            break;
        CHECK(wc.wr_id == done && seconds() < end);
        if (++done == 100) {
            printf("kill\n");
            fflush(stdout);
        }
    }
    CHECK(done >= 100);
    ended(all, side, wc, done, next);
    printf("a responder\n");
    fflush(stdout);
}

/* Is written to until the peer has been killed. Nothing comes any more: that a responder alone never learns, so it asks. */
static void outlive_a_requester(struct all *all, struct side *side, int fd) {
    struct wire other = join(all, side, fd);
    int received = 0;
    double last = seconds();
    while (received < 100 || seconds() - last < 0.5) {
        struct ibv_wc wc;
        int n = mrc_poll_cq(side->recv_cq, 1, &wc);
        CHECK(n >= 0);
        if (n == 0)
            continue;
        CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
        CHECK(receive(side, 100) == 0);
        last = seconds();
        /* It writes the next once it has heard that there is a receive for it. */
        char go = 0;
        if (write(fd, &go, 1) != 1)
            CHECK(errno == EPIPE || errno == ECONNRESET);
        if (++received == 100) {
            printf("kill\n");
            fflush(stdout);
        }
    }
    for (uint64_t wr_id = 0; wr_id < 3; wr_id++)
        CHECK(post_piece(all, side, &other, IBV_WR_RDMA_WRITE, wr_id, 0) == 0);
    ended(all, side, completion(side->send_cq), 0, 3);
    printf("a requester\n");
    fflush(stdout);
}

static void survive(const char *path) {
    struct all all;
    set_up(&all);
    int fd = meet_at(1, path, 1);
    outlive_a_responder(&all, &all.side[0], fd);
    close(fd);
    fd = meet_at(1, path, 2);
    outlive_a_requester(&all, &all.side[1], fd);
    close(fd);
    /* With a QP of its own a peer that has been started again is as good as any. */
    struct side *side = &all.side[0];
    CHECK(mrc_destroy_qp(side->qp) == 0);
    struct mrc_qp_init_attr attr = init_attr(&all, side);
    side->qp = mrc_create_qp(all.mrc, &attr);
    CHECK(side->qp != NULL && mrc_get_qpn(side->qp, &side->qpn) == 0);
    fd = meet_at(1, path, 3);
    struct wire other = join(&all, side, fd);
    for (size_t at = 0; at < SIZE; at++)
        all.memory[at] = pattern(at, SIZE);
    CHECK(post_piece(&all, side, &other, IBV_WR_RDMA_WRITE_WITH_IMM, 42, SIZE) == 0);
    CHECK(completion(side->send_cq).status == IBV_WC_SUCCESS);
    char go = 0;
    hear(fd, &go, 1);
    tell(fd, &go, 1);
    tear_down(&all);
    printf("one that lives\n");
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    /* Who writes to a peer that has been killed hears of it by an error. */
    signal(SIGPIPE, SIG_IGN);
    if (strcmp(argv[1], "survivor") == 0) {
        survive(argv[2]);
        return 0;
    }
    struct all all;
    set_up(&all);
    struct side *side = &all.side[0];
    int fd = meet(0, argv[2]);
    struct wire other = join(&all, side, fd);
    char go = 0;
    if (strcmp(argv[1], "taken") == 0) {
        for (;;)
            pause();
    } else if (strcmp(argv[1], "writes") == 0) {
        for (uint64_t wr_id = 0;; wr_id++) {
            CHECK(post_piece(&all, side, &other, IBV_WR_RDMA_WRITE_WITH_IMM, wr_id, PIECE) == 0);
            CHECK(completion(side->send_cq).status == IBV_WC_SUCCESS);
            hear(fd, &go, 1);
        }
    }
    struct ibv_wc wc = completion(side->recv_cq);
    CHECK(wc.status == IBV_WC_SUCCESS && ntohl(wc.imm_data) == 42 && wc.byte_len == SIZE);
    for (size_t at = 0; at < SIZE; at++)
        CHECK(all.memory[at] == pattern(at, SIZE));
    tell(fd, &go, 1);
    hear(fd, &go, 1);
    tear_down(&all);
    return 0;
}
