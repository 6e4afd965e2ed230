// Runs launches of the kernels of one program: a fiber for each thread of a block, one block after another.
//
//   program JOB RESULTS    JOB: buffers, and sequences of launches, each with a schedule    (written by run.py)
//                          RESULTS: for each sequence a record, then its buffers            (read by run.py)
//
// Each sequence runs in a process of its own, forked from one that has the buffers as they were given: a wrong kernel
// may crash, and globals of the source begin as they are written there. Fibers are started with makecontext and switched
// with setjmp and longjmp, which, unlike swapcontext, call nothing of the operating system.

#include "cuda_shim.hpp"

#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace edgetune_shim {

constexpr size_t page_bytes = 65536;           // a multiple of every page size in use, of 64 KiB kernels too
constexpr size_t stack_bytes = 8 * page_bytes; // of a fiber; 512 KiB are what a CUDA thread may have of local memory
constexpr unsigned int most_threads = 1024;    // of a block, on every CUDA device
constexpr size_t most_dynamic_bytes = 227 << 10;  // of a block, on the largest CUDA device
constexpr size_t watched_bytes = 256;          // behind the dynamic shared memory, to see writes that go too far

alignas(1024) unsigned char dynamic_shared[most_dynamic_bytes + watched_bytes];

// ---- results ---------------------------------------------------------------------------------------------------------

enum Status : int { unfinished, ok, deadlock, mismatched, hang, crash, bad_launch };

struct Record {  // as run.py reads it
    int status;
    int line;
    unsigned long long program_counter;
    int launch;
    int unused;
    char message[488];
};

static Record *record;

[[noreturn]] __attribute__((format(printf, 3, 4))) static void fail(Status status, int line, const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(record->message, sizeof record->message, format, values);
    va_end(values);
    record->line = line;
    record->status = status;
    _exit(0);
}

// No result can be given at all.
[[noreturn]] static void give_up(const char *what) {
    perror(what);
    exit(1);
}

// ---- threads of a block ----------------------------------------------------------------------------------------------

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
};

enum Order : unsigned int { forward, reverse, shuffled };

static struct {
    Order order;
    unsigned long long random;
    unsigned char pattern;  // what memory of a block is filled with before it begins
} schedule;

static struct {
    const Entry *kernel;
    void **arguments;
    unsigned int dynamic_bytes;
} launch;

static Fiber fibers[most_threads];
static Fiber *self;
static unsigned int threads;  // of the block
static unsigned int turns[most_threads], turn, ready_left;
static jmp_buf home;

static unsigned long long random_number() {  // splitmix64 (Steele, Lea and Flood 2014)
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
    ++ready_left;
}

// ---- warps -----------------------------------------------------------------------------------------------------------

static Fiber *warp_of(const Fiber &fiber) { return &fibers[fiber.number & ~31u]; }

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
        Fiber &fiber = fibers[i];
        if (fiber.state == at_meeting && complete(fiber)) exchange(fiber);  // its last lane has returned
        if (fiber.state == returned || fiber.state == ready) continue;
        if (!first) first = &fiber;
        if (!other && fiber.place.site != first->place.site) other = &fiber;
        barriers = barriers && fiber.state == at_barrier;
        votes.yes += fiber.vote;
        ++votes.all;
    }
    if (ready_left) return true;
    if (!first) return false;
    if (!barriers || other) stuck(*first, other ? *other : *first, barriers);
    for (unsigned int i = 0; i < threads; ++i)
        if (fibers[i].state == at_barrier) {
            fibers[i].votes = votes;
            awaken(fibers[i]);
        }
    return true;
}

// Nobody where all have returned. Each round of turns has an order of its own.
static Fiber *next() {
    if (!ready_left && !release()) return nullptr;
    for (;;) {
        for (; turn < threads; ++turn) {
            Fiber &fiber = fibers[turns[turn]];
            if (fiber.state == ready) {
                ++turn;
                --ready_left;
                return &fiber;
            }
        }
        turn = 0;
        if (schedule.order == shuffled) arrange(turns, threads);
    }
}

static void wait() {
    Fiber &waiting = *self;
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

unsigned int lane_number() { return self->number & 31; }

unsigned int living_lanes() {
    unsigned int living = 0;
    const Fiber *warp = warp_of(*self);
    for (unsigned int i = 0, lanes = lanes_of(warp); i < lanes; ++i) living |= (warp[i].state != returned) << i;
    return living;
}

// ---- blocks ----------------------------------------------------------------------------------------------------------

static void live(unsigned int number) {
    Fiber &fiber = fibers[number];
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

static void prime(unsigned int number) {
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

static void run_block() {
    memset(static_shared.address, schedule.pattern, static_shared.bytes);
    memset(dynamic_shared, schedule.pattern, launch.dynamic_bytes + watched_bytes);
    for (unsigned int i = 0; i < threads; ++i) fibers[i].state = ready;
    ready_left = threads;
    turn = 0;
    arrange(turns, threads);
    if (!_setjmp(home)) resume(*next());
    for (size_t i = 0; i < watched_bytes; ++i)
        if (dynamic_shared[launch.dynamic_bytes + i] != schedule.pattern)
            fail(crash, 0, "%s wrote past the %u bytes of dynamic shared memory of its block (%u,%u,%u)",
                 launch.kernel->name, launch.dynamic_bytes, blockIdx.x, blockIdx.y, blockIdx.z);
}

static void run_grid(const unsigned int *grid, const unsigned int *block) {
    gridDim = dim3(grid[0], grid[1], grid[2]);
    blockDim = dim3(block[0], block[1], block[2]);
    threads = block[0] * block[1] * block[2];
    for (unsigned int i = 0; i < threads; ++i) {
        fibers[i].number = i;
        fibers[i].index = {i % block[0], i / block[0] % block[1], i / block[0] / block[1]};
    }
    const unsigned int blocks = grid[0] * grid[1] * grid[2];
    unsigned int *places = static_cast<unsigned int *>(malloc(blocks * sizeof *places));
    arrange(places, blocks);
    for (unsigned int i = 0; i < blocks; ++i) {
        blockIdx = {places[i] % grid[0], places[i] / grid[0] % grid[1], places[i] / grid[0] / grid[1]};
        run_block();
    }
    free(places);
}

// ---- the job ---------------------------------------------------------------------------------------------------------

struct Buffer {
    char *address;  // its end is the end of a page, and the page behind it cannot be touched
    size_t bytes;
};

static Buffer *buffers;
static unsigned int buffer_count;

struct Reader {
    const char *at;
    unsigned int number() {
        unsigned int value;
        memcpy(&value, at, sizeof value);
        at += sizeof value;
        return value;
    }
    void copy(void *to, size_t bytes) {
        memcpy(to, at, bytes);
        at += bytes;
    }
};

static size_t rounded(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

static char *guarded(size_t bytes) {
    const size_t inside = rounded(bytes, page_bytes);
    char *pages = static_cast<char *>(mmap(nullptr, inside + 2 * page_bytes, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (pages == MAP_FAILED) give_up("no memory for a buffer");
    mprotect(pages, page_bytes, PROT_NONE);
    mprotect(pages + page_bytes + inside, page_bytes, PROT_NONE);
    return pages + page_bytes + inside - rounded(bytes, 16);  // vectors of sixteen bytes are the widest that are loaded
}

static void run_launch(Reader &job) {
    const Entry &kernel = entries[job.number()];
    unsigned int grid[3], block[3];
    job.copy(grid, sizeof grid);
    job.copy(block, sizeof block);
    const unsigned int dynamic_bytes = job.number(), count = job.number();
    if (count != kernel.parameters)
        fail(bad_launch, 0, "%s takes %u arguments and was given %u", kernel.name, kernel.parameters, count);
    if (dynamic_bytes > most_dynamic_bytes)
        fail(bad_launch, 0, "%s: %u bytes of dynamic shared memory are more than any GPU has", kernel.name, dynamic_bytes);
    const unsigned long long in_block = 1ull * block[0] * block[1] * block[2];
    if (!in_block || block[0] > most_threads || block[1] > most_threads || block[2] > 64 || in_block > most_threads)
        fail(bad_launch, 0, "%s: no GPU takes a block of (%u,%u,%u) threads", kernel.name, block[0], block[1], block[2]);
    if (!(1ull * grid[0] * grid[1] * grid[2])) fail(bad_launch, 0, "%s: the grid is empty", kernel.name);
    void **arguments = static_cast<void **>(malloc((count + 1) * sizeof *arguments));
    for (unsigned int i = 0; i < count; ++i) {
        const unsigned int buffer = job.number(), bytes = job.number();
        if (bytes != kernel.sizes_bytes[i])
            fail(bad_launch, 0, "%s: argument %u has %u bytes and the parameter %u", kernel.name, i + 1, bytes,
                 kernel.sizes_bytes[i]);
        arguments[i] = aligned_alloc(64, rounded(bytes, 64));
        if (buffer == ~0u)
            job.copy(arguments[i], bytes);
        else
            memcpy(arguments[i], &buffers[buffer].address, sizeof(char *));
    }
    launch = {&kernel, arguments, dynamic_bytes};
    run_grid(grid, block);
}

static void run_sequence(Reader &job) {
    schedule.order = static_cast<Order>(job.number());
    schedule.random = job.number();
    schedule.pattern = schedule.order == forward ? 0xff : schedule.order == reverse ? 0x7f : 1 + random_number() % 254;
    const unsigned int launches = job.number();
    for (unsigned int i = 0; i < launches; ++i) {
        record->launch = static_cast<int>(i);
        run_launch(job);
    }
}

// ---- what a kernel can do wrong --------------------------------------------------------------------------------------

static unsigned int limit_s;

static const char *crash_text(int number, const void *address) {
    static char text[200];
    const char *at = static_cast<const char *>(address);
    for (unsigned int i = 0; i < buffer_count; ++i) {
        const char *end = buffers[i].address + rounded(buffers[i].bytes, 16);
        if (at >= end && at < end + page_bytes) {
            snprintf(text, sizeof text, "read or wrote past the end of buffer %u: byte %zu of %zu", i,
                     static_cast<size_t>(at - buffers[i].address), buffers[i].bytes);
            return text;
        }
    }
    if (number == SIGFPE) return "divided an integer by zero";
    if (number == SIGABRT) return "failed an assertion, or wrote past a private array";
    if (number == SIGILL || number == SIGTRAP) return "trapped";
    snprintf(text, sizeof text, "read or wrote memory that is not its own, at %p", address);
    return text;
}

static void on_signal(int number, siginfo_t *info, void *context) {
    const ucontext_t *interrupted = static_cast<ucontext_t *>(context);
#if defined(__x86_64__)
    record->program_counter = static_cast<unsigned long long>(interrupted->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
    record->program_counter = interrupted->uc_mcontext.pc;
#endif
    const char *kernel = launch.kernel ? launch.kernel->name : "the program";
    if (number == SIGPROF)
        fail(hang, 0, "%s did not end within %u s: block (%u,%u,%u), thread (%u,%u,%u)", kernel, limit_s, blockIdx.x,
             blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
    fail(crash, 0, "%s %s: block (%u,%u,%u), thread (%u,%u,%u)", kernel, crash_text(number, info->si_addr), blockIdx.x,
         blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
}

static void watch() {
    static char stack[65536];
    stack_t other{};
    other.ss_sp = stack;
    other.ss_size = sizeof stack;
    sigaltstack(&other, nullptr);  // the fiber's own may be what has overflowed
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGPROF}) sigaction(number, &action, nullptr);
    const itimerval limit{{0, 0}, {static_cast<time_t>(limit_s), 0}};
    setitimer(ITIMER_PROF, &limit, nullptr);  // CPU time: a busy machine is not a kernel that hangs
}

static char *mapped(const char *path, int flags, int protection, int sharing, size_t bytes) {
    const int file = open(path, flags);
    struct stat about {};
    if (file < 0 || (bytes && ftruncate(file, static_cast<off_t>(bytes))) || fstat(file, &about)) give_up(path);
    void *start = mmap(nullptr, static_cast<size_t>(about.st_size), protection, sharing, file, 0);
    if (start == MAP_FAILED) give_up(path);
    close(file);
    return static_cast<char *>(start);
}

static size_t read_buffers(Reader &job) {
    size_t bytes = 0;
    buffer_count = job.number();
    buffers = static_cast<Buffer *>(calloc(buffer_count + 1, sizeof *buffers));
    for (unsigned int i = 0; i < buffer_count; ++i) {
        unsigned long long size;
        job.copy(&size, sizeof size);
        buffers[i] = {guarded(size), size};
        job.copy(buffers[i].address, size);
        bytes += size;
    }
    return bytes;
}

// The few bytes around a buffer that are no page of their own were zero and must still be.
static void look_at_margins() {
    for (unsigned int i = 0; i < buffer_count; ++i) {
        const char *start = buffers[i].address, *end = start + buffers[i].bytes;
        for (const char *at = end; at < start + rounded(buffers[i].bytes, 16); ++at)
            if (*at) fail(crash, 0, "%s wrote past the end of buffer %u: byte %zu of %zu", launch.kernel->name, i,
                          static_cast<size_t>(at - start), buffers[i].bytes);
        if (rounded(buffers[i].bytes, 16) % page_bytes == 0) continue;  // a page that cannot be touched lies before it
        for (const char *at = start - 16; at < start; ++at)
            if (*at) fail(crash, 0, "%s wrote before the beginning of buffer %u", launch.kernel->name, i);
    }
}

static void follow(Reader job, char *results) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    watch();
    run_sequence(job);
    look_at_margins();
    char *to = results + sizeof(Record);
    for (unsigned int i = 0; i < buffer_count; to += buffers[i++].bytes) memcpy(to, buffers[i].address, buffers[i].bytes);
    record->status = ok;
    _exit(0);
}

static int serve(const char *job_path, const char *results_path) {
    Reader job{mapped(job_path, O_RDONLY, PROT_READ, MAP_PRIVATE, 0)};
    limit_s = job.number();
    for (unsigned int i = 0, most = job.number(); i < most; ++i) prime(i);  // before the forks: once and not for each
    const unsigned int sequences = job.number();
    const size_t each = rounded(read_buffers(job) + sizeof(Record), 8);
    char *results = mapped(results_path, O_RDWR, PROT_READ | PROT_WRITE, MAP_SHARED, each * sequences);
    dl_iterate_phdr(find_static_shared, nullptr);
    for (unsigned int i = 0; i < sequences; ++i) {
        const unsigned int bytes = job.number();
        record = reinterpret_cast<Record *>(results + i * each);
        const pid_t child = fork();
        if (child == 0) follow(job, results + i * each);
        int ended;
        if (child < 0 || waitpid(child, &ended, 0) < 0) give_up("no process for a sequence of launches");
        if (record->status == unfinished) {
            record->status = crash;
            snprintf(record->message, sizeof record->message, "the process of the kernel ended by signal %d", WTERMSIG(ended));
        }
        if (record->status == hang) break;  // so might all that follow, each for as long
        job.at += bytes;
    }
    return 0;
}

}  // namespace edgetune_shim

int main(int count, char **words) {
    if (count != 3) {
        fprintf(stderr, "usage: %s JOB RESULTS\n", words[0]);
        return 1;
    }
    return edgetune_shim::serve(words[1], words[2]);
}
