// SPDX-License-Identifier: GPL-2.0
/* A listener under test and a client that breaks the rules of negotiation. X: testing page. */

#include <linux/delay.h>

#include "raw.h"

static struct smbdirect_socket *listener_impatient(void)
{
	struct smbdirect_socket_parameters sp;

	smbt_server_params(&sp);
	sp.negotiate_timeout_msec = 1000;
	return listener_new(&sp, 2);
}

/* What becomes of a first message of len bytes: accepted, or an error of accept. */
static int negotiate(struct smbdirect_socket *listener, const void *data, size_t len,
		     struct raw_response *rsp)
{
	struct smbdirect_socket *server = NULL;
	struct proto_accept_arg arg = { };
	struct raw *raw = raw_new();
	int ret = -EIO, tries = 0;

	memset(rsp, 0, sizeof(*rsp));
	if (raw && raw_connect(raw) && expect_int("send", raw_send(raw, data, len), 0)) {
		/* On a busy machine either takes its time. */
		do {
			server = smbdirect_socket_accept(listener, HZ / 5, &arg);
		} while (!server && !raw_gone(raw, 0) && ++tries < 15);
		ret = server ? 0 : arg.err;
		/* A failure response may come before the end. */
		if (raw_receive(raw, rsp, sizeof(*rsp), 3000) > 0 && !server)
			expect(le32_to_cpu(rsp->status), "a good response without an accept");
		expect(server || raw_gone(raw, 3000), "refused, but still connected");
	}
	raw_close(raw);
	sock_end(server);
	return ret;
}

/* X1, X2 */
static void lengths(void)
{
	struct smbdirect_socket *listener = listener_impatient();
	struct raw_response rsp;
	struct raw_request *req;
	u8 data[512] = { };

	if (!listener)
		return;
	req = (struct raw_request *)data;
	raw_request_good(req);
	expect_int("X1: 20 bytes", negotiate(listener, data, 20, &rsp), 0);
	expect_int("X1: 512 bytes", negotiate(listener, data, 512, &rsp), 0);
	expect_int("X2: 19 bytes", negotiate(listener, data, 19, &rsp), -ETIMEDOUT);
	expect_int("X2: no answer", le16_to_cpu(rsp.min_version), 0);
	expect_int("X2: 1 byte", negotiate(listener, data, 1, &rsp), -ETIMEDOUT);
	expect_int("X2: no byte", negotiate(listener, data, 0, &rsp), -ETIMEDOUT);
	listener_works(listener);
	sock_end(listener);
}

static void version(struct smbdirect_socket *listener, u16 min, u16 max, bool good)
{
	struct raw_response rsp;
	struct raw_request req;

	raw_request_good(&req);
	req.min_version = cpu_to_le16(min);
	req.max_version = cpu_to_le16(max);
	note("versions %04x to %04x", min, max);
	expect_int("X3: accept", negotiate(listener, &req, sizeof(req), &rsp),
		   good ? 0 : -ETIMEDOUT);
	expect_int("X3: status", le32_to_cpu(rsp.status), good ? 0 : 0xc00000bb);
	expect_int("X3: min_version", le16_to_cpu(rsp.min_version), 0x0100);
	expect_int("X3: max_version", le16_to_cpu(rsp.max_version), 0x0100);
	if (good)
		expect_int("X3: negotiated", le16_to_cpu(rsp.negotiated_version), 0x0100);
	else
		bytes_expect("X3: the rest of the answer", &rsp.credits_requested, 4, 0);
}

/* X3 */
static void versions(void)
{
	struct smbdirect_socket *listener = listener_impatient();

	if (!listener)
		return;
	version(listener, 0x0100, 0x0100, true);
	version(listener, 0x0000, 0xffff, true);
	version(listener, 0x0100, 0x0200, true);
	version(listener, 0x0101, 0xffff, false);
	version(listener, 0x0000, 0x00ff, false);
	version(listener, 0x0200, 0x0000, false);
	listener_works(listener);
	sock_end(listener);
}

enum field { CREDITS, PREFERRED, RECEIVE, FRAGMENTED };

static int with_field(struct smbdirect_socket *listener, enum field field, u32 value,
		      struct raw_response *rsp)
{
	struct raw_request req;

	raw_request_good(&req);
	switch (field) {
	case CREDITS:
		req.credits_requested = cpu_to_le16(value);
		break;
	case PREFERRED:
		req.preferred_send_size = cpu_to_le32(value);
		break;
	case RECEIVE:
		req.max_receive_size = cpu_to_le32(value);
		break;
	case FRAGMENTED:
		req.max_fragmented_size = cpu_to_le32(value);
		break;
	}
	note("field %d is %u", field, value);
	return negotiate(listener, &req, sizeof(req), rsp);
}

/* X4, X5 */
static void fields(void)
{
	static const u32 good[][2] = {
		{ CREDITS, 1 }, { CREDITS, 65535 }, { PREFERRED, 0 }, { PREFERRED, 1 },
		{ PREFERRED, 128 }, { PREFERRED, U32_MAX }, { PREFERRED, 0x80000000 },
		{ RECEIVE, 128 }, { RECEIVE, U32_MAX }, { RECEIVE, 0x80000000 },
		{ FRAGMENTED, 131072 }, { FRAGMENTED, U32_MAX }, { FRAGMENTED, 0x80000000 },
	};
	static const u32 bad[][2] = {
		{ CREDITS, 0 }, { RECEIVE, 0 }, { RECEIVE, 127 }, { FRAGMENTED, 0 },
		{ FRAGMENTED, 131071 },
	};
	struct smbdirect_socket *listener = listener_impatient();
	struct raw_response rsp;
	int i;

	for (i = 0; listener && i < ARRAY_SIZE(good); i++) {
		expect_int("X4: accept", with_field(listener, good[i][0], good[i][1], &rsp), 0);
		expect(le16_to_cpu(rsp.credits_granted) >= 1 &&
		       le16_to_cpu(rsp.credits_granted) <= 255, "X5: %u credits",
		       le16_to_cpu(rsp.credits_granted));
		expect_rule("R7", "fragmented size",
			    le32_to_cpu(rsp.max_fragmented_size) >= 131072, 1);
		expect(le32_to_cpu(rsp.max_receive_size) >= 128, "X4: receive size %u",
		       le32_to_cpu(rsp.max_receive_size));
	}
	for (i = 0; listener && i < ARRAY_SIZE(bad); i++) {
		expect_int("X4: accept", with_field(listener, bad[i][0], bad[i][1], &rsp),
			   -ETIMEDOUT);
		expect_int("X4: no answer", le16_to_cpu(rsp.min_version), 0);
	}
	if (listener)
		listener_works(listener);
	sock_end(listener);
}

/* E5: nothing precedes the response, which goes out with the accept. */
static void response_first(void)
{
	struct smbdirect_socket *listener = listener_impatient(), *server;
	struct raw *raw = raw_new();
	struct raw_response rsp;
	struct raw_request req;

	if (!listener || !raw || !raw_connect(raw))
		goto out;
	raw_request_good(&req);
	expect_int("send", raw_send(raw, &req, sizeof(req)), 0);
	expect_int("E5: before the accept", raw_receive(raw, &rsp, sizeof(rsp), 1500), -ETIMEDOUT);
	server = accept_one(listener, 3000);
	expect_int("E5: response", raw_receive(raw, &rsp, sizeof(rsp), 3000), sizeof(rsp));
	expect_int("credits", le16_to_cpu(rsp.credits_granted), 255);
	expect_int("requested", le16_to_cpu(rsp.credits_requested), 255);
	expect_int("read/write", le32_to_cpu(rsp.max_readwrite_size), 8 << 20);
	expect_int("reserved", le16_to_cpu(rsp.reserved), 0);
	sock_end(server);
out:
	raw_close(raw);
	sock_end(listener);
}

/* Milliseconds until the listener has room for a client, at most limit_ms. */
static u64 room_after(struct smbdirect_socket *listener, unsigned int limit_ms)
{
	u64 start = smbt_now_ms();
	struct smbdirect_socket *client;
	bool refused = true;

	while (refused && smbt_now_ms() - start < limit_ms) {
		client = client_connecting();
		if (!client)
			break;
		while (!sock_is(client, "NEGOTIATE_RUNNING") && !sock_is(client, "DISCONNECTED"))
			msleep(20);
		refused = sock_is(client, "DISCONNECTED");
		sock_end(client);
	}
	return smbt_now_ms() - start;
}

/* X6, R1: who says nothing is closed and makes room, though it does not answer the disconnect. */
static void silent(void)
{
	struct smbdirect_socket *listener = listener_impatient();
	struct raw *raw[2] = { raw_new(), raw_new() };
	u64 start = smbt_now_ms();
	int i;

	for (i = 0; listener && i < 2; i++)
		if (!raw[i] || !raw_connect(raw[i]))
			goto out;
	for (i = 0; listener && i < 2; i++)
		expect(raw_gone(raw[i], 4000), "X6: still connected after %llu ms",
		       smbt_now_ms() - start);
	start = smbt_now_ms() - start;
	expect(start >= 900, "X6: closed after %llu ms", start);
	if (!listener)
		goto out;
	start = room_after(listener, 8000);
	note("room after %llu ms", start);
	/* One second, and as much for a busy machine; waiting for the answer would take more. */
	expect(start <= 2000, "R1: room only after %llu ms", start);
	listener_works(listener);
out:
	raw_close(raw[0]);
	raw_close(raw[1]);
	sock_end(listener);
}

/* X7 */
static void early_end(void)
{
	struct smbdirect_socket *listener = listener_impatient();
	struct raw_request req;
	struct raw *raw;
	int i;

	raw_request_good(&req);
	for (i = 0; listener && i < 6; i++) {
		raw = raw_new();
		if (!raw || !raw_connect(raw)) {
			raw_close(raw);
			break;
		}
		if (i & 1)
			expect_int("send", raw_send(raw, &req, sizeof(req)), 0);
		raw_close(raw);
		msleep(200);
		expect_int("X7: accept", accept_error(listener, 0), -EAGAIN);
	}
	if (listener)
		listener_works(listener);
	sock_end(listener);
}

#define WINDOW_LINES 20
#define WINDOW_MS 5000

/* A peer that cannot even introduce itself. */
static bool intruder(void)
{
	struct raw *raw = raw_new();
	u8 garbage[19] = { 0xff };
	bool ok = raw && raw_connect(raw) && !raw_send(raw, garbage, sizeof(garbage));

	raw_close(raw);
	return ok;
}

/* R47: a window takes so many error lines and no more, of all connections together. */
static void flood(void)
{
	struct smbdirect_socket_parameters sp;
	struct smbdirect_socket *listener;
	unsigned int lines, most;
	u64 start;
	int i;

	smbt_server_params(&sp);
	listener = listener_new(&sp, 200);
	if (!listener)
		return;
	msleep(WINDOW_MS);
	log_errors();
	start = smbt_now_ms();
	for (i = 0; i < 100 && intruder(); i++)
		;
	expect_int("intruders", i, 100);
	listener_works(listener);
	sock_end(listener);
	lines = log_errors();
	start = smbt_now_ms() - start;
	most = WINDOW_LINES * (1 + (unsigned int)start / WINDOW_MS);
	note("%u error lines in %llu ms", lines, start);
	expect(lines, "nothing was said of it");
	expect_rule("R47", "too many lines", lines > most, 0);
	/* Cases after this one are to find their lines. */
	msleep(WINDOW_MS);
}

static const struct smbt_case cases[] = {
	{ "lengths", lengths }, /* rules: X1 X2 Q1 */
	{ "versions", versions }, /* rules: X3 Q2 */
	{ "fields", fields }, /* rules: X4 X5 Q3 Q4 Q5 Q6 R7 */
	{ "response_first", response_first }, /* rules: E5 */
	{ "silent", silent }, /* rules: X6 E3 R1 */
	{ "early_end", early_end }, /* rules: X7 E6 R1 */
	{ "flood", flood }, /* rules: R47 */
};

SMBT_SUITE(acceptor);
