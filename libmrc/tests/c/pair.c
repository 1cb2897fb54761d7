/* Two processes, each with a NIC: the client writes into the server's memory, and tells it so by an immediate. They meet at a UNIX socket. */
#include "common.h"
#include "meet.h"

int main(int argc, char **argv) {
    CHECK(argc == 3);
    int server = strcmp(argv[1], "server") == 0;
    struct all all;
    set_up(&all);
    struct side *side = &all.side[0];
    CHECK(to_init(side) == 0);
    struct wire own = {.qpn = side->qpn, .rkey = all.mr->rkey, .address = (uintptr_t)all.memory}, other;
    CHECK(ibv_query_gid(all.verbs, 1, 3, &own.gid) == 0);
    int fd = meet(server, argv[2]);
    tell(fd, &own, sizeof own);
    hear(fd, &other, sizeof other);
    struct side peer = {.qpn = other.qpn};
    struct ibv_qp_attr rtr = rtr_attr(&all, &peer);
    rtr.ah_attr.grh.dgid = other.gid;
    CHECK(mrc_modify_qp(side->qp, &rtr, RTR_MASK, NULL, 0) == 0);
    CHECK(to_rts(side) == 0);
    char go = 0;
    tell(fd, &go, 1);
    hear(fd, &go, 1);
    int sizes = 0;
    for (size_t size = 1; size <= SIZE; size *= 4, sizes++) {
        if (server) {
            memset(all.memory, 0, SIZE);
            CHECK(receive(side, size) == 0);
            tell(fd, &go, 1);
            struct ibv_wc wc = completion(side->recv_cq);
            if (wc.status || wc.wr_id != size || ntohl(wc.imm_data) != size || wc.byte_len != size)
                fprintf(stderr, "size %zu: status %d, wr_id %lu, immediate %u, %u bytes\n", size, wc.status, (long)wc.wr_id,
                        ntohl(wc.imm_data), wc.byte_len);
            CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == size && ntohl(wc.imm_data) == size && wc.byte_len == size);
            for (size_t at = 0; at < SIZE; at++)
                CHECK(all.memory[at] == (at < size ? pattern(at, size) : 0));
        } else {
            for (size_t at = 0; at < size; at++)
                all.memory[at] = pattern(at, size);
            hear(fd, &go, 1);
            struct ibv_sge sge;
            struct ibv_send_wr wr = write_wr(&all, &sge, 0, 0, (uint32_t)size);
            wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
            wr.imm_data = htonl((uint32_t)size);
            wr.wr.rdma.remote_addr = other.address;
            wr.wr.rdma.rkey = other.rkey;
            CHECK(post(side, &wr) == 0 && completion(side->send_cq).status == IBV_WC_SUCCESS);
        }
    }
    /* Who was written to stays until the writer has heard of it. */
    if (server)
        hear(fd, &go, 1);
    else
        tell(fd, &go, 1);
    tear_down(&all);
    printf("%d sizes\n", sizes);
    return 0;
}
