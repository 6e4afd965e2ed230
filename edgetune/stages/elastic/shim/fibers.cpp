// A grid on one CPU thread: a fiber for each thread of a block, one block after another.
//
//   fiber 0  --run--> waits at a barrier            --run-->  returns
//   fiber 1           --run--> waits at the barrier           --run-->  returns     the next block, on the same fibers
//
// Fibers are started with makecontext and switched with setjmp and longjmp, which, unlike swapcontext, call nothing of
// the operating system. They give way only where they wait, to the next in the order of the schedule.
//
// Of persistent forms a few blocks run in turns: one gives way to another where all of its threads wait, and where it
// takes a logical block, at chance; its shared memory is put aside meanwhile. The quota may change whenever it does.

#include "runtime.hpp"

#include <link.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace edgetune_shim {

constexpr size_t stack_bytes = 8 * page_bytes;  // of a fiber; 512 KiB are what a CUDA thread may have of local memory
constexpr size_t watched_bytes = 256;  // behind the dynamic shared memory, to see writes that go too far

// The variables of the runtime behind it are out of reach: pages that a launch has no use for cannot be touched.
constexpr size_t dynamic_pages_bytes = (most_dynamic_bytes + watched_bytes + 2 * page_bytes) / page_bytes * page_bytes;
alignas(page_bytes) unsigned char dynamic_shared[dynamic_pages_bytes];
Schedule schedule;
Launch launch;

enum State : unsigned char { ready, at_barrier, at_meeting, returned };

struct Fiber {
    jmp_buf context;
    uint3 index;
    unsigned int number;
    State state;
    Place place;
    bool vote;
    Votes votes;
    unsigned int mask;
    Lane *lane;
    int clock_site;
    long long ticks, tick;
};

struct Block {  // one that runs
    uint3 index;
    Fiber *fibers;
    unsigned char *shared;  // what it had in shared memory when it gave way
    unsigned int turns[most_threads], turn, ready_left;
    bool running;
};

static Fiber fibers_of_all[most_resident * most_threads];
static Block blocks[most_resident], *here = blocks;
static Fiber *self;
static unsigned int threads;  // of a block
static jmp_buf home;
static bool gave_way;  // why home was reached: the block has not ended

unsigned long long random_number() {  // splitmix64 (Steele, Lea and Flood 2014)
    unsigned long long z = schedule.random += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static void arrange(unsigned int *places, unsigned int count) {
    for (unsigned int i = 0; i < count; ++i) places[i] = schedule.order == reverse ? count - 1 - i : i;
    if (schedule.order != shuffled) return;
    for (unsigned int i = count; i > 1; --i) {
        const unsigned int other = random_number() % i, kept = places[i - 1];
        places[i - 1] = places[other];
        places[other] = kept;
    }
}

[[noreturn]] static void resume(Fiber &fiber) {
    self = &fiber;
    threadIdx = fiber.index;
    _longjmp(fiber.context, 1);
}

static void awaken(Fiber &fiber) {
    fiber.state = ready;
    ++here->ready_left;
}

// ---- warps -----------------------------------------------------------------------------------------------------------

static Fiber *warp_of(const Fiber &fiber) { return &here->fibers[fiber.number & ~31u]; }

static unsigned int lanes_of(const Fiber *warp) {
    const unsigned int left = threads - warp->number;
    return left < 32 ? left : 32;
}

static bool same_meeting(const Fiber &a, const Fiber &b) {
    return b.state == at_meeting && a.mask == b.mask && a.place.site == b.place.site;
}

// Whether all lanes that are asked for are there; those that have returned are not waited for.
static bool complete(const Fiber &fiber) {
    const Fiber *warp = warp_of(fiber);
    for (unsigned int i = 0, lanes = lanes_of(warp); i < lanes; ++i)
        if (fiber.mask >> i & 1 && warp[i].state != returned && !same_meeting(fiber, warp[i])) return false;
    return true;
}

static void exchange(const Fiber &fiber) {
    Fiber *warp = warp_of(fiber);
    unsigned long long values[32];
    unsigned int members = 0, yes = 0;
    for (unsigned int i = 0, lanes = lanes_of(warp); i < lanes; ++i)
        if (fiber.mask >> i & 1 && warp[i].state == at_meeting) {
            members |= 1u << i;
            yes |= warp[i].lane->vote << i;
            values[i] = warp[i].lane->value;
        }
    for (unsigned int i = 0; i < 32; ++i)
        if (members >> i & 1) {
            Lane &lane = *warp[i].lane;
            lane.equal = 0;
            for (unsigned int j = 0; j < 32; ++j)
                if (members >> j & 1 && values[j] == values[i]) lane.equal |= 1u << j;
            // What a lane that is not there holds is undefined: differs from schedule to schedule.
            const bool there = lane.source >= 0 && lane.source < 32 && members >> lane.source & 1;
            lane.value = there ? values[lane.source] : 0x0101010101010101ull * schedule.pattern;
            lane.vote = yes;
            lane.members = members;
            awaken(warp[i]);
        }
}

// ---- who is next -----------------------------------------------------------------------------------------------------

// Generated code has lines of its own, which are not the user's.
static int users_line(const Place &place) { return strcmp(place.file, source_name) == 0 ? place.line : 0; }

static void where(const Fiber &fiber, char *text, size_t bytes) {
    snprintf(text, bytes, "thread (%u,%u,%u) waits at %s, %s:%d", fiber.index.x, fiber.index.y, fiber.index.z,
             fiber.place.name, fiber.place.file, fiber.place.line);
}

// Nobody can go on: say who waits where.
[[noreturn]] static void stuck(const Fiber &one, const Fiber &other, bool barriers) {
    char first[200], second[200];
    where(one, first, sizeof first);
    where(other, second, sizeof second);
    if (&one == &other)
        fail(deadlock, users_line(one.place), "block (%u,%u,%u): %s, for lanes of mask 0x%08x that never come", blockIdx.x,
             blockIdx.y, blockIdx.z, first, one.mask);
    fail(barriers ? mismatched : deadlock, users_line(one.place), "block (%u,%u,%u): %s, and %s", blockIdx.x, blockIdx.y,
         blockIdx.z, first, second);
}

// Everybody waits or has returned: end a meeting or the barrier. False where all have returned.
static bool release() {
    Fiber *first = nullptr, *other = nullptr;
    bool barriers = true;
    Votes votes{0, 0};
    for (unsigned int i = 0; i < threads; ++i) {
        Fiber &fiber = here->fibers[i];
        if (fiber.state == at_meeting && complete(fiber)) exchange(fiber);  // its last lane has returned
        if (fiber.state == returned || fiber.state == ready) continue;
        if (!first) first = &fiber;
        if (!other && fiber.place.site != first->place.site) other = &fiber;
        barriers = barriers && fiber.state == at_barrier;
        votes.yes += fiber.vote;
        ++votes.all;
    }
    if (here->ready_left) return true;
    if (!first) return false;
    if (!barriers || other) stuck(*first, other ? *other : *first, barriers);
    for (unsigned int i = 0; i < threads; ++i)
        if (here->fibers[i].state == at_barrier) {
            here->fibers[i].votes = votes;
            awaken(here->fibers[i]);
        }
    return true;
}

// Nobody where all have returned. Each round of turns has an order of its own.
static Fiber *next() {
    if (!here->ready_left && !release()) return nullptr;
    for (;;) {
        for (; here->turn < threads; ++here->turn) {
            Fiber &fiber = here->fibers[here->turns[here->turn]];
            if (fiber.state == ready) {
                ++here->turn;
                --here->ready_left;
                return &fiber;
            }
        }
        here->turn = 0;
        if (schedule.order == shuffled) arrange(here->turns, threads);
    }
}

// Let another block run. Whoever makes this one go on again may find the quota changed.
static void give_way() {
    gave_way = true;
    if (!_setjmp(self->context)) _longjmp(home, 1);
}

static void wait() {
    Fiber &waiting = *self;
    if (launch.control && !here->ready_left && random_number() & 1) return give_way();
    Fiber *other = next();
    if (other != &waiting && !_setjmp(waiting.context)) resume(*other);
}

Votes block_barrier(Place place, bool vote) {
    self->place = place;
    self->vote = vote;
    self->state = at_barrier;
    wait();
    return self->votes;
}

void warp_meeting(Place place, unsigned int mask, Lane &lane) {
    if (!(mask >> lane_number() & 1))
        fail(mismatched, users_line(place), "thread (%u,%u,%u) is at %s, %s:%d, with mask 0x%08x that leaves it out",
             threadIdx.x, threadIdx.y, threadIdx.z, place.name, place.file, place.line, mask);
    self->place = place;
    self->mask = mask;
    self->lane = &lane;
    self->state = at_meeting;
    if (complete(*self)) exchange(*self);
    wait();
}

// A physical thread may be several logical ones, one after another: each of them comes to the first call again.
long long ticks(int site) {
    self->tick = site == self->clock_site ? 2 * self->tick : 1;
    if (site < self->clock_site) self->ticks = 0;
    self->clock_site = site;
    if (self->tick < 1ll << 40) self->ticks += self->tick;
    return self->ticks;
}

unsigned int lane_number() { return self->number & 31; }

unsigned int living_lanes() {
    unsigned int living = 0;
    const Fiber *warp = warp_of(*self);
    for (unsigned int i = 0, lanes = lanes_of(warp); i < lanes; ++i) living |= (warp[i].state != returned) << i;
    return living;
}

// ---- blocks ----------------------------------------------------------------------------------------------------------

static void live(unsigned int number) {
    Fiber &fiber = fibers_of_all[number];
    if (!_setjmp(fiber.context)) _longjmp(home, 1);
    for (;;) {  // once for each block
        launch.kernel->call(launch.arguments);
        fiber.state = returned;
        Fiber *other = next();
        if (_setjmp(fiber.context)) continue;
        if (other) resume(*other);
        _longjmp(home, 1);
    }
}

void prime(unsigned int number) {
    static ucontext_t start;
    char *stack = static_cast<char *>(mmap(nullptr, page_bytes + stack_bytes, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (stack == MAP_FAILED) give_up("no memory for the stacks of threads");
    mprotect(stack, page_bytes, PROT_NONE);
    getcontext(&start);
    start.uc_stack.ss_sp = stack + page_bytes;
    start.uc_stack.ss_size = stack_bytes - number % 64 * 320;  // else all would begin in the same lines of the caches
    start.uc_link = nullptr;
    makecontext(&start, reinterpret_cast<void (*)()>(live), 1, number);
    if (!_setjmp(home)) setcontext(&start);
}

static struct {
    unsigned char *address;
    size_t bytes;
} static_shared;  // all `__shared__` variables: the thread_local ones of the program itself, which has no others

static int find_static_shared(dl_phdr_info *info, size_t, void *) {
    for (int i = 0; i < info->dlpi_phnum; ++i)
        if (info->dlpi_phdr[i].p_type == PT_TLS) {
            static_shared.address = static_cast<unsigned char *>(info->dlpi_tls_data);
            static_shared.bytes = info->dlpi_phdr[i].p_memsz;
        }
    return 1;  // the program is the first; libraries are not looked at
}

void find_shared_memory() { dl_iterate_phdr(find_static_shared, nullptr); }

static void begin_block(Block &block, uint3 index) {
    memset(static_shared.address, schedule.pattern, static_shared.bytes);
    memset(dynamic_shared, schedule.pattern, launch.dynamic_bytes + watched_bytes);
    block.index = blockIdx = index;
    block.running = true;
    for (unsigned int i = 0; i < threads; ++i) {
        block.fibers[i].state = ready;
        block.fibers[i].clock_site = -1;
        block.fibers[i].ticks = 0;
    }
    block.ready_left = threads;
    block.turn = 0;
    arrange(block.turns, threads);
}

// Run a block until it ends or gives way.
static void run_block() {
    gave_way = false;
    if (!_setjmp(home)) resume(*next());
    here->running = gave_way;
    for (size_t i = 0; i < watched_bytes; ++i)
        if (dynamic_shared[launch.dynamic_bytes + i] != schedule.pattern)
            fail(crash, 0, "%s wrote past the %u bytes of dynamic shared memory of its block (%u,%u,%u)",
                 launch.kernel->name, launch.dynamic_bytes, blockIdx.x, blockIdx.y, blockIdx.z);
}

static void change_block(Block &other) {
    if (&other == here) return;
    const size_t bytes = static_shared.bytes, dynamic_bytes = launch.dynamic_bytes + watched_bytes;
    memcpy(here->shared, static_shared.address, bytes);
    memcpy(here->shared + bytes, dynamic_shared, dynamic_bytes);
    here = &other;
    memcpy(static_shared.address, here->shared, bytes);
    memcpy(dynamic_shared, here->shared + bytes, dynamic_bytes);
    blockIdx = here->index;
}

// ---- control words of persistent forms -------------------------------------------------------------------------------

const volatile char *counter;
static unsigned int counted[2];  // what atomic operations have made of the counters

void before_take() {
    const unsigned int rank = launch.rank + blockIdx.x, quota = launch.control[2];
    if (rank >= quota)
        fail(crash, 0, "%s: the block of rank %u takes a logical block, and the quota is %u", launch.kernel->name, rank, quota);
    if (random_number() & 1) {
        awaken(*self);
        give_way();
    }
}

void after_count() {
    for (unsigned int i = 0; i < 2; ++i) counted[i] = launch.control[i];
    if (random_number() & 1) {
        awaken(*self);
        give_way();
    }
}

static void between_turns(unsigned int physical_blocks) {
    if (launch.control[0] != counted[0] || launch.control[1] != counted[1])
        fail(crash, 0, "%s changed a counter of logical blocks other than by an atomic operation", launch.kernel->name);
    if (launch.quota_changes && random_number() % 4 == 0)
        launch.control[2] = random_number() % (launch.rank + physical_blocks + 2);
}

static void protect_dynamic_shared() {
    const size_t used = (launch.dynamic_bytes + watched_bytes + page_bytes - 1) / page_bytes * page_bytes;
    mprotect(dynamic_shared, used, PROT_READ | PROT_WRITE);
    mprotect(dynamic_shared + used, dynamic_pages_bytes - used, PROT_NONE);
}

bool beside_dynamic_shared(const void *address) {
    const auto *at = static_cast<const unsigned char *>(address);
    return at >= dynamic_shared && at < dynamic_shared + dynamic_pages_bytes;
}

void run_grid(const unsigned int *grid, const unsigned int *block) {
    protect_dynamic_shared();
    gridDim = dim3(grid[0], grid[1], grid[2]);
    blockDim = dim3(block[0], block[1], block[2]);
    threads = block[0] * block[1] * block[2];
    counter = reinterpret_cast<const volatile char *>(launch.control);
    const unsigned int resident = launch.control ? most_resident : 1, quota = launch.control ? launch.control[2] : 0;
    for (unsigned int i = 0; i < 2; ++i) counted[i] = launch.control ? launch.control[i] : 0;
    for (unsigned int i = 0; i < resident; ++i) {
        blocks[i].fibers = fibers_of_all + i * most_threads;
        blocks[i].shared = static_cast<unsigned char *>(malloc(static_shared.bytes + launch.dynamic_bytes + watched_bytes));
        for (unsigned int j = 0; j < threads; ++j) {
            blocks[i].fibers[j].number = j;
            blocks[i].fibers[j].index = {j % block[0], j / block[0] % block[1], j / block[0] / block[1]};
        }
    }
    const unsigned int count = grid[0] * grid[1] * grid[2];
    unsigned int *places = static_cast<unsigned int *>(malloc(count * sizeof *places));
    arrange(places, count);
    for (unsigned int begun = 0, running = 0; begun < count || running;) {
        Block &chosen = blocks[resident == 1 ? 0 : random_number() % resident];
        if (!chosen.running && begun == count) continue;
        change_block(chosen);
        if (!chosen.running) {
            const unsigned int place = places[begun++];
            begin_block(chosen, {place % grid[0], place / grid[0] % grid[1], place / grid[0] / grid[1]});
            ++running;
        }
        run_block();
        running -= !gave_way;
        if (launch.control) between_turns(count);
    }
    if (launch.control) launch.control[2] = quota;
    for (unsigned int i = 0; i < resident; ++i) free(blocks[i].shared);
    free(places);
}

}  // namespace edgetune_shim
