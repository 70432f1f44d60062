// SPDX-License-Identifier: GPL-2.0
/*
 * A server that takes connections and does not negotiate, for as long as the module is loaded: "refuse" answers the
 * first message with a failure, "mute" not at all.
 */

#include <linux/kthread.h>

#include "raw.h"

static struct task_struct *refuser;

/* Sleeps until the client has come or gone, or nobody needs to wait any more. */
static bool until(struct raw *raw, const bool *what)
{
	while (!kthread_should_stop() && !READ_ONCE(*what))
		wait_event_timeout(raw->wait, READ_ONCE(*what), HZ / 5);
	return !kthread_should_stop();
}

static void refuse(struct raw *raw)
{
	struct raw_response rsp;
	struct raw_request req;

	raw_response_good(&rsp);
	rsp.status = cpu_to_le32(0xc00000bb);
	if (raw_receive(raw, &req, sizeof(req), 3000) == sizeof(req))
		raw_send(raw, &rsp, sizeof(rsp));
}

/* One connection after the other. */
static int refuser_run(void *mute)
{
	struct raw *raw;

	while (!kthread_should_stop()) {
		raw = raw_new();
		if (!raw || !raw_listen(raw)) {
			raw_close(raw);
			pr_err("the server cannot listen\n");
			schedule_timeout_interruptible(HZ);
			continue;
		}
		if (until(raw, &raw->established)) {
			if (!mute)
				refuse(raw);
			until(raw, &raw->gone);
		}
		raw_close(raw);
	}
	return 0;
}

int smbt_refuser_start(bool mute)
{
	refuser = kthread_run(refuser_run, mute ? &refuser : NULL, "smbt_refuser");
	return PTR_ERR_OR_ZERO(refuser);
}

void smbt_refuser_stop(void)
{
	if (!IS_ERR_OR_NULL(refuser))
		kthread_stop(refuser);
}
