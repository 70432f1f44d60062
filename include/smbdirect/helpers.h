/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Inline functions and macros of the kernel that Rust cannot call, made callable. One line each; anything that decides
 * something belongs into Rust.
 */
#ifndef SMBDIRECT_HELPERS_H
#define SMBDIRECT_HELPERS_H

#include <linux/dcache.h>
#include <linux/minmax.h>
#include <linux/netdevice.h>
#include <linux/scatterlist.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/uio.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>
#include <linux/smbdirect.h>

/* locking, waiting, works, threads */
unsigned long smbd_spin_lock_irqsave(spinlock_t *lock);
void smbd_spin_unlock_irqrestore(spinlock_t *lock, unsigned long flags);
bool smbd_spin_trylock_irqsave(spinlock_t *lock, unsigned long *flags);
bool smbd_wq_has_sleeper(struct wait_queue_head *head);
void smbd_wake_up(struct wait_queue_head *head, int nr);
bool smbd_task_may_end(void);
struct task_struct *smbd_run_thread(int (*body)(void *data), void *data, const char *name);
void smbd_heed_interrupts(void);
void smbd_interrupt_thread(struct task_struct *task);
void smbd_init_delayed_work(struct delayed_work *dwork, work_func_t func, const char *name,
			    struct lock_class_key *key, struct lock_class_key *timer_key);
struct workqueue_struct *smbd_alloc_workqueue(const char *name, bool reclaim);
u64 smbd_mono_ns(void);

/* debugfs */
struct dentry *smbd_debugfs_dir(const char *name);
void smbd_debugfs_file(const char *name, struct dentry *dir, void *data);
void smbd_debugfs_remove(struct dentry *dir);
void smbd_debugfs_show(void *data, struct seq_file *m); /* in Rust */

/* Memory that a device writes shares no unit of so many bytes with other memory (R32). */
enum smbd_memory {
	SMBD_DMA_LINE = MAX(ARCH_DMA_MINALIGN, L1_CACHE_BYTES),
};

/* verbs */
int smbd_ib_post_send(struct ib_qp *qp, const struct ib_send_wr *wr, const struct ib_send_wr **bad);
int smbd_ib_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad);
struct ib_pd *smbd_ib_alloc_pd(struct ib_device *device);
void smbd_ib_dealloc_pd(struct ib_pd *pd);
u32 smbd_comp_vectors(const struct ib_device *device);
struct ib_cq *smbd_ib_alloc_cq(struct ib_device *device, void *private, int nr_cqe, int vector,
			       enum ib_poll_context poll);
int smbd_ib_dereg_mr(struct ib_mr *mr);
void smbd_ib_next_rkey(struct ib_mr *mr);
u32 smbd_rdma_end_port(const struct ib_device *device);
u32 smbd_rdma_start_port(const struct ib_device *device);
bool smbd_rdma_protocol_iwarp(const struct ib_device *device, u32 port);
bool smbd_rdma_ib_or_roce(const struct ib_device *device, u32 port);

/* The limits this module plans with, in one type whatever the kernel's release gave them. */
struct smbd_device_limits {
	u32 max_qp_wr;
	u32 max_cqe;
	u32 max_send_sge;
	u32 max_recv_sge;
	u32 max_sge_rd;
	u32 max_qp_rd_atom;
	u32 max_qp_init_rd_atom;
	u32 max_fast_reg_pages;
	bool frwr;
	bool sg_gaps;
};
void smbd_device_limits(const struct ib_device_attr *attrs, struct smbd_device_limits *limits);

/* DMA through an ib_device */
enum dma_data_direction smbd_dma_direction(bool to_device);
u64 smbd_ib_dma_map_single(struct ib_device *device, void *ptr, size_t len, enum dma_data_direction dir);
void smbd_ib_dma_unmap_single(struct ib_device *device, u64 addr, size_t len, enum dma_data_direction dir);
int smbd_ib_dma_mapping_error(struct ib_device *device, u64 addr);
void smbd_ib_dma_sync_for_cpu(struct ib_device *device, u64 addr, size_t len, enum dma_data_direction dir);
void smbd_ib_dma_sync_for_device(struct ib_device *device, u64 addr, size_t len, enum dma_data_direction dir);
int smbd_ib_dma_map_sg(struct ib_device *device, struct scatterlist *sg, int nents, enum dma_data_direction dir);
void smbd_ib_dma_unmap_sg(struct ib_device *device, struct scatterlist *sg, int nents, enum dma_data_direction dir);

/* memory, network devices, logging */
unsigned int smbd_noio_save(void);
void smbd_noio_restore(unsigned int before);
bool smbd_iter_is_user(const struct iov_iter *iter);
unsigned int smbd_contiguous(const void *addr, unsigned int len);
void smbd_sg_set_kernel(struct scatterlist *sg, void *addr, unsigned int len);
void smbd_sg_end(struct scatterlist *sg);
bool smbd_netif_is_stacked(const struct net_device *netdev);
void smbd_dev_put(struct net_device *netdev);
struct list_head *smbd_netdev_lower_start(struct net_device *netdev);
unsigned short smbd_netdev_type(const struct net_device *netdev);
const char *smbd_ib_device_name(const struct ib_device *device);

typedef bool (*smbd_log_needed_t)(struct smbdirect_socket *sc, void *private, unsigned int lvl, unsigned int cls);
typedef void (*smbd_log_print_t)(struct smbdirect_socket *sc, const char *func, unsigned int line, void *private,
				 unsigned int lvl, unsigned int cls, struct va_format *vaf);
void smbd_log_print(smbd_log_print_t print, struct smbdirect_socket *sc, const char *func, unsigned int line,
		    void *private, unsigned int lvl, unsigned int cls, const void *rust_fmt);

/* Fault points, on a kernel with fault injection (faults.c); rust/rdma/fault.rs says what each does. */
#define SMBD_FAULT_POINT(point, ...) SMBD_FAULT_##point,
enum smbd_fault {
#include "fault-points.h"
};
#undef SMBD_FAULT_POINT
bool smbd_fault(enum smbd_fault point);
void smbd_faults_add(void);
void smbd_faults_remove(void);

#endif /* SMBDIRECT_HELPERS_H */
