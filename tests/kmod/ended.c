// SPDX-License-Identifier: GPL-2.0
/* Calls on a connection that is over, and the ways it ends. */

#include <linux/delay.h>
#include <linux/timer.h>

#include "test.h"

static int xmit(struct smbdirect_socket *sc, size_t len, bool is_read)
{
	struct smbdirect_buffer_descriptor_v1 v1 = { .length = cpu_to_le32(100) };
	u8 data[100];

	return smbdirect_connection_rdma_xmit(sc, data, len, &v1, sizeof(v1), is_read);
}

static void calls(struct smbdirect_socket *sc, const char *who)
{
	struct smbdirect_send_batch_storage storage;
	struct smbdirect_send_batch *batch;
	struct sockaddr_in sin;
	u8 data[100];
	struct kvec vec = { data, sizeof(data) };
	struct iov_iter iter;

	note("%s", who);
	expect(!smbdirect_connection_is_connected(sc), "connected");
	expect_int("send_iter", msg_send(sc, data, sizeof(data)), -ENOTCONN);
	expect_int("recvmsg", raw_recv(sc, data, sizeof(data)), -ENOTCONN);
	expect_int("recvmsg of four", raw_recv(sc, data, 4), -ENOTCONN);
	iov_iter_kvec(&iter, ITER_SOURCE, &vec, 1, sizeof(data));
	expect_int("send_single_iter",
		   smbdirect_connection_send_single_iter(sc, NULL, &iter, 0, 100), -ENOTCONN);
	expect_int("empty send_single_iter",
		   smbdirect_connection_send_single_iter(sc, NULL, NULL, 0, 0), -ENOTCONN);
	batch = smbdirect_init_send_batch_storage(&storage, false, 0);
	expect_int("send_single_iter in a batch",
		   smbdirect_connection_send_single_iter(sc, batch, &iter, 0, 100), -ENOTCONN);
	smbdirect_connection_send_batch_flush(sc, batch, true);
	expect_int("wait_zero", smbdirect_connection_send_wait_zero_pending(sc), -ENOTCONN);
	expect_int("rdma_xmit read", xmit(sc, 100, true), -ENOTCONN);
	expect_int("rdma_xmit write", xmit(sc, 100, false), -ENOTCONN);
	expect_int("rdma_xmit of too much", xmit(sc, 1 << 30, true), -ENOTCONN);
	smbt_address(&sin, SMBT_PORT);
	expect_int("connect", smbdirect_connect(sc, (struct sockaddr *)&sin), -ENOTCONN);
	expect_int("connect_sync", smbdirect_connect_sync(sc, (struct sockaddr *)&sin), -ENOTCONN);
	expect_int("bind", smbdirect_socket_bind(sc, (struct sockaddr *)&sin), -EINVAL);
	expect_int("listen", smbdirect_socket_listen(sc, 1), -EINVAL);
	expect_int("accept", accept_error(sc, 0), -EINVAL);
	expect(smbdirect_connection_wait_for_connected(sc) < 0, "wait_for_connected succeeds");
	expect_int("credits", smbdirect_socket_get_current_parameters(sc)->recv_credit_max, 255);
	smbdirect_socket_shutdown(sc);
}

static void no_region(struct smbdirect_socket *sc)
{
	struct smbt_memory *mem = memory_new(SMBT_BVEC, 0, 4096);
	struct iov_iter iter;

	if (!mem)
		return;
	memory_iter(mem, ITER_DEST, &iter);
	expect(!smbdirect_connection_register_mr_io(sc, &iter, true, true), "a region");
	memory_free(mem);
}

static void after_shutdown(void)
{
	struct smbt_pair *pair = pair_opened();
	u64 start = smbt_now_ms();

	if (!pair)
		return;
	log_errors();
	smbdirect_socket_shutdown(pair->client);
	smbdirect_socket_shutdown(pair->client);
	expect(wait_gone(pair->client, 0), "the client is connected after its shutdown");
	/* R15: the other side answers by itself; C's does when it is released. */
	expect(wait_gone(pair->server, 3000), "the server does not notice");
	if (smbt_ours())
		sock_reaches(pair->client, "DISCONNECTED", 3000);
	sock_reaches(pair->server, "DISCONNECTED", 3000);
	note("%llu ms until both were disconnected", smbt_now_ms() - start);
	expect_rule("R47", "error lines", log_errors(), 0);
	calls(pair->client, "client");
	no_region(pair->client);
	calls(pair->server, "server");
	expect_int("why, at the client", smbdirect_connection_wait_for_connected(pair->client),
		   -ESHUTDOWN);
	expect_lost("why, at the server", smbdirect_connection_wait_for_connected(pair->server),
		    -ECONNRESET);
	pair_close(pair);
}

/* The same on a socket that never was connected. */
static void never_connected(void)
{
	struct smbdirect_socket *sc = client_new();
	u8 data[100];

	if (!sc)
		return;
	expect_int("send_iter", msg_send(sc, data, sizeof(data)), -ENOTCONN);
	expect_int("recvmsg", raw_recv(sc, data, sizeof(data)), -ENOTCONN);
	expect_int("wait_zero", smbdirect_connection_send_wait_zero_pending(sc), -ENOTCONN);
	expect_int("accept", accept_error(sc, 0), -EINVAL);
	smbdirect_socket_shutdown(sc);
	calls(sc, "fresh");
	sock_reaches(sc, "DISCONNECTED", 1000);
	sock_end(sc);
}

/* A regular end says nothing at error level, and it is quick. */
static void quiet_release(void)
{
	struct smbt_pair *pair = pair_opened();
	u64 start;

	if (!pair)
		return;
	pair_works(pair);
	log_errors();
	start = smbt_now_ms();
	sock_end(pair->client);
	pair->client = NULL;
	note("release took %llu ms", smbt_now_ms() - start);
	expect(smbt_now_ms() - start < 2000, "R15: the peer did not answer the disconnect");
	expect(wait_gone(pair->server, 3000), "the server does not notice");
	pair_close(pair);
	expect_rule("R47", "error lines", log_errors(), 0);
}

static void server_first(void)
{
	struct smbt_pair *pair = pair_opened();

	if (!pair)
		return;
	sock_end(pair->server);
	pair->server = NULL;
	expect(wait_gone(pair->client, 3000), "the client does not notice");
	expect_lost("why", smbdirect_connection_wait_for_connected(pair->client), -ECONNRESET);
	/* The listener goes before the client. */
	sock_end(pair->listener);
	pair->listener = NULL;
	pair_close(pair);
}

struct softirq {
	struct timer_list timer;
	struct completion done;
	struct smbdirect_socket *sc;
	bool before;
	bool after;
};

static void softirq_shutdown(struct timer_list *timer)
{
	struct softirq *s = container_of(timer, struct softirq, timer);

	s->before = smbdirect_connection_is_connected(s->sc);
	smbdirect_socket_shutdown(s->sc);
	s->after = smbdirect_connection_is_connected(s->sc);
	complete(&s->done);
}

/* Shutdown and is_connected work in any context. */
static void in_softirq_context(void)
{
	struct smbt_pair *pair = pair_opened();
	struct softirq s = { };

	if (!pair)
		return;
	s.sc = pair->client;
	init_completion(&s.done);
	timer_setup_on_stack(&s.timer, softirq_shutdown, 0);
	mod_timer(&s.timer, jiffies + 1);
	wait_for_completion(&s.done);
	timer_delete_sync(&s.timer);
	timer_destroy_on_stack(&s.timer);
	expect(s.before, "not connected before");
	expect(!s.after, "connected afterwards");
	expect(wait_gone(pair->server, 3000), "the server does not notice");
	pair_close(pair);
}

/* Data under way when the end comes. */
static void busy(void)
{
	struct smbt_pair *pair = pair_opened();
	u8 *data = kvzalloc(100000, GFP_KERNEL);
	int i, ret = 0;

	if (!pair || !data)
		goto out;
	/* Nobody reads: the third of these does not fit the other side's buffers. */
	for (i = 0; i < 2 && ret >= 0; i++)
		ret = msg_send(pair->client, data, 100000);
	expect_int("send", ret, 100004);
	smbdirect_socket_shutdown(pair->server);
	expect(wait_gone(pair->client, 3000), "the client does not notice");
out:
	pair_close(pair);
	kvfree(data);
}

static int send_much(void *arg)
{
	u8 *data = kvzalloc(100000, GFP_KERNEL);
	int ret = 0;

	while (data && ret >= 0)
		ret = msg_send(arg, data, 100000);
	kvfree(data);
	return ret;
}

/* A sender that waits for credits is woken by the end (R13). */
static void blocked_sender(void)
{
	struct smbt_pair *pair = pair_opened();
	struct smbt_task task;
	int ret;

	if (!pair)
		return;
	if (task_start(&task, send_much, pair->client)) {
		msleep(1000);
		expect(!task_is_done(&task), "the sender did not wait: %d", task.result);
		smbdirect_socket_shutdown(pair->server);
		ret = task_join(&task, 4000);
		expect(ret == -ENOTCONN || ret == -ECONNRESET || ret == -ECONNABORTED,
		       "the sender got %d", ret);
	}
	pair_close(pair);
}

static const struct smbt_case cases[] = {
	{ "after_shutdown", after_shutdown }, /* rules: R13 R15 R47 */
	{ "never_connected", never_connected },
	{ "quiet_release", quiet_release }, /* rules: R14 R15 R47 */
	{ "server_first", server_first }, /* rules: R15 */
	{ "in_softirq_context", in_softirq_context },
	{ "busy", busy },
	{ "blocked_sender", blocked_sender }, /* rules: R13 */
};

SMBT_SUITE(ended);
