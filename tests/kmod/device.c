// SPDX-License-Identifier: GPL-2.0
/*
 * The device is removed under those who use it, and comes back. The device's removal waits for every socket that was
 * on it, so whoever has one releases it. Or it stands still.
 */

#include <linux/delay.h>
#include <linux/umh.h>

#include "tap.h"

/* R19 allows the removal 10 s. */
#define REMOVAL_MS 10000

static int shell(const char *command)
{
	char *argv[4] = { "/bin/sh", "-c", (char *)command, NULL };
	char *envp[2] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };

	return call_usermodehelper(argv[0], argv, envp, UMH_WAIT_PROC);
}

static void device_goes(void)
{
	u64 start = smbt_now_ms();
	int ret = shell(smbt_iwarp() ? "rdma link delete siw0" : "rdma link delete rxe0");

	expect_int("rdma link delete", ret, 0);
	start = smbt_now_ms() - start;
	expect(start < REMOVAL_MS * smbt_slow(), "R19: the removal took %llu ms", start);
}

static void device_comes(void)
{
	expect_int("rdma link add",
		   shell(smbt_iwarp() ? "rdma link add siw0 type siw netdev dummy0" :
					"rdma link add rxe0 type rxe netdev dummy0"), 0);
}

/* Sees its socket end, asks why, and releases it. */
static int user(void *arg)
{
	struct smbdirect_socket *sc = arg;

	expect(wait_gone(sc, REMOVAL_MS * smbt_slow()), "R19: still connected");
	expect_lost("why", smbdirect_connection_wait_for_connected(sc), -ENETDOWN);
	sock_end(sc);
	return 0;
}

static int acceptor(void *arg)
{
	int ret = accept_error(arg, msecs_to_jiffies(20000 * smbt_slow()));

	expect(ret < 0 && ret != -EAGAIN, "R19: accept ended with %d", ret);
	sock_end(arg);
	return 0;
}

static struct smbdirect_socket *listener_of_all_devices(void)
{
	struct smbdirect_socket_parameters sp;
	struct smbdirect_socket *sc;

	smbt_server_params(&sp);
	sc = sock_new(&sp, IB_POLL_WORKQUEUE);
	if (sc)
		sock_listen(sc, true, 10);
	return sc;
}

/* R19: both ends of a connection, one that is being set up, and a child that nobody accepts. */
static void connections(void)
{
	struct smbdirect_socket *listener = listener_of_all_devices(), *sc[3] = { };
	struct smbt_task task[3];
	int i;

	if (!listener)
		return;
	sc[0] = client_connecting();
	sc[1] = accept_one(listener, 10000);
	if (!sc[0] || !sc[1] ||
	    !expect_int("connected", smbdirect_connection_wait_for_connected(sc[0]), 0))
		return;
	sc[2] = client_connecting();
	if (!sc[2] || !sock_reaches(sc[2], "NEGOTIATE_RUNNING", 5000))
		return;
	for (i = 0; i < 3; i++)
		if (!task_start(&task[i], user, sc[i]))
			return;
	device_goes();
	for (i = 0; i < 3; i++)
		task_join(&task[i], REMOVAL_MS * smbt_slow());
	device_comes();
	listener_works(listener);
	sock_end(listener);
}

/* R19: a listener on the device's own address ends with it. */
static void listener(void)
{
	struct smbdirect_socket *sc = listener_default(10);
	struct smbt_task task;

	if (!sc || !task_start(&task, acceptor, sc))
		return;
	device_goes();
	task_join(&task, REMOVAL_MS * smbt_slow());
	device_comes();
	pair_close(pair_opened());
}

/* A word now and then, until the connection is over. */
static int talk(void *arg)
{
	u8 word[8] = { };

	while (msg_send(arg, word, sizeof(word)) > 0)
		msleep(200);
	return 0;
}

/* A pair whose client's send queue is stopped. */
static struct smbt_pair *pair_stopped(unsigned int keepalive_ms)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_SQD };
	struct smbt_pair *pair = pair_new();
	struct rdma_cm_id *id;
	int ret;

	if (!pair)
		return NULL;
	pair->client_params.keepalive_interval_msec = keepalive_ms;
	pair->client_params.keepalive_timeout_msec = keepalive_ms;
	pair->listener = listener_new(&pair->server_params, 2);
	pair->client = sock_adopting(false, &id);
	if (pair->client) {
		ret = smbdirect_socket_set_initial_parameters(pair->client, &pair->client_params);
		expect_int("parameters", ret, 0);
	}
	if (pair_join(pair) && pair_works(pair) &&
	    expect_int("stop", ib_modify_qp(id->qp, &attr, IB_QP_STATE), 0))
		return pair;
	pair_close(pair);
	return NULL;
}

/* R23: the send queue stands still, and nobody waits for it; the peer goes on talking, so that it is not missed. */
static void stands_still(void)
{
	unsigned int ms = 1000 * smbt_slow();
	struct smbt_task talker;
	struct smbt_pair *pair;
	u8 word[8] = { };
	u64 start;

	if (skip_unless_ours("waits for ever (R23)"))
		return;
	if (smbt_iwarp()) {
		skip("siw knows no queue that stands still");
		return;
	}
	pair = pair_stopped(ms);
	if (pair && task_start(&talker, talk, pair->server)) {
		msleep(1100);
		start = smbt_now_ms();
		expect_int("send", msg_send(pair->client, word, sizeof(word)), sizeof(word) + 4);
		expect(wait_gone(pair->client, 2 * ms + 1000), "still connected");
		note("noticed after %llu ms", smbt_now_ms() - start);
		expect_int("why", smbdirect_connection_wait_for_connected(pair->client), -ETIMEDOUT);
		expect(log_said("does not finish"), "the line does not say so");
		smbdirect_socket_shutdown(pair->server);
		task_join(&talker, 10000);
	}
	pair_close(pair);
}

static const struct smbt_case cases[] = {
	{ "stands_still", stands_still }, /* rules: R23 */
	{ "connections", connections }, /* rules: R1 R14 R19 */
	{ "listener", listener }, /* rules: R19 */
};

SMBT_SUITE(device);
