package load

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/metric"
	"quantix/internal/wire"
)

// host is a simulated hypervisor, which completes each job at once.
type host struct {
	name string

	mu     sync.Mutex
	vms    map[fleet.VMID]*guest
	order  []fleet.VMID // keys of vms, in the order for reports
	pools  []fleet.Pool
	digest string // digest of the reported state; empty: the state has changed since
	fresh  int64  // number of changes of VMs since the last full report
	began  time.Time

	sampler    *Sampler
	lastSample time.Time
}

type guest struct {
	report wire.VMReport
	mark   string
	cpus   int64
	born   time.Time
}

func newHost(name string) *host {
	return &host{name: name, vms: map[fleet.VMID]*guest{}, began: time.Now(), sampler: NewSampler(name)}
}

// addVM adds a VM that the portal has placed on this host.
func (h *host) addVM(vm fleet.VM) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.ensureGuest(vm)
	if vm.Status != nil {
		g.report.Status = *vm.Status
	}
	g.report.Generation = max(vm.ObservedGeneration, 1)
}

// ensureGuest returns the VM's guest. If it is missing, ensureGuest creates a stopped guest.
func (h *host) ensureGuest(vm fleet.VM) *guest {
	h.digest = ""
	g, ok := h.vms[vm.ID]
	if !ok {
		g = &guest{born: time.Now()}
		g.report.Status.Power = fleet.Stopped
		h.vms[vm.ID], h.order = g, append(h.order, vm.ID)
	}
	g.report.ID, g.report.Name, g.cpus = vm.ID, vm.Name, int64(vm.Spec.CPUs)
	return g
}

// runJob carries out a job and returns its result.
func (h *host) runJob(w wire.Work) wire.Finish {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := wire.Finish{Epoch: w.Epoch, Generation: w.Generation, Outcome: wire.Done}
	h.digest = ""
	switch {
	case w.Kind == fleet.ConsoleOpen:
		out.Generation, out.Outcome, out.Error = 0, wire.Failed, "A host of a load has no screens."
	case w.Pool != nil:
		h.runPoolJob(w, &out)
	case w.VM == nil:
		out.Outcome, out.Error = wire.Failed, "A host of a load does not know this work."
	case w.Kind == fleet.VMDelete:
		delete(h.vms, w.VM.ID)
		h.order = slices.DeleteFunc(h.order, func(id fleet.VMID) bool { return id == w.VM.ID })
		out.VM = &fleet.VMStatus{Power: fleet.Absent}
	default:
		g := h.ensureGuest(*w.VM)
		g.apply(w)
		status := g.report.Status
		out.VM = &status
	}
	return out
}

func (h *host) runPoolJob(w wire.Work, out *wire.Finish) {
	h.pools = slices.DeleteFunc(h.pools, func(p fleet.Pool) bool { return p.ID == w.Pool.ID })
	if w.Kind != fleet.PoolRelease {
		h.pools = append(h.pools, *w.Pool)
		status := poolStatus(*w.Pool)
		out.Pool = &status
	}
}

// apply applies the VM spec in the job to the guest.
func (g *guest) apply(w wire.Work) {
	s, spec := &g.report.Status, w.VM.Spec
	g.report.Generation, g.mark = max(w.Generation, g.report.Generation), cmp.Or(w.Mark, g.mark)
	s.CPUs, s.MemoryMiB = spec.CPUs, spec.MemoryMiB
	if to := w.Kind.Info().Power; to != "" {
		s.Power = to
	}
	s.Disks = make([]fleet.DiskState, len(spec.Disks))
	for i, d := range spec.Disks {
		ref := d.Ref()
		s.Disks[i] = fleet.DiskState{
			Target: "vd" + string(rune('a'+i)), Path: "/srv/" + string(d.PoolID) + "/" + d.Volume, SizeBytes: d.SizeBytes, AllocBytes: d.SizeBytes / 8, Volume: &ref,
		}
	}
	known := s.NICs
	s.NICs = make([]fleet.NICState, len(spec.NICs))
	for i, n := range spec.NICs {
		s.NICs[i] = fleet.NICState{MAC: n.MAC, Source: "network default"}
		if s.Power != fleet.Running {
			continue
		}
		if s.NICs[i].Addresses = []string{randomAddress()}; i < len(known) && len(known[i].Addresses) > 0 {
			s.NICs[i].Addresses = known[i].Addresses
		}
	}
	s.Accelerator = ""
	if s.Power == fleet.Running {
		s.Accelerator = "kvm"
	}
}

func randomAddress() string {
	return fmt.Sprintf("10.%d.%d.%d", rand.IntN(256), rand.IntN(256), 1+rand.IntN(254))
}

// changeGuestAddress gives a running guest another IP address, as a DHCP server would; the spec does not change. It returns
// false if no running guest has a NIC.
func (h *host) changeGuestAddress() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.order) == 0 {
		return false
	}
	at := rand.IntN(len(h.order))
	for i := range h.order {
		s := &h.vms[h.order[(at+i)%len(h.order)]].report.Status
		if s.Power == fleet.Running && len(s.NICs) > 0 {
			s.NICs = slices.Clone(s.NICs) // a report may still read the old slice
			s.NICs[0].Addresses = []string{randomAddress()}
			h.digest = ""
			h.fresh++
			return true
		}
	}
	return false
}

// applyAnswer applies the portal's answer to a report. It returns true if the host now has something new to report.
func (h *host) applyAnswer(a wire.ReportAnswer) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	same := slices.EqualFunc(a.Pools, h.pools, func(x, y fleet.Pool) bool { return x.ID == y.ID })
	if !same {
		h.pools = a.Pools
	}
	for id, mark := range a.Marks {
		if g, ok := h.vms[id]; ok {
			g.mark = mark
		}
	}
	if same && len(a.Marks) == 0 {
		return false
	}
	h.digest = ""
	return true
}

// state returns the host's full state and its digest. If the digest is known, the portal has this state already, and
// state is nil. fresh is the number of changes of VMs since the last full report.
func (h *host) state(known string) (state *wire.State, digest string, fresh int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.digest != "" && h.digest == known {
		return nil, h.digest, 0
	}
	state = h.buildState()
	text, err := json.Marshal(state)
	if err != nil {
		panic(err) // the types are our own and always encode
	}
	sum := sha256.Sum256(text)
	h.digest, fresh, h.fresh = hex.EncodeToString(sum[:]), h.fresh, 0
	return state, h.digest, fresh
}

func (h *host) buildState() *wire.State {
	s := &wire.State{
		Host: h.status(), VMs: make([]wire.VMReport, len(h.order)), Discovered: []fleet.DiscoveredVM{}, Pools: make([]wire.PoolReport, len(h.pools)),
		Networks: []wire.NetworkReport{{Name: "default", Kind: fleet.NetworkLibvirt, Status: fleet.NetworkStatus{Active: true, Autostart: true, Bridge: "virbr0", Forward: "nat", Subnets: []string{"10.0.0.0/8"}}}},
	}
	for i, id := range h.order {
		g := h.vms[id]
		s.VMs[i] = g.report
		s.VMs[i].Proof = wire.OwnershipProof(id, g.mark)
	}
	for i, p := range h.pools {
		s.Pools[i] = wire.PoolReport{ID: p.ID, Name: p.Name, Status: poolStatus(p)}
	}
	return s
}

func (h *host) status() fleet.HostStatus {
	return fleet.HostStatus{AgentVersion: "load", Hypervisor: "libvirt 9.0.0, QEMU 7.2.0", Connected: true, Inventory: fleet.Inventory{
		Hostname: h.name, OS: "Debian GNU/Linux 12", Kernel: "6.1.0", Arch: "x86_64", BootID: h.name,
		CPU: fleet.CPU{Model: "simulated", Vendor: "load", Sockets: 2, Cores: 64, Threads: 128}, MemoryBytes: 8 << 40,
		NICs:         []fleet.HostNIC{{Name: "eth0", Kind: "physical", Up: true, SpeedMbps: 25000, MTU: 1500}},
		Disks:        []fleet.HostDisk{{Name: "nvme0n1", Kind: "nvme", SizeBytes: 4 << 40}},
		Accelerators: []string{"kvm"}, Firmwares: []fleet.Firmware{fleet.BIOS, fleet.UEFI}, VMFields: fleet.OptionalFieldNames(), MigratesLive: true, ReceivesFirmware: true, ReceivesDefinitions: true,
	}}
}

func poolStatus(p fleet.Pool) fleet.PoolStatus {
	return fleet.PoolStatus{State: fleet.PoolActive, CapacityBytes: 1 << 50, AvailableBytes: 1 << 50, MountPath: p.Spec.Path}
}

// meters returns the load of each running guest, and the load of the host.
func (h *host) meters() ([]wire.Meter, *wire.HostMeter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	up := time.Since(h.began)
	out := make([]wire.Meter, 0, len(h.order))
	for _, id := range h.order {
		if g := h.vms[id]; g.report.Status.Power == fleet.Running {
			n := int64(up / time.Millisecond)
			out = append(out, wire.Meter{
				ID: id, CPUNanos: int64(up) * g.cpus / 4, MemoryBytes: int64(g.report.Status.MemoryMiB) << 20, ReadBytes: n * 900, WriteBytes: n * 1300, ReceiveBytes: n * 400, SendBytes: n * 700,
			})
		}
	}
	return out, &wire.HostMeter{CPUPercent: 20 + 10*rand.Float64(), MemoryUsed: 64 << 30, MemoryTotal: 8 << 40}
}

// samples returns the metric values of the host, its running guests and its pools since the previous samples.
func (h *host) samples() *metric.Samples {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	since := now.Sub(h.lastSample)
	if h.lastSample.IsZero() {
		since = wire.ReportPeriod
	}
	h.lastSample = now
	var vms []SampledVM
	for _, id := range h.order {
		if s := h.vms[id].report.Status; s.Power == fleet.Running {
			vms = append(vms, SampledVM{string(id), int64(s.MemoryMiB) << 20})
		}
	}
	pools := make([]string, len(h.pools))
	for i, p := range h.pools {
		pools[i] = string(p.ID)
	}
	out := h.sampler.Samples(now, since.Seconds(), vms, pools)
	return &out
}

// firstAddress returns a VM's first IP address, or "".
func (h *host) firstAddress(id fleet.VMID) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if g, ok := h.vms[id]; ok && len(g.report.Status.NICs) > 0 && len(g.report.Status.NICs[0].Addresses) > 0 {
		return g.report.Status.NICs[0].Addresses[0]
	}
	return ""
}

// runningGuests counts the running guests.
func (h *host) runningGuests() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range h.vms {
		if g.report.Status.Power == fleet.Running {
			n++
		}
	}
	return n
}

func (h *host) hasVM(id fleet.VMID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.vms[id]
	return ok
}
