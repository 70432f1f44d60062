// SPDX-License-Identifier: GPL-2.0
/*
 * A peer that speaks SMB Direct by hand over verbs: one RC connection in either role, messages as
 * they are handed in. It keeps RAW_BUFFERS receives posted; one whose message was not taken yet
 * is not.
 */

#include <net/net_namespace.h>

#include "raw.h"

#define RAW_STEP_MS 5000

static void raw_received(struct ib_cq *cq, struct ib_wc *wc)
{
	struct raw_buffer *buffer = container_of(wc->wr_cqe, struct raw_buffer, cqe);
	struct raw *raw = buffer->raw;

	if (wc->status != IB_WC_SUCCESS)
		return;
	buffer->len = wc->byte_len;
	spin_lock_bh(&raw->lock);
	list_add_tail(&buffer->arrived, &raw->arrived);
	spin_unlock_bh(&raw->lock);
	wake_up_all(&raw->wait);
}

static void raw_sent(struct ib_cq *cq, struct ib_wc *wc)
{
	struct raw *raw = container_of(wc->wr_cqe, struct raw, send_cqe);

	raw->send_status = wc->status;
	complete(&raw->sent);
}

static int raw_post(struct raw_buffer *buffer)
{
	struct raw *raw = buffer->raw;
	struct ib_sge sge = {
		.addr = buffer->dma,
		.length = RAW_BUFFER_SIZE,
		.lkey = raw->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = { .wr_cqe = &buffer->cqe, .sg_list = &sge, .num_sge = 1 };

	buffer->cqe.done = raw_received;
	return ib_post_recv(raw->qp, &wr, NULL);
}

static int raw_buffers(struct raw *raw)
{
	struct ib_device *dev = raw->id->device;
	int i, ret;

	raw->out_dma = ib_dma_map_single(dev, raw->out, RAW_BUFFER_SIZE, DMA_TO_DEVICE);
	for (i = 0; i < RAW_BUFFERS; i++) {
		struct raw_buffer *buffer = &raw->in[i];

		buffer->raw = raw;
		buffer->data = kzalloc(RAW_BUFFER_SIZE, GFP_KERNEL);
		if (!buffer->data)
			return -ENOMEM;
		buffer->dma = ib_dma_map_single(dev, buffer->data, RAW_BUFFER_SIZE,
						DMA_FROM_DEVICE);
		ret = raw_post(buffer);
		if (ret)
			return ret;
	}
	return 0;
}

/* What the connection manager does with a queue pair of its own. */
static int raw_modify(struct raw *raw, enum ib_qp_state state)
{
	struct ib_qp_attr attr = { .qp_state = state };
	int mask, ret;

	ret = rdma_init_qp_attr(raw->id, &attr, &mask);
	return ret ?: ib_modify_qp(raw->qp, &attr, mask);
}

static int raw_make_qp(struct raw *raw, struct ib_qp_init_attr *attr)
{
	struct ib_qp *qp = raw->own_qp ? ib_create_qp(raw->pd, attr) : NULL;
	int ret;

	if (IS_ERR(qp))
		return PTR_ERR(qp);
	raw->qp = qp;
	if (raw->own_qp)
		return raw_modify(raw, IB_QPS_INIT);
	ret = rdma_create_qp(raw->id, raw->pd, attr);
	raw->qp = raw->id->qp;
	return ret;
}

static int raw_queue_pair(struct raw *raw)
{
	struct ib_qp_init_attr attr = {
		.cap = {
			.max_send_wr = 16,
			.max_recv_wr = RAW_BUFFERS + 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		.qp_type = IB_QPT_RC,
	};
	int ret;

	raw->pd = ib_alloc_pd(raw->id->device, 0);
	if (IS_ERR(raw->pd))
		return PTR_ERR(raw->pd);
	raw->cq = ib_alloc_cq_any(raw->id->device, raw, 128, IB_POLL_WORKQUEUE);
	if (IS_ERR(raw->cq))
		return PTR_ERR(raw->cq);
	attr.send_cq = raw->cq;
	attr.recv_cq = raw->cq;
	ret = raw_make_qp(raw, &attr);
	return ret ?: raw_buffers(raw);
}

static void raw_params(struct rdma_conn_param *param)
{
	memset(param, 0, sizeof(*param));
	param->initiator_depth = 8;
	param->responder_resources = 8;
	param->retry_count = 6;
}

/* Len bytes of out. */
static int raw_post_send(struct raw *raw, size_t len)
{
	struct ib_sge sge = {
		.addr = raw->out_dma,
		.length = len,
		.lkey = raw->pd->local_dma_lkey,
	};
	struct ib_send_wr wr = {
		.wr_cqe = &raw->send_cqe,
		.sg_list = &sge,
		.num_sge = len ? 1 : 0,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};

	reinit_completion(&raw->sent);
	return ib_post_send(raw->qp, &wr, NULL);
}

static void raw_request_arrived(struct raw *raw, struct rdma_cm_id *id)
{
	struct rdma_conn_param param;

	id->context = raw;
	raw->id = id;
	raw_params(&param);
	if (!raw_queue_pair(raw) && !rdma_accept(id, &param) && raw->first)
		raw_post_send(raw, raw->first);
}

static int raw_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct raw *raw = id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		if (raw->requested)
			return -EBUSY;
		raw->requested = true;
		raw->said = event->param.conn;
		raw_request_arrived(raw, id);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		raw->established = true;
		if (raw->requested)
			break;
		raw->said = event->param.conn;
		if (raw->first)
			raw_post_send(raw, raw->first);
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return 0;
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		break;
	default:
		raw->gone = true;
	}
	WRITE_ONCE(raw->event, event->event);
	wake_up_all(&raw->wait);
	return 0;
}

struct raw *raw_new(void)
{
	struct raw *raw = kzalloc_obj(*raw);

	if (!expect(raw, "no memory"))
		return NULL;
	raw->event = -1;
	init_waitqueue_head(&raw->wait);
	spin_lock_init(&raw->lock);
	INIT_LIST_HEAD(&raw->arrived);
	init_completion(&raw->sent);
	raw->send_cqe.done = raw_sent;
	return raw;
}

static struct rdma_cm_id *raw_id(struct raw *raw)
{
	struct rdma_cm_id *id = rdma_create_id(&init_net, raw_event, raw, RDMA_PS_TCP, IB_QPT_RC);

	expect(!IS_ERR(id), "raw: no id: %ld", PTR_ERR(id));
	return IS_ERR(id) ? NULL : id;
}

static bool raw_reaches(struct raw *raw, enum rdma_cm_event_type event)
{
	wait_event_timeout(raw->wait, READ_ONCE(raw->event) == event || raw->gone,
			   msecs_to_jiffies(RAW_STEP_MS));
	return expect(READ_ONCE(raw->event) == event, "raw: event %d instead of %d",
		      raw->event, event);
}

static bool raw_ask(struct raw *raw)
{
	struct rdma_conn_param param;
	struct sockaddr_in sin;
	int ret;

	smbt_address(&sin, SMBT_PORT);
	raw->id = raw_id(raw);
	if (!raw->id)
		return false;
	ret = rdma_resolve_addr(raw->id, NULL, (struct sockaddr *)&sin, 2000);
	if (!expect_int("raw: address", ret, 0) ||
	    !raw_reaches(raw, RDMA_CM_EVENT_ADDR_RESOLVED))
		return false;
	ret = rdma_resolve_route(raw->id, 2000);
	if (!expect_int("raw: route", ret, 0) || !raw_reaches(raw, RDMA_CM_EVENT_ROUTE_RESOLVED))
		return false;
	if (!expect_int("raw: queue pair", raw_queue_pair(raw), 0))
		return false;
	raw_params(&param);
	param.qp_num = raw->qp->qp_num;
	ret = rdma_connect(raw->id, &param);
	return expect_int("raw: connect", ret, 0);
}

/* Connect to the listener under test. */
bool raw_connect(struct raw *raw)
{
	return raw_ask(raw) && raw_reaches(raw, RDMA_CM_EVENT_ESTABLISHED);
}

/*
 * The same up to the listener's answer. The connection carries messages then, but the listener was
 * not told that the answer arrived. Not with iWARP, which has no such step.
 */
bool raw_connect_half(struct raw *raw)
{
	raw->own_qp = true;
	return raw_ask(raw) && raw_reaches(raw, RDMA_CM_EVENT_CONNECT_RESPONSE) &&
	       expect_int("raw: to receive", raw_modify(raw, IB_QPS_RTR), 0) &&
	       expect_int("raw: to send", raw_modify(raw, IB_QPS_RTS), 0);
}

/* Now it is told. */
bool raw_connect_rest(struct raw *raw)
{
	int ret;

	rdma_lock_handler(raw->id);
	ret = rdma_accept(raw->id, NULL);
	rdma_unlock_handler(raw->id);
	return expect_int("raw: ready to use", ret, 0);
}

/* Wait for a client under test. */
bool raw_listen(struct raw *raw)
{
	struct sockaddr_in sin;

	smbt_address(&sin, SMBT_PORT);
	raw->listener = raw_id(raw);
	return raw->listener &&
	       expect_int("raw: bind", rdma_bind_addr(raw->listener, (struct sockaddr *)&sin), 0) &&
	       expect_int("raw: listen", rdma_listen(raw->listener, 1), 0);
}

bool raw_accepted(struct raw *raw)
{
	return raw_reaches(raw, RDMA_CM_EVENT_ESTABLISHED);
}

/* To be sent before anything else, at the first moment that allows it. */
void raw_send_first(struct raw *raw, const void *data, size_t len)
{
	memcpy(raw->out, data, len);
	raw->first = len;
}

/* 0 when the peer's device has it, or the connection is over. */
int raw_send(struct raw *raw, const void *data, size_t len)
{
	int ret;

	memcpy(raw->out, data, len);
	ret = raw_post_send(raw, len);
	if (ret)
		return ret;
	if (!wait_for_completion_timeout(&raw->sent, msecs_to_jiffies(RAW_STEP_MS)))
		return -ETIMEDOUT;
	/*
	 * With whatever status: a peer that ends the connection at once may be faster than its
	 * acknowledgement, and each device has its own word for that.
	 */
	return 0;
}

static struct raw_buffer *raw_next(struct raw *raw)
{
	struct raw_buffer *buffer;

	spin_lock_bh(&raw->lock);
	buffer = list_first_entry_or_null(&raw->arrived, struct raw_buffer, arrived);
	if (buffer)
		list_del(&buffer->arrived);
	spin_unlock_bh(&raw->lock);
	return buffer;
}

/* The next message's length, -ENOTCONN, or -ETIMEDOUT. */
int raw_receive(struct raw *raw, void *data, size_t size, unsigned int limit_ms)
{
	struct raw_buffer *buffer = NULL;
	int len;

	wait_event_timeout(raw->wait, (buffer = raw_next(raw)) || raw->gone,
			   msecs_to_jiffies(limit_ms));
	if (!buffer)
		buffer = raw_next(raw);
	if (!buffer)
		return raw->gone ? -ENOTCONN : -ETIMEDOUT;
	len = buffer->len;
	memcpy(data, buffer->data, min_t(size_t, len, size));
	raw_post(buffer);
	return len;
}

/*
 * Wait for the client's first message, which grants credits and stays to be read. Being connected a
 * client may still be about to send it, and before it nothing may be sent to the client (D9).
 */
void raw_granted(struct raw *raw)
{
	wait_event_timeout(raw->wait, !list_empty_careful(&raw->arrived) || raw->gone,
			   msecs_to_jiffies(500 * smbt_slow()));
}

/* Whether the other side ended the connection. */
bool raw_gone(struct raw *raw, unsigned int limit_ms)
{
	wait_event_timeout(raw->wait, raw->gone, msecs_to_jiffies(limit_ms));
	return raw->gone;
}

/*
 * Fall silent without a word: from now on nothing is sent, and what arrives is dropped without an
 * acknowledgement. That is so on rxe; siw closes the TCP connection.
 */
void raw_vanish(struct raw *raw)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	expect_int("raw: vanish", ib_modify_qp(raw->qp, &attr, IB_QP_STATE), 0);
}

static void raw_unmap(struct raw *raw)
{
	struct ib_device *dev = raw->id->device;
	int i;

	if (raw->out_dma)
		ib_dma_unmap_single(dev, raw->out_dma, RAW_BUFFER_SIZE, DMA_TO_DEVICE);
	for (i = 0; i < RAW_BUFFERS && raw->in[i].data; i++) {
		ib_dma_unmap_single(dev, raw->in[i].dma, RAW_BUFFER_SIZE, DMA_FROM_DEVICE);
		kfree(raw->in[i].data);
	}
}

void raw_close(struct raw *raw)
{
	if (!raw)
		return;
	if (raw->listener)
		rdma_destroy_id(raw->listener);
	if (raw->qp) {
		rdma_disconnect(raw->id);
		ib_drain_qp(raw->qp);
		if (raw->own_qp)
			ib_destroy_qp(raw->qp);
		else
			rdma_destroy_qp(raw->id);
	}
	if (!IS_ERR_OR_NULL(raw->cq))
		ib_free_cq(raw->cq);
	if (!IS_ERR_OR_NULL(raw->pd)) {
		raw_unmap(raw);
		ib_dealloc_pd(raw->pd);
	}
	if (raw->id)
		rdma_destroy_id(raw->id);
	kfree(raw);
}

void raw_request_good(struct raw_request *req)
{
	*req = (struct raw_request) {
		.min_version = cpu_to_le16(0x0100),
		.max_version = cpu_to_le16(0x0100),
		.credits_requested = cpu_to_le16(255),
		.preferred_send_size = cpu_to_le32(1364),
		.max_receive_size = cpu_to_le32(RAW_BUFFER_SIZE),
		.max_fragmented_size = cpu_to_le32(1 << 20),
	};
}

void raw_response_good(struct raw_response *rsp)
{
	*rsp = (struct raw_response) {
		.min_version = cpu_to_le16(0x0100),
		.max_version = cpu_to_le16(0x0100),
		.negotiated_version = cpu_to_le16(0x0100),
		.credits_requested = cpu_to_le16(255),
		.credits_granted = cpu_to_le16(RAW_BUFFERS / 2),
		.max_readwrite_size = cpu_to_le32(1 << 20),
		.preferred_send_size = cpu_to_le32(1364),
		.max_receive_size = cpu_to_le32(1364),
		.max_fragmented_size = cpu_to_le32(1 << 20),
	};
}

/* Connect to the listener and negotiate; the child, or NULL, which is recorded. */
struct smbdirect_socket *raw_is_served(struct raw *raw, struct smbdirect_socket *listener)
{
	struct smbdirect_socket *sc;
	struct raw_response rsp;
	struct raw_request req;

	raw_request_good(&req);
	if (!raw_connect(raw) || !expect_int("request", raw_send(raw, &req, sizeof(req)), 0))
		return NULL;
	sc = accept_one(listener, 3000);
	if (sc)
		expect_int("response", raw_receive(raw, &rsp, sizeof(rsp), 3000), sizeof(rsp));
	return sc;
}

/* Negotiate with the client that connects. */
bool raw_serves(struct raw *raw, struct smbdirect_socket *client)
{
	struct raw_response rsp;
	struct raw_request req;

	raw_response_good(&rsp);
	if (!raw_accepted(raw) ||
	    !expect_int("request", raw_receive(raw, &req, sizeof(req), 3000), sizeof(req)) ||
	    !expect_int("response", raw_send(raw, &rsp, sizeof(rsp)), 0) ||
	    !expect_int("wait", smbdirect_connection_wait_for_connected(client), 0))
		return false;
	raw_granted(raw);
	return true;
}

/* One data message; without data it is an empty one unless something remains. */
int raw_send_data(struct raw *raw, u32 remaining, const void *data, u32 len, u16 granted, u16 flags)
{
	struct raw_data *msg = kzalloc(sizeof(*msg) + len, GFP_KERNEL);
	int ret;

	if (!msg)
		return -ENOMEM;
	msg->credits_requested = cpu_to_le16(255);
	msg->credits_granted = cpu_to_le16(granted);
	msg->flags = cpu_to_le16(flags);
	msg->remaining = cpu_to_le32(remaining);
	msg->offset = cpu_to_le32(len ? sizeof(*msg) : 0);
	msg->length = cpu_to_le32(len);
	memcpy(msg->payload, data, len);
	ret = raw_send(raw, msg, len ? sizeof(*msg) + len : RAW_EMPTY);
	kfree(msg);
	return ret;
}
