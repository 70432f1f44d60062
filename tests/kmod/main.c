// SPDX-License-Identifier: GPL-2.0
/*
 * smbdirect_test.ko: calls the 28 exports of the loaded smbdirect.ko directly, both ends of a
 * connection in one kernel, and reports in KTAP in the kernel log when it is loaded:
 *
 *	insmod smbdirect_test.ko addr=10.0.0.1 rust=1
 *
 * addr must be an address of an RDMA device. rust=1 says that the module under test is ours, for
 * which the requirements are binding. Without it the kernel's own module is the control: where it
 * is known to differ from a requirement the difference is only noted, and cases that it cannot
 * survive are skipped.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/glob.h>
#include <linux/inet.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched/signal.h>

#include "test.h"

static bool rust;
module_param(rust, bool, 0444);
MODULE_PARM_DESC(rust, "the module under test has to meet the requirements");

static char *addr = "10.0.0.1";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "address of an RDMA device");

static ushort port = 5555;
module_param(port, ushort, 0444);
MODULE_PARM_DESC(port, "first of three ports to use");

static char *only = "*";
module_param(only, charp, 0444);
MODULE_PARM_DESC(only, "pattern of the cases to run");

static uint stress_ms = 3000;
module_param(stress_ms, uint, 0444);
MODULE_PARM_DESC(stress_ms, "how long each stress case runs");

static bool iwarp;
module_param(iwarp, bool, 0444);
MODULE_PARM_DESC(iwarp, "the RDMA device is siw instead of rxe");

static bool leave;
module_param(leave, bool, 0444);
MODULE_PARM_DESC(leave, "run nothing and leave sockets behind");

static char *server = "";
module_param(server, charp, 0444);
MODULE_PARM_DESC(server, "run nothing and be a server that does not negotiate: refuse or mute");

/* Whether the module under test has fault points. */
static bool faults;

static char *netdevs[4] = { "dummy0", "lo" };
static int netdev_count = 2;
module_param_array(netdevs, charp, &netdev_count, 0444);
MODULE_PARM_DESC(netdevs, "an RDMA netdev, one without, a VLAN and a bridge above an RDMA netdev");

static uint slow = 1;
module_param(slow, uint, 0444);
MODULE_PARM_DESC(slow, "how many times slower than a stock kernel this one is");

/* No case needs a tenth of it; then something waits for ever. */
#define CASE_LIMIT_MS 60000

static const struct smbt_suite * const suites[] = {
	&smbt_params, &smbt_netdev, &smbt_listen, &smbt_connect, &smbt_message, &smbt_batch,
	&smbt_region, &smbt_transfer, &smbt_ended, &smbt_debugdata, &smbt_acceptor,
	&smbt_initiator, &smbt_wire, &smbt_events, &smbt_handshake, &smbt_parked,
	&smbt_device, &smbt_stress,
#ifdef CONFIG_FAULT_INJECTION_DEBUG_FS
	&smbt_faults,
#endif
};

/* The verdict of the running case. */
static struct {
	spinlock_t lock; /* failures and reason, recorded by any thread of the case */
	unsigned int failures;
	char reason[200];
	char skipped[100];
} verdict = { .lock = __SPIN_LOCK_UNLOCKED(verdict.lock) };

bool smbt_ours(void)
{
	return rust;
}

bool smbt_iwarp(void)
{
	return iwarp;
}

/* The flag of the parameters that names the device's kind, or the other one. */
u64 smbt_port_flag(bool right)
{
	return right == iwarp ? SMBDIRECT_FLAG_PORT_RANGE_ONLY_IW :
				SMBDIRECT_FLAG_PORT_RANGE_ONLY_IB;
}

/* Pages of a registration. */
unsigned int smbt_region_pages(void)
{
	return iwarp ? 256 : 512;
}

u8 smbt_node_type(void)
{
	return iwarp ? RDMA_NODE_RNIC : RDMA_NODE_IB_CA;
}

const char *smbt_netdev_name(unsigned int which)
{
	return which < netdev_count ? netdevs[which] : NULL;
}

unsigned int smbt_stress_ms(void)
{
	return stress_ms;
}

/* What a bound for a stock kernel is multiplied with. */
unsigned int smbt_slow(void)
{
	return slow;
}

void smbt_address(struct sockaddr_in *sin, unsigned int port_offset)
{
	memset(sin, 0, sizeof(*sin));
	sin->sin_family = AF_INET;
	sin->sin_port = htons(port + port_offset);
	sin->sin_addr.s_addr = in_aton(addr);
}

u64 smbt_now_ms(void)
{
	return ktime_to_ms(ktime_get());
}

/* Record a failure unless ok. The first reason of a case is reported, all are in the log. */
bool expect(bool ok, const char *fmt, ...)
{
	char text[sizeof(verdict.reason)];
	va_list args;

	if (ok)
		return true;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	spin_lock_bh(&verdict.lock);
	if (!verdict.failures++)
		strscpy(verdict.reason, text);
	if (verdict.failures < 20)
		pr_info("# failed: %s\n", text);
	spin_unlock_bh(&verdict.lock);
	return false;
}

bool expect_int(const char *what, long long got, long long want)
{
	return expect(got == want, "%s: %lld instead of %lld", what, got, want);
}

/* Like expect_int() for ours; the control may differ from this requirement. */
bool expect_rule(const char *rule, const char *what, long long got, long long want)
{
	if (rust)
		return expect(got == want, "%s: %s: %lld instead of %lld", rule, what, got, want);
	if (got != want)
		note("C differs from %s: %s: %lld instead of %lld", rule, what, got, want);
	return true;
}

/*
 * How a connection was lost. An iWARP queue pair fails before the event that says why, and a
 * rejection looks like that as well.
 */
bool expect_lost(const char *what, int got, int want)
{
	return (iwarp && got == -ECONNABORTED) || expect_int(what, got, want);
}

/*
 * A transfer that the peer's device refuses; the connection ends. An iWARP write is over when it has left our
 * device, and our module lets small ones go out with the answer, which a server always gives.
 */
bool expect_refused(struct smbdirect_socket *server, const char *what, int got, bool writing)
{
	u8 answer[64] = { };

	if (got || !writing || !(iwarp || rust))
		return expect_int(what, got, -EIO);
	msg_send(server, answer, sizeof(answer));
	return true;
}

void note(const char *fmt, ...)
{
	struct va_format vaf = { .fmt = fmt };
	va_list args;

	va_start(args, fmt);
	vaf.va = &args;
	pr_info("# %pV\n", &vaf);
	va_end(args);
}

void skip(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(verdict.skipped, sizeof(verdict.skipped), fmt, args);
	va_end(args);
}

/* For cases that make the control warn, hang or crash; says why. */
bool skip_unless_ours(const char *why)
{
	if (rust)
		return false;
	skip("the C module %s", why);
	return true;
}

static int task_main(void *arg)
{
	struct smbt_task *task = arg;

	allow_signal(SIGUSR1);
	complete(&task->started);
	task->result = task->fn(task->arg);
	complete_all(&task->done);
	/* Stay until joined, so that a late signal finds a thread. */
	for (;;) {
		set_current_state(TASK_UNINTERRUPTIBLE);
		if (kthread_should_stop())
			break;
		schedule_timeout(HZ);
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

bool task_start(struct smbt_task *task, int (*fn)(void *arg), void *arg)
{
	task->fn = fn;
	task->arg = arg;
	task->result = 0;
	init_completion(&task->started);
	init_completion(&task->done);
	task->thread = kthread_run(task_main, task, "smbdirect_test");
	if (!expect(!IS_ERR(task->thread), "no thread: %ld", PTR_ERR(task->thread)))
		return false;
	/* Before that a signal would be lost. */
	wait_for_completion(&task->started);
	return true;
}

void task_signal(struct smbt_task *task)
{
	send_sig(SIGUSR1, task->thread, 1);
}

bool task_is_done(struct smbt_task *task)
{
	return completion_done(&task->done);
}

/*
 * The result of a thread that should end within the limit. One that does not is waited for all the
 * same, because it uses our stack; the runner gives the case up.
 */
int task_join(struct smbt_task *task, unsigned int limit_ms)
{
	if (!wait_for_completion_timeout(&task->done, msecs_to_jiffies(limit_ms))) {
		expect(false, "%ps has not returned within %u ms", task->fn, limit_ms);
		wait_for_completion(&task->done);
	}
	kthread_stop(task->thread);
	return task->result;
}

static int case_main(void *arg)
{
	const struct smbt_case *one = arg;

	one->run();
	return 0;
}

static void report(unsigned int number, const char *suite, const char *name)
{
	if (verdict.failures)
		pr_info("not ok %u %s.%s # %s\n", number, suite, name, verdict.reason);
	else if (verdict.skipped[0])
		pr_info("ok %u %s.%s # SKIP %s\n", number, suite, name, verdict.skipped);
	else
		pr_info("ok %u %s.%s\n", number, suite, name);
}

/* False when the case hangs: then its thread needs the module for ever. */
static bool run_case(unsigned int number, const char *suite, const struct smbt_case *one)
{
	struct smbt_task *task = kzalloc_obj(*task);
	/* The cases of faults are long. */
	unsigned int limit_ms = CASE_LIMIT_MS * slow * (strcmp(suite, "faults") ? 1 : 10);
	u64 start = smbt_now_ms();
	bool ended = true;

	log_errors();
	verdict.failures = 0;
	verdict.skipped[0] = 0;
	if (task && task_start(task, case_main, (void *)one)) {
		ended = wait_for_completion_timeout(&task->done, msecs_to_jiffies(limit_ms));
		if (ended)
			kthread_stop(task->thread);
		expect(ended, "no end within %u ms", limit_ms);
	} else {
		expect(false, "no memory");
	}
	note("%llu ms", smbt_now_ms() - start);
	report(number, suite, one->name);
	if (ended)
		kfree(task);
	else
		__module_get(THIS_MODULE);
	return ended;
}

static bool wanted(const struct smbt_suite *suite, const struct smbt_case *one)
{
	char name[80];

	if (!faults && !strcmp(suite->name, "faults"))
		return false;
	snprintf(name, sizeof(name), "%s.%s", suite->name, one->name);
	return glob_match(only, name);
}

static int __init smbdirect_test_init(void)
{
	unsigned int i, k, number = 0, total = 0;

	if (leave) {
		leave_sockets();
		return 0;
	}
	if (*server)
		return smbt_refuser_start(!strcmp(server, "mute"));
	if (IS_ENABLED(CONFIG_FAULT_INJECTION_DEBUG_FS))
		faults = smbt_faults_find();
	for (i = 0; i < ARRAY_SIZE(suites); i++)
		for (k = 0; k < suites[i]->count; k++)
			total += wanted(suites[i], &suites[i]->cases[k]);
	pr_info("KTAP version 1\n");
	pr_info("1..%u\n", total);
	for (i = 0; i < ARRAY_SIZE(suites); i++) {
		for (k = 0; k < suites[i]->count; k++) {
			if (!wanted(suites[i], &suites[i]->cases[k]))
				continue;
			if (!run_case(++number, suites[i]->name, &suites[i]->cases[k])) {
				pr_info("Bail out! a case hangs\n");
				return 0;
			}
		}
	}
	if (faults)
		smbt_faults_forget();
	pr_info("# done\n");
	return 0;
}

static void __exit smbdirect_test_exit(void)
{
	smbt_refuser_stop();
}

module_init(smbdirect_test_init);
module_exit(smbdirect_test_exit);

MODULE_DESCRIPTION("Tests of the exports of smbdirect.ko");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS("SMBDIRECT");
