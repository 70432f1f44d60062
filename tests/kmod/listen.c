// SPDX-License-Identifier: GPL-2.0
/* Binding, listening and accepting. */

#include <linux/delay.h>
#include <linux/kthread.h>

#include "tap.h"

static struct smbdirect_socket *server_new(void)
{
	struct smbdirect_socket_parameters sp;

	smbt_server_params(&sp);
	return sock_new(&sp, IB_POLL_WORKQUEUE);
}

static int bind_to(struct smbdirect_socket *sc, unsigned int port_offset)
{
	struct sockaddr_in sin;

	smbt_address(&sin, port_offset);
	return smbdirect_socket_bind(sc, (struct sockaddr *)&sin);
}

static void bind_errors(void)
{
	struct smbdirect_socket *first = server_new(), *second = server_new();
	struct sockaddr_in sin;

	if (!first || !second)
		return;
	smbt_address(&sin, SMBT_PORT);
	sin.sin_addr.s_addr = htonl(0x0a090909);
	expect(smbdirect_socket_bind(first, (struct sockaddr *)&sin) < 0,
	       "bound to another's address");
	expect_int("bind", bind_to(first, SMBT_PORT), 0);
	expect_int("bind twice", bind_to(first, SMBT_OTHER_PORT), -EINVAL);
	expect_int("bind to a port in use", bind_to(second, SMBT_PORT), -EADDRINUSE);
	expect_int("bind after that", bind_to(second, SMBT_OTHER_PORT), 0);
	expect_int("listen", smbdirect_socket_listen(first, 1), 0);
	expect_int("bind after listen", bind_to(first, SMBT_OTHER_PORT), -EINVAL);
	sock_end(first);
	sock_end(second);
}

/* The flags of the parameters restrict the devices. */
static void bind_restricted(void)
{
	struct smbdirect_socket_parameters sp;
	struct smbdirect_socket *sc;

	smbt_server_params(&sp);
	sp.flags = smbt_port_flag(false);
	sc = sock_new(&sp, IB_POLL_WORKQUEUE);
	if (!sc)
		return;
	expect_int("bind to the other kind", bind_to(sc, SMBT_PORT), -ENODEV);
	sock_end(sc);
}

static void listen_errors(void)
{
	struct smbdirect_socket *sc = server_new();

	if (!sc)
		return;
	expect_int("bind", bind_to(sc, SMBT_PORT), 0);
	expect_int("backlog -1", smbdirect_socket_listen(sc, -1), -EINVAL);
	expect_int("backlog 0", smbdirect_socket_listen(sc, 0), 0);
	expect_int("listen twice", smbdirect_socket_listen(sc, 1), -EINVAL);
	listener_works(sc);
	smbdirect_socket_shutdown(sc);
	expect_int("listen after shutdown", smbdirect_socket_listen(sc, 1), -EINVAL);
	sock_end(sc);
	sc = server_new();
	if (!sc)
		return;
	smbdirect_socket_shutdown(sc);
	expect_int("listen after shutdown of a fresh one", smbdirect_socket_listen(sc, 1), -EINVAL);
	expect_int("bind after shutdown of a fresh one", bind_to(sc, SMBT_PORT), -EINVAL);
	sock_end(sc);
}

static void backlog_huge(void)
{
	struct smbdirect_socket *sc;

	if (smbt_iwarp() && skip_unless_ours("takes all memory for it"))
		return;
	sc = listener_default(INT_MAX);
	if (!sc)
		return;
	listener_works(sc);
	sock_end(sc);
}

static void accept_errors(void)
{
	struct smbdirect_socket *sc = server_new();
	u64 start;

	if (!sc)
		return;
	expect_int("accept on a fresh socket", accept_error(sc, HZ), -EINVAL);
	sock_end(sc);
	sc = listener_default(1);
	if (!sc)
		return;
	expect_int("accept without time", accept_error(sc, 0), -EAGAIN);
	start = smbt_now_ms();
	expect_int("accept with little time", accept_error(sc, HZ / 5), -ETIMEDOUT);
	start = smbt_now_ms() - start;
	expect(start >= 190, "accept waited %llu ms instead of 200", start);
	smbdirect_socket_shutdown(sc);
	expect_int("accept after shutdown", accept_error(sc, HZ), -EINVAL);
	expect_int("accept after shutdown without time", accept_error(sc, 0), -EINVAL);
	sock_end(sc);
}

static int accept_for_ever(void *arg)
{
	return accept_error(arg, MAX_SCHEDULE_TIMEOUT);
}

static void accept_waits(void)
{
	struct smbdirect_socket *sc = listener_default(1);
	struct smbt_task task;

	if (!sc)
		return;
	if (task_start(&task, accept_for_ever, sc)) {
		msleep(100);
		expect(!task_is_done(&task), "accept did not wait");
		task_signal(&task);
		expect_int("accept with a signal", task_join(&task, 2000), -ERESTARTSYS);
	}
	if (task_start(&task, accept_for_ever, sc)) {
		msleep(100);
		smbdirect_socket_shutdown(sc);
		expect_int("accept over a shutdown", task_join(&task, 2000), -EINVAL);
	}
	sock_end(sc);
}

/*
 * ksmbd ends its listener and then stops the thread that accepts. The thread ends by itself when accept() fails, and
 * kthread_stop() on one that is gone is a use after free: it must still be there.
 */
static void accept_stopped(void)
{
	struct smbdirect_socket *sc;
	struct smbt_task task;
	u64 start;

	if (skip_unless_ours("lets the thread go before it is stopped"))
		return;
	sc = listener_default(1);
	if (!sc)
		return;
	if (task_start(&task, accept_for_ever, sc)) {
		msleep(100);
		smbdirect_socket_shutdown(sc);
		msleep(200);
		expect(!task_is_done(&task), "accept let the thread go");
		start = smbt_now_ms();
		kthread_stop(task.thread);
		expect(smbt_now_ms() - start < 500, "the order to stop was not heard");
		expect_int("accept", task.result, -EINVAL);
	}
	sock_end(sc);
}

/* R2: exactly so many unaccepted connections; one more fits after an accept. */
static void backlog_exact(void)
{
	struct smbdirect_socket *sc = listener_default(2), *server, *client[4] = { };
	int i, ret;

	if (!sc)
		return;
	for (i = 0; i < 2; i++) {
		client[i] = client_connecting();
		if (!client[i] || !sock_reaches(client[i], "NEGOTIATE_RUNNING", 5000))
			goto out;
	}
	if (smbt_ours()) {
		client[2] = client_connecting();
		if (!client[2])
			goto out;
		ret = smbdirect_connection_wait_for_connected(client[2]);
		/* siw calls every rejection a reset. */
		expect_lost("one too many", ret, smbt_iwarp() ? -ECONNRESET : -ECONNREFUSED);
	} else {
		note("C differs from R2: it takes one more than the backlog");
	}
	server = accept_one(sc, 5000);
	ret = smbdirect_connection_wait_for_connected(client[0]);
	expect_int("the first one", ret, 0);
	client[3] = client_connecting();
	if (client[3])
		sock_reaches(client[3], "NEGOTIATE_RUNNING", 5000);
	sock_end(server);
out:
	for (i = 0; i < ARRAY_SIZE(client); i++)
		sock_end(client[i]);
	sock_end(sc);
}

static void is_empty(void)
{
	struct smbdirect_socket *sc = listener_default(5), *client[3] = { }, *server[3] = { };
	struct proto_accept_arg arg;
	int i;

	for (i = 0; sc && i < ARRAY_SIZE(client); i++) {
		client[i] = client_connecting();
		if (!client[i] || !sock_reaches(client[i], "NEGOTIATE_RUNNING", 5000))
			goto out;
	}
	/* The requests have been sent, but not judged yet. */
	msleep(500);
	for (i = 0; sc && i < ARRAY_SIZE(server); i++) {
		arg = (struct proto_accept_arg) { .is_empty = -1 };
		server[i] = smbdirect_socket_accept(sc, 5 * HZ, &arg);
		if (!expect(server[i], "accept: %d", arg.err))
			goto out;
		expect_int("is_empty", arg.is_empty, i == 2);
		expect(smbdirect_connection_is_connected(server[i]), "accepted, not connected");
	}
out:
	for (i = 0; i < ARRAY_SIZE(client); i++) {
		sock_end(client[i]);
		sock_end(server[i]);
	}
	sock_end(sc);
}

/* R1, R3: a client that is gone before the accept is neither handed out nor in the way. */
static void dead_child(void)
{
	struct smbdirect_socket *sc = listener_default(1), *client;
	int i;

	for (i = 0; sc && i < 3; i++) {
		client = client_connecting();
		if (client)
			sock_reaches(client, "NEGOTIATE_RUNNING", 5000);
		sock_end(client);
		msleep(300);
		expect_rule("R3", "accept of a dead child", accept_error(sc, 0), -EAGAIN);
	}
	if (sc)
		listener_works(sc);
	sock_end(sc);
}

/* The time for negotiation ends with it: a ready child may wait longer for its accept. */
static void ready_child(void)
{
	struct smbdirect_socket_parameters sp;
	struct smbdirect_socket *sc, *client;
	int ret;

	smbt_server_params(&sp);
	sp.negotiate_timeout_msec = 700;
	sc = listener_new(&sp, 1);
	client = client_connecting();
	if (!sc || !client)
		return;
	sock_reaches(client, "NEGOTIATE_RUNNING", 5000);
	msleep(1500);
	expect_int("accept of a ready child", accept_error(sc, 0), 0);
	ret = smbdirect_connection_wait_for_connected(client);
	if (ret)
		expect_lost("client", ret, -ECONNRESET);
	sock_end(client);
	sock_end(sc);
}

/* A listener goes with clients that nobody accepted; they learn of it. */
static void release_with_children(void)
{
	struct smbdirect_socket *sc = listener_default(5), *client[3] = { };
	int i, ret;

	for (i = 0; sc && i < ARRAY_SIZE(client); i++) {
		client[i] = client_connecting();
		if (client[i] && i)
			sock_reaches(client[i], "NEGOTIATE_RUNNING", 5000);
	}
	sock_end(sc);
	for (i = 0; i < ARRAY_SIZE(client); i++) {
		u64 start = smbt_now_ms();

		if (!client[i])
			continue;
		ret = smbdirect_connection_wait_for_connected(client[i]);
		expect(ret < 0, "client %d got connected", i);
		/* Its own patience is two minutes. */
		expect(smbt_now_ms() - start < 20000, "client %d waited %llu ms", i,
		       smbt_now_ms() - start);
		sock_end(client[i]);
	}
}

/* An adopted id belongs to the socket and goes with it. */
static void create_accepting(void)
{
	const struct smbdirect_socket_parameters *now;
	struct smbdirect_socket_parameters sp;
	struct smbdirect_socket *sc;
	struct rdma_cm_id *id;
	int round;

	smbt_server_params(&sp);
	/* The device of a bound id is chosen already. */
	sp.flags = 0;
	for (round = 0; round < 4; round++) {
		sc = sock_adopting(round & 1, &id);
		if (!sc)
			return;
		expect(!smbdirect_connection_is_connected(sc), "connected");
		if (round & 2) {
			expect_int("set", smbdirect_socket_set_initial_parameters(sc, &sp), 0);
			now = smbdirect_socket_get_current_parameters(sc);
			expect_int("credits", now->recv_credit_max, 255);
		}
		if (round == 2)
			smbdirect_socket_shutdown(sc);
		sock_end(sc);
	}
	/* The port is free again, so the ids are gone. */
	sc = listener_default(1);
	if (sc)
		listener_works(sc);
	sock_end(sc);
	expect_int("events at the first owner", adopted_events(), 0);
}

static const struct smbt_case cases[] = {
	{ "bind_errors", bind_errors },
	{ "bind_restricted", bind_restricted }, /* rules: U1 */
	{ "listen_errors", listen_errors },
	{ "backlog_huge", backlog_huge },
	{ "accept_errors", accept_errors }, /* rules: R4 */
	{ "accept_waits", accept_waits }, /* rules: R13 */
	{ "accept_stopped", accept_stopped },
	{ "backlog_exact", backlog_exact }, /* rules: R2 */
	{ "is_empty", is_empty },
	{ "dead_child", dead_child }, /* rules: R1 R3 */
	{ "ready_child", ready_child }, /* rules: E3 */
	{ "release_with_children", release_with_children }, /* rules: R5 R14 */
	{ "create_accepting", create_accepting },
};

SMBT_SUITE(listen);
