package mock

import (
	"math"
	"path"
	"slices"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// guest is one simulated domain. The lock of its Host protects it.
type guest struct {
	id               fleet.VMID
	managed          bool // the domain has Quantix metadata
	generation       int64
	applied          hypervisor.AppliedRecord
	ownershipMark    string // the VM's ownership mark in the domain's metadata
	name             string // the domain's current name
	persistent       guestDefinition
	undefined        bool             // the guest runs without a definition
	live             *guestDefinition // the running definition; nil: off
	verbatim         []string         // parts of the definition that no spec expresses
	power            fleet.Power
	startedAt        time.Time
	screen           *textScreen
	snapshotTree     *hypervisor.SnapTree // the VM's snapshot tree; nil: the VM never had a snapshot
	foreignSnapshots []string             // snapshots made outside Quantix
	foreignOverlays  []fleet.Overlay      // overlays made outside Quantix
	firmware         string               // content of UEFI variables and TPM state; empty: none

	balloon int // balloon size in MiB; 0: all memory

	reason        string                    // why the guest is off
	failingChecks map[fleet.HealthKind]bool // checks that the guest fails
	healthChanges int                       // number of changes of the screen or of expiries of the watchdog

	frozen    bool                 // the guest's file systems are frozen
	passwords map[string]string    // passwords by user
	programs  []fleet.GuestProgram // programs that were run in the guest
}

// guestDefinition is a definition: a spec, and the paths of its pools.
type guestDefinition struct {
	spec  fleet.VMSpec
	pools map[fleet.PoolID]string

	modules    []fleet.Module // hot-plugged memory modules
	startVCPUs int            // number of vCPUs at the guest's start
}

func (s guestDefinition) path(ref fleet.Volref) string {
	return path.Join(s.pools[ref.PoolID], ref.Volume)
}

func (s guestDefinition) disks() []string {
	var out []string
	for _, d := range s.spec.Disks {
		out = append(out, s.path(d.Ref()))
	}
	return out
}

// media returns the paths of the definition's read-only files, such as media in drives and a kernel.
func (s guestDefinition) media() []string {
	var out []string
	for _, m := range s.spec.Media() {
		out = append(out, s.path(m.Volref))
	}
	return out
}

func (g *guest) definedSpec() hypervisor.DefinedSpec {
	return hypervisor.DefinedSpec{Domain: g.name, Spec: g.persistent.spec}
}

func (g *guest) start(now time.Time) {
	if want := g.applied.PendingDomainName(g.name); want != "" {
		g.name = want
	}
	run := g.persistent
	run.startVCPUs = run.spec.CPUs
	g.live, g.power, g.startedAt = &run, fleet.Running, now.Truncate(time.Second)
	g.screen = newScreen(g.name, g.persistent)
	g.frozen, g.reason, g.balloon = false, "", 0
	if g.firmware == "" && g.persistent.spec.HasFirmwareState() {
		g.firmware = "made at " + now.String()
	}
}

// stop powers the guest off with libvirt's reason. It removes a guest without a definition.
func (h *Host) stop(g *guest, reason string) {
	if g.live == nil && g.power == fleet.Stopped {
		return
	}
	g.live, g.power, g.startedAt, g.reason, g.balloon = nil, fleet.Stopped, time.Time{}, reason, 0
	if g.screen != nil {
		g.screen.end()
		g.screen = nil
	}
	if g.undefined {
		delete(h.guests, g.id)
	}
}

func (g *guest) isRunning() bool { return g.live != nil }

// pendingFields lists the pending changes of the running guest.
func (g *guest) pendingFields() []string {
	if !g.isRunning() {
		return nil
	}
	var out []string
	if g.applied.PendingDomainName(g.name) != "" {
		out = append(out, "name")
	}
	for _, f := range fleet.VMFields {
		if !isInvisibleToGuest(&f) && !f.Same(g.live.spec, g.persistent.spec) {
			out = append(out, f.Name)
		}
	}
	return out
}

// isInvisibleToGuest reports whether the field is invisible to guests.
func isInvisibleToGuest(f *fleet.VMField) bool {
	return f.TakesEffect == fleet.WhenNow && f.Default != nil && f.Merge == nil // merged fields are devices
}

// usesFile reports whether the running or persistent definition uses the file.
func (g *guest) usesFile(path string) bool {
	return g.snapshotTree != nil && slices.Contains(g.snapshotTree.AllFiles(), path) || slices.Contains(g.persistent.disks(), path) || slices.Contains(g.persistent.media(), path) ||
		g.isRunning() && (slices.Contains(g.live.disks(), path) || slices.Contains(g.live.media(), path))
}

// sharesFile reports whether the domain uses the file only as a shareable disk.
func (g *guest) sharesFile(path string) bool {
	one := func(s guestDefinition) bool {
		for _, d := range s.spec.Disks {
			if s.path(d.Ref()) == path && !d.Shareable {
				return false
			}
		}
		return !slices.Contains(s.media(), path)
	}
	return one(g.persistent) && (!g.isRunning() || one(*g.live)) && (g.snapshotTree == nil || !slices.Contains(g.snapshotTree.AllFiles(), path))
}

// status returns the status as libvirt would report it. The caller holds h.mu.
func (h *Host) status(g *guest) fleet.VMStatus {
	now := g.persistent
	s := fleet.VMStatus{Power: g.power, Reason: g.reason, NextBoot: g.pendingFields(), Accelerator: h.inventory.Accelerators[0]}
	if g.isRunning() {
		now = *g.live
		started := g.startedAt
		s.StartedAt = &started
	}
	s.CPUs, s.MemoryMiB = now.spec.CPUs, now.spec.MemoryMiB
	if g.isRunning() {
		s.Launch = launchInfo(g)
		s.MaxMemory = now.spec.Memory.MaxMiB
		if n := now.spec.CPU.Max; n > s.CPUs {
			s.MaxCPUs = n
		}
		s.Modules, s.PendingUnplug = slices.Clone(now.modules), h.pendingUnplugs(g)
		if h.inventory.Accelerators[0] == "kvm" && now.startVCPUs < s.CPUs {
			s.MinCPUs = now.startVCPUs
		}
	}
	if g.managed {
		s.Faults, s.Drift = h.faults(g), g.applied.Drift(g.definedSpec())
		s.Snapshots = g.snapshotTree.ReportedTree(&g.applied.Spec, g.foreignSnapshots, g.foreignOverlays)
		if g.name != g.applied.Name {
			s.Domain = g.name
		}
		s.BalloonMiB = g.balloon
		s.Guest, s.Policy, s.Checks = g.agentStatus(), g.applied.Spec.Policy, slices.Clone(g.applied.Spec.Health)
	} else {
		s.Transient = g.undefined
	}
	for i, spec := range now.spec.Disks {
		ref := spec.Ref()
		d := fleet.DiskState{Target: diskTarget(i), Path: g.currentDiskFile(now, ref)}
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
		state.Filter = filterNameOfNIC(g.id, n)
		if g.isRunning() {
			ip, by := h.guestAddress(n)
			state.Addresses, state.Seen = []string{ip}, []fleet.SeenAddress{{IP: ip, By: by}}
		}
		s.NICs = append(s.NICs, state)
	}
	for _, n := range g.persistent.spec.NICs {
		if said := h.changedFilters[filterNameOfNIC(g.id, n)]; g.managed && said != "" {
			s.RecordFilterDrift(n.MAC, said)
		}
	}
	return s
}

// faults returns the faults of a VM. The caller holds h.mu.
func (h *Host) faults(g *guest) []fleet.Fault {
	var out []fleet.Fault
	for i, d := range g.applied.Spec.Disks {
		if !slices.ContainsFunc(g.persistent.spec.Disks, func(o fleet.Disk) bool { return o.Ref() == d.Ref() }) {
			continue
		}
		if why := h.missingVolumeReason(d.Ref(), g.applied.Pools); why != "" {
			out = append(out, hypervisor.MissingDiskFault(i+1, d.Ref(), g.applied.Pools[d.PoolID].Name, h.options.Name, why))
		}
	}
	if g.undefined {
		out = append(out, hypervisor.UndefinedDomainFault())
	}
	return out
}

// missingVolumeReason returns why a volume is missing. It is empty if the volume exists. The caller holds h.mu.
func (h *Host) missingVolumeReason(ref fleet.Volref, pools map[fleet.PoolID]hypervisor.AppliedPool) string {
	p := h.pools[pools[ref.PoolID].Name]
	if p == nil || p.dir == nil || p.stopped {
		return hypervisor.PoolInactiveReason
	}
	switch f, ok := p.dir.files[ref.Volume]; {
	case !ok:
		return hypervisor.FileMissingReason
	case f.linked:
		return hypervisor.FileReplacedReason
	}
	return ""
}

func diskTarget(i int) string { return "vd" + string(rune('a'+i)) }

// meter returns the guest's counters since its start. The load oscillates slowly around a mean, and counters never
// decrease.
func (g *guest) meter(now time.Time) wire.Meter {
	seed := hashText(string(g.id))
	seconds := now.Sub(g.startedAt).Seconds()
	mean := 0.03 + float64(seed%100)/250 // per vCPU
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

// load returns the simulated counters of the guest. Its operations have 16 KiB and take half a millisecond.
func (g *guest) load(now time.Time) hypervisor.VMLoad {
	m := g.meter(now)
	const operation, packet, duration = 16 << 10, 1 << 10, 500 * time.Microsecond
	out := hypervisor.VMLoad{
		Meter: m, Run: int32(g.startedAt.Unix()), VCPUs: g.live.spec.CPUs, StealNanos: m.CPUNanos / 100, //nolint:gosec // only compared
		AssignedBytes: int64(g.live.spec.MemoryMiB) << 20, GuestUsedBytes: m.MemoryBytes / 2, Reads: m.ReadBytes / operation, Writes: m.WriteBytes / operation,
	}
	if g.balloon > 0 {
		out.AssignedBytes = int64(g.balloon) << 20
	}
	out.ReadNanos, out.WriteNanos = out.Reads*int64(duration), out.Writes*int64(duration)
	out.Disks = []hypervisor.DiskLoad{{Name: "vda", ReadBytes: out.ReadBytes, WriteBytes: out.WriteBytes, Reads: out.Reads, Writes: out.Writes, ReadNanos: out.ReadNanos, WriteNanos: out.WriteNanos}}
	out.NICs = []hypervisor.NICLoad{{ReceiveBytes: out.ReceiveBytes, SendBytes: out.SendBytes, ReceivePackets: out.ReceiveBytes / packet, SendPackets: out.SendBytes / packet}}
	return out
}

// cpuLoad returns the fraction of one hardware thread that the guest currently uses.
func (g *guest) cpuLoad(now time.Time) float64 {
	if g.power != fleet.Running {
		return 0
	}
	return float64(g.meter(now).CPUNanos-g.meter(now.Add(-time.Second)).CPUNanos) / 1e9
}
