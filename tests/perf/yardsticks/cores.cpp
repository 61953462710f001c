// Yardsticks of the machine: how fast a cache line goes from core to core, and how fast memory is copied.
//   cores ping_pong_pinned|ping_pong_yield BATCHES REPEATS
//   cores memcpy BYTES BATCH BATCHES REPEATS
// Prints a line "name p50 p99" for each repeat: ns for one way of the ping-pong or for one copy, percentiles over
// batches. Exit status 77 and a reason on stderr where the machine cannot do it.
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

namespace {

constexpr int skipped = 77;

double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return double(t.tv_sec) * 1e9 + double(t.tv_nsec);
}

// Runs batches of `size` operations and prints percentiles of the time of one.
template <class Run>
void measure(const char* name, double size, int batches, Run run) {
    std::vector<double> ns;
    run();
    for (int b = 0; b < batches; ++b) {
        double begin = now();
        run();
        ns.push_back((now() - begin) / size);
    }
    std::sort(ns.begin(), ns.end());
    printf("%s %.3f %.3f\n", name, ns[ns.size() / 2], ns[ns.size() * 99 / 100]);
}

// Two words far enough apart that no prefetcher moves them together.
struct table {
    alignas(256) std::atomic<uint64_t> ping;
    alignas(256) std::atomic<uint64_t> pong;
};

std::vector<int> allowed_cpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    std::vector<int> cpus;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
    for (int i = 0; i < CPU_SETSIZE; ++i) {
        if (CPU_ISSET(i, &set)) cpus.push_back(i);
    }
    return cpus;
}

void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        perror("sched_setaffinity");
        _exit(1);
    }
}

void await(const std::atomic<uint64_t>& word, uint64_t value, bool yield) {
    for (uint32_t spins = 1; word.load(std::memory_order_acquire) != value; ++spins) {
        if (yield && spins % 64 == 0) sched_yield();
    }
}

int ping_pong(const char* name, bool yield, int batches, int repeats) {
    constexpr uint64_t batch = 32;
    std::vector<int> cpus = allowed_cpus();
    if (!yield && cpus.size() < 2) {
        fprintf(stderr, "two pinned processes need 2 cores, have %zu\n", cpus.size());
        return skipped;
    }
    void* shared = mmap(nullptr, sizeof(table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 1;
    auto* t = new (shared) table{};
    uint64_t last = uint64_t(repeats) * uint64_t(batches + 1) * batch;
    pid_t parent = getpid();
    pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        if (!yield) pin(cpus[1]);
        for (uint64_t r = 1; r <= last; ++r) {
            await(t->ping, r, yield);
            t->pong.store(r, std::memory_order_release);
        }
        _exit(0);
    }
    if (!yield) pin(cpus[0]);
    uint64_t r = 0;
    for (int i = 0; i < repeats; ++i) {
        measure(name, 2.0 * batch, batches, [&] {
            for (uint64_t end = r + batch; r < end;) {
                t->ping.store(++r, std::memory_order_release);
                await(t->pong, r, yield);
            }
        });
    }
    waitpid(child, nullptr, 0);
    return 0;
}

uint8_t* map_shared(size_t bytes) {
    int fd = memfd_create("yardstick", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, off_t(bytes)) != 0) return nullptr;
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    close(fd);
    return p == MAP_FAILED ? nullptr : static_cast<uint8_t*>(p);
}

// Copies the same range again and again from one shared mapping to another, as the put figures do.
int copy(size_t bytes, int batch, int batches, int repeats) {
    uint8_t* from = map_shared(bytes);
    uint8_t* to = map_shared(bytes);
    if (!from || !to) {
        perror("shared memory");
        return 1;
    }
    memset(from, 1, bytes);
    memset(to, 2, bytes);
    char name[32];
    snprintf(name, sizeof name, "memcpy_%zu", bytes);
    for (int r = 0; r < repeats; ++r) {
        measure(name, batch, batches, [&] {
            for (int i = 0; i < batch; ++i) {
                memcpy(to, from, bytes);
                std::atomic_signal_fence(std::memory_order_seq_cst);  // each copy really happens
            }
        });
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 4 && strncmp(argv[1], "ping_pong_", 10) == 0) {
        return ping_pong(argv[1], strcmp(argv[1], "ping_pong_yield") == 0, atoi(argv[2]), atoi(argv[3]));
    }
    if (argc == 6 && strcmp(argv[1], "memcpy") == 0) {
        return copy(strtoull(argv[2], nullptr, 10), atoi(argv[3]), atoi(argv[4]), atoi(argv[5]));
    }
    fprintf(stderr, "usage: see the head of cores.cpp\n");
    return 2;
}
