package mock

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/agent/hypervisor/conformance"
	"quantix/agent/image"
	"quantix/agent/pooldir"
	"quantix/internal/fleet"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	h := New(Options{Name: "mock-1"})
	conformance.Run(t, conformance.Harness{
		InterruptsJobs: true,
		Open:           func(*testing.T) hypervisor.Hypervisor { return h },
		PoolPath:       func(*testing.T) string { return "/srv/" + string(fleet.NewID[fleet.PoolID]()) },
		FailingPool: func(*testing.T) (fleet.PoolSpec, string) {
			return fleet.PoolSpec{Kind: fleet.PoolNFS, Path: "/mnt/bad", Server: "refused.example", Export: "/vm", Shared: true}, "Connection refused"
		},
		ForbiddenPoolPath: "/var/lib/quantix",
		ReplacePoolDir: func(_ *testing.T, p fleet.Pool, how conformance.PoolDirReplacement) func() {
			return h.replacePoolDir(p, how)
		},
		EditFilter:     func(_ *testing.T, name string) { h.editFilter(name, false) },
		UndefineFilter: func(_ *testing.T, name string) { h.editFilter(name, true) },
		AddImage:       func(_ *testing.T, p fleet.Pool, img conformance.Image) { h.addImage(p, img) },
		UnusedDisk: func(*testing.T) (string, func() func()) {
			device := fleet.PhysicalDevice + "nvme-" + string(fleet.NewID[fleet.VMID]())
			set := func(busy string) {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.inventory.Devices = slices.DeleteFunc(slices.Clone(h.inventory.Devices), func(d fleet.HostDevice) bool { return d.Device == device })
				h.inventory.Devices = append(h.inventory.Devices, fleet.HostDevice{Device: device, SizeBytes: 1 << 30, HostUse: busy})
			}
			set("")
			return device, func() func() {
				set("mounted at /mnt")
				return func() { set("") }
			}
		},
		AddOverlay: func(_ *testing.T, p fleet.Pool, name, base string) {
			h.addImage(p, conformance.Image{Name: name, Kind: conformance.Qcow2})
			h.mu.Lock()
			defer h.mu.Unlock()
			h.pools[p.Name].dir.files[name].Backing = path.Join(p.Spec.Path, base)
		},
		ServeFile: func(_ *testing.T, what conformance.RemoteFile) (url, checksum string) {
			at := map[conformance.RemoteFile]string{conformance.RemoteWebPage: FetchPage, conformance.RemoteWrongChecksum: FetchWrongChecksum, conformance.RemoteNoServer: FetchRefused, conformance.RemoteStalled: FetchSlow}
			if sums, ok := map[conformance.RemoteFile]string{conformance.RemoteWithChecksumFile: "example.org", conformance.RemoteChecksumMissing: FetchChecksumMissing, conformance.RemoteFileMissing: FetchRefused}[what]; ok {
				return "https://example.org/image", "https://" + sums + "/SHA256SUMS"
			}
			return "https://" + cmp.Or(at[what], "example.org") + "/image", strings.Repeat("ab", 32)
		},
		DefineUnmanagedPool: func(_ *testing.T, name, path string) {
			h.DefinePool(name, fleet.PoolSpec{Kind: fleet.PoolDir, Path: path})
		},
		PoolDefinition: func(t *testing.T, name string) string {
			spec, ok := h.PoolDefinition(name)
			if !ok {
				t.Errorf("the host has no pool %s", name)
			}
			return fmt.Sprintf("%+v", spec)
		},
		NetworkDefinition: func(t *testing.T, name string) string {
			text, err := json.Marshal(h.NetworkDefinition(name))
			if err != nil {
				t.Error(err)
			}
			return string(text)
		},
		DefineUnmanagedVM: func(_ *testing.T, name string) fleet.VMID { return h.addUnmanaged(name) },
		DefineAdoptableVM: func(t *testing.T, name, disk, _ string) fleet.VMID {
			id := h.AddUnmanagedVM(name, []string{disk}, []string{"devices/sound: <sound model='ich9'>"})
			t.Cleanup(func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				delete(h.guests, id)
			})
			return id
		},
		DefinitionsOf: func(_ *testing.T, id fleet.VMID) (out []string) {
			h.mu.Lock()
			defer h.mu.Unlock()
			for _, def := range []*guestDefinition{&h.guests[id].persistent, h.guests[id].live} {
				if def != nil {
					out = append(out, fmt.Sprint(def.spec.CPUs, def.spec.MemoryMiB, def.disks(), def.spec.NICs))
				}
			}
			return out
		},
		PowerOf: func(_ *testing.T, id fleet.VMID) fleet.Power { return h.powerOf(id) },
		PowerOff: func(t *testing.T, id fleet.VMID) {
			h.mu.Lock()
			run := h.guests[id].live
			h.mu.Unlock()
			h.powerOff(id, run, "forced off")
		},
		EditVM: func(_ *testing.T, id fleet.VMID, c conformance.VMEdit) { h.editVM(id, c) },
		SaveDefinition: func(_ *testing.T, id fleet.VMID) func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			kept := *h.guests[id]
			return func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				*h.guests[id] = kept
			}
		},
		UndefineVM: h.undefine,
		HideVolume: func(_ *testing.T, p fleet.Pool, volume string) func() { return h.hideVolume(p, volume) },
		LinkVolume: func(_ *testing.T, p fleet.Pool, volume string) func() {
			set := func(linked bool) {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.pools[p.Name].dir.files[volume].linked = linked
			}
			set(true)
			return func() { set(false) }
		},
		DeleteVolume: func(_ *testing.T, p fleet.Pool, volume string) { h.hideVolume(p, volume) },
		WriteKeepingTime: func(_ *testing.T, p fleet.Pool, volume string) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.pools[p.Name].dir.files[volume].externalChanges++
		},
		WriteQcow2Header: func(_ *testing.T, p fleet.Pool, volume, _ string) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.pools[p.Name].dir.files[volume].contentFormat = "qcow2"
		},
		WriteDisk: h.writeDisk, ReadDisk: h.readDisk,
		CheckDisk: func(t *testing.T, at string) {
			h.mu.Lock()
			defer h.mu.Unlock()
			for ; at != ""; at = h.fileAt(at).Backing {
				if h.fileAt(at) == nil {
					t.Fatalf("%s is missing", at)
				}
			}
		},
		TakeUnmanagedSnapshot: func(_ *testing.T, id fleet.VMID, name string) func() {
			set := func(names []string) {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.guests[id].foreignSnapshots = names
			}
			set([]string{name})
			return func() { set(nil) }
		},
		CreateUnmanagedOverlay: func(_ *testing.T, p fleet.Pool, vm fleet.VM, name string) {
			h.mu.Lock()
			defer h.mu.Unlock()
			g := h.guests[vm.ID]
			h.addFile(path.Join(p.Spec.Path, name), "qcow2", g.currentDiskFile(g.persistent, vm.Spec.Disks[0].Ref()), 0)
			g.foreignOverlays = []fleet.Overlay{{Disk: vm.Spec.Disks[0].Ref(), File: name}}
		},
		StopPool:    func(_ *testing.T, p fleet.Pool) { h.stopPool(p) },
		StopNetwork: func(_ *testing.T, name string) { h.StopNetwork(name) }, UndefineNetwork: func(_ *testing.T, name string) { h.UndefineNetwork(name) },
		EditNetwork: func(_ *testing.T, name string) {
			h.EditNetwork(name, func(s *fleet.NetworkSpec) {
				subnet, dhcp := *s.IPv4, fleet.DHCP{}
				if subnet.DHCP != nil {
					dhcp = *subnet.DHCP
				}
				address := subnet.Prefix().Addr().As4()
				address[3] = 200
				dhcp.Leases = append(slices.Clone(dhcp.Leases), fleet.StaticLease{MAC: "52:54:00:00:00:aa", IP: netip.AddrFrom4(address).String(), Name: "theirs"})
				subnet.DHCP, s.IPv4 = &dhcp, &subnet
			})
		},
		EditPool:               func(_ *testing.T, name, path string) { h.EditPool(name, path) },
		Reservations:           func(_ *testing.T, name string) []string { return h.Reservations(name) },
		DropReservations:       func(_ *testing.T, name string) { h.DropReservations(name) },
		PortGroups:             func(_ *testing.T, name string) []string { return h.PortGroups(name) },
		KillDnsmasq:            func(_ *testing.T, name string) { h.StopDnsmasq(name) },
		DefineUnmanagedNetwork: func(_ *testing.T, name string) { h.DefineNetwork(name, fleet.NetworkSpec{Mode: fleet.NetworkIsolated}) },
		AddBootableVolume: func(_ *testing.T, p fleet.Pool, name string) {
			h.addImage(p, conformance.Image{Name: name, Kind: conformance.Qcow2, SizeBytes: 64 << 20})
		},
		PrepareGuest:  func(*testing.T, fleet.VMID) {},
		IsGuestFrozen: func(_ *testing.T, id fleet.VMID) bool { return h.GuestFrozen(id) },
		GuestHasPassword: func(_ *testing.T, id fleet.VMID, user, password string) bool {
			return h.GuestPassword(id, user) == password
		},
		FirstBootData: func(_ *testing.T, id fleet.VMID) []map[string]string {
			var out []map[string]string
			for _, files := range h.Seeds(id) {
				texts := map[string]string{}
				for name, data := range files {
					texts[name] = string(data)
				}
				out = append(out, texts)
			}
			return out
		},
		DeleteFirstBootData:  func(_ *testing.T, id fleet.VMID) { h.dropSeeds(id) },
		ActiveNetwork:        "default",
		UnusedNetworkDevice:  func(*testing.T) string { return "ens1f0np0" },
		DisconnectHypervisor: func(*testing.T) func() { return h.DisconnectLibvirt() },
		FreezeHypervisor:     func(*testing.T) func() { return h.FreezeLibvirt() },
	})
}

func (h *Host) replacePoolDir(p fleet.Pool, how conformance.PoolDirReplacement) (back func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	dir := h.pools[p.Name].dir
	dir.misplaced = map[conformance.PoolDirReplacement]*pooldir.DirReading{
		conformance.PoolDirMoved: {}, conformance.PoolDirEmptied: {Exists: true, Mount: ownMount},
		conformance.PoolDirCovered: {Exists: true, Mount: pooldir.Mount{Point: p.Spec.Path, Type: "tmpfs", Source: "tmpfs"}},
	}[how]
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		dir.misplaced = nil
	}
}

func (h *Host) dropSeeds(id fleet.VMID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.seeds, id)
}

func (h *Host) stopPool(p fleet.Pool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pools[p.Name].stopped = true
}

// editVM applies an administrator's change, like virsh.
func (h *Host) editVM(id fleet.VMID, c conformance.VMEdit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.guests[id]
	g.name, g.persistent.spec.CPUs, g.persistent.spec.MemoryMiB = cmp.Or(c.Name, g.name), cmp.Or(c.CPUs, g.persistent.spec.CPUs), cmp.Or(c.MemoryMiB, g.persistent.spec.MemoryMiB)
	if c.DetachDisk != "" {
		i := int(c.DetachDisk[2] - 'a')
		g.persistent.spec.Disks = slices.Delete(slices.Clone(g.persistent.spec.Disks), i, i+1)
	}
	if c.RemoveFirstBoot {
		g.persistent.spec.FirstBoot = fleet.VMFirstBoot{}
	}
	if c.Network != "" {
		g.persistent.spec.NICs = slices.Clone(g.persistent.spec.NICs)
		g.persistent.spec.NICs[0].Network = c.Network
	}
	for _, p := range h.pools {
		if path.Dir(c.ISO) == p.spec.Path {
			g.persistent.pools = maps.Clone(g.persistent.pools)
			g.persistent.pools[p.record.ID] = p.spec.Path
			g.persistent.spec.ISO = &fleet.Volref{PoolID: p.record.ID, Volume: path.Base(c.ISO)}
		}
	}
	h.notify()
}

// hideVolume removes a volume's file until the caller calls restore.
func (h *Host) hideVolume(p fleet.Pool, volume string) (restore func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	files := h.pools[p.Name].dir.files
	f := files[volume]
	delete(files, volume)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		files[volume] = f
	}
}

func (h *Host) addImage(p fleet.Pool, img conformance.Image) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := &file{Volume: fleet.Volume{Name: img.Name, Format: "qcow2", CapacityBytes: img.SizeBytes, AllocBytes: img.SizeBytes}}
	switch img.Kind {
	case conformance.Raw:
		f.Format = "raw"
	case conformance.ISO:
		f.Format = "iso"
	case conformance.DirectoryImage: // pools do not list directories
		return
	case conformance.LinkedISO:
		f.Format, f.hasExternalData = "iso", true
	case conformance.Qcow2Backing:
		f.Backing = path.Join(p.Spec.Path, "base.img")
	case conformance.Qcow2Data:
		f.hasExternalData, f.NotImageReason = true, image.Facts{Format: "qcow2", RefersTo: "an external data file"}.InvalidReason()
	case conformance.Qcow2Truncated:
		f.NotImageReason = image.Facts{Format: "qcow2", HeaderFault: "it is cut off"}.InvalidReason()
	}
	h.pools[p.Name].dir.files[img.Name] = f
}

func ExampleHost_Inventory() {
	a, b := simulatedInventory("alpha"), simulatedInventory("alpha")
	fmt.Println(a.HostUUID == b.HostUUID, a.CPU.Threads >= a.CPU.Cores)
	// Output: true true
}
