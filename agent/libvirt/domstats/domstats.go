// Package domstats reads the statistics that libvirt reports of running domains.
package domstats

import (
	"strconv"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// Groups are the groups of statistics that Load needs.
const Groups = golibvirt.DomainStatsCPUTotal | golibvirt.DomainStatsVCPU | golibvirt.DomainStatsBalloon | golibvirt.DomainStatsInterface | golibvirt.DomainStatsBlock

// kib is the unit of memory in libvirt's statistics, in bytes.
const kib = 1024

// Load returns the load of a VM from its domain's statistics: numbers and texts by name. run is the domain's number, which
// changes with every start. A guest without a balloon driver does not report the memory that it uses.
func Load(id fleet.VMID, run int32, p map[string]int64, texts map[string]string) hypervisor.VMLoad {
	m := hypervisor.VMLoad{
		Meter: wire.Meter{ID: id, CPUNanos: p["cpu.time"], MemoryBytes: p["balloon.rss"] * kib},
		Run:   run, VCPUs: int(p["vcpu.current"]), AssignedBytes: p["balloon.current"] * kib, GuestUsedBytes: -1,
	}
	if usable, ok := p["balloon.usable"]; ok && p["balloon.available"] >= usable {
		m.GuestUsedBytes = (p["balloon.available"] - usable) * kib
	}
	for i := range max(p["vcpu.maximum"], p["vcpu.current"]) {
		m.StealNanos += p[indexed("vcpu", i, "delay")]
	}
	for i := range p["block.count"] {
		d := hypervisor.DiskLoad{
			Name:      texts[indexed("block", i, "name")],
			ReadBytes: p[indexed("block", i, "rd.bytes")], WriteBytes: p[indexed("block", i, "wr.bytes")],
			Reads: p[indexed("block", i, "rd.reqs")], Writes: p[indexed("block", i, "wr.reqs")],
			ReadNanos: p[indexed("block", i, "rd.times")], WriteNanos: p[indexed("block", i, "wr.times")],
		}
		m.ReadBytes, m.WriteBytes = m.ReadBytes+d.ReadBytes, m.WriteBytes+d.WriteBytes
		m.Reads, m.Writes = m.Reads+d.Reads, m.Writes+d.Writes
		m.ReadNanos, m.WriteNanos = m.ReadNanos+d.ReadNanos, m.WriteNanos+d.WriteNanos
		m.Disks = append(m.Disks, d)
	}
	for i := range p["net.count"] {
		if _, measured := p[indexed("net", i, "rx.bytes")]; !measured { // the NIC is a device of the host
			continue
		}
		n := hypervisor.NICLoad{
			Index:        int(i),
			ReceiveBytes: p[indexed("net", i, "rx.bytes")], SendBytes: p[indexed("net", i, "tx.bytes")],
			ReceivePackets: p[indexed("net", i, "rx.pkts")], SendPackets: p[indexed("net", i, "tx.pkts")],
			ReceiveDrops: p[indexed("net", i, "rx.drop")], SendDrops: p[indexed("net", i, "tx.drop")],
		}
		m.ReceiveBytes, m.SendBytes = m.ReceiveBytes+n.ReceiveBytes, m.SendBytes+n.SendBytes
		m.Drops += n.ReceiveDrops + n.SendDrops
		m.NICs = append(m.NICs, n)
	}
	return m
}

func indexed(group string, i int64, name string) string {
	return group + "." + strconv.FormatInt(i, 10) + "." + name
}
