// SPDX-License-Identifier: GPL-2.0
/* The text for DebugData, which tools parse: every byte counts. */

#include <linux/ctype.h>
#include <linux/delay.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>

#include "test.h"

/* The lines, each after a newline. %u is a decimal, %x a hexadecimal number, %s a name. */
static const char * const template[] = {
	"SMBDirect protocol version: 0x100 transport status: %s (%u)",
	"Conn receive_credit_max: %u send_credit_target: %u max_send_size: %u",
	"Conn max_fragmented_recv_size: %u max_fragmented_send_size: %u max_receive_size:%u",
	"Conn keep_alive_interval: %u max_readwrite_size: %u rdma_readwrite_threshold: 4096",
	"Debug count_get_receive_buffer: %u count_put_receive_buffer: %u count_send_empty: %u",
	"Read Queue count_enqueue_reassembly_queue: %u count_dequeue_reassembly_queue: %u reassembly_data_length: %u reassembly_queue_length: %u",
	"Current Credits send_credits: %u receive_credits: %u receive_credit_target: %u",
	"Pending send_pending: %u ",
	"MR responder_resources: %u max_frmr_depth: %u mr_type: 0x%x",
	"MR mr_ready_count: %u mr_used_count: %u",
};

static bool part_of(char kind, char c)
{
	if (kind == 'u')
		return isdigit(c);
	if (kind == 'x')
		return isxdigit(c) && !isupper(c);
	return isupper(c) || c == '_';
}

/* Where the line ends in the text, NULL when the text is another. Like sscanf, but to the byte. */
static const char *match_line(const char *text, const char *want)
{
	if (*text++ != '\n')
		return NULL;
	while (*want) {
		const char *start = text;

		if (*want != '%') {
			if (*want++ != *text++)
				return NULL;
			continue;
		}
		while (part_of(want[1], *text))
			text++;
		if (text == start)
			return NULL;
		want += 2;
	}
	return text;
}

static bool matches(const char *text)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(template); i++) {
		const char *next = match_line(text, template[i]);

		if (!expect(next, "\"%.40s\" should be \"%.40s\"", skip_spaces(text), template[i]))
			return false;
		text = next;
	}
	return expect(!*text, "something behind the last line");
}

static void text_of(struct smbdirect_socket *sc, const char *status)
{
	char *text = kmalloc(2048, GFP_KERNEL);
	char want[64];

	if (!text)
		return;
	sock_text(sc, text, 2048);
	matches(text);
	snprintf(want, sizeof(want), "status: %s\n", status);
	expect(strstr(text, want), "no \"%s\" in: %.90s", status, text);
	kfree(text);
}

static void null(void)
{
	char text[16];

	expect_int("bytes for NULL", sock_text(NULL, text, sizeof(text)), 0);
}

static void statuses(void)
{
	struct smbdirect_socket_parameters sp;
	struct smbdirect_socket *sc;
	struct smbt_pair *pair;

	sc = client_new();
	if (!sc)
		return;
	text_of(sc, "CREATED (0)");
	smbdirect_socket_shutdown(sc);
	text_of(sc, "DISCONNECTED (17)");
	sock_end(sc);
	smbt_server_params(&sp);
	sc = listener_new(&sp, 1);
	if (sc)
		text_of(sc, "LISTENING (1)");
	sock_end(sc);
	pair = pair_opened();
	if (pair) {
		text_of(pair->client, "CONNECTED (14)");
		text_of(pair->server, "CONNECTED (14)");
	}
	pair_close(pair);
}

/* A value is there at once or, because messages are under way, soon. */
static void value(struct smbdirect_socket *sc, const char *key, long want)
{
	u64 end = smbt_now_ms() + 1000;

	while (sock_value(sc, key) != want && smbt_now_ms() < end)
		msleep(20);
	expect_int(key, sock_value(sc, key), want);
}

static void values(void)
{
	struct smbt_pair *pair = pair_opened();
	struct smbdirect_socket *c;

	if (!pair)
		return;
	c = pair->client;
	value(c, "receive_credit_max:", 255);
	value(c, "send_credit_target:", 255);
	value(c, "max_send_size:", 1364);
	value(c, "max_fragmented_recv_size:", 173910);
	value(c, "max_fragmented_send_size:", 173910);
	value(c, "max_receive_size:", 1364);
	value(c, "keep_alive_interval:", 120);
	value(c, "max_readwrite_size:", smbt_region_pages() * PAGE_SIZE);
	value(c, "reassembly_data_length:", 0);
	value(c, "reassembly_queue_length:", 0);
	value(c, "receive_credit_target:", 255);
	value(c, "send_pending:", 0);
	value(c, "responder_resources:", 8);
	value(c, "max_frmr_depth:", smbt_region_pages());
	value(c, "mr_type:", 0);
	value(c, "mr_ready_count:", 16);
	value(c, "mr_used_count:", 0);
	/* Ours may have used one to grant the server its first credits (R28). */
	expect(sock_value(c, "send_credits:") >= 254, "send credits: %ld",
	       sock_value(c, "send_credits:"));
	value(pair->server, "receive_credit_target:", 255);
	value(pair->server, "max_readwrite_size:", 8 << 20);
	value(pair->server, "responder_resources:", 1);
	value(pair->server, "mr_ready_count:", 0);
	expect(sock_value(pair->server, "receive_credits:") >= 254, "receive credits: %ld",
	       sock_value(pair->server, "receive_credits:"));
	pair_close(pair);
}

/* The counters that a message of two fragments moves. */
static void counters(void)
{
	struct smbt_pair *pair = pair_opened();
	struct smbdirect_socket *s;
	u8 data[1400];
	long first, base;

	if (!pair)
		return;
	s = pair->server;
	base = sock_value(s, "count_dequeue_reassembly_queue:");
	first = sock_value(s, "count_enqueue_reassembly_queue:");
	pattern_fill(data, sizeof(data), 1);
	expect_int("send", msg_send(pair->client, data, sizeof(data)), sizeof(data) + 4);
	/* C counts the negotiation, too. */
	value(s, "count_enqueue_reassembly_queue:", first + 2);
	value(s, "reassembly_data_length:", 1400);
	value(s, "reassembly_queue_length:", 2);
	expect_int("length", raw_recv(s, data, 4), 4);
	value(s, "reassembly_data_length:", 1400);
	value(s, "reassembly_queue_length:", 2);
	expect_int("first bytes", raw_recv(s, data, 100), 100);
	value(s, "count_dequeue_reassembly_queue:", base);
	value(s, "reassembly_data_length:", 1300);
	value(s, "reassembly_queue_length:", 2);
	expect_int("most of the rest", raw_recv(s, data, 1250), 1250);
	value(s, "count_dequeue_reassembly_queue:", base + 1);
	value(s, "reassembly_data_length:", 50);
	value(s, "reassembly_queue_length:", 1);
	expect_int("the rest", raw_recv(s, data, 50), 50);
	value(s, "count_dequeue_reassembly_queue:", base + 2);
	value(s, "reassembly_data_length:", 0);
	value(s, "reassembly_queue_length:", 0);
	expect(sock_value(s, "count_get_receive_buffer:") >= 255, "buffers taken: %ld",
	       sock_value(s, "count_get_receive_buffer:"));
	expect(sock_value(s, "count_put_receive_buffer:") >= 2, "buffers returned: %ld",
	       sock_value(s, "count_put_receive_buffer:"));
	pair_close(pair);
}

/* cifs asks with a spin lock held, also while the connection is busy. */
static void atomic(void)
{
	struct smbt_pair *pair = pair_opened();
	char *text = kmalloc(2048, GFP_KERNEL);
	static DEFINE_SPINLOCK(lock);
	int i;

	for (i = 0; pair && text && i < 200; i++) {
		msg_send(pair->client, text, 100);
		spin_lock(&lock);
		sock_text(pair->client, text, 2048);
		spin_unlock(&lock);
		if (!matches(text))
			break;
		spin_lock(&lock);
		sock_text(pair->server, text, 2048);
		spin_unlock(&lock);
		if (!matches(text))
			break;
		raw_recv(pair->server, text, 100);
	}
	pair_close(pair);
	kfree(text);
}

/* A buffer that is too small overflows like any seq_file, without damage. */
static void small_buffer(void)
{
	struct smbdirect_socket *sc = client_new();
	char text[64];

	if (!sc)
		return;
	memset(text, '#', sizeof(text));
	sock_text(sc, text, 40);
	bytes_expect("behind the buffer", text + 40, sizeof(text) - 40, '#');
	sock_end(sc);
}

static const struct smbt_case cases[] = {
	{ "null", null },
	{ "statuses", statuses },
	{ "values", values },
	{ "counters", counters },
	{ "atomic", atomic }, /* rules: R46 */
	{ "small_buffer", small_buffer },
};

SMBT_SUITE(debugdata);
