/* What the programs that are controllers share. */
#ifndef CONTROLLER_H
#define CONTROLLER_H

#include "common.h"

#define FMT 13
#define EVP 1
#define GOOD_OR_BAD (MRC_CTL_EV_GOOD | MRC_CTL_EV_ASSUMED_BAD)
#define TO_OFFLINE                                                                                                     \
    (MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_FMT_ID | MRC_CTL_EV_PROFILE_COUNT |       \
     MRC_CTL_EV_PROFILE_MIN_ACTIVE | MRC_CTL_EV_PROFILE_EVENT_MASK)

static inline int fmt_to(struct mrc_context *mrc, uint64_t id, uint32_t state) {
    struct mrc_ctl_ev_fmt_profile_attr attr = {.profile_state = state};
    return mrc_ctl_modify_ev_fmt_profile(mrc, id, &attr, MRC_CTL_EV_FMT_PROFILE_STATE);
}

static inline uint32_t fmt_is(struct mrc_context *mrc, uint64_t id) {
    struct mrc_ctl_ev_fmt_profile_attr attr = {.profile_state = 9};
    CHECK(mrc_ctl_query_ev_fmt_profile(mrc, id, &attr, MRC_CTL_EV_FMT_PROFILE_STATE) == 0);
    return attr.profile_state;
}

static inline int fmt_offline(struct mrc_context *mrc, uint64_t id, uint32_t mode, struct mrc_ctl_ev_fmt_field *fields,
                              int count) {
    struct mrc_ctl_ev_fmt_profile_attr attr = {.profile_state = MRC_CTL_PROFILE_OFFLINE, .ev_fmt_mode = mode};
    attr.ev_fmt_op = (struct mrc_ctl_ev_fmt_op){.op = MRC_CTL_EV_FMT_OP_MODIFY_FIELDS, .fmt_fields = fields,
                                                .fmt_field_count = count};
    return mrc_ctl_modify_ev_fmt_profile(
        mrc, id, &attr, MRC_CTL_EV_FMT_PROFILE_STATE | MRC_CTL_EV_FMT_PROFILE_MODE | MRC_CTL_EV_FMT_PROFILE_OP);
}

/* A format of these fields, ONLINE. */
static inline void fmt_online(struct mrc_context *mrc, uint64_t id, uint32_t mode, const uint8_t *widths, int count) {
    struct mrc_ctl_ev_fmt_field fields[16];
    for (int n = 0; n < count; n++)
        fields[n].width = widths[n];
    CHECK(fmt_offline(mrc, id, mode, fields, count) == 0);
    CHECK(fmt_to(mrc, id, MRC_CTL_PROFILE_ONLINE) == 0);
}

static inline void fmt_init(struct mrc_context *mrc, uint64_t id) {
    CHECK(fmt_to(mrc, id, MRC_CTL_PROFILE_OFFLINE) == 0 && fmt_to(mrc, id, MRC_CTL_PROFILE_INIT) == 0);
    CHECK(fmt_is(mrc, id) == MRC_CTL_PROFILE_INIT);
}

static inline int ev_to(struct mrc_context *mrc, uint64_t id, uint32_t state) {
    struct mrc_ctl_ev_profile_attr attr = {.profile_state = state};
    return mrc_ctl_modify_ev_profile(mrc, id, &attr, MRC_CTL_EV_PROFILE_STATE);
}

static inline struct mrc_ctl_ev_profile_attr ev_is(struct mrc_context *mrc, uint64_t id, int mask) {
    struct mrc_ctl_ev_profile_attr attr = {.profile_state = 9};
    CHECK(mrc_ctl_query_ev_profile(mrc, id, &attr, mask | MRC_CTL_EV_PROFILE_STATE) == 0);
    return attr;
}

static inline void ev_init(struct mrc_context *mrc, uint64_t id) {
    CHECK(ev_to(mrc, id, MRC_CTL_PROFILE_OFFLINE) == 0 && ev_to(mrc, id, MRC_CTL_PROFILE_INIT) == 0);
    CHECK(ev_is(mrc, id, 0).profile_state == MRC_CTL_PROFILE_INIT);
}

static inline struct mrc_ctl_ev ev(uint32_t val, uint8_t port) {
    struct mrc_ctl_ev ev = {.port = port};
    memcpy(ev.val, &val, sizeof val);
    return ev;
}

static inline int ev_op(struct mrc_context *mrc, uint64_t id, uint32_t op, struct mrc_ctl_ev_op_entry *entries, int count) {
    struct mrc_ctl_ev_profile_attr attr = {.ev_op = {.op = op, .entries = entries, .entry_count = count}};
    return mrc_ctl_modify_ev_profile(mrc, id, &attr, MRC_CTL_EV_PROFILE_EV_OP);
}

static inline int replace(struct mrc_context *mrc, uint64_t id, struct mrc_ctl_ev from, struct mrc_ctl_ev to, uint32_t flags) {
    struct mrc_ctl_ev_op_entry entry = {.ev = from, .ev_new = to, .state = MRC_CTL_EV_GOOD, .flags = flags};
    return ev_op(mrc, id, MRC_CTL_EV_OP_REPLACE_EV, &entry, 1);
}

static inline int set_state(struct mrc_context *mrc, uint64_t id, struct mrc_ctl_ev of, uint32_t state) {
    struct mrc_ctl_ev_op_entry entry = {.ev = of, .state = state};
    return ev_op(mrc, id, MRC_CTL_EV_OP_MODIFY_EV_STATE, &entry, 1);
}

static inline uint32_t state_of(struct mrc_context *mrc, uint64_t id, struct mrc_ctl_ev of) {
    struct mrc_ctl_ev_op_entry entry = {.ev = of};
    struct mrc_ctl_ev_profile_attr attr = {.ev_op = {.op = MRC_CTL_EV_OP_QUERY_EV_STATE, .entries = &entry, .entry_count = 1}};
    CHECK(mrc_ctl_query_ev_profile(mrc, id, &attr, MRC_CTL_EV_PROFILE_EV_OP) == 0);
    return entry.state;
}

/* An EXPLICIT profile, OFFLINE, without EVs. */
static inline int ev_offline(struct mrc_context *mrc, uint64_t id, uint64_t format, uint32_t count, uint32_t min_active) {
    struct mrc_ctl_ev_profile_attr attr = {.profile_state = MRC_CTL_PROFILE_OFFLINE, .ev_mode = MRC_CTL_EV_MODE_EXP};
    attr.ev_fmt_profile_id = format;
    attr.ev_count = count;
    attr.ev_min_active = min_active;
    attr.ev_event_mask = (int)GOOD_OR_BAD;
    return mrc_ctl_modify_ev_profile(mrc, id, &attr, TO_OFFLINE);
}

/* The NIC, and nothing else. */
struct control {
    struct ibv_context *verbs;
    struct mrc_context *mrc;
};

static inline struct control begin(void) {
    struct control all = {.verbs = open_device()};
    all.mrc = mrc_create_context(all.verbs, NULL);
    CHECK(all.mrc != NULL);
    return all;
}

static inline void end(struct control *all) {
    CHECK(mrc_destroy_context(all->mrc) == 0 && ibv_close_device(all->verbs) == 0);
}

#endif
