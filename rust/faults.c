// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's fault injection for the points of rust/rdma/fault.rs: /sys/kernel/debug/smbdirect-faults/<point>/, with
 * the files of Documentation/fault-injection. Built only for a kernel that has it.
 */
#include <linux/debugfs.h>
#include <linux/export.h>
#include <linux/fault-inject.h>
#include <linux/string.h>
#include "helpers.h"

struct fault_attr *smbd_fault_attr(const char *name);

#define SMBD_FAULT_POINT(_point, _name) \
	[SMBD_FAULT_##_point] = { .name = #_name, .attr = FAULT_ATTR_INITIALIZER },

static struct {
	const char *name;
	struct fault_attr attr;
} points[] = {
#include "fault-points.h"
};

static struct dentry *folder;

bool smbd_fault(enum smbd_fault point)
{
	return should_fail(&points[point].attr, 1);
}

/* For tests in the kernel, which cannot write to debugfs: the knobs of a point, or NULL. */
struct fault_attr *smbd_fault_attr(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(points); i++)
		if (!strcmp(points[i].name, name))
			return &points[i].attr;
	return NULL;
}
EXPORT_SYMBOL_GPL(smbd_fault_attr);

/* Failures are debugfs's own affair: the module works without. */
void smbd_faults_add(void)
{
	folder = debugfs_create_dir("smbdirect-faults", NULL);
	for (size_t i = 0; i < ARRAY_SIZE(points); i++)
		fault_create_debugfs_attr(points[i].name, folder, &points[i].attr);
}

void smbd_faults_remove(void)
{
	debugfs_remove_recursive(folder);
}
