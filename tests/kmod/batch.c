// SPDX-License-Identifier: GPL-2.0
/* Messages in pieces: batches as cifs uses them. */

#include <linux/delay.h>
#include <linux/vmalloc.h>

#include "test.h"

/* Cases run one at a time. */
static u8 data[4000], got[4000];

static struct smbdirect_send_batch *batch_new(struct smbdirect_send_batch_storage *storage)
{
	struct smbdirect_send_batch *batch;

	memset(storage, 0xaa, sizeof(*storage));
	batch = smbdirect_init_send_batch_storage(storage, false, 0);
	expect((void *)batch == (void *)storage, "the batch is not in its storage");
	return batch;
}

/* All of an iterator, which is the next part of a message with remaining bytes. */
static int send_part(struct smbdirect_socket *sc, struct smbdirect_send_batch *batch,
		     struct iov_iter *iter, u32 *remaining)
{
	while (iov_iter_count(iter)) {
		size_t before = iov_iter_count(iter);
		int ret = smbdirect_connection_send_single_iter(sc, batch, iter, 0, *remaining);

		if (ret < 0)
			return ret;
		if (!expect(ret > 0 && ret <= 1340, "one message took %d bytes", ret))
			return -EIO;
		expect_int("the iterator's advance", before - iov_iter_count(iter), ret);
		*remaining -= ret;
	}
	return 0;
}

static int send_kvec(struct smbdirect_socket *sc, struct smbdirect_send_batch *batch, void *part,
		     size_t len, u32 *remaining)
{
	struct kvec vec = { part, len };
	struct iov_iter iter;

	iov_iter_kvec(&iter, ITER_SOURCE, &vec, 1, len);
	return send_part(sc, batch, &iter, remaining);
}

/* A request like cifs': some heads, the data behind an iterator of its kind. */
static void request(struct smbt_pair *pair, enum smbt_kind kind, size_t len)
{
	struct smbt_memory *mem = memory_new(kind, 100, len);
	struct smbdirect_send_batch_storage storage;
	struct smbdirect_send_batch *batch = batch_new(&storage);
	u32 remaining = 64 + 112 + len;
	u8 *all = vzalloc(176 + len);
	struct iov_iter iter;
	u8 head[176];

	if (!mem || !expect(all, "no memory"))
		goto out;
	pattern_fill(head, sizeof(head), 1);
	pattern_fill(mem->data, len, 2);
	expect_int("head", send_kvec(pair->client, batch, head, 64, &remaining), 0);
	expect_int("body", send_kvec(pair->client, batch, head + 64, 112, &remaining), 0);
	memory_iter(mem, ITER_SOURCE, &iter);
	expect_int("data", send_part(pair->client, batch, &iter, &remaining), 0);
	expect_int("left", remaining, 0);
	expect_int("flush", smbdirect_connection_send_batch_flush(pair->client, batch, true), 0);
	expect_int("zero", smbdirect_connection_send_wait_zero_pending(pair->client), 0);
	/* R25: the buffers are ours again. */
	memset(mem->data, 0xee, len);
	memset(head, 0xee, sizeof(head));
	expect_int("receive", msg_recv(pair->server, all, 176 + len), 176 + len);
	pattern_expect("heads", all, 176, 1);
	pattern_expect(memory_kind(kind), all + 176, len, 2);
out:
	memory_free(mem);
	vfree(all);
}

static void requests(void)
{
	static const size_t sizes[] = { 1, 1164, 1165, 4096, 20000, 131072 };
	struct smbt_pair *pair = pair_opened();
	int i, kind;

	for (i = 0; pair && i < ARRAY_SIZE(sizes); i++)
		for (kind = SMBT_KVEC; kind <= SMBT_FOLIOQ; kind++)
			request(pair, kind, sizes[i]);
	if (pair)
		pair_works(pair);
	pair_close(pair);
}

/* Without a batch a message goes out at once. */
static void single(void)
{
	struct smbt_pair *pair = pair_opened();
	u32 len;

	if (!pair)
		return;
	for (len = 4; len <= 1340; len += 167) {
		u32 remaining = len;

		pattern_fill(data, len, len);
		expect_int("send", send_kvec(pair->client, NULL, data, len, &remaining), 0);
		expect_int("zero", smbdirect_connection_send_wait_zero_pending(pair->client), 0);
		msg_expect(pair->server, got, len, len);
	}
	pair_works(pair);
	pair_close(pair);
}

/* A message in parts without a batch, each part posted at once. */
static void single_parts(void)
{
	struct smbt_pair *pair = pair_opened();
	u32 remaining = sizeof(data);

	if (!pair)
		return;
	pattern_fill(data, sizeof(data), 7);
	expect_int("send", send_kvec(pair->client, NULL, data, 4000, &remaining), 0);
	msg_expect(pair->server, got, 4000, 7);
	pair_works(pair);
	pair_close(pair);
}

/* Messages without data carry credits only; the peer's reader does not see them. */
static void empty(void)
{
	struct smbt_pair *pair = pair_opened();
	struct smbdirect_send_batch_storage storage;
	struct smbdirect_send_batch *batch;
	int i, ret;

	if (!pair)
		return;
	for (i = 0; i < 300; i++) {
		ret = smbdirect_connection_send_single_iter(pair->client, NULL, NULL, 0, 0);
		if (!expect_int("without a batch", ret, 0))
			break;
	}
	batch = batch_new(&storage);
	for (i = 0; i < 40; i++) {
		ret = smbdirect_connection_send_single_iter(pair->client, batch, NULL, 0, 0);
		if (!expect_int("in a batch", ret, 0))
			break;
	}
	expect_int("flush", smbdirect_connection_send_batch_flush(pair->client, batch, true), 0);
	pair_works(pair);
	pair_close(pair);
}

static void flushes(void)
{
	struct smbdirect_send_batch_storage storage;
	struct smbdirect_send_batch *batch = batch_new(&storage);
	struct smbt_pair *pair = pair_opened();
	u32 remaining;
	int i;

	if (!pair)
		return;
	pattern_fill(data, 3000, 5);
	expect_int("an empty batch",
		   smbdirect_connection_send_batch_flush(pair->client, batch, false), 0);
	expect_int("an empty batch, last",
		   smbdirect_connection_send_batch_flush(pair->client, batch, true), 0);
	pair_works(pair);
	batch = batch_new(&storage);
	for (i = 0; i < 3; i++) {
		remaining = 3000;
		expect_int("send", send_kvec(pair->client, batch, data, 3000, &remaining), 0);
		expect_int("flush",
			   smbdirect_connection_send_batch_flush(pair->client, batch, false), 0);
		msg_expect(pair->server, got, 3000, 5);
	}
	expect_int("the last flush",
		   smbdirect_connection_send_batch_flush(pair->client, batch, true), 0);
	expect_int("one more",
		   smbdirect_connection_send_batch_flush(pair->client, batch, true), 0);
	pair_works(pair);
	pair_close(pair);
}

static void misuse(void)
{
	struct smbdirect_send_batch_storage storage;
	struct smbdirect_send_batch *batch = batch_new(&storage);
	struct smbdirect_socket *sc;
	struct smbt_pair *pair;
	struct iov_iter iter;
	struct kvec vec = { data, 100 };
	u32 remaining = 100;

	if (skip_unless_ours("warns"))
		return;
	pair = pair_opened();
	if (!pair)
		return;
	sc = pair->client;
	pattern_fill(data, 100, 5);
	iov_iter_kvec(&iter, ITER_SOURCE, &vec, 1, 100);
	expect_int("flags", smbdirect_connection_send_single_iter(sc, NULL, &iter, 1, 100),
		   -EINVAL);
	expect_int("remaining too small",
		   smbdirect_connection_send_single_iter(sc, NULL, &iter, 0, 99), -EINVAL);
	expect_int("remaining 0", smbdirect_connection_send_single_iter(sc, NULL, &iter, 0, 0),
		   -EINVAL);
	expect_int("remaining without data",
		   smbdirect_connection_send_single_iter(sc, NULL, NULL, 0, 1), -EINVAL);
	expect_int("untouched iterator", iov_iter_count(&iter), 100);
	/* R21: an error in a batch, too, and its last flush gives the right to send back. */
	expect_int("send", send_kvec(sc, batch, data, 100, &remaining), 0);
	expect_int("remaining too small in a batch",
		   smbdirect_connection_send_single_iter(sc, batch, &iter, 0, 50), -EINVAL);
	expect_int("flush", smbdirect_connection_send_batch_flush(sc, batch, true), 0);
	msg_expect(pair->server, got, 100, 5);
	iov_iter_kvec(&iter, ITER_DEST, &vec, 1, 100);
	expect_int("a destination",
		   smbdirect_connection_send_single_iter(sc, NULL, &iter, 0, 100), -EINVAL);
	pair_works(pair);
	pair_close(pair);
}

static int send_other(void *arg)
{
	static u8 other[3000];

	pattern_fill(other, sizeof(other), 9);
	return msg_send(arg, other, sizeof(other));
}

/* R21: a second sender waits for the end of the batch, so messages never mix. */
static void token(void)
{
	struct smbdirect_send_batch_storage storage;
	struct smbdirect_send_batch *batch = batch_new(&storage);
	struct smbt_pair *pair = pair_opened();
	u32 remaining = 3000;
	struct smbt_task task;

	if (!pair)
		return;
	pattern_fill(data, 3000, 8);
	expect_int("first part", send_kvec(pair->client, batch, data, 1500, &remaining), 0);
	expect_int("flush", smbdirect_connection_send_batch_flush(pair->client, batch, false), 0);
	if (task_start(&task, send_other, pair->client)) {
		msleep(100);
		expect(!task_is_done(&task), "a second message was sent inside the first");
		expect_int("second part",
			   send_kvec(pair->client, batch, data + 1500, 1500, &remaining), 0);
		expect_int("last flush",
			   smbdirect_connection_send_batch_flush(pair->client, batch, true), 0);
		expect_int("the second message", task_join(&task, 3000), 3004);
		msg_expect(pair->server, got, 3000, 8);
		msg_expect(pair->server, got, 3000, 9);
	}
	pair_works(pair);
	pair_close(pair);
}

/* A sender that waits for the right to send is woken by a signal and by the end. */
static void token_waits(void)
{
	struct smbdirect_send_batch_storage storage;
	struct smbdirect_send_batch *batch = batch_new(&storage);
	struct smbt_pair *pair = pair_opened();
	struct smbt_task task;
	u32 remaining = 100;

	if (!pair)
		return;
	pattern_fill(data, 100, 8);
	expect_int("send", send_kvec(pair->client, batch, data, 100, &remaining), 0);
	if (task_start(&task, send_other, pair->client)) {
		msleep(100);
		task_signal(&task);
		expect_int("a signal", task_join(&task, 2000), -ERESTARTSYS);
	}
	if (task_start(&task, send_other, pair->client)) {
		msleep(100);
		smbdirect_socket_shutdown(pair->client);
		expect_int("a shutdown", task_join(&task, 2000), -ENOTCONN);
	}
	expect(smbdirect_connection_send_batch_flush(pair->client, batch, true) < 0 || smbt_ours(),
	       "flush after the end");
	pair_close(pair);
}

static const struct smbt_case cases[] = {
	{ "requests", requests }, /* rules: F1 F2 R25 */
	{ "single", single },
	{ "single_parts", single_parts },
	{ "empty", empty },
	{ "flushes", flushes },
	{ "misuse", misuse }, /* rules: R21 R22 */
	{ "token", token }, /* rules: R21 F3 */
	{ "token_waits", token_waits }, /* rules: R13 R21 F6 */
};

SMBT_SUITE(batch);
