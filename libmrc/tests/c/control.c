/* What operators and controllers do meanwhile. The argument says which part. */
#include "common.h"

static void control(void) {
    uint32_t version[4] = {0};
    mrc_ctl_query_version(&version[0], &version[1], &version[2], &version[3]);
    CHECK(version[0] == 0x01000001 && version[1] == 0 && version[2] == 0x01000000 && version[3] == 0);
    mrc_ctl_query_version(NULL, NULL, NULL, NULL);
    struct ibv_context *verbs = open_device(), *second = open_device();
    struct mrc_context *mrc = mrc_create_context(verbs, NULL);
    struct mrc_ctl_device_attr device;
    CHECK(mrc_ctl_query_device(verbs, &device) == 0 && device.phy_port_mask == 2);
    CHECK(device.ev.ev_max_fmt_profiles == 64 && device.ev.ev_max_profiles == 1024 && device.ev.ev_max_count == 262144);
    CHECK(device.ev.ev_free_count == 262144 && device.ev.ev_max_count_profile == 65536 && device.ev.ev_count_align == 1);
    CHECK(device.ev.ev_max_width == 128 && device.ev.ev_fmt_mode_mask == 7 && device.ev.ev_mode_mask == 7);
    CHECK(device.cc.cc_max_profiles == 64 && device.opt_attr == (1 | 4 | 16 | 32));
    CHECK(strcmp(device.cc.algorithms[0], "uet-1.0-nscc") == 0 && device.cc.algorithms[1] == NULL);
    MINUS(mrc_ctl_query_device(NULL, &device), EINVAL);
    MINUS(mrc_ctl_query_device(verbs, NULL), EINVAL);
    int supported = 0;
    CHECK(mrc_ctl_query_device_ex(verbs, mrc, &device, &supported) == 0 && supported == 1);
    MINUS(mrc_ctl_query_device_ex(second, mrc, &device, &supported), EINVAL);
    MINUS(mrc_ctl_query_device_ex(verbs, NULL, &device, &supported), EINVAL);
    MINUS(mrc_ctl_query_device_ex(verbs, mrc, &device, NULL), EINVAL);

    struct mrc_ctl_port_attr port = {.port_admin_state = 9};
    struct ibv_port_attr state;
    CHECK(mrc_ctl_query_port(mrc, 1, &port, MRC_CTL_PORT_ADMIN_STATE) == 0 && port.port_admin_state == 1);
    port.port_admin_state = 0;
    CHECK(mrc_ctl_modify_port(mrc, 1, &port, MRC_CTL_PORT_ADMIN_STATE) == 0);
    port.port_admin_state = 9;
    CHECK(mrc_ctl_query_port(mrc, 1, &port, MRC_CTL_PORT_ADMIN_STATE) == 0 && port.port_admin_state == 0);
    CHECK(ibv_query_port(verbs, 1, &state) == 0 && state.state == IBV_PORT_DOWN);
    MINUS(mrc_ctl_query_port(mrc, 2, &port, MRC_CTL_PORT_ADMIN_STATE), EINVAL);
    MINUS(mrc_ctl_query_port(mrc, 0, &port, MRC_CTL_PORT_ADMIN_STATE), EINVAL);
    MINUS(mrc_ctl_query_port(mrc, 1, &port, 2), EINVAL);
    MINUS(mrc_ctl_query_port(mrc, 1, NULL, MRC_CTL_PORT_ADMIN_STATE), EINVAL);
    MINUS(mrc_ctl_query_port(NULL, 1, &port, MRC_CTL_PORT_ADMIN_STATE), EINVAL);
    port.port_admin_state = 2;
    MINUS(mrc_ctl_modify_port(mrc, 1, &port, MRC_CTL_PORT_ADMIN_STATE), EINVAL);
    port.port_admin_state = 1;
    MINUS(mrc_ctl_modify_port(mrc, 2, &port, MRC_CTL_PORT_ADMIN_STATE), EINVAL);
    MINUS(mrc_ctl_modify_port(mrc, 1, &port, 2), EINVAL);
    MINUS(mrc_ctl_modify_port(mrc, 1, NULL, MRC_CTL_PORT_ADMIN_STATE), EINVAL);
    MINUS(mrc_ctl_modify_port(NULL, 1, &port, MRC_CTL_PORT_ADMIN_STATE), EINVAL);
    CHECK(mrc_ctl_modify_port(mrc, 1, &port, MRC_CTL_PORT_ADMIN_STATE) == 0);
    CHECK(ibv_query_port(verbs, 1, &state) == 0 && state.state == IBV_PORT_ACTIVE);
    CHECK(mrc_destroy_context(mrc) == 0 && ibv_close_device(second) == 0 && ibv_close_device(verbs) == 0);
}

/* An operator has made EV profile 7 by the time that this reads a line. */
static void profile(void) {
    struct all all;
    set_up(&all);
    char line[8];
    printf("up\n");
    CHECK(fflush(stdout) == 0 && fgets(line, sizeof line, stdin) != NULL);
    struct side *a = &all.side[0], *b = &all.side[1];
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
    struct mrc_qp_attr mrc = {.profile = {.ev_profile_id = 8}};
    FAILS(mrc_modify_qp(a->qp, &attr, IBV_QP_STATE, &mrc, MRC_QP_EV_PROFILE_ID), EINVAL);
    mrc.profile.ev_profile_id = 7;
    CHECK(mrc_modify_qp(a->qp, &attr, IBV_QP_STATE, &mrc, MRC_QP_EV_PROFILE_ID) == 0);
    mrc.profile.ev_profile_id = 0;
    FAILS(mrc_modify_qp(a->qp, NULL, 0, &mrc, MRC_QP_EV_PROFILE_ID), EINVAL);
    CHECK(mrc_query_qp(a->qp, NULL, 0, &mrc, MRC_QP_EV_PROFILE_ID, NULL) == 0 && mrc.profile.ev_profile_id == 7);
    CHECK(to_init(b) == 0 && to_rtr(&all, a, b) == 0 && to_rtr(&all, b, a) == 0 && to_rts(a) == 0 && to_rts(b) == 0);
    all.memory[0] = 9;
    struct ibv_sge sge;
    struct ibv_send_wr wr = write_wr(&all, &sge, 0, SIZE / 2, SIZE / 2);
    CHECK(post(a, &wr) == 0 && completion(a->send_cq).status == IBV_WC_SUCCESS && all.memory[SIZE / 2] == 9);
    printf("written\n");
    CHECK(fflush(stdout) == 0 && fgets(line, sizeof line, stdin) != NULL);
    tear_down(&all);
}

static const struct part parts[] = {{"control", control}, {"profile", profile}};

int main(int argc, char **argv) { return run_part(parts, sizeof parts / sizeof parts[0], argc, argv); }
