// The services that the software GPU lends: MMIO stores go through the registered callback, a sleeper on the bell is
// woken by a WRITE, and memory that cannot be exported is refused for remote access.
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "../shared.h"
#include "driver.h"

namespace {

using pgas::softhca::Bell;

void* page;
void (*page_store)(void*, uint64_t, uint64_t);
void* page_ctx;
int registered, unregistered, exported, bell;
void* unshareable;

int mmio_register(void* base, size_t len, void (*store)(void*, uint64_t, uint64_t), void* ctx) {
    check(len == 4096, "UAR page size");
    page = base;
    page_store = store;
    page_ctx = ctx;
    registered++;
    return 0;
}

void mmio_unregister(void* base) {
    check(base != nullptr, "unregister");
    unregistered++;
}

int export_range(const void* addr, size_t, int* fd, uint64_t* offset) {
    if (addr == unshareable) return EOPNOTSUPP;
    *fd = dup(bell);
    *offset = 0;
    exported++;
    return 0;
}

int bell_fd() { return bell; }

void sleep_until(Bell* b, uint64_t* word) {
    b->sleepers.fetch_add(1);
    for (;;) {
        const uint32_t seq = b->seq.load();
        if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != 0) break;
        const timespec limit = {20, 0};
        const long rc = syscall(SYS_futex, &b->seq, FUTEX_WAIT, seq, &limit, nullptr, 0);
        check(rc == 0 || errno == EAGAIN, "the bell did not ring");
    }
    b->sleepers.fetch_sub(1);
}

}  // namespace

int main(int argc, char** argv) {
    check(argc == 2, "usage: hooks MODE");
    bell = memfd_create("bell", MFD_CLOEXEC);
    check(ftruncate(bell, 4096) == 0, "memfd");
    auto* b = static_cast<Bell*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, bell, 0));
    const softhca_hooks hooks = {mmio_register, mmio_unregister, export_range, bell_fd};
    softhca_set_hooks(&hooks);
    char err[256];
    check(softhca_configure((std::string("mode=") + argv[1]).c_str(), err, sizeof err) == 0, err);
    api = softhca_table();
    ibv_device** list = api->ibv_get_device_list(nullptr);
    Pe x, y;
    open(x, list[0]);
    void* first_page = page;
    auto* first_store = page_store;
    void* first_ctx = page_ctx;
    open(y, list[0]);
    api->ibv_free_device_list(list);
    check(registered == 2 && exported == 4, "hooks called");
    unshareable = pages(4096);
    errno = 0;
    check(api->ibv_reg_mr_iova2(x.pd, unshareable, 4096, 0, 15) == nullptr && errno == EOPNOTSUPP, "refused");
    ibv_mr* local = api->ibv_reg_mr_iova2(x.pd, unshareable, 4096, 0, IBV_ACCESS_LOCAL_WRITE);
    check(local != nullptr, "local use needs no export");
    check(api->ibv_dereg_mr(local) == 0, "dereg");
    connect(x, y);
    connect(y, x);
    auto* word = reinterpret_cast<uint64_t*>(y.mem);
    std::thread sleeper([&] { sleep_until(b, word); });
    while (b->sleepers.load() == 0) sched_yield();
    usleep(2000);
    x.mem[bytes / 4] = 1;
    post_write(x, y.mr->rkey, 0, 8, true);
    auto* record = reinterpret_cast<uint32_t*>(x.queues + dbr_at + 4);
    __atomic_store_n(record, __builtin_bswap32(x.next), __ATOMIC_RELEASE);
    const uint64_t value = uint64_t{__builtin_bswap32(x.qpn << 8)} << 32 | __builtin_bswap32(uint32_t{x.next} << 8);
    check(static_cast<uint8_t*>(x.uar->base_addr) == first_page, "page");
    first_store(first_ctx,
                static_cast<uint64_t>(static_cast<uint8_t*>(x.uar->reg_addr) - static_cast<uint8_t*>(first_page)),
                value);
    sleeper.join();
    softhca_counts counts;
    softhca_counters(&counts);
    check(counts.bells_rung != 0, "bells_rung");
    for (Pe* pe : {&x, &y}) check(api->ibv_close_device(pe->ctx) == 0, "close");
    check(unregistered == 2, "unregistered");
    softhca_objects left;
    softhca_live_objects(&left);
    check(left.qps + left.cqs + left.mkeys + left.umems + left.uars + left.pds + left.contexts == 0, "objects");
    std::puts("done");
    return 0;
}
