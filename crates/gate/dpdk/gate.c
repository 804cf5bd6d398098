// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory, ports and cores of the data path on DPDK. src/dpdk/sys.rs calls this.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_launch.h>
#include <rte_random.h>
#include "measure.h"
#include "wire.h"
#include "ports.h"

enum {
	CHUNK = 64,	// values that are written while the cores wait
};
enum map { SETTINGS, CURRENT, SEATS4, SEATS6, SEATS_LINK, BINDINGS, PORTS_MAP, PLANS_MAP, SHAPES, RULE_SETS, NODES_MAP };

int tidegate_dpdk_init(int count, char **arguments)
{
	// Of arguments that are wrong, DPDK writes a line to standard error, and all that it knows of any to standard output.
	fflush(stdout);
	int output = dup(STDOUT_FILENO), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (output >= 0 && nowhere >= 0)
		dup2(nowhere, STDOUT_FILENO);
	int error = rte_eal_init(count, arguments) < 0 ? -rte_errno : 0;
	fflush(stdout);
	if (output >= 0 && nowhere >= 0)
		dup2(output, STDOUT_FILENO);
	if (output >= 0)
		close(output);
	if (nowhere >= 0)
		close(nowhere);
	return error;
}

const char *tidegate_dpdk_error(int number) { return rte_strerror(number < 0 ? -number : number); }

static int create_tables(void)
{
	struct {
		struct table *table;
		const char *name;
		u32 key, value, room;
	} all[] = {
		{ &memory.seats4, "seats4", sizeof(struct key4), sizeof(struct seats), PREFIXES },
		{ &memory.seats6, "seats6", sizeof(struct key6), sizeof(struct seats), PREFIXES },
		{ &memory.seats_link, "seats_link", sizeof(struct link_key), sizeof(struct seats), LINKS },
		{ &memory.bindings, "bindings", sizeof(u32), sizeof(struct binding), PAGES * PAGE / 2 },
		{ &memory.ports, "ports", sizeof(u32), sizeof(u32), PORTS },
	};
	for (u32 i = 0; i < RTE_DIM(all); i++) {
		struct table *t = all[i].table;
		t->name = all[i].name;
		t->key = all[i].key;
		t->value = all[i].value;
		t->room = all[i].room;
		if (table_create(t, rte_rand()))
			return -ENOMEM;
	}
	memory.senders = rte_zmalloc("senders", 2 * SENDERS * sizeof(*memory.senders), 64);
	memory.plans = rte_zmalloc("plans", PLANS * sizeof(*memory.plans), 64);
	memory.nodes = rte_zmalloc("nodes", NODES * sizeof(*memory.nodes), 64);
	memory.shapes = rte_zmalloc("shapes", PLACES * sizeof(*memory.shapes), 64);
	memory.rule_sets = rte_zmalloc("rule_sets", PLACES * sizeof(*memory.rule_sets), 64);
	return memory.senders && memory.plans && memory.nodes && memory.shapes && memory.rule_sets ? 0 : -ENOMEM;
}

static void free_memory(void)
{
	struct table *tables[] = { &memory.seats4, &memory.seats6, &memory.seats_link, &memory.bindings, &memory.ports };
	for (u32 i = 0; i < RTE_DIM(tables); i++)
		rte_free(tables[i]->slots);
	rte_free(memory.senders);
	rte_free(memory.plans);
	rte_free(memory.nodes);
	rte_free(memory.shapes);
	rte_free(memory.rule_sets);
	for (u32 i = 0; i < PAGES; i++) {
		rte_free(memory.pages[i]);
		rte_free(memory.owners[i]);
	}
	memset(&memory, 0, sizeof(memory));
	rte_free(watching.buckets);
	free_lines();
	memset(&watching, 0, sizeof(watching));
}

// Ends the limiters of beside.h. What they hold is not sent.
static void end_beside(void)
{
	for (u32 i = 0; i < CORES; i++) {
		struct core *core = cores + i;
		for (u32 at = 0; at < core->left_count; at++)
			rte_pktmbuf_free(core->left[at].packet);
		if (core->limiters)
			beside.end(core->limiters, rte_pktmbuf_free);
		core->limiters = 0;
		for (void *m; core->handed && !rte_ring_dequeue(core->handed, &m);)
			rte_pktmbuf_free(m);
		core->left_count = core->waits = 0;
		rte_free(core->left);
		rte_ring_free(core->handed);
		core->left = 0;
		core->handed = 0;
	}
}

// Makes room for what passes through a core's limiters, and between cores.
static int make_core(u32 number)
{
	char name[RTE_RING_NAMESIZE];
	struct core *core = cores + number;
	if (core->handed)
		return 0;
	snprintf(name, sizeof(name), "handed%u", number);
	core->left = rte_zmalloc("left", LEFT * sizeof(*core->left), 64);
	core->handed = rte_ring_create(name, RING, SOCKET_ID_ANY, RING_F_SC_DEQ);
	return core->left && core->handed ? 0 : -ENOMEM;
}

// Makes the memory for plans and limiters. The functions are those of beside.h.
int tidegate_dpdk_create(beside_offer offer, beside_forget forget, beside_end end)
{
	beside.offer = offer;
	beside.forget = forget;
	beside.end = end;
	memset(cores, 0, sizeof(cores));
	memset(heard, 0, sizeof(heard));
	self = cores;
	int error = create_tables();
	if (!error)
		error = make_core(0);
	if (error) {
		end_beside();
		free_memory();
	}
	return error;
}

u32 tidegate_dpdk_workers(void) { return rte_lcore_count() - 1; }

// Opens the ports, with this many packet buffers, and more for each further core, and starts a core for each pair of queues.
// Buffers hold this many bytes. Subscribers are behind the port with the other number than `network`. `sleeps`: cores sleep when
// nothing comes. Returns as open_ports, or -ECHILD if there is no core.
int tidegate_dpdk_start(const char *const names[2], u32 packets, u32 bytes, u32 network, u32 sleeps)
{
	u32 workers = tidegate_dpdk_workers();
	if (!workers || workers > CORES)
		return -ECHILD;
	int error = open_ports(names, workers, packets + (workers - 1) * SPARE, bytes, network);
	for (u32 i = 1; !error && i < workers; i++)
		error = make_core(i);
	if (error)
		return error;
	wire.sleeps = sleeps;
	wire.workers = workers;
	memory.locks = workers > 1;
	u32 next = 0, lcore;
	RTE_LCORE_FOREACH_WORKER(lcore) {
		struct core *core = cores + next++;
		core->is_running = 1;
		if ((error = rte_eal_remote_launch(work, core, lcore))) {
			core->is_running = 0;
			return error;
		}
	}
	return 0;
}

// Opens the ports for measurements on this core, where this many packets may wait.
int tidegate_dpdk_open(const char *const names[2], u32 packets)
{
	return open_ports(names, 1, packets + SPARE, 128, 0);
}

u64 tidegate_dpdk_hertz(void) { return rte_get_tsc_hz(); }

int tidegate_dpdk_measure(struct load *load, u64 packets, u32 limits, struct cost *cost)
{
	self = cores;
	return measure(load, packets, limits, wire.number[0], wire.number[1], cost);
}

// The directions that are limited of the packets that come in at each port, as bits.
int tidegate_dpdk_limit(u32 first, u32 second)
{
	int core = pause_cores();
	if (core)
		return core;
	wire.limits[0] = first;
	wire.limits[1] = second;
	resume_cores();
	return 0;
}

// Sends what has come in, ends the cores, closes the ports, and frees all memory. Returns 0, or the number of a core that does not
// end, plus one: it may still use the ports and the memory, so they stay.
int tidegate_dpdk_close(void)
{
	u32 stuck = end_cores();
	if (stuck)
		return stuck;
	rte_eal_mp_wait_lcore();
	close_ports();
	end_beside();
	wire.workers = 0;
	wire.limits[0] = wire.limits[1] = 0;
	free_memory();
	return 0;
}

static struct table *table_of(enum map map)
{
	switch (map) {
	case SEATS4: return &memory.seats4;
	case SEATS6: return &memory.seats6;
	case SEATS_LINK: return &memory.seats_link;
	case BINDINGS: return &memory.bindings;
	case PORTS_MAP: return &memory.ports;
	default: return 0;
	}
}

// The address of an element of an array, and its bytes; 0 if there is none.
static void *element_of(enum map map, u32 number, u32 *bytes)
{
	switch (map) {
	case SETTINGS:
		*bytes = sizeof(struct settings);
		return number < 2 ? memory.settings + number : 0;
	case CURRENT:
		*bytes = sizeof(u32);
		return number < 1 ? &memory.current : 0;
	case PLANS_MAP:
		*bytes = sizeof(struct plan);
		return number < PLANS ? memory.plans + number : 0;
	case SHAPES:
		*bytes = sizeof(struct shape);
		return number < PLACES ? memory.shapes + number : 0;
	case RULE_SETS:
		*bytes = sizeof(struct rules);
		return number < PLACES ? memory.rule_sets + number : 0;
	case NODES_MAP:
		*bytes = sizeof(struct node);
		return number < NODES ? memory.nodes + number : 0;
	default:
		return 0;
	}
}

u32 tidegate_dpdk_room(u32 map)
{
	struct table *t = table_of(map);
	return t ? t->room : map == PLANS_MAP ? PLANS : map == NODES_MAP ? NODES : map == SETTINGS ? 2 : map == CURRENT ? 1 : PLACES;
}

// Copies a value. Returns its bytes, or 0 if there is none.
u32 tidegate_dpdk_lookup(u32 map, const void *key, void *value)
{
	struct table *t = table_of(map);
	u32 bytes = 0;
	const void *from;
	if (t) {
		bool found;
		const u8 *slot = table_find(t, key, t->key, &found);
		from = found ? slot + value_at(t->key) : 0;
		bytes = t->value;
	} else {
		from = element_of(map, *(const u32 *)key, &bytes);
	}
	if (!from)
		return 0;
	memcpy(value, from, bytes);
	return bytes;
}

static int grow(struct table *t, u32 more)
{
	bool failed;
	u32 mask;
	u8 *slots = table_grown(t, more, &mask, &failed), *old = t->slots;
	if (failed)
		return -ENOMEM;
	if (!slots)
		return 0;
	int core = pause_cores();
	if (core) {
		rte_free(slots);
		return core;
	}
	t->slots = slots;
	t->mask = mask;
	resume_cores();
	rte_free(old);
	return 0;
}

// Writes values, a few at a time while the cores wait. Returns 0, an error, or the number of a core that does not answer,
// plus one.
int tidegate_dpdk_update(u32 map, const u8 *keys, const u8 *values, u32 count)
{
	struct table *t = table_of(map);
	int error = t ? grow(t, count) : 0;
	for (u32 done = 0; !error && done < count;) {
		if ((error = pause_cores()))
			break;
		for (u32 i = 0; i < CHUNK && done < count; i++, done++) {
			u32 bytes;
			if (t) {
				table_put(t, keys + (size_t)done * t->key, values + (size_t)done * t->value);
				continue;
			}
			void *to = element_of(map, ((const u32 *)keys)[done], &bytes);
			if (to)
				memcpy(to, values + (size_t)done * bytes, bytes);
			else
				error = -ENOENT;
		}
		resume_cores();
	}
	return error;
}

// Returns 0, -ENOENT if the table has no such key, or the number of a core that does not answer, plus one.
int tidegate_dpdk_delete(u32 map, const void *key)
{
	struct table *t = table_of(map);
	int core = t ? pause_cores() : -ENOENT;
	if (core)
		return core;
	bool found = table_remove(t, key);
	resume_cores();
	return found ? 0 : -ENOENT;
}

// Copies the key of the next used slot of a table, from a number on. Returns the number after it, or 0 at the end.
u32 tidegate_dpdk_next(u32 map, u32 from, void *key)
{
	struct table *t = table_of(map);
	for (u32 number = from; t && number <= t->mask; number++) {
		const u8 *slot = slot_of(t, number, t->key);
		if (*slot) {
			memcpy(key, slot + 8, t->key);
			return number + 1;
		}
	}
	return 0;
}

// Makes the pages of limiters below this number.
int tidegate_dpdk_reserve(u32 wanted)
{
	for (u32 number = 0; number < wanted && number < PAGES; number++) {
		if (watching.count && make_lines(number))
			return -ENOMEM;
		if (memory.pages[number])
			continue;
		struct limiter *made = rte_zmalloc("limiters", PAGE * sizeof(struct limiter), 64);
		memory.owners[number] = made ? rte_zmalloc("owners", PAGE, 64) : 0;
		if (!memory.owners[number]) {
			rte_free(made);
			return -ENOMEM;
		}
		__atomic_store_n(&memory.pages[number], made, __ATOMIC_RELEASE);
	}
	return wanted > PAGES ? -ENOMEM : 0;
}

// Copies a limiter, as it was between two bursts.
int tidegate_dpdk_read(u32 number, void *state)
{
	struct limiter *s = limiter_at(number);
	int core = s ? pause_cores() : -ENOENT;
	if (core)
		return core;
	memcpy(state, s, sizeof(*s));
	resume_cores();
	return 0;
}

// Writes a limiter between two bursts.
int tidegate_dpdk_write(u32 number, const void *state)
{
	struct limiter *s = limiter_at(number);
	int core = s ? pause_cores() : -ENOENT;
	if (core)
		return core;
	memcpy(s, state, sizeof(*s));
	resume_cores();
	return 0;
}

int tidegate_dpdk_forget(u32 number)
{
	struct limiter *s = limiter_at(number);
	int core = s ? pause_cores() : -ENOENT;
	if (core)
		return core;
	memset(s, 0, sizeof(*s));
	memory.owners[number >> PAGE_BITS][number & (PAGE - 1)] = 0;
	for (u32 i = 0; i < CORES; i++)
		if (cores[i].limiters)
			cores[i].waits -= beside.forget(cores[i].limiters, number, rte_pktmbuf_free);
	struct line *l = line_of(number / 2);
	if (l)
		memset(l, 0, sizeof(*l));
	resume_cores();
	return 0;
}

// Copies five counters of a limiter while packets pass.
int tidegate_dpdk_counters(u32 number, u64 *to)
{
	const volatile struct limiter *s = limiter_at(number);
	if (!s)
		return -ENOENT;
	to[0] = s->passed_packets;
	to[1] = s->passed_bytes;
	to[2] = s->excess_packets;
	to[3] = s->excess_bytes;
	to[4] = s->marked_packets;
	return 0;
}

#include "copies.h"

// Packets and bytes that were counted for a reason, on all cores.
void tidegate_dpdk_tally(u32 reason, u64 *packets, u64 *bytes)
{
	*packets = *bytes = 0;
	for (u32 i = 0; i < CORES && reason < REASONS; i++) {
		const volatile struct tally *t = cores[i].tallies + reason;
		*packets += t->packets;
		*bytes += t->bytes;
	}
}

// Waits until no core decides by what it read before. Returns 0, or the number of one that does not answer, plus one.
int tidegate_dpdk_answers(void) { return await_bursts(); }

// Bursts that a core has done. For tests.
u64 tidegate_dpdk_bursts(u32 core) { return core < CORES ? bursts_of(core) : 0; }

// Decides about a burst of frames as the cores do, at a given time. No plan may hold packets. For tests, while no core runs.
// Frames are marked in place.
int tidegate_dpdk_try(u64 now, u32 direction, u8 *const *frames, const u32 *lengths, u32 count, int *verdicts)
{
	struct rte_mbuf headers[BURST], *packets[BURST];
	if (count > BURST)
		return -EINVAL;
	for (u32 i = 0; i < count; i++) {
		memset(headers + i, 0, sizeof(headers[i]));
		headers[i].buf_addr = frames[i];
		headers[i].data_len = lengths[i] > 0xffff ? 0xffff : lengths[i];	// the rest is in further segments
		headers[i].pkt_len = lengths[i];
		packets[i] = headers + i;
	}
	self = cores;
	self->now = now;
	decide(packets, count, direction & 1, 1, verdicts);
	// What a FairPolicer lets pass, since a shaper would keep the frames.
	for (u32 at = 0; at < self->left_count; at++) {
		account_left(self->left + at);
		verdicts[self->left[at].packet - headers] = PASS;
	}
	self->left_count = 0;
	return 0;
}
