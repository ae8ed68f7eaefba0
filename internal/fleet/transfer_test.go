package fleet_test

import (
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func TestMigrationRefusedWithReason(t *testing.T) {
	t.Parallel()
	ref := fleet.Volref{PoolID: "p", Volume: "web-0123456789ab-1.qcow2"}
	valid := func() fleet.VMView {
		return fleet.VMView{
			VM: fleet.VM{
				Meta: fleet.Meta{ID: "v", Name: "web"}, Spec: fleet.VMSpec{Firmware: fleet.BIOS, Disks: []fleet.Disk{{PoolID: ref.PoolID, Volume: ref.Volume}}},
				Status: &fleet.VMStatus{Power: fleet.Stopped},
			},
			Phase: fleet.PhaseStopped,
		}
	}
	if ok, why := valid().AllowsMigration(nil, nil); !ok {
		t.Errorf("a stopped VM cannot migrate: %s", why)
	}
	secure := valid()
	secure.Spec.Firmware, secure.Spec.Security.TPM = fleet.UEFI, true
	if ok, why := secure.AllowsMigration(nil, nil); !ok {
		t.Errorf("a stopped VM with UEFI and a TPM cannot migrate: %s", why)
	}
	for says, spoil := range map[string]func(*fleet.VMView){
		"Only a running or a stopped VM":  func(v *fleet.VMView) { v.Phase, v.Status.Power = fleet.PhasePaused, fleet.Paused },
		"offline":                         func(v *fleet.VMView) { v.Phase = fleet.PhaseUnknown },
		"not on its host":                 func(v *fleet.VMView) { v.Status = nil },
		"being deleted":                   func(v *fleet.VMView) { v.Phase = fleet.PhaseDeleting },
		"VM was changed":                  func(v *fleet.VMView) { v.Status.Drift = []fleet.Drift{{Field: "cpus"}} },
		"Disk 1 is shared with other VMs": func(v *fleet.VMView) { v.Spec.Disks[0].Existing, v.Spec.Disks[0].Shareable = true, true },
		"Disk 1 is a LUN":                 func(v *fleet.VMView) { v.Spec.Disks[0].Existing = true },
		"backed by an image":              func(v *fleet.VMView) { v.Spec.Disks[0].Overlay = true },
		"not a qcow2 file":                func(v *fleet.VMView) { v.Spec.Disks[0].Volume = "disk" },
		"It is gone.": func(v *fleet.VMView) {
			v.Status.Faults = []fleet.Fault{{Code: fleet.FaultDisk, Disk: &ref, Text: "It is gone."}}
		},
	} {
		v := valid()
		spoil(&v)
		if ok, why := v.AllowsMigration(nil, nil); ok || !strings.Contains(why, says) {
			t.Errorf("migration is allowed, or refused with %q; want %q", why, says)
		}
	}
	if ok, why := valid().AllowsMigration([]fleet.MovingDisk{{}}, nil); ok || !strings.Contains(why, "being moved") {
		t.Errorf("during a disk migration: %q", why)
	}
	if ok, why := valid().AllowsMigration(nil, &fleet.MigratingVM{MigrationParams: fleet.MigrationParams{ToName: "h2"}}); ok || !strings.Contains(why, "already migrating to h2") {
		t.Errorf("during a migration: %q", why)
	}
}
