package control_test

import (
	"errors"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/control/query"
	"quantix/internal/control/storage"
	"quantix/internal/fleet"
	"quantix/internal/vmcopy"
)

// sharedDisk adds a raw volume to each pool. It returns a shareable disk that uses the volume of the shared pool.
func (s *projectFixture) sharedDisk() fleet.Disk {
	s.t.Helper()
	raw := `{"name":"quorum.raw","path":"/v/quorum.raw","format":"raw","capacityBytes":1073741824}`
	s.addVolume(s.nfs, s.h1, raw)
	s.addVolume(s.nfs, s.h2, raw)
	s.addVolume(s.local, s.h1, raw)
	s.addVolume(s.nfs, s.h1, `{"name":"layer.raw","path":"/v/layer.raw","format":"raw","backing":"/v/quorum.raw","capacityBytes":1073741824}`)
	s.addVolume(s.nfs, s.h1, `{"name":"half.raw","path":"/v/half.raw","format":"raw","unfinished":true,"capacityBytes":1073741824}`)
	return fleet.Disk{PoolID: s.nfs, Volume: "quorum.raw", Existing: true, Shareable: true}
}

// Invalid settings of shareable disks are refused at their field, and nothing is written.
func TestInvalidShareableDiskRefused(t *testing.T) {
	s := newProjectFixture(t)
	s.supportAllFields(someDevicesJSON)
	good := s.sharedDisk()
	chief := s.addUser("ada", fleet.RoleAdmin)
	_, err := s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, Name: "first", HostID: s.h1, Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 256, Disks: []fleet.Disk{good}}})
	if err != nil {
		t.Fatal(err)
	}
	const there, formats, cached = "A shared disk needs an existing volume.", "is not a raw volume", "choose the cache none or directsync"
	for name, c := range map[string]struct {
		who         fleet.Actor
		change      func(*fleet.Disk)
		field, says string
	}{
		"a new disk": {chief, func(d *fleet.Disk) {
			*d = fleet.Disk{PoolID: s.nfs, SizeBytes: 1 << 30, Shareable: true}
		}, "shareable", there},
		"a copy of an image": {chief, func(d *fleet.Disk) {
			*d = fleet.Disk{PoolID: s.nfs, Image: &fleet.Volref{PoolID: s.nfs, Volume: "debian.qcow2"}, Shareable: true}
		}, "shareable", there},
		"an image of its own":      {chief, func(d *fleet.Disk) { d.Image = &fleet.Volref{PoolID: s.nfs, Volume: "debian.qcow2"} }, "image", "A disk on an existing volume cannot have an"},
		"a size of its own":        {chief, func(d *fleet.Disk) { d.SizeBytes = 1 << 30 }, "sizeBytes", "A disk on an existing volume has the size"},
		"only read":                {chief, func(d *fleet.Disk) { d.ReadOnly = true }, "readOnly", "Choose one of the two"},
		"written back":             {chief, func(d *fleet.Disk) { d.Cache = "writeback" }, "cache", cached},
		"written through":          {chief, func(d *fleet.Disk) { d.Cache = "writethrough" }, "cache", cached},
		"unsafe":                   {chief, func(d *fleet.Disk) { d.Cache = "unsafe" }, "cache", cached},
		"native without a cache":   {chief, func(d *fleet.Disk) { d.IO = "native" }, "io", "needs the cache none"},
		"qcow2":                    {chief, func(d *fleet.Disk) { d.Volume = "debian.qcow2" }, "volume", "is published"},
		"a disc":                   {chief, func(d *fleet.Disk) { d.Volume = "cd.iso" }, "volume", "is published"},
		"what stands on another":   {chief, func(d *fleet.Disk) { d.Volume = "layer.raw" }, "volume", formats},
		"half a volume":            {chief, func(d *fleet.Disk) { d.Volume = "half.raw" }, "volume", formats},
		"nothing that is there":    {chief, func(d *fleet.Disk) { d.Volume = "none.raw" }, "volume", `has no volume "none.raw"`},
		"a path":                   {chief, func(d *fleet.Disk) { d.Volume = "/dev/sda" }, "volume", "Choose the existing volume of the disk."},
		"above its pool":           {chief, func(d *fleet.Disk) { d.Volume = "../quorum.raw" }, "volume", "Choose the existing volume of the disk."},
		"a name like an option":    {chief, func(d *fleet.Disk) { d.Volume = "-rf" }, "volume", `no volume "-rf"`},
		"a name with a NUL":        {chief, func(d *fleet.Disk) { d.Volume = "quorum\x00.raw" }, "volume", "Choose the existing volume of the disk."},
		"of no pool":               {chief, func(d *fleet.Disk) { d.PoolID = "" }, "poolId", "Choose the pool"},
		"for itself":               {chief, func(d *fleet.Disk) { d.Shareable = false }, "existing", "makes a volume for each disk"},
		"a tenant's":               {s.member, func(*fleet.Disk) {}, "volume", "Only those who may change infrastructure may attach"},
		"another VM's, unseen":     {s.member, func(d *fleet.Disk) { d.Volume = "none.raw" }, "volume", "Only those who may change infrastructure may attach"},
		"a local one that is away": {chief, func(d *fleet.Disk) { d.PoolID = s.local }, "poolId", "is not assigned to h2"},
	} {
		order := control.CreateVM{ProjectID: s.red, Name: "fresh", HostID: s.h2, Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 256, Disks: []fleet.Disk{good}}}
		if strings.Contains(c.says, formats) { // only h1 reports support for it
			order.HostID = s.h1
		}
		c.change(&order.Spec.Disks[0])
		before := s.stateSummary()
		_, err := s.CreateVM(t.Context(), c.who, order)
		refused, ok := errors.AsType[*fleet.Error](err)
		found := false
		if ok {
			for _, f := range refused.Fields {
				found = found || f.Field == "spec.disks[0]."+c.field && strings.Contains(f.Message, c.says)
			}
		}
		if !found || s.stateSummary() != before {
			t.Errorf("%s: %+v (written: %v), want %q at %s", name, err, s.stateSummary() != before, c.says, c.field)
		}
	}
}

// Invalid encryption settings are refused at their field, and nothing is written. The encryption of an existing disk
// cannot change.
func TestInvalidDiskEncryptionRefused(t *testing.T) {
	s := newProjectFixture(t)
	s.supportAllFields(someDevicesJSON)
	there := s.sharedDisk()
	chief := s.addUser("ada", fleet.RoleAdmin)
	rbd := s.addPool("ceph", `{"kind":"rbd","monitors":"m1","cephPool":"vms","shared":true}`, s.h1)
	good := fleet.Disk{PoolID: s.nfs, SizeBytes: 1 << 30, Encryption: "luks"}
	const choose, empty = "Choose one of luks, none, or leave the field empty", "An encrypted disk starts empty."
	for name, c := range map[string]struct {
		change      func(*fleet.Disk)
		field, says string
	}{
		"in capitals":               {func(d *fleet.Disk) { d.Encryption = "LUKS" }, "encryption", choose},
		"the next LUKS":             {func(d *fleet.Disk) { d.Encryption = "luks2" }, "encryption", choose},
		"of old":                    {func(d *fleet.Disk) { d.Encryption = "qcow" }, "encryption", choose},
		"like an option":            {func(d *fleet.Disk) { d.Encryption = "-rf" }, "encryption", choose},
		"with a command":            {func(d *fleet.Disk) { d.Encryption = "luks;id" }, "encryption", choose},
		"with markup":               {func(d *fleet.Disk) { d.Encryption = "luks'/>" }, "encryption", choose},
		"that ends a section":       {func(d *fleet.Disk) { d.Encryption = "]]>" }, "encryption", choose},
		"with a NUL":                {func(d *fleet.Disk) { d.Encryption = "luks\x00" }, "encryption", choose},
		"with a passphrase":         {func(d *fleet.Disk) { d.Encryption = "luks:secret" }, "encryption", choose},
		"a copy of a volume":        {func(d *fleet.Disk) { d.Image = &fleet.Volref{PoolID: s.nfs, Volume: "debian.qcow2"} }, "encryption", empty},
		"a copy of an image":        {func(d *fleet.Disk) { d.ImageID = fleet.NewID[fleet.ImageID]() }, "encryption", empty},
		"an overlay":                {func(d *fleet.Disk) { d.ImageID, d.Overlay = fleet.NewID[fleet.ImageID](), true }, "encryption", empty},
		"what is there":             {func(d *fleet.Disk) { *d = there; d.Encryption = "luks" }, "encryption", "existing volume cannot be encrypted"},
		"what VMs share":            {func(d *fleet.Disk) { d.Shareable = true }, "shareable", "needs an existing volume"},
		"of no size":                {func(d *fleet.Disk) { d.SizeBytes = 0 }, "sizeBytes", "a size above 0"},
		"in a pool of no files":     {func(d *fleet.Disk) { d.PoolID = rbd }, "encryption", "Let the storage encrypt them"},
		"under a name of one's own": {func(d *fleet.Disk) { d.Volume = "a.qcow2" }, "volume", "Leave the volume's name out"},
	} {
		order := control.CreateVM{ProjectID: s.red, Name: "fresh", HostID: s.h1, Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 256, Disks: []fleet.Disk{good}}}
		c.change(&order.Spec.Disks[0])
		before := s.stateSummary()
		_, err := s.CreateVM(t.Context(), chief, order)
		refused, ok := errors.AsType[*fleet.Error](err)
		found := false
		if ok {
			for _, f := range refused.Fields {
				found = found || f.Field == "spec.disks[0]."+c.field && strings.Contains(f.Message, c.says)
			}
		}
		if !found || s.stateSummary() != before {
			t.Errorf("%s: %+v (written: %v), want %q at %s", name, err, s.stateSummary() != before, c.says, c.field)
		}
	}
	vm, err := s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: "vault", HostID: s.h1, Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 256, Disks: []fleet.Disk{good}}})
	if err != nil {
		t.Fatalf("a tenant's: %v", err)
	}
	for _, to := range []string{"", "luks2"} {
		s.wantRefused("another encryption", fleet.Invalid, "", func() error {
			_, _, err := s.UpdateVM(t.Context(), chief, vm.ID, editedSpec(vm, func(v *fleet.VMSpec) { v.Disks[0].Encryption = to }))
			return err
		})
	}
	vm.Status, vm.Phase = &fleet.VMStatus{Power: fleet.Stopped}, fleet.PhaseStopped
	disk := vm.Spec.Disks[0]
	for act, allows := range map[string]func() (bool, string){
		"snapshot": func() (bool, string) { return vm.AllowsNewSnapshot(nil) },
		"move":     func() (bool, string) { return vm.AllowsDiskMigration(disk.Ref(), nil) },
		"grow":     func() (bool, string) { return vm.AllowsDiskGrowth(disk, nil) },
		"image":    func() (bool, string) { return vm.AllowsImage(disk.Ref()) },
		"template": func() (bool, string) { return vmcopy.AllowsTemplate(vm) },
		"clone":    func() (bool, string) { return vmcopy.AllowsClone(vm) },
		"export":   func() (bool, string) { return vmcopy.AllowsExport(vm) },
	} {
		if ok, why := allows(); ok || !strings.Contains(why, "encrypted") {
			t.Errorf("%s: %t, %q", act, ok, why)
		}
	}
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,vmFields}', '["disk.cache"]')`)
	s.wantRefused("by an older agent", fleet.Invalid, "too old for this: encryption", func() error {
		_, err := s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, Name: "old", HostID: s.h1, Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 256, Disks: []fleet.Disk{good}}})
		return err
	})
}

// VMs on any host can share a volume of a shared pool. While several VMs use the volume, no VM can make its disk
// exclusive, and the volume cannot be changed.
func TestSharedVolumeCannotBecomeExclusive(t *testing.T) {
	s := newProjectFixture(t)
	s.supportAllFields(someDevicesJSON)
	disk := s.sharedDisk()
	chief := s.addUser("ada", fleet.RoleAdmin)
	create := func(name string, host fleet.HostID, d fleet.Disk) (fleet.VMView, error) {
		return s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, Name: name, HostID: host, Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 256, Disks: []fleet.Disk{d}}})
	}
	one, err := create("one", s.h1, disk)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := create("two", s.h2, disk); err != nil {
		t.Fatalf("on another host: %v", err)
	}
	named := func(all []query.VolumeOn) string {
		names := make([]string, len(all))
		for i, v := range all {
			names[i] = v.PoolName + "/" + v.Name
		}
		return strings.Join(names, " ")
	}
	if all, err := s.LUNs(t.Context(), chief); err != nil || named(all) != "local/quorum.raw nfs/quorum.raw" {
		t.Errorf("there are to be shared %q, %v", named(all), err)
	}
	s.wantRefused("another's image", fleet.Conflict, "is a disk of the VM", func() error {
		_, err := create("copy", s.h1, fleet.Disk{PoolID: s.nfs, Image: &fleet.Volref{PoolID: s.nfs, Volume: "quorum.raw"}})
		return err
	})
	// Volumes of the same name in a local pool are different volumes on each host, so they are not shared.
	local := disk
	local.PoolID = s.local
	if _, err := create("three", s.h1, local); err != nil {
		t.Fatal(err)
	}
	s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked, status, observed_generation, reported_at)
		SELECT 'pool', object_id, $2, 'assign', status, 1, now() FROM assignments WHERE object_id = $1`, s.local, s.h2)
	s.wantRefused("a local volume of another host", fleet.Invalid, "quorum.raw is shared with the VM three, which is not on h2, and pool local is local to each host.", func() error { _, err := create("four", s.h2, local); return err })
	four, err := create("four", "", local)
	if err != nil || four.HostID != s.h1 {
		t.Errorf("placed on %s: %v", four.HostID, err)
	}
	// A shareable disk on a LUN cannot become exclusive while other VMs share its volume. In a pool where Quantix creates
	// volumes, a shareable disk cannot become exclusive at all.
	s.wantRefused("for itself", fleet.Invalid, "only as a shareable disk", func() error {
		_, _, err := s.UpdateVM(t.Context(), chief, one.ID, editedSpec(one, func(v *fleet.VMSpec) { v.Disks[0].Shareable = false }))
		return err
	})
	s.wantRefused("wipe a shared volume", fleet.Conflict, "The volume is a disk of the VM one, so it cannot be wiped here.", func() error {
		_, err := s.WipeVolume(t.Context(), chief, storage.VolumeID{PoolID: s.nfs, Volume: "quorum.raw"}, "quorum.raw")
		return err
	})
	s.execSQL(`UPDATE pools SET spec = spec || jsonb_build_object('kind', $2::text) WHERE id = $1`, s.nfs, string(fleet.PoolISCSIDirect))
	s.wantRefused("an exclusive disk on a shared LUN", fleet.Invalid, "The VM two has quorum.raw, too", func() error {
		_, _, err := s.UpdateVM(t.Context(), chief, one.ID, editedSpec(one, func(v *fleet.VMSpec) { v.Disks[0].Shareable = false }))
		return err
	})
	s.execSQL(`UPDATE pools SET spec = spec || '{"kind":"nfs"}' WHERE id = $1`, s.nfs)
	s.execSQL(`UPDATE vms SET spec = spec #- '{disks,0,shareable}' WHERE id = $1`, one.ID)
	s.wantRefused("an exclusive disk's volume", fleet.Invalid, "quorum.raw is an exclusive disk of the VM one.", func() error { _, err := create("five", s.h1, disk); return err })
	if ok, why := one.AllowsDiskGrowth(one.Spec.Disks[0], nil); ok {
		t.Errorf("it could be grown: %s", why)
	}
}
