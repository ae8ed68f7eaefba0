package domxml

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"quantix/agent/hypervisor"
	"quantix/agent/hypervisor/conformance"
	"quantix/internal/fleet"
	"quantix/internal/testkit/goals"
)

// BenchmarkDefinition writes the definition of a VM with two disks and two NICs, and of a VM with every field. It also
// measures the XML library alone.
func BenchmarkDefinition(b *testing.B) {
	plain := fleet.VM{Meta: fleet.Meta{ID: fleet.NewID[fleet.VMID](), Name: "web-01", Generation: 1}, Spec: fleet.VMSpec{CPUs: 2, MemoryMiB: 2048, Firmware: fleet.BIOS}}
	pool := fleet.NewID[fleet.PoolID]()
	for i := range 2 {
		plain.Spec.Disks = append(plain.Spec.Disks, fleet.Disk{PoolID: pool, Volume: fmt.Sprintf("disk-%d.qcow2", i), SizeBytes: 1 << 30})
		plain.Spec.NICs = append(plain.Spec.NICs, fleet.NIC{Network: "default", MAC: fmt.Sprintf("52:54:00:00:00:%02d", i)})
	}
	full := plain
	full.Spec = conformance.SpecWithAllFields(plain.Spec)
	var usual, whole, library, wholeLibrary []time.Duration
	for b.Loop() {
		spec, xml := writeDefinition(b, plain)
		usual, library = append(usual, spec+xml), append(library, xml)
		spec, xml = writeDefinition(b, full)
		whole, wholeLibrary = append(whole, spec+xml), append(wholeLibrary, xml)
	}
	p50 := func(took []time.Duration) time.Duration { slices.Sort(took); return took[len(took)/2] }
	us := func(took []time.Duration) string { return fmt.Sprintf("%.0f", float64(p50(took).Nanoseconds())/1000) }
	beside, ratio := func(took []time.Duration) string { return "the XML library alone: " + us(took) + " µs" }, func(a, b []time.Duration) float64 {
		return p50(a).Seconds() / p50(b).Seconds()
	}
	goals.Definition.Record(b, p50(usual) <= 100*time.Microsecond, us(usual)+" µs", beside(library), ratio(usual, library))
	goals.FullDefinition.Record(b, us(whole)+" µs", beside(wholeLibrary), ratio(whole, wholeLibrary))
}

// writeDefinition returns the time to apply the spec and the time to marshal the XML.
func writeDefinition(b *testing.B, vm fleet.VM) (spec, xml time.Duration) {
	began := time.Now()
	work := hypervisor.ApplyWork{VM: vm}
	in := EditContent{DefinitionEdit: hypervisor.PlanEdit(hypervisor.AppliedRecord{}, hypervisor.DefinedSpec{}, vm, hypervisor.OverwriteAll), Name: vm.Name, Spec: vm.Spec}
	for _, d := range vm.Spec.Disks {
		in.LocatedDisks = append(in.LocatedDisks, LocatedDisk{Spec: d, Alias: DiskAlias(d.Ref()), Path: "/pool/" + d.Volume})
	}
	in.Metadata = NewQuantixMetadata(work, hypervisor.NewAppliedRecord(work, vm.Name, "", nil), "")
	x := NewDefinition(vm.ID, "x86_64", q35, AcceleratorKind{Accelerator: "kvm"})
	Edit(x, in)
	AddPCIPorts(x)
	spec = time.Since(began)
	text, err := DefinitionText(x)
	if err != nil || len(text) < 3000 {
		b.Fatalf("%v: %s", err, text)
	}
	return spec, time.Since(began) - spec
}
