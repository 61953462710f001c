// The table: the vendors' functions on top of the HCA's objects.
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include "machine.h"

namespace pgas::softhca {
namespace {

// Public structs are embedded in ours.
Context* context_of(ibv_context* pub) { return reinterpret_cast<Context*>(pub); }
Pd* pd_of(ibv_pd* pub) { return reinterpret_cast<Pd*>(pub); }
Mr* mr_of(ibv_mr* pub) { return reinterpret_cast<Mr*>(pub); }
Umem* umem_of(mlx5dv_devx_umem* pub) { return reinterpret_cast<Umem*>(pub); }
Uar* uar_of(mlx5dv_devx_uar* pub) { return reinterpret_cast<Uar*>(pub); }

template <typename Ours, typename Pub>
Pub* publish(Ours* object, int err) {
    if (object != nullptr) return &object->pub;
    errno = err;
    return nullptr;
}

int injected(Config& config, Context* ctx, const char* function) {
    const Failure f = next_failure(config, function);
    if (f && ctx != nullptr) ctx->hca->counters().add(count_faults_injected);
    return f.error;
}

ibv_device** get_device_list(int* n) {
    const std::shared_ptr<Config> config = machine().config();
    if (const int err = injected(*config, nullptr, "get_device_list")) {
        errno = err;
        return nullptr;
    }
    return machine().device_list(n);
}

void free_device_list(ibv_device** list) { std::free(list); }

const char* get_device_name(ibv_device* device) { return device->name; }

bool is_supported(ibv_device* device) {
    Device* d = machine().find_device(device);
    return d != nullptr && d->info.config.mlx5;
}

ibv_context* open_device(ibv_device* device, mlx5dv_context_attr* attr) {
    Device* d = machine().find_device(device);
    int err = 0;
    if (d == nullptr || !d->info.config.mlx5) {
        err = EOPNOTSUPP;
    } else if (attr == nullptr || (attr->flags & MLX5DV_CONTEXT_FLAGS_DEVX) == 0 || attr->comp_mask != 0) {
        err = EINVAL;
    } else if ((err = d->info.config.open_errno) == 0) {
        err = injected(*d->config, nullptr, "open");
    }
    auto ctx = std::make_unique<Context>();
    if (err == 0) {
        ctx->pub.device = device;
        ctx->pub.cmd_fd = -1;
        ctx->pub.num_comp_vectors = 1;
        ctx->pub.async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
        if (ctx->pub.async_fd < 0) err = errno;
    }
    if (err == 0) {
        pthread_mutex_init(&ctx->pub.mutex, nullptr);
        ctx->hca = machine().open(d, ctx.get(), &err);
        if (ctx->hca == nullptr) close(ctx->pub.async_fd);
    }
    if (err != 0) {
        errno = err;
        return nullptr;
    }
    return &ctx.release()->pub;
}

// Like the kernel, closing frees what is still there; the counter objects_leaked tells.
int close_device(ibv_context* pub) {
    Context* ctx = context_of(pub);
    machine().close(ctx);
    close(pub->async_fd);
    pthread_mutex_destroy(&pub->mutex);
    delete ctx;
    return 0;
}

ibv_pd* alloc_pd(ibv_context* pub) {
    int err = 0;
    Pd* pd = context_of(pub)->hca->alloc_pd(context_of(pub), &err);
    return publish<Pd, ibv_pd>(pd, err);
}

int dealloc_pd(ibv_pd* pub) { return pd_of(pub)->ctx->hca->dealloc_pd(pd_of(pub)); }

int query_port(ibv_context* pub, uint8_t port, ibv_port_attr* attr) {
    Context* ctx = context_of(pub);
    Hca& hca = *ctx->hca;
    if (const int err = injected(hca.config(), ctx, "query_port")) return err;
    if (port != 1) return EINVAL;
    const DeviceInfo& d = hca.device();
    // The exported function fills the struct up to and without port_cap_flags2.
    std::memset(attr, 0, offsetof(ibv_port_attr, port_cap_flags2));
    attr->state = hca.shared()->port_down.load() != 0 ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
    attr->max_mtu = IBV_MTU_4096;
    attr->active_mtu = static_cast<ibv_mtu>(d.config.active_mtu);
    attr->gid_tbl_len = static_cast<int>(d.gids.size());
    attr->max_msg_sz = 1u << hca.config().log_max_msg;
    attr->pkey_tbl_len = 1;
    attr->lid = d.config.infiniband ? d.lid : 0;
    attr->max_vl_num = 1;
    attr->active_width = 2;
    attr->active_speed = 32;
    attr->phys_state = 5;
    attr->link_layer = d.config.infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
    return 0;
}

int gid_entry(Context* ctx, uint32_t port, uint32_t index, ibv_gid_entry* entry) {
    const DeviceInfo& d = ctx->hca->device();
    if (const int err = injected(ctx->hca->config(), ctx, "query_gid")) return err;
    if (port != 1 || index >= d.gids.size()) return EINVAL;
    std::memset(entry, 0, sizeof *entry);
    entry->gid_index = index;
    entry->port_num = port;
    if (!d.gid(index, entry->gid.raw)) return ENODATA;
    switch (d.gids[index]) {
        case GidKind::link_local_v2:
        case GidKind::ipv4_v2:
            entry->gid_type = IBV_GID_TYPE_ROCE_V2;
            break;
        case GidKind::link_local_v1:
        case GidKind::ipv4_v1:
            entry->gid_type = IBV_GID_TYPE_ROCE_V1;
            break;
        default:
            entry->gid_type = IBV_GID_TYPE_IB;
    }
    return 0;
}

// Holes read as zeros here, as sysfs shows them.
int query_gid(ibv_context* pub, uint8_t port, int index, ibv_gid* gid) {
    ibv_gid_entry entry;
    const int err = gid_entry(context_of(pub), port, static_cast<uint32_t>(index), &entry);
    if (err != 0 && err != ENODATA) {
        errno = err;
        return -1;
    }
    *gid = entry.gid;
    return 0;
}

int query_gid_ex(ibv_context* pub, uint32_t port, uint32_t index, ibv_gid_entry* entry, uint32_t flags, size_t size) {
    if (flags != 0 || size < sizeof *entry) return EINVAL;
    return gid_entry(context_of(pub), port, index, entry);
}

ibv_mr* reg_mr(ibv_pd* pub, void* addr, size_t length, uint64_t iova, unsigned int access) {
    int err = 0;
    Mr* mr = pd_of(pub)->ctx->hca->reg_mr(pd_of(pub), addr, length, iova, access, &err);
    return publish<Mr, ibv_mr>(mr, err);
}

ibv_mr* reg_dmabuf_mr(ibv_pd* pub, uint64_t offset, size_t length, uint64_t iova, int fd, int access) {
    int err = 0;
    Mr* mr =
        pd_of(pub)->ctx->hca->reg_dmabuf_mr(pd_of(pub), offset, length, iova, fd, static_cast<uint32_t>(access), &err);
    return publish<Mr, ibv_mr>(mr, err);
}

int dereg_mr(ibv_mr* pub) { return mr_of(pub)->pd->ctx->hca->dereg_mr(mr_of(pub)); }

int get_async_event(ibv_context* pub, ibv_async_event* event) {
    Context* ctx = context_of(pub);
    uint64_t one = 0;
    if (read(pub->async_fd, &one, sizeof one) != static_cast<ssize_t>(sizeof one)) return -1;
    std::lock_guard<std::mutex> lock(ctx->event_mutex);
    if (ctx->events.empty()) {
        errno = EAGAIN;
        return -1;
    }
    *event = ctx->events.front();
    ctx->events.erase(ctx->events.begin());
    return 0;
}

void ack_async_event(ibv_async_event*) {}  // port events have no object whose destruction would wait

int init_obj(mlx5dv_obj* obj, uint64_t type) {
    if (type != MLX5DV_OBJ_PD || obj->pd.in == nullptr || obj->pd.out == nullptr) return EOPNOTSUPP;
    obj->pd.out->pdn = pd_of(obj->pd.in)->number;
    obj->pd.out->comp_mask = 0;
    return 0;
}

const uint8_t* bytes(const void* p) { return static_cast<const uint8_t*>(p); }
uint8_t* bytes(void* p) { return static_cast<uint8_t*>(p); }

int general_cmd(ibv_context* pub, const void* in, size_t inlen, void* out, size_t outlen) {
    Context* ctx = context_of(pub);
    return ctx->hca->command(ctx, bytes(in), inlen, bytes(out), outlen);
}

mlx5dv_devx_obj* obj_create(ibv_context* pub, const void* in, size_t inlen, void* out, size_t outlen) {
    Context* ctx = context_of(pub);
    int err = 0;
    mlx5dv_devx_obj* obj = ctx->hca->create(ctx, bytes(in), inlen, bytes(out), outlen, &err);
    if (obj == nullptr) errno = err;
    return obj;
}

int obj_modify(mlx5dv_devx_obj* obj, const void* in, size_t inlen, void* out, size_t outlen) {
    return obj->ctx->hca->modify(obj, bytes(in), inlen, bytes(out), outlen);
}

int obj_query(mlx5dv_devx_obj* obj, const void* in, size_t inlen, void* out, size_t outlen) {
    return obj->ctx->hca->query(obj, bytes(in), inlen, bytes(out), outlen);
}

int obj_destroy(mlx5dv_devx_obj* obj) { return obj->ctx->hca->destroy(obj); }

mlx5dv_devx_umem* umem_reg_ex(ibv_context* pub, mlx5dv_devx_umem_in* in) {
    int err = 0;
    Umem* umem = context_of(pub)->hca->reg_umem(context_of(pub), *in, &err);
    return publish<Umem, mlx5dv_devx_umem>(umem, err);
}

mlx5dv_devx_umem* umem_reg(ibv_context* pub, void* addr, size_t size, uint32_t access) {
    mlx5dv_devx_umem_in in = {};
    in.addr = addr;
    in.size = size;
    in.access = access;
    in.dmabuf_fd = -1;
    return umem_reg_ex(pub, &in);
}

int umem_dereg(mlx5dv_devx_umem* pub) { return umem_of(pub)->ctx->hca->dereg_umem(umem_of(pub)); }

mlx5dv_devx_uar* alloc_uar(ibv_context* pub, uint32_t type) {
    int err = 0;
    Uar* uar = context_of(pub)->hca->alloc_uar(context_of(pub), type, &err);
    return publish<Uar, mlx5dv_devx_uar>(uar, err);
}

void free_uar(mlx5dv_devx_uar* pub) { uar_of(pub)->ctx->hca->free_uar(uar_of(pub)); }

int query_eqn(ibv_context* pub, uint32_t vector, uint32_t* eqn) {
    Context* ctx = context_of(pub);
    if (const int err = injected(ctx->hca->config(), ctx, "query_eqn")) return err;
    if (vector != 0) return EINVAL;
    *eqn = completion_eqn;
    return 0;
}

pgas_mlx5_api make_table() {
    pgas_mlx5_api t = {};
    t.ibv_get_device_list = get_device_list;
    t.ibv_free_device_list = free_device_list;
    t.ibv_get_device_name = get_device_name;
    t.ibv_close_device = close_device;
    t.ibv_alloc_pd = alloc_pd;
    t.ibv_dealloc_pd = dealloc_pd;
    t.ibv_query_port = query_port;
    t.ibv_query_gid = query_gid;
    t._ibv_query_gid_ex = query_gid_ex;
    t.ibv_reg_mr_iova2 = reg_mr;
    t.ibv_reg_dmabuf_mr = reg_dmabuf_mr;
    t.ibv_dereg_mr = dereg_mr;
    t.ibv_get_async_event = get_async_event;
    t.ibv_ack_async_event = ack_async_event;
    t.mlx5dv_is_supported = is_supported;
    t.mlx5dv_open_device = open_device;
    t.mlx5dv_init_obj = init_obj;
    t.mlx5dv_devx_general_cmd = general_cmd;
    t.mlx5dv_devx_obj_create = obj_create;
    t.mlx5dv_devx_obj_modify = obj_modify;
    t.mlx5dv_devx_obj_query = obj_query;
    t.mlx5dv_devx_obj_destroy = obj_destroy;
    t.mlx5dv_devx_umem_reg = umem_reg;
    t.mlx5dv_devx_umem_reg_ex = umem_reg_ex;
    t.mlx5dv_devx_umem_dereg = umem_dereg;
    t.mlx5dv_devx_alloc_uar = alloc_uar;
    t.mlx5dv_devx_free_uar = free_uar;
    t.mlx5dv_devx_query_eqn = query_eqn;
    return t;
}

}  // namespace

// Frees what a context left behind, users before what they use.
void Hca::reclaim(Context* ctx) {
    std::vector<mlx5dv_devx_obj*> queues, others;
    std::vector<Mr*> mrs;
    std::vector<Uar*> uars;
    std::vector<Umem*> umems;
    std::vector<Pd*> pds;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        for (auto& qp : qp_store_) {
            if (qp->qpn.load() != 0 && qp->obj.ctx == ctx) queues.push_back(&qp->obj);
        }
        for (auto& cq : cqs_) {
            if (cq != nullptr && cq->obj.ctx == ctx) others.push_back(&cq->obj);
        }
        for (DevxMkey* m : devx_mkeys_) {
            if (m->obj.ctx == ctx) others.push_back(&m->obj);
        }
        for (Mr* m : mrs_) {
            if (m->pd->ctx == ctx) mrs.push_back(m);
        }
        for (Uar* u : uars_) {
            if (u->ctx == ctx) uars.push_back(u);
        }
        for (auto& u : umems_) {
            if (u.second->ctx == ctx) umems.push_back(u.second.get());
        }
        for (auto& p : pds_) {
            if (p.second->ctx == ctx) pds.push_back(p.second.get());
        }
    }
    counters_.add(count_objects_leaked,
                  queues.size() + others.size() + mrs.size() + uars.size() + umems.size() + pds.size());
    for (mlx5dv_devx_obj* o : queues) destroy(o);
    for (mlx5dv_devx_obj* o : others) destroy(o);
    for (Mr* m : mrs) dereg_mr(m);
    for (Uar* u : uars) free_uar(u);
    for (Umem* u : umems) dereg_umem(u);
    for (Pd* p : pds) dealloc_pd(p);
}

}  // namespace pgas::softhca

using pgas::softhca::machine;

extern "C" {

const struct pgas_mlx5_api* softhca_table(void) {
    static const pgas_mlx5_api table = pgas::softhca::make_table();
    return &table;
}

int softhca_configure(const char* spec, char* err, size_t errlen) {
    std::string text;
    const int rc = machine().configure(spec != nullptr ? spec : "", &text);
    if (err != nullptr && errlen > 0) {
        const size_t n = text.size() < errlen - 1 ? text.size() : errlen - 1;
        std::memcpy(err, text.data(), n);
        err[n] = 0;
    }
    return rc;
}

void softhca_set_hooks(const softhca_hooks* hooks) { machine().set_hooks(hooks); }
int softhca_mmio_store(void* reg, uint64_t value) { return machine().mmio_store(reg, value); }
int softhca_mmio_store_at(uintptr_t reg, uint64_t value) {
    return machine().mmio_store(reinterpret_cast<void*>(reg), value);
}
void softhca_counters(softhca_counts* out) { machine().counters(out); }
int softhca_qp_counters(uint32_t qpn, softhca_counts* out) { return machine().qp_counters(qpn, out); }
void softhca_live_objects(softhca_objects* out) { machine().live(out); }

}  // extern "C"
