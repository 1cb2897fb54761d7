/* rte_devargs_reset, which later versions made stable. */
#define ALLOW_EXPERIMENTAL_API

#include "shim.h"

#include <errno.h>
#include <stdio.h>

#include <rte_cycles.h>
#include <rte_devargs.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <rte_prefetch.h>

const uint64_t mrc_rss_addresses = RTE_ETH_RSS_IP;
const uint64_t mrc_multi_segs = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;

/* What comes after an mbuf is in its second line. Of a frame in one piece nobody needs it, so it stays with the core that has it. */
static inline void prefetch_next(const struct rte_mbuf *m)
{
	rte_prefetch0((const char *)m + RTE_CACHE_LINE_SIZE);
}

static inline void prefetch_mbuf(const struct rte_mbuf *m)
{
	rte_prefetch0(m);
	prefetch_next(m);
}

/* The first lines of what will be read: all headers, or a small frame. */
static inline void prefetch_data(const char *data, uint16_t len)
{
	for (uint16_t at = 0; at < len && at < 4 * RTE_CACHE_LINE_SIZE; at += RTE_CACHE_LINE_SIZE)
		rte_prefetch0(data + at);
}

/* Lines come from another core's cache, and one says where the next is: each round asks for all of a burst before the next round looks. */
void mrc_describe(struct rte_mbuf *const *mbufs, struct mrc_seg *segs, uint16_t n)
{
	uint32_t chains = 0;

	for (uint16_t i = 0; i < n; i++)
		rte_prefetch0(mbufs[i]);
	for (uint16_t i = 0; i < n; i++) {
		const struct rte_mbuf *m = mbufs[i];
		struct mrc_seg *s = &segs[i];

		s->data = rte_pktmbuf_mtod(m, void *);
		s->pkt_len = rte_pktmbuf_pkt_len(m);
		s->data_len = rte_pktmbuf_data_len(m);
		s->nb_segs = m->nb_segs;
		prefetch_data(s->data, s->data_len);
		if (m->nb_segs > 1) {
			chains |= 1u << i;
			prefetch_next(m);
		}
	}
	for (uint32_t left = chains; left != 0; left &= left - 1) {
		int i = __builtin_ctz(left);
		const struct rte_mbuf *next = mbufs[i]->next;

		if (next != NULL) {
			prefetch_mbuf(next);
		} else {
			/* A chain shorter than it says. */
			segs[i].nb_segs = 1;
			chains &= ~(1u << i);
		}
	}
	for (uint32_t left = chains; left != 0; left &= left - 1) {
		int i = __builtin_ctz(left);
		const struct rte_mbuf *m = mbufs[i]->next;

		segs[i].more[0] = rte_pktmbuf_mtod(m, void *);
		segs[i].more_len[0] = rte_pktmbuf_data_len(m);
		segs[i].more_len[1] = 0;
		prefetch_data(segs[i].more[0], segs[i].more_len[0]);
		if (m->next != NULL)
			prefetch_mbuf(m->next);
	}
	for (uint32_t left = chains; left != 0; left &= left - 1) {
		int i = __builtin_ctz(left);
		const struct rte_mbuf *m = mbufs[i]->next->next;

		if (m == NULL)
			continue;
		segs[i].more[1] = rte_pktmbuf_mtod(m, void *);
		segs[i].more_len[1] = rte_pktmbuf_data_len(m);
		prefetch_data(segs[i].more[1], segs[i].more_len[1]);
	}
}

uint16_t mrc_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, struct mrc_seg *segs, uint16_t n)
{
	uint16_t got = rte_eth_rx_burst(port, queue, mbufs, n);

	mrc_describe(mbufs, segs, got);
	return got;
}

struct rte_mbuf *mrc_next_seg(const struct rte_mbuf *m, void **data, uint16_t *len)
{
	struct rte_mbuf *next = m->next;

	if (next != NULL) {
		*data = rte_pktmbuf_mtod(next, void *);
		*len = rte_pktmbuf_data_len(next);
	}
	return next;
}

/* A frame in one piece that nobody else refers to: it goes back without a look at its second line. */
static inline int is_plain(const struct rte_mbuf *m)
{
	return m->nb_segs == 1 && RTE_MBUF_DIRECT(m) && rte_mbuf_refcnt_read(m) == 1;
}

void mrc_free(struct rte_mbuf **mbufs, uint16_t n)
{
	for (uint16_t i = 0; i < n;) {
		struct rte_mempool *pool = mbufs[i]->pool;
		uint16_t run = i;

		while (run < n && is_plain(mbufs[run]) && mbufs[run]->pool == pool)
			run++;
		if (run > i) {
			rte_mempool_put_bulk(pool, (void *const *)&mbufs[i], run - i);
			i = run;
		} else {
			rte_pktmbuf_free(mbufs[i++]);
		}
	}
}

int mrc_tx_reserve(struct rte_mempool *pool, struct rte_mbuf **mbufs, uint16_t n)
{
	return rte_mempool_get_bulk(pool, (void **)mbufs, n);
}

/*
 * As rte_pktmbuf_reset does, but for what a free mbuf has anyhow (no next segment, one reference, one segment), and what nobody asks for without
 * flags: tags, and the lengths that offloads need.
 */
void mrc_tx_begin(struct rte_mbuf *m, uint16_t len)
{
	m->data_off = RTE_PKTMBUF_HEADROOM;
	m->ol_flags = 0;
	m->packet_type = 0;
	m->pkt_len = len;
	m->data_len = len;
}

void mrc_tx_unreserve(struct rte_mempool *pool, struct rte_mbuf **mbufs, uint16_t n)
{
	rte_mempool_put_bulk(pool, (void *const *)mbufs, n);
}

/* DPDK wants a function where the last reference ends. The count never gets there. */
static void nothing(void *data, void *opaque)
{
	(void)data;
	(void)opaque;
}

void mrc_tx_around(struct rte_mbuf *head, uint16_t head_len, struct rte_mbuf *piece, void *data, uint16_t len, void *count,
		   struct rte_mbuf *tail, uint16_t tail_len)
{
	struct rte_mbuf_ext_shared_info *shared = count;

	if (shared->free_cb == NULL)
		shared->free_cb = nothing;
	mrc_tx_begin(head, head_len);
	mrc_tx_begin(piece, len);
	mrc_tx_begin(tail, tail_len);
	/* Software drivers do not look at the second address; cards get pieces of memory alone that was mapped for them at its own address. */
	rte_pktmbuf_attach_extbuf(piece, data, (rte_iova_t)(uintptr_t)data, len, shared);
	piece->data_len = len;
	head->pkt_len = (uint32_t)head_len + len + tail_len;
	head->nb_segs = 3;
	head->next = piece;
	piece->next = tail;
}

uint16_t mrc_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, const uint16_t *lens, uint16_t n)
{
	for (uint16_t i = 0; i < n; i++) {
		if (lens[i] != 0)
			mrc_tx_begin(mbufs[i], lens[i]);
	}
	return rte_eth_tx_burst(port, queue, mbufs, n);
}

uint16_t mrc_tx_burst_raw(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	return rte_eth_tx_burst(port, queue, mbufs, n);
}

int mrc_chain(struct rte_mbuf *head, uint16_t head_len, struct rte_mbuf *tail, uint16_t tail_len)
{
	if (head->next == NULL) {
		head->data_len = head_len;
		head->pkt_len = head_len;
	}
	tail->data_len = tail_len;
	tail->pkt_len = tail_len;
	return rte_pktmbuf_chain(head, tail);
}

uint32_t mrc_own(struct rte_mbuf *const *mbufs, uint16_t n)
{
	uint32_t own = 0;

	for (uint16_t i = 0; i < n; i++) {
		const struct rte_mbuf *m = mbufs[i];

		while (m != NULL && RTE_MBUF_DIRECT(m) && rte_mbuf_refcnt_read(m) == 1)
			m = m->next;
		own |= (uint32_t)(m == NULL) << i;
	}
	return own;
}

void mrc_truncate(struct rte_mbuf *m, uint32_t len)
{
	struct rte_mbuf *seg = m;
	uint32_t left = len;
	uint16_t segs = 1;

	if (len >= m->pkt_len)
		return;
	for (; left > seg->data_len && seg->next != NULL; segs++) {
		left -= seg->data_len;
		seg = seg->next;
	}
	seg->data_len = left;
	rte_pktmbuf_free(seg->next);
	seg->next = NULL;
	m->nb_segs = segs;
	m->pkt_len = len;
}

unsigned int mrc_ring_drain(struct rte_ring *ring, struct rte_mbuf **mbufs, unsigned int n)
{
	return rte_ring_dequeue_burst(ring, (void **)mbufs, n, NULL);
}

uint64_t mrc_rdtsc(void)
{
	return rte_rdtsc();
}

int mrc_errno(void)
{
	return rte_errno;
}

int mrc_link(uint16_t port, uint32_t *mbps)
{
	struct rte_eth_link link = {0};
	int rc = rte_eth_link_get_nowait(port, &link);

	if (rc < 0)
		return rc;
	*mbps = link.link_speed;
	return link.link_status == RTE_ETH_LINK_UP;
}

int mrc_device_known(const char *name)
{
	struct rte_devargs devargs = {0};
	int known = rte_devargs_parsef(&devargs, "%s", name) == 0;

	if (known)
		rte_devargs_reset(&devargs);
	return known;
}

int mrc_log_to_fd(int fd)
{
	FILE *f = fdopen(fd, "w");

	if (f == NULL)
		return -errno;
	return rte_openlog_stream(f);
}
