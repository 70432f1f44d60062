# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2086
#
# NFS/RDMA in "make bench": the kernel's other user of these devices, from the stock kernel. Sourced by guest.sh.

# nfs_start: NFS 4.2 on a tmpfs, over TCP and RDMA.
nfs_start() {
	try 60 modprobe rpcrdma && try 60 modprobe nfsd || return
	mountpoint -q /var/lib/nfs || mount -t tmpfs tmpfs /var/lib/nfs || return
	mkdir -p $SHARE /var/lib/nfs/v4recovery && touch /var/lib/nfs/{e,rm}tab
	mountpoint -q $SHARE || mount -t tmpfs -o size=1500m tmpfs $SHARE || return
	mountpoint -q /proc/fs/nfsd || try 10 mount -t nfsd nfsd /proc/fs/nfsd || return
	try 30 exportfs -o rw,fsid=0,no_root_squash,insecure "*:$SHARE" || return
	rpc.mountd --foreground --no-nfs-version 3 >"$RUN/nfs-mountd.log" 2>&1 </dev/null &
	NFS_MOUNTD=$!
	# Nobody has anything to reclaim from before, but without the daemon that would know the server waits, 10 s at least.
	echo 10 >/proc/fs/nfsd/nfsv4leasetime && echo 10 >/proc/fs/nfsd/nfsv4gracetime &&
		try 60 rpc.nfsd --no-nfs-version 3 --rdma=20049 4 && sleep 11
}

mountd_gone() { ! kill -0 $NFS_MOUNTD; }

nfs_mount() { try 300 mount -t nfs4 -o rdma,port=20049,vers=4.2 $SERVER:/ $MNT; }

nfs_stop() {
	try 60 rpc.nfsd 0 && try 30 exportfs -ua || return
	kill $NFS_MOUNTD && wait_for 20 mountd_gone || return
	try 30 umount $SHARE && try 30 umount /proc/fs/nfsd && try 60 modprobe -r nfsv4 nfsd rpcrdma
}
