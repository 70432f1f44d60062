// SPDX-License-Identifier: GPL-2.0
/* Waits for memory regions and for RDMA transfers, and a peer that falls silent; see parked.c. */

#include <linux/vmalloc.h>

#include "parked.h"

/* Registered regions of one page. */
struct regions {
	struct smbdirect_socket *sc;
	struct smbt_memory *mem;
	struct smbdirect_mr_io *mr[64];
	long count;
};

static struct smbdirect_mr_io *region(struct regions *regions)
{
	struct iov_iter iter;

	memory_iter(regions->mem, ITER_DEST, &iter);
	return smbdirect_connection_register_mr_io(regions->sc, &iter, true, true);
}

static int region_more(void *arg)
{
	return region(arg) ? 0 : -ENOTCONN;
}

static bool regions_all(struct regions *regions, long count)
{
	if (!expect(count > 1 && count <= ARRAY_SIZE(regions->mr), "%ld regions", count))
		return false;
	while (regions->count < count) {
		struct smbdirect_mr_io *mr = region(regions);

		if (!expect(mr, "region %ld of %ld is not there", regions->count, count))
			return false;
		regions->mr[regions->count++] = mr;
	}
	return true;
}

/* All regions are in use, and one more is asked for. */
void parked_region(void)
{
	struct regions regions = { };
	struct smbt_task task;
	struct parked rig;
	long i;

	if (parked_skip())
		return;
	regions.mem = memory_new(SMBT_BVEC, 0, PAGE_SIZE);
	if (parked_client(&rig) && regions.mem) {
		regions.sc = rig.sc;
		if (regions_all(&regions, regions_limit(rig.sc)) &&
		    parked_task(&task, region_more, &regions)) {
			parked_vanish(&rig);
			parked_expect(&rig, &task);
		}
	}
	/* Some before the socket goes, the others after it (R37). */
	for (i = 0; i < regions.count / 2; i++)
		smbdirect_connection_deregister_mr_io(regions.mr[i]);
	parked_down(&rig);
	for (; i < regions.count; i++)
		smbdirect_connection_deregister_mr_io(regions.mr[i]);
	memory_free(regions.mem);
}

static int region_end(void *arg)
{
	smbdirect_connection_deregister_mr_io(arg);
	return -ENOTCONN;
}

/* The invalidation completes in its turn, after a message that nobody acknowledges. */
void parked_invalidation(void)
{
	struct regions regions = { };
	struct smbt_task task;
	struct parked rig;
	u8 data[100] = { };

	if (parked_skip())
		return;
	regions.mem = memory_new(SMBT_BVEC, 0, PAGE_SIZE);
	if (parked_client(&rig) && regions.mem) {
		regions.sc = rig.sc;
		if (regions_all(&regions, 2)) {
			/* The registrations go with it. */
			parked_post(&rig);
			expect(raw_receive(rig.raw, data, sizeof(data), 3000) > 0, "no message");
			parked_vanish(&rig);
			parked_post(&rig);
			if (parked_task(&task, region_end, regions.mr[0]))
				parked_expect(&rig, &task);
		}
	}
	parked_down(&rig);
	/* This one is still registered when its socket goes (R37). */
	if (regions.count > 1)
		smbdirect_connection_deregister_mr_io(regions.mr[1]);
	memory_free(regions.mem);
}

struct transfer {
	struct smbdirect_socket *sc;
	void *buf;
	bool is_read;
};

/* Any key does: the peer does not look at it any more. */
static int transfer(void *arg)
{
	struct smbdirect_buffer_descriptor_v1 v1 = {
		.token = cpu_to_le32(0x1234),
		.length = cpu_to_le32(PARKED_TRANSFER),
	};
	struct transfer *t = arg;

	return smbdirect_connection_rdma_xmit(t->sc, t->buf, PARKED_TRANSFER, &v1, sizeof(v1),
					      t->is_read);
}

/* The first waits for its outcome, the second for contexts, the third for its turn to. */
static void transfers(bool is_read)
{
	struct transfer t = { .buf = vmalloc(PARKED_TRANSFER), .is_read = is_read };
	struct smbt_task task[3];
	struct parked rig;
	int i, ret, n = 0;

	if (parked_server(&rig) && t.buf) {
		t.sc = rig.sc;
		parked_vanish(&rig);
		for (; n < ARRAY_SIZE(task) && parked_task(&task[n], transfer, &t); n++)
			;
		for (i = 0; i < n; i++) {
			ret = parked_released(&rig, &task[i]);
			expect(ret == -EIO || ret == -ENOTCONN, "transfer %d got %d", i, ret);
		}
		parked_why(&rig);
	}
	parked_down(&rig);
	vfree(t.buf);
}

void parked_transfer(void)
{
	if (parked_skip())
		return;
	transfers(true);
	transfers(false);
}
