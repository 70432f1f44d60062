// SPDX-License-Identifier: GPL-2.0
/* The server's RDMA transfers and the peer's descriptors. */

#include <linux/delay.h>
#include <linux/sort.h>
#include <linux/unaligned.h>
#include <linux/vmalloc.h>

#include "test.h"

/* A pair with one registered region of the client that the server may use. */
struct rig {
	struct smbt_pair *pair;
	struct smbt_memory *mem;
	struct smbdirect_mr_io *mr;
	struct smbdirect_buffer_descriptor_v1 v1;
	u8 *buf;
	size_t len;
	bool writing;
};

static void rig_down(struct rig *rig)
{
	if (!rig)
		return;
	if (rig->mr)
		smbdirect_connection_deregister_mr_io(rig->mr);
	pair_close(rig->pair);
	memory_free(rig->mem);
	kvfree(rig->buf);
	kfree(rig);
}

/* writing: the server writes. Memory holds pattern 1 and the server's buffer 0xee. */
static struct rig *rig_up(size_t len, bool writing)
{
	struct rig *rig = kzalloc_obj(*rig);

	if (!expect(rig, "no memory"))
		return NULL;
	rig->len = len;
	rig->writing = writing;
	rig->mem = memory_new(SMBT_BVEC, 0, len);
	rig->buf = kvmalloc(len + PAGE_SIZE, GFP_KERNEL);
	rig->pair = pair_opened();
	if (rig->mem && rig->buf && rig->pair) {
		pattern_fill(rig->mem->data, len, 1);
		memset(rig->buf, 0xee, len + PAGE_SIZE);
		rig->mr = region_new(rig->pair, rig->mem, writing, true, &rig->v1);
	}
	if (rig->mr && region_announce(rig->pair))
		return rig;
	rig_down(rig);
	return NULL;
}

static int xmit(struct rig *rig, void *buf, size_t len,
		struct smbdirect_buffer_descriptor_v1 *desc, size_t count)
{
	return smbdirect_connection_rdma_xmit(rig->pair->server, buf, len, desc,
					      count * sizeof(*desc), !rig->writing);
}

/* The region in pieces of the size given, in order. */
static struct smbdirect_buffer_descriptor_v1 *
pieces(struct rig *rig, size_t size, size_t *count)
{
	struct smbdirect_buffer_descriptor_v1 *desc;
	size_t i;

	*count = rig->len / size;
	desc = kvzalloc_objs(*desc, *count);
	for (i = 0; desc && i < *count; i++) {
		desc[i].offset = cpu_to_le64(le64_to_cpu(rig->v1.offset) + i * size);
		desc[i].token = rig->v1.token;
		desc[i].length = cpu_to_le32(size);
	}
	expect(desc, "no memory");
	return desc;
}

/* Many descriptors; the last used one is shortened, further ones are not used. */
static void many_pieces(size_t len, size_t size, size_t used, bool writing)
{
	struct rig *rig = rig_up(len, writing);
	size_t count;
	struct smbdirect_buffer_descriptor_v1 *desc, *copy;

	if (!rig)
		return;
	desc = pieces(rig, size, &count);
	copy = desc ? kvmemdup(desc, count * sizeof(*desc), GFP_KERNEL) : NULL;
	if (!copy)
		goto out;
	if (writing)
		pattern_fill(rig->buf, len, 2);
	expect(!xmit(rig, rig->buf, used, desc, count), "%zu bytes in pieces of %zu", used, size);
	region_answer(rig->pair);
	expect_rule("R39", "descriptors changed", !!memcmp(desc, copy, count * sizeof(*desc)), 0);
	smbdirect_connection_deregister_mr_io(rig->mr);
	rig->mr = NULL;
	if (writing) {
		pattern_expect("written", rig->mem->data, used, 2);
	} else {
		pattern_expect("read", rig->buf, used, 1);
		bytes_expect("behind the buffer", rig->buf + used, PAGE_SIZE, 0xee);
	}
	pair_works(rig->pair);
out:
	kvfree(desc);
	kvfree(copy);
	rig_down(rig);
}

static void several(void)
{
	many_pieces(65536, 16384, 65536, true);
	many_pieces(65536, 16384, 65536, false);
	many_pieces(65536, 16384, 50001, true);
	many_pieces(65536, 16384, 50001, false);
	many_pieces(65536, 65536, 1, true);
	many_pieces(65536, 65536, 1, false);
}

static void hundreds(void)
{
	if (skip_unless_ours("waits for ever for more credits than there are (R42)"))
		return;
	many_pieces(131072, 4096, 131072, true);
	many_pieces(131072, 4096, 131072, false);
	many_pieces(131072, 512, 131072 - 1, true);
	many_pieces(131072, 512, 131072 - 1, false);
	many_pieces(20000, 1, 1500, true);
}

/* Several regions, and any alignment and kind of the server's memory. */
static void local_memory(void)
{
	struct rig *rig = rig_up(100000, false);
	u8 *small;
	int i;

	for (i = 0; rig && i < 3; i++) {
		expect_int("unaligned", xmit(rig, rig->buf + 1 + i * 511, 99999, &rig->v1, 1), 0);
		pattern_expect("unaligned", rig->buf + 1 + i * 511, 99999, 1);
	}
	small = kmalloc(1000, GFP_KERNEL);
	if (rig && small) {
		expect_int("small", xmit(rig, small + 3, 900, &rig->v1, 1), 0);
		pattern_expect("small", small + 3, 900, 1);
	}
	kfree(small);
	rig_down(rig);
}

/* The whole of the server's largest request: 8 MiB out of eight regions. */
static void maximum(void)
{
	struct smbt_pair *pair = pair_opened();
	struct smbt_memory *mem[8] = { };
	struct smbdirect_mr_io *mr[8] = { };
	size_t part = 1 << 20;
	u8 *buf = vmalloc(8 * part + 1);
	struct smbdirect_buffer_descriptor_v1 desc[8];
	int i, ret = -EIO;

	for (i = 0; pair && buf && i < 8; i++) {
		mem[i] = memory_new(SMBT_FOLIOQ, 0, part);
		if (!mem[i])
			break;
		pattern_fill(mem[i]->data, part, i);
		mr[i] = region_new(pair, mem[i], false, true, &desc[i]);
		if (!mr[i])
			break;
	}
	if (i == 8 && region_announce(pair)) {
		ret = smbdirect_connection_rdma_xmit(pair->server, buf, 8 * part + 1, desc,
						     sizeof(desc), true);
		expect_int("one byte more", ret, -EINVAL);
		ret = smbdirect_connection_rdma_xmit(pair->server, buf, 8 * part, desc,
						     sizeof(desc), true);
		expect_int("8 MiB", ret, 0);
		pair_works(pair);
	}
	for (i = 0; i < 8; i++) {
		if (!ret)
			pattern_expect("read", buf + i * part, part, i);
		if (mr[i])
			smbdirect_connection_deregister_mr_io(mr[i]);
	}
	pair_close(pair);
	for (i = 0; i < 8; i++)
		memory_free(mem[i]);
	vfree(buf);
}

/* Refused before anything moves; the connection stays. */
static void refused(bool writing)
{
	struct rig *rig = rig_up(8192, writing);
	struct smbdirect_buffer_descriptor_v1 desc[3];
	size_t size = 9000;

	if (!rig)
		return;
	desc[0] = rig->v1;
	desc[1] = rig->v1;
	desc[1].length = 0;
	desc[2] = rig->v1;
	expect_int("a descriptor of length 0", xmit(rig, rig->buf, size, desc, 3), -EINVAL);
	expect_int("only that", xmit(rig, rig->buf, size, desc + 1, 1), -EINVAL);
	expect_int("more than the largest", xmit(rig, rig->buf, (8 << 20) + 1, desc, 3), -EINVAL);
	expect_int("an unused one of length 0", xmit(rig, rig->buf, 8192, desc, 2), 0);
	memset(rig->buf, 0xee, rig->len);
	if (smbt_ours()) {
		/* C moves the part it has descriptors for, or posts nothing and waits for it. */
		expect_int("R41: too short", xmit(rig, rig->buf, 8193, desc, 1), -EINVAL);
		expect_int("R41: none", xmit(rig, rig->buf, 1, desc, 0), -EINVAL);
		expect_int("R41: no array", xmit(rig, rig->buf, 1, NULL, 0), -EINVAL);
		bytes_expect("R41: the buffer", rig->buf, rig->len, 0xee);
	}
	pair_works(rig->pair);
	rig_down(rig);
}

static void refusals(void)
{
	refused(true);
	refused(false);
}

/* R40 */
static void nothing(void)
{
	struct rig *rig;

	if (skip_unless_ours("waits for ever (R40)"))
		return;
	rig = rig_up(4096, false);
	if (!rig)
		return;
	expect_int("R40: no bytes", xmit(rig, rig->buf, 0, &rig->v1, 1), 0);
	expect_int("R40: no bytes, no descriptor", xmit(rig, rig->buf, 0, NULL, 0), 0);
	pair_works(rig->pair);
	rig_down(rig);
}

/* What the peer's device refuses ends the connection and touches nothing else. */
static void bad_descriptor(bool writing, u64 offset, u32 token, u32 length)
{
	struct rig *rig = rig_up(8192, writing);

	if (!rig)
		return;
	put_unaligned_le64(le64_to_cpu(rig->v1.offset) + offset, &rig->v1.offset);
	put_unaligned_le32(le32_to_cpu(rig->v1.token) ^ token, &rig->v1.token);
	rig->v1.length = cpu_to_le32(length);
	expect_refused(rig->pair->server, "transfer",
		       xmit(rig, rig->buf, length, &rig->v1, 1), writing);
	expect(wait_gone(rig->pair->server, 5000), "the server is still connected");
	expect(wait_gone(rig->pair->client, 5000), "the client is still connected");
	pattern_expect("memory", rig->mem->data, 8192, 1);
	expect_int("another", xmit(rig, rig->buf, length, &rig->v1, 1), -ENOTCONN);
	rig_down(rig);
}

static void bad_descriptors(void)
{
	bad_descriptor(true, 0, 0xff00, 4096);
	bad_descriptor(false, 0, 0xff00, 4096);
	bad_descriptor(true, 8192, 0, 4096);
	bad_descriptor(false, 8192, 0, 4096);
	bad_descriptor(true, -1ULL << 40, 0, 4096);
}

/* A region is open in one direction only. */
static void wrong_direction(void)
{
	struct rig *rig = rig_up(4096, false);

	if (!rig)
		return;
	/* Registered for reading; the server writes. */
	rig->writing = true;
	expect_refused(rig->pair->server, "a write to a region for reading",
		       xmit(rig, rig->buf, 4096, &rig->v1, 1), true);
	expect(wait_gone(rig->pair->server, 5000), "the server is still connected");
	pattern_expect("memory", rig->mem->data, 4096, 1);
	rig_down(rig);
}

static int xmit_for_ever(void *arg)
{
	struct rig *rig = arg;
	int ret = 0;

	while (!ret)
		ret = xmit(rig, rig->buf, rig->len, &rig->v1, 1);
	/* R44: the buffer is the caller's again. */
	kvfree(rig->buf);
	rig->buf = NULL;
	return ret;
}

/* The end comes while bytes move. */
static void under_way(bool writing, bool at_server)
{
	struct rig *rig = rig_up(1 << 20, writing);
	struct smbt_task task;
	int ret;

	if (!rig)
		return;
	if (task_start(&task, xmit_for_ever, rig)) {
		msleep(300);
		smbdirect_socket_shutdown(at_server ? rig->pair->server : rig->pair->client);
		ret = task_join(&task, 4000);
		expect(ret == -EIO || ret == -ENOTCONN || ret == -ECONNRESET || ret == -ESHUTDOWN,
		       "the transfer got %d", ret);
	}
	rig_down(rig);
}

static void interrupted(void)
{
	/* A chain that siw does not finish leaves the control waiting. */
	if (smbt_iwarp() && skip_unless_ours("waits for ever"))
		return;
	under_way(true, true);
	under_way(true, false);
	under_way(false, true);
	under_way(false, false);
}

#define TOKENS 200

static int compare_tokens(const void *a, const void *b)
{
	u32 left = *(const u32 *)a, right = *(const u32 *)b;

	return left < right ? -1 : left > right;
}

/* M4: as many tokens as registrations, whether the peer ever heard of them or not. */
static void fresh_tokens(void)
{
	struct smbt_memory *mem = memory_new(SMBT_BVEC, 0, 4096);
	u32 *tokens = kmalloc_array(TOKENS, sizeof(*tokens), GFP_KERNEL);
	struct smbdirect_buffer_descriptor_v1 v1;
	struct smbt_pair *pair = pair_opened();
	struct smbdirect_mr_io *mr;
	int i, twice = 0;

	for (i = 0; pair && mem && tokens && i < TOKENS; i++) {
		mr = region_new(pair, mem, i & 2, true, &v1);
		if (!mr)
			break;
		tokens[i] = le32_to_cpu(v1.token);
		if (i & 1)
			region_announce(pair);
		smbdirect_connection_deregister_mr_io(mr);
	}
	if (i == TOKENS) {
		sort(tokens, TOKENS, sizeof(*tokens), compare_tokens, NULL);
		for (i = 1; i < TOKENS; i++)
			twice += tokens[i] == tokens[i - 1];
		expect_int("M4: tokens given again", twice, 0);
		pair_works(pair);
	}
	pair_close(pair);
	memory_free(mem);
	kfree(tokens);
}

/* M4: what a second connection of the same two can do with the descriptor of the rig's. */
static void elsewhere(struct rig *rig, struct smbdirect_socket *listener, const char *what)
{
	struct smbdirect_socket *client = client_connecting();
	struct smbdirect_socket *server = client ? accept_one(listener, 5000) : NULL;
	int ret;

	if (server && expect_int("wait", smbdirect_connection_wait_for_connected(client), 0)) {
		ret = smbdirect_connection_rdma_xmit(server, rig->buf, rig->len, &rig->v1,
						     sizeof(rig->v1), !rig->writing);
		expect_refused(server, what, ret, rig->writing);
		expect(wait_gone(server, 5000), "%s: the server is still connected", what);
		if (rig->writing)
			pattern_expect(what, rig->mem->data, rig->len, 1);
		else
			bytes_expect(what, rig->buf, rig->len, 0xee);
	}
	sock_end(client);
	sock_end(server);
}

/* A token while it is in force, after that, and after the connection. */
static void foreign_token(bool writing)
{
	struct rig *rig = rig_up(4096, writing);
	struct smbdirect_socket *listener;

	if (!rig)
		return;
	listener = rig->pair->listener;
	elsewhere(rig, listener, "M4: a token of another connection");
	/* Nothing of it is left on the way when the answer is there. */
	expect_int("its own", xmit(rig, rig->buf + PAGE_SIZE, 0x100, &rig->v1, 1), 0);
	region_answer(rig->pair);
	pattern_fill(rig->mem->data, rig->len, 1);
	smbdirect_connection_deregister_mr_io(rig->mr);
	rig->mr = NULL;
	elsewhere(rig, listener, "M4: a stale token");
	rig->pair->listener = NULL;
	pair_close(rig->pair);
	rig->pair = NULL;
	elsewhere(rig, listener, "M4: a token after its connection");
	sock_end(listener);
	rig_down(rig);
}

static void foreign_tokens(void)
{
	foreign_token(true);
	foreign_token(false);
}

static const struct smbt_case cases[] = {
	{ "several", several }, /* rules: R39 B1 */
	{ "hundreds", hundreds }, /* rules: R42 B5 X15 */
	{ "local_memory", local_memory },
	{ "maximum", maximum }, /* rules: B7 X15 */
	{ "refusals", refusals }, /* rules: R41 B2 B7 X18 */
	{ "nothing", nothing }, /* rules: R40 B3 X18 */
	{ "bad_descriptors", bad_descriptors }, /* rules: X16 */
	{ "wrong_direction", wrong_direction }, /* rules: M1 */
	{ "interrupted", interrupted }, /* rules: R44 B8 */
	{ "fresh_tokens", fresh_tokens }, /* rules: M4 */
	{ "foreign_tokens", foreign_tokens }, /* rules: M4 X16 */
};

SMBT_SUITE(transfer);
