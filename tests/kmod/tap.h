/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sockets on an id that the case knows, and events of its own on such an id (see tap.c).
 */
#ifndef SMBDIRECT_TEST_TAP_H
#define SMBDIRECT_TEST_TAP_H

#include <rdma/rdma_cm.h>

#include "test.h"

/* One event of ours, at a real one of the tapped id. One id is tapped at a time. */
struct smbt_tap {
	enum rdma_cm_event_type at;
	bool after; /* of a request: at the id it brings */
	struct rdma_cm_event event;
	int (*handler)(struct rdma_cm_id *id, struct rdma_cm_event *event);
	struct rdma_cm_id *requested; /* the id of the latest request */
	bool pending; /* set, but on no id yet */
	bool hit;
};

extern struct smbt_tap tap;

unsigned int adopted_events(void);
struct smbdirect_socket *sock_adopting(bool bound, struct rdma_cm_id **id);
struct smbdirect_socket *client_adopting(struct rdma_cm_id **id);
struct smbdirect_socket *listener_adopting(int backlog, struct rdma_cm_id **id);
void tap_set(enum rdma_cm_event_type at, bool after, enum rdma_cm_event_type type, int status);
void tap_on(struct rdma_cm_id *id);
void tap_off(struct rdma_cm_id *id);

void inject(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status);
void inject_qp(struct rdma_cm_id *id, enum ib_event_type type);

#endif
