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

// Load returns the load of a VM from its domain's statistics. run is the domain's number, which changes with every start.
// A guest without a balloon driver does not report the memory that it uses.
func Load(id fleet.VMID, run int32, p map[string]int64) hypervisor.VMLoad {
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
		m.ReadBytes += p[indexed("block", i, "rd.bytes")]
		m.WriteBytes += p[indexed("block", i, "wr.bytes")]
		m.Reads += p[indexed("block", i, "rd.reqs")]
		m.Writes += p[indexed("block", i, "wr.reqs")]
		m.ReadNanos += p[indexed("block", i, "rd.times")]
		m.WriteNanos += p[indexed("block", i, "wr.times")]
	}
	for i := range p["net.count"] {
		m.ReceiveBytes += p[indexed("net", i, "rx.bytes")]
		m.SendBytes += p[indexed("net", i, "tx.bytes")]
		m.Drops += p[indexed("net", i, "rx.drop")] + p[indexed("net", i, "tx.drop")]
	}
	return m
}

func indexed(group string, i int64, name string) string {
	return group + "." + strconv.FormatInt(i, 10) + "." + name
}
