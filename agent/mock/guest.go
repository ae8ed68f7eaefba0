package mock

import (
	"fmt"
	"math"
	"slices"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// guest is one simulated domain. Its Host's lock guards it.
type guest struct {
	id         fleet.VMID
	managed    bool // carries Quantix metadata
	generation int64
	name       string // as the domain is called now
	wantName   string // what the newest definition calls it; takes effect while the guest is off
	def        shape
	live       *shape // what runs; nil: off
	power      fleet.Power
	startedAt  time.Time
	screen     *screen
}

// shape is what a definition says, with disks as paths.
type shape struct {
	cpus, memoryMiB int
	firmware        fleet.Firmware
	disks           []string // paths
	nics            []fleet.NIC
	iso             string // path
}

func (g *guest) start(now time.Time) {
	if g.wantName != "" {
		g.name = g.wantName
	}
	run := g.def
	g.live, g.power, g.startedAt = &run, fleet.Running, now.Truncate(time.Second)
	g.screen = newScreen(g.name, g.def)
}

func (g *guest) stop() {
	g.live, g.power, g.startedAt = nil, fleet.Stopped, time.Time{}
	if g.screen != nil {
		g.screen.off()
		g.screen = nil
	}
}

func (g *guest) on() bool { return g.live != nil }

// nextBoot lists what the running guest does not have yet.
func (g *guest) nextBoot() []string {
	if !g.on() {
		return nil
	}
	var out []string
	add := func(differs bool, field string) {
		if differs {
			out = append(out, field)
		}
	}
	add(g.wantName != "" && g.wantName != g.name, "name")
	add(g.live.cpus != g.def.cpus, "cpus")
	add(g.live.memoryMiB != g.def.memoryMiB, "memoryMiB")
	add(g.live.firmware != g.def.firmware, "firmware")
	add(!slices.Equal(g.live.disks, g.def.disks), "disks")
	add(!slices.Equal(g.live.nics, g.def.nics), "nics")
	add(g.live.iso != g.def.iso, "iso")
	return out
}

// uses reports whether the domain, as it runs or as it is defined, holds the file.
func (g *guest) uses(path string) bool {
	return slices.Contains(g.def.disks, path) || g.def.iso == path ||
		g.on() && (slices.Contains(g.live.disks, path) || g.live.iso == path)
}

// status is what libvirt would say; h.mu is held.
func (h *Host) status(g *guest) fleet.VMStatus {
	now := g.def
	s := fleet.VMStatus{Power: g.power, NextBoot: g.nextBoot(), Accelerator: h.inv.Accelerators[0]}
	if g.on() {
		now = *g.live
		started := g.startedAt
		s.StartedAt = &started
	}
	s.CPUs, s.MemoryMiB = now.cpus, now.memoryMiB
	for i, path := range now.disks {
		d := fleet.DiskState{Target: target(i), Path: path}
		if v := h.volumeAt(path); v != nil {
			d.SizeBytes, d.AllocBytes = v.CapacityBytes, v.AllocBytes
		}
		s.Disks = append(s.Disks, d)
	}
	for _, n := range now.nics {
		state := fleet.NICState{MAC: n.MAC, Source: "network " + n.Network}
		if n.Bridge != "" {
			state.Source = "bridge " + n.Bridge
		}
		if g.on() {
			state.Addresses = []string{address(n)}
		}
		s.NICs = append(s.NICs, state)
	}
	return s
}

func target(i int) string { return "vd" + string(rune('a'+i)) }

// address is what the guest's DHCP client got.
func address(n fleet.NIC) string {
	a := hash(n.MAC)
	if n.Bridge != "" {
		return fmt.Sprintf("10.20.%d.%d", byte(a>>8), 2+byte(a)%250)
	}
	return fmt.Sprintf("192.168.122.%d", 2+byte(a)%250)
}

// meter is the guest's use since its start. Its load swings slowly around a mean of its own; the integral only grows.
func (g *guest) meter(now time.Time) wire.Meter {
	seed := hash(string(g.id))
	seconds := now.Sub(g.startedAt).Seconds()
	mean := 0.03 + float64(seed%100)/250 // of each vCPU
	period := 120 + float64(seed%240)
	swing := 2 * math.Pi / period
	busy := mean * (seconds + 0.8*(1-math.Cos(swing*seconds))/swing) * float64(g.live.cpus)
	io := busy * float64(1<<20)
	memory := float64(g.live.memoryMiB<<20) * (0.35 + float64(seed%50)/100)
	return wire.Meter{
		ID: g.id, CPUNanos: int64(busy*1e9) + 1, MemoryBytes: int64(memory),
		ReadBytes: int64(io * 3), WriteBytes: int64(io * 2), ReceiveBytes: int64(io * 1.5), SendBytes: int64(io),
	}
}

// load is the share of one thread that the guest uses now.
func (g *guest) load(now time.Time) float64 {
	if g.power != fleet.Running {
		return 0
	}
	return float64(g.meter(now).CPUNanos-g.meter(now.Add(-time.Second)).CPUNanos) / 1e9
}
