// SPDX-License-Identifier: GPL-2.0
/* Connecting, asynchronously and not. */

#include <linux/delay.h>

#include "test.h"

static void async(void)
{
	struct smbdirect_socket *listener = listener_default(10), *client, *server;

	client = client_new();
	if (!listener || !client)
		return;
	expect_int("connect", connect_to(client, SMBT_PORT), 0);
	expect_int("connect again", connect_to(client, SMBT_PORT), -EALREADY);
	server = accept_one(listener, 5000);
	expect_int("wait", smbdirect_connection_wait_for_connected(client), 0);
	expect_int("wait again", smbdirect_connection_wait_for_connected(client), 0);
	expect_int("connect when connected", connect_to(client, SMBT_PORT), -EALREADY);
	expect(smbdirect_connection_is_connected(client), "client not connected");
	if (server) {
		expect(smbdirect_connection_is_connected(server), "server not connected");
		expect_int("wait at the server",
			   smbdirect_connection_wait_for_connected(server), 0);
	}
	sock_end(client);
	sock_end(server);
	sock_end(listener);
}

static int connect_sync(void *arg)
{
	struct sockaddr_in sin;

	smbt_address(&sin, SMBT_PORT);
	return smbdirect_connect_sync(arg, (struct sockaddr *)&sin);
}

static void sync(void)
{
	struct smbdirect_socket *listener = listener_default(10), *client, *server = NULL;
	struct smbt_task task;

	client = client_new();
	if (!listener || !client)
		return;
	if (task_start(&task, connect_sync, client)) {
		server = accept_one(listener, 5000);
		expect_int("connect_sync", task_join(&task, 5000), 0);
	}
	expect(smbdirect_connection_is_connected(client), "not connected");
	expect_int("connect_sync again", connect_sync(client), -EALREADY);
	expect(smbdirect_connection_is_connected(client), "not connected after the second try");
	sock_end(client);
	sock_end(server);
	sock_end(listener);
}

/* A source address from an earlier bind is used; the parameters stay where they are. */
static void bound_client(void)
{
	struct smbdirect_socket *listener = listener_default(10), *client = client_new(), *server;
	const struct smbdirect_socket_parameters *sp;
	struct sockaddr_in sin;

	if (!listener || !client)
		return;
	sp = smbdirect_socket_get_current_parameters(client);
	smbt_address(&sin, SMBT_OTHER_PORT);
	expect_int("bind", smbdirect_socket_bind(client, (struct sockaddr *)&sin), 0);
	expect_int("connect", connect_to(client, SMBT_PORT), 0);
	server = accept_one(listener, 5000);
	expect_int("wait", smbdirect_connection_wait_for_connected(client), 0);
	expect(sp == smbdirect_socket_get_current_parameters(client), "other parameters");
	sock_end(client);
	sock_end(server);
	sock_end(listener);
}

/* What both sides agreed on is in the parameters before anybody is told of the connection. */
static void agreed(void)
{
	const struct smbdirect_socket_parameters *c, *s;
	struct smbt_pair *pair = pair_opened();

	if (!pair)
		return;
	c = smbdirect_socket_get_current_parameters(pair->client);
	s = smbdirect_socket_get_current_parameters(pair->server);
	expect_int("client max_send_size", c->max_send_size, 1364);
	expect_int("client max_recv_size", c->max_recv_size, 1364);
	expect_int("client max_fragmented_send_size", c->max_fragmented_send_size, 173910);
	expect_int("client max_fragmented_recv_size", c->max_fragmented_recv_size, 173910);
	expect_int("client max_frmr_depth", c->max_frmr_depth, smbt_region_pages());
	expect_int("client max_read_write_size", c->max_read_write_size,
		   smbt_region_pages() * PAGE_SIZE);
	expect_int("client initiator_depth", c->initiator_depth, 1);
	expect_int("client responder_resources", c->responder_resources, 8);
	expect_int("server max_send_size", s->max_send_size, 1364);
	expect_int("server max_recv_size", s->max_recv_size, 1364);
	expect_int("server max_fragmented_send_size", s->max_fragmented_send_size, 173910);
	expect_int("server max_fragmented_recv_size", s->max_fragmented_recv_size, 173910);
	expect_int("server max_read_write_size", s->max_read_write_size, 8 << 20);
	expect_int("server initiator_depth", s->initiator_depth, 8);
	expect_int("server responder_resources", s->responder_resources, 1);
	expect_int("server flags", s->flags, smbt_port_flag(true));
	pair_close(pair);
}

/* Whatever is small, the smaller of two wins. */
static void agree_on(u32 client_send, u32 client_recv)
{
	const struct smbdirect_socket_parameters *c, *s;
	struct smbt_pair *pair = pair_new();

	if (!pair)
		return;
	pair->client_params.max_send_size = client_send;
	pair->client_params.max_recv_size = client_recv;
	pair->client_params.recv_credit_max = 200;
	pair->server_params.max_send_size = 8000;
	pair->server_params.max_recv_size = 8000;
	pair->server_params.max_read_write_size = 1 << 20;
	if (pair_open(pair)) {
		c = smbdirect_socket_get_current_parameters(pair->client);
		s = smbdirect_socket_get_current_parameters(pair->server);
		expect_int("client max_send_size", c->max_send_size, client_send);
		expect_int("client max_recv_size", c->max_recv_size, client_recv);
		expect_int("server max_send_size", s->max_send_size, client_recv);
		expect_int("server max_recv_size", s->max_recv_size, client_send);
		expect_int("client max_read_write_size", c->max_read_write_size, 1 << 20);
		expect_int("client max_frmr_depth", c->max_frmr_depth, (1 << 20) / PAGE_SIZE);
		expect(s->max_fragmented_recv_size == c->max_fragmented_send_size,
		       "the server takes %u, the client thinks %u", s->max_fragmented_recv_size,
		       c->max_fragmented_send_size);
		expect(s->max_fragmented_recv_size >= 131072, "R7: the server takes %u only",
		       s->max_fragmented_recv_size);
		pair_works(pair);
	}
	pair_close(pair);
}

static void agreed_small(void)
{
	agree_on(1100, 1200);
}

/* Larger than a page, which the page on the ABI does not rule out. */
static void agreed_large(void)
{
	agree_on(7000, 8000);
}

/* R7: the fragmented sizes never fall below 131072. */
static void agreed_tiny(void)
{
	if (skip_unless_ours("advertises too little (R7)"))
		return;
	agree_on(512, 1024);
	agree_on(128, 128);
}

static void no_route(void)
{
	struct smbdirect_socket *sc = client_new();
	struct sockaddr_in sin;
	int ret;

	if (!sc)
		return;
	smbt_address(&sin, SMBT_PORT);
	sin.sin_addr.s_addr = htonl(0x0a090909);
	ret = smbdirect_connect(sc, (struct sockaddr *)&sin);
	expect(ret < 0, "connected to nowhere: %d", ret);
	note("no route gives %d", ret);
	/* Nothing but a release may follow, but the socket is not broken either. */
	sock_reaches(sc, "RESOLVE_ADDR_RUNNING", 0);
	expect_int("connect again", connect_to(sc, SMBT_PORT), -EALREADY);
	sock_end(sc);
}

static void refused(void)
{
	struct smbdirect_socket *sc = client_new();
	int ret;

	if (!sc)
		return;
	expect_int("connect", connect_to(sc, SMBT_NO_LISTENER), 0);
	ret = smbdirect_connection_wait_for_connected(sc);
	expect_int("wait", ret, -ECONNREFUSED);
	expect_int("wait again", smbdirect_connection_wait_for_connected(sc), -ECONNREFUSED);
	expect_int("connect after an error", connect_to(sc, SMBT_PORT), -ENOTCONN);
	expect(!smbdirect_connection_is_connected(sc), "connected");
	sock_end(sc);
}

/* cifs tries port 5445 like this first. */
static void wrong_device(void)
{
	struct smbdirect_socket_parameters sp;
	struct smbdirect_socket *sc;

	smbt_client_params(&sp);
	sp.flags = smbt_port_flag(false);
	sc = sock_new(&sp, IB_POLL_SOFTIRQ);
	if (!sc)
		return;
	log_errors();
	expect_int("connect over the other kind", connect_sync(sc), -ENODEV);
	/* The line comes with the cleanup, which nobody waits for but the release. */
	sock_end(sc);
	/* cifs asks for iWARP first; that there is none is no news. */
	expect_rule("R47", "error lines", log_errors(), smbt_iwarp() ? 1 : 0);
}

static void timeout(void)
{
	struct smbdirect_socket *listener = listener_default(10), *sc;
	struct smbdirect_socket_parameters sp;
	u64 start;

	smbt_client_params(&sp);
	sp.negotiate_timeout_msec = 400;
	sc = sock_new(&sp, IB_POLL_SOFTIRQ);
	if (!sc || !listener)
		return;
	start = smbt_now_ms();
	expect_int("connect", connect_to(sc, SMBT_PORT), 0);
	expect_int("nobody accepts", smbdirect_connection_wait_for_connected(sc), -ETIMEDOUT);
	start = smbt_now_ms() - start;
	expect(start >= 400, "gave up after %llu ms instead of 400", start);
	expect_int("again", smbdirect_connection_wait_for_connected(sc), -ETIMEDOUT);
	expect_int("connect", connect_to(sc, SMBT_PORT), -ENOTCONN);
	sock_end(sc);
	listener_works(listener);
	sock_end(listener);
}

/* Connects to a host that is on the network and says nothing. */
static struct smbdirect_socket *client_unheard(unsigned int timeout_ms)
{
	struct smbdirect_socket_parameters sp;
	struct smbdirect_socket *sc;
	struct sockaddr_in sin;

	smbt_client_params(&sp);
	sp.rdma_connect_timeout_msec = timeout_ms;
	sc = sock_new(&sp, IB_POLL_SOFTIRQ);
	if (!sc)
		return NULL;
	smbt_address(&sin, SMBT_PORT);
	sin.sin_addr.s_addr ^= htonl(64);
	expect_int("connect", smbdirect_connect(sc, (struct sockaddr *)&sin), 0);
	sock_reaches(sc, "RDMA_CONNECT_RUNNING", 5000);
	return sc;
}

/*
 * A silent host costs whoever connects to it the time of the parameters, a release nothing, and others, who connect
 * meanwhile, nothing either.
 */
static void silence(void)
{
	struct smbdirect_socket *sc;

	if (smbt_iwarp() && skip_unless_ours("waits for TCP to give up (R14)"))
		return;
	sc = client_unheard(1000);
	if (sc)
		expect_int("nobody answers", smbdirect_connection_wait_for_connected(sc), -ETIMEDOUT);
	sock_end_within(sc, 5000);
	sc = client_unheard(10000);
	pair_close(pair_opened());
	if (sc)
		sock_reaches(sc, "RDMA_CONNECT_RUNNING", 0);
	sock_end_within(sc, 5000);
}

static int wait_connected(void *arg)
{
	return smbdirect_connection_wait_for_connected(arg);
}

static void interrupted(void)
{
	struct smbdirect_socket *listener = listener_default(10), *sc = client_connecting();
	struct smbt_task task;

	if (!listener || !sc)
		return;
	if (task_start(&task, wait_connected, sc)) {
		sock_reaches(sc, "NEGOTIATE_RUNNING", 5000);
		task_signal(&task);
		expect_int("a signal", task_join(&task, 2000), -ERESTARTSYS);
	}
	expect_int("afterwards", smbdirect_connection_wait_for_connected(sc), -ERESTARTSYS);
	sock_end(sc);
	sc = client_connecting();
	if (sc && task_start(&task, wait_connected, sc)) {
		sock_reaches(sc, "NEGOTIATE_RUNNING", 5000);
		smbdirect_socket_shutdown(sc);
		expect_int("a shutdown", task_join(&task, 2000), -ESHUTDOWN);
	}
	sock_end(sc);
	sock_end(listener);
}

/* Release at every step of connecting (R18). */
static void early_release(void)
{
	struct smbdirect_socket *listener, *sc;
	unsigned int us;

	if (skip_unless_ours("leaves a timer behind and crashes (R18)"))
		return;
	listener = listener_default(10);
	for (us = 0; listener && us < 40000; us = us * 3 / 2 + 50) {
		sc = client_connecting();
		usleep_range(us, us + 1);
		sock_end(sc);
	}
	if (listener)
		listener_works(listener);
	sock_end(listener);
}

/* Sizes nobody can use are an error, not a catastrophe. */
static void huge(void)
{
	struct smbdirect_socket_parameters sp;
	struct smbdirect_socket *listener, *sc;
	int ret;

	if (skip_unless_ours("does not limit sizes"))
		return;
	listener = listener_default(10);
	smbt_client_params(&sp);
	sp.max_send_size = U32_MAX;
	sp.max_recv_size = U32_MAX;
	sp.max_fragmented_recv_size = U32_MAX;
	sp.recv_credit_max = U16_MAX;
	sp.send_credit_target = U16_MAX;
	sc = sock_new(&sp, IB_POLL_SOFTIRQ);
	if (!sc || !listener)
		return;
	ret = connect_to(sc, SMBT_PORT);
	if (!ret)
		ret = accept_error(listener, HZ);
	note("U32_MAX everywhere: %d", ret);
	sock_end(sc);
	listener_works(listener);
	sock_end(listener);
}

static const struct smbt_case cases[] = {
	{ "async", async },
	{ "sync", sync },
	{ "bound_client", bound_client },
	{ "agreed", agreed }, /* rules: V4 */
	{ "agreed_small", agreed_small }, /* rules: V4 */
	{ "agreed_large", agreed_large },
	{ "agreed_tiny", agreed_tiny }, /* rules: R7 */
	{ "no_route", no_route }, /* rules: E2 */
	{ "refused", refused },
	{ "wrong_device", wrong_device }, /* rules: U1 R47 */
	{ "timeout", timeout }, /* rules: E2 */
	{ "silence", silence }, /* rules: E2 R14 */
	{ "interrupted", interrupted }, /* rules: R13 */
	{ "early_release", early_release }, /* rules: R18 */
	{ "huge", huge },
};

SMBT_SUITE(connect);
