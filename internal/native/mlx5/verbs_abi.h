// The part of the libibverbs and libmlx5 binary interface that pgas uses, declared here so that building needs no
// rdma-core headers. Layouts as in rdma-core infiniband/verbs.h and infiniband/mlx5dv.h; abi_parity_test.go compares
// every one of them with the installed headers. If the vendors' headers were included first, theirs are used.
#ifndef PGAS_NATIVE_MLX5_VERBS_ABI_H
#define PGAS_NATIVE_MLX5_VERBS_ABI_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef INFINIBAND_VERBS_H

union ibv_gid {
    uint8_t raw[16];
    struct {
        uint64_t subnet_prefix;  // big-endian
        uint64_t interface_id;   // big-endian
    } global;
};

enum ibv_gid_type {
    IBV_GID_TYPE_IB = 0,
    IBV_GID_TYPE_ROCE_V1 = 1,
    IBV_GID_TYPE_ROCE_V2 = 2,
};

struct ibv_gid_entry {
    union ibv_gid gid;
    uint32_t gid_index;
    uint32_t port_num;
    uint32_t gid_type;  // enum ibv_gid_type
    uint32_t ndev_ifindex;
};

enum ibv_node_type { IBV_NODE_CA = 1 };
enum ibv_transport_type { IBV_TRANSPORT_IB = 0 };
enum ibv_port_state { IBV_PORT_DOWN = 1, IBV_PORT_INIT = 2, IBV_PORT_ARMED = 3, IBV_PORT_ACTIVE = 4 };
enum ibv_mtu { IBV_MTU_256 = 1, IBV_MTU_512 = 2, IBV_MTU_1024 = 3, IBV_MTU_2048 = 4, IBV_MTU_4096 = 5 };
enum { IBV_LINK_LAYER_UNSPECIFIED = 0, IBV_LINK_LAYER_INFINIBAND = 1, IBV_LINK_LAYER_ETHERNET = 2 };

enum ibv_access_flags {
    IBV_ACCESS_LOCAL_WRITE = 1,
    IBV_ACCESS_REMOTE_WRITE = 1 << 1,
    IBV_ACCESS_REMOTE_READ = 1 << 2,
    IBV_ACCESS_REMOTE_ATOMIC = 1 << 3,
    IBV_ACCESS_ZERO_BASED = 1 << 5,
    IBV_ACCESS_RELAXED_ORDERING = 1 << 20,
};

struct _ibv_device_ops {
    void* (*_dummy1)(void);
    void (*_dummy2)(void);
};

struct ibv_device {
    struct _ibv_device_ops _ops;
    enum ibv_node_type node_type;
    enum ibv_transport_type transport_type;
    char name[64];
    char dev_name[64];
    char dev_path[256];
    char ibdev_path[256];
};

struct ibv_context_ops {
    void* entries[32];
};

struct ibv_context {
    struct ibv_device* device;
    struct ibv_context_ops ops;
    int cmd_fd;
    int async_fd;
    int num_comp_vectors;
    pthread_mutex_t mutex;
    void* abi_compat;
};

struct ibv_pd {
    struct ibv_context* context;
    uint32_t handle;
};

struct ibv_mr {
    struct ibv_context* context;
    struct ibv_pd* pd;
    void* addr;
    size_t length;
    uint32_t handle;
    uint32_t lkey;
    uint32_t rkey;
};

struct ibv_port_attr {
    enum ibv_port_state state;
    enum ibv_mtu max_mtu;
    enum ibv_mtu active_mtu;
    int gid_tbl_len;
    uint32_t port_cap_flags;
    uint32_t max_msg_sz;
    uint32_t bad_pkey_cntr;
    uint32_t qkey_viol_cntr;
    uint16_t pkey_tbl_len;
    uint16_t lid;
    uint16_t sm_lid;
    uint8_t lmc;
    uint8_t max_vl_num;
    uint8_t sm_sl;
    uint8_t subnet_timeout;
    uint8_t init_type_reply;
    uint8_t active_width;
    uint8_t active_speed;
    uint8_t phys_state;
    uint8_t link_layer;
    uint8_t flags;
    uint16_t port_cap_flags2;  // not written by the exported ibv_query_port
};

enum ibv_event_type {
    IBV_EVENT_CQ_ERR = 0,
    IBV_EVENT_QP_FATAL = 1,
    IBV_EVENT_QP_REQ_ERR = 2,
    IBV_EVENT_QP_ACCESS_ERR = 3,
    IBV_EVENT_DEVICE_FATAL = 8,
    IBV_EVENT_PORT_ACTIVE = 9,
    IBV_EVENT_PORT_ERR = 10,
    IBV_EVENT_GID_CHANGE = 18,
};

struct ibv_async_event {
    union {
        void* cq;
        void* qp;
        void* srq;
        void* wq;
        int port_num;
    } element;
    enum ibv_event_type event_type;
};

#endif  // INFINIBAND_VERBS_H

#ifndef _MLX5DV_H_

enum { MLX5DV_CONTEXT_FLAGS_DEVX = 1 << 0 };
enum { MLX5DV_OBJ_PD = 1 << 6 };
enum { MLX5DV_UMEM_MASK_DMABUF = 1 << 0 };

struct mlx5dv_context_attr {
    uint32_t flags;
    uint64_t comp_mask;
};

struct mlx5dv_pd {
    uint32_t pdn;
    uint64_t comp_mask;
};

struct mlx5dv_obj {
    struct {
        void* in;
        void* out;
    } qp, cq, srq, rwq, dm, ah;
    struct {
        struct ibv_pd* in;
        struct mlx5dv_pd* out;
    } pd;
};

struct mlx5dv_devx_umem {
    uint32_t umem_id;
};

struct mlx5dv_devx_umem_in {
    void* addr;
    size_t size;
    uint32_t access;
    uint64_t pgsz_bitmap;
    uint64_t comp_mask;
    int dmabuf_fd;
};

struct mlx5dv_devx_uar {
    void* reg_addr;
    void* base_addr;
    uint32_t page_id;
    off_t mmap_off;
    uint64_t comp_mask;
};

struct mlx5dv_devx_obj;

#endif  // _MLX5DV_H_

// UAR types. Headers before rdma-core 45 lack the dedicated one, so these have names of our own.
enum { PGAS_MLX5_UAR_BF = 0, PGAS_MLX5_UAR_NC = 1 };
#define PGAS_MLX5_UAR_NC_DEDICATED (1u << 31)

#ifdef __cplusplus
}
#endif

#endif  // PGAS_NATIVE_MLX5_VERBS_ABI_H
