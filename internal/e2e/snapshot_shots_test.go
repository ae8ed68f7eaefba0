//go:build linux

package e2e

import (
	"testing"

	"quantix/internal/fleet"
)

// snapshotShots returns the shots of VMs' snapshots and snapshot schedules.
func snapshotShots(t *testing.T, a api, of, running, failed fleet.VMView) []pageShot {
	t.Helper()
	old, snaps := a.createSnapshots(t, of), "/vms/"+string(of.ID)
	nightly := a.createSchedules(t, snaps)
	return []pageShot{
		{"vm-snapshots", snaps + "?tab=snapshots", nil},
		{"vm-snapshots-menu", snaps + "?tab=snapshots", func(p *tab) { p.withMenu(".snaps .snap summary", "", "Delete with its descendants") }},
		{"vm-snapshot-new", "/vms/new?clone=" + snaps[len("/vms/"):] + "&snapshot=" + string(old.ID), nil},
		{"vm-schedules-menu", snaps + "?tab=snapshots", func(p *tab) { p.withMenu("#schedule-"+nightly+" summary", "", "Disable") }},
		{"vm-schedule-new", snaps + "/schedules/new", nil},
		{"vm-schedule-edit", snaps + "/schedules/" + nightly, nil},
		{"vm-schedule-delete", snaps + "/schedules/" + nightly + "/delete", nil},
		{"vm-snapshots-none", "/vms/" + string(running.ID) + "?tab=snapshots", nil},
		{"vm-snapshot-take", snaps + "/snapshots/take", nil},
		{"vm-snapshot-revert", snaps + "/snapshots/" + string(old.ID) + "/revert", nil},
		{"vm-snapshot-delete", snaps + "/snapshots/" + string(old.ID) + "/delete?subtree=1", nil},
		{"vm-snapshots-unlucky", "/vms/" + string(failed.ID) + "?tab=snapshots", nil},
	}
}
