// SPDX-License-Identifier: GPL-2.0
/* Memory behind iterators of every kind that callers use. */

#include <linux/folio_queue.h>
#include <linux/vmalloc.h>

#include "test.h"

static const char * const kinds[] = { "kvec", "bvec", "folioq", "xarray" };

const char *memory_kind(enum smbt_kind kind)
{
	return kinds[kind];
}

static bool memory_bvec(struct smbt_memory *mem)
{
	unsigned int i;

	mem->bvec = kvzalloc_objs(*mem->bvec, mem->pages);
	for (i = 0; mem->bvec && i < mem->pages; i++)
		bvec_set_page(&mem->bvec[i], mem->page[i], PAGE_SIZE, 0);
	return mem->bvec;
}

static bool memory_folioq(struct smbt_memory *mem)
{
	struct folio_queue **tail = &mem->folioq, *last = NULL;
	unsigned int i;

	for (i = 0; i < mem->pages; i++) {
		if (!last || folioq_full(last)) {
			struct folio_queue *next = kzalloc_obj(*next);

			if (!next)
				return false;
			folioq_init(next, 0);
			next->prev = last;
			*tail = next;
			tail = &next->next;
			last = next;
		}
		folioq_append(last, page_folio(mem->page[i]));
	}
	return true;
}

static bool memory_xarray(struct smbt_memory *mem)
{
	unsigned int i;

	for (i = 0; i < mem->pages; i++)
		if (xa_err(xa_store(&mem->xarray, i, page_folio(mem->page[i]), GFP_KERNEL)))
			return false;
	return true;
}

static bool memory_pages(struct smbt_memory *mem)
{
	unsigned int i;
	void *base;

	mem->page = kvzalloc_objs(*mem->page, mem->pages);
	if (!mem->page)
		return false;
	for (i = 0; i < mem->pages; i++) {
		mem->page[i] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!mem->page[i])
			return false;
	}
	base = vmap(mem->page, mem->pages, VM_MAP, PAGE_KERNEL);
	if (!base)
		return false;
	mem->data = base + mem->offset;
	mem->kvec.iov_base = mem->data;
	mem->kvec.iov_len = mem->len;
	return true;
}

/* len bytes from offset in the first page on; offset is less than a page. */
struct smbt_memory *memory_new(enum smbt_kind kind, size_t offset, size_t len)
{
	struct smbt_memory *mem = kzalloc_obj(*mem);
	bool ok = mem;

	if (ok) {
		mem->kind = kind;
		mem->offset = offset;
		mem->len = len;
		mem->pages = DIV_ROUND_UP(offset + len, PAGE_SIZE);
		xa_init(&mem->xarray);
		ok = memory_pages(mem);
	}
	if (ok && kind == SMBT_BVEC)
		ok = memory_bvec(mem);
	if (ok && kind == SMBT_FOLIOQ)
		ok = memory_folioq(mem);
	if (ok && kind == SMBT_XARRAY)
		ok = memory_xarray(mem);
	if (expect(ok, "no memory"))
		return mem;
	memory_free(mem);
	return NULL;
}

void memory_iter(struct smbt_memory *mem, unsigned int direction, struct iov_iter *iter)
{
	switch (mem->kind) {
	case SMBT_BVEC:
		iov_iter_bvec(iter, direction, mem->bvec, mem->pages, mem->offset + mem->len);
		iov_iter_advance(iter, mem->offset);
		break;
	case SMBT_FOLIOQ:
		iov_iter_folio_queue(iter, direction, mem->folioq, 0, mem->offset, mem->len);
		break;
	case SMBT_XARRAY:
		iov_iter_xarray(iter, direction, &mem->xarray, mem->offset, mem->len);
		break;
	default:
		iov_iter_kvec(iter, direction, &mem->kvec, 1, mem->len);
	}
}

void memory_free(struct smbt_memory *mem)
{
	unsigned int i;

	if (!mem)
		return;
	while (mem->folioq) {
		struct folio_queue *next = mem->folioq->next;

		kfree(mem->folioq);
		mem->folioq = next;
	}
	xa_destroy(&mem->xarray);
	kvfree(mem->bvec);
	if (mem->data)
		vunmap(mem->data - mem->offset);
	for (i = 0; mem->page && i < mem->pages; i++)
		if (mem->page[i])
			put_page(mem->page[i]);
	kvfree(mem->page);
	kfree(mem);
}
