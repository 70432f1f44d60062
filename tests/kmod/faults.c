// SPDX-License-Identifier: GPL-2.0
/*
 * Failing calls, one at a time: with fault injection in the kernel our module has a point at each call of the device and
 * of the connection manager (rust/rdma/fault.rs). Each is made to fail at its first use, its second, and so on, over the
 * life of a connection with messages and a transfer, until a life passes without a failure. Whatever fails: nobody waits
 * for ever, the caller gets an error or what it asked for, and the listener serves the next one.
 */

#include <linux/delay.h>
#include <linux/fault-inject.h>
#include <linux/module.h>
#include <linux/random.h>

#include "test.h"

static uint fault_rounds = 20;
module_param(fault_rounds, uint, 0444);
MODULE_PARM_DESC(fault_rounds, "how often each random fault case tries");

#define LARGE 3000
#define REGION 20000
/* More uses of one point than a life has. */
#define MOST_USES 200

static const char * const points[] = {
	"create_id", "resolve_address", "resolve_route", "connect", "accept", "disconnect",
	"lose_event",
	"alloc_cq", "create_qp", "alloc_mr", "map_buffer", "map_region", "describe_region",
	"transfer", "post_send", "post_send_part", "post_receive", "post_receive_part",
	"lose_sent", "break_off",
};

/* ---- the knobs ------------------------------------------------------------------------ */

static typeof(&smbd_fault_attr) attr_of;

/* Whether the module under test has fault points. */
bool smbt_faults_find(void)
{
	attr_of = symbol_get(smbd_fault_attr);
	return attr_of;
}

void smbt_faults_forget(void)
{
	symbol_put(smbd_fault_attr);
}

/* The use of the point after `before` others fails, `times` times, or always for -1. */
static bool arm(const char *point, unsigned int before, int times)
{
	struct fault_attr *attr = attr_of(point);

	if (!expect(attr, "there is no point %s", point))
		return false;
	attr->verbose = 0;
	attr->interval = 1;
	atomic_set(&attr->times, times);
	atomic_set(&attr->space, before + 1);
	WRITE_ONCE(attr->probability, 100);
	return true;
}

/* Returns whether it has failed as often as it should. */
static bool disarm(const char *point)
{
	struct fault_attr *attr = attr_of(point);

	WRITE_ONCE(attr->probability, 0);
	return !atomic_read(&attr->times);
}

/* ---- the server ----------------------------------------------------------------------- */

/* A message with a descriptor asks for its memory, any other for itself. */
static int serve_one(struct smbdirect_socket *server, u8 *data, u8 *region)
{
	struct smbdirect_buffer_descriptor_v1 v1;
	int len = msg_recv(server, data, LARGE);
	int ret;

	if (len <= 0)
		return len;
	if (len != sizeof(v1))
		return msg_send(server, data, len);
	memcpy(&v1, data, sizeof(v1));
	ret = smbdirect_connection_rdma_xmit(server, region, REGION, &v1, sizeof(v1), true);
	return ret ?: msg_send(server, region, LARGE);
}

static int serve(void *arg)
{
	u8 *data = kmalloc(LARGE, GFP_KERNEL), *region = kvmalloc(REGION, GFP_KERNEL);
	struct smbdirect_socket *server;
	struct proto_accept_arg accept;

	while (data && region) {
		accept = (struct proto_accept_arg) { };
		server = smbdirect_socket_accept(arg, MAX_SCHEDULE_TIMEOUT, &accept);
		if (!server && accept.err == -EINVAL)
			break;
		if (!server)
			continue;
		while (serve_one(server, data, region) > 0)
			;
		sock_end(server);
	}
	kfree(data);
	kvfree(region);
	return 0;
}

/* ---- a life --------------------------------------------------------------------------- */

static int echo(struct smbdirect_socket *client, u8 *data, u8 *back, u32 seed)
{
	int ret;

	pattern_fill(data, LARGE, seed);
	ret = msg_send(client, data, LARGE);
	if (ret < 0)
		return ret;
	ret = msg_recv(client, back, LARGE);
	if (ret != LARGE)
		return ret < 0 ? ret : -EPROTO;
	return pattern_expect("echo", back, LARGE, seed) ? 0 : -EBADMSG;
}

static int transfer(struct smbdirect_socket *client, struct smbt_memory *mem, u8 *back, u32 seed)
{
	struct smbdirect_buffer_descriptor_v1 v1;
	struct smbdirect_mr_io *mr;
	struct iov_iter iter;
	int ret = -EIO;

	pattern_fill(mem->data, REGION, seed);
	memory_iter(mem, ITER_SOURCE, &iter);
	mr = smbdirect_connection_register_mr_io(client, &iter, false, seed & 1);
	if (mr) {
		smbdirect_mr_io_fill_buffer_descriptor(mr, &v1);
		ret = msg_send(client, &v1, sizeof(v1));
		if (ret > 0)
			ret = msg_recv(client, back, LARGE);
		if (ret == LARGE)
			ret = pattern_expect("transfer", back, LARGE, seed) ? 0 : -EBADMSG;
		smbdirect_connection_deregister_mr_io(mr);
	}
	return ret > 0 ? -EPROTO : ret;
}

static int use(struct smbdirect_socket *client, struct smbt_memory *mem, u32 seed)
{
	u8 *data = kmalloc(LARGE, GFP_KERNEL), *back = kmalloc(LARGE, GFP_KERNEL);
	int ret = -ENOMEM;

	if (data && back)
		ret = echo(client, data, back, seed);
	ret = ret ?: transfer(client, mem, back, seed);
	ret = ret ?: echo(client, data, back, seed + 1);
	kfree(data);
	kfree(back);
	return ret;
}

/* Few buffers to set up, and little time until a lost completion or event is noticed. */
static void few_and_short(struct smbdirect_socket_parameters *sp)
{
	sp->recv_credit_max = 20;
	sp->send_credit_target = 20;
	sp->keepalive_interval_msec = 2000;
	sp->keepalive_timeout_msec = 2000;
	sp->rdma_connect_timeout_msec = 2000 * smbt_slow();
	sp->negotiate_timeout_msec = 2000 * smbt_slow();
}

/*
 * Connects, uses and ends a connection. Returns the first error. The memory outlives the connection for rxe's sake: when
 * an interrupted reader takes its region back, the invalidation does not wait for the packet rxe copies just then.
 */
static int life(u32 seed)
{
	struct smbt_memory *mem;
	struct smbdirect_socket_parameters sp;
	struct smbdirect_socket *client;
	struct sockaddr_in sin;
	int ret;

	smbt_client_params(&sp);
	few_and_short(&sp);
	smbt_address(&sin, SMBT_PORT);
	ret = smbdirect_socket_create_kern(&init_net, &client);
	if (ret)
		return ret;
	mem = memory_new(SMBT_KVEC, 100, REGION);
	sock_logging(client);
	ret = smbdirect_socket_set_initial_parameters(client, &sp);
	ret = ret ?: smbdirect_socket_set_kernel_settings(client, IB_POLL_SOFTIRQ, GFP_KERNEL);
	ret = ret ?: smbdirect_connect(client, (struct sockaddr *)&sin);
	ret = ret ?: smbdirect_connection_wait_for_connected(client);
	ret = ret ?: mem ? use(client, mem, seed) : -ENOMEM;
	sock_end(client);
	memory_free(mem);
	return ret;
}

/* ---- the cases ------------------------------------------------------------------------ */

struct rig {
	struct smbdirect_socket *listener;
	struct smbt_task server;
};

static bool rig_up(struct rig *rig)
{
	struct smbdirect_socket_parameters sp;

	smbt_server_params(&sp);
	few_and_short(&sp);
	rig->listener = listener_new(&sp, 4);
	return rig->listener && task_start(&rig->server, serve, rig->listener);
}

static void rig_down(struct rig *rig)
{
	expect_int("a life without faults", life(1), 0);
	smbdirect_socket_shutdown(rig->listener);
	expect_int("server", task_join(&rig->server, 15000), 0);
	sock_end(rig->listener);
}

/* R18, R24, R44: each use of each point fails once. */
static void each_use(void)
{
	unsigned int i, n, failed, lost;
	struct rig rig = { };
	int ret;

	if (!rig_up(&rig))
		return;
	for (i = 0; i < ARRAY_SIZE(points); i++) {
		for (n = 0, failed = 0, lost = 0; n < MOST_USES; n++) {
			if (!arm(points[i], n, 1))
				break;
			ret = life(n);
			/* The server may come to its last use after the client's end. */
			msleep(20);
			if (!disarm(points[i])) {
				expect(!ret, "%s: error %d without a fault", points[i], ret);
				break;
			}
			expect(ret <= 0 && ret != -EBADMSG && ret != -EPROTO, "%s at use %u: %d",
			       points[i], n, ret);
			failed++;
			lost += !!ret;
		}
		note("%s: %u uses, %u ended the connection", points[i], failed, lost);
		expect(failed, "%s: never used", points[i]);
		expect(n < MOST_USES, "%s: no end", points[i]);
	}
	rig_down(&rig);
}

/* R13, R14: any point fails at any time, again and again. */
static void any_time(void)
{
	unsigned int i, k, lost = 0;
	struct rig rig = { };

	if (!rig_up(&rig))
		return;
	for (k = 0; k < fault_rounds; k++) {
		i = get_random_u32_below(ARRAY_SIZE(points));
		if (!arm(points[i], get_random_u32_below(30), 1))
			break;
		lost += !!life(k);
		disarm(points[i]);
	}
	note("%u rounds, %u with an error", k, lost);
	rig_down(&rig);
}

static int one_life(void *arg)
{
	return life(*(u32 *)arg);
}

/* R10, R13: a signal at any moment of a life ends what it waits for. */
static void interrupted(void)
{
	unsigned int lost = 0;
	struct smbt_task task;
	struct rig rig = { };
	u32 k;

	if (!rig_up(&rig))
		return;
	for (k = 0; k < fault_rounds; k++) {
		if (!task_start(&task, one_life, &k))
			break;
		usleep_range(0, 1 + get_random_u32_below(250000));
		task_signal(&task);
		lost += !!task_join(&task, 15000);
	}
	note("%u rounds, %u with an error", k, lost);
	rig_down(&rig);
}

static void late_completions(void)
{
	static const char * const late[] = { "delay_sent", "delay_received" };
	struct rig rig = { };
	int i, k;

	if (!rig_up(&rig))
		return;
	for (i = 0; i < ARRAY_SIZE(late); i++) {
		if (!arm(late[i], 0, -1))
			break;
		for (k = 0; k < 5; k++)
			expect_int(late[i], life(k), 0);
		disarm(late[i]);
	}
	rig_down(&rig);
}

static const struct smbt_case cases[] = {
	{ "each_use", each_use }, /* rules: R13 R14 R18 R23 R24 R44 */
	{ "any_time", any_time }, /* rules: R13 R14 */
	{ "interrupted", interrupted }, /* rules: R10 R13 R14 */
	{ "late_completions", late_completions }, /* rules: C5 R23 */
};

SMBT_SUITE(faults);
