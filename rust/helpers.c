// SPDX-License-Identifier: GPL-2.0
/*
 * Out-of-line copies of inline functions and macros for Rust; see include/smbdirect/helpers.h.
 */
#include <linux/kthread.h>
#include <linux/debugfs.h>
#include <linux/timekeeping.h>
#include <linux/if_vlan.h>
#include <linux/mm.h>
#include <linux/printk.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/uio.h>
#include <linux/vmalloc.h>
#include "helpers.h"

unsigned long smbd_spin_lock_irqsave(spinlock_t *lock)
{
	unsigned long flags;

	spin_lock_irqsave(lock, flags);
	return flags;
}

void smbd_spin_unlock_irqrestore(spinlock_t *lock, unsigned long flags)
{
	spin_unlock_irqrestore(lock, flags);
}

bool smbd_spin_trylock_irqsave(spinlock_t *lock, unsigned long *flags)
{
	return spin_trylock_irqsave(lock, *flags);
}

bool smbd_wq_has_sleeper(struct wait_queue_head *head)
{
	return wq_has_sleeper(head);
}

bool smbd_task_may_end(void)
{
	return !(current->flags & PF_KTHREAD) || kthread_should_stop();
}

struct task_struct *smbd_run_thread(int (*body)(void *data), void *data, const char *name)
{
	struct task_struct *task = kthread_create(body, data, "%s", name);

	if (!IS_ERR(task)) {
		get_task_struct(task);
		wake_up_process(task);
	}
	return task;
}

/* Signals from within the kernel only. */
void smbd_heed_interrupts(void)
{
	allow_kernel_signal(SIGKILL);
}

void smbd_interrupt_thread(struct task_struct *task)
{
	send_sig(SIGKILL, task, 1);
}

void smbd_wake_up(struct wait_queue_head *head, int nr)
{
	__wake_up(head, TASK_NORMAL, nr, NULL);
}

void smbd_init_delayed_work(struct delayed_work *dwork, work_func_t func, const char *name,
			    struct lock_class_key *key, struct lock_class_key *timer_key)
{
	__init_work(&dwork->work, 0);
	dwork->work.data = (atomic_long_t)WORK_DATA_INIT();
	lockdep_init_map(&dwork->work.lockdep_map, name, key, 0);
	INIT_LIST_HEAD(&dwork->work.entry);
	dwork->work.func = func;
	timer_init_key(&dwork->timer, delayed_work_timer_fn, TIMER_IRQSAFE, name, timer_key);
}

struct workqueue_struct *smbd_alloc_workqueue(const char *name, bool reclaim)
{
	unsigned int flags = WQ_SYSFS | WQ_PERCPU | WQ_POWER_EFFICIENT;

	if (reclaim)
		flags |= WQ_MEM_RECLAIM | WQ_HIGHPRI;
	return alloc_workqueue("%s", flags, 0, name);
}

struct dentry *smbd_debugfs_dir(const char *name)
{
	return debugfs_create_dir(name, NULL);
}

static int smbd_debugfs_text_show(struct seq_file *m, void *unused)
{
	smbd_debugfs_show(m->private, m);
	return 0;
}
/* Names the module as the owner of the files: it stays while one is open. */
DEFINE_SHOW_ATTRIBUTE(smbd_debugfs_text);

void smbd_debugfs_file(const char *name, struct dentry *dir, void *data)
{
	debugfs_create_file(name, 0400, dir, data, &smbd_debugfs_text_fops);
}

void smbd_debugfs_remove(struct dentry *dir)
{
	debugfs_remove(dir);
}

u64 smbd_mono_ns(void)
{
	return ktime_get_mono_fast_ns();
}

int smbd_ib_post_send(struct ib_qp *qp, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	return ib_post_send(qp, wr, bad);
}

int smbd_ib_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	return ib_post_recv(qp, wr, bad);
}

struct ib_pd *smbd_ib_alloc_pd(struct ib_device *device)
{
	return ib_alloc_pd(device, 0);
}

void smbd_ib_dealloc_pd(struct ib_pd *pd)
{
	ib_dealloc_pd(pd);
}

/* As many vectors as there are processors to take their interrupts. */
u32 smbd_comp_vectors(const struct ib_device *device)
{
	return min_t(u32, device->num_comp_vectors, num_online_cpus());
}

struct ib_cq *smbd_ib_alloc_cq(struct ib_device *device, void *private, int nr_cqe, int vector,
			       enum ib_poll_context poll)
{
	return ib_alloc_cq(device, private, nr_cqe, vector, poll);
}

int smbd_ib_dereg_mr(struct ib_mr *mr)
{
	return ib_dereg_mr(mr);
}

void smbd_ib_next_rkey(struct ib_mr *mr)
{
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
}

u32 smbd_rdma_end_port(const struct ib_device *device)
{
	return rdma_end_port(device);
}

u32 smbd_rdma_start_port(const struct ib_device *device)
{
	return rdma_start_port(device);
}

bool smbd_rdma_protocol_iwarp(const struct ib_device *device, u32 port)
{
	return rdma_protocol_iwarp(device, port);
}

bool smbd_rdma_ib_or_roce(const struct ib_device *device, u32 port)
{
	return rdma_ib_or_roce(device, port);
}

void smbd_device_limits(const struct ib_device_attr *attrs, struct smbd_device_limits *limits)
{
	limits->max_qp_wr = attrs->max_qp_wr;
	limits->max_cqe = attrs->max_cqe;
	limits->max_send_sge = attrs->max_send_sge;
	limits->max_recv_sge = attrs->max_recv_sge;
	limits->max_sge_rd = attrs->max_sge_rd;
	limits->max_qp_rd_atom = attrs->max_qp_rd_atom;
	limits->max_qp_init_rd_atom = attrs->max_qp_init_rd_atom;
	limits->max_fast_reg_pages = attrs->max_fast_reg_page_list_len;
	limits->frwr = attrs->device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS &&
		       attrs->max_fast_reg_page_list_len;
	limits->sg_gaps = attrs->kernel_cap_flags & IBK_SG_GAPS_REG;
}

enum dma_data_direction smbd_dma_direction(bool to_device)
{
	return to_device ? DMA_TO_DEVICE : DMA_FROM_DEVICE;
}

u64 smbd_ib_dma_map_single(struct ib_device *device, void *ptr, size_t len, enum dma_data_direction dir)
{
	return ib_dma_map_single(device, ptr, len, dir);
}

void smbd_ib_dma_unmap_single(struct ib_device *device, u64 addr, size_t len, enum dma_data_direction dir)
{
	ib_dma_unmap_single(device, addr, len, dir);
}

int smbd_ib_dma_mapping_error(struct ib_device *device, u64 addr)
{
	return ib_dma_mapping_error(device, addr);
}

void smbd_ib_dma_sync_for_cpu(struct ib_device *device, u64 addr, size_t len, enum dma_data_direction dir)
{
	ib_dma_sync_single_for_cpu(device, addr, len, dir);
}

void smbd_ib_dma_sync_for_device(struct ib_device *device, u64 addr, size_t len, enum dma_data_direction dir)
{
	ib_dma_sync_single_for_device(device, addr, len, dir);
}

int smbd_ib_dma_map_sg(struct ib_device *device, struct scatterlist *sg, int nents, enum dma_data_direction dir)
{
	return ib_dma_map_sg(device, sg, nents, dir);
}

void smbd_ib_dma_unmap_sg(struct ib_device *device, struct scatterlist *sg, int nents, enum dma_data_direction dir)
{
	ib_dma_unmap_sg(device, sg, nents, dir);
}

unsigned int smbd_noio_save(void)
{
	return memalloc_noio_save();
}

void smbd_noio_restore(unsigned int before)
{
	memalloc_noio_restore(before);
}

bool smbd_iter_is_user(const struct iov_iter *iter)
{
	return user_backed_iter(iter);
}

/* Of the len bytes of kernel memory at addr those that are contiguous for a device, at least the rest of the page. */
unsigned int smbd_contiguous(const void *addr, unsigned int len)
{
	unsigned long pfn;
	unsigned int n;

	if (!is_vmalloc_or_module_addr(addr))
		return len;
	pfn = vmalloc_to_pfn(addr);
	for (n = PAGE_SIZE - offset_in_page(addr); n < len && vmalloc_to_pfn(addr + n) == ++pfn; n += PAGE_SIZE)
		;
	return min(n, len);
}

/* One entry of a scatter list for kernel memory of any kind; [addr, addr + len) must be contiguous. */
void smbd_sg_set_kernel(struct scatterlist *sg, void *addr, unsigned int len)
{
	struct page *page = is_vmalloc_or_module_addr(addr) ? vmalloc_to_page(addr) : virt_to_page(addr);

	sg_set_page(sg, page, len, offset_in_page(addr));
}

void smbd_sg_end(struct scatterlist *sg)
{
	sg_mark_end(sg);
}

bool smbd_netif_is_stacked(const struct net_device *netdev)
{
	return netif_is_bridge_master(netdev) || is_vlan_dev(netdev);
}

void smbd_dev_put(struct net_device *netdev)
{
	dev_put(netdev);
}

/* Where netdev_for_each_lower_dev() starts. */
struct list_head *smbd_netdev_lower_start(struct net_device *netdev)
{
	return netdev->adj_list.lower.next;
}

unsigned short smbd_netdev_type(const struct net_device *netdev)
{
	return netdev->type;
}

const char *smbd_ib_device_name(const struct ib_device *device)
{
	return dev_name(&device->dev);
}

/* The consumers' callback takes a va_format, which only C can build. %pA prints a Rust format argument. */
static __printf(8, 9)
void smbd_log_format(smbd_log_print_t print, struct smbdirect_socket *sc, const char *func, unsigned int line,
		     void *private, unsigned int lvl, unsigned int cls, const char *fmt, ...)
{
	struct va_format vaf;
	va_list args;

	va_start(args, fmt);
	vaf.fmt = fmt;
	vaf.va = &args;
	print(sc, func, line, private, lvl, cls, &vaf);
	va_end(args);
}

void smbd_log_print(smbd_log_print_t print, struct smbdirect_socket *sc, const char *func, unsigned int line,
		    void *private, unsigned int lvl, unsigned int cls, const void *rust_fmt)
{
	smbd_log_format(print, sc, func, line, private, lvl, cls, "%pA\n", rust_fmt);
}
