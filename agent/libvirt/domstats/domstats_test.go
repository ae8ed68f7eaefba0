package domstats_test

import (
	"reflect"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/domstats"
	"quantix/internal/wire"
)

// The statistics are those that libvirt 9.0 reports of a guest with two disks, two vCPUs and two NICs. The first NIC is a device of the host.
func TestLoadSumsDisksNICsAndVCPUs(t *testing.T) {
	p := map[string]int64{
		"cpu.time": 5_000_000_000, "vcpu.current": 2, "vcpu.maximum": 4, "vcpu.0.delay": 100, "vcpu.1.delay": 20,
		"balloon.current": 262144, "balloon.maximum": 262144, "balloon.rss": 181000, "balloon.available": 240000, "balloon.usable": 200000,
		"block.count": 2, "block.0.rd.bytes": 1000, "block.0.rd.reqs": 10, "block.0.rd.times": 7000, "block.0.wr.bytes": 500, "block.0.wr.reqs": 5, "block.0.wr.times": 900,
		"block.1.rd.bytes": 1, "block.1.rd.reqs": 1, "block.1.rd.times": 1,
		"net.count": 2, "net.1.rx.bytes": 70, "net.1.tx.bytes": 60, "net.1.rx.pkts": 9, "net.1.tx.pkts": 8, "net.1.rx.drop": 2, "net.1.tx.drop": 1,
	}
	want := hypervisor.VMLoad{
		Meter: wire.Meter{ID: "web", CPUNanos: 5_000_000_000, MemoryBytes: 181000 << 10, ReadBytes: 1001, WriteBytes: 500, ReceiveBytes: 70, SendBytes: 60},
		Run:   7, VCPUs: 2, StealNanos: 120, AssignedBytes: 256 << 20, GuestUsedBytes: 40000 << 10, Reads: 11, Writes: 5, ReadNanos: 7001, WriteNanos: 900, Drops: 3,
		Disks: []hypervisor.DiskLoad{{Name: "vda", ReadBytes: 1000, WriteBytes: 500, Reads: 10, Writes: 5, ReadNanos: 7000, WriteNanos: 900}, {Name: "vdb", ReadBytes: 1, Reads: 1, ReadNanos: 1}},
		NICs:  []hypervisor.NICLoad{{Index: 1, ReceiveBytes: 70, SendBytes: 60, ReceivePackets: 9, SendPackets: 8, ReceiveDrops: 2, SendDrops: 1}},
	}
	texts := map[string]string{"block.0.name": "vda", "block.1.name": "vdb", "net.1.name": "vnet3"}
	if got := domstats.Load("web", 7, p, texts); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	delete(p, "balloon.usable")
	if got := domstats.Load("web", 7, p, nil); got.GuestUsedBytes >= 0 {
		t.Errorf("a guest without a balloon driver uses %d bytes", got.GuestUsedBytes)
	}
}
