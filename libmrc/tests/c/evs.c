/* What EV profiles of a controller do to QPs, and what is told of their EVs. The argument says which part. */
#include "controller.h"

static int is(const struct mrc_ctl_ev_event *event, struct mrc_ctl_ev ev, uint32_t state) {
    return event->profile_id == EVP && memcmp(&event->ev, &ev, sizeof ev) == 0 && event->state == state;
}

/* Such an event comes in twenty seconds. On a machine that is busy EVs time out, and come back, meanwhile. */
static void comes(struct mrc_cq *cq, struct mrc_ctl_ev ev, uint32_t state) {
    double limit = seconds() + 20;
    for (;;) {
        struct mrc_ctl_ev_event event;
        int n = mrc_ctl_poll_ev_event(cq, 1, &event);
        CHECK(n >= 0 && seconds() < limit);
        if (n == 1 && is(&event, ev, state))
            return;
    }
}

/* An ONLINE profile of `count` EVs, whose values are from `first` on. */
static void online(struct mrc_context *mrc, uint64_t id, uint32_t first, uint32_t count) {
    CHECK(ev_offline(mrc, id, FMT, count, 1) == 0);
    for (uint32_t n = 0; n < count; n++)
        CHECK(replace(mrc, id, MRC_CTL_EV_UNPOPULATED, ev(htonl(first + n), 1), 0) == 0);
    CHECK(ev_to(mrc, id, MRC_CTL_PROFILE_ONLINE) == 0);
}

static void bind_and_send(struct all *all) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
    struct mrc_qp_attr mrc = {.profile = {.ev_profile_id = EVP}};
    for (int n = 0; n < 2; n++)
        CHECK(mrc_modify_qp(all->side[n].qp, &attr, IBV_QP_STATE, &mrc, MRC_QP_EV_PROFILE_ID) == 0);
    for (int n = 0; n < 2; n++)
        CHECK(to_rtr(all, &all->side[n], &all->side[1 - n]) == 0 && to_rts(&all->side[n]) == 0);
}

static void write_some(struct all *all) {
    struct ibv_sge sge;
    struct ibv_send_wr wr = write_wr(all, &sge, 0, SIZE / 2, SIZE / 2);
    CHECK(post(&all->side[0], &wr) == 0 && completion(all->side[0].send_cq).status == IBV_WC_SUCCESS);
}

/* Says where it is, and waits for a line. */
static void say(const char *what) {
    char line[8];
    printf("%s\n", what);
    CHECK(fflush(stdout) == 0 && fgets(line, sizeof line, stdin) != NULL);
}

/* Whoever drives this looks at the NIC's EVs at each step. */
static void bound(void) {
    struct all all;
    set_up(&all);
    struct mrc_context *mrc = all.mrc;
    const uint8_t two[] = {16, 16};
    fmt_online(mrc, FMT, MRC_CTL_EV_FMT_MODE_STEV, two, 2);
    online(mrc, EVP, 0x00640001, 4);
    bind_and_send(&all);
    write_some(&all);
    MINUS(ev_to(mrc, EVP, MRC_CTL_PROFILE_OFFLINE), EBUSY);
    say("100:1 to 100:4");
    CHECK(set_state(mrc, EVP, ev(htonl(0x00640002), 1), MRC_CTL_EV_DENIED) == 0);
    CHECK(replace(mrc, EVP, ev(htonl(0x00640003), 1), ev(htonl(0x00640009), 1), 0) == 0);
    say("2 denied, 9 for 3");
    /* The first field is fixed: EVs are the bits of the second, of which the profile takes the first 16. */
    CHECK(set_state(mrc, EVP, ev(htonl(0x00640002), 1), MRC_CTL_EV_GOOD) == 0);
    struct mrc_ctl_ev_field fields[2] = {{.width = 16, .mask = 0xffff}, {.width = 16, .init_val = 0xc000, .mask = 0x0fff}};
    struct mrc_ctl_ev_profile_attr attr = {.ev_fields_op = {.op = MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS, .fields = fields, .field_count = 2}};
    MINUS(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, MRC_CTL_EV_PROFILE_EV_FIELDS_OP), EINVAL); /* the lowest bits have no place */
    for (uint32_t n = 0; n < 4; n++) {
        const uint32_t was[] = {1, 2, 9, 4};
        CHECK(replace(mrc, EVP, ev(htonl(0x00640000 + was[n]), 1), ev(htonl(0x00640000 + 16 * (n + 1)), 1), 0) == 0);
    }
    CHECK(mrc_ctl_modify_ev_profile(mrc, EVP, &attr, MRC_CTL_EV_PROFILE_EV_FIELDS_OP) == 0);
    say("c001 to c004");
    write_some(&all);
    say("written");
    tear_down(&all);
}

/* An operator has made profile 7, EXPLICIT, and changes profile 1 after that. */
static void shared(void) {
    struct control all = begin();
    const uint8_t one[] = {16};
    fmt_online(all.mrc, FMT, MRC_CTL_EV_FMT_MODE_UDP, one, 1);
    online(all.mrc, EVP, 0x12340000, 1);
    say("up");
    struct mrc_ctl_ev_profile_attr seven = ev_is(all.mrc, 7, TO_OFFLINE);
    CHECK(seven.profile_state == MRC_CTL_PROFILE_OFFLINE && seven.ev_mode == MRC_CTL_EV_MODE_EXP && seven.ev_count == 2);
    CHECK(fmt_is(all.mrc, seven.ev_fmt_profile_id) == MRC_CTL_PROFILE_ONLINE && seven.ev_event_mask == 0);
    CHECK(state_of(all.mrc, 7, ev(htonl(0x12350000), 1)) == MRC_CTL_EV_DENIED); /* by the operator */
    CHECK(state_of(all.mrc, 7, ev(htonl(0x12340000), 1)) == MRC_CTL_EV_GOOD);
    CHECK(ev_to(all.mrc, 7, MRC_CTL_PROFILE_ONLINE) == 0);
    say("online");
    CHECK(ev_is(all.mrc, EVP, 0).profile_state == MRC_CTL_PROFILE_INIT);
    ev_init(all.mrc, 7);
    CHECK(fmt_is(all.mrc, seven.ev_fmt_profile_id) == MRC_CTL_PROFILE_INIT);
    CHECK(fmt_is(all.mrc, FMT) == MRC_CTL_PROFILE_ONLINE); /* that is ours */
    end(&all);
}

static void events(void) {
    struct all all;
    set_up(&all);
    struct mrc_context *mrc = all.mrc;
    const uint8_t one[] = {16};
    fmt_online(mrc, FMT, MRC_CTL_EV_FMT_MODE_UDP, one, 1);
    online(mrc, EVP, 0x12340000, 1);
    CHECK(ev_to(mrc, EVP, MRC_CTL_PROFILE_OFFLINE) == 0 && ev_to(mrc, EVP, MRC_CTL_PROFILE_INIT) == 0);
    CHECK(ev_offline(mrc, EVP, FMT, 3, 1) == 0);
    struct mrc_ctl_ev evs[3];
    for (uint32_t n = 0; n < 3; n++) {
        evs[n] = ev(htonl((0x1234 + n) << 16), 1);
        CHECK(replace(mrc, EVP, MRC_CTL_EV_UNPOPULATED, evs[n], 0) == 0);
    }
    CHECK(ev_to(mrc, EVP, MRC_CTL_PROFILE_ONLINE) == 0);
    NOTHING(mrc_ctl_create_ev_event_cq(NULL, 8, NULL, NULL, 0), EINVAL);
    NOTHING(mrc_ctl_create_ev_event_cq(mrc, 0, NULL, NULL, 0), EINVAL);
    NOTHING(mrc_ctl_create_ev_event_cq(mrc, 2000000, NULL, NULL, 0), EINVAL);
    NOTHING(mrc_ctl_create_ev_event_cq(mrc, 8, NULL, NULL, 1), EINVAL);
    struct mrc_cq *cq = mrc_ctl_create_ev_event_cq(mrc, 128, &all, all.channel, 0);
    struct mrc_cq *small = mrc_ctl_create_ev_event_cq(mrc, 2, NULL, NULL, 0);
    CHECK(cq != NULL && small != NULL);
    struct mrc_ctl_ev_event got[8];
    struct ibv_wc wc;
    CHECK(mrc_ctl_poll_ev_event(NULL, 1, got) == -EINVAL && mrc_ctl_poll_ev_event(cq, -1, got) == -EINVAL);
    CHECK(mrc_ctl_poll_ev_event(cq, 1, NULL) == -EINVAL && mrc_ctl_poll_ev_event(all.side[0].send_cq, 1, got) == -EINVAL);
    MINUS(mrc_poll_cq(cq, 1, &wc), EINVAL);
    struct mrc_qp_init_attr attr = init_attr(&all, &all.side[0]);
    attr.send_cq = cq;
    NOTHING(mrc_create_qp(mrc, &attr), EINVAL);
    CHECK(mrc_ctl_poll_ev_event(cq, 8, got) == 0);

    /* Without QPs there is nobody to probe: each change is the controller's. Three of five find no room in the small queue. */
    CHECK(mrc_req_notify_cq(cq, 0) == 0 && mrc_req_notify_cq(small, 0) == EINVAL);
    for (int n = 0; n < 5; n++)
        CHECK(set_state(mrc, EVP, evs[0], n % 2 ? MRC_CTL_EV_GOOD : MRC_CTL_EV_ASSUMED_BAD) == 0);
    struct mrc_cq *of = NULL;
    void *context = NULL;
    CHECK(mrc_get_cq_event(all.channel, &of, &context) == 0 && of == cq && context == &all);
    mrc_ack_cq_events(cq, 1);
    /* A program that has not told its version has room for the old event, and gets one at a time. */
    memset(got, 0xee, sizeof got);
    CHECK(mrc_ctl_poll_ev_event(cq, 8, got) == 1 && got[0].profile_id == EVP && got[0].drop_count == 0);
    CHECK(memcmp(&got[0].ev, &evs[0], sizeof evs[0]) == 0 && got[0].state == 0xeeeeeeee);
    struct mrc_ctl_device_attr device;
    int supported;
    CHECK(mrc_ctl_query_device_ex(all.verbs, mrc, &device, &supported) == 0);
    CHECK((device.opt_attr & MRC_CTL_OPT_CAP_EV_EVENT) && (device.opt_attr & MRC_CTL_OPT_CAP_EV_EVENT_PRECISE_DROP_CNT));
    CHECK(mrc_ctl_poll_ev_event(cq, 8, got) == 4);
    for (int n = 0; n < 4; n++)
        CHECK(is(&got[n], evs[0], n % 2 ? MRC_CTL_EV_ASSUMED_BAD : MRC_CTL_EV_GOOD) && got[n].drop_count == 0);
    CHECK(mrc_ctl_poll_ev_event(small, 8, got) == 2 && got[1].drop_count == 0);
    CHECK(set_state(mrc, EVP, evs[0], MRC_CTL_EV_GOOD) == 0);
    CHECK(mrc_ctl_poll_ev_event(small, 8, got) == 1 && is(&got[0], evs[0], MRC_CTL_EV_GOOD) && got[0].drop_count == 3);
    CHECK(mrc_ctl_poll_ev_event(cq, 8, got) == 1);

    /* What stays in use is not assumed bad; what is denied is no event, and what is let in again is one. */
    CHECK(set_state(mrc, EVP, evs[0], MRC_CTL_EV_ASSUMED_BAD) == 0 && set_state(mrc, EVP, evs[1], MRC_CTL_EV_ASSUMED_BAD) == 0);
    MINUS(set_state(mrc, EVP, evs[2], MRC_CTL_EV_ASSUMED_BAD), EINVAL);
    CHECK(set_state(mrc, EVP, evs[2], MRC_CTL_EV_DENIED) == 0);
    for (int n = 0; n < 3; n++)
        CHECK(set_state(mrc, EVP, evs[n], MRC_CTL_EV_GOOD) == 0);
    CHECK(mrc_ctl_poll_ev_event(cq, 8, got) == 5 && is(&got[4], evs[2], MRC_CTL_EV_GOOD));

    /* With QPs its path is probed, whose answer brings it back. */
    bind_and_send(&all);
    write_some(&all);
    CHECK(mrc_req_notify_cq(cq, 0) == 0);
    CHECK(set_state(mrc, EVP, evs[1], MRC_CTL_EV_ASSUMED_BAD) == 0);
    CHECK(mrc_get_cq_event(all.channel, &of, &context) == 0 && of == cq);
    mrc_ack_cq_events(cq, 1);
    comes(cq, evs[1], MRC_CTL_EV_ASSUMED_BAD);
    comes(cq, evs[1], MRC_CTL_EV_GOOD);
    /* Only what the mask says. */
    struct mrc_ctl_ev_profile_attr mask = {.ev_event_mask = MRC_CTL_EV_GOOD};
    CHECK(mrc_ctl_modify_ev_profile(mrc, EVP, &mask, MRC_CTL_EV_PROFILE_EVENT_MASK) == 0);
    CHECK(set_state(mrc, EVP, evs[1], MRC_CTL_EV_ASSUMED_BAD) == 0);
    comes(cq, evs[1], MRC_CTL_EV_GOOD);
    CHECK(mrc_destroy_cq(small) == 0);
    CHECK(mrc_req_notify_cq(cq, 0) == 0 && mrc_destroy_cq(cq) == 0);
    CHECK(set_state(mrc, EVP, evs[1], MRC_CTL_EV_DENIED) == 0 && set_state(mrc, EVP, evs[1], MRC_CTL_EV_GOOD) == 0);
    tear_down(&all);
}

static const struct part parts[] = {{"bound", bound}, {"shared", shared}, {"events", events}};

int main(int argc, char **argv) { return run_part(parts, sizeof parts / sizeof parts[0], argc, argv); }
