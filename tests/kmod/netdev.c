// SPDX-License-Identifier: GPL-2.0
/* What a network device can carry. */

#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <net/net_namespace.h>

#include "test.h"

/* As ksmbd asks: with rtnl held. */
static void expect_type(unsigned int which, u8 want)
{
	const char *name = smbt_netdev_name(which);
	struct net_device *dev;

	if (!name) {
		skip("no such device was made");
		return;
	}
	rtnl_lock();
	dev = dev_get_by_name(&init_net, name);
	if (expect(dev, "no device %s", name)) {
		expect_int(name, smbdirect_netdev_rdma_capable_node_type(dev), want);
		dev_put(dev);
	}
	rtnl_unlock();
}

static void rdma(void)
{
	expect_type(0, smbt_node_type());
}

static void loopback(void)
{
	expect_type(1, RDMA_NODE_UNSPECIFIED);
}

static void vlan(void)
{
	expect_type(2, smbt_node_type());
}

static void bridge(void)
{
	expect_type(3, smbt_node_type());
}

static const struct smbt_case cases[] = {
	{ "rdma", rdma },
	{ "loopback", loopback },
	{ "vlan", vlan },
	{ "bridge", bridge },
};

SMBT_SUITE(netdev);
