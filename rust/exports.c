// SPDX-License-Identifier: GPL-2.0
/*
 * The 28 symbols cifs and ksmbd link against. Rust defines the functions (rust/abi); the export entry needs the C
 * prototype, and including the kernel's own header makes the compiler compare nothing less than that prototype.
 */
#define DEFAULT_SYMBOL_NAMESPACE "SMBDIRECT"
#include <linux/export.h>
#include <linux/net.h>
#include <linux/smbdirect.h>

EXPORT_SYMBOL_GPL(smbdirect_netdev_rdma_capable_node_type);
EXPORT_SYMBOL_GPL(smbdirect_frwr_is_supported);
EXPORT_SYMBOL_GPL(smbdirect_socket_create_kern);
EXPORT_SYMBOL_GPL(smbdirect_socket_create_accepting);
EXPORT_SYMBOL_GPL(smbdirect_socket_set_initial_parameters);
EXPORT_SYMBOL_GPL(smbdirect_socket_get_current_parameters);
EXPORT_SYMBOL_GPL(smbdirect_socket_set_kernel_settings);
EXPORT_SYMBOL_GPL(smbdirect_socket_set_logging);
EXPORT_SYMBOL_GPL(smbdirect_connection_is_connected);
EXPORT_SYMBOL_GPL(smbdirect_connection_wait_for_connected);
EXPORT_SYMBOL_GPL(smbdirect_socket_bind);
EXPORT_SYMBOL_GPL(smbdirect_socket_shutdown);
EXPORT_SYMBOL_GPL(smbdirect_socket_release);
EXPORT_SYMBOL_GPL(smbdirect_connection_send_batch_flush);
EXPORT_SYMBOL_GPL(smbdirect_init_send_batch_storage);
EXPORT_SYMBOL_GPL(smbdirect_connection_send_single_iter);
EXPORT_SYMBOL_GPL(smbdirect_connection_send_wait_zero_pending);
EXPORT_SYMBOL_GPL(smbdirect_connection_send_iter);
EXPORT_SYMBOL_GPL(smbdirect_connection_recvmsg);
EXPORT_SYMBOL_GPL(smbdirect_connect);
EXPORT_SYMBOL_GPL(smbdirect_connect_sync);
EXPORT_SYMBOL_GPL(smbdirect_socket_listen);
EXPORT_SYMBOL_GPL(smbdirect_socket_accept);
EXPORT_SYMBOL_GPL(smbdirect_connection_rdma_xmit);
EXPORT_SYMBOL_GPL(smbdirect_connection_register_mr_io);
EXPORT_SYMBOL_GPL(smbdirect_mr_io_fill_buffer_descriptor);
EXPORT_SYMBOL_GPL(smbdirect_connection_deregister_mr_io);
EXPORT_SYMBOL_GPL(smbdirect_connection_legacy_debug_proc_show);
