/* Prints what rdma-core's infiniband/mlx5dv.h says, for comparison with our table:
 *   member STRUCT MEMBER OFFSET SIZE
 *   value NAME NUMBER
 *   bytes NAME HEX
 */
#include <infiniband/mlx5dv.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define MEMBER(s, m) printf("member %s %s %zu %zu\n", #s, #m, offsetof(struct s, m), sizeof(((struct s*)0)->m))
#define VALUE(n) printf("value %s %llu\n", #n, (unsigned long long)(n))

static void bytes(const char* name, const void* p, size_t n) {
    printf("bytes %s ", name);
    for (size_t i = 0; i < n; i++) printf("%02x", ((const unsigned char*)p)[i]);
    printf("\n");
}

static void members(void) {
    MEMBER(mlx5_wqe_ctrl_seg, opmod_idx_opcode);
    MEMBER(mlx5_wqe_ctrl_seg, qpn_ds);
    MEMBER(mlx5_wqe_ctrl_seg, signature);
    MEMBER(mlx5_wqe_ctrl_seg, dci_stream_channel_id);
    MEMBER(mlx5_wqe_ctrl_seg, fm_ce_se);
    MEMBER(mlx5_wqe_ctrl_seg, imm);
    MEMBER(mlx5_wqe_raddr_seg, raddr);
    MEMBER(mlx5_wqe_raddr_seg, rkey);
    MEMBER(mlx5_wqe_data_seg, byte_count);
    MEMBER(mlx5_wqe_data_seg, lkey);
    MEMBER(mlx5_wqe_data_seg, addr);
    MEMBER(mlx5_wqe_inl_data_seg, byte_count);
    MEMBER(mlx5_wqe_atomic_seg, swap_add);
    MEMBER(mlx5_wqe_atomic_seg, compare);
    MEMBER(mlx5_cqe64, wqe_id);
    MEMBER(mlx5_cqe64, ml_path);
    MEMBER(mlx5_cqe64, slid);
    MEMBER(mlx5_cqe64, flags_rqpn);
    MEMBER(mlx5_cqe64, srqn_uidx);
    MEMBER(mlx5_cqe64, imm_inval_pkey);
    MEMBER(mlx5_cqe64, byte_cnt);
    MEMBER(mlx5_cqe64, timestamp);
    MEMBER(mlx5_cqe64, sop_drop_qpn);
    MEMBER(mlx5_cqe64, wqe_counter);
    MEMBER(mlx5_cqe64, signature);
    MEMBER(mlx5_cqe64, op_own);
    MEMBER(mlx5_err_cqe, srqn);
    MEMBER(mlx5_err_cqe, vendor_err_synd);
    MEMBER(mlx5_err_cqe, syndrome);
    MEMBER(mlx5_err_cqe, s_wqe_opcode_qpn);
    MEMBER(mlx5_err_cqe, wqe_counter);
    MEMBER(mlx5_err_cqe, signature);
    MEMBER(mlx5_err_cqe, op_own);
}

static void opcodes(void) {
    VALUE(MLX5_OPCODE_NOP);
    VALUE(MLX5_OPCODE_SEND_INVAL);
    VALUE(MLX5_OPCODE_RDMA_WRITE);
    VALUE(MLX5_OPCODE_RDMA_WRITE_IMM);
    VALUE(MLX5_OPCODE_SEND);
    VALUE(MLX5_OPCODE_SEND_IMM);
    VALUE(MLX5_OPCODE_RDMA_READ);
    VALUE(MLX5_OPCODE_ATOMIC_CS);
    VALUE(MLX5_OPCODE_ATOMIC_FA);
    VALUE(MLX5_OPCODE_ATOMIC_MASKED_CS);
    VALUE(MLX5_OPCODE_ATOMIC_MASKED_FA);
    VALUE(MLX5_OPCODE_LOCAL_INVAL);
    VALUE(MLX5_OPCODE_UMR);
    VALUE(MLX5_CQE_REQ);
    VALUE(MLX5_CQE_RESP_WR_IMM);
    VALUE(MLX5_CQE_RESP_SEND);
    VALUE(MLX5_CQE_RESP_SEND_IMM);
    VALUE(MLX5_CQE_RESP_SEND_INV);
    VALUE(MLX5_CQE_RESIZE_CQ);
    VALUE(MLX5_CQE_NO_PACKET);
    VALUE(MLX5_CQE_SIG_ERR);
    VALUE(MLX5_CQE_REQ_ERR);
    VALUE(MLX5_CQE_RESP_ERR);
    VALUE(MLX5_CQE_INVALID);
}

static void codes(void) {
    VALUE(MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
    VALUE(MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
    VALUE(MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
    VALUE(MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
    VALUE(MLX5_CQE_SYNDROME_MW_BIND_ERR);
    VALUE(MLX5_CQE_SYNDROME_BAD_RESP_ERR);
    VALUE(MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR);
    VALUE(MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR);
    VALUE(MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
    VALUE(MLX5_CQE_SYNDROME_REMOTE_OP_ERR);
    VALUE(MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
    VALUE(MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR);
    VALUE(MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR);
    VALUE(MLX5_WQE_CTRL_CQ_UPDATE);
    VALUE(MLX5_WQE_CTRL_SOLICITED);
    VALUE(MLX5_WQE_CTRL_FENCE);
    VALUE(MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE);
    VALUE(MLX5_SEND_WQE_BB);
    VALUE(MLX5_INLINE_SEG);
    VALUE(MLX5_INVALID_LKEY);
    VALUE(MLX5_RCV_DBR);
    VALUE(MLX5_SND_DBR);
    VALUE(MLX5_CQ_DOORBELL);
    VALUE(MLX5_CQ_DB_REQ_NOT_SOL);
}

int main(void) {
    struct {
        struct mlx5_wqe_ctrl_seg ctrl;
        struct mlx5_wqe_raddr_seg raddr;
        struct mlx5_wqe_data_seg data;
        char rest[16];
    } write;
    memset(&write, 0, sizeof write);
    mlx5dv_set_ctrl_seg(&write.ctrl, 0xfffe, MLX5_OPCODE_RDMA_WRITE, 0, 0x1234, MLX5_WQE_CTRL_CQ_UPDATE, 3, 0, 0);
    write.raddr.raddr = htobe64(0x7f0011223344ull);
    write.raddr.rkey = htobe32(0xaabbcc01);
    mlx5dv_set_data_seg(&write.data, 4096, 0x11223301, 0x7e0000001000ull);
    members();
    opcodes();
    codes();
    bytes("write", &write, sizeof write);
    return 0;
}
