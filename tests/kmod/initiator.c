// SPDX-License-Identifier: GPL-2.0
/* A client under test and a server that breaks the rules of negotiation. A: protocol page. */

#include "raw.h"

/* A client, the server it connects to by hand, and its request. */
struct rig {
	struct raw *raw;
	struct smbdirect_socket *client;
	struct raw_request req;
};

static void rig_down(struct rig *rig)
{
	raw_close(rig->raw);
	sock_end(rig->client);
}

static bool rig_up(struct rig *rig, unsigned int negotiate_timeout_ms)
{
	struct smbdirect_socket_parameters sp;

	memset(rig, 0, sizeof(*rig));
	smbt_client_params(&sp);
	sp.negotiate_timeout_msec = negotiate_timeout_ms;
	rig->raw = raw_new();
	if (!rig->raw || !raw_listen(rig->raw))
		return false;
	rig->client = sock_new(&sp, IB_POLL_SOFTIRQ);
	return rig->client &&
	       expect_int("connect", connect_to(rig->client, SMBT_PORT), 0) &&
	       raw_accepted(rig->raw) &&
	       expect_int("request", raw_receive(rig->raw, &rig->req, sizeof(rig->req), 3000),
			  sizeof(rig->req));
}

/* What the client makes of a response. */
static int respond(const void *rsp, size_t len)
{
	struct rig rig;
	int ret = -EIO;

	if (rig_up(&rig, 10000) && expect_int("send", raw_send(rig.raw, rsp, len), 0)) {
		ret = smbdirect_connection_wait_for_connected(rig.client);
		if (ret)
			expect(raw_gone(rig.raw, 3000), "refused, but still connected");
	}
	rig_down(&rig);
	return ret;
}

static void request(void)
{
	struct rig rig;

	if (rig_up(&rig, 10000)) {
		expect_int("min_version", le16_to_cpu(rig.req.min_version), 0x0100);
		expect_int("max_version", le16_to_cpu(rig.req.max_version), 0x0100);
		expect_int("reserved", le16_to_cpu(rig.req.reserved), 0);
		expect_int("credits", le16_to_cpu(rig.req.credits_requested), 255);
		expect_int("preferred", le32_to_cpu(rig.req.preferred_send_size), 1364);
		expect_int("receive", le32_to_cpu(rig.req.max_receive_size), 1364);
		expect_int("fragmented", le32_to_cpu(rig.req.max_fragmented_size), 173910);
	}
	rig_down(&rig);
}

static void good(void)
{
	struct {
		struct raw_response rsp;
		u8 more[480];
	} __packed data = { };

	raw_response_good(&data.rsp);
	expect_int("X1: 32 bytes", respond(&data.rsp, sizeof(data.rsp)), 0);
	expect_int("X1: 512 bytes", respond(&data, sizeof(data)), 0);
	data.rsp.reserved = cpu_to_le16(0xffff);
	data.rsp.min_version = 0;
	data.rsp.max_version = cpu_to_le16(0xffff);
	expect_int("other versions", respond(&data.rsp, sizeof(data.rsp)), 0);
	data.rsp.credits_granted = cpu_to_le16(65535);
	data.rsp.credits_requested = cpu_to_le16(65535);
	data.rsp.max_readwrite_size = cpu_to_le32(U32_MAX);
	data.rsp.max_receive_size = cpu_to_le32(U32_MAX);
	data.rsp.max_fragmented_size = cpu_to_le32(U32_MAX);
	expect_int("large", respond(&data.rsp, sizeof(data.rsp)), 0);
	data.rsp.credits_granted = cpu_to_le16(1);
	data.rsp.credits_requested = cpu_to_le16(1);
	data.rsp.max_readwrite_size = cpu_to_le32(4096);
	data.rsp.preferred_send_size = 0;
	data.rsp.max_receive_size = cpu_to_le32(128);
	data.rsp.max_fragmented_size = cpu_to_le32(131072);
	expect_int("small", respond(&data.rsp, sizeof(data.rsp)), 0);
}

static void bad_lengths(void)
{
	struct raw_response rsp;

	raw_response_good(&rsp);
	expect_int("A1: 31 bytes", respond(&rsp, 31), -ECONNABORTED);
	expect_int("A1: 20 bytes", respond(&rsp, 20), -ECONNABORTED);
	expect_int("A1: no bytes", respond(&rsp, 0), -ECONNABORTED);
}

#define BAD(rule, field, value, error)					\
do {									\
	struct raw_response rsp;					\
									\
	raw_response_good(&rsp);					\
	rsp.field = value;						\
	expect_int(rule ": " #field, respond(&rsp, sizeof(rsp)), error);	\
	/* The line was printed before the disconnect that respond() saw. */	\
	expect_rule("R47", "the line names rule " rule, log_said("rule " rule ": "), 1);	\
} while (0)

static void bad_fields(void)
{
	BAD("A2", status, cpu_to_le32(0xc00000bb), -ECONNREFUSED);
	BAD("A2", status, cpu_to_le32(1), -ECONNREFUSED);
	BAD("A2", negotiated_version, cpu_to_le16(0x0101), -ECONNREFUSED);
	BAD("A2", negotiated_version, 0, -ECONNREFUSED);
	BAD("A3", max_receive_size, cpu_to_le32(127), -ECONNABORTED);
	BAD("A3", max_receive_size, 0, -ECONNABORTED);
	BAD("A3", max_fragmented_size, cpu_to_le32(131071), -ECONNABORTED);
	BAD("A3", max_fragmented_size, 0, -ECONNABORTED);
	BAD("A4", credits_granted, 0, -ECONNABORTED);
	BAD("A4", credits_requested, 0, -ECONNABORTED);
	BAD("A5", preferred_send_size, cpu_to_le32(1365), -ECONNABORTED);
	BAD("A5", preferred_send_size, cpu_to_le32(U32_MAX), -ECONNABORTED);
	BAD("A6", max_readwrite_size, cpu_to_le32(4095), -ECONNABORTED);
	BAD("A6", max_readwrite_size, 0, -ECONNABORTED);
}

/* No response, or an end instead. */
static void no_response(void)
{
	struct rig rig;
	u64 start;

	if (rig_up(&rig, 600)) {
		start = smbt_now_ms();
		expect_int("silence", smbdirect_connection_wait_for_connected(rig.client),
			   -ETIMEDOUT);
		/* The limit it was not given is 10 s. */
		expect(smbt_now_ms() - start < 6000, "waited %llu ms", smbt_now_ms() - start);
		expect(raw_gone(rig.raw, 3000), "still connected");
	}
	rig_down(&rig);
	if (rig_up(&rig, 10000)) {
		rdma_disconnect(rig.raw->id);
		expect_lost("the end", smbdirect_connection_wait_for_connected(rig.client),
			    -ECONNRESET);
	}
	rig_down(&rig);
}

static const struct smbt_case cases[] = {
	{ "request", request },
	{ "good", good }, /* rules: X1 */
	{ "bad_lengths", bad_lengths }, /* rules: A1 */
	{ "bad_fields", bad_fields }, /* rules: A2 A3 A4 A5 A6 */
	{ "no_response", no_response }, /* rules: E2 */
};

SMBT_SUITE(initiator);
