//go:build linux && ordeal

package libvirt_test

import (
	"path/filepath"
	"strings"
	"testing"

	"quantix/agent/hypervisor/conformance"
	"quantix/internal/export"
	"quantix/internal/fleet"
)

// If the agent or libvirtd is killed during a copy or a conversion to a VM's disk, a retry completes the disk and the
// source is unchanged. Sources are another VM's current disk, its snapshot, an image and an archive.
func TestInterruptedDiskCopyCompletes(t *testing.T) {
	c := newFaultRunner(t)
	addImage(t, c.pool, conformance.Image{Name: "golden.qcow2", Kind: conformance.Qcow2, SizeBytes: 32 << 20})
	c.requireNoError(c.ApplyPool(t.Context(), c.pool))
	s := &snapper{fixture: c.fixture, vm: c.newVM()}
	s.vm.Spec.Disks = []fleet.Disk{{
		PoolID: c.pool.ID, Volume: "disk.qcow2", Image: &fleet.Volref{PoolID: c.pool.ID, Volume: "golden.qcow2"},
		ImageID: fleet.NewID[fleet.ImageID](), VersionID: fleet.NewID[fleet.ImageVersionID](), Overlay: true,
	}}
	s.apply(s.vm)
	s.writeDisk('a')
	export := c.volumeJob("vm.ova", fleet.VolumeParams{Export: &fleet.ExportParams{Appliance: export.Appliance(fleet.VMView{VM: s.vm}, nil), Disks: []fleet.Volref{s.vm.Spec.Disks[0].Ref()}}})
	c.requireNoError(c.ExportVolume(t.Context(), export))
	snapshot := s.takeSnapshot(false)
	s.writeDisk('b')
	present := filepath.Join(t.TempDir(), "present.qcow2") // the disk's current content
	run(t, "qemu-img", "convert", "-O", "qcow2", s.currentDiskFile(), present)
	base := []string{"golden.qcow2", "vm.ova", "disk.qcow2", filepath.Base(s.currentDiskFile())}
	before := map[string]string{}
	for _, name := range base {
		before[name] = sumOf(c.readVolume(name))
	}
	member := ""
	for _, v := range poolStatusOf(t, c.fixture, c.pool).Volumes {
		if a := v.Appliance; a != nil && len(a.Disks) == 1 {
			member = a.Disks[0].Member
		}
	}
	for _, of := range []struct {
		name  string
		kind  fleet.JobKind
		order fleet.VolumeParams
		like  string // a disk with the same content
		on    bool   // whether the source VM runs
	}{
		{"copy an image", fleet.VolumeCopy, fleet.VolumeParams{Source: "golden.qcow2"}, c.volumePath("golden.qcow2"), false},
		{"clone", fleet.VolumeCopy, fleet.VolumeParams{Source: filepath.Base(s.currentDiskFile()), Flatten: true}, present, false},
		{
			"clone a snapshot", fleet.VolumeCopy,
			fleet.VolumeParams{Source: "disk.qcow2", Flatten: true, Snapshot: &fleet.SnapshotRef{VMID: s.vm.ID, ID: snapshot}},
			c.volumePath("disk.qcow2"), false,
		},
		{
			"clone a running VM", fleet.VolumeCopy,
			fleet.VolumeParams{Source: "disk.qcow2", Flatten: true, Snapshot: &fleet.SnapshotRef{VMID: s.vm.ID, ID: snapshot}},
			c.volumePath("disk.qcow2"), true,
		},
		{"import", fleet.VolumeConvert, fleet.VolumeParams{Source: "vm.ova", Member: member}, c.volumePath("disk.qcow2"), false},
	} {
		if of.on {
			c.requireNoError(c.StartVM(t.Context(), s.vm.ID))
		}
		c.runAllFaults(interruptedJob{
			name: of.name,
			begin: func(string) childJob {
				return childJob{Book: c.book, Kind: of.kind, Pool: c.pool, Name: "made.qcow2", Volume: &of.order}
			},
			check: func(when string, _ childJob) {
				c.wantPoolFiles(when, append([]string{"made.qcow2"}, base...)...)
				checkChain(t, c.volumePath("made.qcow2"))
				if out := run(t, "qemu-img", "compare", "-U", c.volumePath("made.qcow2"), of.like); !strings.Contains(out, "identical") {
					t.Fatalf("%s: %s", when, out)
				}
				for _, name := range base {
					if sumOf(c.readVolume(name)) != before[name] {
						t.Fatalf("%s: %s is changed", when, name)
					}
				}
				c.requireNoError(c.DeleteVolume(t.Context(), c.volumeJob("made.qcow2", fleet.VolumeParams{})))
				c.wantPoolFiles(when+", deleted", base...)
			},
		}, injectedFault{name: "the agent is killed", first: 1, every: 1, inject: killAgent},
			injectedFault{name: "the agent is killed a moment later", first: 1, every: 2, inject: killAgentLater},
			injectedFault{name: "libvirtd is killed", first: 2, every: 4, inject: killServer})
		if of.on {
			if p := s.status().Power; p != fleet.Running {
				t.Fatalf("the VM that was cloned is %s", p)
			}
			s.stopGuest()
		}
	}
	c.deleteCompletely("the VM", s.vm, "golden.qcow2", "vm.ova")
	c.logFaultPlaces(30)
}
