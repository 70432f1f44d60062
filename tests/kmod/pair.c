// SPDX-License-Identifier: GPL-2.0
/* Sockets, both ends of a connection, and messages over it. */

#include <linux/delay.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/unaligned.h>
#include <net/net_namespace.h>

#include "test.h"

/* A pair that is not closed by then is shut down, which ends every wait on it. */
#define GUARD_MS 15000

static atomic_t error_lines;
/* The latest of them, in no particular order when several come at a time. */
static char last_error[256];
static DEFINE_SPINLOCK(last_error_lock);

/* As cifs sets them. */
void smbt_client_params(struct smbdirect_socket_parameters *sp)
{
	*sp = (struct smbdirect_socket_parameters) {
		.flags = smbt_port_flag(true),
		.resolve_addr_timeout_msec = 5000,
		.resolve_route_timeout_msec = 5000,
		.rdma_connect_timeout_msec = 5000,
		.negotiate_timeout_msec = 10000,
		.initiator_depth = 1,
		.responder_resources = 32,
		.recv_credit_max = 255,
		.send_credit_target = 255,
		.max_send_size = 1364,
		.max_recv_size = 1364,
		.max_fragmented_recv_size = 173910,
		.max_frmr_depth = 2048,
		.keepalive_interval_msec = 120000,
		.keepalive_timeout_msec = 5000,
	};
}

/* As ksmbd sets them. */
void smbt_server_params(struct smbdirect_socket_parameters *sp)
{
	smbt_client_params(sp);
	sp->negotiate_timeout_msec = 5000;
	sp->initiator_depth = 8;
	sp->responder_resources = 1;
	sp->max_read_write_size = 8 << 20;
	sp->max_frmr_depth = 0;
}

/* Error lines since the last call. */
unsigned int log_errors(void)
{
	return atomic_xchg(&error_lines, 0);
}

/* Whether the latest error line contains this. */
bool log_said(const char *text)
{
	unsigned long flags;
	bool said;

	spin_lock_irqsave(&last_error_lock, flags);
	said = strstr(last_error, text);
	spin_unlock_irqrestore(&last_error_lock, flags);
	return said;
}

static bool log_needed(struct smbdirect_socket *sc, void *private, unsigned int lvl,
		       unsigned int cls)
{
	return lvl == SMBDIRECT_LOG_ERR;
}

static void log_print(struct smbdirect_socket *sc, const char *func, unsigned int line,
		      void *private, unsigned int lvl, unsigned int cls, struct va_format *vaf)
{
	unsigned long flags;

	spin_lock_irqsave(&last_error_lock, flags);
	snprintf(last_error, sizeof(last_error), "%pV", vaf);
	spin_unlock_irqrestore(&last_error_lock, flags);
	if (atomic_inc_return(&error_lines) < 30)
		pr_info("smbdirect_test: # error line: %s:%u: %pV", func, line, vaf);
}

void sock_logging(struct smbdirect_socket *sc)
{
	smbdirect_socket_set_logging(sc, &error_lines, log_needed, log_print);
}

struct smbdirect_socket *sock_new(const struct smbdirect_socket_parameters *sp,
				  enum ib_poll_context poll_ctx)
{
	struct smbdirect_socket *sc = NULL;
	int ret;

	ret = smbdirect_socket_create_kern(&init_net, &sc);
	if (!expect_int("create_kern", ret, 0))
		return NULL;
	sock_logging(sc);
	ret = smbdirect_socket_set_initial_parameters(sc, sp);
	expect_int("set_initial_parameters", ret, 0);
	ret = smbdirect_socket_set_kernel_settings(sc, poll_ctx, GFP_KERNEL);
	expect_int("set_kernel_settings", ret, 0);
	return sc;
}

struct smbdirect_socket *client_new(void)
{
	struct smbdirect_socket_parameters sp;

	smbt_client_params(&sp);
	return sock_new(&sp, IB_POLL_SOFTIRQ);
}

int connect_to(struct smbdirect_socket *sc, unsigned int port_offset)
{
	struct sockaddr_in sin;

	smbt_address(&sin, port_offset);
	return smbdirect_connect(sc, (struct sockaddr *)&sin);
}

/* A client that has started to connect to the listener. */
struct smbdirect_socket *client_connecting(void)
{
	struct smbdirect_socket *client = client_new();

	if (client)
		expect_int("connect", connect_to(client, SMBT_PORT), 0);
	return client;
}

/* Makes a listener of a socket that has its parameters. */
void sock_listen(struct smbdirect_socket *sc, bool everywhere, int backlog)
{
	struct sockaddr_in sin;

	smbt_address(&sin, SMBT_PORT);
	if (everywhere)
		sin.sin_addr.s_addr = htonl(INADDR_ANY);
	expect_int("bind", smbdirect_socket_bind(sc, (struct sockaddr *)&sin), 0);
	expect_int("listen", smbdirect_socket_listen(sc, backlog), 0);
}

struct smbdirect_socket *listener_polling(const struct smbdirect_socket_parameters *sp, int backlog,
					  enum ib_poll_context poll_ctx)
{
	struct smbdirect_socket *sc = sock_new(sp, poll_ctx);

	if (sc)
		sock_listen(sc, false, backlog);
	return sc;
}

struct smbdirect_socket *listener_new(const struct smbdirect_socket_parameters *sp, int backlog)
{
	return listener_polling(sp, backlog, IB_POLL_WORKQUEUE);
}

struct smbdirect_socket *listener_default(int backlog)
{
	struct smbdirect_socket_parameters sp;

	smbt_server_params(&sp);
	return listener_new(&sp, backlog);
}

struct smbdirect_socket *accept_one(struct smbdirect_socket *listener, unsigned int limit_ms)
{
	struct proto_accept_arg arg = { .err = 1, .is_empty = -1 };
	struct smbdirect_socket *server;

	server = smbdirect_socket_accept(listener, msecs_to_jiffies(limit_ms), &arg);
	expect(server, "accept: %d", arg.err);
	return server;
}

/* The error of an accept that should fail. */
int accept_error(struct smbdirect_socket *listener, long timeo)
{
	struct proto_accept_arg arg = { .err = 1 };
	struct smbdirect_socket *server = smbdirect_socket_accept(listener, timeo, &arg);

	if (!server)
		return arg.err;
	smbdirect_socket_release(server);
	return 0;
}

/* R14, with a bound for a stock kernel. */
void sock_end_within(struct smbdirect_socket *sc, unsigned int limit_ms)
{
	u64 start = smbt_now_ms();

	if (!sc)
		return;
	smbdirect_socket_release(sc);
	start = smbt_now_ms() - start;
	expect(start < limit_ms * smbt_slow(), "R14: release took %llu ms", start);
}

/* siw keeps a queue pair until its handshake is over, which it gives 10 s. */
void sock_end(struct smbdirect_socket *sc)
{
	sock_end_within(sc, smbt_iwarp() ? 12000 : 5000);
}

static void pair_guard(struct work_struct *work)
{
	struct smbt_pair *pair = container_of(work, struct smbt_pair, guard.work);

	expect(false, "no progress within %u ms, shutting the pair down",
	       GUARD_MS * smbt_slow());
	if (pair->client)
		smbdirect_socket_shutdown(pair->client);
	if (pair->server)
		smbdirect_socket_shutdown(pair->server);
}

struct smbt_pair *pair_new(void)
{
	struct smbt_pair *pair = kzalloc_obj(*pair);

	if (!expect(pair, "no memory"))
		return NULL;
	smbt_client_params(&pair->client_params);
	smbt_server_params(&pair->server_params);
	pair->client_poll = IB_POLL_SOFTIRQ;
	pair->server_poll = IB_POLL_WORKQUEUE;
	INIT_DELAYED_WORK(&pair->guard, pair_guard);
	return pair;
}

/* Connects its client to its listener. */
bool pair_join(struct smbt_pair *pair)
{
	int ret;

	if (!pair->listener || !pair->client ||
	    !expect_int("connect", connect_to(pair->client, SMBT_PORT), 0))
		return false;
	pair->server = accept_one(pair->listener, 10000);
	if (!pair->server)
		return false;
	ret = smbdirect_connection_wait_for_connected(pair->client);
	queue_delayed_work(system_dfl_wq, &pair->guard, msecs_to_jiffies(GUARD_MS * smbt_slow()));
	return expect_int("wait_for_connected", ret, 0);
}

bool pair_open(struct smbt_pair *pair)
{
	pair->listener = listener_polling(&pair->server_params, 10, pair->server_poll);
	pair->client = sock_new(&pair->client_params, pair->client_poll);
	return pair_join(pair);
}

/* A pair as cifs and ksmbd make it, or NULL. */
struct smbt_pair *pair_opened(void)
{
	struct smbt_pair *pair = pair_new();

	if (pair && pair_open(pair))
		return pair;
	pair_close(pair);
	return NULL;
}

void pair_close(struct smbt_pair *pair)
{
	if (!pair)
		return;
	cancel_delayed_work_sync(&pair->guard);
	sock_end(pair->client);
	sock_end(pair->server);
	sock_end(pair->listener);
	kfree(pair);
}

/* Whether messages still pass in both directions. */
bool pair_works(struct smbt_pair *pair)
{
	u8 data[100], back[100];
	bool ok;

	pattern_fill(data, sizeof(data), 1);
	ok = expect_int("send to the server", msg_send(pair->client, data, sizeof(data)), 104);
	ok = ok && msg_expect(pair->server, back, sizeof(back), 1);
	ok = ok && expect_int("send to the client", msg_send(pair->server, data, 100), 104);
	return ok && msg_expect(pair->client, back, sizeof(back), 1);
}

static bool wait_connected(struct smbdirect_socket *sc, unsigned int limit_ms)
{
	u64 end = smbt_now_ms() + limit_ms;

	while (!smbdirect_connection_is_connected(sc)) {
		if (smbt_now_ms() > end)
			return false;
		msleep(20);
	}
	return true;
}

/* A well-behaved connection over a listener that has seen other ones. */
void listener_works(struct smbdirect_socket *listener)
{
	struct smbt_pair pair = { .client = client_connecting() };
	int ret;

	if (!pair.client)
		return;
	/* The end of an earlier client may not have arrived; then its child is handed out, too. */
	do {
		sock_end(pair.server);
		pair.server = accept_one(listener, 10000);
	} while (pair.server && !wait_connected(pair.client, 1000));
	if (pair.server) {
		ret = smbdirect_connection_wait_for_connected(pair.client);
		if (expect_int("wait_for_connected", ret, 0))
			pair_works(&pair);
	}
	sock_end(pair.client);
	sock_end(pair.server);
}

/* R20: a fresh, a listening and two connected sockets that nobody releases. */
void leave_sockets(void)
{
	struct smbdirect_socket_parameters client, server;
	struct smbdirect_socket *fresh, *listener, *connected;
	struct sockaddr_in sin;

	smbt_client_params(&client);
	smbt_server_params(&server);
	smbt_address(&sin, SMBT_PORT);
	if (smbdirect_socket_create_kern(&init_net, &fresh) ||
	    smbdirect_socket_create_kern(&init_net, &listener) ||
	    smbdirect_socket_create_kern(&init_net, &connected))
		return;
	if (smbdirect_socket_set_initial_parameters(listener, &server) ||
	    smbdirect_socket_set_initial_parameters(connected, &client) ||
	    smbdirect_socket_bind(listener, (struct sockaddr *)&sin) ||
	    smbdirect_socket_listen(listener, 2) ||
	    smbdirect_connect(connected, (struct sockaddr *)&sin))
		return;
	if (accept_one(listener, 5000) && !smbdirect_connection_wait_for_connected(connected))
		pr_info("smbdirect_test: # sockets left behind\n");
}

bool wait_gone(struct smbdirect_socket *sc, unsigned int limit_ms)
{
	u64 end = smbt_now_ms() + limit_ms;

	while (smbdirect_connection_is_connected(sc)) {
		if (smbt_now_ms() > end)
			return false;
		msleep(20);
	}
	return true;
}

/* The DebugData text of a socket. */
unsigned int sock_text(struct smbdirect_socket *sc, char *text, unsigned int size)
{
	struct seq_file seq = { .buf = text, .size = size - 1 };

	smbdirect_connection_legacy_debug_proc_show(sc, 4096, &seq);
	text[seq.count] = 0;
	return seq.count;
}

/* One number of the DebugData text, -1 when it is not there. */
long sock_value(struct smbdirect_socket *sc, const char *key)
{
	char *text = kmalloc(2048, GFP_KERNEL);
	long value;
	char *at;

	if (!text)
		return -1;
	sock_text(sc, text, 2048);
	at = strstr(text, key);
	if (!at || sscanf(at + strlen(key), " %li", &value) != 1)
		value = -1;
	kfree(text);
	return value;
}

bool sock_is(struct smbdirect_socket *sc, const char *status)
{
	char *text = kmalloc(2048, GFP_KERNEL);
	char want[64];
	bool found;

	if (!text)
		return false;
	snprintf(want, sizeof(want), "status: %s (", status);
	sock_text(sc, text, 2048);
	found = strstr(text, want);
	kfree(text);
	return found;
}

/* Whether the status gets to the one named. */
bool sock_reaches(struct smbdirect_socket *sc, const char *status, unsigned int limit_ms)
{
	u64 end = smbt_now_ms() + limit_ms;

	while (!sock_is(sc, status)) {
		if (smbt_now_ms() > end)
			return expect(false, "%s was not reached", status);
		msleep(20);
	}
	return true;
}

void pattern_fill(void *data, size_t len, u32 seed)
{
	u8 *byte = data;
	size_t i;

	for (i = 0; i < len; i++)
		byte[i] = (i * 7 + (i >> 8) * 3 + seed * 31) & 0xff;
}

bool pattern_expect(const char *what, const void *data, size_t len, u32 seed)
{
	const u8 *byte = data;
	size_t i;

	for (i = 0; i < len; i++) {
		u8 want = (i * 7 + (i >> 8) * 3 + seed * 31) & 0xff;

		if (byte[i] != want)
			return expect(false, "%s: byte %zu of %zu is %02x instead of %02x", what, i,
				      len, byte[i], want);
	}
	return true;
}

bool bytes_expect(const char *what, const void *data, size_t len, u8 value)
{
	const u8 *odd = memchr_inv(data, value, len);

	return expect(!odd, "%s: byte %td was touched", what, odd ? odd - (u8 *)data : 0);
}

/* Sends like ksmbd: the length in front, both in one iterator. */
int msg_send(struct smbdirect_socket *sc, const void *data, size_t len)
{
	__be32 prefix = cpu_to_be32(len);
	struct kvec vec[2] = {
		{ .iov_base = &prefix, .iov_len = sizeof(prefix) },
		{ .iov_base = (void *)data, .iov_len = len },
	};
	struct iov_iter iter;

	iov_iter_kvec(&iter, ITER_SOURCE, vec, 2, sizeof(prefix) + len);
	return smbdirect_connection_send_iter(sc, &iter, 0, false, 0);
}

int iter_recv(struct smbdirect_socket *sc, struct iov_iter *iter, unsigned int flags)
{
	struct msghdr msg = { .msg_iter = *iter };
	int ret = smbdirect_connection_recvmsg(sc, &msg, flags);

	*iter = msg.msg_iter;
	return ret;
}

int raw_recv(struct smbdirect_socket *sc, void *data, size_t len)
{
	struct kvec vec = { .iov_base = data, .iov_len = len };
	struct iov_iter iter;

	iov_iter_kvec(&iter, ITER_DEST, &vec, 1, len);
	return iter_recv(sc, &iter, 0);
}

/* Receives like ksmbd: the length, then so many bytes. */
int msg_recv(struct smbdirect_socket *sc, void *data, size_t size)
{
	__be32 prefix;
	size_t len;
	int ret;

	ret = raw_recv(sc, &prefix, sizeof(prefix));
	if (ret != sizeof(prefix))
		return ret;
	len = be32_to_cpu(prefix);
	if (!expect(len <= size, "a message of %zu bytes", len))
		return -EMSGSIZE;
	return raw_recv(sc, data, len);
}

bool msg_expect(struct smbdirect_socket *sc, void *scratch, size_t len, u32 seed)
{
	return expect_int("receive", msg_recv(sc, scratch, len), len) &&
	       pattern_expect("received", scratch, len, seed);
}
