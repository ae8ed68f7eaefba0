package fleet_test

import (
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/vmcopy"
)

// Each setting that a raw disk cannot have is refused at its field.
func TestRawDiskSettingsAreValidated(t *testing.T) {
	t.Parallel()
	image := fleet.NewID[fleet.ImageID]()
	for name, c := range map[string]struct {
		disk fleet.Disk
		want []string
	}{
		"empty":                {fleet.Disk{SizeBytes: 1, Format: "raw"}, nil},
		"a copy":               {fleet.Disk{Image: &fleet.Volref{PoolID: "p", Volume: "i.qcow2"}, Format: "raw"}, nil},
		"a copy of the latest": {fleet.Disk{ImageID: image, Format: "raw"}, nil},
		"an overlay":           {fleet.Disk{ImageID: image, Overlay: true, Format: "raw"}, []string{"d.format"}},
		"an encrypted one":     {fleet.Disk{SizeBytes: 1, Encryption: "luks", Format: "raw"}, []string{"d.format"}},
		"an existing volume":   {fleet.Disk{Existing: true, Volume: "v", Format: "raw"}, []string{"d.format"}},
		"a shared one":         {fleet.Disk{Existing: true, Shareable: true, Volume: "v", Format: "raw"}, []string{"d.format"}},
		"qcow2 by its name":    {fleet.Disk{SizeBytes: 1, Format: "qcow2"}, []string{"d.format"}},
		"another format":       {fleet.Disk{SizeBytes: 1, Format: "vmdk"}, []string{"d.format"}},
		"in uppercase":         {fleet.Disk{SizeBytes: 1, Format: "RAW"}, []string{"d.format"}},
		"with an option":       {fleet.Disk{SizeBytes: 1, Format: "raw,offset=512"}, []string{"d.format"}},
		"with markup":          {fleet.Disk{SizeBytes: 1, Format: "raw'/>"}, []string{"d.format"}},
		"with a NUL":           {fleet.Disk{SizeBytes: 1, Format: "raw\x00"}, []string{"d.format"}},
	} {
		c.disk.PoolID = "p"
		spec := fleet.VMSpec{Power: fleet.Stopped, CPUs: 1, MemoryMiB: 256, Firmware: fleet.BIOS, Disks: []fleet.Disk{c.disk}}
		got := fieldsWithErrors(func(checks *fleet.Checks) { spec.Check(checks, "spec") })
		for i := range got {
			got[i] = strings.Replace(got[i], "spec.disks[0]", "d", 1)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: faults at %q, want %q", name, got, c.want)
		}
	}
}

// The suffix of a disk's volume shows its format, in each kind of pool.
func TestDiskVolumeNameHasSuffixOfFormat(t *testing.T) {
	t.Parallel()
	raw, usual, lun := fleet.Disk{Format: fleet.Raw}, fleet.Disk{}, fleet.Disk{Existing: true, Volume: "a.qcow2"}
	for _, c := range []struct {
		disk fleet.Disk
		kind fleet.PoolKind
		want string
	}{{usual, fleet.PoolDir, "a.qcow2"}, {raw, fleet.PoolDir, "a.raw"}, {usual, fleet.PoolRBD, "a.raw"}, {raw, fleet.PoolRBD, "a.raw"}} {
		name := c.disk.NewVolumeName("a.qcow2", c.kind)
		var ok, wrong fleet.Checks
		c.disk.CheckVolumeName(&ok, "volume", name, c.kind)
		c.disk.CheckVolumeName(&wrong, "volume", "a.vmdk", c.kind)
		if name != c.want || ok.Err() != nil || wrong.Err() == nil {
			t.Errorf("%+v in %s is called %s: %v, %v", c.disk, c.kind, name, ok.Err(), wrong.Err())
		}
		c.disk.Volume = name
		if c.disk.IsQcow2() != (name == "a.qcow2") {
			t.Errorf("%s is qcow2: %t", name, c.disk.IsQcow2())
		}
	}
	if lun.IsQcow2() || lun.FileFormat() != "raw" {
		t.Error("an existing volume counts as qcow2 because of its name")
	}
}

// A raw disk can be grown. Copies and snapshots of it are refused with a reason.
func TestRawDiskRefusesCopiesAndSnapshots(t *testing.T) {
	t.Parallel()
	d := fleet.Disk{PoolID: "p", Volume: "a.raw", SizeBytes: 1 << 30, Format: fleet.Raw}
	vm := fleet.VMView{VM: fleet.VM{Spec: fleet.VMSpec{Firmware: fleet.BIOS, Disks: []fleet.Disk{d}}, Status: &fleet.VMStatus{Power: fleet.Stopped}}, Phase: fleet.PhaseStopped}
	for act, ask := range map[string]func() (bool, string){
		"a snapshot":    func() (bool, string) { return vm.AllowsNewSnapshot(nil) },
		"an image":      func() (bool, string) { return vm.AllowsImage(d.Ref()) },
		"a template":    func() (bool, string) { return vmcopy.AllowsTemplate(vm) },
		"a clone":       func() (bool, string) { return vmcopy.AllowsClone(vm) },
		"an export":     func() (bool, string) { return vmcopy.AllowsExport(vm) },
		"another pool":  func() (bool, string) { return vm.AllowsDiskMigration(d.Ref(), nil) },
		"another host":  func() (bool, string) { return vm.AllowsMigration(nil, nil) },
		"growing (yes)": func() (bool, string) { return vm.AllowsDiskGrowth(d, nil) },
	} {
		ok, why := ask()
		if yes := strings.HasSuffix(act, "(yes)"); ok != yes || !yes && !strings.Contains(why, "is a raw file") {
			t.Errorf("%s: %t, %q", act, ok, why)
		}
	}
}

// An encrypted disk can be grown while its VM runs. While the VM is off, the refusal names this condition.
func TestEncryptedDiskGrowsOnlyWhileVMRuns(t *testing.T) {
	t.Parallel()
	d := fleet.Disk{PoolID: "p", Volume: "a.qcow2", SizeBytes: 1 << 30, Encryption: "luks"}
	vm := fleet.VMView{VM: fleet.VM{Spec: fleet.VMSpec{Disks: []fleet.Disk{d}}, Status: &fleet.VMStatus{Power: fleet.Running}}, Phase: fleet.PhaseRunning}
	if ok, why := vm.AllowsDiskGrowth(d, nil); !ok {
		t.Errorf("while it runs: %s", why)
	}
	vm.Status.Power, vm.Phase = fleet.Stopped, fleet.PhaseStopped
	if ok, why := vm.AllowsDiskGrowth(d, nil); ok || !strings.Contains(why, "while the VM runs") {
		t.Errorf("while it is off: %t, %q", ok, why)
	}
}
