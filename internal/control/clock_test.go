package control_test

import (
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// If the database clock is set back, an offline host must not appear online: a last-seen time in the future counts as
// unknown.
func TestHostWithFutureLastSeenIsUnknown(t *testing.T) {
	r := newHostFixture(t)
	vm := r.addVM("web")
	r.reportState("one", wire.VMReport{ID: vm, Generation: 1, Status: fleet.VMStatus{Power: fleet.Running}})
	expect := func(seen string, host fleet.HostPhase, phase fleet.Phase, doubted int) {
		t.Helper()
		r.execSQL(`UPDATE host_sessions SET seen_at = now() + $1::interval, last_look = now() + $1::interval, blind_since = NULL`, seen)
		if h, err := r.GetHost(t.Context(), chief, r.agent.HostID); err != nil || h.Phase != host {
			t.Errorf("seen in %s, the host is %s (%v)", seen, h.Phase, err)
		}
		if v, err := r.GetVM(t.Context(), chief, vm); err != nil || v.Phase != phase {
			t.Errorf("seen in %s, the VM is %s (%v)", seen, v.Phase, err)
		}
		hosts, err := r.ListHosts(t.Context(), chief, fleet.Query{Filter: "state:" + string(host)})
		if err != nil || len(hosts.Items) != 1 {
			t.Errorf("seen in %s, the list of %s hosts has %d (%v)", seen, host, len(hosts.Items), err)
		}
		vms, err := r.ListVMs(t.Context(), chief, fleet.Query{Filter: "state:" + string(phase)})
		if err != nil || len(vms.Items) != 1 {
			t.Errorf("seen in %s, the list of %s VMs has %d (%v)", seen, phase, len(vms.Items), err)
		}
		r.execSQL(`DELETE FROM jobs`)
		r.execSQL(`UPDATE vms SET generation = observed_generation + 1`)
		queued := 1 - doubted
		if err := r.QueueDriftedObjects(t.Context(), fleet.SystemActor); err != nil || queryValue[int](r, `SELECT count(*)::int FROM jobs WHERE kind = 'vm.apply'`) != queued {
			t.Errorf("seen in %s, the drifted VM is not queued %d times (%v)", seen, queued, err)
		}
		r.execSQL(`DELETE FROM jobs`)
		r.execSQL(`UPDATE vms SET generation = observed_generation`)
		if all, err := r.StaleHosts(t.Context(), fleet.SystemActor); err != nil || len(all) != doubted {
			t.Errorf("seen in %s, the passes doubt %d hosts (%v)", seen, len(all), err)
		}
	}
	expect("2 seconds", fleet.HostOnline, fleet.PhaseRunning, 0)
	expect("1 hour", fleet.HostUnknown, fleet.PhaseUnknown, 1)
}
