package domstats_test

import (
	"testing"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/domstats"
	"quantix/internal/wire"
)

// The statistics are those that libvirt 9.0 reports of a guest with two disks, a NIC and two vCPUs.
func TestLoadSumsDisksNICsAndVCPUs(t *testing.T) {
	p := map[string]int64{
		"cpu.time": 5_000_000_000, "vcpu.current": 2, "vcpu.maximum": 4, "vcpu.0.delay": 100, "vcpu.1.delay": 20,
		"balloon.current": 262144, "balloon.maximum": 262144, "balloon.rss": 181000, "balloon.available": 240000, "balloon.usable": 200000,
		"block.count": 2, "block.0.rd.bytes": 1000, "block.0.rd.reqs": 10, "block.0.rd.times": 7000, "block.0.wr.bytes": 500, "block.0.wr.reqs": 5, "block.0.wr.times": 900,
		"block.1.rd.bytes": 1, "block.1.rd.reqs": 1, "block.1.rd.times": 1,
		"net.count": 1, "net.0.rx.bytes": 70, "net.0.tx.bytes": 60, "net.0.rx.drop": 2, "net.0.tx.drop": 1,
	}
	want := hypervisor.VMLoad{
		Meter: wire.Meter{ID: "web", CPUNanos: 5_000_000_000, MemoryBytes: 181000 << 10, ReadBytes: 1001, WriteBytes: 500, ReceiveBytes: 70, SendBytes: 60},
		Run:   7, VCPUs: 2, StealNanos: 120, AssignedBytes: 256 << 20, GuestUsedBytes: 40000 << 10, Reads: 11, Writes: 5, ReadNanos: 7001, WriteNanos: 900, Drops: 3,
	}
	if got := domstats.Load("web", 7, p); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	delete(p, "balloon.usable")
	if got := domstats.Load("web", 7, p); got.GuestUsedBytes >= 0 {
		t.Errorf("a guest without a balloon driver uses %d bytes", got.GuestUsedBytes)
	}
}
