/*
 * DPDK keeps its fast path in static inline functions, which bindgen cannot bind. These are the ones in use, at the
 * grain of a burst, so that a call across the language border is paid once a burst and not once a packet.
 * No policy here.
 */
#ifndef MRC_SHIM_H
#define MRC_SHIM_H

#include <stdint.h>

#include <rte_alarm.h>
#include <rte_bus_vdev.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_memory.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_version.h>

/* Segments behind the first that are described with it. */
#define MRC_MORE_SEGS 2

/* What a reader needs to know of a received mbuf. */
struct mrc_seg {
	void *data;        /* first byte of the first segment */
	uint32_t pkt_len;  /* bytes in the whole chain */
	uint16_t data_len; /* bytes in the first segment */
	uint16_t nb_segs;
	void *more[MRC_MORE_SEGS];        /* first bytes of the second and the third segment, where there are such */
	uint16_t more_len[MRC_MORE_SEGS]; /* bytes in them */
};

/* Reads a burst and prefetches the first line of each frame. */
uint16_t mrc_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, struct mrc_seg *segs, uint16_t n);

/* Describes mbufs that came by another way than mrc_rx_burst. */
void mrc_describe(struct rte_mbuf *const *mbufs, struct mrc_seg *segs, uint16_t n);

/* The next segment of a chain, or NULL; describes it in *data and *len. */
struct rte_mbuf *mrc_next_seg(const struct rte_mbuf *m, void **data, uint16_t *len);

/* Gives n received frames back to their pools. */
void mrc_free(struct rte_mbuf **mbufs, uint16_t n);

/* Takes n mbufs from the pool, all or none. Returns 0, or a negative errno. They have no bytes of their own yet: frames begin where the headroom ends,
 * which is right behind struct rte_mbuf. */
int mrc_tx_reserve(struct rte_mempool *pool, struct rte_mbuf **mbufs, uint16_t n);

/* Makes a reserved mbuf a frame of len bytes. */
void mrc_tx_begin(struct rte_mbuf *m, uint16_t len);

/* Gives reserved mbufs back to their pool. */
void mrc_tx_unreserve(struct rte_mempool *pool, struct rte_mbuf **mbufs, uint16_t n);

/* Makes a frame of three segments: head, then len bytes at data that are somebody else's, then tail. All three mbufs are reserved ones. `count` is where
 * the reference is counted: one is taken off when the frame is freed; it never reaches 0. A card finds the bytes at the address that the CPU has. */
void mrc_tx_around(struct rte_mbuf *head, uint16_t head_len, struct rte_mbuf *piece, void *data, uint16_t len, void *count,
		   struct rte_mbuf *tail, uint16_t tail_len);

/* Makes n reserved mbufs frames of these lengths, except where the length is 0, which are frames already, and offers all to the port; returns how many it
 * took. */
uint16_t mrc_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, const uint16_t *lens, uint16_t n);

/* Offers frames, whatever their shape, as they are; returns how many the port took. */
uint16_t mrc_tx_burst_raw(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);

/* Appends `tail` to the chain of `head`, each segment with the length given. Returns 0, or a negative errno. */
int mrc_chain(struct rte_mbuf *head, uint16_t head_len, struct rte_mbuf *tail, uint16_t tail_len);

/* Bit i is set when frame i, of up to 32, may be changed in place: each of its segments holds its own bytes, and nobody
 * else refers to it. */
uint32_t mrc_own(struct rte_mbuf *const *mbufs, uint16_t n);

/* Cuts a frame that may be changed to len bytes; what is behind goes back to its pool. */
void mrc_truncate(struct rte_mbuf *m, uint32_t len);

/* Takes up to n mbufs off a ring that nobody polls any more. */
unsigned int mrc_ring_drain(struct rte_ring *ring, struct rte_mbuf **mbufs, unsigned int n);

uint64_t mrc_rdtsc(void);
int mrc_errno(void);

/* 1 when the link is up, 0 when it is down, or a negative errno; speed in Mbit/s. */
int mrc_link(uint16_t port, uint32_t *mbps);

/* 1 when a bus answers to the device's name: for a virtual device, when its driver is there. */
int mrc_device_known(const char *name);

/* DPDK's log goes to a stream over fd, which is owned from now on. Returns 0, or a negative errno. */
int mrc_log_to_fd(int fd);

/* Frames of several segments can be sent. */
extern const uint64_t mrc_multi_segs;

/* RSS over the IP addresses, and over no port number. */
extern const uint64_t mrc_rss_addresses;

#endif
