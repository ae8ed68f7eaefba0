package vmpages

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantix/internal/fleet"
	"quantix/web/form"
)

// A form that is sent unchanged does not change the spec, even if the VM uses every field.
func TestUntouchedFormChangesNothing(t *testing.T) {
	t.Parallel()
	spec := func() fleet.VMSpec {
		return fleet.VMSpec{
			Power: fleet.Running, CPUs: 2, MemoryMiB: 1536, Firmware: fleet.UEFI, ISO: &fleet.Volref{PoolID: "p", Volume: "installer.iso"},
			Disks: []fleet.Disk{
				{PoolID: "p", Volume: "full-1.qcow2", SizeBytes: 8<<30 + 1, Image: &fleet.Volref{PoolID: "p", Volume: "debian-12.qcow2"}, Limits: fleet.DiskLimits{TotalIOPS: 100, BurstIOPS: 200}},
				{PoolID: "p", Volume: "full-2.qcow2", SizeBytes: 1 << 30, Bus: "scsi", Cache: "none", IO: "native", Discard: "ignore", BootOrder: 2, Serial: "a", ReadOnly: true},
			},
			NICs: []fleet.NIC{
				{Network: "default", MAC: "52:54:00:00:00:01", Model: "e1000e", LinkDown: true, BootOrder: 1, Limits: fleet.NICLimits{InKiB: 5}},
				{Bridge: "br0", MAC: "52:54:00:00:00:02", Queues: 2},
			},
			Rules:     []fleet.PlacementRule{{Of: fleet.RuleVM, Name: "db"}, {Apart: true, Preferred: true, Of: fleet.RuleHostLabels, Name: "rack=4, ssd"}},
			Health:    []fleet.HealthCheck{{Kind: fleet.HealthHTTP, Port: 8080, Path: "/health", Status: 204, Interval: 30, Timeout: 2, Threshold: 4, Grace: 20, Action: fleet.HealthReset}, {Kind: fleet.HealthAgent}},
			Migration: fleet.VMMigration{Stays: true, LimitMiB: 5},
			CPU:       fleet.VMCPU{Model: "qemu64", Cores: 2}, Memory: fleet.VMMemory{Shared: true, HugePageKiB: 2048}, Boot: fleet.VMBoot{Menu: true},
			Display: fleet.VMDisplay{Keyboard: "de"}, Security: fleet.VMSecurity{TPM: true}, Devices: fleet.VMDevices{RNGRate: 1024},
		}
	}
	typed, err := editFormValues(fleet.VMView{VM: fleet.VM{Spec: spec()}})
	if err != nil {
		t.Fatal(err)
	}
	dropNewDiskFields(typed)
	for _, list := range formRowLists {
		typed.Set(list, "")
	}
	var checks fleet.Checks
	got := specFromForm(&checks, renumberFormRows(typed), spec())
	if diff := cmp.Diff(spec(), got); diff != "" || checks.Err() != nil {
		t.Errorf("%v\n%s\n%+v", checks.Err(), diff, typed)
	}
}

// dropNewDiskFields removes the values that the form sends only for new disks.
func dropNewDiskFields(typed url.Values) {
	for name := range typed {
		m := rowKeyPattern.FindStringSubmatch(name)
		if m == nil || m[1] != "spec.disks" || m[3] == ".keep" {
			continue
		}
		if !slices.ContainsFunc(fleet.DiskFields, func(f fleet.Field[fleet.Disk]) bool { return "."+f.Name == m[3] }) {
			typed.Del(name)
		}
	}
	typed.Set("spec.disks", "")
}

// Removing a disk in the form does not affect other disks, and a new disk inherits no values from them.
func TestDiskRowsOfFormMapToDisksOfVM(t *testing.T) {
	t.Parallel()
	was := fleet.VMSpec{Disks: []fleet.Disk{
		{PoolID: "p", Volume: "a.qcow2", SizeBytes: 1 << 30, Cache: "none", Image: &fleet.Volref{PoolID: "p", Volume: "x.qcow2"}},
		{PoolID: "p", Volume: "b.qcow2", SizeBytes: 2 << 30, Bus: "scsi", ReadOnly: true},
		{PoolID: "p", Volume: "c.qcow2", SizeBytes: 3 << 30},
	}}
	typed, err := editFormValues(fleet.VMView{VM: fleet.VM{Spec: was}})
	if err != nil {
		t.Fatal(err)
	}
	dropNewDiskFields(typed)
	for name := range typed {
		if strings.HasPrefix(name, "spec.disks[0]") {
			typed.Del(name)
		}
	}
	typed["spec.disks[1].readOnly"] = []string{"false"}
	typed.Set("spec.disks[2].limits.readIops", "50")
	typed.Set("spec.disks[7].source", "empty")
	typed.Set("spec.disks[7].poolId", "q")
	typed.Set("spec.disks[7].sizeBytes", "4")
	typed.Set("spec.disks[7].bus", "sata")
	typed.Set("spec.disks[9].keep", "q/not-its.qcow2")
	var checks fleet.Checks
	got := specFromForm(&checks, renumberFormRows(typed), was).Disks
	b, c := was.Disks[1], was.Disks[2]
	b.ReadOnly, c.Limits.ReadIOPS = false, 50
	want := []fleet.Disk{b, c, {PoolID: "q", SizeBytes: 4 << 30, Bus: "sata"}, {}}
	if diff := cmp.Diff(want, got); diff != "" || checks.Err() != nil {
		t.Errorf("%v\n%s", checks.Err(), diff)
	}
}

func TestFormErrorsUseAPIFieldPaths(t *testing.T) {
	t.Parallel()
	sent := url.Values{
		"spec.cpus": {"many"}, "spec.memoryMiB": {"1.5", "GiB"}, "spec.power": {"running"}, "spec.iso": {"p/cd.iso"}, "spec.x]": {"1"}, "spec.nics[": {"1"},
		"spec.disks[7].source": {"image"}, "spec.disks[7].image": {"p/debian.qcow2"}, "spec.disks[7].poolId": {"p"}, "spec.disks[7].sizeBytes": {"big"},
		"spec.disks[4].source": {"empty"}, "spec.disks[4].image": {"p/debian.qcow2"}, "spec.disks[4].poolId": {"q"}, "spec.disks[4].sizeBytes": {"0.5"},
		"spec.nics[2].network": {"bridge:br0"}, "spec.nics[2].mac": {" 52:54:00:00:00:02 "}, "spec.nics[5].network": {""}, "spec.nics[5].mac": {""},
		"spec.nics[9].network": {"libvirt:default"}, "spec.nics[99999999].network": {"libvirt:lan"},
	}
	var checks fleet.Checks
	got := specFromForm(&checks, renumberFormRows(sent), fleet.VMSpec{Power: fleet.Stopped})
	want := fleet.VMSpec{
		Power: fleet.Stopped, MemoryMiB: 1536, ISO: &fleet.Volref{PoolID: "p", Volume: "cd.iso"},
		Disks: []fleet.Disk{{PoolID: "q", SizeBytes: 1 << 29}, {PoolID: "p", Image: &fleet.Volref{PoolID: "p", Volume: "debian.qcow2"}}},
		NICs:  []fleet.NIC{{Bridge: "br0", MAC: "52:54:00:00:00:02"}, {Network: "default"}, {Network: "lan"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	e, _, _ := form.ErrorsFrom(checks.Err())
	if len(e.Fields) != 2 || e.At("spec.cpus") == "" || e.At("spec.disks[1].sizeBytes") == "" {
		t.Errorf("the errors are at %v", e.Fields)
	}
}

// An unticked checkbox sends only its hidden default. A cleared number field unsets the value.
func TestUntickedBoxesAndClearedNumbersReset(t *testing.T) {
	t.Parallel()
	var checks fleet.Checks
	got := specFromForm(&checks, url.Values{
		"spec.security.tpm": {"false", "yes"}, "spec.memory.locked": {"false"}, "spec.cpu.cores": {""}, "spec.cpu.model": {"qemu64"}, "spec.devices.rngRate": {" 12 "},
		"spec.display.video": {""},
	}, fleet.VMSpec{Memory: fleet.VMMemory{Locked: true}, CPU: fleet.VMCPU{Cores: 4}, Display: fleet.VMDisplay{Video: "virtio", Keyboard: "de"}})
	want := fleet.VMSpec{
		Security: fleet.VMSecurity{TPM: true}, CPU: fleet.VMCPU{Model: "qemu64"}, Devices: fleet.VMDevices{RNGRate: 12}, Display: fleet.VMDisplay{Keyboard: "de"},
	}
	if diff := cmp.Diff(want, got); diff != "" || checks.Err() != nil {
		t.Errorf("%v\n%s", checks.Err(), diff)
	}
}

// Unchanged rows keep all values of their devices. A removed row deletes the device, and an empty row is ignored.
func TestDeviceRowsOfFormMapToDevicesOfVM(t *testing.T) {
	t.Parallel()
	was := fleet.VMSpec{
		Drives:      []fleet.VMDrive{{Slot: "cdrom2", Medium: &fleet.Volref{PoolID: "p", Volume: "virtio.iso"}, BootOrder: 2}, {Slot: "floppy1"}},
		HostDevices: []fleet.VMHostDevice{{Device: "usb/046d:c52b"}}, Shares: []fleet.VMShare{{Tag: "src", Folder: fleet.Volref{PoolID: "p", Volume: "src"}}},
		Boot: fleet.VMBoot{Kernel: &fleet.Volref{PoolID: "p", Volume: "vmlinuz"}, Cmdline: "quiet"},
		NUMA: []fleet.VMNUMANode{{CPUs: "0", MemoryMiB: 256, Nodes: "1"}, {CPUs: "1", MemoryMiB: 256}},
	}
	read := func(change func(url.Values)) fleet.VMSpec {
		t.Helper()
		typed, err := editFormValues(fleet.VMView{VM: fleet.VM{Spec: was}})
		if err != nil {
			t.Fatal(err)
		}
		for _, list := range []string{"drives", "hostDevices", "shares", "numa"} {
			typed.Set("spec."+list, "")
		}
		change(typed)
		var checks fleet.Checks
		got := specFromForm(&checks, renumberFormRows(typed), was)
		if checks.Err() != nil {
			t.Error(checks.Err())
		}
		return got
	}
	same := read(func(url.Values) {})
	same.Disks, same.NICs = nil, nil
	if diff := cmp.Diff(was, same); diff != "" {
		t.Errorf("unchanged form: %s", diff)
	}
	got := read(func(typed url.Values) {
		for name := range typed {
			if strings.HasPrefix(name, "spec.drives[0]") || strings.HasPrefix(name, "spec.shares[") {
				typed.Del(name)
			}
		}
		typed.Set("spec.drives[5].slot", "cdrom3")
		typed.Set("spec.drives[5].medium", "q/tools.iso")
		typed.Set("spec.drives[6].slot", "")
		typed.Set("spec.boot.kernel", "")
	})
	want := []fleet.VMDrive{{Slot: "floppy1"}, {Slot: "cdrom3", Medium: &fleet.Volref{PoolID: "q", Volume: "tools.iso"}}}
	if diff := cmp.Diff(want, got.Drives); diff != "" || len(got.Shares) != 0 || len(got.HostDevices) != 1 || got.Boot.Kernel != nil {
		t.Errorf("changed form: %s\n%+v", diff, got)
	}
}

func TestPresetReplacesDrivesAndSetsSecurity(t *testing.T) {
	t.Parallel()
	typed := url.Values{"spec.drives[3].slot": {"floppy1"}}
	if err := prefillFromPreset(typed, "windows-11"); err != nil {
		t.Fatal(err)
	}
	var checks fleet.Checks
	got := specFromForm(&checks, renumberFormRows(typed), fleet.VMSpec{})
	if want := []fleet.VMDrive{{Slot: "cdrom2"}}; !slices.Equal(got.Drives, want) || !got.Security.SecureBoot || !got.Security.TPM {
		t.Errorf("%+v", got)
	}
}

// The form hides some fields, depending on the kind of health check; their values are ignored. Removed rows are
// deleted.
func TestRuleAndHealthCheckRowsOfFormMapToSpec(t *testing.T) {
	t.Parallel()
	was := fleet.VMSpec{
		Rules:  []fleet.PlacementRule{{Of: fleet.RuleVM, Name: "db"}, {Apart: true, Of: fleet.RuleVM, Name: "web"}},
		Health: []fleet.HealthCheck{{Kind: fleet.HealthHTTP, Port: 80, Path: "/x", Status: 204}},
	}
	typed, err := editFormValues(fleet.VMView{VM: fleet.VM{Spec: was}})
	if err != nil {
		t.Fatal(err)
	}
	for name := range typed {
		if strings.HasPrefix(name, "spec.rules[0]") {
			typed.Del(name)
		}
	}
	typed.Set("spec.rules", "")
	typed.Set("spec.health", "")
	typed.Set("spec.rules[1].apart", "false")
	typed.Set("spec.rules[1].preferred", "true")
	typed.Set("spec.rules[1].name", " web ")
	typed.Set("spec.health[0].kind", "agent")
	var checks fleet.Checks
	got := specFromForm(&checks, renumberFormRows(typed), was)
	if len(got.Rules) != 1 || got.Rules[0] != (fleet.PlacementRule{Preferred: true, Of: fleet.RuleVM, Name: "web"}) || len(got.Health) != 1 || got.Health[0] != (fleet.HealthCheck{Kind: fleet.HealthAgent}) || checks.Err() != nil {
		t.Errorf("rules %+v and health checks %+v: %v", got.Rules, got.Health, checks.Err())
	}
	bare := renumberFormRows(url.Values{"spec.rules": {""}, "spec.health": {""}})
	if got := specFromForm(&checks, bare, was); len(got.Rules)+len(got.Health) != 0 {
		t.Errorf("a form without rows leaves the rules %+v and health checks %+v", got.Rules, got.Health)
	}
	typed.Set("spec.health[0].interval", "often")
	if specFromForm(&checks, renumberFormRows(typed), was); checks.Err() == nil {
		t.Error("a word is accepted as a number")
	}
}
