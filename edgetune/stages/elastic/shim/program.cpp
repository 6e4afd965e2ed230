// The program that a source becomes: runs sequences of launches of its kernels.
//
//   program JOB RESULTS    JOB: buffers, and sequences of launches, each with a schedule    (written by run.py)
//                          RESULTS: for each sequence a record, its buffers, its variables  (read by run.py)
//
// Each sequence runs in a process of its own, forked from one that has the buffers as they were given: a wrong kernel
// may crash, and variables of the source begin as they are written there, or as run.py fills them.

#include "runtime.hpp"

#include <fcntl.h>
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

namespace edgetune_shim {

// ---- results ---------------------------------------------------------------------------------------------------------

struct Record {  // as run.py reads it
    int status;
    int line;
    unsigned long long program_counter;
    int launch;
    int unused;
    char message[488];
};

static Record *record;

void fail(Status status, int line, const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(record->message, sizeof record->message, format, values);
    va_end(values);
    record->line = line;
    record->status = status;
    _exit(0);
}

void give_up(const char *what) {
    perror(what);
    exit(1);
}

static char line[4096];  // which a kernel prints: stacks of fibers are small
unsigned long long printed[2];  // how many lines, and the sum of numbers made of them: results, see variables.py

// ---- the job ---------------------------------------------------------------------------------------------------------

struct Buffer {
    char *address;  // its end is the end of a page, and the page behind it cannot be touched
    size_t bytes;
};

static Buffer *buffers, *variables;  // variables of the source are where the program has them
static unsigned int buffer_count, variable_count;

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
    const unsigned int dynamic_bytes = job.number(), control = job.number(), rank = job.number();
    const bool quota_changes = job.number();
    const unsigned int count = job.number();
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
    auto *words = control == ~0u ? nullptr : reinterpret_cast<unsigned int *>(buffers[control].address);
    launch = {&kernel, arguments, dynamic_bytes, words, rank, quota_changes};
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
constexpr size_t most_bytes_off = 1ull << 36;  // from a buffer: a wrong index of 32 bits goes no further

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
    if (number == SIGABRT) return "wrote past a private array";
    if (number == SIGILL || number == SIGTRAP) return "trapped";
    if (beside_dynamic_shared(address)) {
        snprintf(text, sizeof text, "read or wrote past the %u bytes of dynamic shared memory of its block: byte %zu",
                 launch.dynamic_bytes, static_cast<size_t>(at - reinterpret_cast<char *>(dynamic_shared)));
        return text;
    }
    const size_t place = reinterpret_cast<size_t>(address);
    if (place < page_bytes) return "read or wrote memory that is not its own, through a pointer that is null";
    const Buffer *nearest = nullptr;
    size_t least = most_bytes_off;
    for (unsigned int i = 0; i < buffer_count; ++i) {
        const size_t start = reinterpret_cast<size_t>(buffers[i].address), end = start + buffers[i].bytes;
        const size_t off = place < start ? start - place : place - end;
        if (off < least) nearest = buffers + i, least = off;
    }
    if (!nearest) return "read or wrote memory that is not its own, far from all buffers";
    snprintf(text, sizeof text, "read or wrote memory that is not its own, nearest to that of buffer %u: byte %lld of %zu",
             static_cast<unsigned int>(nearest - buffers), static_cast<long long>(at - nearest->address), nearest->bytes);
    return text;
}

void beside_surface(const Surface &surface, int byte, int row, int layer) {
    fail(crash, 0, "%s is beside a surface of %u layers of %u rows of %u bytes, at byte %d of row %d of layer %d: "
         "block (%u,%u,%u), thread (%u,%u,%u)", launch.kernel->name, surface.layers, surface.rows, surface.bytes, byte, row,
         layer, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
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

static Buffer *places(Reader &job, unsigned int &count) {
    count = job.number();
    Buffer *found = static_cast<Buffer *>(calloc(count + 1, sizeof *found));
    for (unsigned int i = 0; i < count; ++i) {
        unsigned long long place[2];
        job.copy(place, sizeof place);
        found[i] = {reinterpret_cast<char *>(place[0]), place[1]};
    }
    return found;
}

static size_t read_variables(Reader &job) {
    size_t bytes = 0;
    variables = places(job, variable_count);
    for (unsigned int i = 0; i < variable_count; ++i) bytes += variables[i].bytes;
    unsigned int count;
    const Buffer *filled = places(job, count);
    for (unsigned int i = 0; i < count; ++i) job.copy(filled[i].address, filled[i].bytes);
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
    for (unsigned int i = 0; i < variable_count; to += variables[i++].bytes)
        memcpy(to, variables[i].address, variables[i].bytes);
    record->status = ok;
    _exit(0);
}

static int serve(const char *job_path, const char *results_path) {
    Reader job{mapped(job_path, O_RDONLY, PROT_READ, MAP_PRIVATE, 0)};
    limit_s = job.number();
    const unsigned int threads = job.number(), resident = job.number();
    for (unsigned int i = 0; i < resident; ++i)  // before the forks: once and not for each
        for (unsigned int j = 0; j < threads; ++j) prime(i * most_threads + j);
    const unsigned int sequences = job.number();
    const size_t buffer_bytes = read_buffers(job), variable_bytes = read_variables(job);
    const size_t each = rounded(sizeof(Record) + buffer_bytes + variable_bytes, 8);
    char *results = mapped(results_path, O_RDWR, PROT_READ | PROT_WRITE, MAP_SHARED, each * sequences);
    find_shared_memory();
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

// In place of the C library's, whose lines would come in another order in each form.
extern "C" int printf(const char *format, ...) {
    using namespace edgetune_shim;
    va_list values;
    va_start(values, format);
    const int length = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    unsigned long long number = 14695981039346656037ull;  // FNV-1a
    for (const char *at = line; *at; ++at) number = (number ^ static_cast<unsigned char>(*at)) * 1099511628211ull;
    printed[0] += 1;
    printed[1] += number;
    return length;
}

// In place of the C library's, which says nothing of blocks and threads.
extern "C" void __assert_fail(const char *condition, const char *, unsigned int line, const char *) noexcept {
    using namespace edgetune_shim;
    fail(crash, static_cast<int>(line), "%s failed its assertion %s: block (%u,%u,%u), thread (%u,%u,%u)",
         launch.kernel->name, condition, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
}

int main(int count, char **words) {
    if (count != 3) {
        fprintf(stderr, "usage: %s JOB RESULTS\n", words[0]);
        return 1;
    }
    return edgetune_shim::serve(words[1], words[2]);
}
