// Package ibgda makes the queues through which a GPU drives an mlx5 NIC by itself: one RC queue pair per (context,
// peer), with its ring, completion entry and doorbell record in GPU memory, connected to the peer's and described to
// kernels as wire.Queue.
//
// Commands are DevX mailboxes in the mlx5 PRM layout, as in Linux mlx5_ifc.h and rdma-core mlx5dv.h.
package ibgda
