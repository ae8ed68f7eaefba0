package control_test

import (
	"slices"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

// vmDrift returns the VM's drift as text, ignored drift in parentheses, and whether the VM needs attention.
func (s *projectFixture) vmDrift(a fleet.Actor, id fleet.VMID) (all []string, attention bool) {
	s.t.Helper()
	v, err := s.GetVM(s.t.Context(), a, id)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, d := range v.Status.Drift {
		if d.Ignored {
			all = append(all, "("+d.Field+" "+d.Actual+")")
		} else {
			all = append(all, d.Field+" "+d.Actual)
		}
	}
	return all, v.Attention
}

// reportDrift writes another report of the VM's drift.
func (s *projectFixture) reportDrift(id fleet.VMID, drift ...fleet.Drift) {
	s.t.Helper()
	s.execSQL(`UPDATE vms SET status = status || jsonb_build_object('drift', $2::jsonb) WHERE id = $1`, id, drift)
}

func TestIgnoredDriftCountsUntilHostValueChanges(t *testing.T) {
	s := newProjectFixture(t)
	cpus := fleet.Drift{Field: "cpus", Applied: "1", Actual: "3", Take: rawJSON("3"), Ignored: true} // a host cannot ignore its own drift
	memory := fleet.Drift{Field: "memoryMiB", Applied: "256 MiB", Actual: "512 MiB", Take: rawJSON("512")}
	v := s.driftedVM("web", cpus, memory)
	want := func(when string, attention, listed bool, drift ...string) {
		t.Helper()
		if got, needs := s.vmDrift(s.member, v.ID); !slices.Equal(got, drift) || needs != attention {
			t.Errorf("%s: the drift is %q, and the VM needs attention: %t", when, got, needs)
		}
		page, err := s.ListVMRows(t.Context(), s.member, fleet.Query{Filter: "drift:yes"})
		if err != nil || (len(page.Items) == 1) != listed {
			t.Errorf("%s: drift:yes lists %d VMs, %v", when, len(page.Items), err)
		}
		if rows, err := s.ListVMRows(t.Context(), s.member, fleet.Query{Filter: "attention:yes"}); err != nil || (len(rows.Items) == 1) != attention {
			t.Errorf("%s: attention:yes lists %d VMs, %v", when, len(rows.Items), err)
		}
		if _, err := s.RefreshCounters(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
		if o, err := s.Overview(t.Context(), s.member); err != nil || (o.VMsDrifted == 1) != listed {
			t.Errorf("%s: the dashboard counts %d drifted VMs, %v", when, o.VMsDrifted, err)
		}
	}
	ignore := func(a fleet.Actor, seen map[string]string) error {
		_, err := s.IgnoreDrift(t.Context(), a, v.ID, seen)
		return err
	}
	want("at first", true, true, "cpus 3", "memoryMiB 512 MiB")
	s.wantRefused("a viewer", fleet.Forbidden, "", func() error { return ignore(s.viewer, map[string]string{"cpus": "3"}) })
	s.wantRefused("a user of another project", fleet.NotFound, "", func() error { return ignore(s.blueMember, map[string]string{"cpus": "3"}) })
	s.wantRefused("no field", fleet.Invalid, "at least one field", func() error { return ignore(s.member, nil) })
	s.wantRefused("another value", fleet.Conflict, "again meanwhile", func() error { return ignore(s.member, map[string]string{"cpus": "4"}) })
	s.wantRefused("no drift", fleet.Conflict, "reports no drift of firmware", func() error { return ignore(s.member, map[string]string{"firmware": ""}) })
	if err := ignore(s.member, map[string]string{"cpus": "3"}); err != nil {
		t.Fatal(err)
	}
	want("with one field ignored", true, true, "(cpus 3)", "memoryMiB 512 MiB")
	if err := ignore(s.member, map[string]string{"memoryMiB": ""}); err != nil {
		t.Fatal(err)
	}
	want("with both fields ignored", false, false, "(cpus 3)", "(memoryMiB 512 MiB)")
	if s.countRows("audit WHERE action = 'vm.ignore-drift' AND detail IN ('cpus', 'memoryMiB')") != 2 {
		t.Error("the audit has no lines of the ignored fields")
	}
	if s.countRows("tasks WHERE kind <> 'vm.apply'") != 0 {
		t.Error("ignoring drift queued a task")
	}

	cpus.Actual = "4"
	s.reportDrift(v.ID, cpus, memory)
	want("with another value on the host", true, true, "cpus 4", "(memoryMiB 512 MiB)")
	cpus.Actual = "3"
	s.reportDrift(v.ID, cpus, memory)
	want("with the ignored value on the host again", false, false, "(cpus 3)", "(memoryMiB 512 MiB)")
	if _, err := s.ShowDrift(t.Context(), s.member, v.ID, []string{"cpus"}); err != nil {
		t.Fatal(err)
	}
	want("with one field shown again", true, true, "cpus 3", "(memoryMiB 512 MiB)")
	s.wantRefused("show no field", fleet.Invalid, "at least one field", func() error { _, err := s.ShowDrift(t.Context(), s.member, v.ID, nil); return err })

	if _, err := s.DeleteVM(t.Context(), chief, v.ID, false, ""); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("a VM that is being deleted", fleet.Conflict, "being deleted", func() error { return ignore(chief, map[string]string{"cpus": "3"}) })
}

func TestSpecChangeEndsIgnoringOfItsField(t *testing.T) {
	s := newProjectFixture(t)
	v := s.driftedVM("web",
		fleet.Drift{Field: "cpus", Applied: "1", Actual: "3", Take: rawJSON("3")},
		fleet.Drift{Field: "memoryMiB", Applied: "256 MiB", Actual: "512 MiB", Take: rawJSON("512")},
		fleet.Drift{Field: "name", Applied: "web", Actual: "shop", Take: rawJSON(`"shop"`)},
		fleet.Drift{Field: "cpu.model", Applied: "none", Actual: "host-model", Take: rawJSON(`"host-model"`)})
	if _, err := s.IgnoreDrift(t.Context(), s.member, v.ID, map[string]string{"cpus": "", "memoryMiB": "", "name": "", "cpu.model": ""}); err != nil {
		t.Fatal(err)
	}
	want := func(when string, drift ...string) {
		t.Helper()
		if got, _ := s.vmDrift(s.member, v.ID); !slices.Equal(got, drift) {
			t.Errorf("%s: the drift is %q, want %q", when, got, drift)
		}
	}
	want("after all were ignored", "(cpus 3)", "(memoryMiB 512 MiB)", "(name shop)", "(cpu.model host-model)")
	edit := func(in control.UpdateVM) {
		t.Helper()
		if _, _, err := s.UpdateVM(t.Context(), s.member, v.ID, in); err != nil {
			t.Fatal(err)
		}
	}
	spec := v.Spec
	spec.CPUs = 2
	edit(control.UpdateVM{Spec: &spec})
	want("after an edit of the vCPUs", "cpus 3", "(memoryMiB 512 MiB)", "(name shop)", "(cpu.model host-model)")
	edit(control.UpdateVM{Name: new("db")})
	want("after a rename", "cpus 3", "(memoryMiB 512 MiB)", "name shop", "(cpu.model host-model)")
	edit(control.UpdateVM{Description: new("the shop")})
	want("after another description", "cpus 3", "(memoryMiB 512 MiB)", "name shop", "(cpu.model host-model)")
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,vmFields}', $1)`, fleet.OptionalFieldNames())
	s.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{cpu}', '{"model": "maximum"}') WHERE id = $1`, v.ID)
	want("after another CPU model", "cpus 3", "(memoryMiB 512 MiB)", "name shop", "cpu.model host-model")
	if _, _, err := s.AcceptDrift(t.Context(), s.member, v.ID, map[string]string{"memoryMiB": "512 MiB"}); err != nil {
		t.Fatal(err)
	}
	want("after the drift was accepted", "cpus 3", "memoryMiB 512 MiB", "name shop", "cpu.model host-model")
}

// A tenant does not see the host's value of a field outside the spec, but can ignore the value.
func TestTenantIgnoresDriftWithHiddenValue(t *testing.T) {
	s := newProjectFixture(t)
	v := s.driftedVM("web", fleet.Drift{Field: "nics", Applied: "mac on default", Actual: "mac on direct eth0 of h1"})
	s.wantRefused("the hidden value", fleet.Conflict, "again meanwhile", func() error {
		_, err := s.IgnoreDrift(t.Context(), s.member, v.ID, map[string]string{"nics": "mac on direct eth0 of h1"})
		return err
	})
	if _, err := s.IgnoreDrift(t.Context(), s.member, v.ID, map[string]string{"nics": "changed"}); err != nil {
		t.Fatal(err)
	}
	if got, attention := s.vmDrift(s.member, v.ID); !slices.Equal(got, []string{"(nics changed)"}) || attention {
		t.Errorf("the drift is %q, and the VM needs attention: %t", got, attention)
	}
	if got, _ := s.vmDrift(chief, v.ID); !slices.Equal(got, []string{"(nics mac on direct eth0 of h1)"}) {
		t.Errorf("an administrator reads the drift %q", got)
	}
}

func TestReapplyOfOneFieldNeedsCapableAgent(t *testing.T) {
	s := newProjectFixture(t)
	v := s.driftedVM("web",
		fleet.Drift{Field: "cpus", Applied: "1", Actual: "3", Take: rawJSON("3")},
		fleet.Drift{Field: "memoryMiB", Applied: "256 MiB", Actual: "512 MiB", Take: rawJSON("512")})
	reapply := func(fields ...string) error {
		_, err := s.Reapply(t.Context(), s.member, v.ID, fields)
		return err
	}
	if _, err := s.IgnoreDrift(t.Context(), s.member, v.ID, map[string]string{"cpus": "", "memoryMiB": ""}); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("no drift of the field", fleet.Conflict, "no drift of firmware", func() error { return reapply("firmware") })
	s.execSQL(`UPDATE hosts SET status = status #- '{inventory,reapplies}'`)
	s.wantRefused("an older agent", fleet.Conflict, "Upgrade the host's agent", func() error { return reapply("cpus") })
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,reapplies}', 'true')`)
	if err := reapply("cpus"); err != nil {
		t.Fatal(err)
	}
	if s.countRows(`jobs WHERE kind = 'vm.reapply' AND args->'fields' = '["cpus"]'`) != 1 {
		t.Error("the job does not name the field")
	}
	if s.countRows("audit WHERE action = 'vm.reapply' AND detail = 'cpus'") != 1 {
		t.Error("the audit does not name the field")
	}
	if got, _ := s.vmDrift(s.member, v.ID); !slices.Equal(got, []string{"cpus 3", "(memoryMiB 512 MiB)"}) {
		t.Errorf("after the reapply, the drift is %q: a reapplied field is not ignored any more", got)
	}
}
