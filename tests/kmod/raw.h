/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A peer that speaks SMB Direct by hand over verbs and may say anything (see raw.c).
 */
#ifndef SMBDIRECT_TEST_RAW_H
#define SMBDIRECT_TEST_RAW_H

#include <rdma/rdma_cm.h>

#include "test.h"

#define RAW_BUFFERS 64
#define RAW_BUFFER_SIZE 8192

struct raw_request {
	__le16 min_version;
	__le16 max_version;
	__le16 reserved;
	__le16 credits_requested;
	__le32 preferred_send_size;
	__le32 max_receive_size;
	__le32 max_fragmented_size;
} __packed;

struct raw_response {
	__le16 min_version;
	__le16 max_version;
	__le16 negotiated_version;
	__le16 reserved;
	__le16 credits_requested;
	__le16 credits_granted;
	__le32 status;
	__le32 max_readwrite_size;
	__le32 preferred_send_size;
	__le32 max_receive_size;
	__le32 max_fragmented_size;
} __packed;

struct raw_data {
	__le16 credits_requested;
	__le16 credits_granted;
	__le16 flags;
	__le16 reserved;
	__le32 remaining;
	__le32 offset;
	__le32 length;
	__le32 padding;
	u8 payload[];
} __packed;

#define RAW_EMPTY offsetof(struct raw_data, padding)

struct raw;

struct raw_buffer {
	struct ib_cqe cqe;
	struct raw *raw;
	struct list_head arrived;
	void *data;
	u64 dma;
	u32 len;
};

struct raw {
	struct rdma_cm_id *id;
	struct rdma_cm_id *listener;
	struct ib_qp *qp;
	bool own_qp; /* one that the connection manager does not know */
	struct ib_pd *pd;
	struct ib_cq *cq;
	wait_queue_head_t wait;
	spinlock_t lock; /* arrived */
	struct list_head arrived;
	int event; /* the last one, -1 before */
	bool requested;
	bool established;
	bool gone;
	struct rdma_conn_param said; /* by the other side, as the event has it */
	size_t first; /* bytes of out to be sent as soon as possible */
	struct ib_cqe send_cqe;
	struct completion sent;
	enum ib_wc_status send_status;
	u8 out[RAW_BUFFER_SIZE];
	u64 out_dma;
	struct raw_buffer in[RAW_BUFFERS];
};

struct raw *raw_new(void);
bool raw_connect(struct raw *raw);
bool raw_connect_half(struct raw *raw);
bool raw_connect_rest(struct raw *raw);
bool raw_listen(struct raw *raw);
bool raw_accepted(struct raw *raw);
void raw_send_first(struct raw *raw, const void *data, size_t len);
int raw_send(struct raw *raw, const void *data, size_t len);
int raw_receive(struct raw *raw, void *data, size_t size, unsigned int limit_ms);
void raw_granted(struct raw *raw);
bool raw_gone(struct raw *raw, unsigned int limit_ms);
void raw_vanish(struct raw *raw);
void raw_close(struct raw *raw);

void raw_request_good(struct raw_request *req);
void raw_response_good(struct raw_response *rsp);
struct smbdirect_socket *raw_is_served(struct raw *raw, struct smbdirect_socket *listener);
bool raw_serves(struct raw *raw, struct smbdirect_socket *client);
int raw_send_data(struct raw *raw, u32 remaining, const void *data, u32 len, u16 granted,
		  u16 flags);

#endif
