// SPDX-License-Identifier: GPL-2.0
/* Data messages by hand. D, F, K: protocol page; X: testing page. */

#include <linux/delay.h>

#include "raw.h"

/* A connected socket under test, which is a child of the listener or a client without one. */
struct rig {
	struct raw *raw;
	struct smbdirect_socket *listener;
	struct smbdirect_socket *sc;
};

static void rig_down(struct rig *rig)
{
	raw_close(rig->raw);
	sock_end(rig->sc);
	sock_end(rig->listener);
}

static bool rig_up_with(struct rig *rig, const struct smbdirect_socket_parameters *sp)
{
	memset(rig, 0, sizeof(*rig));
	rig->listener = listener_new(sp, 2);
	rig->raw = raw_new();
	if (!rig->listener || !rig->raw)
		return false;
	rig->sc = raw_is_served(rig->raw, rig->listener);
	return rig->sc;
}

static bool rig_up(struct rig *rig)
{
	struct smbdirect_socket_parameters sp;

	smbt_server_params(&sp);
	return rig_up_with(rig, &sp);
}

static bool rig_up_client(struct rig *rig)
{
	memset(rig, 0, sizeof(*rig));
	rig->raw = raw_new();
	if (!rig->raw || !raw_listen(rig->raw))
		return false;
	rig->sc = client_connecting();
	return rig->sc && raw_serves(rig->raw, rig->sc);
}

/* Whether the whole pattern arrives as one message. */
static void arrives(struct rig *rig, size_t len, u32 seed)
{
	u8 *got = kvmalloc(len, GFP_KERNEL);

	if (got)
		msg_expect(rig->sc, got, len, seed);
	kvfree(got);
}

/* X8: legal trains of any kind. */
static void train(struct rig *rig, size_t len, size_t fragment, u32 seed)
{
	u8 *data = kvmalloc(len, GFP_KERNEL);
	size_t at = 0;

	if (!data)
		return;
	pattern_fill(data, len, seed);
	while (at < len) {
		size_t part = min(fragment ?: 1 + (at * 7 + 13) % 1340, len - at);

		if (!expect_int("send", raw_send_data(rig->raw, len - at - part, data + at, part,
						      1, 0), 0))
			break;
		at += part;
	}
	arrives(rig, len, seed);
	kvfree(data);
}

static void trains(void)
{
	struct rig rig;

	if (rig_up(&rig)) {
		train(&rig, 4, 4, 1);
		train(&rig, 1340, 1340, 2);
		train(&rig, 10000, 1340, 3);
		train(&rig, 10000, 1000, 4);
		train(&rig, 50000, 0, 5);
		train(&rig, 100, 1, 6);
	}
	rig_down(&rig);
}

/* D10, D11, D12: odd but legal. */
static void odd_but_legal(void)
{
	struct raw_data *msg = kzalloc(sizeof(*msg) + 200, GFP_KERNEL);
	struct rig rig;
	u8 data[200];

	if (!msg || !rig_up(&rig))
		goto out;
	pattern_fill(data, sizeof(data), 1);
	/* A first fragment without data, and an empty message inside the train. */
	msg->credits_requested = cpu_to_le16(255);
	msg->credits_granted = cpu_to_le16(5);
	msg->remaining = cpu_to_le32(200);
	expect_int("D10: send", raw_send(rig.raw, msg, RAW_EMPTY), 0);
	expect_int("send", raw_send_data(rig.raw, 100, data, 100, 0, 0), 0);
	expect_int("D12: send", raw_send_data(rig.raw, 0, NULL, 0, 1, 0), 0);
	expect_int("send", raw_send_data(rig.raw, 0, data + 100, 100, 0, 0), 0);
	if (smbt_ours())
		arrives(&rig, 200, 1);
	else
		raw_recv(rig.sc, data, 200);
	/* D11: reserved fields, unknown flags, a larger offset, bytes behind the data. */
	msg->flags = cpu_to_le16(0xfffe);
	msg->reserved = cpu_to_le16(0xffff);
	msg->remaining = 0;
	msg->offset = cpu_to_le32(32);
	msg->length = cpu_to_le32(100);
	msg->padding = cpu_to_le32(U32_MAX);
	pattern_fill(msg->payload + 8, 100, 2);
	expect_int("D11: send", raw_send(rig.raw, msg, 24 + 8 + 100 + 20), 0);
	arrives(&rig, 100, 2);
	train(&rig, 3000, 1000, 3);
out:
	rig_down(&rig);
	kfree(msg);
}

/* What ends the connection: nothing of it is delivered. */
static void ends(struct rig *rig, const char *what, const char *rule)
{
	u8 byte;

	if (!smbt_ours() && rule) {
		if (!raw_gone(rig->raw, 500))
			note("C differs from %s: %s", rule, what);
		return;
	}
	expect(raw_gone(rig->raw, 3000), "%s: still connected", what);
	expect(wait_gone(rig->sc, 1000), "%s: our end is connected", what);
	expect_int(what, raw_recv(rig->sc, &byte, 1), -ENOTCONN);
}

static void fatal(const char *what, const char *rule, const struct raw_data *msg, size_t len)
{
	struct rig rig;

	if (rig_up(&rig)) {
		raw_send(rig.raw, msg, len);
		ends(&rig, what, rule);
		/* Others are not affected. */
		listener_works(rig.listener);
	}
	rig_down(&rig);
	if (rig_up_client(&rig)) {
		raw_send(rig.raw, msg, len);
		ends(&rig, what, rule);
	}
	rig_down(&rig);
}

static void header(struct raw_data *msg, u32 remaining, u32 offset, u32 length)
{
	memset(msg, 0, sizeof(*msg));
	msg->credits_requested = cpu_to_le16(255);
	msg->remaining = cpu_to_le32(remaining);
	msg->offset = cpu_to_le32(offset);
	msg->length = cpu_to_le32(length);
}

/* X9, X10 */
static void bad_headers(void)
{
	struct raw_data *msg = kzalloc(2048, GFP_KERNEL);

	if (!msg)
		return;
	header(msg, 0, 24, 100);
	fatal("D1: 19 bytes", NULL, msg, 19);
	fatal("D1: no bytes", NULL, msg, 0);
	fatal("D4: length one too long", NULL, msg, 24 + 99);
	header(msg, 0, 20, 100);
	fatal("D3: offset 20", NULL, msg, 24 + 100);
	header(msg, 0, 25, 99);
	fatal("D3: offset 25", NULL, msg, 24 + 100);
	header(msg, 0, 2000, 0);
	fatal("D4: offset beyond the data", "D4", msg, 24 + 100);
	header(msg, 0, 24, U32_MAX);
	fatal("D4: length all ones", NULL, msg, 24 + 100);
	header(msg, 0, U32_MAX - 7, 100);
	fatal("D4: offset all ones", NULL, msg, 24 + 100);
	header(msg, 0, 16, 100);
	fatal("D8: offset inside the header", "D8", msg, 24 + 100);
	header(msg, 0, 0, 100);
	fatal("D8: offset 0 with data", "D8", msg, 24 + 100);
	header(msg, 0, 24, 100);
	msg->credits_requested = 0;
	fatal("D2: no credits requested", NULL, msg, 24 + 100);
	header(msg, U32_MAX, 24, 100);
	fatal("D5: remaining all ones", NULL, msg, 24 + 100);
	header(msg, 173910 - 99, 24, 100);
	fatal("D5: one more than the fragmented size", NULL, msg, 24 + 100);
	header(msg, 0, 24, 1341);
	fatal("X10: larger than the receive size", NULL, msg, 24 + 1341);
	kfree(msg);
}

/* X11: a second fragment that does not continue the first. */
static void bad_train(const char *what, const char *rule, u32 first, u32 second, u32 len)
{
	struct rig rig;
	u8 data[1000] = { };

	if (rig_up(&rig)) {
		expect_int("send", raw_send_data(rig.raw, first, data, 1000, 1, 0), 0);
		raw_send_data(rig.raw, second, data, len, 1, 0);
		if (smbt_ours())
			expect(raw_gone(rig.raw, 3000), "%s: still connected", what);
		else if (!raw_gone(rig.raw, 500))
			note("C differs from %s: %s", rule, what);
		listener_works(rig.listener);
	}
	rig_down(&rig);
}

static void bad_trains(void)
{
	bad_train("remaining 0 too early", "D6", 2000, 0, 1000);
	bad_train("remaining one too high", "D7", 2000, 1001, 1000);
	bad_train("remaining one too low", "D7", 2000, 999, 1000);
	bad_train("remaining rises", "D7", 2000, 3000, 1000);
	bad_train("remaining does not fall", "D7", 2000, 2000, 1000);
}

/* The server's messages, judged: F1, F2, C2, and the peer's receive size. */
static bool judge(struct raw *raw, size_t len, u32 seed)
{
	u8 *all = kvmalloc(len, GFP_KERNEL);
	struct raw_data *msg = kzalloc(RAW_BUFFER_SIZE, GFP_KERNEL);
	size_t at = 0;

	while (all && msg && at < len) {
		int ret = raw_receive(raw, msg, RAW_BUFFER_SIZE, 3000);
		u32 part = le32_to_cpu(msg->length);

		if (!expect(ret >= (int)RAW_EMPTY, "receive: %d after %zu bytes", ret, at))
			break;
		expect(le16_to_cpu(msg->credits_requested), "C2: no credits requested");
		expect_int("reserved", le16_to_cpu(msg->reserved), 0);
		if (!part) {
			expect_int("empty message", ret, RAW_EMPTY);
			expect_int("empty message's offset", le32_to_cpu(msg->offset), 0);
			continue;
		}
		expect_int("F1: offset", le32_to_cpu(msg->offset), 24);
		expect_int("F1: size", ret, 24 + part);
		expect(ret <= 1364, "F1: a message of %d bytes", ret);
		expect_int("F2: remaining", le32_to_cpu(msg->remaining), len - at - part);
		if (part > len - at)
			break;
		memcpy(all + at, msg->payload, part);
		at += part;
	}
	if (all && at == len)
		pattern_expect("judged", all, len, seed);
	kvfree(all);
	kfree(msg);
	return at == len;
}

static void judged(void)
{
	struct rig rig;
	u8 *data = kvmalloc(40000, GFP_KERNEL);
	size_t len;

	if (!data || !rig_up(&rig))
		goto out;
	expect_int("grant", raw_send_data(rig.raw, 0, NULL, 0, 50, 0), 0);
	for (len = 1; len < 40000; len = len * 5 + 1) {
		pattern_fill(data, len, len);
		expect_int("send", msg_send(rig.sc, data, len), len + 4);
		if (!judge(rig.raw, len, len))
			break;
		expect_int("grant", raw_send_data(rig.raw, 0, NULL, 0, 40, 0), 0);
	}
out:
	rig_down(&rig);
	kvfree(data);
}

static int send_100(void *arg)
{
	u8 data[100];

	pattern_fill(data, sizeof(data), 1);
	return msg_send(arg, data, sizeof(data));
}

/* R27: grants without end neither wrap nor hurt. */
static void over_grant(void)
{
	struct rig rig;
	int i;

	if (rig_up(&rig)) {
		for (i = 0; i < 20; i++)
			expect_int("grant", raw_send_data(rig.raw, 0, NULL, 0, 65535, 0), 0);
		for (i = 0; i < 10; i++) {
			expect_int("send", send_100(rig.sc), 104);
			judge(rig.raw, 100, 1);
		}
		expect(sock_value(rig.sc, "send_credits:") <= 65535 || !smbt_ours(),
		       "R27: %ld credits", sock_value(rig.sc, "send_credits:"));
	}
	rig_down(&rig);
}

/* X13, R13: a server without credits waits, and not for ever. */
static void no_grant(void)
{
	struct smbdirect_socket_parameters sp;
	struct smbt_task task;
	struct rig rig;
	int ret;

	smbt_server_params(&sp);
	sp.keepalive_interval_msec = 600;
	sp.keepalive_timeout_msec = 600;
	if (rig_up_with(&rig, &sp) && task_start(&task, send_100, rig.sc)) {
		msleep(300);
		expect(!task_is_done(&task), "C1: sent without a credit");
		ret = task_join(&task, 5000);
		expect(ret == -ENOTCONN || ret == -ETIMEDOUT, "K4: the sender got %d", ret);
		expect(raw_gone(rig.raw, 3000), "K1: still connected");
	}
	rig_down(&rig);
}

/* R6, K3: a response is requested with the first message, and given once. */
static void response_requested(void)
{
	struct raw_data msg;
	struct rig rig;
	u8 byte = 0;
	int i, n = 0;

	if (rig_up(&rig)) {
		expect_int("send", raw_send_data(rig.raw, 0, &byte, 1, 10, 1), 0);
		expect_int("R6: answer", raw_receive(rig.raw, &msg, sizeof(msg), 1000), RAW_EMPTY);
		expect_int("K3: flags of the answer", le16_to_cpu(msg.flags), 0);
		expect_int("another", raw_receive(rig.raw, &msg, sizeof(msg), 500), -ETIMEDOUT);
		for (i = 0; i < 5; i++)
			raw_send_data(rig.raw, 0, NULL, 0, 0, 1);
		while (raw_receive(rig.raw, &msg, sizeof(msg), 500) > 0)
			n++;
		expect(n >= 1, "K3: no answer to 5 requests");
		expect_rule("K3", "more answers than requests", n > 5, 0);
	}
	rig_down(&rig);
}

/* X12: the server asks for a sign of life; one that answers lives, one that does not is gone. */
static void sign_of_life(void)
{
	struct smbdirect_socket_parameters sp;
	struct raw_data msg;
	struct rig rig;
	int i, ret;

	smbt_server_params(&sp);
	sp.keepalive_interval_msec = 500;
	sp.keepalive_timeout_msec = 700;
	if (rig_up_with(&rig, &sp)) {
		expect_int("grant", raw_send_data(rig.raw, 0, NULL, 0, 20, 0), 0);
		for (i = 0; i < 3; i++) {
			do
				ret = raw_receive(rig.raw, &msg, sizeof(msg), 2000);
			while (ret > 0 && !(le16_to_cpu(msg.flags) & 1));
			expect_int("X12: keepalive", ret, RAW_EMPTY);
			expect_int("answer", raw_send_data(rig.raw, 0, NULL, 0, 1, 0), 0);
		}
		expect(smbdirect_connection_is_connected(rig.sc), "X12: gone in spite of it");
		expect(raw_gone(rig.raw, 4000), "X12: a dead peer is still connected");
		expect_int("why", smbdirect_connection_wait_for_connected(rig.sc), -ETIMEDOUT);
	}
	rig_down(&rig);
}

/* R27, D9: more messages than credits; the server does not read. */
static void over_send(void)
{
	struct rig rig;
	u8 data[8] = { };
	int i, ret = 0;

	if (rig_up(&rig)) {
		for (i = 0; i < 400 && !ret; i++)
			ret = raw_send_data(rig.raw, 0, data, sizeof(data), 0, 0) ?: rig.raw->send_status;
		/* With iWARP a message counts as sent once TCP has it. */
		expect(ret || smbt_iwarp(), "D9: 400 messages on 255 credits were taken");
		expect(i >= 255, "only %d messages were taken", i);
		expect(wait_gone(rig.sc, 4000) || !smbt_ours(), "D9: the server is connected");
		listener_works(rig.listener);
	}
	rig_down(&rig);
}

static const struct smbt_case cases[] = {
	{ "trains", trains }, /* rules: X8 R26 */
	{ "odd_but_legal", odd_but_legal }, /* rules: D10 D11 D12 */
	{ "bad_headers", bad_headers }, /* rules: X9 X10 D1 D2 D3 D4 D5 D8 */
	{ "bad_trains", bad_trains }, /* rules: X11 D6 D7 */
	{ "judged", judged }, /* rules: F1 F2 C2 */
	{ "over_grant", over_grant }, /* rules: R27 C6 */
	{ "no_grant", no_grant }, /* rules: X13 C1 K1 K4 R13 */
	{ "response_requested", response_requested }, /* rules: R6 K3 */
	{ "sign_of_life", sign_of_life }, /* rules: X12 K1 */
	{ "over_send", over_send }, /* rules: X14 R27 D9 */
};

SMBT_SUITE(wire);
