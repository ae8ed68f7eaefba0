package mock

import (
	"math"
	"path"
	"slices"
	"time"

	"quantix/agent"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// guest is one simulated domain. Its Host's lock guards it.
type guest struct {
	id         fleet.VMID
	managed    bool // carries Quantix metadata
	generation int64
	applied    agent.Applied
	mark       string // the VM's, in its metadata
	name       string // as the domain is called now
	def        shape
	undefined  bool   // it runs, but its definition is gone
	live       *shape // what runs; nil: off
	power      fleet.Power
	startedAt  time.Time
	screen     *screen
	tree       *agent.SnapTree // of its snapshots; nil: it never had one
	others     []string        // snapshots that somebody made beside Quantix
	over       []fleet.Overlay // files that somebody put on top of its disks

	balloon int // what its balloon leaves it, in MiB; 0: all that it may use

	reason string                    // why it is off
	sick   map[fleet.HealthKind]bool // which checks it fails
	signs  int                       // how often its watchdog was let down, or its screen has changed

	frozen    bool                 // its file systems are
	passwords map[string]string    // what its users were given
	programs  []fleet.GuestProgram // what was run in it
}

// shape is what a definition says: the devices of a spec, and where its pools are.
type shape struct {
	spec  fleet.VMSpec
	pools map[fleet.PoolID]string

	modules []fleet.Module // of what runs: memory that came since its start
	least   int            // likewise: the vCPUs that it was started with
}

func (s shape) path(ref fleet.Volref) string { return path.Join(s.pools[ref.PoolID], ref.Volume) }

func (s shape) disks() []string {
	var out []string
	for _, d := range s.spec.Disks {
		out = append(out, s.path(d.Ref()))
	}
	return out
}

// media are the files that it reads, in drives and beside.
func (s shape) media() []string {
	var out []string
	for _, m := range s.spec.Media() {
		out = append(out, s.path(m.Volref))
	}
	return out
}

func (g *guest) defined() agent.Defined { return agent.Defined{Domain: g.name, Spec: g.def.spec} }

func (g *guest) start(now time.Time) {
	if want := g.applied.Pending(g.name); want != "" {
		g.name = want
	}
	run := g.def
	run.least = run.spec.CPUs
	g.live, g.power, g.startedAt = &run, fleet.Running, now.Truncate(time.Second)
	g.screen = newScreen(g.name, g.def)
	g.frozen, g.reason, g.balloon = false, "", 0
}

// stop powers the guest off, with libvirt's word for why. Without a definition it is gone then.
func (h *Host) stop(g *guest, reason string) {
	if g.live == nil && g.power == fleet.Stopped {
		return
	}
	g.live, g.power, g.startedAt, g.reason, g.balloon = nil, fleet.Stopped, time.Time{}, reason, 0
	if g.screen != nil {
		g.screen.off()
		g.screen = nil
	}
	if g.undefined {
		delete(h.guests, g.id)
	}
}

func (g *guest) on() bool { return g.live != nil }

// nextBoot lists what the running guest does not have yet.
func (g *guest) nextBoot() []string {
	if !g.on() {
		return nil
	}
	var out []string
	if g.applied.Pending(g.name) != "" {
		out = append(out, "name")
	}
	for _, f := range fleet.VMFields {
		if !unseen(&f) && !f.Same(g.live.spec, g.def.spec) {
			out = append(out, f.Name)
		}
	}
	return out
}

// unseen reports whether no guest sees the field.
func unseen(f *fleet.VMField) bool {
	return f.On == fleet.Now && f.Default != nil && f.Merge == nil // which is of devices
}

// uses reports whether the domain, as it runs or as it is defined, holds the file.
func (g *guest) uses(path string) bool {
	return g.tree != nil && slices.Contains(g.tree.Files(), path) || slices.Contains(g.def.disks(), path) || slices.Contains(g.def.media(), path) ||
		g.on() && (slices.Contains(g.live.disks(), path) || slices.Contains(g.live.media(), path))
}

// shares reports whether it has the file as a shareable disk, and in no other way.
func (g *guest) shares(path string) bool {
	one := func(s shape) bool {
		for _, d := range s.spec.Disks {
			if s.path(d.Ref()) == path && !d.Shareable {
				return false
			}
		}
		return !slices.Contains(s.media(), path)
	}
	return one(g.def) && (!g.on() || one(*g.live)) && (g.tree == nil || !slices.Contains(g.tree.Files(), path))
}

// status is what libvirt would say; h.mu is held.
func (h *Host) status(g *guest) fleet.VMStatus {
	now := g.def
	s := fleet.VMStatus{Power: g.power, Reason: g.reason, NextBoot: g.nextBoot(), Accelerator: h.inv.Accelerators[0]}
	if g.on() {
		now = *g.live
		started := g.startedAt
		s.StartedAt = &started
	}
	s.CPUs, s.MemoryMiB = now.spec.CPUs, now.spec.MemoryMiB
	if g.on() {
		s.Launch = launchOf(g)
		s.MaxMemory = now.spec.Memory.MaxMiB
		if n := now.spec.CPU.Max; n > s.CPUs {
			s.MaxCPUs = n
		}
		s.Modules, s.PendingUnplug = slices.Clone(now.modules), h.heldBack(g)
		if h.inv.Accelerators[0] == "kvm" && now.least < s.CPUs {
			s.MinCPUs = now.least
		}
	}
	if g.managed {
		s.Faults, s.Drift = h.faults(g), g.applied.Drift(g.defined())
		s.Snapshots = g.tree.Reported(&g.applied.Spec, g.others, g.over)
		if g.name != g.applied.Name {
			s.Domain = g.name
		}
		s.BalloonMiB = g.balloon
		s.Guest, s.Policy, s.Checks = g.says(), g.applied.Spec.Policy, slices.Clone(g.applied.Spec.Health)
	}
	for i, spec := range now.spec.Disks {
		ref := spec.Ref()
		d := fleet.DiskState{Target: target(i), Path: g.file(now, ref)}
		if v := h.volumeAt(d.Path); v != nil {
			d.SizeBytes, d.AllocBytes, d.Volume = v.CapacityBytes, v.AllocBytes, &ref
		}
		s.Disks = append(s.Disks, d)
	}
	for _, n := range now.spec.NICs {
		state := fleet.NICState{MAC: n.MAC, Source: "network " + n.Network}
		if n.PortGroup != "" {
			state.Source += ", port group " + n.PortGroup
		}
		if n.Bridge != "" {
			state.Source = "bridge " + n.Bridge
		}
		state.Filter = filterOf(g.id, n)
		if g.on() {
			ip, by := h.address(n)
			state.Addresses, state.Seen = []string{ip}, []fleet.SeenAddress{{IP: ip, By: by}}
		}
		s.NICs = append(s.NICs, state)
	}
	for _, n := range g.def.spec.NICs {
		if said := h.changed[filterOf(g.id, n)]; g.managed && said != "" {
			s.FilterDrifted(n.MAC, said)
		}
	}
	return s
}

// faults are what is wrong with a VM; h.mu is held.
func (h *Host) faults(g *guest) []fleet.Fault {
	var out []fleet.Fault
	for i, d := range g.applied.Spec.Disks {
		if !slices.ContainsFunc(g.def.spec.Disks, func(o fleet.Disk) bool { return o.Ref() == d.Ref() }) {
			continue
		}
		if why := h.absent(d.Ref(), g.applied.Pools); why != "" {
			out = append(out, agent.MissingDisk(i+1, d.Ref(), g.applied.Pools[d.PoolID].Name, h.opts.Name, why))
		}
	}
	if g.undefined {
		out = append(out, agent.Undefined())
	}
	return out
}

// absent says why a volume cannot be had; empty: it is there. h.mu is held.
func (h *Host) absent(ref fleet.Volref, pools map[fleet.PoolID]agent.AppliedPool) string {
	p := h.pools[pools[ref.PoolID].Name]
	if p == nil || p.dir == nil || p.stopped {
		return agent.PoolInactive
	}
	switch f, ok := p.dir.files[ref.Volume]; {
	case !ok:
		return agent.FileMissing
	case f.linked:
		return agent.FileReplaced
	}
	return ""
}

func target(i int) string { return "vd" + string(rune('a'+i)) }

// meter is the guest's use since its start. Its load swings slowly around a mean of its own; the integral only grows.
func (g *guest) meter(now time.Time) wire.Meter {
	seed := hash(string(g.id))
	seconds := now.Sub(g.startedAt).Seconds()
	mean := 0.03 + float64(seed%100)/250 // of each vCPU
	period := 120 + float64(seed%240)
	swing := 2 * math.Pi / period
	busy := mean * (seconds + 0.8*(1-math.Cos(swing*seconds))/swing) * float64(g.live.spec.CPUs)
	io := busy * float64(1<<20)
	memory := float64(g.live.spec.MemoryMiB<<20) * (0.35 + float64(seed%50)/100)
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
