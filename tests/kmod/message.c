// SPDX-License-Identifier: GPL-2.0
/* Whole messages: send_iter and recvmsg. */

#include <linux/delay.h>
#include <linux/vmalloc.h>

#include "test.h"

/* Cases run one at a time. */
static u8 data[5000], got[3000];

static const size_t sizes[] = { 1, 4, 1339, 1340, 1341, 2680, 4096, 65536, 131072, 173910 };

/* All of mem, whose first four bytes are for the length, as one message. */
static int send_memory(struct smbdirect_socket *sc, struct smbt_memory *mem, u32 seed)
{
	struct iov_iter iter;

	/* Like ksmbd, whose buffers start with the length. */
	*(__be32 *)mem->data = cpu_to_be32(mem->len - 4);
	pattern_fill(mem->data + 4, mem->len - 4, seed);
	memory_iter(mem, ITER_SOURCE, &iter);
	return smbdirect_connection_send_iter(sc, &iter, 0, false, 0);
}

static int recv_memory(struct smbdirect_socket *sc, struct smbt_memory *mem, size_t len)
{
	struct iov_iter iter;
	__be32 prefix;
	int ret;

	/* Four bytes must be there before a read of four returns, even one of the length. */
	if (len >= sizeof(prefix)) {
		ret = raw_recv(sc, &prefix, sizeof(prefix));
		if (!expect_int("prefix", ret, 4) ||
		    !expect_int("length", be32_to_cpu(prefix), len))
			return -EIO;
	}
	memory_iter(mem, ITER_DEST, &iter);
	iov_iter_truncate(&iter, len);
	ret = iter_recv(sc, &iter, 0);
	expect_int("left in the iterator", iov_iter_count(&iter), 0);
	return ret;
}

static void one_message(struct smbdirect_socket *from, struct smbdirect_socket *to,
			enum smbt_kind kind, size_t len)
{
	struct smbt_memory *out = memory_new(kind, 12, len + 4), *in = memory_new(kind, 3, len);
	int ret;

	if (out && in) {
		ret = send_memory(from, out, len);
		expect(ret == len + 4, "send of %zu (%s): %d", len, memory_kind(kind), ret);
		if (ret > 0) {
			ret = recv_memory(to, in, len);
			expect(ret == len, "receive of %zu (%s): %d", len, memory_kind(kind), ret);
			pattern_expect(memory_kind(kind), in->data, len, len);
		}
	}
	memory_free(out);
	memory_free(in);
}

static void all_sizes(enum smbt_kind kind)
{
	struct smbt_pair *pair = pair_opened();
	int i;

	for (i = 0; pair && i < ARRAY_SIZE(sizes); i++) {
		one_message(pair->client, pair->server, kind, sizes[i]);
		one_message(pair->server, pair->client, kind, sizes[i]);
	}
	if (pair)
		pair_works(pair);
	pair_close(pair);
}

static void sizes_kvec(void)
{
	all_sizes(SMBT_KVEC);
}

static void sizes_bvec(void)
{
	all_sizes(SMBT_BVEC);
}

static void sizes_folioq(void)
{
	all_sizes(SMBT_FOLIOQ);
}

/* When the length appears, and when four bytes are four bytes. */
static void prefix(void)
{
	struct smbt_pair *pair = pair_opened();
	__be32 length;
	int i, n;

	if (!pair)
		return;
	pattern_fill(data, 3000, 1);
	for (i = 0; i < 4; i++)
		expect_int("send", msg_send(pair->client, data, 3000), 3004);
	expect_int("at the start", raw_recv(pair->server, &length, 4), 4);
	expect_int("the length", be32_to_cpu(length), 3000);
	expect_int("four bytes after it", raw_recv(pair->server, got, 4), 4);
	expect(!memcmp(got, data, 4), "the first four bytes are others");
	expect_int("the rest but four", raw_recv(pair->server, got, 2992), 2992);
	expect(!memcmp(got, data + 4, 2992), "the middle is another");
	expect_int("the last four", raw_recv(pair->server, got, 4), 4);
	expect(!memcmp(got, data + 2996, 4), "the last four bytes are others");
	expect_int("other than four at the start", raw_recv(pair->server, got, 10), 10);
	expect(!memcmp(got, data, 10), "a length in front of ten bytes");
	/* C gives the length here, too, although the message has begun. */
	n = smbt_ours() ? 4 : 5;
	expect_int("four bytes then", raw_recv(pair->server, got, n), n);
	expect(!memcmp(got, data + 10, n), "bytes 10 to 13 are others");
	expect_int("one more", raw_recv(pair->server, got, 5 - n), 5 - n);
	expect_int("into the next message", raw_recv(pair->server, got, 2990), 2990);
	expect(!memcmp(got, data + 15, 2985) && !memcmp(got + 2985, data, 5),
	       "a read across messages is another");
	expect_int("the rest of that one", raw_recv(pair->server, got, 2995), 2995);
	expect_int("the fourth", msg_recv(pair->server, got, sizeof(got)), 3000);
	expect(!memcmp(got, data, 3000), "the fourth is another");
	pair_works(pair);
	pair_close(pair);
}

/* cifs drops bytes like this. */
static void discard(void)
{
	struct smbt_pair *pair = pair_opened();
	struct iov_iter iter;

	/* The server gets its first credits with the client's first message. */
	if (!pair || !pair_works(pair))
		goto out;
	pattern_fill(data, sizeof(data), 2);
	expect_int("send", msg_send(pair->server, data, sizeof(data)), sizeof(data) + 4);
	expect_int("length", raw_recv(pair->client, data, 4), 4);
	iov_iter_discard(&iter, ITER_DEST, 4999);
	expect_int("discard", iter_recv(pair->client, &iter, 0), 4999);
	expect_int("left", iov_iter_count(&iter), 0);
	expect_int("the last byte", raw_recv(pair->client, data, 1), 1);
	pair_works(pair);
out:
	pair_close(pair);
}

static int send_prefixed(struct smbdirect_socket *sc, const void *data, size_t len, u32 announced)
{
	__be32 prefix = cpu_to_be32(announced);
	struct kvec vec[2] = { { &prefix, 4 }, { (void *)data, len } };
	struct iov_iter iter;

	iov_iter_kvec(&iter, ITER_SOURCE, vec, 2, 4 + len);
	return smbdirect_connection_send_iter(sc, &iter, 0, false, 0);
}

/* Each error leaves the connection as it was. */
static void send_errors(void)
{
	struct smbt_pair *pair = pair_opened();
	u8 *large = vzalloc(200000);
	struct iov_iter iter;
	struct kvec vec = { data, 3 };

	if (!pair || !expect(large, "no memory"))
		goto out;
	expect_int("nothing behind the length", send_prefixed(pair->client, data, 0, 0), -EINVAL);
	iov_iter_kvec(&iter, ITER_SOURCE, &vec, 1, 3);
	expect_int("three bytes",
		   smbdirect_connection_send_iter(pair->client, &iter, 0, false, 0), -EINVAL);
	iov_iter_kvec(&iter, ITER_SOURCE, &vec, 1, 0);
	expect_int("no bytes",
		   smbdirect_connection_send_iter(pair->client, &iter, 0, false, 0), -EINVAL);
	expect_int("length too short", send_prefixed(pair->client, data, 100, 99), -EINVAL);
	expect_int("length too long", send_prefixed(pair->client, data, 100, 101), -EINVAL);
	expect_int("length huge", send_prefixed(pair->client, data, 100, U32_MAX), -EINVAL);
	pair_works(pair);
	expect_int("one too large", msg_send(pair->client, large, 173911), -EMSGSIZE);
	expect_int("one too large back", msg_send(pair->server, large, 173911), -EMSGSIZE);
	expect_int("much too large", msg_send(pair->server, large, 200000), -EMSGSIZE);
	pair_works(pair);
out:
	pair_close(pair);
	vfree(large);
}

/* Misuse that C warns of. */
static void misuse(void)
{
	struct smbt_pair *pair;
	struct iov_iter iter;
	u8 whole[16] = { 0, 0, 0, 12 };
	struct kvec vec = { whole, sizeof(whole) };

	if (skip_unless_ours("warns"))
		return;
	pair = pair_opened();
	if (!pair)
		return;
	iov_iter_kvec(&iter, ITER_SOURCE, &vec, 1, sizeof(whole));
	expect_int("send with flags",
		   smbdirect_connection_send_iter(pair->client, &iter, 1, false, 0), -EINVAL);
	iov_iter_kvec(&iter, ITER_DEST, &vec, 1, sizeof(whole));
	expect_int("send to a destination",
		   smbdirect_connection_send_iter(pair->client, &iter, 0, false, 0), -EINVAL);
	expect_int("receive with flags", iter_recv(pair->client, &iter, MSG_PEEK), -EINVAL);
	iov_iter_kvec(&iter, ITER_SOURCE, &vec, 1, sizeof(whole));
	expect_int("receive into a source", iter_recv(pair->client, &iter, 0), -EINVAL);
	pair_works(pair);
	pair_close(pair);
}

struct reader {
	struct smbdirect_socket *sc;
	void *data;
	size_t len;
};

static int read_raw(void *arg)
{
	struct reader *reader = arg;

	return raw_recv(reader->sc, reader->data, reader->len);
}

static void recv_waits(void)
{
	struct smbt_pair *pair = pair_opened();
	struct reader reader = { .data = data, .len = 200 };
	struct smbt_task task;

	if (!pair)
		return;
	expect_int("receive of no bytes", raw_recv(pair->server, data, 0), 0);
	reader.sc = pair->server;
	if (task_start(&task, read_raw, &reader)) {
		pattern_fill(got, 100, 3);
		expect_int("send half", msg_send(pair->client, got, 100), 104);
		msleep(200);
		expect(!task_is_done(&task), "receive did not wait");
		task_signal(&task);
		expect_int("a signal", task_join(&task, 2000), -ERESTARTSYS);
	}
	/* Nothing was consumed. */
	expect_int("receive", raw_recv(pair->server, data, 100), 100);
	pattern_expect("received", data, 100, 3);
	pair_works(pair);
	if (task_start(&task, read_raw, &reader)) {
		msleep(100);
		smbdirect_socket_shutdown(pair->client);
		expect_int("the peer goes", task_join(&task, 3000), -ENOTCONN);
	}
	pair_close(pair);
}

/* R29: what arrived completely is delivered after the end, too. */
static void last_words(void)
{
	struct smbt_pair *pair = pair_opened();

	if (!pair)
		return;
	pattern_fill(data, 3000, 4);
	expect_int("send", msg_send(pair->client, data, 3000), 3004);
	expect_int("all sent", smbdirect_connection_send_wait_zero_pending(pair->client), 0);
	msleep(200);
	smbdirect_socket_shutdown(pair->client);
	expect(wait_gone(pair->server, 3000), "the server does not notice");
	memset(data, 0, sizeof(data));
	if (smbt_ours()) {
		expect_int("R29: receive", msg_recv(pair->server, data, 3000), 3000);
		pattern_expect("R29: received", data, 3000, 4);
	}
	expect_int("receive", raw_recv(pair->server, data, 1), -ENOTCONN);
	pair_close(pair);
}

/* Segments of no byte and of one, and a length in two segments. */
static void odd_segments(void)
{
	struct smbt_pair *pair = pair_opened();
	__be32 length = cpu_to_be32(100 + 1500);
	static struct kvec vec[160];
	struct iov_iter iter;
	int i, n = 0;

	if (!pair)
		return;
	pattern_fill(data, 1600, 6);
	vec[n++] = (struct kvec) { data, 0 };
	vec[n++] = (struct kvec) { &length, 1 };
	vec[n++] = (struct kvec) { (u8 *)&length + 1, 3 };
	for (i = 0; i < 100; i++) {
		vec[n++] = (struct kvec) { data + i, 1 };
		if (i % 2)
			vec[n++] = (struct kvec) { data, 0 };
	}
	vec[n++] = (struct kvec) { data + 100, 1500 };
	iov_iter_kvec(&iter, ITER_SOURCE, vec, n, 1604);
	expect_int("send", smbdirect_connection_send_iter(pair->client, &iter, 0, false, 0), 1604);
	msg_expect(pair->server, got, 1600, 6);
	pair_works(pair);
	pair_close(pair);
}

/* R30: an iterator that faults; a kernel thread has no user memory. */
static void copy_fault(void)
{
	void __user *nowhere = (void __user *)0x10000;
	struct smbt_pair *pair;
	struct iov_iter iter;
	int ret;

	if (skip_unless_ours("warns"))
		return;
	pair = pair_opened();
	if (!pair)
		return;
	iov_iter_ubuf(&iter, ITER_SOURCE, nowhere, 1000);
	ret = smbdirect_connection_send_iter(pair->client, &iter, 0, false, 0);
	expect_int("send", ret, -EFAULT);
	iov_iter_ubuf(&iter, ITER_SOURCE, nowhere, 1000);
	ret = smbdirect_connection_send_single_iter(pair->client, NULL, &iter, 0, 1000);
	expect_int("send_single", ret, -EFAULT);
	pair_works(pair);
	pattern_fill(data, 3000, 3);
	expect_int("send", msg_send(pair->client, data, 3000), 3004);
	expect_int("length", raw_recv(pair->server, got, 4), 4);
	iov_iter_ubuf(&iter, ITER_DEST, nowhere, 2000);
	expect_int("receive", iter_recv(pair->server, &iter, 0), -EFAULT);
	/* The same bytes again, or the end. */
	ret = raw_recv(pair->server, got, 3000);
	if (ret == 3000)
		pattern_expect("R30: received", got, 3000, 3);
	else
		expect_int("R30: receive again", ret, -ENOTCONN);
	pair_close(pair);
}

/* R28: an idle pair is silent. */
static void idle(void)
{
	struct smbt_pair *pair = pair_opened();
	long client, server;

	if (!pair)
		return;
	pair_works(pair);
	msleep(300);
	client = sock_value(pair->client, "count_send_empty:");
	server = sock_value(pair->server, "count_send_empty:");
	msleep(1000);
	expect_int("empty messages of the client",
		   sock_value(pair->client, "count_send_empty:") - client, 0);
	expect_int("empty messages of the server",
		   sock_value(pair->server, "count_send_empty:") - server, 0);
	pair_works(pair);
	pair_close(pair);
}

/* Keepalives answer each other, and a pair lives on them. */
static void keepalive(void)
{
	struct smbt_pair *pair = pair_new();
	long before;

	if (!pair)
		return;
	pair->client_params.keepalive_interval_msec = 300;
	pair->client_params.keepalive_timeout_msec = 1000;
	pair->server_params.keepalive_interval_msec = 1000;
	pair->server_params.keepalive_timeout_msec = 1000;
	if (pair_open(pair) && pair_works(pair)) {
		before = sock_value(pair->client, "count_send_empty:");
		msleep(2500);
		before = sock_value(pair->client, "count_send_empty:") - before;
		expect(before >= 2 && before <= 12, "%ld empty messages in 2.5 s", before);
		expect(smbdirect_connection_is_connected(pair->client), "the client is gone");
		expect(smbdirect_connection_is_connected(pair->server), "the server is gone");
		pair_works(pair);
	}
	pair_close(pair);
}

/* Completions in every context, at both ends. */
static void poll_contexts(void)
{
	int i;

	for (i = 0; i < 9; i++) {
		struct smbt_pair *pair = pair_new();

		if (!pair)
			return;
		pair->client_poll = i % 3;
		pair->server_poll = i / 3;
		if (pair_open(pair)) {
			one_message(pair->client, pair->server, SMBT_BVEC, 50000);
			one_message(pair->server, pair->client, SMBT_BVEC, 50000);
		}
		pair_close(pair);
	}
}

#define LONG_READ (4 * 255 * 1340)

static int send_long(void *arg)
{
	u8 *part = vmalloc(100000);
	size_t left = LONG_READ;
	int ret = 0;

	while (part && left && ret >= 0) {
		size_t len = min_t(size_t, left, 100000);

		memset(part, left / 100000, len);
		ret = msg_send(arg, part, len);
		left -= len;
	}
	vfree(part);
	return ret < 0 ? ret : 0;
}

/* R31: one read four times as long as all receive buffers, so it has to copy while data arrives (P5). */
static void long_read(void)
{
	struct smbt_pair *pair = NULL;
	struct smbt_task task;
	size_t at;
	u8 *all;

	if (skip_unless_ours("waits for ever (R31)"))
		return;
	all = vzalloc(LONG_READ);
	if (all)
		pair = pair_opened();
	if (pair && task_start(&task, send_long, pair->server)) {
		expect_int("receive", raw_recv(pair->client, all, LONG_READ), LONG_READ);
		for (at = 0; at < LONG_READ; at += 1000)
			if (!expect_int("byte", all[at],
					(LONG_READ - at / 100000 * 100000) / 100000))
				break;
		expect_int("send", task_join(&task, 10000), 0);
		pair_works(pair);
	}
	pair_close(pair);
	vfree(all);
}

static const struct smbt_case cases[] = {
	{ "sizes_kvec", sizes_kvec },
	{ "sizes_bvec", sizes_bvec },
	{ "sizes_folioq", sizes_folioq },
	{ "prefix", prefix }, /* rules: F7 */
	{ "discard", discard },
	{ "send_errors", send_errors }, /* rules: F4 */
	{ "misuse", misuse },
	{ "recv_waits", recv_waits }, /* rules: R13 */
	{ "last_words", last_words }, /* rules: R29 */
	{ "odd_segments", odd_segments },
	{ "copy_fault", copy_fault }, /* rules: R30 */
	{ "idle", idle }, /* rules: R28 C9 */
	{ "keepalive", keepalive }, /* rules: X12 K1 K3 */
	{ "poll_contexts", poll_contexts },
	{ "long_read", long_read }, /* rules: R31 P5 */
};

SMBT_SUITE(message);
