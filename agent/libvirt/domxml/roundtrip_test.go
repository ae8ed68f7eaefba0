package domxml

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// specGenerator generates field values from bytes. It reads the field tables, so it also covers new fields.
type specGenerator struct{ bytes []byte }

// nextByte returns the next byte. After the last byte it returns 0, which ends the generation.
func (d *specGenerator) nextByte() int {
	if len(d.bytes) == 0 {
		return 0
	}
	b := d.bytes[0]
	d.bytes = d.bytes[1:]
	return int(b)
}

// numberBelow returns a number below n. It returns 0 after the last byte.
func (d *specGenerator) numberBelow(n int) int { return d.nextByte() % n }

// sampleTexts are the candidates for text fields; each field accepts some of them.
var sampleTexts = []string{
	"0", "0-1", "2,4-6", "+aes -vmx", "-x2apic", "quiet console=ttyS0", `a="b" <c> & 'd' ]]> e`, "qemu64", "host-model", "A1_b.c+d-e", "src", "usb/046d:c52b", "usb/1d6b:0002", "cdrom2",
	"cdrom3", "floppy1", "v-1.iso", "vmlinuz", "0001:02:03.4", "pci/0000:41:00.0", "pci/0000:41:00.1", "mdev/nvidia-63", "usb-port/1-2.3", "blk/ata-A_1", "EPYC-Rome-v2",
}

// fieldValue generates a JSON value of the field's kind. It returns nil if the bytes select no value.
func (d *specGenerator) fieldValue(in fleet.FormInput) any {
	switch in.Kind {
	case fleet.InputFlag:
		return d.numberBelow(2) == 1
	case fleet.InputChoice:
		if len(in.Options) > 0 {
			return in.Options[d.numberBelow(len(in.Options))].Value
		}
	case fleet.InputNumber:
		if d.numberBelow(2) == 1 {
			return 1 + d.numberBelow(4)
		}
		n := d.nextByte()
		return n << d.numberBelow(16)
	case fleet.InputText:
		if n := len(in.Options); n > 0 && d.numberBelow(2) == 1 {
			return in.Options[d.numberBelow(n)].Value
		}
		return sampleTexts[d.numberBelow(len(sampleTexts))]
	case fleet.InputMedium, fleet.InputFile:
		return map[string]any{"poolId": samplePool, "volume": fmt.Sprintf("medium-%d.iso", d.numberBelow(3))}
	case fleet.InputPool, fleet.InputDeviceClass:
		return samplePool
	case fleet.InputRows:
		rows := []any{}
		for range d.numberBelow(4) {
			row := map[string]any{}
			for _, r := range in.Rows {
				at := row
				names := strings.Split(r.Name, ".")
				for _, name := range names[:len(names)-1] {
					below, _ := at[name].(map[string]any)
					if below == nil {
						below = map[string]any{}
					}
					at[name], at = below, below
				}
				at[names[len(names)-1]] = d.fieldValue(r.Input)
			}
			rows = append(rows, row)
		}
		return rows
	}
	return nil
}

const samplePool, samplePath = "01a20f00-0000-7000-8000-0000000000aa", "/srv/pool"

// setRandomFields sets random fields of a spec, disk or NIC. It resets a field if the spec is then invalid.
func setRandomFields[T any](d *specGenerator, fields []fleet.Field[T], at *T, right func() bool) {
	for _, f := range fields {
		if d.numberBelow(3) == 0 {
			continue
		}
		value, err := json.Marshal(d.fieldValue(f.Input))
		if err != nil {
			panic(err) // plain values always marshal
		}
		before := *at
		if f.Decode(at, value) != nil || !right() {
			*at = before
		}
	}
}

// randomVM generates a VM that passes validation.
func randomVM(bytes []byte) fleet.VM {
	d := &specGenerator{bytes}
	s := fleet.VMSpec{CPUs: 1 + d.numberBelow(16), MemoryMiB: fleet.MinMemoryMiB << d.numberBelow(8), Firmware: []fleet.Firmware{fleet.BIOS, fleet.UEFI}[d.numberBelow(2)], Power: fleet.Stopped}
	right := func() bool {
		var c fleet.Checks
		s.Check(&c, "spec")
		return c.Err() == nil
	}
	for i := range d.numberBelow(4) {
		s.Disks = append(s.Disks, fleet.Disk{PoolID: samplePool, Volume: fmt.Sprintf("disk-%d.qcow2", i), SizeBytes: 1 << 30})
		setRandomFields(d, fleet.DiskFields, &s.Disks[i], right)
	}
	for i := range d.numberBelow(4) {
		s.NICs = append(s.NICs, fleet.NIC{Network: "default", MAC: fmt.Sprintf("52:54:00:00:00:%02x", i)})
		if d.numberBelow(2) == 1 {
			s.NICs[i].Network, s.NICs[i].Bridge = "", "br0"
		}
		setRandomFields(d, fleet.NICFields, &s.NICs[i], right)
	}
	if d.numberBelow(2) == 1 {
		s.ISO = &fleet.Volref{PoolID: samplePool, Volume: "medium-0.iso"}
	}
	setRandomFields(d, fleet.OptionalFields(), &s, right)
	// Random values would hardly ever add up to the VM's CPUs and memory.
	if half := s.CPUs / 2; len(s.NUMA) == 0 && half > 0 && s.CPU.Max <= s.CPUs && d.numberBelow(2) == 1 {
		s.NUMA = []fleet.VMNUMANode{{CPUs: numaNodes(0, half), MemoryMiB: s.MemoryMiB / 2}, {CPUs: numaNodes(half, s.CPUs), MemoryMiB: s.MemoryMiB - s.MemoryMiB/2}}
		if !right() {
			s.NUMA = nil
		}
	}
	s.FirstBoot = fleet.VMFirstBoot{} // the host writes the first-boot file
	return fleet.VM{Meta: fleet.Meta{ID: "01a20f00-0000-7000-8000-0000000000bb", Name: "web-01", Generation: 3}, Spec: s}
}

func numaNodes(from, to int) string {
	return fleet.NormalizeNumberSet(fmt.Sprintf("%d-%d", from, to-1))
}

// roundTrip writes the VM's definition and reads it back from its text.
func roundTrip(t *testing.T, vm fleet.VM, k AcceleratorKind) (hypervisor.AppliedRecord, hypervisor.DefinedSpec, string) {
	t.Helper()
	pools := []fleet.Pool{{ID: samplePool, Name: "fast", Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: samplePath}}}
	work := hypervisor.ApplyWork{VM: vm, Pools: pools}
	in := EditContent{DefinitionEdit: hypervisor.PlanEdit(hypervisor.AppliedRecord{}, hypervisor.DefinedSpec{}, vm, hypervisor.OverwriteAll), Name: vm.Name}
	in.Spec = vm.Spec.MapMedia(func(m fleet.Medium) fleet.Volref { return fleet.Volref{Volume: path.Join(samplePath, m.Volume)} })
	if vm.Spec.ISO != nil {
		in.ISO = path.Join(samplePath, vm.Spec.ISO.Volume)
	}
	for _, d := range vm.Spec.Disks {
		in.LocatedDisks = append(in.LocatedDisks, LocatedDisk{Spec: d, Alias: DiskAlias(d.Ref()), Path: path.Join(samplePath, d.Volume)})
	}
	in.Metadata = NewQuantixMetadata(work, hypervisor.NewAppliedRecord(work, vm.Name, "", nil), "secret")
	x := NewDefinition(vm.ID, "x86_64", MachineTypeOf(vm.Spec), k)
	Edit(x, in)
	AddPCIPorts(x)
	text, err := x.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	var again libvirtxml.Domain
	if err := again.Unmarshal(text); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	m, ok := ReadQuantixMetadata(again.Metadata)
	applied := m.AppliedSpec()
	if !ok || applied == nil || m.ID != vm.ID || m.OwnershipMark != "secret" {
		t.Fatalf("the definition's mark is %+v\n%s", m, text)
	}
	volumes := VolumeLookup{
		AppliedPath: func(a hypervisor.AppliedRecord, ref fleet.Volref) string {
			return path.Join(a.Pools[ref.PoolID].Path, ref.Volume)
		},
		VolumeAt: func(file string) *fleet.Volref {
			if path.Dir(file) != samplePath {
				return nil
			}
			return &fleet.Volref{PoolID: samplePool, Volume: path.Base(file)}
		},
	}
	return *applied, ReadDefinedSpec(&again, *applied, volumes), text
}

// checkRoundTrip fails the test if reading the VM's definition does not return the VM's spec.
func checkRoundTrip(t *testing.T, vm fleet.VM, k AcceleratorKind) {
	t.Helper()
	applied, is, text := roundTrip(t, vm, k)
	want := vm.Spec
	want.Power = ""
	if got, sent := mustText(applied.Spec), mustText(want); got != sent {
		t.Errorf("the recorded spec is %s, want %s", got, sent)
	}
	for _, f := range fleet.VMFields {
		if !f.Same(vm.Spec, is.Spec) || is.Inexpressible[f.Name] != "" {
			t.Errorf("%s: %q is read as %q %q in\n%s", f.Name, f.Words(vm.Spec), f.Words(is.Spec), is.Inexpressible[f.Name], text)
		}
	}
	if more := hypervisor.PlanEdit(applied, is, vm, hypervisor.OverwriteAll); len(more.Fields)+len(more.SetDisks)+len(more.SetNICs)+len(applied.Drift(is)) > 0 {
		t.Errorf("a second apply changes %d fields, %d disks and %d NICs, drift %+v, in\n%s", len(more.Fields), len(more.SetDisks), len(more.SetNICs), applied.Drift(is), text)
	}
}

func mustText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain values always marshal
	}
	return string(text)
}

// FuzzDefinition writes generated VMs as definitions and reads them back. No field may lose or change its value.
func FuzzDefinition(f *testing.F) {
	f.Add([]byte{}, false)
	f.Add([]byte(strings.Repeat("\x01", 400)), false)
	f.Add([]byte(strings.Repeat("\x02\x01\x05", 200)), true)
	f.Add([]byte(strings.Repeat("\x07\x02\x03\x0b\x01", 200)), false)
	f.Add([]byte("\x05\x03\x01\x03"+strings.Repeat("\x02\x04", 300)), true)
	f.Fuzz(func(t *testing.T, bytes []byte, kvm bool) {
		k := AcceleratorKind{Accelerator: "qemu", CPUModes: []string{"host-model", "maximum"}}
		if kvm {
			k = AcceleratorKind{Accelerator: "kvm", CPUModes: []string{"host-passthrough", "host-model", "maximum"}}
		}
		checkRoundTrip(t, randomVM(bytes), k)
	})
}

// TestGeneratedSpecsCoverEveryField checks the generator: many random inputs must generate several values of each
// field.
func TestGeneratedSpecsCoverEveryField(t *testing.T) {
	t.Parallel()
	seen := map[string]map[string]bool{}
	note := func(name, text string) {
		if seen[name] == nil {
			seen[name] = map[string]bool{}
		}
		seen[name][text] = true
	}
	state := uint32(1)
	for range 600 {
		bytes := make([]byte, 500)
		for i := range bytes {
			state ^= state << 13
			state ^= state >> 17
			state ^= state << 5
			bytes[i] = byte(state)
		}
		s := randomVM(bytes).Spec
		for _, f := range fleet.OptionalFields() {
			note(f.Name, f.Words(s))
		}
		for _, d := range s.Disks {
			for _, f := range fleet.DiskFields {
				note("disks."+f.Name, f.Words(d))
			}
		}
		for _, n := range s.NICs {
			for _, f := range fleet.NICFields {
				note("nics."+f.Name, f.Words(n))
			}
		}
	}
	// Other tests cover these fields; a shared disk must already exist.
	apart := []string{"firstBoot", "rules", "health", "disks.shareable"}
	for _, name := range fleet.OptionalFieldNames() {
		if len(seen[name]) < 2 && !slices.Contains(apart, name) {
			t.Errorf("%s is never generated: %v", name, seen[name])
		}
	}
}
