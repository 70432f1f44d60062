// SPDX-License-Identifier: GPL-2.0
/*
 * Events of the connection manager and of the queue pair that nobody expects. They cannot be had
 * from a real device at will, so the cases put them to the module's handlers themselves.
 */

#include <linux/delay.h>

#include "tap.h"

/* A socket has its error at once; the negotiation alone would take 10 s. */
#define SOON_MS 5000

/*
 * What an event does: while the connection is set up, and after it was established. A request is
 * not among them, it would bring an id of its own.
 */
static const struct stray {
	enum rdma_cm_event_type type;
	int status;
	int early;
	int late; /* 0: nothing */
} strays[] = {
	{ RDMA_CM_EVENT_ADDR_RESOLVED, 0, -ECONNABORTED, -ECONNRESET },
	{ RDMA_CM_EVENT_ADDR_ERROR, 0, -ECONNABORTED, -ECONNRESET },
	{ RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH, -EHOSTUNREACH, -EHOSTUNREACH },
	{ RDMA_CM_EVENT_ROUTE_RESOLVED, 0, -ECONNABORTED, -ECONNRESET },
	{ RDMA_CM_EVENT_ROUTE_ERROR, 0, -ECONNABORTED, -ECONNRESET },
	{ RDMA_CM_EVENT_ROUTE_ERROR, -ENETUNREACH, -ENETUNREACH, -ENETUNREACH },
	{ RDMA_CM_EVENT_CONNECT_RESPONSE, 0, -ECONNABORTED, -ECONNRESET },
	{ RDMA_CM_EVENT_CONNECT_ERROR, 0, -ECONNABORTED, -ECONNRESET },
	{ RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL, -EINVAL, -EINVAL },
	{ RDMA_CM_EVENT_UNREACHABLE, 0, -ECONNABORTED, -ECONNRESET },
	{ RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, -ETIMEDOUT, -ETIMEDOUT },
	{ RDMA_CM_EVENT_REJECTED, 28, -ECONNREFUSED, -ECONNRESET },
	{ RDMA_CM_EVENT_ESTABLISHED, 0, -ECONNABORTED, -ECONNRESET },
	{ RDMA_CM_EVENT_DISCONNECTED, 0, -ECONNABORTED, -ECONNRESET },
	{ RDMA_CM_EVENT_DISCONNECTED, -ETIMEDOUT, -ETIMEDOUT, -ETIMEDOUT },
	{ RDMA_CM_EVENT_DEVICE_REMOVAL, 0, -ENETDOWN, -ENETDOWN },
	{ RDMA_CM_EVENT_MULTICAST_JOIN, 0, -ECONNABORTED, -ECONNRESET },
	{ RDMA_CM_EVENT_MULTICAST_ERROR, 0, -ECONNABORTED, -ECONNRESET },
	{ RDMA_CM_EVENT_ADDR_CHANGE, 0, -ECONNABORTED, 0 },
	{ RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, -ECONNABORTED, 0 },
	{ RDMA_CM_EVENT_INTERNAL, 0, -ECONNABORTED, -ECONNRESET },
};

/* A pair whose client has an id that the case knows, and that is tapped when tap_set() said so. */
static struct smbt_pair *pair_adopting(struct rdma_cm_id **id)
{
	struct smbt_pair *pair = pair_new();

	if (!pair)
		return NULL;
	pair->listener = listener_default(10);
	pair->client = client_adopting(id);
	if (pair->client && tap.pending)
		tap_on(*id);
	if (pair_join(pair))
		return pair;
	pair_close(pair);
	return NULL;
}

/* The end of a client that got an event, which it does not wait for. */
static void ends_with(struct smbdirect_socket *sc, const struct stray *stray, const char *when,
		      int want)
{
	u64 start = smbt_now_ms();
	int ret = smbdirect_connection_wait_for_connected(sc);

	expect(ret == want, "%s (%d) %s: %d instead of %d", rdma_event_msg(stray->type),
	       stray->status, when, ret, want);
	ret = smbdirect_connection_wait_for_connected(sc);
	expect(ret == want, "%s (%d) %s: %d the second time", rdma_event_msg(stray->type),
	       stray->status, when, ret);
	expect(smbt_now_ms() - start < SOON_MS, "%s (%d) %s: it took %llu ms",
	       rdma_event_msg(stray->type), stray->status, when, smbt_now_ms() - start);
	sock_end(sc);
}

/* One client that gets the event at a step of the set-up. */
static void client_gets(const struct stray *stray, enum rdma_cm_event_type at, bool after, int want)
{
	struct smbdirect_socket *sc;
	struct rdma_cm_id *id;
	char when[60];

	tap_set(at, after, stray->type, stray->status);
	sc = client_adopting(&id);
	if (!sc)
		return;
	/* connect() of the control sets the handler, ours has it from the beginning. */
	if (smbt_ours())
		tap_on(id);
	expect_int("connect", connect_to(sc, SMBT_PORT), 0);
	if (!smbt_ours())
		tap_on(id);
	snprintf(when, sizeof(when), "%s %s", after ? "after" : "before", rdma_event_msg(at));
	ends_with(sc, stray, when, want);
	expect(tap.hit, "%s did not come", rdma_event_msg(at));
}

/* While the client waits for another event. */
static void during_setup(enum rdma_cm_event_type at)
{
	struct smbdirect_socket *listener = listener_default(10);
	int i;

	for (i = 0; listener && i < ARRAY_SIZE(strays); i++) {
		/* There the first one fits, and the second comes late. */
		bool twice = strays[i].type == RDMA_CM_EVENT_ESTABLISHED && strays[i].type == at;

		if (!twice)
			client_gets(&strays[i], at, false, strays[i].early);
		else if (smbt_ours())
			client_gets(&strays[i], at, false, strays[i].late);
	}
	if (listener)
		listener_works(listener);
	sock_end(listener);
}

static void resolving_address(void)
{
	/* The control installs its handler too late for the tap. */
	if (skip_unless_ours("may be past that step"))
		return;
	during_setup(RDMA_CM_EVENT_ADDR_RESOLVED);
}

static void resolving_route(void)
{
	if (skip_unless_ours("may be past that step"))
		return;
	during_setup(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static void connecting(void)
{
	during_setup(RDMA_CM_EVENT_ESTABLISHED);
}

/* The request is out, the response is not there. */
static void negotiating(void)
{
	struct smbdirect_socket *listener;
	int i;

	if (skip_unless_ours("installs another handler in between"))
		return;
	listener = listener_default(10);
	for (i = 0; listener && i < ARRAY_SIZE(strays); i++)
		if (strays[i].late)
			client_gets(&strays[i], RDMA_CM_EVENT_ESTABLISHED, true, strays[i].late);
	if (listener)
		listener_works(listener);
	sock_end(listener);
}

/* Data flows; the other side learns of the end, too. */
static void established(void)
{
	struct rdma_cm_id *id;
	struct smbt_pair *pair;
	int i;

	for (i = 0; i < ARRAY_SIZE(strays); i++) {
		if (!strays[i].late)
			continue;
		pair = pair_adopting(&id);
		if (!pair)
			break;
		inject(id, strays[i].type, strays[i].status);
		expect(!smbdirect_connection_is_connected(pair->client), "%s: still connected",
		       rdma_event_msg(strays[i].type));
		ends_with(pair->client, &strays[i], "when connected", strays[i].late);
		pair->client = NULL;
		expect(wait_gone(pair->server, SOON_MS), "%s: the server is still connected",
		       rdma_event_msg(strays[i].type));
		pair_close(pair);
	}
}

/*
 * A child that waits for "established" gets something else, which its listener and others do not
 * mind. A client that was faster learns of it from its device, which tries six times first.
 */
static void child_gets(struct smbdirect_socket *listener, struct rdma_cm_id *id,
		       const struct stray *stray, bool patient)
{
	const char *what = rdma_event_msg(stray->type);
	struct smbdirect_socket *client;
	u64 start = smbt_now_ms();
	int ret;

	tap_set(RDMA_CM_EVENT_CONNECT_REQUEST, true, stray->type, stray->status);
	tap_on(id);
	client = client_connecting();
	while (client && !READ_ONCE(tap.hit) && smbt_now_ms() - start < SOON_MS)
		msleep(20);
	tap_off(id);
	expect(tap.hit, "%s: no request", what);
	if (client && patient) {
		ret = smbdirect_connection_wait_for_connected(client);
		expect(ret < 0 && smbt_now_ms() - start < SOON_MS, "%s: the client got %d, %llu ms",
		       what, ret, smbt_now_ms() - start);
	}
	expect_int("accept", accept_error(listener, 0), -EAGAIN);
	sock_end(client);
	/* There is one place in the queue, so the child has left it. */
	listener_works(listener);
}

static void accepting(void)
{
	struct smbdirect_socket *listener;
	struct rdma_cm_id *id;
	int i;

	listener = listener_adopting(1, &id);
	for (i = 0; listener && i < ARRAY_SIZE(strays); i++)
		if (strays[i].type != RDMA_CM_EVENT_ESTABLISHED)
			child_gets(listener, id, &strays[i], i == 0);
	sock_end(listener);
}

/* R12: the end of the connection, told in the statuses that the other cases leave out. */
static void disconnected(void)
{
	struct smbdirect_socket *sc;
	struct rdma_cm_id *id;
	struct smbt_pair *pair;

	if (skip_unless_ours("has no handler before it connects"))
		return;
	sc = client_adopting(&id);
	if (sc) {
		inject(id, RDMA_CM_EVENT_DISCONNECTED, 0);
		expect_int("connect after it", connect_to(sc, SMBT_PORT), -ENOTCONN);
		expect_int("wait", smbdirect_connection_wait_for_connected(sc), -ECONNABORTED);
	}
	sock_end(sc);
	/* Before and after our own disconnect, and after the peer's. */
	pair = pair_adopting(&id);
	if (pair) {
		inject(id, RDMA_CM_EVENT_DISCONNECTED, 0);
		inject(id, RDMA_CM_EVENT_DISCONNECTED, 0);
		smbdirect_socket_shutdown(pair->client);
		inject(id, RDMA_CM_EVENT_DISCONNECTED, -ETIMEDOUT);
		expect_int("the first one counts",
			   smbdirect_connection_wait_for_connected(pair->client), -ECONNRESET);
	}
	pair_close(pair);
	pair = pair_adopting(&id);
	if (pair) {
		smbdirect_socket_shutdown(pair->server);
		expect(wait_gone(pair->client, SOON_MS), "still connected");
		inject(id, RDMA_CM_EVENT_DISCONNECTED, 0);
		inject(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
		inject(id, RDMA_CM_EVENT_ESTABLISHED, 0);
		expect(!smbdirect_connection_is_connected(pair->client), "connected again");
	}
	pair_close(pair);
}

/* R4: whatever a listener hears, but that its device goes, it listens on. */
static void listening(void)
{
	struct smbdirect_socket *sc;
	struct rdma_cm_id *id;
	int i;

	if (skip_unless_ours("ends its listener at any event (R4)"))
		return;
	sc = listener_adopting(1, &id);
	if (!sc)
		return;
	for (i = 0; i < ARRAY_SIZE(strays); i++) {
		if (strays[i].type == RDMA_CM_EVENT_DEVICE_REMOVAL)
			continue;
		log_errors();
		inject(id, strays[i].type, strays[i].status);
		expect_int("R47: error lines", log_errors(), 0);
		expect(sock_is(sc, "LISTENING"), "%s: no listener any more",
		       rdma_event_msg(strays[i].type));
		expect_int("accept", accept_error(sc, 0), -EAGAIN);
		listener_works(sc);
	}
	inject(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	expect_int("accept without a device", accept_error(sc, HZ), -EINVAL);
	sock_end(sc);
}

/* Events that say nothing of the connection, at either end of a connected pair. */
static void harmless_at(struct rdma_cm_id *id, struct smbt_pair *pair)
{
	static const enum ib_event_type types[] = {
		IB_EVENT_COMM_EST, IB_EVENT_SQ_DRAINED, IB_EVENT_PATH_MIG, IB_EVENT_PATH_MIG_ERR,
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(types); i++) {
		inject_qp(id, types[i]);
		expect(pair_works(pair), "not after event %d of the queue pair", types[i]);
	}
	if (!smbt_ours()) {
		note("C differs from R17: a harmless event ends the connection");
		log_errors();
		return;
	}
	inject(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	expect(pair_works(pair), "not after the end of the time-wait");
	inject(id, RDMA_CM_EVENT_ADDR_CHANGE, 0);
	expect(pair_works(pair), "not after a change of address");
	/* What only the cleanup would log. */
	msleep(100);
	expect_int("R17: error lines", log_errors(), 0);
}

/* A pair whose server has an id that the case knows. */
static struct smbt_pair *pair_over_tap(struct rdma_cm_id **child)
{
	struct smbt_pair *pair = pair_new();
	struct rdma_cm_id *id;

	if (!pair)
		return NULL;
	tap_set(RDMA_CM_EVENT_INTERNAL, false, RDMA_CM_EVENT_INTERNAL, 0);
	pair->listener = listener_adopting(1, &id);
	if (pair->listener) {
		tap_on(id);
		pair->client = client_new();
	}
	if (pair_join(pair) && expect(tap.requested, "no request")) {
		*child = tap.requested;
		return pair;
	}
	pair_close(pair);
	return NULL;
}

static void harmless(void)
{
	struct rdma_cm_id *id;
	struct smbt_pair *pair = pair_adopting(&id);

	if (pair)
		harmless_at(id, pair);
	pair_close(pair);
	pair = pair_over_tap(&id);
	if (pair)
		harmless_at(id, pair);
	pair_close(pair);
}

/* The same while the client waits for the response, which then comes. */
static void harmless_early(void)
{
	static const enum rdma_cm_event_type types[] = {
		RDMA_CM_EVENT_TIMEWAIT_EXIT, RDMA_CM_EVENT_ADDR_CHANGE,
	};
	struct rdma_cm_id *id;
	struct smbt_pair *pair;
	int i;

	if (skip_unless_ours("ends the connection (R17)"))
		return;
	for (i = 0; i < ARRAY_SIZE(types); i++) {
		log_errors();
		tap_set(RDMA_CM_EVENT_ESTABLISHED, true, types[i], 0);
		pair = pair_adopting(&id);
		expect(tap.hit, "not established");
		if (pair)
			pair_works(pair);
		expect_int("R17: error lines", log_errors(), 0);
		pair_close(pair);
	}
}

/* The queue pair is broken; the peer learns of it. */
static void fatal_at(struct rdma_cm_id *id, enum ib_event_type type, struct smbdirect_socket *sc,
		     struct smbdirect_socket *peer)
{
	u8 byte;

	inject_qp(id, type);
	expect_int("why", smbdirect_connection_wait_for_connected(sc), -ECONNABORTED);
	expect_int("receive", raw_recv(sc, &byte, 1), -ENOTCONN);
	expect(wait_gone(peer, SOON_MS), "the peer is still connected");
}

static void fatal(void)
{
	static const enum ib_event_type types[] = { IB_EVENT_QP_FATAL, IB_EVENT_CQ_ERR };
	struct rdma_cm_id *id;
	struct smbt_pair *pair;
	int i;

	for (i = 0; i < ARRAY_SIZE(types); i++) {
		pair = pair_adopting(&id);
		if (pair)
			fatal_at(id, types[i], pair->client, pair->server);
		pair_close(pair);
		pair = pair_over_tap(&id);
		if (pair)
			fatal_at(id, types[i], pair->server, pair->client);
		pair_close(pair);
	}
}

static const struct smbt_case cases[] = {
	{ "resolving_address", resolving_address }, /* rules: E7 R12 */
	{ "resolving_route", resolving_route }, /* rules: E7 R12 */
	{ "connecting", connecting }, /* rules: E7 R12 */
	{ "negotiating", negotiating }, /* rules: E7 R12 */
	{ "accepting", accepting }, /* rules: E7 R1 */
	{ "established", established }, /* rules: R12 */
	{ "disconnected", disconnected }, /* rules: R12 R14 */
	{ "listening", listening }, /* rules: R4 */
	{ "harmless", harmless }, /* rules: R17 */
	{ "harmless_early", harmless_early }, /* rules: R17 */
	{ "fatal", fatal },
};

SMBT_SUITE(events);
