// SPDX-License-Identifier: GPL-2.0
/* How the connection is made below the negotiation, and messages at its very first moment. */

#include <linux/delay.h>

#include "raw.h"
#include "tap.h"

/* A message of the size of the one receive that is there at first (E1). */
#define FIRST_SIZE 512

/* U4, as far as the other side can see it. */
static void expect_retries(const struct raw *raw, bool request)
{
	note("%s: %u retries, %u for a missing receive, depths %u %u",
	     request ? "request" : "answer", raw->said.retry_count, raw->said.rnr_retry_count,
	     raw->said.responder_resources, raw->said.initiator_depth);
	/* iWARP leaves retries to TCP. Only a request has those of the transport. */
	if (request && !smbt_iwarp())
		expect_int("U4: retries", raw->said.retry_count, 6);
	expect_int("U4: retries for a missing receive", raw->said.rnr_retry_count, 0);
	expect_int("U4: flow control", raw->said.flow_control, 0);
}

/* A client under test and a peer that answers with a good response. */
static void asked(void)
{
	struct smbdirect_socket *client = NULL;
	struct raw *raw = raw_new();

	if (raw && raw_listen(raw))
		client = client_connecting();
	if (client && raw_accepted(raw))
		expect_retries(raw, true);
	raw_close(raw);
	sock_end(client);
}

static void answered(void)
{
	struct smbdirect_socket *listener = listener_default(2);
	struct raw *raw = raw_new();

	if (listener && raw && raw_connect(raw))
		expect_retries(raw, false);
	raw_close(raw);
	sock_end(listener);
}

/* The child that a raw client becomes, after its request; the response is taken. */
static struct smbdirect_socket *accepted(struct smbdirect_socket *listener, struct raw *raw)
{
	struct smbdirect_socket *server = accept_one(listener, 5000);
	struct raw_response rsp = { };

	if (server) {
		expect_int("response", raw_receive(raw, &rsp, sizeof(rsp), 3000), sizeof(rsp));
		expect_int("status", le32_to_cpu(rsp.status), 0);
	}
	return server;
}

/* Whether data of the raw peer arrives. */
static void hears(struct smbdirect_socket *sc, struct raw *raw)
{
	u8 data[100], got[100];

	pattern_fill(data, sizeof(data), 3);
	expect_int("send", raw_send_data(raw, 0, data, sizeof(data), 5, 0), 0);
	msg_expect(sc, got, sizeof(got), 3);
}

static int send_many(void *arg)
{
	u8 data[100] = { };
	int ret = 4 + sizeof(data), i;

	for (i = 0; i < 2 * RAW_BUFFERS && ret == 4 + sizeof(data); i++)
		ret = msg_send(arg, data, sizeof(data));
	return ret;
}

/* U4: the peer grants more than it has receives, and there is no second try. */
static void unposted(void)
{
	struct smbdirect_socket *listener = listener_default(2), *server = NULL;
	struct raw *raw = raw_new();
	struct raw_request req;
	struct smbt_task task;
	u64 start = 0;

	raw_request_good(&req);
	if (listener && raw && raw_connect(raw) &&
	    expect_int("request", raw_send(raw, &req, sizeof(req)), 0))
		server = accepted(listener, raw);
	if (server) {
		expect_int("grant", raw_send_data(raw, 0, NULL, 0, 4 * RAW_BUFFERS, 0), 0);
		start = smbt_now_ms();
		if (task_start(&task, send_many, server)) {
			expect(wait_gone(server, 3000), "U4: still connected");
			note("gone after %llu ms", smbt_now_ms() - start);
			task_join(&task, 3000);
		}
		expect(smbdirect_connection_wait_for_connected(server) < 0, "U4: no error");
		listener_works(listener);
	}
	raw_close(raw);
	sock_end(server);
	sock_end(listener);
}

/* E1: the request is under way as soon as the client is connected. */
static void request_at_once(void)
{
	struct smbdirect_socket *listener = listener_default(2), *server = NULL;
	u8 first[FIRST_SIZE] = { };
	struct raw *raw;
	int i;

	raw_request_good((struct raw_request *)first);
	for (i = 0; listener && i < 20; i++) {
		raw = raw_new();
		if (!raw)
			break;
		raw_send_first(raw, first, sizeof(first));
		if (raw_connect(raw))
			server = accepted(listener, raw);
		if (server)
			hears(server, raw);
		raw_close(raw);
		sock_end(server);
		if (!server)
			break;
		server = NULL;
	}
	sock_end(listener);
}

/*
 * E1: so is the response, which does not even wait for the request. The device tries again as long
 * as the client has no queue pair that receives, but a missing receive would be the end.
 */
static void response_at_once(void)
{
	struct smbdirect_socket *client;
	u8 first[FIRST_SIZE] = { };
	struct raw_request req;
	struct raw *raw;
	int i, ret = 0;

	if (smbt_iwarp()) {
		skip("with iWARP the side that listens does not send first");
		return;
	}
	if (skip_unless_ours("posts its receive when it is connected"))
		return;
	raw_response_good((struct raw_response *)first);
	for (i = 0; !ret && i < 5; i++) {
		raw = raw_new();
		if (!raw)
			break;
		raw_send_first(raw, first, sizeof(first));
		client = raw_listen(raw) ? client_connecting() : NULL;
		ret = client ? smbdirect_connection_wait_for_connected(client) : -ENOMEM;
		if (expect_int("E1: wait", ret, 0) &&
		    expect_int("request", raw_receive(raw, &req, sizeof(req), 3000), sizeof(req))) {
			raw_granted(raw);
			hears(client, raw);
		}
		raw_close(raw);
		sock_end(client);
	}
}

/* A raw client whose request has arrived although the listener does not count it as connected. */
static struct raw *raw_early(struct smbdirect_socket *listener)
{
	struct raw *raw = raw_new();
	struct raw_request req;

	raw_request_good(&req);
	if (raw && raw_connect_half(raw) &&
	    expect_int("request", raw_send(raw, &req, sizeof(req)), 0)) {
		msleep(300);
		if (expect_int("E4: accept", accept_error(listener, 0), -EAGAIN) &&
		    expect(!raw->gone, "E4: the early request is the end"))
			return raw;
	}
	raw_close(raw);
	return NULL;
}

/* E4: the request is there before the event that says "established". */
static void request_early(void)
{
	struct smbdirect_socket *listener, *server = NULL;
	struct raw *raw = NULL;

	if (smbt_iwarp()) {
		skip("with iWARP nothing arrives before the connection");
		return;
	}
	listener = listener_default(2);
	log_errors();
	if (listener)
		raw = raw_early(listener);
	if (raw && raw_connect_rest(raw))
		server = accepted(listener, raw);
	if (server)
		hears(server, raw);
	expect_int("E4: error lines", log_errors(), 0);
	raw_close(raw);
	sock_end(server);
	sock_end(listener);
}

/*
 * R12: a peer that goes without a word rejects what it had not confirmed. That is the end of the
 * connection, which no answer to a disconnect follows.
 */
static void given_up(struct smbdirect_socket *server)
{
	u64 start = smbt_now_ms();

	expect(wait_gone(server, 1000), "R12: still connected");
	sock_end(server);
	expect(smbt_now_ms() - start < 1500, "R12: it took %llu ms", smbt_now_ms() - start);
}

/*
 * R17: some devices tell that a first message arrived. That is as good as the peer's word, which
 * may get lost: here it never comes.
 */
static void told_by_data(void)
{
	struct smbdirect_socket *listener, *server = NULL;
	struct raw *raw = NULL;
	struct rdma_cm_id *id;

	if (smbt_iwarp()) {
		skip("with iWARP nothing arrives before the connection");
		return;
	}
	if (skip_unless_ours("does not tell the connection manager (R17)"))
		return;
	tap_set(RDMA_CM_EVENT_INTERNAL, false, RDMA_CM_EVENT_INTERNAL, 0);
	listener = listener_adopting(2, &id);
	log_errors();
	if (listener) {
		tap_on(id);
		raw = raw_early(listener);
	}
	if (raw && expect(tap.requested, "no request")) {
		inject_qp(tap.requested, IB_EVENT_COMM_EST);
		server = accepted(listener, raw);
	}
	if (server)
		hears(server, raw);
	expect_int("R17: error lines", log_errors(), 0);
	raw_close(raw);
	if (server)
		given_up(server);
	sock_end(listener);
}

#define READERS 8
#define READ_SIZE 65536

struct reader {
	struct smbt_task task;
	struct smbdirect_socket *server;
	struct smbdirect_buffer_descriptor_v1 v1;
	u8 *buf;
};

static int read_often(void *arg)
{
	struct reader *reader = arg;
	int i, ret = 0;

	for (i = 0; i < 20 && !ret; i++) {
		memset(reader->buf, 0, READ_SIZE);
		ret = smbdirect_connection_rdma_xmit(reader->server, reader->buf, READ_SIZE,
						     &reader->v1, sizeof(reader->v1), true);
		if (!ret && !pattern_expect("read", reader->buf, READ_SIZE, 9))
			ret = -EIO;
	}
	return ret;
}

/* All at once out of one region. */
static void read_in_parallel(struct smbt_pair *pair,
			     const struct smbdirect_buffer_descriptor_v1 *v1)
{
	struct reader *readers = kzalloc_objs(*readers, READERS);
	int i, started = 0;

	for (i = 0; readers && i < READERS; i++) {
		readers[i].server = pair->server;
		readers[i].v1 = *v1;
		readers[i].buf = kvmalloc(READ_SIZE, GFP_KERNEL);
		if (!expect(readers[i].buf, "no memory") ||
		    !task_start(&readers[i].task, read_often, &readers[i]))
			break;
		started++;
	}
	for (i = 0; i < started; i++)
		expect_int("reads", task_join(&readers[i].task, 10000), 0);
	for (i = 0; readers && i < READERS; i++)
		kvfree(readers[i].buf);
	kfree(readers);
}

/* The depth that the server's device was told. */
static void expect_depth(struct ib_qp *qp, unsigned int want)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;
	int ret;

	ret = ib_query_qp(qp, &attr, IB_QP_MAX_QP_RD_ATOMIC, &init);
	if (expect_int("query", ret, 0))
		expect_int("B6: READs of the queue pair", attr.max_rd_atomic, want);
}

/* B6: the client serves one READ at a time, the server would like eight. */
static void reads(void)
{
	struct smbt_memory *mem = memory_new(SMBT_BVEC, 0, READ_SIZE);
	struct smbdirect_buffer_descriptor_v1 v1;
	struct smbdirect_mr_io *mr = NULL;
	struct smbt_pair *pair = pair_new();
	struct rdma_cm_id *id;

	if (!mem || !pair)
		goto out;
	pattern_fill(mem->data, READ_SIZE, 9);
	tap_set(RDMA_CM_EVENT_INTERNAL, false, RDMA_CM_EVENT_INTERNAL, 0);
	pair->client_params.responder_resources = 1;
	pair->listener = listener_adopting(2, &id);
	pair->client = sock_new(&pair->client_params, IB_POLL_SOFTIRQ);
	if (!pair->listener || !pair->client)
		goto out;
	tap_on(id);
	expect_int("connect", connect_to(pair->client, SMBT_PORT), 0);
	pair->server = accept_one(pair->listener, 5000);
	if (!pair->server ||
	    !expect_int("wait", smbdirect_connection_wait_for_connected(pair->client), 0))
		goto out;
	expect_int("B6: depth",
		   smbdirect_socket_get_current_parameters(pair->server)->initiator_depth, 1);
	/* siw says something else here. */
	if (!smbt_iwarp())
		expect_depth(tap.requested->qp, 1);
	mr = region_new(pair, mem, false, true, &v1);
	if (mr && region_announce(pair))
		read_in_parallel(pair, &v1);
	pair_works(pair);
	if (mr)
		smbdirect_connection_deregister_mr_io(mr);
out:
	pair_close(pair);
	memory_free(mem);
}

static const struct smbt_case cases[] = {
	{ "asked", asked }, /* rules: U4 */
	{ "answered", answered }, /* rules: U4 */
	{ "unposted", unposted }, /* rules: U4 */
	{ "request_at_once", request_at_once }, /* rules: E1 */
	{ "response_at_once", response_at_once }, /* rules: E1 */
	{ "request_early", request_early }, /* rules: E4 */
	{ "told_by_data", told_by_data }, /* rules: E4 R17 R12 */
	{ "reads", reads }, /* rules: B6 */
};

SMBT_SUITE(handshake);
