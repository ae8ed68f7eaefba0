package domxml

import (
	"path"
	"slices"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

const adoptable = `<domain type="qemu" xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0">
  <name>crm</name>
  <memory unit="KiB">131136</memory>
  <vcpu>2</vcpu>
  <os><type arch="x86_64" machine="pc-i440fx-7.2">hvm</type><kernel>/boot/vmlinuz</kernel></os>
  <cpu mode="custom"><model>qemu64</model><numa><cell id="0" cpus="0-1" memory="131072" unit="KiB"/></numa></cpu>
  <devices>
    <disk type="file" device="disk"><driver name="qemu" type="qcow2"/><source file="/srv/vm/crm.qcow2"/><target dev="vda" bus="virtio"/></disk>
    <disk type="file" device="disk"><driver name="qemu" type="raw"/><source file="/elsewhere/data.img"/><target dev="vdb" bus="virtio"/></disk>
    <controller type="nvme" index="7"><serial>odd</serial></controller>
    <interface type="network"><mac address="52:54:00:00:00:07"/><source network="default"/><model type="e1000"/><filterref filter="clean-traffic"/></interface>
    <interface type="user"><mac address="52:54:00:00:00:08"/></interface>
    <sound model="ich9"/>
    <video><model type="cirrus" vram="16384" heads="1" primary="yes"/></video>
  </devices>
  <qemu:commandline><qemu:arg value="-odd"/></qemu:commandline>
</domain>`

func adoptionLookup() (pools []fleet.Pool, lookup VolumeLookup) {
	pool := fleet.Pool{ID: "pool-1", Name: "vm", Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/vm"}}
	return []fleet.Pool{pool}, VolumeLookup{
		AppliedPath: func(r hypervisor.AppliedRecord, ref fleet.Volref) string {
			return path.Join(r.Pools[ref.PoolID].Path, ref.Volume)
		},
		VolumeAt: func(file string) *fleet.Volref {
			if path.Dir(file) != pool.Spec.Path {
				return nil
			}
			return &fleet.Volref{PoolID: pool.ID, Volume: path.Base(file)}
		},
	}
}

func TestAdoptableDefinitionReadWithRefusalsAndVerbatimParts(t *testing.T) {
	x, err := ParseDefinition(adoptable, false)
	if err != nil {
		t.Fatal(err)
	}
	pools, lookup := adoptionLookup()
	record, disks, refusals := ReadAdoptable(x, pools, lookup)
	if len(refusals) != 1 || !strings.Contains(refusals[0], "Disk vdb (/elsewhere/data.img): no pool of Quantix on this host has it.") || len(disks) != 1 || disks[0].Ref.Volume != "crm.qcow2" {
		t.Errorf("the refusals are %q, the disks %+v", refusals, disks)
	}
	if s := record.Spec; s.MemoryMiB != 129 || s.CPUs != 2 || len(s.NICs) != 1 || s.Boot.Kernel != nil || record.Verbatim["boot.kernel"] == "" || record.Verbatim["nics"] == "" || s.Display.Video != "" || s.NICs[0].Model != "" {
		t.Errorf("the record is %+v, want the memory rounded up, and the kernel and the network filter kept verbatim", record)
	}
	spec := record.Spec
	spec.Power, spec.Disks = fleet.Running, slices.Clone(spec.Disks)
	spec.Disks[0].SizeBytes = 1 << 20
	var checks fleet.Checks
	if spec.Check(&checks, "spec"); checks.Len() > 0 {
		t.Errorf("the portal refuses the spec: %#v", checks.Err())
	}
	if drift := record.Drift(ReadDefinedSpec(x, record, lookup)); len(drift) > 0 {
		t.Errorf("right after an adoption there is the drift %+v", drift)
	}
	parts, err := VerbatimParts(adoptable, x, record)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`devices/interface: <interface type="user"><mac address="52:54:00:00:00:08"/></interface>`, "sound card: Intel HD Audio (ICH9)", "commandline: "} {
		if !slices.ContainsFunc(parts, func(p string) bool { return strings.HasPrefix(p, part) }) {
			t.Errorf("the verbatim parts lack %q:\n%s", part, strings.Join(parts, "\n"))
		}
	}
	if slices.ContainsFunc(parts, func(p string) bool { return strings.HasPrefix(p, "memory:") }) {
		t.Errorf("the memory is a verbatim part:\n%s", strings.Join(parts, "\n"))
	}
}

// An edit of an adopted definition changes nothing but its own fields, and a new kernel counts as drift.
func TestEditOfAdoptedDefinitionKeepsTheRest(t *testing.T) {
	text := strings.Replace(adoptable, "/elsewhere/data.img", "/srv/vm/data.img", 1)
	pools, lookup := adoptionLookup()
	x, err := ParseDefinition(text, false)
	if err != nil {
		t.Fatal(err)
	}
	before, err := DefinitionText(x)
	if err != nil {
		t.Fatal(err)
	}
	record, _, refusals := ReadAdoptable(x, pools, lookup)
	if len(refusals) > 0 {
		t.Fatal(refusals)
	}
	edit := func(change func(*fleet.VMSpec), keep bool) string {
		t.Helper()
		x, err := ParseDefinition(text, false)
		if err != nil {
			t.Fatal(err)
		}
		named := NameAdoptedDevices(x, record, lookup)
		vm := fleet.VM{Meta: fleet.Meta{Name: "crm"}, Spec: record.Spec}
		vm.Spec.Disks, vm.Spec.NICs = slices.Clone(vm.Spec.Disks), slices.Clone(vm.Spec.NICs)
		change(&vm.Spec)
		plan := hypervisor.PlanEdit(record, ReadDefinedSpec(x, record, lookup), vm, hypervisor.OverwriteNothing)
		in := EditContent{DefinitionEdit: plan, Name: "crm", Spec: vm.Spec, Adopted: true}
		for _, d := range plan.Disks {
			in.LocatedDisks = append(in.LocatedDisks, LocatedDisk{Spec: d, Alias: DiskAlias(d.Ref()), Path: lookup.AppliedPath(record, d.Ref())})
		}
		Edit(x, in)
		x.Metadata = nil
		if !keep {
			named.Remove(x)
		}
		after, err := DefinitionText(x)
		if err != nil {
			t.Fatal(err)
		}
		return after
	}
	if after := edit(func(*fleet.VMSpec) {}, false); after != before {
		t.Errorf("an edit without changes makes the definition\n%s\nof\n%s", after, before)
	}
	if after := edit(func(s *fleet.VMSpec) { s.Disks = s.Disks[1:]; s.NICs = nil }, true); strings.Contains(after, "crm.qcow2") || strings.Contains(after, "52:54:00:00:00:07") || !strings.Contains(after, "52:54:00:00:00:08") {
		t.Errorf("the removed disk and NIC are still there, or another NIC is not:\n%s", after)
	}
	if after := edit(func(s *fleet.VMSpec) { s.MemoryMiB = 160 }, false); !strings.Contains(after, "163840") || !strings.Contains(after, "-odd") || !strings.Contains(after, `index="7"`) {
		t.Errorf("the edit of the memory makes the definition\n%s", after)
	}
	x.OS.Kernel = "/boot/other"
	if drift := record.Drift(ReadDefinedSpec(x, record, lookup)); len(drift) != 1 || drift[0].Field != "boot.kernel" {
		t.Errorf("another kernel is the drift %+v", drift)
	}
}

func TestPartsThatAnEditWouldLoseAreFound(t *testing.T) {
	text := strings.Replace(adoptable, "<devices>", `<devices><future mode="on"/>`, 1)
	x, err := ParseDefinition(text, false)
	if err != nil {
		t.Fatal(err)
	}
	lost, err := LostElements(text, x)
	if err != nil || !slices.Equal(lost, []string{"domain/devices/future", "domain/devices/future@mode"}) {
		t.Errorf("the lost parts are %q %v, want the unknown device", lost, err)
	}
}
