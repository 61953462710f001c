// The yardstick for host-initiated operations: the same four things with OpenSHMEM 1.4.
//   oshmem BATCHES REPEATS
// PE 0 prints a line "name p50 p99" for each figure and repeat: ns per operation, percentiles over batches. With two
// PEs all figures are taken, with more only the barrier. The sizes of the batches are those of the pgas figures.
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static long* target;
static long* word;

static void put(int n) {
    long value = 1;
    for (int i = 0; i < n; ++i) {
        shmem_putmem(target, &value, 8, 1);
        shmem_quiet();
    }
}

static void put_nbi(int n) {
    static long value = 1;
    for (int i = 0; i < n; ++i) shmem_putmem_nbi(target, &value, 8, 1);
    shmem_quiet();
}

static void fetch_add(int n) {
    for (int i = 0; i < n; ++i) (void)shmem_long_atomic_fetch_add(word, 1, 1);
}

static void barrier(int n) {
    for (int i = 0; i < n; ++i) shmem_barrier_all();
}

static int ascending(const void* a, const void* b) {
    double d = *(const double*)a - *(const double*)b;
    return (d > 0) - (d < 0);
}

static void measure(const char* name, void (*run)(int), int size, int batches, int print) {
    double* ns = malloc(batches * sizeof *ns);
    if (!ns) exit(1);
    run(size);
    for (int b = 0; b < batches; ++b) {
        double begin = now();
        run(size);
        ns[b] = (now() - begin) / size;
    }
    qsort(ns, batches, sizeof *ns, ascending);
    if (print) printf("%s %.3f %.3f\n", name, ns[batches / 2], ns[batches * 99 / 100]);
    free(ns);
}

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    int batches = atoi(argv[1]);
    int repeats = atoi(argv[2]);
    shmem_init();
    int me = shmem_my_pe();
    int size = shmem_n_pes();
    target = shmem_malloc(64);
    word = shmem_malloc(64);
    if (!target || !word) return 1;
    *target = 0;
    *word = 0;
    char name[32];
    snprintf(name, sizeof name, "barrier_%d", size);
    for (int r = 0; r < repeats; ++r) {
        shmem_barrier_all();
        if (size == 2 && me == 0) {
            measure("put", put, 256, batches, 1);
            measure("put_nbi", put_nbi, 1024, batches, 1);
            measure("fetch_add", fetch_add, 256, batches, 1);
        }
        shmem_barrier_all();
        measure(name, barrier, 16, batches, me == 0);
    }
    // Not shmem_finalize(): in Open MPI 4.1.4 over UCX, which Debian 12 has, it ends with a segmentation fault.
    fflush(stdout);
    shmem_barrier_all();
    shmem_global_exit(0);
}
