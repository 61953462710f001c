// The command interface: what the kernel lets through, then dispatch. errno values as Linux mlx5 devx gives them:
// EREMOTEIO when the firmware refused, another one when the command did not reach it.
#include <cerrno>

#include "hca.h"

namespace pgas::softhca {
namespace {

constexpr uint8_t ok = static_cast<uint8_t>(prm::cmd_status::ok);
constexpr uint8_t bad_op = static_cast<uint8_t>(prm::cmd_status::bad_op);
constexpr uint8_t bad_resource = static_cast<uint8_t>(prm::cmd_status::bad_resource);

struct Known {
    prm::cmd op;
    const char* name;
    uint32_t in_size, out_size;
    enum Kind { general, create, modify, query } kind;
    ObjType type;
    bool long_in;  // may be followed by zeros, as a page list would
};

const Known known[] = {
    {prm::cmd::query_hca_cap, "query_hca_cap", 16, prm::query_hca_cap_out::size, Known::general, ObjType::qp, false},
    {prm::cmd::query_hca_vport_context, "query_hca_vport_context", 16, prm::query_hca_vport_context_out::size,
     Known::general, ObjType::qp, false},
    {prm::cmd::query_roce_address, "query_roce_address", 16, prm::query_roce_address_out::size, Known::general,
     ObjType::qp, false},
    {prm::cmd::create_cq, "create_cq", prm::create_cq_in::size, 16, Known::create, ObjType::cq, true},
    {prm::cmd::query_cq, "query_cq", 16, prm::query_cq_out::size, Known::query, ObjType::cq, false},
    {prm::cmd::create_qp, "create_qp", prm::create_qp_in::size, 16, Known::create, ObjType::qp, true},
    {prm::cmd::query_qp, "query_qp", 16, prm::query_qp_out::size, Known::query, ObjType::qp, false},
    {prm::cmd::rst2init_qp, "rst2init", prm::modify_qp_in::size, 16, Known::modify, ObjType::qp, false},
    {prm::cmd::init2init_qp, "init2init", prm::modify_qp_in::size, 16, Known::modify, ObjType::qp, false},
    {prm::cmd::init2rtr_qp, "init2rtr", prm::modify_qp_in::size, 16, Known::modify, ObjType::qp, false},
    {prm::cmd::rtr2rts_qp, "rtr2rts", prm::modify_qp_in::size, 16, Known::modify, ObjType::qp, false},
    {prm::cmd::rts2rts_qp, "rts2rts", prm::modify_qp_in::size, 16, Known::modify, ObjType::qp, false},
    {prm::cmd::sqerr2rts_qp, "sqerr2rts", prm::modify_qp_in::size, 16, Known::modify, ObjType::qp, false},
    {prm::cmd::qp2err, "2err", 16, 16, Known::modify, ObjType::qp, false},
    {prm::cmd::qp2rst, "2rst", 16, 16, Known::modify, ObjType::qp, false},
    {prm::cmd::create_mkey, "create_mkey", prm::create_mkey_in::size, 16, Known::create, ObjType::mkey, true},
};

const Known* find_known(const uint8_t* in) {
    const auto op = static_cast<prm::cmd>(get32(in, prm::cmd_in::opcode));
    for (const Known& k : known) {
        if (k.op == op) return &k;
    }
    return nullptr;
}

int finish(uint8_t status, uint8_t* out, SharedCounters& counters, int line) {
    if (status == ok) return 0;
    counters.add(count_commands_refused);
    put(out, prm::cmd_out::status, status);
    // Firmware's syndromes are private; ours name the check.
    put(out, prm::cmd_out::syndrome, 0x50470000u | static_cast<uint32_t>(line));
    return EREMOTEIO;
}

// What the kernel checks, then the lengths, then the fault rules. Negative: go on; else an errno value.
int admit(Config& config, SharedCounters& counters, Known::Kind kind, const uint8_t* in, size_t inlen, uint8_t* out,
          size_t outlen, const Known** found) {
    if (in == nullptr || out == nullptr || inlen < 8 || outlen < 8) return EINVAL;
    const Known* k = find_known(in);
    if (k == nullptr || k->kind != kind) return EINVAL;
    if (prm::get(in, prm::cmd_in::vhca_tunnel_id) != 0) return EINVAL;
    std::memset(out, 0, outlen);
    counters.add(count_commands);
    if (const Failure f = next_failure(config, k->name)) {
        counters.add(count_faults_injected);
        return f.status != 0 ? finish(f.status, out, counters, __LINE__) : f.error;
    }
    bool tail = inlen > k->in_size;
    if (tail && k->long_in && inlen <= Reader::max_size) {
        tail = false;
        for (size_t i = k->in_size; i < inlen; i++) tail = tail || in[i] != 0;
    }
    if (inlen < k->in_size || tail) {
        return finish(static_cast<uint8_t>(prm::cmd_status::bad_input_len), out, counters, __LINE__);
    }
    if (outlen < k->out_size) {
        return finish(static_cast<uint8_t>(prm::cmd_status::bad_output_len), out, counters, __LINE__);
    }
    *found = k;
    return -1;
}

}  // namespace

int Hca::command(Context* ctx, const uint8_t* in, size_t inlen, uint8_t* out, size_t outlen) {
    const Known* k = nullptr;
    const int early = admit(*config_, counters_, Known::general, in, inlen, out, outlen, &k);
    if (early >= 0) return early;
    (void)ctx;
    std::lock_guard<std::mutex> lock(mutex_);
    uint8_t status = bad_op;
    if (k->op == prm::cmd::query_hca_cap) status = query_hca_cap(in, out);
    if (k->op == prm::cmd::query_hca_vport_context) status = query_vport_context(in, out);
    if (k->op == prm::cmd::query_roce_address) status = query_roce_address(in, out);
    return finish(status, out, counters_, __LINE__);
}

mlx5dv_devx_obj* Hca::create(Context* ctx, const uint8_t* in, size_t inlen, uint8_t* out, size_t outlen, int* err) {
    const Known* k = nullptr;
    *err = admit(*config_, counters_, Known::create, in, inlen, out, outlen, &k);
    if (*err >= 0) return nullptr;
    std::lock_guard<std::mutex> lock(mutex_);
    mlx5dv_devx_obj* obj = nullptr;
    uint8_t status = ok;
    switch (k->type) {
        case ObjType::cq:
            status = create_cq(ctx, in, out, &obj);
            break;
        case ObjType::qp:
            status = create_qp(ctx, in, out, &obj);
            break;
        case ObjType::mkey:
            status = create_mkey(ctx, in, out, &obj);
            break;
    }
    *err = finish(status, out, counters_, __LINE__);
    if (*err != 0) return nullptr;
    obj->ctx = ctx;
    ctx->objects++;
    return obj;
}

int Hca::modify(mlx5dv_devx_obj* obj, const uint8_t* in, size_t inlen, uint8_t* out, size_t outlen) {
    const Known* k = nullptr;
    const int early = admit(*config_, counters_, Known::modify, in, inlen, out, outlen, &k);
    if (early >= 0) return early;
    // The kernel lets a command through only to the object of the handle.
    if (k->type != obj->type || get32(in, prm::modify_qp_in::qpn) != obj->number) return EINVAL;
    std::unique_lock<std::mutex> lock(mutex_);
    return finish(modify_qp(reinterpret_cast<Qp*>(obj), k->op, in), out, counters_, __LINE__);
}

int Hca::query(mlx5dv_devx_obj* obj, const uint8_t* in, size_t inlen, uint8_t* out, size_t outlen) {
    const Known* k = nullptr;
    const int early = admit(*config_, counters_, Known::query, in, inlen, out, outlen, &k);
    if (early >= 0) return early;
    if (k->type != obj->type || get32(in, prm::query_qp_in::qpn) != obj->number) return EINVAL;
    std::lock_guard<std::mutex> lock(mutex_);
    const uint8_t status = obj->type == ObjType::cq ? query_cq(reinterpret_cast<Cq*>(obj), out)
                                                    : query_qp(reinterpret_cast<Qp*>(obj), out);
    return finish(status, out, counters_, __LINE__);
}

int Hca::destroy(mlx5dv_devx_obj* obj) {
    std::lock_guard<std::mutex> lock(mutex_);
    Context* ctx = obj->ctx;
    uint8_t status = bad_resource;
    switch (obj->type) {
        case ObjType::cq:
            status = destroy_cq(reinterpret_cast<Cq*>(obj));
            break;
        case ObjType::qp:
            status = destroy_qp(reinterpret_cast<Qp*>(obj));
            break;
        case ObjType::mkey:
            status = destroy_mkey(reinterpret_cast<DevxMkey*>(obj));
            break;
    }
    if (status == ok) {
        ctx->objects--;
        return 0;
    }
    counters_.add(count_commands_refused);
    // The kernel sends this command itself and maps the status.
    return status == static_cast<uint8_t>(prm::cmd_status::resource_busy) ? EBUSY : EIO;
}

}  // namespace pgas::softhca
