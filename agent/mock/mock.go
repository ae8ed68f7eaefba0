// Package mock is a simulated host in memory. It behaves like a real host, but runs no guests. The demo, tests and load
// runs use it. Words in a VM's name make the VM misbehave: "fail-create", "fail-start", "hang-start", "no-shutdown" and
// "no-agent". The NFS servers "refused…" and "hang.example", and "no-dnsmasq" in a network's name, cause faults, too.
package mock

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	"quantix/agent/hypervisor"
	"quantix/agent/pooldir"
	"quantix/internal/fleet"
	"quantix/internal/secgroup"
	"quantix/internal/wire"
)

// These words in a VM's name make the VM misbehave.
const (
	FailCreate       = "fail-create" // the VM's disks cannot be created
	FailStart        = "fail-start"  // QEMU exits immediately
	HangOnStart      = "hang-start"  // a start never ends; also for networks
	NoShutdown       = "no-shutdown" // the guest ignores the request to power off
	NoAgent          = "no-agent"    // the guest agent does not answer
	NoExec           = "no-exec"     // the guest agent runs no programs
	FailHealthChecks = "sick"        // the guest fails its health checks
)

// Options describe a simulated host.
type Options struct {
	Name         string        // host name and seed of the simulated hardware
	Delay        time.Duration // duration of a slow step, such as a start, a shutdown or a copy; 0: none
	UnmanagedVMs []string      // names of running domains without Quantix metadata
	// UnmanagedPools and UnmanagedNetworks are pools and networks that the host has before Quantix, by name.
	UnmanagedPools    map[string]fleet.PoolSpec
	UnmanagedNetworks map[string]fleet.NetworkSpec
	Images            []fleet.Volume    // initial volumes of a new pool; the pool sets Path
	SharedStorage     *Storage          // storage shared by several hosts; nil: local storage only
	Roots             pooldir.PoolRoots // allowed directories of pools; empty: /srv and /mnt
}

// Host is a simulated host. It implements hypervisor.Hypervisor. Its guests continue after Close.
type Host struct {
	options   Options
	inventory fleet.Inventory

	mu                 *sync.Mutex // the lock of the shared storage, which all hosts with that storage share
	guests             map[fleet.VMID]*guest
	pools              map[string]*pool
	secrets            map[fleet.PoolID]string
	seeds              map[fleet.VMID]map[fleet.VMFirstBoot]map[string][]byte // first-boot data
	networks           map[string]*network                                    // networks by name, without the fixed ones
	securityGroups     map[fleet.SecurityGroupID]secgroup.FlatGroup
	changedFilters     map[string]string // network filters changed outside Quantix, with the fault's text
	virtualFunctions   map[string]int    // enabled virtual functions by device
	localStorage       *Storage
	wakeUps            map[chan struct{}]bool
	uploads            map[fleet.UploadID]*receivedUpload
	devicesWithoutLink map[string]bool    // devices without a link
	removedDevices     map[string]bool    // devices that an administrator removed
	unreachable        bool               // libvirtd is unreachable
	snapshotReads      map[fleet.VMID]int // number of running copies from snapshots, by VM
	receivedFirmware   map[fleet.VMID]receivedFirmware
	thawed             chan struct{} // if not nil, libvirtd does not answer until the channel closes
}

var _ hypervisor.Hypervisor = (*Host)(nil)

// New creates a simulated host.
func New(o Options) *Host {
	if o.SharedStorage == nil {
		o.SharedStorage = NewStorage()
	}
	if o.Roots.Allowed == nil {
		o.Roots.Allowed = []string{"/srv", "/mnt"}
	}
	h := &Host{
		options: o, inventory: simulatedInventory(o.Name), mu: &o.SharedStorage.mu,
		guests: map[fleet.VMID]*guest{}, pools: map[string]*pool{}, networks: map[string]*network{}, securityGroups: map[fleet.SecurityGroupID]secgroup.FlatGroup{}, changedFilters: map[string]string{},
		localStorage: NewStorage(), wakeUps: map[chan struct{}]bool{}, uploads: map[fleet.UploadID]*receivedUpload{},
	}
	h.virtualFunctions, h.snapshotReads = map[string]int{}, map[fleet.VMID]int{}
	h.receivedFirmware = map[fleet.VMID]receivedFirmware{}
	for _, nic := range h.inventory.NICs {
		h.virtualFunctions[nic.Name] = nic.VFs
	}
	h.mu.Lock()
	o.SharedStorage.hosts = append(o.SharedStorage.hosts, h)
	h.mu.Unlock()
	for _, name := range o.UnmanagedVMs {
		h.addUnmanaged(name)
	}
	for name, spec := range o.UnmanagedPools {
		h.DefinePool(name, spec)
	}
	for name, spec := range o.UnmanagedNetworks {
		h.DefineNetwork(name, spec)
	}
	return h
}

// addUnmanaged adds a running domain without Quantix metadata.
func (h *Host) addUnmanaged(name string) fleet.VMID {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := &guest{id: stableID(h.options.Name + "/" + name), name: name, power: fleet.Stopped}
	g.persistent.spec = fleet.VMSpec{CPUs: 2, MemoryMiB: 2048, NICs: []fleet.NIC{{Network: "default", MAC: stableMAC(name)}}}
	g.start(time.Now())
	h.guests[g.id] = g
	h.notify()
	return g.id
}

// DisconnectLibvirt makes libvirtd unreachable until the caller calls plug. The guests continue.
func (h *Host) DisconnectLibvirt() (plug func()) {
	h.setUnreachable(true)
	return func() { h.setUnreachable(false) }
}

func (h *Host) setUnreachable(gone bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unreachable = gone
	h.notify()
}

// FreezeLibvirt makes libvirtd accept calls without answering until the caller calls thaw.
func (h *Host) FreezeLibvirt() (thaw func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	frozen := make(chan struct{})
	h.thawed = frozen
	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.thawed = nil
		close(frozen)
		h.notify()
	})
}

var errLibvirtUnreachable = hypervisor.WrapUnreachable(errors.New("failed to connect socket to '/run/libvirt/libvirt-sock': Connection refused"))

// simulateCall simulates one call to libvirtd, which takes time and may fail.
func (h *Host) simulateCall(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	h.mu.Lock()
	gone, frozen := h.unreachable, h.thawed
	h.mu.Unlock()
	if frozen != nil {
		select {
		case <-frozen:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if gone {
		return errLibvirtUnreachable
	}
	return nil
}

// waitDelay waits for the given fraction of Delay.
func (h *Host) waitDelay(ctx context.Context, parts float64) error {
	d := time.Duration(parts * float64(h.options.Delay))
	if d == 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// WatchChanges implements hypervisor.Telemetry.
func (h *Host) WatchChanges(ctx context.Context) <-chan struct{} {
	ch := make(chan struct{}, 1)
	h.mu.Lock()
	h.wakeUps[ch] = true
	h.mu.Unlock()
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		delete(h.wakeUps, ch)
		h.mu.Unlock()
	})
	return ch
}

// notify wakes all listeners. The caller holds h.mu.
func (h *Host) notify() {
	for ch := range h.wakeUps {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// HostState implements hypervisor.Telemetry.
func (h *Host) HostState(ctx context.Context, on hypervisor.Assignment) (wire.State, error) {
	err := h.simulateCall(ctx)
	if err != nil && !errors.Is(err, errLibvirtUnreachable) {
		return wire.State{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := wire.State{
		Host: fleet.HostStatus{Hypervisor: "Simulation of libvirt 9.0.0, QEMU 7.2.22", Connected: err == nil},
		VMs:  []wire.VMReport{}, Discovered: []fleet.DiscoveredVM{}, Networks: h.reportNetworks(on.Networks),
	}
	if err != nil {
		s.Host.Error = err.Error()
	}
	s.Host.Inventory.Accelerators = slices.Clone(h.inventory.Accelerators)
	s.Host.Inventory.Firmwares = slices.Clone(h.inventory.Firmwares)
	s.Host.Inventory.VMGaps = slices.Clone(h.inventory.VMGaps)
	s.Host.Inventory.CPUModels, s.Host.Inventory.CPUModelGaps = slices.Clone(h.inventory.CPUModels), slices.Clone(h.inventory.CPUModelGaps)
	for _, g := range h.guests {
		if g.managed {
			s.VMs = append(s.VMs, wire.VMReport{
				ID: g.id, Name: g.name, Generation: g.generation, Status: h.status(g), Proof: wire.OwnershipProof(g.id, g.ownershipMark), Stamped: g.generation, SpecHash: g.applied.SpecHash,
			})
		} else {
			s.Discovered = append(s.Discovered, fleet.DiscoveredVM{ID: g.id, Name: g.name, Status: h.status(g)})
		}
	}
	s.Groups = h.reportChangedSecurityGroups()
	s.Pools, s.Host.DiscoveredPools = h.reportPools(on.Pools, on.Checksums)
	return s, nil
}

// fixedNetworks returns the networks that every simulated host has.
func fixedNetworks() []wire.NetworkReport {
	return []wire.NetworkReport{
		{ID: fixedNetwork, Name: "default", Kind: fleet.NetworkLibvirt, Status: fleet.NetworkStatus{
			Active: true, Autostart: true, Bridge: "virbr0", Forward: "nat", Subnets: []string{"192.168.122.0/24"},
		}},
		{Name: "br0", Kind: fleet.NetworkBridge, Status: fleet.NetworkStatus{Active: true, Subnets: []string{"10.20.0.0/16"}}},
	}
}

const fixedNetwork = fleet.NetworkID("00000000-0000-4000-8000-00000000aaaa")

// Close implements hypervisor.Hypervisor. The simulated host continues.
func (h *Host) Close() error { return nil }

// findManaged returns the managed VM with the ID. It refuses an unmanaged domain. The caller holds h.mu.
func (h *Host) findManaged(id fleet.VMID) (*guest, error) {
	g, ok := h.guests[id]
	switch {
	case !ok:
		return nil, errNoDomain(id)
	case !g.managed:
		return nil, errUnmanaged()
	}
	return g, nil
}

func errNoDomain(id fleet.VMID) error {
	return fmt.Errorf("Domain not found: no domain with matching uuid '%s'", id)
}

func errUnmanaged() error {
	return fleet.Errorf(fleet.Conflict, "The domain with this UUID was not created by Quantix, so Quantix does not change the domain.")
}

// nameContains reports whether the VM's name contains the word.
func nameContains(name, word string) bool { return strings.Contains(name, word) }

func hashText(s string) uint64 {
	f := fnv.New64a()
	f.Write([]byte(s))
	return f.Sum64()
}

// stableID returns a VM ID derived from the name.
func stableID(name string) fleet.VMID {
	a, b := hashText(name), hashText("2/"+name)
	return fleet.VMID(fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", uint32(a), uint16(a>>32), uint16(a>>48)&0xfff, uint16(b)&0xfff, b>>16))
}

func stableMAC(name string) string {
	a := hashText(name)
	return fmt.Sprintf("52:54:00:%02x:%02x:%02x", byte(a), byte(a>>8), byte(a>>16))
}
