// SPDX-License-Identifier: GPL-2.0
/* Many threads, random moments, for a bounded time. */

#include <linux/delay.h>
#include <linux/random.h>
#include <linux/vmalloc.h>

#include "test.h"

#define WORKERS 8

static bool over(u64 start)
{
	return smbt_now_ms() - start > smbt_stress_ms();
}

static void random_delay(u32 max_us)
{
	u32 us = get_random_u32_below(max_us + 1);

	if (us)
		usleep_range(us, us + 10);
}

/* ---- requests in parallel ------------------------------------------------------------- */

struct load {
	struct smbt_pair *pair;
	u64 start;
	atomic_t rounds;
	/* By worker: the server has the request, the client the answer. */
	struct completion seen[WORKERS];
	struct completion answered[WORKERS];
};

struct worker {
	struct load *load;
	unsigned int number;
	struct smbt_task task;
};

/* Each message names its worker. */
static int dispatch(struct smbdirect_socket *sc, struct completion *arrived)
{
	u8 data[64];
	int ret;

	for (;;) {
		ret = msg_recv(sc, data, sizeof(data));
		if (ret != sizeof(data) || data[0] >= WORKERS)
			return ret;
		complete(&arrived[data[0]]);
	}
}

static int load_server(void *arg)
{
	struct load *load = arg;

	return dispatch(load->pair->server, load->seen);
}

static int load_client(void *arg)
{
	struct load *load = arg;

	return dispatch(load->pair->client, load->answered);
}

static bool load_message(struct smbdirect_socket *from, struct completion *arrived, u8 number)
{
	u8 data[64] = { number };

	return expect_int("message", msg_send(from, data, sizeof(data)), 68) &&
	       expect(wait_for_completion_timeout(&arrived[number], 10 * HZ),
		      "a message did not arrive");
}

static bool load_round(struct worker *worker, struct smbt_memory *mem, u8 *buf, u32 round)
{
	struct smbt_pair *pair = worker->load->pair;
	struct smbdirect_buffer_descriptor_v1 v1;
	u32 seed = worker->number * 1000 + round;
	bool writing = round & 1, ok;
	struct smbdirect_mr_io *mr;

	pattern_fill(writing ? buf : mem->data, mem->len, seed);
	mr = region_new(pair, mem, writing, round & 2 || !smbt_ours(), &v1);
	if (!mr)
		return false;
	ok = load_message(pair->client, worker->load->seen, worker->number);
	ok = ok && expect_int("transfer", smbdirect_connection_rdma_xmit(pair->server, buf,
			      mem->len, &v1, sizeof(v1), !writing), 0);
	ok = ok && load_message(pair->server, worker->load->answered, worker->number);
	smbdirect_connection_deregister_mr_io(mr);
	return ok && pattern_expect("transferred", writing ? mem->data : buf, mem->len, seed);
}

static int load_worker(void *arg)
{
	struct worker *worker = arg;
	u32 round = 0;
	bool ok = true;

	while (ok && !over(worker->load->start)) {
		size_t len = 1 + get_random_u32_below(100000);
		struct smbt_memory *mem = memory_new(get_random_u32_below(SMBT_KINDS),
						     get_random_u32_below(4096), len);
		u8 *buf = kvmalloc(len, GFP_KERNEL);

		ok = mem && buf && load_round(worker, mem, buf, round++);
		atomic_inc(&worker->load->rounds);
		memory_free(mem);
		kvfree(buf);
	}
	return ok ? 0 : -EIO;
}

static void loads(void)
{
	struct load *load = kzalloc_obj(*load);
	struct worker *worker = kzalloc_objs(*worker, WORKERS);
	struct smbt_task server, client;
	int i;

	if (!expect(load && worker, "no memory"))
		return;
	load->pair = pair_opened();
	if (!load->pair)
		goto out;
	load->start = smbt_now_ms();
	for (i = 0; i < WORKERS; i++) {
		init_completion(&load->seen[i]);
		init_completion(&load->answered[i]);
	}
	if (!task_start(&server, load_server, load) || !task_start(&client, load_client, load))
		goto out;
	for (i = 0; i < WORKERS; i++) {
		worker[i].load = load;
		worker[i].number = i;
		task_start(&worker[i].task, load_worker, &worker[i]);
	}
	for (i = 0; i < WORKERS; i++)
		expect_int("worker", task_join(&worker[i].task, smbt_stress_ms() + 12000), 0);
	note("%d requests", atomic_read(&load->rounds));
	expect_int("regions in use", sock_value(load->pair->client, "mr_used_count:"), 0);
	smbdirect_socket_shutdown(load->pair->client);
	expect_int("the server's reader", task_join(&server, 4000), -ENOTCONN);
	expect_int("the client's reader", task_join(&client, 4000), -ENOTCONN);
out:
	pair_close(load->pair);
	kfree(load);
	kfree(worker);
}

/* ---- messages in both directions ------------------------------------------------------ */

struct stream {
	struct smbdirect_socket *sc;
	u64 end;
	atomic_t count;
	struct smbt_task task;
};

#define STREAM_MAX 20000

/* Each message is filled with its first byte. */
static int stream_writer(void *arg)
{
	struct stream *stream = arg;
	u8 *data = vmalloc(STREAM_MAX);
	int ret = 0;

	while (data && ret >= 0 && smbt_now_ms() < stream->end) {
		size_t len = 1 + get_random_u32_below(STREAM_MAX);

		memset(data, get_random_u8(), len);
		ret = msg_send(stream->sc, data, len);
		atomic_inc(&stream->count);
	}
	vfree(data);
	return ret < 0 ? ret : 0;
}

static int stream_reader(void *arg)
{
	struct stream *stream = arg;
	u8 *data = vmalloc(STREAM_MAX);
	int ret = 1;

	while (data && ret > 0) {
		ret = msg_recv(stream->sc, data, STREAM_MAX);
		if (ret > 0 && !bytes_expect("message", data, ret, data[0]))
			break;
		atomic_inc(&stream->count);
	}
	vfree(data);
	return ret;
}

/* Three writers and a reader at each end. */
static void stream_both_ways(struct smbt_pair *pair, unsigned int limit_ms)
{
	struct stream *writer = kzalloc_objs(*writer, 6), *reader = kzalloc_objs(*reader, 2);
	int i, sent = 0, received = 0;

	if (!expect(writer && reader, "no memory"))
		goto out;
	for (i = 0; i < 2; i++) {
		reader[i].sc = i & 1 ? pair->client : pair->server;
		task_start(&reader[i].task, stream_reader, &reader[i]);
	}
	for (i = 0; i < 6; i++) {
		writer[i].sc = i & 1 ? pair->client : pair->server;
		writer[i].end = smbt_now_ms() + limit_ms;
		task_start(&writer[i].task, stream_writer, &writer[i]);
	}
	for (i = 0; i < 6; i++) {
		expect_int("writer", task_join(&writer[i].task, limit_ms + 10000), 0);
		sent += atomic_read(&writer[i].count);
	}
	for (i = 0; i < 500 && received < sent; i++) {
		msleep(20);
		received = atomic_read(&reader[0].count) + atomic_read(&reader[1].count);
	}
	expect_int("messages received", received, sent);
	note("%d messages", sent);
	smbdirect_socket_shutdown(pair->client);
	for (i = 0; i < 2; i++)
		expect_int("reader", task_join(&reader[i].task, 4000), -ENOTCONN);
out:
	kfree(writer);
	kfree(reader);
}

static void streams(void)
{
	struct smbt_pair *pair = pair_opened();

	if (pair)
		stream_both_ways(pair, smbt_stress_ms());
	pair_close(pair);
}

/* R28: whatever credits there are, both directions make progress. */
static void few_credits(void)
{
	static const u16 credits[] = { 1, 2, 3, 7, 20 };
	int i;

	if (skip_unless_ours("advertises too little (R7)"))
		return;
	for (i = 0; i < ARRAY_SIZE(credits); i++) {
		struct smbt_pair *pair = pair_new();

		if (!pair)
			return;
		note("%u credits", credits[i]);
		pair->client_params.recv_credit_max = credits[i];
		pair->client_params.send_credit_target = credits[ARRAY_SIZE(credits) - 1 - i];
		pair->server_params.recv_credit_max = credits[i];
		pair->server_params.send_credit_target = credits[i];
		if (pair_open(pair))
			stream_both_ways(pair, smbt_stress_ms() / 4);
		pair_close(pair);
	}
}

/* One credit in each direction: every message needs its grant. */
static void one_credit(void)
{
	struct smbt_pair *pair;
	u8 data[1000];
	int i, ret;

	if (skip_unless_ours("advertises too little (R7)"))
		return;
	pair = pair_new();
	if (!pair)
		return;
	pair->client_params.recv_credit_max = 1;
	pair->client_params.send_credit_target = 1;
	pair->server_params.recv_credit_max = 1;
	pair->server_params.send_credit_target = 1;
	if (!pair_open(pair))
		goto out;
	for (i = 0; i < 100; i++) {
		pattern_fill(data, 1000, i);
		ret = msg_send(i & 2 ? pair->client : pair->server, data, 1000);
		if (!expect_int("X13: send", ret, 1004))
			break;
		if (!msg_expect(i & 2 ? pair->server : pair->client, data, 1000, i))
			break;
	}
out:
	pair_close(pair);
}

/* ---- connections ---------------------------------------------------------------------- */

struct churn {
	struct smbdirect_socket *listener;
	u64 start;
	atomic_t tried;
	atomic_t connected;
	atomic_t accepted;
};

static int churn_acceptor(void *arg)
{
	struct churn *churn = arg;
	struct proto_accept_arg accept;
	struct smbdirect_socket *server;
	u8 byte;

	for (;;) {
		accept = (struct proto_accept_arg) { };
		server = smbdirect_socket_accept(churn->listener, MAX_SCHEDULE_TIMEOUT, &accept);
		if (!server && accept.err == -EINVAL)
			return 0;
		if (!expect(server, "accept: %d", accept.err))
			return accept.err;
		atomic_inc(&churn->accepted);
		random_delay(2000);
		if (get_random_u32_below(2))
			smbdirect_socket_shutdown(server);
		msg_send(server, &byte, 1);
		sock_end(server);
	}
}

static int churn_client(void *arg)
{
	struct churn *churn = arg;

	while (!over(churn->start)) {
		struct smbdirect_socket *client = client_connecting();
		u8 byte[4];

		if (!client)
			return -ENOMEM;
		atomic_inc(&churn->tried);
		random_delay(20000);
		if (get_random_u32_below(3) &&
		    !smbdirect_connection_wait_for_connected(client)) {
			atomic_inc(&churn->connected);
			msg_send(client, byte, 1);
			if (get_random_u32_below(2))
				raw_recv(client, byte, 4);
		}
		random_delay(2000);
		sock_end(client);
	}
	return 0;
}

static void connections(void)
{
	struct smbdirect_socket_parameters sp;
	struct churn churn = { };
	struct smbt_task acceptor, client[4];
	int i;

	if (smbt_iwarp() && skip_unless_ours("waits for ever"))
		return;
	smbt_server_params(&sp);
	churn.listener = listener_new(&sp, 4);
	churn.start = smbt_now_ms();
	if (!churn.listener || !task_start(&acceptor, churn_acceptor, &churn))
		return;
	for (i = 0; i < ARRAY_SIZE(client); i++)
		task_start(&client[i], churn_client, &churn);
	for (i = 0; i < ARRAY_SIZE(client); i++)
		expect_int("client", task_join(&client[i], smbt_stress_ms() + 15000), 0);
	note("%d tried, %d connected, %d accepted", atomic_read(&churn.tried),
	     atomic_read(&churn.connected), atomic_read(&churn.accepted));
	expect(atomic_read(&churn.connected), "nobody got connected");
	smbdirect_socket_shutdown(churn.listener);
	expect_int("acceptor", task_join(&acceptor, 8000), 0);
	sock_end(churn.listener);
}

/* R5: the listener comes and goes under the clients. */
static void listener_churn(void)
{
	struct smbdirect_socket_parameters sp;
	struct churn churn = { .start = smbt_now_ms() };
	struct smbt_task client[3];
	int i, rounds = 0;

	if (skip_unless_ours("crashes (R5)"))
		return;
	smbt_server_params(&sp);
	for (i = 0; i < ARRAY_SIZE(client); i++)
		task_start(&client[i], churn_client, &churn);
	while (!over(churn.start)) {
		struct smbdirect_socket *listener = listener_new(&sp, 3);

		if (!listener)
			break;
		random_delay(50000);
		accept_error(listener, get_random_u32_below(2));
		if (get_random_u32_below(2))
			smbdirect_socket_shutdown(listener);
		sock_end(listener);
		rounds++;
	}
	for (i = 0; i < ARRAY_SIZE(client); i++)
		expect_int("client", task_join(&client[i], 20000), 0);
	note("%d listeners, %d tried, %d connected", rounds, atomic_read(&churn.tried),
	     atomic_read(&churn.connected));
}

/* ---- regions against the end (R37) ---------------------------------------------------- */

#define LATE_LEN 8192

struct late {
	struct smbdirect_mr_io *mr;
	struct smbt_memory *mem;
	struct smbt_task task;
};

static int deregister_late(void *arg)
{
	struct late *late = arg;

	random_delay(3000);
	smbdirect_connection_deregister_mr_io(late->mr);
	/* From here on the memory is somebody else's. */
	memset(late->mem->data, 0x5a, LATE_LEN);
	return 0;
}

/* Memory with a gap goes through a copy, which ours makes by itself. */
static void late_start(struct smbt_pair *pair, struct late *late, int i)
{
	struct smbdirect_buffer_descriptor_v1 v1;
	int page;

	late->mem = memory_new(i, 0, LATE_LEN);
	if (!late->mem)
		return;
	for (page = 0; i == SMBT_BVEC && smbt_ours() && page < late->mem->pages; page++)
		bvec_set_page(&late->mem->bvec[page], late->mem->page[page], 250, 100 + page);
	if (i == SMBT_BVEC && smbt_ours())
		late->mem->len = 250 * late->mem->pages;
	late->mr = region_new(pair, late->mem, i & 1, i & 2 || !smbt_ours(), &v1);
	if (late->mr)
		task_start(&late->task, deregister_late, late);
}

static void late_end(struct late *late)
{
	if (late->task.thread) {
		task_join(&late->task, 5000);
		bytes_expect("R33: memory after its deregistration", late->mem->data, LATE_LEN, 0x5a);
	}
	memory_free(late->mem);
}

static void regions_and_release(void)
{
	u64 start = smbt_now_ms();
	int i, rounds = 0;

	for (; !over(start); rounds++) {
		struct smbt_pair *pair = pair_opened();
		struct late late[4] = { };

		for (i = 0; pair && i < 4; i++)
			late_start(pair, &late[i], i);
		random_delay(2000);
		if (pair && rounds & 1)
			smbdirect_socket_shutdown(pair->server);
		if (pair && !(rounds & 1))
			region_announce(pair);
		random_delay(2000);
		pair_close(pair);
		for (i = 0; i < 4; i++)
			late_end(&late[i]);
		if (!pair)
			return;
	}
	note("%d rounds", rounds);
}

static const struct smbt_case cases[] = {
	{ "requests", loads }, /* rules: R33 R42 */
	{ "messages", streams }, /* rules: R21 F3 */
	{ "few_credits", few_credits }, /* rules: R28 X13 */
	{ "one_credit", one_credit }, /* rules: R28 C4 X13 */
	{ "connections", connections }, /* rules: X7 R14 */
	{ "listeners", listener_churn }, /* rules: R5 */
	{ "regions_and_release", regions_and_release }, /* rules: R33 R37 */
};

SMBT_SUITE(stress);
