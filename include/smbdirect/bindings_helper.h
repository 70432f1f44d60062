/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Everything bindgen reads for this module. C-only declarations (tracepoints, private macros) do not belong here.
 */
#ifndef SMBDIRECT_BINDINGS_HELPER_H
#define SMBDIRECT_BINDINGS_HELPER_H

#include <linux/if_arp.h>
#include <linux/inet.h>
#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <linux/scatterlist.h>
#include <linux/seq_file.h>
#include <linux/socket.h>
#include <linux/uio.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <net/net_namespace.h>
#include <net/sock.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>
#include <rdma/rw.h>
#include <linux/smbdirect.h>
#include "helpers.h"

#endif /* SMBDIRECT_BINDINGS_HELPER_H */
