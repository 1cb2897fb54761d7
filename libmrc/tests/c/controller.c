/* What a controller does: formats of EVs, EV profiles, CC profiles and probes. The argument says which part. */
#include "controller.h"
#include <linux/capability.h>
#include <pthread.h>
#include <sys/syscall.h>

static void set_net_admin(int on) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    CHECK(syscall(SYS_capget, &header, data) == 0);
    uint32_t bit = 1u << CAP_NET_ADMIN;
    data[0].effective = on ? data[0].effective | bit : data[0].effective & ~bit;
    CHECK(syscall(SYS_capset, &header, data) == 0);
}

/* Without the capability nothing is done, and with it everything is. */
static void permission(void) {
    struct control all = begin();
    struct mrc_ctl_device_attr device;
    struct mrc_ctl_port_attr port = {.port_admin_state = 1};
    struct mrc_ctl_ev_fmt_profile_attr fmt = {.profile_state = 9};
    struct mrc_ctl_ev_profile_attr profile = {.profile_state = 9};
    struct mrc_ctl_cc_profile_attr cc = {.profile_state = 9};
    struct mrc_ctl_ep_req req = {.ev_fmt_mode = MRC_CTL_EV_FMT_MODE_UDP, .req_ev = {.port = 1}};
    struct mrc_ctl_ep_rsp rsp;
    int count = 7;
    CHECK(ibv_query_gid(all.verbs, 1, 3, &req.dgid) == 0);
    set_net_admin(0);
    CHECK(mrc_ctl_query_device(all.verbs, &device) == 0);
    MINUS(mrc_ctl_query_port(all.mrc, 1, &port, MRC_CTL_PORT_ADMIN_STATE), EPERM);
    MINUS(mrc_ctl_modify_port(all.mrc, 1, &port, MRC_CTL_PORT_ADMIN_STATE), EPERM);
    MINUS(mrc_ctl_query_ev_fmt_profile(all.mrc, FMT, &fmt, MRC_CTL_EV_FMT_PROFILE_STATE), EPERM);
    MINUS(mrc_ctl_modify_ev_fmt_profile(all.mrc, FMT, &fmt, 0), EPERM);
    MINUS(mrc_ctl_query_ev_profile(all.mrc, EVP, &profile, MRC_CTL_EV_PROFILE_STATE), EPERM);
    MINUS(mrc_ctl_modify_ev_profile(all.mrc, EVP, &profile, 0), EPERM);
    MINUS(mrc_ctl_query_cc_profile(all.mrc, 1, &cc, MRC_CTL_CC_PROFILE_STATE), EPERM);
    MINUS(mrc_ctl_modify_cc_profile(all.mrc, 1, &cc, 0), EPERM);
    NOTHING(mrc_ctl_create_ev_event_cq(all.mrc, 8, NULL, NULL, 0), EPERM);
    MINUS(mrc_ctl_ep_batch_send_wait(all.mrc, 0, MRC_CTL_EP_OP_EV_PROBE, &req, 1, 1000000, &rsp, &count), EPERM);
    CHECK(fmt.profile_state == 9 && profile.profile_state == 9 && cc.profile_state == 9 && count == 7);
    set_net_admin(1);
    CHECK(mrc_ctl_query_port(all.mrc, 1, &port, MRC_CTL_PORT_ADMIN_STATE) == 0);
    CHECK(mrc_ctl_modify_port(all.mrc, 1, &port, MRC_CTL_PORT_ADMIN_STATE) == 0);
    CHECK(mrc_ctl_query_ev_fmt_profile(all.mrc, FMT, &fmt, MRC_CTL_EV_FMT_PROFILE_STATE) == 0 && fmt.profile_state == 0);
    CHECK(mrc_ctl_modify_ev_fmt_profile(all.mrc, FMT, &fmt, 0) == 0);
    CHECK(mrc_ctl_query_ev_profile(all.mrc, EVP, &profile, MRC_CTL_EV_PROFILE_STATE) == 0 && profile.profile_state == 0);
    CHECK(mrc_ctl_modify_ev_profile(all.mrc, EVP, &profile, 0) == 0);
    CHECK(mrc_ctl_query_cc_profile(all.mrc, 1, &cc, MRC_CTL_CC_PROFILE_STATE) == 0 && cc.profile_state == 0);
    CHECK(mrc_ctl_modify_cc_profile(all.mrc, 1, &cc, 0) == 0);
    struct mrc_cq *cq = mrc_ctl_create_ev_event_cq(all.mrc, 8, NULL, NULL, 0);
    CHECK(cq != NULL && mrc_destroy_cq(cq) == 0);
    end(&all);
}

static void formats(void) {
    struct control all = begin();
    struct mrc_context *mrc = all.mrc;
    struct mrc_ctl_ev_fmt_field fields[200] = {{8}, {4}, {4}};
    struct mrc_ctl_ev_fmt_profile_attr attr = {.ev_fmt_mode = MRC_CTL_EV_FMT_MODE_STEV};
    int all_bits = MRC_CTL_EV_FMT_PROFILE_STATE | MRC_CTL_EV_FMT_PROFILE_CUR_STATE | MRC_CTL_EV_FMT_PROFILE_MODE |
                   MRC_CTL_EV_FMT_PROFILE_OP | MRC_CTL_EV_FMT_VENDOR_CFG;
    /* INIT: only the step to OFFLINE, with a mode. */
    CHECK(fmt_is(mrc, FMT) == MRC_CTL_PROFILE_INIT);
    MINUS(mrc_ctl_modify_ev_fmt_profile(mrc, FMT, &attr, MRC_CTL_EV_FMT_PROFILE_MODE), EINVAL);
    MINUS(mrc_ctl_query_ev_fmt_profile(mrc, FMT, &attr, MRC_CTL_EV_FMT_PROFILE_MODE), EINVAL);
    MINUS(fmt_to(mrc, FMT, MRC_CTL_PROFILE_OFFLINE), EINVAL);
    MINUS(fmt_to(mrc, FMT, MRC_CTL_PROFILE_ONLINE), EINVAL);
    MINUS(fmt_to(mrc, FMT, 3), EINVAL);
    MINUS(fmt_offline(mrc, FMT, 3, fields, 3), EINVAL);
    MINUS(fmt_offline(mrc, FMT, MRC_CTL_EV_FMT_MODE_STEV, NULL, 3), EINVAL);
    MINUS(fmt_offline(mrc, FMT, MRC_CTL_EV_FMT_MODE_STEV, fields, 0), EINVAL);
    MINUS(fmt_offline(mrc, FMT, MRC_CTL_EV_FMT_MODE_STEV, fields, -1), EINVAL);
    MINUS(fmt_offline(mrc, FMT, MRC_CTL_EV_FMT_MODE_STEV, fields, 4), EINVAL); /* a field of 0 bits */
    MINUS(fmt_offline(mrc, FMT, MRC_CTL_EV_FMT_MODE_STEV, fields, 200), E2BIG);
    fields[2].width = 24;
    MINUS(fmt_offline(mrc, FMT, MRC_CTL_EV_FMT_MODE_STEV, fields, 3), E2BIG);
    fields[2].width = 5;
    MINUS(fmt_offline(mrc, FMT, MRC_CTL_EV_FMT_MODE_UDP, fields, 3), E2BIG);
    MINUS(fmt_offline(mrc, FMT, MRC_CTL_EV_FMT_MODE_SRV6, fields, 3), E2BIG);
    fields[2].width = 4;
    MINUS(mrc_ctl_modify_ev_fmt_profile(mrc, FMT, NULL, 0), EINVAL);
    MINUS(mrc_ctl_modify_ev_fmt_profile(NULL, FMT, &attr, 0), EINVAL);
    MINUS(mrc_ctl_query_ev_fmt_profile(mrc, FMT, NULL, 0), EINVAL);
    MINUS(mrc_ctl_query_ev_fmt_profile(NULL, FMT, &attr, 0), EINVAL);
    MINUS(mrc_ctl_modify_ev_fmt_profile(mrc, FMT, &attr, 1 << 4), EINVAL);
    MINUS(mrc_ctl_query_ev_fmt_profile(mrc, FMT, &attr, 1 << 4), EINVAL);
    attr.vendor_cfg[127] = 1;
    MINUS(mrc_ctl_modify_ev_fmt_profile(mrc, FMT, &attr, MRC_CTL_EV_FMT_VENDOR_CFG), EINVAL);
    attr.vendor_cfg[127] = 0;
    attr.cur_profile_state = MRC_CTL_PROFILE_ONLINE;
    MINUS(mrc_ctl_modify_ev_fmt_profile(mrc, FMT, &attr, MRC_CTL_EV_FMT_PROFILE_CUR_STATE), EINVAL);
    CHECK(fmt_is(mrc, FMT) == MRC_CTL_PROFILE_INIT);

    /* OFFLINE with a mode alone: it is not complete, has no field, and EV profiles don't take it. */
    attr.profile_state = MRC_CTL_PROFILE_OFFLINE;
    attr.cur_profile_state = MRC_CTL_PROFILE_INIT;
    CHECK(mrc_ctl_modify_ev_fmt_profile(mrc, FMT, &attr, all_bits & ~MRC_CTL_EV_FMT_PROFILE_OP) == 0);
    MINUS(fmt_to(mrc, FMT, MRC_CTL_PROFILE_OFFLINE), EINVAL);
    MINUS(fmt_to(mrc, FMT, MRC_CTL_PROFILE_ONLINE), EINVAL);
    MINUS(ev_offline(mrc, EVP, FMT, 4, 0), EINVAL);
    attr.ev_fmt_op = (struct mrc_ctl_ev_fmt_op){.op = 2, .fmt_fields = fields, .fmt_field_count = 3};
    MINUS(mrc_ctl_modify_ev_fmt_profile(mrc, FMT, &attr, MRC_CTL_EV_FMT_PROFILE_OP), EINVAL);
    attr.ev_fmt_op.op = MRC_CTL_EV_FMT_OP_QUERY_FIELDS;
    CHECK(mrc_ctl_query_ev_fmt_profile(mrc, FMT, &attr, MRC_CTL_EV_FMT_PROFILE_OP) == 0 && attr.ev_fmt_op.fmt_field_count == 0);
    attr.ev_fmt_op = (struct mrc_ctl_ev_fmt_op){.op = MRC_CTL_EV_FMT_OP_MODIFY_FIELDS, .fmt_fields = fields, .fmt_field_count = 3};
    CHECK(mrc_ctl_modify_ev_fmt_profile(mrc, FMT, &attr, MRC_CTL_EV_FMT_PROFILE_OP) == 0);
    MINUS(mrc_ctl_query_ev_fmt_profile(mrc, FMT, &attr, MRC_CTL_EV_FMT_PROFILE_OP), EINVAL); /* nothing to ask */

    /* The fields come back, whose number is told where there is no room. */
    struct mrc_ctl_ev_fmt_field back[3] = {{0}};
    struct mrc_ctl_ev_fmt_profile_attr asked = {.profile_state = 9, .cur_profile_state = 9, .ev_fmt_mode = 9};
    asked.ev_fmt_op = (struct mrc_ctl_ev_fmt_op){.op = MRC_CTL_EV_FMT_OP_QUERY_FIELDS, .fmt_fields = back, .fmt_field_count = 2};
    asked.vendor_cfg[0] = 1;
    MINUS(mrc_ctl_query_ev_fmt_profile(mrc, FMT, &asked, MRC_CTL_EV_FMT_PROFILE_OP), E2BIG);
    CHECK(asked.ev_fmt_op.fmt_field_count == 3 && back[0].width == 0);
    asked.ev_fmt_op.fmt_fields = NULL;
    MINUS(mrc_ctl_query_ev_fmt_profile(mrc, FMT, &asked, MRC_CTL_EV_FMT_PROFILE_OP), EINVAL);
    asked.ev_fmt_op.fmt_fields = back;
    CHECK(mrc_ctl_query_ev_fmt_profile(mrc, FMT, &asked, all_bits) == 0);
    CHECK(asked.profile_state == MRC_CTL_PROFILE_OFFLINE && asked.cur_profile_state == MRC_CTL_PROFILE_OFFLINE);
    CHECK(asked.ev_fmt_mode == MRC_CTL_EV_FMT_MODE_STEV && asked.vendor_cfg[0] == 0);
    CHECK(asked.ev_fmt_op.fmt_field_count == 3 && back[0].width == 8 && back[1].width == 4 && back[2].width == 4);
    memset(back, 0, sizeof back);
    CHECK(mrc_ctl_modify_ev_fmt_profile(mrc, FMT, &asked, MRC_CTL_EV_FMT_PROFILE_OP) == 0 && back[2].width == 4);

    /* ONLINE it is as it is, and goes OFFLINE only without EV profiles that are ONLINE. */
    CHECK(fmt_to(mrc, FMT, MRC_CTL_PROFILE_ONLINE) == 0);
    MINUS(fmt_to(mrc, FMT, MRC_CTL_PROFILE_INIT), EINVAL);
    MINUS(fmt_to(mrc, FMT, MRC_CTL_PROFILE_ONLINE), EINVAL);
    MINUS(mrc_ctl_modify_ev_fmt_profile(mrc, FMT, &attr, MRC_CTL_EV_FMT_PROFILE_MODE), EINVAL);
    MINUS(mrc_ctl_modify_ev_fmt_profile(mrc, FMT, &attr, MRC_CTL_EV_FMT_PROFILE_OP), EINVAL);
    CHECK(ev_offline(mrc, EVP, FMT, 1, 0) == 0 && replace(mrc, EVP, MRC_CTL_EV_UNPOPULATED, ev(5, 1), 0) == 0);
    CHECK(ev_to(mrc, EVP, MRC_CTL_PROFILE_ONLINE) == 0);
    MINUS(fmt_to(mrc, FMT, MRC_CTL_PROFILE_OFFLINE), EBUSY);
    CHECK(ev_to(mrc, EVP, MRC_CTL_PROFILE_OFFLINE) == 0 && fmt_to(mrc, FMT, MRC_CTL_PROFILE_OFFLINE) == 0);
    MINUS(fmt_to(mrc, FMT, MRC_CTL_PROFILE_INIT), EBUSY);
    MINUS(ev_to(mrc, EVP, MRC_CTL_PROFILE_ONLINE), EINVAL); /* its format is not */
    CHECK(ev_to(mrc, EVP, MRC_CTL_PROFILE_INIT) == 0 && fmt_to(mrc, FMT, MRC_CTL_PROFILE_INIT) == 0);

    /* The modes, and as many formats as there may be. */
    const uint8_t srv6[] = {32, 16, 16, 16, 16}, udp[] = {8, 8};
    fmt_online(mrc, 14, MRC_CTL_EV_FMT_MODE_SRV6, srv6, 5);
    fmt_online(mrc, 15, MRC_CTL_EV_FMT_MODE_UDP, udp, 2);
    fmt_init(mrc, 14);
    fmt_init(mrc, 15);
    struct mrc_ctl_device_attr device;
    CHECK(mrc_ctl_query_device(all.verbs, &device) == 0);
    for (uint64_t id = 100; id < 100 + device.ev.ev_max_fmt_profiles; id++)
        CHECK(fmt_offline(mrc, id, MRC_CTL_EV_FMT_MODE_STEV, fields, 3) == 0);
    MINUS(fmt_offline(mrc, 99, MRC_CTL_EV_FMT_MODE_STEV, fields, 3), E2BIG);
    for (uint64_t id = 100; id < 100 + device.ev.ev_max_fmt_profiles; id++)
        CHECK(fmt_to(mrc, id, MRC_CTL_PROFILE_INIT) == 0);
    end(&all);
}

static void explicit_evs(void) {
    struct control all = begin();
    struct mrc_context *mrc = all.mrc;
    const uint8_t two[] = {16, 16};
    const struct mrc_ctl_ev none = MRC_CTL_EV_UNPOPULATED;
    fmt_online(mrc, FMT, MRC_CTL_EV_FMT_MODE_STEV, two, 2);
    struct mrc_ctl_device_attr device;
    CHECK(mrc_ctl_query_device(all.verbs, &device) == 0 && (device.ev.ev_mode_mask & MRC_CTL_EV_MODE_EXP));
    struct mrc_ctl_ev_profile_attr attr = {.profile_state = MRC_CTL_PROFILE_OFFLINE, .ev_mode = MRC_CTL_EV_MODE_EXP};
    attr.ev_fmt_profile_id = FMT;
    attr.ev_count = 6;
    attr.ev_min_active = 2;
    attr.ev_event_mask = (int)GOOD_OR_BAD;

    /* INIT: what the step to OFFLINE needs, and what is wrong with it. */
    MINUS(ev_to(mrc, EVP, MRC_CTL_PROFILE_OFFLINE), EINVAL);
    MINUS(ev_to(mrc, EVP, MRC_CTL_PROFILE_ONLINE), EINVAL);
    MINUS(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, TO_OFFLINE & ~MRC_CTL_EV_PROFILE_STATE), EINVAL);
    MINUS(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, TO_OFFLINE & ~MRC_CTL_EV_PROFILE_MODE), EINVAL);
    MINUS(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, TO_OFFLINE & ~MRC_CTL_EV_PROFILE_FMT_ID), EINVAL);
    MINUS(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, TO_OFFLINE & ~MRC_CTL_EV_PROFILE_COUNT), EINVAL);
    MINUS(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, 1 << 9), EINVAL);
    MINUS(mrc_ctl_modify_ev_profile(mrc, 0, &attr, TO_OFFLINE), EINVAL);
    MINUS(mrc_ctl_modify_ev_profile(NULL, EVP, &attr, TO_OFFLINE), EINVAL);
    MINUS(mrc_ctl_modify_ev_profile(mrc, EVP, NULL, 0), EINVAL);
    MINUS(mrc_ctl_query_ev_profile(NULL, EVP, &attr, 0), EINVAL);
    MINUS(mrc_ctl_query_ev_profile(mrc, EVP, NULL, 0), EINVAL);
    MINUS(mrc_ctl_query_ev_profile(mrc, EVP, &attr, MRC_CTL_EV_PROFILE_COUNT), EINVAL);
    MINUS(mrc_ctl_query_ev_profile(mrc, EVP, &attr, 1 << 9), EINVAL);
    MINUS(ev_offline(mrc, EVP, 77, 6, 0), EINVAL);
    MINUS(ev_offline(mrc, EVP, FMT, 0, 0), EINVAL);
    MINUS(ev_offline(mrc, EVP, FMT, 6, 7), EINVAL);
    MINUS(ev_offline(mrc, EVP, FMT, device.ev.ev_max_count_profile + 1, 0), E2BIG);
    attr.ev_mode = 3;
    MINUS(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, TO_OFFLINE), EINVAL);
    attr.ev_mode = MRC_CTL_EV_MODE_EXP;
    attr.ev_event_mask = MRC_CTL_EV_DENIED;
    MINUS(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, TO_OFFLINE), EINVAL);
    attr.ev_event_mask = (int)GOOD_OR_BAD;
    attr.cur_profile_state = MRC_CTL_PROFILE_OFFLINE;
    MINUS(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, TO_OFFLINE | MRC_CTL_EV_PROFILE_CUR_STATE), EINVAL);
    attr.vendor_cfg[3] = 1;
    MINUS(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, TO_OFFLINE | MRC_CTL_EV_PROFILE_VENDOR_CFG), EINVAL);
    attr.vendor_cfg[3] = 0;
    CHECK(ev_is(mrc, EVP, 0).profile_state == MRC_CTL_PROFILE_INIT);

    /* OFFLINE: its EVs are all unpopulated. */
    CHECK(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, TO_OFFLINE & ~(MRC_CTL_EV_PROFILE_MIN_ACTIVE | MRC_CTL_EV_PROFILE_EVENT_MASK)) == 0);
    CHECK(mrc_ctl_query_device(all.verbs, &device) == 0 && device.ev.ev_free_count == device.ev.ev_max_count - 6);
    struct mrc_ctl_ev_op_entry got[8] = {{.state = 9}};
    attr.ev_op = (struct mrc_ctl_ev_entries_op){.op = MRC_CTL_EV_OP_QUERY_EV_ARRAY, .entries = got, .entry_count = 5};
    MINUS(mrc_ctl_query_ev_profile(mrc, EVP, &attr, MRC_CTL_EV_PROFILE_EV_OP), E2BIG);
    CHECK(attr.ev_op.entry_count == 6 && got[0].state == 9);
    attr.ev_op.entries = NULL;
    MINUS(mrc_ctl_query_ev_profile(mrc, EVP, &attr, MRC_CTL_EV_PROFILE_EV_OP), EINVAL);
    attr.ev_op.entries = got;
    CHECK(mrc_ctl_query_ev_profile(mrc, EVP, &attr, MRC_CTL_EV_PROFILE_EV_OP) == 0 && attr.ev_op.entry_count == 6);
    for (int n = 0; n < 6; n++)
        CHECK(memcmp(&got[n].ev, &none, sizeof none) == 0 && got[n].state == MRC_CTL_EV_UNKNOWN);
    attr.ev_op.op = MRC_CTL_EV_OP_REPLACE_EV;
    MINUS(mrc_ctl_query_ev_profile(mrc, EVP, &attr, MRC_CTL_EV_PROFILE_EV_OP), EINVAL);
    attr.ev_op.op = 4;
    MINUS(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, MRC_CTL_EV_PROFILE_EV_OP), EINVAL);
    MINUS(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, MRC_CTL_EV_PROFILE_EV_OP | MRC_CTL_EV_PROFILE_EV_FIELDS_OP), EINVAL);
    MINUS(mrc_ctl_query_ev_profile(mrc, EVP, &attr, MRC_CTL_EV_PROFILE_EV_OP | MRC_CTL_EV_PROFILE_EV_FIELDS_OP), EINVAL);

    /* Entries: each by itself, up to the first that is refused. */
    struct mrc_ctl_ev_op_entry entries[3] = {{.ev_new = ev(0x00010001, 1), .state = MRC_CTL_EV_GOOD},
                                             {.ev_new = ev(0x00020002, 9), .state = MRC_CTL_EV_GOOD},
                                             {.ev_new = ev(0x00030003, 1), .state = MRC_CTL_EV_GOOD}};
    MINUS(ev_op(mrc, EVP, MRC_CTL_EV_OP_REPLACE_EV, NULL, 3), EINVAL);
    MINUS(ev_op(mrc, EVP, MRC_CTL_EV_OP_REPLACE_EV, entries, 0), EINVAL);
    MINUS(ev_op(mrc, EVP, MRC_CTL_EV_OP_REPLACE_EV, entries, (int)device.ev.ev_op_max_entries + 1), E2BIG);
    MINUS(ev_op(mrc, EVP, MRC_CTL_EV_OP_REPLACE_EV, entries, 3), EINVAL); /* no port 9 */
    entries[1].ev_new.port = 1;
    entries[1].state = MRC_CTL_EV_UNKNOWN;
    MINUS(ev_op(mrc, EVP, MRC_CTL_EV_OP_REPLACE_EV, entries + 1, 2), EINVAL);
    entries[1].state = MRC_CTL_EV_DENIED;
    entries[1].flags = 2;
    MINUS(ev_op(mrc, EVP, MRC_CTL_EV_OP_REPLACE_EV, entries + 1, 2), EINVAL);
    entries[1].flags = 0;
    CHECK(ev_op(mrc, EVP, MRC_CTL_EV_OP_REPLACE_EV, entries + 1, 2) == 0);
    CHECK(state_of(mrc, EVP, ev(0x00010001, 1)) == MRC_CTL_EV_GOOD);
    CHECK(state_of(mrc, EVP, ev(0x00020002, 1)) == MRC_CTL_EV_DENIED);
    MINUS(replace(mrc, EVP, ev(0x00090009, 1), ev(7, 1), 0), ENOENT);
    MINUS(replace(mrc, EVP, ev(0x00010001, 2), ev(7, 1), 0), ENOENT);
    MINUS(replace(mrc, EVP, none, none, 0), EINVAL);
    struct mrc_ctl_ev wide = ev(7, 1);
    wide.val[4] = 0x80;
    MINUS(replace(mrc, EVP, none, wide, 0), EINVAL);

    /* All that are left, at a time; one more is not there to be replaced. */
    MINUS(ev_to(mrc, EVP, MRC_CTL_PROFILE_ONLINE), EINVAL);
    CHECK(replace(mrc, EVP, none, ev(0x00040004, 1), MRC_CTL_EV_OP_F_ALL_COPIES) == 0);
    MINUS(replace(mrc, EVP, none, ev(0x00050005, 1), 0), ENOENT);
    CHECK(replace(mrc, EVP, ev(0x00040004, 1), ev(0x00050005, 1), 0) == 0);
    attr.ev_op = (struct mrc_ctl_ev_entries_op){.op = MRC_CTL_EV_OP_QUERY_EV_ARRAY, .entries = got, .entry_count = 8};
    CHECK(mrc_ctl_query_ev_profile(mrc, EVP, &attr, MRC_CTL_EV_PROFILE_EV_OP) == 0 && attr.ev_op.entry_count == 6);
    const uint32_t vals[] = {1, 2, 3, 5, 4, 4};
    for (int n = 0; n < 6; n++) {
        struct mrc_ctl_ev wanted = ev(vals[n] << 16 | vals[n], 1);
        CHECK(memcmp(&got[n].ev, &wanted, sizeof wanted) == 0);
        CHECK(got[n].state == (n == 1 ? MRC_CTL_EV_DENIED : MRC_CTL_EV_GOOD));
    }

    /* ONLINE needs MIN_ACTIVE and EVENT_MASK too; a step that is refused changes nothing. */
    MINUS(ev_to(mrc, EVP, MRC_CTL_PROFILE_ONLINE), EINVAL);
    attr.profile_state = MRC_CTL_PROFILE_ONLINE;
    MINUS(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MIN_ACTIVE), EINVAL);
    CHECK(ev_is(mrc, EVP, MRC_CTL_EV_PROFILE_MIN_ACTIVE).ev_min_active == 0);
    CHECK(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MIN_ACTIVE | MRC_CTL_EV_PROFILE_EVENT_MASK) == 0);
    struct mrc_ctl_ev_profile_attr is = ev_is(mrc, EVP, TO_OFFLINE | MRC_CTL_EV_PROFILE_CUR_STATE | MRC_CTL_EV_PROFILE_VENDOR_CFG);
    CHECK(is.profile_state == MRC_CTL_PROFILE_ONLINE && is.cur_profile_state == MRC_CTL_PROFILE_ONLINE);
    CHECK(is.ev_mode == MRC_CTL_EV_MODE_EXP && is.ev_fmt_profile_id == FMT && is.ev_count == 6 && is.ev_min_active == 2);
    CHECK(is.ev_event_mask == (int)GOOD_OR_BAD);

    /* ONLINE: states, EVs and the event mask may change, and nothing else. */
    MINUS(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, MRC_CTL_EV_PROFILE_COUNT), EINVAL);
    MINUS(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, MRC_CTL_EV_PROFILE_MIN_ACTIVE), EINVAL);
    MINUS(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, MRC_CTL_EV_PROFILE_MODE), EINVAL);
    MINUS(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, MRC_CTL_EV_PROFILE_FMT_ID), EINVAL);
    attr.ev_event_mask = MRC_CTL_EV_GOOD;
    CHECK(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, MRC_CTL_EV_PROFILE_EVENT_MASK) == 0);
    CHECK(ev_is(mrc, EVP, MRC_CTL_EV_PROFILE_EVENT_MASK).ev_event_mask == MRC_CTL_EV_GOOD);
    CHECK(set_state(mrc, EVP, ev(0x00030003, 1), MRC_CTL_EV_DENIED) == 0);
    CHECK(state_of(mrc, EVP, ev(0x00030003, 1)) == MRC_CTL_EV_DENIED);
    CHECK(set_state(mrc, EVP, ev(0x00030003, 1), MRC_CTL_EV_ASSUMED_BAD) == 0);
    CHECK(state_of(mrc, EVP, ev(0x00030003, 1)) == MRC_CTL_EV_ASSUMED_BAD);
    CHECK(set_state(mrc, EVP, ev(0x00030003, 1), MRC_CTL_EV_GOOD) == 0);
    CHECK(state_of(mrc, EVP, ev(0x00030003, 1)) == MRC_CTL_EV_GOOD);
    MINUS(set_state(mrc, EVP, ev(0x00030003, 1), MRC_CTL_EV_UNKNOWN), EINVAL);
    MINUS(set_state(mrc, EVP, ev(0x00030003, 1), 0), EINVAL);
    MINUS(set_state(mrc, EVP, ev(0x00990099, 1), MRC_CTL_EV_GOOD), ENOENT);
    CHECK(replace(mrc, EVP, ev(0x00040004, 1), ev(0x00060006, 1), MRC_CTL_EV_OP_F_ALL_COPIES) == 0);
    struct mrc_ctl_ev_op_entry ask[3] = {{.ev = ev(0x00060006, 1)}, {.ev = ev(0x00040004, 1), .state = 9}, {.ev = ev(0x00050005, 1), .state = 9}};
    attr.ev_op = (struct mrc_ctl_ev_entries_op){.op = MRC_CTL_EV_OP_QUERY_EV_STATE, .entries = ask, .entry_count = 3};
    MINUS(mrc_ctl_query_ev_profile(mrc, EVP, &attr, MRC_CTL_EV_PROFILE_EV_OP), ENOENT);
    CHECK(ask[0].state == MRC_CTL_EV_GOOD && ask[1].state == 9 && ask[2].state == 9);
    MINUS(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, MRC_CTL_EV_PROFILE_EV_OP), ENOENT);
    MINUS(ev_to(mrc, EVP, MRC_CTL_PROFILE_INIT), EINVAL);
    ev_init(mrc, EVP);
    fmt_init(mrc, FMT);
    end(&all);
}

/* Fields of an EXPLICIT profile: the EV is the bits of the masks, and what is in the packet is made of it. */
static void fields(void) {
    struct control all = begin();
    struct mrc_context *mrc = all.mrc;
    const uint8_t five[] = {32, 16, 16, 16, 16};
    fmt_online(mrc, 14, MRC_CTL_EV_FMT_MODE_SRV6, five, 5);
    struct mrc_ctl_ev_field fields[6] = {{.width = 32, .init_val = 0xcafecafe}};
    for (int n = 1; n < 5; n++)
        fields[n] = (struct mrc_ctl_ev_field){.width = 16, .mask = 0xffff};
    struct mrc_ctl_ev_profile_attr attr = {.profile_state = MRC_CTL_PROFILE_OFFLINE, .ev_mode = MRC_CTL_EV_MODE_EXP};
    attr.ev_fmt_profile_id = 14;
    attr.ev_count = 3;
    attr.ev_event_mask = (int)GOOD_OR_BAD;
    attr.ev_fields_op = (struct mrc_ctl_ev_fields_op){.op = MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS, .fields = fields, .field_count = 6};
    int with_fields = TO_OFFLINE | MRC_CTL_EV_PROFILE_EV_FIELDS_OP;
    MINUS(mrc_ctl_modify_ev_profile(mrc, 2, &attr, with_fields), E2BIG); /* more fields than the format has */
    attr.ev_fields_op.field_count = 200;
    MINUS(mrc_ctl_modify_ev_profile(mrc, 2, &attr, with_fields), E2BIG);
    attr.ev_fields_op.field_count = 0;
    MINUS(mrc_ctl_modify_ev_profile(mrc, 2, &attr, with_fields), EINVAL);
    attr.ev_fields_op.field_count = 5;
    attr.ev_fields_op.op = 2;
    MINUS(mrc_ctl_modify_ev_profile(mrc, 2, &attr, with_fields), EINVAL);
    attr.ev_fields_op.op = MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS;
    struct mrc_ctl_ev_field right = fields[1];
    const struct mrc_ctl_ev_field wrong[] = {{.width = 17, .mask = 1},  {.width = 0},
                                             {.width = 300},            {.width = 16, .init_val = 0x10000},
                                             {.width = 16, .mask = 0x10000}, {.width = 16, .mask = 3, .max_val = 4},
                                             {.width = 16, .max_val = 1}};
    for (size_t n = 0; n < sizeof wrong / sizeof wrong[0]; n++) {
        fields[1] = wrong[n];
        MINUS(mrc_ctl_modify_ev_profile(mrc, 2, &attr, with_fields), EINVAL);
    }
    fields[1] = right;
    CHECK(mrc_ctl_modify_ev_profile(mrc, 2, &attr, with_fields) == 0);

    /* Fields come back as they were given. */
    struct mrc_ctl_ev_field back[5];
    attr.ev_fields_op = (struct mrc_ctl_ev_fields_op){.op = MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS, .fields = back, .field_count = 4};
    MINUS(mrc_ctl_query_ev_profile(mrc, 2, &attr, MRC_CTL_EV_PROFILE_EV_FIELDS_OP), E2BIG);
    CHECK(attr.ev_fields_op.field_count == 5);
    CHECK(mrc_ctl_query_ev_profile(mrc, 2, &attr, MRC_CTL_EV_PROFILE_EV_FIELDS_OP) == 0);
    CHECK(memcmp(back, fields, sizeof back) == 0);
    attr.ev_fields_op.op = MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS;
    MINUS(mrc_ctl_query_ev_profile(mrc, 2, &attr, MRC_CTL_EV_PROFILE_EV_FIELDS_OP), EINVAL);

    /* 64 bits of an EV: paths that differ in the last one are two. */
    struct mrc_ctl_ev path[3] = {{.val = {0, 1, 0, 2, 0, 3, 0, 4}, .port = 1}, {.val = {0, 1, 0, 2, 0, 3, 0, 5}, .port = 1},
                                 {.val = {0, 1, 0, 2, 0, 3, 0, 4}, .port = 1}};
    for (int n = 0; n < 3; n++)
        CHECK(replace(mrc, 2, MRC_CTL_EV_UNPOPULATED, path[n], 0) == 0);
    struct mrc_ctl_ev gap = {.val = {0, 1, 0, 0, 0, 3, 0, 4}, .port = 1};
    MINUS(replace(mrc, 2, path[0], gap, 0), EINVAL); /* uSID 0 in between */
    struct mrc_ctl_ev_op_entry got[3];
    attr.ev_op = (struct mrc_ctl_ev_entries_op){.op = MRC_CTL_EV_OP_QUERY_EV_ARRAY, .entries = got, .entry_count = 3};
    CHECK(mrc_ctl_query_ev_profile(mrc, 2, &attr, MRC_CTL_EV_PROFILE_EV_OP) == 0);
    for (int n = 0; n < 3; n++)
        CHECK(memcmp(&got[n].ev, &path[n], sizeof path[n]) == 0);
    CHECK(ev_to(mrc, 2, MRC_CTL_PROFILE_ONLINE) == 0);
    CHECK(set_state(mrc, 2, path[1], MRC_CTL_EV_DENIED) == 0 && state_of(mrc, 2, path[1]) == MRC_CTL_EV_DENIED);
    CHECK(state_of(mrc, 2, path[0]) == MRC_CTL_EV_GOOD);

    /* ONLINE, other fields: the EVs are the same bits. */
    fields[0].init_val = 0xfcbbbbbb;
    attr.ev_fields_op = (struct mrc_ctl_ev_fields_op){.op = MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS, .fields = fields, .field_count = 5};
    CHECK(mrc_ctl_modify_ev_profile(mrc, 2, &attr, MRC_CTL_EV_PROFILE_EV_FIELDS_OP) == 0);
    CHECK(mrc_ctl_query_ev_profile(mrc, 2, &attr, MRC_CTL_EV_PROFILE_EV_OP) == 0);
    for (int n = 0; n < 3; n++)
        CHECK(memcmp(&got[n].ev, &path[n], sizeof path[n]) == 0 && got[n].state == MRC_CTL_EV_GOOD);
    ev_init(mrc, 2);
    fmt_init(mrc, 14);
    end(&all);
}

static void generated(void) {
    struct control all = begin();
    struct mrc_context *mrc = all.mrc;
    const uint8_t tiers[] = {8, 4, 4};
    fmt_online(mrc, FMT, MRC_CTL_EV_FMT_MODE_STEV, tiers, 3);
    struct mrc_ctl_device_attr device;
    CHECK(mrc_ctl_query_device(all.verbs, &device) == 0 && (device.ev.ev_mode_mask & MRC_CTL_EV_MODE_GEN));
    struct mrc_ctl_ev_field fields[3] = {{.width = 8, .max_val = 255, .mask = 0xff}, {.width = 4, .max_val = 15, .mask = 15},
                                         {.width = 4, .max_val = 15, .mask = 15}};
    struct mrc_ctl_ev_profile_attr attr = {.profile_state = MRC_CTL_PROFILE_OFFLINE, .ev_mode = MRC_CTL_EV_MODE_GEN};
    attr.ev_fmt_profile_id = FMT;
    attr.ev_count = 256 * 4;
    attr.ev_min_active = 256;
    attr.ev_event_mask = (int)GOOD_OR_BAD;
    attr.ev_fields_op = (struct mrc_ctl_ev_fields_op){.op = MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS, .fields = fields, .field_count = 3};
    MINUS(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, TO_OFFLINE), EINVAL); /* without fields */
    attr.ev_count = 65537;
    MINUS(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, TO_OFFLINE | MRC_CTL_EV_PROFILE_EV_FIELDS_OP), E2BIG);
    fields[2].max_val = 7;
    attr.ev_count = 65536; /* twice as many as the fields allow */
    MINUS(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, TO_OFFLINE | MRC_CTL_EV_PROFILE_EV_FIELDS_OP), EINVAL);
    fields[2] = (struct mrc_ctl_ev_field){.width = 4, .min_val = 0, .max_val = 0, .mask = 0x5}; /* no bounds */
    attr.ev_count = 256 * 16 * 4;
    CHECK(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, TO_OFFLINE | MRC_CTL_EV_PROFILE_EV_FIELDS_OP) == 0);
    CHECK(ev_to(mrc, EVP, MRC_CTL_PROFILE_ONLINE) == 0);
    uint32_t count = ev_is(mrc, EVP, MRC_CTL_EV_PROFILE_COUNT).ev_count;
    CHECK(count == 256 * 16 * 4);
    struct mrc_ctl_ev_op_entry *got = calloc(count, sizeof *got);
    CHECK(got != NULL);
    attr.ev_op = (struct mrc_ctl_ev_entries_op){.op = MRC_CTL_EV_OP_QUERY_EV_ARRAY, .entries = got, .entry_count = (int)count};
    CHECK(mrc_ctl_query_ev_profile(mrc, EVP, &attr, MRC_CTL_EV_PROFILE_EV_OP) == 0);

    /* Each once: 14 bits in a row, the first field's in the first byte. Those of 180 and more there are denied at a time. */
    static unsigned char seen[256 * 64];
    uint32_t denied = 0;
    struct mrc_ctl_ev_op_entry *deny = calloc(count, sizeof *deny);
    CHECK(deny != NULL);
    for (uint32_t n = 0; n < count; n++) {
        const unsigned char *val = got[n].ev.val;
        uint32_t bits = (uint32_t)val[0] << 6 | val[1] >> 2;
        CHECK(got[n].ev.port == 1 && got[n].state == MRC_CTL_EV_GOOD && (val[1] & 3) == 0 && val[2] == 0 && val[3] == 0);
        CHECK(seen[bits]++ == 0);
        if (val[0] >= 180)
            deny[denied++] = (struct mrc_ctl_ev_op_entry){.ev = got[n].ev, .state = MRC_CTL_EV_DENIED};
    }
    CHECK(denied == 76 * 64);
    CHECK(ev_op(mrc, EVP, MRC_CTL_EV_OP_MODIFY_EV_STATE, deny, (int)denied) == 0);
    attr.ev_op = (struct mrc_ctl_ev_entries_op){.op = MRC_CTL_EV_OP_QUERY_EV_ARRAY, .entries = got, .entry_count = (int)count};
    CHECK(mrc_ctl_query_ev_profile(mrc, EVP, &attr, MRC_CTL_EV_PROFILE_EV_OP) == 0);
    for (uint32_t n = 0; n < count; n++)
        CHECK(got[n].state == (got[n].ev.val[0] >= 180 ? MRC_CTL_EV_DENIED : MRC_CTL_EV_GOOD));
    MINUS(replace(mrc, EVP, got[0].ev, ev(0, 1), 0), EINVAL);

    /* Other fields while it is ONLINE: other EVs, and no states. */
    fields[0] = (struct mrc_ctl_ev_field){.width = 8, .init_val = 7};
    attr.ev_fields_op.op = MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS;
    MINUS(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, MRC_CTL_EV_PROFILE_EV_FIELDS_OP), EINVAL); /* fewer than it has */
    fields[0] = (struct mrc_ctl_ev_field){.width = 8, .max_val = 255, .mask = 0xff};
    fields[2] = (struct mrc_ctl_ev_field){.width = 4, .min_val = 1, .max_val = 4, .mask = 15};
    CHECK(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, MRC_CTL_EV_PROFILE_EV_FIELDS_OP) == 0);
    CHECK(mrc_ctl_query_ev_profile(mrc, EVP, &attr, MRC_CTL_EV_PROFILE_EV_OP) == 0);
    for (uint32_t n = 0; n < count; n++)
        CHECK(got[n].state == MRC_CTL_EV_GOOD && (got[n].ev.val[1] & 15) >= 1 && (got[n].ev.val[1] & 15) <= 4);
    ev_init(mrc, EVP);

    /* The NIC's own: no format, no list. */
    struct mrc_ctl_ev_profile_attr own = {.profile_state = MRC_CTL_PROFILE_OFFLINE, .ev_mode = MRC_CTL_EV_MODE_AUTO};
    MINUS(mrc_ctl_modify_ev_profile(mrc, 3, &own, TO_OFFLINE), EINVAL);
    CHECK(mrc_ctl_modify_ev_profile(mrc, 3, &own, MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_MIN_ACTIVE | MRC_CTL_EV_PROFILE_EVENT_MASK) == 0);
    MINUS(set_state(mrc, 3, ev(1, 1), MRC_CTL_EV_DENIED), EINVAL);
    CHECK(ev_to(mrc, 3, MRC_CTL_PROFILE_ONLINE) == 0 && ev_is(mrc, 3, MRC_CTL_EV_PROFILE_MODE).ev_mode == MRC_CTL_EV_MODE_AUTO);
    ev_init(mrc, 3);

    /* All EVs that there are, and one more. */
    const uint8_t whole[] = {32};
    fmt_online(mrc, 20, MRC_CTL_EV_FMT_MODE_STEV, whole, 1);
    for (uint64_t id = 1; id <= device.ev.ev_max_count / device.ev.ev_max_count_profile; id++)
        CHECK(ev_offline(mrc, id, 20, device.ev.ev_max_count_profile, 0) == 0);
    CHECK(mrc_ctl_query_device(all.verbs, &device) == 0 && device.ev.ev_free_count == 0);
    MINUS(ev_offline(mrc, 9, 20, 1, 0), E2BIG);
    for (uint64_t id = 1; id <= device.ev.ev_max_count / device.ev.ev_max_count_profile; id++)
        CHECK(ev_to(mrc, id, MRC_CTL_PROFILE_INIT) == 0);
    free(got);
    free(deny);
    end(&all);
}

static const struct mrc_ctl_cc_nscc_cfg NSCC = {.disable_qa = 1, .adjust_bytes_threshold = 33248, .adjust_period_threshold = 6000,
    .base_rtt = 7000, .eta = 0.15f, .fi = 5, .fi_scale = 1, .gamma = 0.8f, .max_md_jump = 0.5f, .max_cwnd = 123456, .qa_gate = 3,
    .qa_threshold = 24000, .target_delay = 4500};

static int cc_to(struct mrc_context *mrc, uint64_t id, uint32_t state) {
    struct mrc_ctl_cc_profile_attr attr = {.profile_state = state};
    return mrc_ctl_modify_cc_profile(mrc, id, &attr, MRC_CTL_CC_PROFILE_STATE);
}

static void congestion(void) {
    struct all qps;
    set_up(&qps);
    struct mrc_context *mrc = qps.mrc;
    struct mrc_ctl_cc_nscc_cfg cfg = NSCC, back;
    struct mrc_ctl_cc_profile_attr attr = {.profile_state = MRC_CTL_PROFILE_OFFLINE, .algorithm = "uet-1.0-nscc", .cc_config = &cfg};
    int offline = MRC_CTL_CC_PROFILE_STATE | MRC_CTL_CC_PROFILE_ALGORITHM, config = MRC_CTL_CC_PROFILE_CONFIG;
    MINUS(cc_to(mrc, 5, MRC_CTL_PROFILE_OFFLINE), EINVAL);
    MINUS(cc_to(mrc, 5, MRC_CTL_PROFILE_ONLINE), EINVAL);
    MINUS(mrc_ctl_modify_cc_profile(mrc, 0, &attr, offline), EINVAL);
    MINUS(mrc_ctl_modify_cc_profile(NULL, 5, &attr, offline), EINVAL);
    MINUS(mrc_ctl_modify_cc_profile(mrc, 5, NULL, offline), EINVAL);
    MINUS(mrc_ctl_modify_cc_profile(mrc, 5, &attr, 1 << 4), EINVAL);
    MINUS(mrc_ctl_modify_cc_profile(mrc, 5, &attr, config), EINVAL);
    MINUS(mrc_ctl_query_cc_profile(NULL, 5, &attr, 0), EINVAL);
    MINUS(mrc_ctl_query_cc_profile(mrc, 5, NULL, 0), EINVAL);
    MINUS(mrc_ctl_query_cc_profile(mrc, 5, &attr, 1 << 4), EINVAL);
    MINUS(mrc_ctl_query_cc_profile(mrc, 5, &attr, MRC_CTL_CC_PROFILE_ALGORITHM), EINVAL);
    attr.algorithm = "dcqcn";
    MINUS(mrc_ctl_modify_cc_profile(mrc, 5, &attr, offline), EINVAL);
    attr.algorithm = NULL;
    MINUS(mrc_ctl_modify_cc_profile(mrc, 5, &attr, offline | config), EINVAL); /* nothing to configure */
    attr.algorithm = "uet-1.0-nscc";
    attr.vendor_cfg[0] = 1;
    MINUS(mrc_ctl_modify_cc_profile(mrc, 5, &attr, offline | MRC_CTL_CC_PROFILE_VENDOR_CFG), EINVAL);
    attr.vendor_cfg[0] = 0;

    CHECK(mrc_ctl_modify_cc_profile(mrc, 5, &attr, offline) == 0);
    MINUS(cc_to(mrc, 5, MRC_CTL_PROFILE_ONLINE), EINVAL); /* no settings yet */
    attr.cc_config = NULL;
    MINUS(mrc_ctl_modify_cc_profile(mrc, 5, &attr, config), EINVAL);
    MINUS(mrc_ctl_query_cc_profile(mrc, 5, &attr, config), EINVAL);
    attr.cc_config = &cfg;
#define OUT_OF_RANGE(field, value)                                                                                     \
    cfg.field = (value);                                                                                               \
    MINUS(mrc_ctl_modify_cc_profile(mrc, 5, &attr, config), EINVAL);                                                   \
    cfg = NSCC
    OUT_OF_RANGE(base_rtt, 0);
    OUT_OF_RANGE(target_delay, 0);
    OUT_OF_RANGE(adjust_bytes_threshold, 0);
    OUT_OF_RANGE(adjust_period_threshold, 0);
    OUT_OF_RANGE(eta, 1.5f);
    OUT_OF_RANGE(eta, -0.1f);
    OUT_OF_RANGE(fi, 0.5f);
    OUT_OF_RANGE(fi_scale, 0);
    OUT_OF_RANGE(gamma, 1.1f);
    OUT_OF_RANGE(max_md_jump, 2);
    OUT_OF_RANGE(max_cwnd, 100);
    OUT_OF_RANGE(qa_gate, 32);
    CHECK(mrc_ctl_modify_cc_profile(mrc, 5, &attr, config) == 0);
    attr.profile_state = MRC_CTL_PROFILE_ONLINE;
    attr.cur_profile_state = MRC_CTL_PROFILE_INIT;
    MINUS(mrc_ctl_modify_cc_profile(mrc, 5, &attr, MRC_CTL_CC_PROFILE_STATE | MRC_CTL_CC_PROFILE_CUR_STATE), EINVAL);
    attr.cur_profile_state = MRC_CTL_PROFILE_OFFLINE;
    CHECK(mrc_ctl_modify_cc_profile(mrc, 5, &attr, MRC_CTL_CC_PROFILE_STATE | MRC_CTL_CC_PROFILE_CUR_STATE) == 0);
    MINUS(mrc_ctl_modify_cc_profile(mrc, 5, &attr, config), EINVAL); /* not while it is ONLINE */

    memset(&back, 0, sizeof back);
    struct mrc_ctl_cc_profile_attr is = {.cc_config = &back};
    int all = offline | config | MRC_CTL_CC_PROFILE_CUR_STATE | MRC_CTL_CC_PROFILE_VENDOR_CFG;
    CHECK(mrc_ctl_query_cc_profile(mrc, 5, &is, all) == 0 && is.profile_state == MRC_CTL_PROFILE_ONLINE);
    CHECK(is.cur_profile_state == MRC_CTL_PROFILE_ONLINE && strcmp(is.algorithm, "uet-1.0-nscc") == 0);
    CHECK(back.max_cwnd == 123456 && back.gamma == 0.8f && back.disable_qa == 1 && back.target_delay == 4500);
    is.cc_config = NULL;
    CHECK(mrc_ctl_query_cc_profile(mrc, 5, &is, config) == 0);
    CHECK(((const struct mrc_ctl_cc_nscc_cfg *)is.cc_config)->max_cwnd == 123456);

    /* A second one without congestion control. */
    struct mrc_ctl_cc_profile_attr off = {.profile_state = MRC_CTL_PROFILE_OFFLINE};
    CHECK(mrc_ctl_modify_cc_profile(mrc, 6, &off, offline) == 0 && cc_to(mrc, 6, MRC_CTL_PROFILE_ONLINE) == 0);
    off.algorithm = "x";
    CHECK(mrc_ctl_query_cc_profile(mrc, 6, &off, MRC_CTL_CC_PROFILE_ALGORITHM) == 0 && off.algorithm == NULL);

    /* QPs are bound to those that are ONLINE, and keep them so. */
    struct side *a = &qps.side[0], *b = &qps.side[1];
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT};
    struct mrc_qp_attr qp = {.profile = {.cc_profile_id = 7}};
    FAILS(mrc_modify_qp(a->qp, &init, IBV_QP_STATE, &qp, MRC_QP_CC_PROFILE_ID), EINVAL);
    qp.profile.cc_profile_id = 5;
    CHECK(mrc_modify_qp(a->qp, &init, IBV_QP_STATE, &qp, MRC_QP_CC_PROFILE_ID) == 0);
    qp.profile.cc_profile_id = 6;
    CHECK(mrc_modify_qp(b->qp, &init, IBV_QP_STATE, &qp, MRC_QP_CC_PROFILE_ID) == 0);
    qp.profile.cc_profile_id = 0;
    FAILS(mrc_modify_qp(a->qp, NULL, 0, &qp, MRC_QP_CC_PROFILE_ID), EINVAL);
    CHECK(mrc_query_qp(a->qp, NULL, 0, &qp, MRC_QP_CC_PROFILE_ID, NULL) == 0 && qp.profile.cc_profile_id == 5);
    CHECK(to_rtr(&qps, a, b) == 0 && to_rtr(&qps, b, a) == 0 && to_rts(a) == 0 && to_rts(b) == 0);
    for (int n = 0; n < 2; n++) {
        struct ibv_sge sge;
        struct ibv_send_wr wr = write_wr(&qps, &sge, 0, SIZE / 2, SIZE / 4);
        CHECK(post(&qps.side[n], &wr) == 0 && completion(qps.side[n].send_cq).status == IBV_WC_SUCCESS);
    }
    MINUS(cc_to(mrc, 5, MRC_CTL_PROFILE_OFFLINE), EBUSY);
    /* Whoever drives this looks at the windows meanwhile. */
    char line[8];
    printf("written\n");
    CHECK(fflush(stdout) == 0 && fgets(line, sizeof line, stdin) != NULL);
    for (int n = 0; n < 2; n++) {
        CHECK(mrc_destroy_qp(qps.side[n].qp) == 0);
        struct mrc_qp_init_attr again = init_attr(&qps, &qps.side[n]);
        qps.side[n].qp = mrc_create_qp(mrc, &again);
        CHECK(qps.side[n].qp != NULL);
    }
    for (uint64_t id = 5; id <= 6; id++) {
        CHECK(cc_to(mrc, id, MRC_CTL_PROFILE_OFFLINE) == 0);
        MINUS(cc_to(mrc, id, MRC_CTL_PROFILE_OFFLINE), EINVAL);
        CHECK(cc_to(mrc, id, MRC_CTL_PROFILE_INIT) == 0);
    }
    struct mrc_ctl_device_attr device;
    CHECK(mrc_ctl_query_device(qps.verbs, &device) == 0);
    attr.profile_state = MRC_CTL_PROFILE_OFFLINE;
    for (uint64_t id = 1; id <= device.cc.cc_max_profiles; id++)
        CHECK(mrc_ctl_modify_cc_profile(mrc, id, &attr, offline) == 0);
    MINUS(mrc_ctl_modify_cc_profile(mrc, 1000, &attr, offline), E2BIG);
    tear_down(&qps);
}

/* Operations that nobody answers, as many as may wait and more, for two seconds. */
static void *unanswered(void *context) {
    enum { TOO_MANY = 300 };
    static struct mrc_ctl_ep_req req[TOO_MANY];
    static struct mrc_ctl_ep_rsp rsp[TOO_MANY];
    struct control *all = context;
    int count = 7;
    for (int n = 0; n < TOO_MANY; n++) {
        req[n] = (struct mrc_ctl_ep_req){.req_id = (uint16_t)n, .ev_fmt_mode = MRC_CTL_EV_FMT_MODE_UDP};
        req[n].req_ev.port = 1;
        req[n].op.port_status_update.port_status = 2;
        CHECK(ibv_query_gid(all->verbs, 1, 3, &req[n].dgid) == 0);
    }
    MINUS(mrc_ctl_ep_batch_send_wait(all->mrc, 0, MRC_CTL_EP_OP_PORT_STATUS_UPDATE, req, TOO_MANY, 2000000000, rsp, &count), ETIMEDOUT);
    CHECK(count == 0);
    return NULL;
}

/* Probes go out of the port and come back; nobody else answers. */
static void probes(void) {
    struct control all = begin();
    struct mrc_context *mrc = all.mrc;
    enum { MANY = 100 };
    static struct mrc_ctl_ep_req req[MANY];
    static struct mrc_ctl_ep_rsp rsp[MANY];
    int count = 0;
    uint32_t second = 4000000000u;
    struct mrc_ctl_device_attr device;
    CHECK(mrc_ctl_query_device(all.verbs, &device) == 0 && (device.opt_attr & MRC_CTL_OPT_CAP_EP_OP_EV_PROBE));
    for (int n = 0; n < MANY; n++) {
        req[n] = (struct mrc_ctl_ep_req){.req_id = (uint16_t)(7 * n), .ev_fmt_mode = MRC_CTL_EV_FMT_MODE_STEV};
        req[n].req_ev = ev(0x12345678 + (uint32_t)n, 1);
        CHECK(ibv_query_gid(all.verbs, 1, 3, &req[n].sgid) == 0);
        req[n].dgid = req[n].sgid;
    }
#define PROBE(tc, op, n) mrc_ctl_ep_batch_send_wait(mrc, tc, op, req, n, second, rsp, &count)
    CHECK(PROBE(0, MRC_CTL_EP_OP_EV_PROBE, 2) == 0 && count == 2);
    CHECK(PROBE(10, MRC_CTL_EP_OP_EV_PROBE, MANY) == 0 && count == MANY);
    static unsigned char seen[MANY];
    for (int n = 0; n < MANY; n++) {
        CHECK(rsp[n].req_id % 7 == 0 && rsp[n].req_id < 7 * MANY && seen[rsp[n].req_id / 7]++ == 0);
        CHECK(rsp[n].port == 1 && rsp[n].rtt > 0 && rsp[n].adj_svc_time <= 1);
    }
    MINUS(PROBE(64, MRC_CTL_EP_OP_EV_PROBE, 1), EINVAL);
    MINUS(PROBE(0, 2, 1), ENOTSUP);
    MINUS(PROBE(0, MRC_CTL_EP_OP_EV_PROBE, 0), EINVAL);
    MINUS(PROBE(0, MRC_CTL_EP_OP_EV_PROBE, -1), EINVAL);
    MINUS(mrc_ctl_ep_batch_send_wait(NULL, 0, 0, req, 1, second, rsp, &count), EINVAL);
    MINUS(mrc_ctl_ep_batch_send_wait(mrc, 0, 0, NULL, 1, second, rsp, &count), EINVAL);
    MINUS(mrc_ctl_ep_batch_send_wait(mrc, 0, 0, req, 1, second, NULL, &count), EINVAL);
    MINUS(mrc_ctl_ep_batch_send_wait(mrc, 0, 0, req, 1, second, rsp, NULL), EINVAL);
    req[1].req_id = 0;
    MINUS(PROBE(0, MRC_CTL_EP_OP_EV_PROBE, 2), EINVAL); /* the same number twice */
    req[1].req_id = 7;
#define WRONG(what, error)                                                                                             \
    {                                                                                                                  \
        struct mrc_ctl_ep_req right = req[0];                                                                          \
        what;                                                                                                          \
        MINUS(PROBE(0, MRC_CTL_EP_OP_EV_PROBE, 1), error);                                                             \
        req[0] = right;                                                                                                \
    }
    WRONG(req[0].ev_fmt_mode = 5, EINVAL);
    WRONG(req[0].req_ev.port = 0, EINVAL);
    WRONG(req[0].req_ev.port = 2, EINVAL);
    WRONG(req[0].req_ev.val[4] = 1, EINVAL);
    WRONG(req[0].ev_fmt_mode = MRC_CTL_EV_FMT_MODE_UDP, EINVAL); /* 32 bits */
    WRONG(req[0].sgid.raw[15] ^= 1, EINVAL);
    WRONG(req[0].dgid.raw[15] ^= 1, EINVAL); /* nobody's */
    WRONG((req[0].ev_fmt_mode = MRC_CTL_EV_FMT_MODE_SRV6, req[0].req_ev.val[16] = 1), ENOTSUP);
    WRONG((req[0].ev_fmt_mode = MRC_CTL_EV_FMT_MODE_SRV6), EINVAL); /* over IPv4 */
    /* A peer that no QP is open with takes no note of ports, and does not answer. */
    req[0].op.port_status_update.port_status = 2;
    MINUS(mrc_ctl_ep_batch_send_wait(mrc, 0, MRC_CTL_EP_OP_PORT_STATUS_UPDATE, req, 1, 20000000, rsp, &count), ETIMEDOUT);
    CHECK(count == 0);
    req[0].op.port_status_update.port_status = 1; /* there is no port 0 */
    MINUS(PROBE(0, MRC_CTL_EP_OP_PORT_STATUS_UPDATE, 1), EINVAL);
    /* While so many wait there is no room for one more, and afterwards there is. */
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, unanswered, &all) == 0);
    double limit = seconds() + 20;
    do {
        CHECK(seconds() < limit);
        errno = 0;
    } while (mrc_ctl_ep_batch_send_wait(mrc, 0, MRC_CTL_EP_OP_EV_PROBE, req, 1, 20000000, rsp, &count) == 0 || errno == ETIMEDOUT);
    CHECK(errno == EAGAIN && count == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(PROBE(0, MRC_CTL_EP_OP_EV_PROBE, 1) == 0 && count == 1);
    end(&all);

    struct all qps;
    set_up(&qps);
    to_send(&qps);
    req[0].op.port_status_update.port_status = 2;
    CHECK(mrc_ctl_ep_batch_send_wait(qps.mrc, 0, MRC_CTL_EP_OP_PORT_STATUS_UPDATE, req, 1, second, rsp, &count) == 0 && count == 1);
    CHECK(rsp[0].port == 1 && rsp[0].req_id == 0);
    tear_down(&qps);
}

static const struct part parts[] = {{"permission", permission}, {"formats", formats},     {"explicit", explicit_evs},
                                    {"fields", fields},         {"generated", generated}, {"congestion", congestion},
                                    {"probes", probes}};

int main(int argc, char **argv) { return run_part(parts, sizeof parts / sizeof parts[0], argc, argv); }
