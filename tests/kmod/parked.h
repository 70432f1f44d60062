/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Waits on a connection whose peer falls silent (see parked.c).
 */
#ifndef SMBDIRECT_TEST_PARKED_H
#define SMBDIRECT_TEST_PARKED_H

#include "raw.h"

/* The server's largest transfer. */
#define PARKED_TRANSFER (1 << 20)

/* A connected socket under test, which is a child of the listener or a client without one. */
struct parked {
	struct raw *raw;
	struct smbdirect_socket *listener;
	struct smbdirect_socket *sc;
	u64 silent; /* since then, ms */
};

bool parked_server(struct parked *rig);
bool parked_client(struct parked *rig);
void parked_down(struct parked *rig);
bool parked_skip(void);
void parked_vanish(struct parked *rig);
bool parked_post(struct parked *rig);
bool parked_task(struct smbt_task *task, int (*fn)(void *arg), void *arg);
int parked_released(struct parked *rig, struct smbt_task *task);
void parked_why(struct parked *rig);
void parked_expect(struct parked *rig, struct smbt_task *task);

/* Cases; see parked_rdma.c. */
void parked_region(void);
void parked_invalidation(void);
void parked_transfer(void);

#endif
