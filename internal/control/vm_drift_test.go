package control_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"quantix/internal/fleet"
)

// driftedVM returns a VM in project red that was changed on its host.
func (s *projectFixture) driftedVM(name string, drift ...fleet.Drift) fleet.VMView {
	s.t.Helper()
	v := s.createVM(name, fleet.Stopped)
	s.execSQL(`UPDATE vms SET status = status || jsonb_build_object('drift', $2::jsonb) WHERE id = $1`, v.ID, drift)
	return s.getVM(v.ID)
}

func TestDriftedVMNeedsAttentionAndMatchesDriftFilter(t *testing.T) {
	s := newProjectFixture(t)
	v := s.driftedVM("web", fleet.Drift{Field: "cpus", Applied: "1", Actual: "3", Take: rawJSON("3")})
	offline := s.driftedVM("silent", fleet.Drift{Field: "name", Applied: "silent", Actual: "loud"})
	s.execSQL(`UPDATE vms SET host_id = $1 WHERE id = $2`, s.h2, offline.ID)
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '31 seconds' WHERE host_id = $1`, s.h2)
	s.createVM("same", fleet.Stopped)
	names := func(list func(context.Context, fleet.Actor, fleet.Query) (fleet.Page[fleet.VMView], error), filter string) (names []string) {
		page, err := list(t.Context(), s.member, fleet.Query{Filter: filter})
		for _, vm := range page.Items {
			names = append(names, vm.Name)
			if (len(vm.Status.Drift) > 0) != (vm.Name != "same") {
				t.Errorf("%s lists %s with the drift %v", filter, vm.Name, vm.Status.Drift)
			}
		}
		if err != nil {
			t.Error(err)
		}
		return names
	}
	for filter, want := range map[string][]string{
		"drift:yes": {"web"}, "drift:no": {"same", "silent"}, "-drift:yes": {"same", "silent"}, "-drift:no": {"web"}, "drift:yes,no": {"same", "silent", "web"},
	} {
		if got := names(s.ListVMs, filter); !slices.Equal(got, want) {
			t.Errorf("%s lists %v, want %v", filter, got, want)
		}
	}
	if got := names(s.ListVMRows, "attention:yes drift:yes"); !slices.Equal(got, []string{"web"}) || !v.Attention {
		t.Errorf("the drifted VMs that need attention are %v (its page says %t)", got, v.Attention)
	}
	s.wantRefused("another value", fleet.Invalid, "Values: yes, no", func() error {
		_, err := s.ListVMs(t.Context(), chief, fleet.Query{Filter: "drift:perhaps"})
		return err
	})
	count := func() int {
		t.Helper()
		if _, err := s.RefreshCounters(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
		o, err := s.Overview(t.Context(), s.member)
		if err != nil {
			t.Fatal(err)
		}
		return o.VMsDrifted
	}
	if n := count(); n != 1 {
		t.Errorf("the dashboard counts %d drifted VMs", n)
	}
	if _, err := s.DeleteVM(t.Context(), chief, v.ID, false, ""); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != 0 || len(names(s.ListVMs, "drift:yes")) != 0 {
		t.Errorf("a VM that is being deleted counts as drifted: %d", n)
	}
}

func rawJSON(text string) json.RawMessage { return json.RawMessage(text) }

func TestAcceptDriftWritesHostValuesToSpec(t *testing.T) {
	s := newProjectFixture(t)
	v := s.driftedVM("web",
		fleet.Drift{Field: "cpus", Applied: "1", Actual: "3", Take: rawJSON("3")},
		fleet.Drift{Field: "memoryMiB", Applied: "256 MiB", Actual: "512 MiB", Take: rawJSON("512")},
		fleet.Drift{Field: "name", Applied: "web", Actual: "shop", Take: rawJSON(`"shop"`)},
		fleet.Drift{Field: "watchdog", Applied: "none", Actual: "/dev/watchdog of h1"})
	take := func(a fleet.Actor, seen map[string]string) error {
		_, _, err := s.AcceptDrift(t.Context(), a, v.ID, seen)
		return err
	}
	s.wantRefused("a viewer", fleet.Forbidden, "", func() error { return take(s.viewer, map[string]string{"cpus": "3"}) })
	s.wantRefused("a user of another project", fleet.NotFound, "", func() error { return take(s.blueMember, map[string]string{"cpus": "3"}) })
	s.wantRefused("nothing", fleet.Invalid, "Choose", func() error { return take(chief, nil) })
	s.wantRefused("changed meanwhile", fleet.Conflict, "again meanwhile", func() error { return take(chief, map[string]string{"cpus": "2"}) })
	s.wantRefused("no drift", fleet.Conflict, "again meanwhile", func() error { return take(chief, map[string]string{"firmware": "uefi"}) })
	s.wantRefused("no setting", fleet.Conflict, "no such setting", func() error { return take(chief, map[string]string{"watchdog": "/dev/watchdog of h1"}) })
	if shown, err := s.GetVM(t.Context(), s.member, v.ID); err != nil || shown.Status.Drift[3].Actual != "changed" {
		t.Errorf("a member reads %+v, %v", shown.Status.Drift, err)
	}
	now, task, err := s.AcceptDrift(t.Context(), s.member, v.ID, map[string]string{"cpus": "3", "name": "shop"})
	if err != nil || task == "" || now.Name != "shop" || now.Spec.CPUs != 3 || now.Spec.MemoryMiB != v.Spec.MemoryMiB || now.Generation != v.Generation+1 {
		t.Fatalf("%+v %q %v", now, task, err)
	}
	if s.countRows("audit WHERE action = 'vm.accept-drift' AND detail = 'cpus, name'") != 1 || s.jobList(fleet.SubjectVM(v.ID)) != "vm.apply done, vm.apply queued" {
		t.Errorf("jobs %s", s.jobList(fleet.SubjectVM(v.ID)))
	}
}

// Accepting drift is checked like an edit by the same person: a host's report grants no permissions.
func TestAcceptDriftNeedsEditPermissions(t *testing.T) {
	s := newProjectFixture(t)
	other := s.createVM("db", fleet.Stopped)
	s.execSQL(`UPDATE vms SET spec = spec || `+defaultNICSQL("52:54:00:00:00:07")+` WHERE id = $1`, other.ID)
	for says, drift := range map[string]fleet.Drift{
		"at most 16 TiB":            {Field: "memoryMiB", Take: rawJSON("99999999999")},
		"16,384 MiB of memory in":   {Field: "memoryMiB", Take: rawJSON("1000000")},
		"Enter 1 to 768 vCPUs":      {Field: "cpus", Take: rawJSON("0")},
		"A name has":                {Field: "name", Take: rawJSON(`"../x"`)},
		"is not defined in Quantix": {Field: "disks", Take: rawJSON(`[{"poolId":"p","volume":"theirs.qcow2","sizeBytes":1}]`)},
		"no bridge \"br-secret\"":   {Field: "nics", Take: rawJSON(`[{"bridge":"br-secret","mac":"52:54:00:00:00:09"}]`)},
		"without an address":        {Field: "nics", Take: rawJSON(`[{"network":"default"}]`)},
		"Another VM has this":       {Field: "nics", Take: rawJSON(`[{"network":"default","mac":"52:54:00:00:00:07"}]`)},
		"There is no such pool":     {Field: "iso", Take: rawJSON(`{"poolId":"p","volume":"cd.iso"}`)},
		`must be "bios" or "uefi"`:  {Field: "firmware", Take: rawJSON(`"coreboot"`)},
	} {
		drift.Actual = "now"
		v := s.driftedVM("web-"+string(fleet.NewID[fleet.VMID]())[30:], drift)
		s.wantRefused(says, fleet.Invalid, says, func() error {
			_, _, err := s.AcceptDrift(t.Context(), chief, v.ID, map[string]string{drift.Field: "now"})
			return err
		})
	}
	for says, drift := range map[string]fleet.Drift{
		"not valid for a VM":  {Field: "cpus", Take: rawJSON(`"three"`)},
		"not valid for a":     {Field: "secret", Take: rawJSON(`1`)},
		"cannot be accepted":  {Field: "power", Take: rawJSON(`"running"`)},
		"exists in red alrea": {Field: "name", Take: rawJSON(`"db"`)},
	} {
		drift.Actual = "now"
		v := s.driftedVM("web-"+string(fleet.NewID[fleet.VMID]())[30:], drift)
		s.wantRefused(says, fleet.Conflict, says, func() error {
			_, _, err := s.AcceptDrift(t.Context(), chief, v.ID, map[string]string{drift.Field: "now"})
			return err
		})
	}
}

// Drift of a disk can be accepted only in the fields that an edit can change.
func TestAcceptDriftChangesOnlyEditableDiskFields(t *testing.T) {
	s := newProjectFixture(t)
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,vmFields}', $1)`, fleet.OptionalFieldNames())
	v, _ := s.vmWithMissingDisk("web")
	say := func(change func([]fleet.Disk) []fleet.Disk) error {
		disks, err := json.Marshal(change(slices.Clone(v.Spec.Disks)))
		if err != nil {
			t.Fatal(err)
		}
		s.execSQL(`UPDATE vms SET status = status || jsonb_build_object('drift', jsonb_build_array(jsonb_build_object('field', 'disks', 'applied', '-', 'actual', 'now', 'take', $2::jsonb))) WHERE id = $1`, v.ID, string(disks))
		_, _, err = s.AcceptDrift(t.Context(), chief, v.ID, map[string]string{"disks": "now"})
		return err
	}
	for name, change := range map[string]func([]fleet.Disk) []fleet.Disk{
		"twice":        func(all []fleet.Disk) []fleet.Disk { return append(all, all[0]) },
		"not its own":  func(all []fleet.Disk) []fleet.Disk { all[0].ImageSHA256 = "0"; return all },
		"another size": func(all []fleet.Disk) []fleet.Disk { all[0].SizeBytes *= 2; return all },
		"another base": func(all []fleet.Disk) []fleet.Disk {
			all[1].Image = &fleet.Volref{PoolID: s.nfs, Volume: "x.qcow2"}
			return all
		},
	} {
		s.wantRefused(name, fleet.Invalid, "is not defined in Quantix", func() error { return say(change) })
	}
	if err := say(func(all []fleet.Disk) []fleet.Disk { all[0].Cache = "writeback"; return all }); err != nil {
		t.Errorf("another cache: %v", err)
	}
}

// By accepting drift, a tenant cannot get networks or addresses that an edit would refuse.
func TestTenantAcceptsDriftOnlyOfGrantedNetworks(t *testing.T) {
	s := newProjectFixture(t)
	for says, nic := range map[string]string{
		"is not published to this project":                `[{"bridge":"br0","mac":"52:54:00:00:00:09"}]`,
		"MAC addresses chosen in this project must begin": `[{"network":"default","mac":"52:54:00:00:00:09"}]`,
	} {
		drift := fleet.Drift{Field: "nics", Actual: "now", Take: rawJSON(nic)}
		v := s.driftedVM("web-"+string(fleet.NewID[fleet.VMID]())[30:], drift)
		if says == "is not published to this project" { // the VM already had this NIC
			s.execSQL(`UPDATE vms SET spec = spec || `+defaultNICSQL("52:54:00:00:00:09")+` WHERE id = $1`, v.ID)
		}
		s.wantRefused(says, fleet.Invalid, says, func() error {
			_, _, err := s.AcceptDrift(t.Context(), s.member, v.ID, map[string]string{"nics": "now"})
			return err
		})
	}
}

func TestReapplyUndoesDrift(t *testing.T) {
	s := newProjectFixture(t)
	same := s.createVM("same", fleet.Stopped)
	put := func(a fleet.Actor, id fleet.VMID) error { _, err := s.Reapply(t.Context(), a, id, nil); return err }
	s.wantRefused("nothing was changed", fleet.Conflict, "The VM was not changed on its host outside", func() error { return put(chief, same.ID) })
	v := s.driftedVM("web", fleet.Drift{Field: "cpus", Applied: "1", Actual: "3"})
	s.wantRefused("a viewer", fleet.Forbidden, "", func() error { return put(s.viewer, v.ID) })
	s.wantRefused("a user of another project", fleet.NotFound, "", func() error { return put(s.blueMember, v.ID) })
	if err := put(s.member, v.ID); err != nil {
		t.Fatal(err)
	}
	if s.jobList(fleet.SubjectVM(v.ID)) != "vm.apply done, vm.reapply queued" || s.countRows("audit WHERE action = 'vm.reapply' AND detail = 'cpus'") != 1 {
		t.Errorf("jobs %s", s.jobList(fleet.SubjectVM(v.ID)))
	}
	if _, err := s.DeleteVM(t.Context(), chief, v.ID, false, ""); err != nil {
		t.Fatal(err)
	}
	if got := s.jobList(fleet.SubjectVM(v.ID)); got != "vm.apply done, vm.reapply cancelled, vm.delete queued" {
		t.Errorf("with the VM being deleted: %s", got)
	}
}
