// SPDX-License-Identifier: GPL-2.0
/*
 * Sockets on an id that the case knows, and events of its own on such an id. The module keeps its
 * own object in the id's context, so what belongs to the tap is not there but here, once.
 */

#include <net/net_namespace.h>

#include "tap.h"

struct smbt_tap tap;

static atomic_t own_events;

static int own_handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	atomic_inc(&own_events);
	return 0;
}

/* Events that went to the first owner of an id after the module adopted it. */
unsigned int adopted_events(void)
{
	return atomic_read(&own_events);
}

/* A fresh socket on an id made here, which belongs to the socket and goes with it. */
struct smbdirect_socket *sock_adopting(bool bound, struct rdma_cm_id **made)
{
	struct smbdirect_socket *sc = NULL;
	struct rdma_cm_id *id;
	struct sockaddr_in sin;
	int ret;

	id = rdma_create_id(&init_net, own_handler, NULL, RDMA_PS_TCP, IB_QPT_RC);
	if (!expect(!IS_ERR(id), "rdma_create_id: %ld", PTR_ERR(id)))
		return NULL;
	smbt_address(&sin, SMBT_PORT);
	if (bound)
		expect_int("bind", rdma_bind_addr(id, (struct sockaddr *)&sin), 0);
	ret = smbdirect_socket_create_accepting(id, &sc);
	if (!expect_int("create_accepting", ret, 0)) {
		rdma_destroy_id(id);
		return NULL;
	}
	expect(sc, "no socket");
	sock_logging(sc);
	*made = id;
	return sc;
}

/* The same with a client's parameters. */
struct smbdirect_socket *client_adopting(struct rdma_cm_id **id)
{
	struct smbdirect_socket *sc = sock_adopting(false, id);
	struct smbdirect_socket_parameters sp;

	smbt_client_params(&sp);
	if (sc)
		expect_int("parameters", smbdirect_socket_set_initial_parameters(sc, &sp), 0);
	return sc;
}

/* A listener whose id, and the ids of its children, the case knows. */
struct smbdirect_socket *listener_adopting(int backlog, struct rdma_cm_id **id)
{
	struct smbdirect_socket *sc = sock_adopting(false, id);
	struct smbdirect_socket_parameters sp;

	if (!sc)
		return NULL;
	smbt_server_params(&sp);
	expect_int("parameters", smbdirect_socket_set_initial_parameters(sc, &sp), 0);
	sock_listen(sc, false, backlog);
	return sc;
}

static int tapped(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	bool now = event->event == tap.at && !tap.hit;
	int ret;

	if (now && !tap.after)
		tap.handler(id, &tap.event);
	ret = tap.handler(id, event);
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST && !ret)
		tap.requested = id;
	if (now)
		WRITE_ONCE(tap.hit, true);
	/* The real one may have changed the handler. */
	if (now && tap.after && !ret)
		id->event_handler(id, &tap.event);
	return ret;
}

/* What the next tapped id gets, and when. */
void tap_set(enum rdma_cm_event_type at, bool after, enum rdma_cm_event_type type, int status)
{
	tap = (struct smbt_tap) {
		.at = at,
		.after = after,
		.pending = true,
		.event = { .event = type, .status = status },
	};
}

void tap_on(struct rdma_cm_id *id)
{
	tap.pending = false;
	rdma_lock_handler(id);
	tap.handler = id->event_handler;
	id->event_handler = tapped;
	rdma_unlock_handler(id);
}

void tap_off(struct rdma_cm_id *id)
{
	rdma_lock_handler(id);
	id->event_handler = tap.handler;
	rdma_unlock_handler(id);
}

/* As the connection manager would. */
void inject(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event event = { .event = type, .status = status };

	rdma_lock_handler(id);
	expect_int("handler", id->event_handler(id, &event), 0);
	rdma_unlock_handler(id);
}

/* As a driver may, where nothing can sleep. */
void inject_qp(struct rdma_cm_id *id, enum ib_event_type type)
{
	struct ib_event event = {
		.device = id->device,
		.element.qp = id->qp,
		.event = type,
	};

	local_irq_disable();
	id->qp->event_handler(&event, id->qp->qp_context);
	local_irq_enable();
}
