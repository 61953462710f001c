// Package table is the only place where the layouts that the host program and kernels share are written down.
// It is apart from package wire so that the generator does not depend on what it generates.
package table

import "github.com/pgas-go/pgas/internal/layout"

// Table returns the wire layouts.
func Table() layout.Table {
	return layout.Table{
		Consts: []layout.Const{
			{Name: "Segments", Value: 3, Doc: "segments of a symmetric heap"},
			{Name: "SignalAlign", Value: 64, Doc: "bytes between signal words: one cache line each"},
			{Name: "WqeBytes", Value: 64, Doc: "one send queue basic block (BB)"},
			{Name: "CqeBytes", Value: 64, Doc: "one completion queue entry"},
			{Name: "MaxQueueDepth", Value: 32768, Doc: "BBs per send queue: 16-bit counters must tell full from empty"},
			{Name: "SinkSlots", Value: 64, Doc: "8-byte landing slots per queue, one bit each in Queue.fetch_busy"},
			{Name: "MinQueueDepth", Value: 2, Doc: "BBs per send queue: the longest WQE has two"},
			{Name: "FlagMixedPaths", Value: 1, Doc: "World.flags: some peers are reached by p2p and some through a NIC"},
		},
		Enums: []layout.Enum{
			{Name: "Segment", Type: "u32", Doc: "a part of the symmetric heap", Values: []layout.Const{
				{Name: "Device", Value: 0, Doc: "GPU memory"},
				{Name: "Host", Value: 1, Doc: "pinned host memory"},
				{Name: "Signal", Value: 2, Doc: "signal words, registered without relaxed ordering"},
			}},
			{Name: "Path", Type: "u32", Doc: "how a peer's memory is reached", Values: []layout.Const{
				{Name: "None", Value: 0, Doc: "not reachable"},
				{Name: "P2p", Value: 1, Doc: "loads and stores on the mapped heap"},
				{Name: "Ibgda", Value: 2, Doc: "WQEs and doorbells written by the GPU"},
				{Name: "Assisted", Value: 3, Doc: "WQEs written by the GPU, doorbells by a CPU"},
				{Name: "Proxy", Value: 4, Doc: "descriptors posted by a CPU"},
			}},
			{Name: "Status", Type: "u32", Doc: "result of a device call", Values: []layout.Const{
				{Name: "Ok", Value: 0, Doc: "done"},
				{Name: "Timeout", Value: 1, Doc: "the deadline passed"},
				{Name: "PeerLost", Value: 2, Doc: "the host saw a peer die"},
				{Name: "Aborted", Value: 3, Doc: "the job was aborted"},
				{Name: "CompletionError", Value: 4, Doc: "an error CQE was read; see StatusRecord"},
				{Name: "Invalid", Value: 5, Doc: "bad argument: nothing was issued"},
			}},
			{Name: "Op", Type: "u32", Doc: "what a StatusRecord is about", Values: []layout.Const{
				{Name: "None", Value: 0}, {Name: "Put", Value: 1}, {Name: "Get", Value: 2}, {Name: "Signal", Value: 3},
				{Name: "PutSignal", Value: 4}, {Name: "Wait", Value: 5}, {Name: "Fence", Value: 6}, {Name: "Quiet", Value: 7}, {Name: "Atomic", Value: 8},
			}},
		},
		Structs: []layout.Struct{
			{Name: "SegmentInfo", Doc: "one of my segments", Align: 8, Size: 24, Fields: []layout.Field{
				{Name: "base", Type: "u64", Doc: "my virtual address"},
				{Name: "size", Type: "u64", Doc: "bytes, equal on all PEs"},
				{Name: "lkey", Type: "be32", Doc: "local key of the zero-based MR; 0 without a NIC"},
				{Name: "pad", Type: "u32"},
			}},
			{Name: "Region", Doc: "a user buffer registered as a local source or target", Align: 8, Size: 24, Fields: []layout.Field{
				{Name: "base", Type: "u64", Doc: "virtual address"},
				{Name: "size", Type: "u64", Doc: "bytes; 0 marks a free entry"},
				{Name: "lkey", Type: "be32", Doc: "local key of the zero-based MR"},
				{Name: "pad", Type: "u32"},
			}},
			{Name: "Peer", Doc: "how to reach one PE", Align: 64, Size: 64, Fields: []layout.Field{
				{Name: "map", Type: "u64", Count: 3, Doc: "address of the peer's segments here; 0 when not mapped"},
				{Name: "rkey", Type: "be32", Count: 3, Doc: "remote keys of the peer's zero-based MRs"},
				{Name: "path", Type: "Path", Doc: "path for puts, gets and signals to this peer"},
				{Name: "bell", Type: "u64", Doc: "the peer's Bell mapped here; 0 on hardware"},
				{Name: "pad", Type: "u64", Count: 2},
			}},
			{Name: "Queue", Doc: "one RC queue pair, owned by (context, peer); four lines by writer", Align: 64, Size: 256, Fields: []layout.Field{
				{Name: "sq", Type: "u64", Doc: "send queue ring"},
				{Name: "cqe", Type: "u64", Doc: "the one CQE of the collapsed completion queue"},
				{Name: "dbr", Type: "u64", Doc: "doorbell record; the send counter is its second word"},
				{Name: "db", Type: "u64", Doc: "doorbell register as the poster must address it"},
				{Name: "qpn", Type: "u32", Doc: "queue pair number"},
				{Name: "depth", Type: "u32", Doc: "BBs in the ring, a power of two"},
				{Name: "sink", Type: "u64", Doc: "iova of sink_slots 8-byte slots: slot 0 takes old values nobody wants, the others serve fetches"},
				{Name: "sink_map", Type: "u64", Doc: "address of the sink slots"},
				{Name: "sink_lkey", Type: "be32", Doc: "local key of the sink"},
				{Name: "max_msg", Type: "u32", Doc: "bytes per WQE, a power of two; longer transfers are split"},

				{Name: "reserved", Type: "u64", Doc: "BBs given out to posters"},
				{Name: "pad0", Type: "u64", Count: 7},

				{Name: "ready", Type: "u64", Doc: "BBs written and published, in order"},
				{Name: "rung", Type: "u64", Doc: "BBs covered by a doorbell"},
				{Name: "pad1", Type: "u64", Count: 6},

				{Name: "completed", Type: "u64", Doc: "BBs known to be complete"},
				{Name: "reads", Type: "u64", Doc: "end index of the last READ or fetching atomic"},
				{Name: "fenced", Type: "u64", Doc: "READs below this index are fenced off"},
				{Name: "error", Type: "u32", Doc: "a Status other than ok once the queue failed; never cleared"},
				{Name: "pad2", Type: "u32"},
				{Name: "fetch_busy", Type: "u64", Doc: "bit i: sink slot i is taken by a fetch; bit 0 is never taken"},
				{Name: "fetch_lost", Type: "u64", Doc: "sink slots whose fetch gave up waiting: free once completed reaches fetch_lost_end"},
				{Name: "fetch_lost_end", Type: "u64", Doc: "index behind the last such fetch"},
				{Name: "pad3", Type: "u64"},
			}},
			{Name: "StatusRecord", Doc: "the first error that a kernel saw; written once, in host-visible memory", Align: 64, Size: 128, Fields: []layout.Field{
				{Name: "state", Type: "u32", Doc: "0 free, 1 being written, 2 valid (release)"},
				{Name: "status", Type: "Status"},
				{Name: "op", Type: "u32", Doc: "an Op"},
				{Name: "peer", Type: "u32"},
				{Name: "context", Type: "u32"},
				{Name: "qpn", Type: "u32"},
				{Name: "opcode", Type: "u32", Doc: "send opcode as in the CQE"},
				{Name: "syndrome", Type: "u32", Doc: "CQE byte 0x37"},
				{Name: "vendor_syndrome", Type: "u32", Doc: "CQE byte 0x36"},
				{Name: "hw_syndrome", Type: "u32", Doc: "CQE byte 0x34"},
				{Name: "wqe_index", Type: "u64", Doc: "64-bit index of the failed WQE"},
				{Name: "address", Type: "u64", Doc: "waits: the word; bad arguments: the address"},
				{Name: "expected", Type: "u64", Doc: "waits: the value waited for; bad arguments: the length"},
				{Name: "seen", Type: "u64", Doc: "waits: the last value read"},
				{Name: "waited_ns", Type: "u64"},
				{Name: "block", Type: "u32", Doc: "linear block index"},
				{Name: "thread", Type: "u32", Doc: "linear thread index in the block"},
				{Name: "pad", Type: "u64", Count: 5},
			}},
			{Name: "Control", Doc: "what the host tells running kernels, in host-visible memory", Align: 64, Size: 64, Fields: []layout.Field{
				{Name: "abort", Type: "u32", Doc: "a Status that every wait must return; 0 while the job lives"},
				{Name: "abort_pe", Type: "u32", Doc: "the PE that is the cause"},
				{Name: "pad", Type: "u64", Count: 7},
			}},
			{Name: "Bell", Doc: "software platform: wakes sleeping waiters of one PE; whoever makes a word visible rings when sleepers is not 0", Align: 64, Size: 64, Fields: []layout.Field{
				{Name: "sleepers", Type: "u32"},
				{Name: "seq", Type: "u32", Doc: "futex word"},
				{Name: "pad", Type: "u64", Count: 7},
			}},
			{Name: "World", Doc: "what a kernel knows of its PE; in GPU memory, read-only for kernels", Align: 64, Size: 256, Fields: []layout.Field{
				{Name: "layout_hash", Type: "u64", Doc: "LayoutHash of the table this was made from"},
				{Name: "my_pe", Type: "u32"},
				{Name: "n_pes", Type: "u32"},
				{Name: "n_contexts", Type: "u32"},
				{Name: "flags", Type: "u32", Doc: "Flag constants"},
				{Name: "seg", Type: "SegmentInfo", Count: 3},
				{Name: "peers", Type: "u64", Doc: "Peer[n_pes]"},
				{Name: "queues", Type: "u64", Doc: "Queue[n_contexts][n_pes]; 0 without a NIC"},
				{Name: "regions", Type: "u64", Doc: "Region[n_regions]"},
				{Name: "n_regions", Type: "u32", Doc: "entries in use or used before; grows only"},
				{Name: "pad0", Type: "u32"},
				{Name: "status", Type: "u64", Doc: "StatusRecord"},
				{Name: "control", Type: "u64", Doc: "Control"},
				{Name: "timeout_ns", Type: "u64", Doc: "default deadline of every device wait; 0 means none"},
				{Name: "bell", Type: "u64", Doc: "my Bell; 0 on hardware"},
				{Name: "queue_scope", Type: "u32", Doc: "0: system-scope fences before doorbells; 1: GPU scope suffices"},
				{Name: "pad1", Type: "u32"},
				{Name: "pad2", Type: "u64", Count: 11},
			}},
		},
	}
}
