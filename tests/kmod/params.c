// SPDX-License-Identifier: GPL-2.0
/* Creating and configuring sockets. */

#include <net/net_namespace.h>

#include "test.h"

enum field {
	FLAGS,
	INITIATOR_DEPTH,
	RESPONDER_RESOURCES,
	RECV_CREDIT_MAX,
	SEND_CREDIT_TARGET,
	MAX_SEND_SIZE,
	MAX_RECV_SIZE,
	MAX_FRAGMENTED_RECV_SIZE,
	MAX_READ_WRITE_SIZE,
	MAX_FRMR_DEPTH,
	KEEPALIVE_INTERVAL_MSEC,
};

static const char * const names[] = {
	[FLAGS] = "flags",
	[INITIATOR_DEPTH] = "initiator_depth",
	[RESPONDER_RESOURCES] = "responder_resources",
	[RECV_CREDIT_MAX] = "recv_credit_max",
	[SEND_CREDIT_TARGET] = "send_credit_target",
	[MAX_SEND_SIZE] = "max_send_size",
	[MAX_RECV_SIZE] = "max_recv_size",
	[MAX_FRAGMENTED_RECV_SIZE] = "max_fragmented_recv_size",
	[MAX_READ_WRITE_SIZE] = "max_read_write_size",
	[MAX_FRMR_DEPTH] = "max_frmr_depth",
	[KEEPALIVE_INTERVAL_MSEC] = "keepalive_interval_msec",
};

struct row {
	enum field field;
	u64 value;
	int want;
	const char *rule;
};

/* One field of the client's parameters changed at a time. */
static const struct row rows[] = {
	{ FLAGS, 0, 0 },
	{ FLAGS, 1, 0 },
	{ FLAGS, 2, 0 },
	{ FLAGS, 3, -EINVAL },
	{ FLAGS, 4, -EINVAL },
	{ FLAGS, 5, -EINVAL },
	{ FLAGS, 1ULL << 63, -EINVAL },
	{ INITIATOR_DEPTH, 0, 0 },
	{ INITIATOR_DEPTH, 255, 0 },
	{ INITIATOR_DEPTH, 256, -EINVAL },
	{ INITIATOR_DEPTH, 65535, -EINVAL },
	{ RESPONDER_RESOURCES, 255, 0 },
	{ RESPONDER_RESOURCES, 256, -EINVAL },
	{ RESPONDER_RESOURCES, 65535, -EINVAL },
	{ RECV_CREDIT_MAX, 0, -EINVAL, "R8" },
	{ RECV_CREDIT_MAX, 1, 0 },
	{ RECV_CREDIT_MAX, 65535, 0 },
	{ SEND_CREDIT_TARGET, 0, -EINVAL, "R8" },
	{ SEND_CREDIT_TARGET, 1, 0 },
	{ SEND_CREDIT_TARGET, 65535, 0 },
	{ MAX_SEND_SIZE, 0, -EINVAL, "R8" },
	{ MAX_SEND_SIZE, 20, -EINVAL, "R8" },
	{ MAX_SEND_SIZE, 24, -EINVAL, "R8" },
	{ MAX_SEND_SIZE, 25, 0 },
	{ MAX_SEND_SIZE, 8192, 0 },
	{ MAX_RECV_SIZE, 0, -EINVAL, "R8" },
	{ MAX_RECV_SIZE, 127, -EINVAL, "R8" },
	{ MAX_RECV_SIZE, 128, 0 },
	{ MAX_RECV_SIZE, 8192, 0 },
	{ MAX_FRAGMENTED_RECV_SIZE, 0, 0 },
	{ MAX_FRAGMENTED_RECV_SIZE, 131072, 0 },
	{ MAX_FRAGMENTED_RECV_SIZE, 1 << 20, 0 },
	{ MAX_READ_WRITE_SIZE, 16 << 20, 0 },
	{ MAX_FRMR_DEPTH, 0, 0 },
	{ KEEPALIVE_INTERVAL_MSEC, 0, 0 },
};

static void set_field(struct smbdirect_socket_parameters *sp, enum field field, u64 value)
{
	switch (field) {
	case FLAGS:
		sp->flags = value;
		break;
	case INITIATOR_DEPTH:
		sp->initiator_depth = value;
		break;
	case RESPONDER_RESOURCES:
		sp->responder_resources = value;
		break;
	case RECV_CREDIT_MAX:
		sp->recv_credit_max = value;
		break;
	case SEND_CREDIT_TARGET:
		sp->send_credit_target = value;
		break;
	case MAX_SEND_SIZE:
		sp->max_send_size = value;
		break;
	case MAX_RECV_SIZE:
		sp->max_recv_size = value;
		break;
	case MAX_FRAGMENTED_RECV_SIZE:
		sp->max_fragmented_recv_size = value;
		break;
	case MAX_READ_WRITE_SIZE:
		sp->max_read_write_size = value;
		break;
	case MAX_FRMR_DEPTH:
		sp->max_frmr_depth = value;
		break;
	case KEEPALIVE_INTERVAL_MSEC:
		sp->keepalive_interval_msec = value;
		break;
	}
}

static void table(void)
{
	struct smbdirect_socket_parameters sp;
	struct smbdirect_socket *sc;
	char what[80];
	int i, ret;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		smbt_client_params(&sp);
		set_field(&sp, rows[i].field, rows[i].value);
		if (!expect_int("create", smbdirect_socket_create_kern(&init_net, &sc), 0))
			return;
		sock_logging(sc);
		snprintf(what, sizeof(what), "%s = %llu", names[rows[i].field],
			 rows[i].value);
		ret = smbdirect_socket_set_initial_parameters(sc, &sp);
		if (rows[i].rule)
			expect_rule(rows[i].rule, what, ret, rows[i].want);
		else
			expect_int(what, ret, rows[i].want);
		sock_end(sc);
	}
}

static void create(void)
{
	const struct smbdirect_socket_parameters *sp;
	struct smbdirect_socket *sc = NULL;

	expect(!smbdirect_connection_is_connected(NULL), "NULL is connected");
	if (!expect_int("create", smbdirect_socket_create_kern(&init_net, &sc), 0))
		return;
	expect(sc, "no socket");
	sock_logging(sc);
	expect(!smbdirect_connection_is_connected(sc), "a fresh socket is connected");
	sp = smbdirect_socket_get_current_parameters(sc);
	if (expect(sp, "no parameters"))
		bytes_expect("fresh parameters", sp, sizeof(*sp), 0);
	sock_end(sc);
}

static void read_back(void)
{
	const struct smbdirect_socket_parameters *now;
	struct smbdirect_socket_parameters sp;
	struct smbdirect_socket *sc;

	smbt_client_params(&sp);
	sc = sock_new(&sp, IB_POLL_SOFTIRQ);
	if (!sc)
		return;
	now = smbdirect_socket_get_current_parameters(sc);
	expect(!memcmp(now, &sp, sizeof(sp)), "the parameters read back different");
	sp.keepalive_interval_msec = 60000;
	sp.max_fragmented_recv_size = 1000;
	expect_int("set again", smbdirect_socket_set_initial_parameters(sc, &sp), 0);
	expect_int("pointer", (long)smbdirect_socket_get_current_parameters(sc), (long)now);
	expect_int("interval", now->keepalive_interval_msec, 60000);
	expect_rule("R8", "raised fragmented size", now->max_fragmented_recv_size, 131072);
	sp.recv_credit_max = 0;
	expect_rule("R8", "bad", smbdirect_socket_set_initial_parameters(sc, &sp), -EINVAL);
	expect_rule("R8", "credits after a refusal", now->recv_credit_max, 255);
	sock_end(sc);
}

static void kernel_settings(void)
{
	struct smbdirect_socket_parameters sp;
	struct smbdirect_socket *sc;
	int ctx;

	smbt_client_params(&sp);
	for (ctx = IB_POLL_SOFTIRQ; ctx <= IB_POLL_UNBOUND_WORKQUEUE; ctx++) {
		sc = sock_new(&sp, ctx);
		if (!sc)
			return;
		expect_int("again", smbdirect_socket_set_kernel_settings(sc, ctx, GFP_NOFS), 0);
		sock_end(sc);
	}
}

/* Only a fresh socket may be configured. */
static void too_late(void)
{
	struct smbdirect_socket_parameters sp;
	struct smbdirect_socket *sc;

	if (skip_unless_ours("warns"))
		return;
	smbt_server_params(&sp);
	sc = listener_new(&sp, 1);
	if (!sc)
		return;
	expect_int("parameters", smbdirect_socket_set_initial_parameters(sc, &sp), -EINVAL);
	expect_int("settings",
		   smbdirect_socket_set_kernel_settings(sc, IB_POLL_SOFTIRQ, GFP_KERNEL), -EINVAL);
	sock_end(sc);
}

static void frwr(void)
{
	struct ib_device_attr *attr = kzalloc_obj(*attr);

	if (!expect(attr, "no memory"))
		return;
	expect(!smbdirect_frwr_is_supported(attr), "neither the capability nor a page list");
	attr->max_fast_reg_page_list_len = 512;
	expect(!smbdirect_frwr_is_supported(attr), "no capability");
	attr->device_cap_flags = ~IB_DEVICE_MEM_MGT_EXTENSIONS;
	expect(!smbdirect_frwr_is_supported(attr), "every other capability");
	attr->device_cap_flags = IB_DEVICE_MEM_MGT_EXTENSIONS;
	expect(smbdirect_frwr_is_supported(attr), "both, but not supported");
	attr->max_fast_reg_page_list_len = 1;
	expect(smbdirect_frwr_is_supported(attr), "one page, but not supported");
	attr->max_fast_reg_page_list_len = 0;
	expect(!smbdirect_frwr_is_supported(attr), "no page list");
	kfree(attr);
}

struct seen {
	atomic_t asked;
	atomic_t printed;
	atomic_t odd;
	bool over;
};

static bool seen_needed(struct smbdirect_socket *sc, void *private, unsigned int lvl,
			unsigned int cls)
{
	struct seen *seen = private;

	atomic_inc(&seen->asked);
	if (!sc || seen->over || lvl > SMBDIRECT_LOG_INFO || !is_power_of_2(cls) || cls > 0x400)
		atomic_inc(&seen->odd);
	return cls != SMBDIRECT_LOG_RDMA_SEND;
}

static void seen_print(struct smbdirect_socket *sc, const char *func, unsigned int line,
		       void *private, unsigned int lvl, unsigned int cls, struct va_format *vaf)
{
	struct seen *seen = private;
	char text[256];
	int len = snprintf(text, sizeof(text), "%pV", vaf);

	atomic_inc(&seen->printed);
	if (!func || !line || !len || cls == SMBDIRECT_LOG_RDMA_SEND || seen->over)
		atomic_inc(&seen->odd);
}

static struct smbdirect_socket *logged_listener(struct seen *seen)
{
	struct smbdirect_socket_parameters sp;
	struct smbdirect_socket *sc;
	struct sockaddr_in sin;

	if (!expect_int("create", smbdirect_socket_create_kern(&init_net, &sc), 0))
		return NULL;
	smbdirect_socket_set_logging(sc, seen, seen_needed, seen_print);
	smbt_server_params(&sp);
	smbt_address(&sin, SMBT_PORT);
	expect_int("set", smbdirect_socket_set_initial_parameters(sc, &sp), 0);
	expect_int("bind", smbdirect_socket_bind(sc, (struct sockaddr *)&sin), 0);
	expect_int("listen", smbdirect_socket_listen(sc, 1), 0);
	return sc;
}

struct logged {
	struct smbdirect_socket *listener;
	struct smbdirect_socket *client;
	struct smbdirect_socket *server;
};

/* The child of a listener that logs to seen, and its client; NULL for what could not be made. */
static struct logged logged_pair(struct seen *seen)
{
	struct logged pair = { .listener = logged_listener(seen) };

	if (pair.listener) {
		pair.client = client_connecting();
		pair.server = accept_one(pair.listener, 5000);
	}
	return pair;
}

/* The gate is asked, the printer called with what the gate let through, a child inherits both. */
static void logging(void)
{
	struct seen *seen = kzalloc_obj(*seen);
	struct logged pair;
	u8 data[4];

	if (!expect(seen, "no memory"))
		return;
	pair = logged_pair(seen);
	if (pair.server) {
		/* From here on only the child has something to say. */
		atomic_set(&seen->printed, 0);
		smbdirect_socket_shutdown(pair.server);
		expect_int("read", raw_recv(pair.server, data, sizeof(data)), -ENOTCONN);
	}
	sock_end(pair.client);
	sock_end(pair.server);
	expect(atomic_read(&seen->printed), "nothing was printed for the child");
	sock_end(pair.listener);
	WRITE_ONCE(seen->over, true);
	expect(atomic_read(&seen->asked), "the gate was never asked");
	expect_int("odd calls", atomic_read(&seen->odd), 0);
	kfree(seen);
}

/* P15: the data path does not ask the gate, for each message once more or at all. */
static void gate(void)
{
	struct logged pair;
	struct seen *seen;
	u8 data[8] = {};
	int i, asked;

	/* A sender of messages in one direction, each read at once, has not come back (once of once). */
	if (skip_unless_ours("waits for ever"))
		return;
	seen = kzalloc_obj(*seen);
	if (!expect(seen, "no memory"))
		return;
	pair = logged_pair(seen);
	if (pair.server)
		expect_int("connected", smbdirect_connection_wait_for_connected(pair.client), 0);
	asked = atomic_read(&seen->asked);
	for (i = 0; pair.server && i < 1000; i++)
		if (!expect_int("send", msg_send(pair.client, data, sizeof(data)), 4 + sizeof(data)) ||
		    !expect_int("read", msg_recv(pair.server, data, sizeof(data)), sizeof(data)))
			break;
	asked = atomic_read(&seen->asked) - asked;
	expect(asked <= 10, "P15: asked %d times for a thousand messages", asked);
	sock_end(pair.client);
	sock_end(pair.server);
	sock_end(pair.listener);
	kfree(seen);
}

static const struct smbt_case cases[] = {
	{ "create", create },
	{ "table", table }, /* rules: R8 */
	{ "read_back", read_back }, /* rules: R8 */
	{ "kernel_settings", kernel_settings },
	{ "too_late", too_late },
	{ "frwr", frwr },
	{ "logging", logging },
	{ "gate", gate }, /* rules: P15 */
};

SMBT_SUITE(params);
