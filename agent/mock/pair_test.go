package mock

import (
	"fmt"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/agent/hypervisor/conformance"
	"quantix/internal/fleet"
)

func TestTwoHostConformance(t *testing.T) {
	t.Parallel()
	storage := NewStorage()
	hosts := [2]*Host{New(Options{Name: "mock-1", SharedStorage: storage}), New(Options{Name: "mock-2", SharedStorage: storage})}
	p := conformance.HostPair{Migrate: func(t *testing.T, id fleet.VMID, from, to int, leave bool) {
		t.Helper()
		hosts[from].migrate(t, hosts[to], id, leave)
	}}
	p.Firmware = func(_ *testing.T, id fleet.VMID, host int) string { return hosts[host].firmwareOf(id) }
	p.ChangeFirmware = func(_ *testing.T, id fleet.VMID, host int) {
		hosts[host].mu.Lock()
		defer hosts[host].mu.Unlock()
		hosts[host].guests[id].firmware += "."
	}
	p.HasReceivedFirmware = func(id fleet.VMID, host int) bool {
		hosts[host].mu.Lock()
		defer hosts[host].mu.Unlock()
		_, has := hosts[host].receivedFirmware[id]
		return has
	}
	p.DefineAdoptable = func(_ *testing.T, d conformance.AdoptableDomain) fleet.VMID {
		id := hosts[0].AddUnmanagedVM(d.Name, []string{d.Disk}, []string{"sound"})
		hosts[0].mu.Lock()
		defer hosts[0].mu.Unlock()
		hosts[0].stop(hosts[0].guests[id], "shut down")
		return id
	}
	p.PersistentDefinition = func(_ *testing.T, id fleet.VMID, host int) string {
		hosts[host].mu.Lock()
		defer hosts[host].mu.Unlock()
		g := hosts[host].guests[id]
		return fmt.Sprintf("%s %+v %q", g.name, g.persistent, g.verbatim)
	}
	for i, h := range hosts {
		p.Hosts[i] = conformance.Harness{
			Open:      func(*testing.T) hypervisor.Hypervisor { return h },
			PoolPath:  func(*testing.T) string { return "/srv/" + string(fleet.NewID[fleet.PoolID]()) },
			PowerOf:   func(_ *testing.T, id fleet.VMID) fleet.Power { return h.powerOf(id) },
			WriteDisk: h.writeDisk, ReadDisk: h.readDisk, UndefineVM: h.undefine,
		}
	}
	conformance.RunTwoHosts(t, p)
}

// migrate moves a running guest to a host with the same storage, like virsh migrate --persistent.
func (h *Host) migrate(t *testing.T, to *Host, id fleet.VMID, leave bool) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	g, ok := h.guests[id]
	if !ok || !g.isRunning() || to.guests[id] != nil && to.guests[id].isRunning() {
		t.Fatalf("%s cannot migrate %s to %s", h.options.Name, id, to.options.Name)
	}
	for _, file := range g.live.disks() {
		if v := h.volumeAt(file); v == nil || v != to.volumeAt(file) {
			t.Fatalf("%s does not reach %s", to.options.Name, file)
		}
	}
	run, there := *g.live, *g
	there.live = &run
	to.guests[id] = &there
	g.screen = nil // the screen moves with the guest
	h.stop(g, "forced off")
	if !leave {
		delete(h.guests, id)
	}
	h.notify()
	to.notify()
}

func (h *Host) writeDisk(_ *testing.T, at string, b byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fileAt(at).bytes = string(b)
}

func (h *Host) readDisk(_ *testing.T, at string) byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	for f := h.fileAt(at); f != nil; f = h.fileAt(f.Backing) {
		if f.bytes != "" {
			return f.bytes[0]
		}
	}
	return 0
}

// undefine removes the VM's definition, like virsh undefine. A running guest continues.
func (h *Host) undefine(_ *testing.T, id fleet.VMID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if g := h.guests[id]; g.isRunning() {
		g.undefined = true
	} else {
		delete(h.guests, id)
	}
	h.notify()
}
