// SPDX-License-Identifier: GPL-2.0
/*
 * Every wait on a connection, and a peer that falls silent meanwhile (R13): it acknowledges nothing
 * and says nothing, and no event tells of it. The socket is released while the peer is still there
 * and silent (R14). Memory of the cases is static, since they run one at a time.
 */

#include <linux/delay.h>

#include "parked.h"

#define INTERVAL_MS 600
#define TIMEOUT_MS 600
/* Bounds a hang. R13 has a second; a guest that shares its processor with three others has stood still for longer. */
#define SLACK_MS 4000

#define FRAGMENT 1340
#define MESSAGE 100000

static u8 out[MESSAGE], in[MESSAGE];

void parked_down(struct parked *rig)
{
	/* The control waits in release until the peer answers. */
	if (!smbt_ours()) {
		raw_close(rig->raw);
		rig->raw = NULL;
	}
	sock_end(rig->sc);
	raw_close(rig->raw);
	sock_end(rig->listener);
}

static void parked_params(struct smbdirect_socket_parameters *sp)
{
	sp->keepalive_interval_msec = INTERVAL_MS;
	sp->keepalive_timeout_msec = TIMEOUT_MS;
	sp->negotiate_timeout_msec = INTERVAL_MS + TIMEOUT_MS;
}

/* The server has no credits yet. */
bool parked_server(struct parked *rig)
{
	struct smbdirect_socket_parameters sp;

	smbt_server_params(&sp);
	parked_params(&sp);
	sp.max_read_write_size = PARKED_TRANSFER;
	memset(rig, 0, sizeof(*rig));
	rig->listener = listener_new(&sp, 2);
	rig->raw = raw_new();
	if (!rig->listener || !rig->raw)
		return false;
	rig->sc = raw_is_served(rig->raw, rig->listener);
	return rig->sc;
}

/* A client whose request for a connection was granted, and no more. */
static bool parked_connecting(struct parked *rig)
{
	struct smbdirect_socket_parameters sp;

	smbt_client_params(&sp);
	parked_params(&sp);
	memset(rig, 0, sizeof(*rig));
	rig->raw = raw_new();
	rig->sc = sock_new(&sp, IB_POLL_SOFTIRQ);
	return rig->raw && rig->sc && raw_listen(rig->raw) &&
	       expect_int("connect", connect_to(rig->sc, SMBT_PORT), 0) &&
	       raw_accepted(rig->raw);
}

/* The client has a few credits. */
bool parked_client(struct parked *rig)
{
	return parked_connecting(rig) && raw_serves(rig->raw, rig->sc);
}

bool parked_skip(void)
{
	if (smbt_iwarp())
		skip("siw closes the connection of a queue pair that fails");
	return smbt_iwarp();
}

void parked_vanish(struct parked *rig)
{
	raw_vanish(rig->raw);
	rig->silent = smbt_now_ms();
}

/* One message that is not waited for. */
bool parked_post(struct parked *rig)
{
	struct kvec vec = { out, 100 };
	struct iov_iter iter;

	iov_iter_kvec(&iter, ITER_SOURCE, &vec, 1, 100);
	return expect_int("send", smbdirect_connection_send_single_iter(rig->sc, NULL, &iter, 0,
									100), 100);
}

/* Starts a thread that should wait then. */
bool parked_task(struct smbt_task *task, int (*fn)(void *arg), void *arg)
{
	if (!task_start(task, fn, arg))
		return false;
	msleep(200);
	expect(!task_is_done(task), "%ps did not wait: %d", fn, task->result);
	return true;
}

/* What a waiter gets. One that is not released in time is helped out, so that the case ends. */
int parked_released(struct parked *rig, struct smbt_task *task)
{
	u64 end = rig->silent + (INTERVAL_MS + TIMEOUT_MS + SLACK_MS) * smbt_slow();
	u64 now = smbt_now_ms();

	if (!wait_for_completion_timeout(&task->done, msecs_to_jiffies(end - min(end, now)))) {
		expect(false, "R13: %ps still waits after %llu ms of silence", task->fn,
		       smbt_now_ms() - rig->silent);
		smbdirect_socket_shutdown(rig->sc);
	}
	note("%ps: after %llu ms of silence", task->fn, smbt_now_ms() - rig->silent);
	return task_join(task, 10000);
}

/* The silence, not what the device says of it later, ended the connection. */
void parked_why(struct parked *rig)
{
	expect_int("why", smbdirect_connection_wait_for_connected(rig->sc), -ETIMEDOUT);
}

/* A call on the data path: not connected, or why. */
void parked_expect(struct parked *rig, struct smbt_task *task)
{
	int ret = parked_released(rig, task);

	expect(ret == -ENOTCONN || ret == -ETIMEDOUT, "%ps got %d", task->fn, ret);
	parked_why(rig);
}

/* One waiter on a connection that is up, and the peer that falls silent. */
static void one_waiter(struct parked *rig, int (*fn)(void *arg))
{
	struct smbt_task task;

	if (!parked_task(&task, fn, rig->sc))
		return;
	parked_vanish(rig);
	parked_expect(rig, &task);
}

static void server_waits(int (*fn)(void *arg))
{
	struct parked rig;

	if (parked_server(&rig))
		one_waiter(&rig, fn);
	parked_down(&rig);
}

static void client_waits(int (*fn)(void *arg))
{
	struct parked rig;

	if (parked_client(&rig))
		one_waiter(&rig, fn);
	parked_down(&rig);
}

/* Messages of one fragment for as long as there are credits. */
static int send_small(void *arg)
{
	int ret = 0;

	while (ret >= 0)
		ret = msg_send(arg, out, 100);
	return ret;
}

static void first_credit(void)
{
	if (parked_skip())
		return;
	server_waits(send_small);
	client_waits(send_small);
}

/* A message of more fragments than there are credits. */
static int send_large(void *arg)
{
	return msg_send(arg, out, MESSAGE);
}

static void credit_in_train(void)
{
	struct parked rig;

	if (parked_skip())
		return;
	client_waits(send_large);
	if (parked_server(&rig)) {
		expect_int("grant", raw_send_data(rig.raw, 0, NULL, 0, 3, 0), 0);
		one_waiter(&rig, send_large);
	}
	parked_down(&rig);
}

/* Like cifs: what failed is flushed all the same. */
static int send_batch(void *arg)
{
	struct smbdirect_send_batch_storage storage;
	struct smbdirect_send_batch *batch;
	struct kvec vec = { out, 100 };
	struct iov_iter iter;
	int ret = 0;

	batch = smbdirect_init_send_batch_storage(&storage, false, 0);
	while (ret >= 0) {
		iov_iter_kvec(&iter, ITER_SOURCE, &vec, 1, 100);
		ret = smbdirect_connection_send_single_iter(arg, batch, &iter, 0, 100);
	}
	smbdirect_connection_send_batch_flush(arg, batch, true);
	smbdirect_connection_send_wait_zero_pending(arg);
	return ret;
}

/* One waits for a credit, and another one behind it for the right to send. */
static void batch(void)
{
	struct smbt_task first, second;
	struct parked rig;

	if (parked_skip())
		return;
	if (parked_client(&rig) && parked_task(&first, send_batch, rig.sc)) {
		bool both = parked_task(&second, send_small, rig.sc);

		parked_vanish(&rig);
		parked_expect(&rig, &first);
		if (both)
			parked_expect(&rig, &second);
	}
	parked_down(&rig);
}

/* Credits are there in plenty, but what was sent is not acknowledged and fills the send queue. */
static void room(void)
{
	struct smbt_task task;
	struct parked rig;

	if (parked_skip())
		return;
	if (parked_server(&rig)) {
		expect_int("grant", raw_send_data(rig.raw, 0, NULL, 0, 10000, 0), 0);
		parked_vanish(&rig);
		if (parked_task(&task, send_small, rig.sc)) {
			expect(sock_value(rig.sc, "send_credits:") > 0, "it was the credits");
			/* The control waits after each message; a slow kernel may not be there yet. */
			expect(sock_value(rig.sc, "send_pending:") >
			       (smbt_ours() && smbt_slow() == 1 ? 100 : 0), "nothing is pending");
			parked_expect(&rig, &task);
		}
	}
	parked_down(&rig);
}

static int wait_zero(void *arg)
{
	return smbdirect_connection_send_wait_zero_pending(arg);
}

/* Ours copies and has nothing to wait for; the control waits for an acknowledgement. */
static void zero_pending(void)
{
	struct smbt_task task;
	struct parked rig;
	int ret;

	if (parked_skip())
		return;
	if (parked_client(&rig)) {
		parked_vanish(&rig);
		parked_post(&rig);
		if (task_start(&task, wait_zero, rig.sc)) {
			ret = parked_released(&rig, &task);
			expect(!ret || ret == -ENOTCONN, "wait_zero got %d", ret);
		}
	}
	parked_down(&rig);
}

static int receive(void *arg)
{
	return raw_recv(arg, in, 4);
}

static void first_byte(void)
{
	if (parked_skip())
		return;
	server_waits(receive);
	client_waits(receive);
}

/* The length is known, and so many fragments of the message came. */
static int receive_rest(void *arg)
{
	return raw_recv(arg, in, MESSAGE);
}

static void rest_after(struct parked *rig, int fragments)
{
	size_t left = MESSAGE;
	u8 length[4];
	int i;

	for (i = 0; i < fragments; i++) {
		left -= FRAGMENT;
		if (!expect_int("send", raw_send_data(rig->raw, left, out, FRAGMENT, 10, 0), 0))
			return;
	}
	expect_int("length", raw_recv(rig->sc, length, sizeof(length)), 4);
	one_waiter(rig, receive_rest);
}

/* With few bytes there ours still can give up without having taken any; with many it copies early. */
static void rest(void)
{
	struct parked rig;

	if (parked_skip())
		return;
	if (parked_server(&rig))
		rest_after(&rig, 1);
	parked_down(&rig);
	if (parked_client(&rig))
		rest_after(&rig, 40);
	parked_down(&rig);
}

static int wait_connected(void *arg)
{
	return smbdirect_connection_wait_for_connected(arg);
}

/* The peer took the connection and says nothing to the proposal. */
static void connected(void)
{
	struct smbt_task task;
	struct parked rig;

	if (parked_skip())
		return;
	if (parked_connecting(&rig) && parked_task(&task, wait_connected, rig.sc)) {
		parked_vanish(&rig);
		expect_int("wait_for_connected", parked_released(&rig, &task), -ETIMEDOUT);
	}
	parked_down(&rig);
}

/* R14: the owner releases at once; nobody has noticed the silence yet. */
static void release(void)
{
	struct parked rig;

	if (parked_skip() || skip_unless_ours("waits for the peer's answer (R14)"))
		return;
	if (parked_server(&rig)) {
		expect_int("grant", raw_send_data(rig.raw, 0, NULL, 0, 20, 0), 0);
		parked_vanish(&rig);
		parked_post(&rig);
	}
	parked_down(&rig);
	if (parked_client(&rig)) {
		parked_vanish(&rig);
		parked_post(&rig);
	}
	parked_down(&rig);
	if (parked_connecting(&rig))
		parked_vanish(&rig);
	parked_down(&rig);
}

static const struct smbt_case cases[] = {
	{ "first_credit", first_credit }, /* rules: R13 R14 */
	{ "credit_in_train", credit_in_train }, /* rules: R13 R14 */
	{ "batch", batch }, /* rules: R13 R14 */
	{ "room", room }, /* rules: R13 R14 */
	{ "zero_pending", zero_pending }, /* rules: R13 R14 */
	{ "first_byte", first_byte }, /* rules: R13 R14 */
	{ "rest", rest }, /* rules: R13 R14 */
	{ "region", parked_region }, /* rules: R13 R14 R37 */
	{ "invalidation", parked_invalidation }, /* rules: R13 R14 R37 */
	{ "connected", connected }, /* rules: R13 R14 */
	{ "transfer", parked_transfer }, /* rules: R13 R14 */
	{ "release", release }, /* rules: R14 */
};

SMBT_SUITE(parked);
