// SPDX-License-Identifier: GPL-2.0
/* Memory regions: register, fill, deregister, and one transfer each. */

#include <linux/delay.h>
#include <linux/vmalloc.h>

#include "test.h"

/* Register all of mem; NULL when it fails, which is recorded. */
struct smbdirect_mr_io *region_new(struct smbt_pair *pair, struct smbt_memory *mem, bool writing,
				   bool need_invalidate, struct smbdirect_buffer_descriptor_v1 *v1)
{
	struct smbdirect_mr_io *mr;
	struct iov_iter iter;

	memory_iter(mem, writing ? ITER_DEST : ITER_SOURCE, &iter);
	mr = smbdirect_connection_register_mr_io(pair->client, &iter, writing, need_invalidate);
	if (!expect(mr, "register of %zu bytes (%s) failed", mem->len, memory_kind(mem->kind)))
		return NULL;
	expect_int("left in the iterator", iov_iter_count(&iter), 0);
	memset(v1, 0, sizeof(*v1));
	smbdirect_mr_io_fill_buffer_descriptor(mr, v1);
	expect_int("length in the descriptor", le32_to_cpu(v1->length), mem->len);
	expect(v1->offset != cpu_to_le64(U64_MAX), "no address in the descriptor");
	return mr;
}

/* The request that names the region; the registration goes out before it. */
bool region_announce(struct smbt_pair *pair)
{
	u8 data[64];

	pattern_fill(data, sizeof(data), 1);
	return expect_int("request", msg_send(pair->client, data, sizeof(data)), 68) &&
	       msg_expect(pair->server, data, sizeof(data), 1);
}

/* The answer to it. After it the client knows that what the server wrote is there. */
bool region_answer(struct smbt_pair *pair)
{
	u8 data[64];

	pattern_fill(data, sizeof(data), 2);
	return expect_int("answer", msg_send(pair->server, data, sizeof(data)), 68) &&
	       msg_expect(pair->client, data, sizeof(data), 2);
}

static int xmit(struct smbt_pair *pair, void *buf, size_t len,
		struct smbdirect_buffer_descriptor_v1 *v1, bool is_read)
{
	return smbdirect_connection_rdma_xmit(pair->server, buf, len, v1, sizeof(*v1), is_read);
}

/* One SMB read (the server writes) or write (the server reads) of mem's size. */
static void round_trip(struct smbt_pair *pair, enum smbt_kind kind, size_t offset, size_t len,
		       bool writing, bool need_invalidate)
{
	struct smbt_memory *mem = memory_new(kind, offset, len);
	struct smbdirect_buffer_descriptor_v1 v1;
	struct smbdirect_mr_io *mr;
	u8 *buf = kvzalloc(len, GFP_KERNEL);
	u32 seed = len + offset;
	int ret;

	if (!mem || !expect(buf, "no memory"))
		goto out;
	pattern_fill(writing ? buf : mem->data, len, seed);
	mr = region_new(pair, mem, writing, need_invalidate, &v1);
	if (!mr)
		goto out;
	if (region_announce(pair)) {
		ret = xmit(pair, buf, len, &v1, !writing);
		expect(!ret, "%s of %zu (%s): %d", writing ? "write" : "read", len,
		       memory_kind(kind), ret);
		region_answer(pair);
	}
	smbdirect_connection_deregister_mr_io(mr);
	pattern_expect(writing ? "written" : "read", writing ? mem->data : buf, len, seed);
out:
	memory_free(mem);
	kvfree(buf);
}

/* Without an invalidation by the peer the control would register over a valid region (R33). */
static void all_kinds(size_t offset, size_t len)
{
	struct smbt_pair *pair = pair_opened();
	int kind, i;

	for (kind = 0; pair && kind < SMBT_KINDS; kind++)
		for (i = 0; i < 4; i++)
			round_trip(pair, kind, offset, len, i & 1, i & 2 || !smbt_ours());
	if (pair) {
		expect_int("regions in use", sock_value(pair->client, "mr_used_count:"), 0);
		pair_works(pair);
	}
	pair_close(pair);
}

static void byte(void)
{
	all_kinds(4095, 1);
}

static void page(void)
{
	all_kinds(0, 4096);
}

static void unaligned(void)
{
	all_kinds(77, 70001);
}

static void mebibyte(void)
{
	all_kinds(0, 1 << 20);
}

/* As much as a region holds. */
static void largest(void)
{
	struct smbt_pair *pair = pair_opened();
	long depth;

	if (!pair)
		return;
	depth = sock_value(pair->client, "max_frmr_depth:");
	expect_int("depth", depth, smbt_region_pages());
	round_trip(pair, SMBT_BVEC, 0, depth * PAGE_SIZE, true, true);
	round_trip(pair, SMBT_FOLIOQ, 0, depth * PAGE_SIZE, false, true);
	round_trip(pair, SMBT_FOLIOQ, 1, depth * PAGE_SIZE - 1, true, true);
	pair_works(pair);
	pair_close(pair);
}

/* R36: one page too many fails this request only. */
static void too_large(void)
{
	struct smbt_pair *pair;
	struct smbt_memory *mem;
	struct iov_iter iter;
	int kind;

	if (skip_unless_ours("warns (R36)"))
		return;
	pair = pair_opened();
	for (kind = 0; pair && kind < SMBT_KINDS; kind++) {
		mem = memory_new(kind, 1, smbt_region_pages() * PAGE_SIZE);
		if (!mem)
			break;
		memory_iter(mem, ITER_DEST, &iter);
		expect(!smbdirect_connection_register_mr_io(pair->client, &iter, true, true),
		       "one page more registered (%s)", memory_kind(kind));
		memory_free(mem);
	}
	if (pair) {
		expect_int("regions in use", sock_value(pair->client, "mr_used_count:"), 0);
		expect_int("regions free", sock_value(pair->client, "mr_ready_count:"), 16);
		pair_works(pair);
	}
	pair_close(pair);
}

/* R35: segments with gaps between them, which no device maps in one registration. */
static void gaps(struct smbt_pair *pair, bool writing)
{
	struct smbt_memory *mem = memory_new(SMBT_BVEC, 0, 4 * PAGE_SIZE);
	struct smbdirect_buffer_descriptor_v1 v1;
	struct smbdirect_mr_io *mr;
	static u8 buf[1000], all[1000];
	struct iov_iter iter;
	int i;

	if (!mem)
		return;
	for (i = 0; i < 4; i++)
		bvec_set_page(&mem->bvec[i], mem->page[i], 250, 100 + 333 * i);
	iov_iter_bvec(&iter, writing ? ITER_DEST : ITER_SOURCE, mem->bvec, 4, sizeof(buf));
	pattern_fill(all, sizeof(all), 6);
	for (i = 0; !writing && i < 4; i++)
		memcpy(mem->data + i * PAGE_SIZE + 100 + 333 * i, all + 250 * i, 250);
	mr = smbdirect_connection_register_mr_io(pair->client, &iter, writing, true);
	if (expect(mr, "R35: register failed")) {
		smbdirect_mr_io_fill_buffer_descriptor(mr, &v1);
		expect_int("length", le32_to_cpu(v1.length), sizeof(buf));
		memcpy(buf, all, sizeof(buf));
		if (!writing)
			memset(buf, 0, sizeof(buf));
		region_announce(pair);
		expect_int("transfer", xmit(pair, buf, sizeof(buf), &v1, !writing), 0);
		region_answer(pair);
		smbdirect_connection_deregister_mr_io(mr);
		for (i = 0; writing && i < 4; i++)
			memcpy(buf + 250 * i, mem->data + i * PAGE_SIZE + 100 + 333 * i, 250);
		pattern_expect("transferred", buf, sizeof(buf), 6);
	}
	memory_free(mem);
}

static void with_gaps(void)
{
	struct smbt_pair *pair;

	if (skip_unless_ours("ends the connection (R35)"))
		return;
	pair = pair_opened();
	if (!pair)
		return;
	gaps(pair, true);
	gaps(pair, false);
	pair_works(pair);
	pair_close(pair);
}

static int answer_invalidating(struct smbt_pair *pair, u32 key)
{
	__be32 length = cpu_to_be32(64);
	u8 data[64];
	struct kvec vec[2] = { { &length, 4 }, { data, sizeof(data) } };
	struct iov_iter iter;

	pattern_fill(data, sizeof(data), 2);
	iov_iter_kvec(&iter, ITER_SOURCE, vec, 2, 68);
	return smbdirect_connection_send_iter(pair->server, &iter, 0, true, key);
}

/* The peer invalidates with its answer. */
static void remote_invalidation(void)
{
	struct smbt_memory *mem = memory_new(SMBT_FOLIOQ, 0, 10000);
	u8 *buf = kzalloc(10000, GFP_KERNEL), data[64];
	struct smbdirect_buffer_descriptor_v1 v1;
	struct smbt_pair *pair = pair_opened();
	struct smbdirect_mr_io *mr;
	int i;

	for (i = 0; pair && mem && buf && i < 40; i++) {
		pattern_fill(buf, 10000, i);
		mr = region_new(pair, mem, true, false, &v1);
		if (!mr || !region_announce(pair))
			break;
		expect_int("write", xmit(pair, buf, 10000, &v1, false), 0);
		expect_int("answer", answer_invalidating(pair, le32_to_cpu(v1.token)), 68);
		msg_expect(pair->client, data, sizeof(data), 2);
		smbdirect_connection_deregister_mr_io(mr);
		if (!pattern_expect("written", mem->data, 10000, i))
			break;
	}
	if (pair)
		pair_works(pair);
	pair_close(pair);
	memory_free(mem);
	kfree(buf);
}

/* R33: whatever the peer did or did not do, it cannot reach the memory afterwards. */
static void unreachable_after(bool need_invalidate, bool announce)
{
	struct smbt_memory *mem = memory_new(SMBT_BVEC, 0, 4096);
	struct smbdirect_buffer_descriptor_v1 v1;
	struct smbt_pair *pair = pair_opened();
	struct smbdirect_mr_io *mr;
	u8 *buf = kmalloc(4096, GFP_KERNEL);
	int ret;

	if (!pair || !mem || !buf)
		goto out;
	memset(buf, 0x55, 4096);
	mr = region_new(pair, mem, true, need_invalidate, &v1);
	if (!mr)
		goto out;
	if (announce)
		region_announce(pair);
	smbdirect_connection_deregister_mr_io(mr);
	memset(mem->data, 0xaa, 4096);
	pair_works(pair);
	ret = xmit(pair, buf, 4096, &v1, false);
	if (smbt_ours()) {
		expect_refused(pair->server, "R33: a write after deregister", ret, true);
		expect(wait_gone(pair->server, 5000), "R33: the server is still connected");
	} else if (smbt_iwarp()) {
		wait_gone(pair->server, 2000);
	}
	if (smbt_ours() || need_invalidate)
		bytes_expect("R33: the memory", mem->data, 4096, 0xaa);
out:
	pair_close(pair);
	memory_free(mem);
	kfree(buf);
}

static void stale_key(void)
{
	unreachable_after(true, true);
	unreachable_after(false, true);
	unreachable_after(true, false);
	unreachable_after(false, false);
}

/* The peer invalidates one of two regions, whatever the client asked for (I3). */
static void one_of_two(void)
{
	struct smbdirect_buffer_descriptor_v1 v1[2];
	struct smbt_memory *mem = memory_new(SMBT_BVEC, 0, 4096);
	struct smbdirect_mr_io *mr[2];
	struct smbt_pair *pair;
	u8 data[64];
	int i;

	if (skip_unless_ours("registers over a valid region (R33)"))
		goto out;
	pair = pair_opened();
	for (i = 0; pair && mem && i < 50; i++) {
		mr[0] = region_new(pair, mem, true, i & 1, &v1[0]);
		mr[1] = region_new(pair, mem, true, i & 2, &v1[1]);
		if (!mr[0] || !mr[1])
			break;
		expect(v1[0].token != v1[1].token, "one token for two regions");
		region_announce(pair);
		expect_int("answer", answer_invalidating(pair, le32_to_cpu(v1[i % 2].token)), 68);
		msg_expect(pair->client, data, sizeof(data), 2);
		smbdirect_connection_deregister_mr_io(mr[0]);
		smbdirect_connection_deregister_mr_io(mr[1]);
		if (!pair_works(pair))
			break;
	}
	if (pair)
		expect_int("regions in use", sock_value(pair->client, "mr_used_count:"), 0);
	pair_close(pair);
out:
	memory_free(mem);
}

/* X17: a token that the server invalidated itself is dead. */
static void used_up_key(void)
{
	struct smbt_memory *mem = memory_new(SMBT_BVEC, 0, 4096);
	struct smbdirect_buffer_descriptor_v1 v1;
	struct smbt_pair *pair = pair_opened();
	struct smbdirect_mr_io *mr = NULL;
	u8 *buf = kzalloc(4096, GFP_KERNEL), data[64];

	if (pair && mem && buf)
		mr = region_new(pair, mem, true, false, &v1);
	if (mr && region_announce(pair)) {
		expect_int("write", xmit(pair, buf, 4096, &v1, false), 0);
		expect_int("answer", answer_invalidating(pair, le32_to_cpu(v1.token)), 68);
		msg_expect(pair->client, data, sizeof(data), 2);
		memset(mem->data, 0xaa, 4096);
		expect_refused(pair->server, "write again",
			       xmit(pair, buf, 4096, &v1, false), true);
		expect(wait_gone(pair->server, 5000), "the server is still connected");
		bytes_expect("the memory", mem->data, 4096, 0xaa);
	}
	if (mr)
		smbdirect_connection_deregister_mr_io(mr);
	pair_close(pair);
	memory_free(mem);
	kfree(buf);
}

/* R36: what cannot be registered fails this request only. */
static void not_memory(void)
{
	struct smbt_pair *pair;
	struct iov_iter iter;
	struct kvec vec = { &iter, 0 };

	if (skip_unless_ours("ends the connection (R36)"))
		return;
	pair = pair_opened();
	if (!pair)
		return;
	iov_iter_kvec(&iter, ITER_DEST, &vec, 1, 0);
	expect(!smbdirect_connection_register_mr_io(pair->client, &iter, true, true),
	       "no bytes registered");
	iov_iter_discard(&iter, ITER_DEST, 100);
	expect(!smbdirect_connection_register_mr_io(pair->client, &iter, true, true),
	       "nothing registered");
	expect_int("regions in use", sock_value(pair->client, "mr_used_count:"), 0);
	expect_int("regions free", sock_value(pair->client, "mr_ready_count:"), 16);
	pair_works(pair);
	pair_close(pair);
}

/* R34: the peer names a key that is none of ours. */
static void foreign_key(void)
{
	struct smbt_pair *pair;

	if (skip_unless_ours("waits for ever (R34)"))
		return;
	pair = pair_opened();
	if (!pair)
		return;
	answer_invalidating(pair, 0xdeadbeef);
	expect(wait_gone(pair->client, 5000), "the client is still connected");
	pair_close(pair);
}

static struct smbdirect_mr_io *register_page(struct smbdirect_socket *sc, struct smbt_memory *mem)
{
	struct iov_iter iter;

	memory_iter(mem, ITER_DEST, &iter);
	return smbdirect_connection_register_mr_io(sc, &iter, true, true);
}

struct waiting {
	struct smbdirect_socket *sc;
	struct smbt_memory *mem;
	struct smbdirect_mr_io *mr;
};

static int register_waiting(void *arg)
{
	struct waiting *waiting = arg;

	waiting->mr = register_page(waiting->sc, waiting->mem);
	return 0;
}

/* R38: all regions in use; the next one waits for one, a signal, or the end. */
static void pool_empty(struct smbt_pair *pair, struct smbdirect_mr_io **mr, long count,
		       struct waiting *waiting)
{
	struct smbt_task task;

	expect_int("free", sock_value(pair->client, "mr_ready_count:"), 0);
	expect_int("used", sock_value(pair->client, "mr_used_count:"), count);
	if (!task_start(&task, register_waiting, waiting))
		return;
	msleep(100);
	expect(!task_is_done(&task), "register did not wait");
	task_signal(&task);
	task_join(&task, 2000);
	expect(!waiting->mr, "register gave a region out of nothing");
	if (!task_start(&task, register_waiting, waiting))
		return;
	msleep(100);
	smbdirect_connection_deregister_mr_io(mr[0]);
	task_join(&task, 3000);
	mr[0] = waiting->mr;
	expect(mr[0], "register gave up");
	if (!task_start(&task, register_waiting, waiting))
		return;
	msleep(100);
	smbdirect_socket_shutdown(pair->server);
	task_join(&task, 5000);
	expect(!waiting->mr, "register gave a region after the end");
}

/* R37: a region outlives its socket. */
static void deregister_late(struct smbdirect_mr_io *mr)
{
	struct smbdirect_buffer_descriptor_v1 v1 = { };

	smbdirect_mr_io_fill_buffer_descriptor(mr, &v1);
	bytes_expect("R37: descriptor after release", &v1, sizeof(v1), 0xff);
	smbdirect_connection_deregister_mr_io(mr);
}

/* P9: ours makes more of them when they are needed, up to what the parameters asked for before the negotiation. */
long regions_limit(struct smbdirect_socket *sc)
{
	struct smbdirect_socket_parameters sp;

	smbt_client_params(&sp);
	return smbt_ours() ? 2 * sp.responder_resources : sock_value(sc, "mr_ready_count:");
}

static void exhausted(void)
{
	struct smbt_pair *pair = pair_opened();
	struct smbdirect_mr_io *mr[64] = { };
	struct waiting waiting = { };
	long count = 0, i = 0;

	waiting.mem = memory_new(SMBT_BVEC, 0, 4096);
	if (pair && waiting.mem) {
		waiting.sc = pair->client;
		count = regions_limit(pair->client);
		expect(count > 0 && count <= 64, "%ld regions", count);
		for (i = 0; i < min(count, 64); i++) {
			mr[i] = register_page(pair->client, waiting.mem);
			if (!expect(mr[i], "region %ld of %ld is not there", i, count))
				break;
		}
		if (i == count)
			pool_empty(pair, mr, count, &waiting);
	}
	/* Some before the socket goes, some after it. */
	for (i = 0; i < 8; i++)
		if (mr[i])
			smbdirect_connection_deregister_mr_io(mr[i]);
	pair_close(pair);
	for (; i < ARRAY_SIZE(mr); i++)
		if (mr[i])
			deregister_late(mr[i]);
	memory_free(waiting.mem);
}

static const struct smbt_case cases[] = {
	{ "byte", byte },
	{ "page", page }, /* rules: M3 */
	{ "unaligned", unaligned },
	{ "mebibyte", mebibyte },
	{ "largest", largest },
	{ "too_large", too_large }, /* rules: R36 */
	{ "with_gaps", with_gaps }, /* rules: R35 M2 */
	{ "remote_invalidation", remote_invalidation }, /* rules: I1 I2 I5 */
	{ "one_of_two", one_of_two }, /* rules: I3 X19 */
	{ "used_up_key", used_up_key }, /* rules: X17 */
	{ "not_memory", not_memory }, /* rules: R36 */
	{ "stale_key", stale_key }, /* rules: R33 M5 X16 */
	{ "foreign_key", foreign_key }, /* rules: R34 I4 X19 */
	{ "exhausted", exhausted }, /* rules: R37 R38 P9 */
};

SMBT_SUITE(region);
