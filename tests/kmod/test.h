/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the cases share. A case is a function without arguments that records what it finds wrong;
 * it passes when it recorded nothing. Several threads may record at a time.
 */
#ifndef SMBDIRECT_TEST_H
#define SMBDIRECT_TEST_H

#include <linux/bvec.h>
#include <linux/completion.h>
#include <linux/in.h>
#include <linux/ktime.h>
#include <linux/net.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smbdirect.h>
#include <linux/uio.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <net/sock.h>
#include <rdma/ib_verbs.h>

struct smbt_case {
	const char *name;
	void (*run)(void);
};

struct smbt_suite {
	const char *name;
	const struct smbt_case *cases;
	unsigned int count;
};

#define SMBT_SUITE(suite) \
	const struct smbt_suite smbt_##suite = { #suite, cases, ARRAY_SIZE(cases) }

extern const struct smbt_suite smbt_params, smbt_netdev, smbt_listen, smbt_connect, smbt_message,
	smbt_batch, smbt_region, smbt_transfer, smbt_ended, smbt_debugdata, smbt_acceptor,
	smbt_initiator, smbt_wire, smbt_events, smbt_handshake, smbt_parked, smbt_device,
	smbt_stress, smbt_faults;

/* Which module is under test, and where. */
bool smbt_ours(void);
bool smbt_iwarp(void);
u64 smbt_port_flag(bool right);
unsigned int smbt_region_pages(void);
u8 smbt_node_type(void);
const char *smbt_netdev_name(unsigned int which);
int smbt_refuser_start(bool mute);
void smbt_refuser_stop(void);
void smbt_address(struct sockaddr_in *sin, unsigned int port_offset);
unsigned int smbt_stress_ms(void);
unsigned int smbt_slow(void);
/* Of our module, where the kernel has fault injection. */
struct fault_attr;
struct fault_attr *smbd_fault_attr(const char *name);
bool smbt_faults_find(void);
void smbt_faults_forget(void);

/* Verdicts; see main.c. All return whether things are as they should be. */
bool expect(bool ok, const char *fmt, ...) __printf(2, 3);
bool expect_int(const char *what, long long got, long long want);
bool expect_rule(const char *rule, const char *what, long long got, long long want);
bool expect_lost(const char *what, int got, int want);
bool expect_refused(struct smbdirect_socket *server, const char *what, int got, bool writing);
void note(const char *fmt, ...) __printf(1, 2);
void skip(const char *fmt, ...) __printf(1, 2);
bool skip_unless_ours(const char *why);
u64 smbt_now_ms(void);

/* A thread that can be signalled and joined. */
struct smbt_task {
	int (*fn)(void *arg);
	void *arg;
	struct task_struct *thread;
	struct completion started;
	struct completion done;
	int result;
};

bool task_start(struct smbt_task *task, int (*fn)(void *arg), void *arg);
void task_signal(struct smbt_task *task);
bool task_is_done(struct smbt_task *task);
int task_join(struct smbt_task *task, unsigned int limit_ms);

/* Sockets and pairs; see pair.c. */
#define SMBT_PORT 0
#define SMBT_NO_LISTENER 1
#define SMBT_OTHER_PORT 2

struct smbt_pair {
	struct smbdirect_socket *listener;
	struct smbdirect_socket *client;
	struct smbdirect_socket *server;
	struct smbdirect_socket_parameters client_params;
	struct smbdirect_socket_parameters server_params;
	enum ib_poll_context client_poll;
	enum ib_poll_context server_poll;
	struct delayed_work guard;
};

void smbt_client_params(struct smbdirect_socket_parameters *sp);
void smbt_server_params(struct smbdirect_socket_parameters *sp);
struct smbdirect_socket *sock_new(const struct smbdirect_socket_parameters *sp,
				  enum ib_poll_context poll_ctx);
void sock_logging(struct smbdirect_socket *sc);
struct smbdirect_socket *client_new(void);
int connect_to(struct smbdirect_socket *sc, unsigned int port_offset);
struct smbdirect_socket *client_connecting(void);
void sock_listen(struct smbdirect_socket *sc, bool everywhere, int backlog);
struct smbdirect_socket *listener_default(int backlog);
struct smbdirect_socket *listener_new(const struct smbdirect_socket_parameters *sp, int backlog);
struct smbdirect_socket *listener_polling(const struct smbdirect_socket_parameters *sp, int backlog,
					  enum ib_poll_context poll_ctx);
struct smbdirect_socket *accept_one(struct smbdirect_socket *listener, unsigned int limit_ms);
int accept_error(struct smbdirect_socket *listener, long timeo);
void sock_end_within(struct smbdirect_socket *sc, unsigned int limit_ms);
void sock_end(struct smbdirect_socket *sc);

struct smbt_pair *pair_new(void);
bool pair_join(struct smbt_pair *pair);
bool pair_open(struct smbt_pair *pair);
struct smbt_pair *pair_opened(void);
void pair_close(struct smbt_pair *pair);
bool pair_works(struct smbt_pair *pair);
void listener_works(struct smbdirect_socket *listener);

void leave_sockets(void);
bool wait_gone(struct smbdirect_socket *sc, unsigned int limit_ms);
unsigned int sock_text(struct smbdirect_socket *sc, char *text, unsigned int size);
long sock_value(struct smbdirect_socket *sc, const char *key);
bool sock_is(struct smbdirect_socket *sc, const char *status);
bool sock_reaches(struct smbdirect_socket *sc, const char *status, unsigned int limit_ms);
unsigned int log_errors(void);
bool log_said(const char *text);

/* Messages. */
int msg_send(struct smbdirect_socket *sc, const void *data, size_t len);
int raw_recv(struct smbdirect_socket *sc, void *data, size_t len);
int iter_recv(struct smbdirect_socket *sc, struct iov_iter *iter, unsigned int flags);
int msg_recv(struct smbdirect_socket *sc, void *data, size_t size);
bool msg_expect(struct smbdirect_socket *sc, void *scratch, size_t len, u32 seed);
void pattern_fill(void *data, size_t len, u32 seed);
bool pattern_expect(const char *what, const void *data, size_t len, u32 seed);
bool bytes_expect(const char *what, const void *data, size_t len, u8 value);

/* Memory that is reached linearly by us and through an iterator by the module; see memory.c. */
enum smbt_kind { SMBT_KVEC, SMBT_BVEC, SMBT_FOLIOQ, SMBT_XARRAY, SMBT_KINDS };

struct smbt_memory {
	enum smbt_kind kind;
	size_t offset;
	size_t len;
	void *data;
	unsigned int pages;
	struct page **page;
	struct bio_vec *bvec;
	struct kvec kvec;
	struct folio_queue *folioq;
	struct xarray xarray;
};

const char *memory_kind(enum smbt_kind kind);
struct smbt_memory *memory_new(enum smbt_kind kind, size_t offset, size_t len);
void memory_iter(struct smbt_memory *mem, unsigned int direction, struct iov_iter *iter);
void memory_free(struct smbt_memory *mem);

/* Regions; see region.c. */
struct smbdirect_mr_io *region_new(struct smbt_pair *pair, struct smbt_memory *mem, bool writing,
				   bool need_invalidate, struct smbdirect_buffer_descriptor_v1 *v1);
long regions_limit(struct smbdirect_socket *sc);
bool region_announce(struct smbt_pair *pair);
bool region_answer(struct smbt_pair *pair);

#endif
