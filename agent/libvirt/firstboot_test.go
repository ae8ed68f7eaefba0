//go:build linux && ordeal

package libvirt_test

import (
	"context"
	"testing"

	"quantix/internal/fleet"
)

// The first-boot seed of a snapshot with memory stays until the snapshot is deleted, even if the VM's first-boot
// settings change.
func TestSnapshotKeepsFirstBootSeed(t *testing.T) {
	t.Parallel()
	for kind, files := range map[fleet.FirstBootKind]map[string][]byte{
		fleet.CloudInit: {"meta-data": []byte("instance-id: x\n"), "user-data": []byte("#cloud-config\n"), "network-config": []byte("version: 2\n")},
		fleet.Ignition:  {"config.ign": []byte(`{"ignition": {"version": "3.4.0"}}`)},
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			s := &snapper{fixture: f, vm: f.newVM()}
			s.vm.Spec.Disks = []fleet.Disk{f.newDisk("disk.qcow2")}
			s.vm.Spec.FirstBoot = fleet.VMFirstBoot{Kind: kind, Number: 1}
			apply := func() {
				t.Helper()
				in := applyJob(s.vm, s.pool)
				in.FirstBoot = func(context.Context) (map[string][]byte, error) { return files, nil }
				s.requireNoError(s.ApplyVM(t.Context(), in))
			}
			apply()
			s.requireNoError(s.StartVM(t.Context(), s.vm.ID))
			id := s.takeSnapshot(true)
			s.stopGuest()
			s.vm.Generation, s.vm.Spec.FirstBoot = 2, fleet.VMFirstBoot{}
			apply()
			if n := len(seedContents(t, s.vm.ID)); n != 1 {
				t.Fatalf("with a snapshot that uses the seed, %d seeds exist", n)
			}
			s.requireNoError(s.RevertSnapshot(t.Context(), s.snapshotWork(fleet.SnapshotParams{ID: id})))
			if st := s.status(); st.Power != fleet.Running || len(st.Drift)+len(st.Faults) > 0 {
				t.Errorf("after the revert: %+v", st)
			}
			s.stopGuest()
			s.requireNoError(s.DeleteSnapshot(t.Context(), s.snapshotWork(fleet.SnapshotParams{ID: id})))
			s.vm.Generation = 3
			apply()
			if n := len(seedContents(t, s.vm.ID)); n != 0 {
				t.Errorf("without the snapshot, %d seeds exist", n)
			}
		})
	}
}
