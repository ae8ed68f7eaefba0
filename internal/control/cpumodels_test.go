package control_test

import (
	"slices"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

func (s *projectFixture) setCPUModels(host fleet.HostID, models ...string) {
	s.t.Helper()
	s.execSQL(`UPDATE hosts SET status = jsonb_set(jsonb_set(status, '{inventory,cpuModels}', to_jsonb($2::text[])), '{inventory,vmFields}', to_jsonb($3::text[])) WHERE id = $1`, host, models, fleet.OptionalFieldNames())
}

// A VM with a named CPU model is placed only on a host that supports the model. Hosts whose agents report no models are
// not excluded.
func TestPlacementRespectsNamedCPUModel(t *testing.T) {
	s := newProjectFixture(t)
	s.setCPUModels(s.h1, "Nehalem", "qemu64")
	s.setCPUModels(s.h2, "EPYC-Rome", "qemu64")
	made := func(a fleet.Actor, name string, host fleet.HostID, model string) (fleet.VMView, error) {
		spec := smallSpec
		spec.CPU.Model = model
		return s.CreateVM(t.Context(), a, control.CreateVM{ProjectID: s.red, HostID: host, Name: name, Spec: spec})
	}
	for name, c := range map[string]struct {
		model string
		want  fleet.HostID
	}{"rome": {"EPYC-Rome", s.h2}, "old": {"Nehalem", s.h1}, "either": {"qemu64", s.h1}, "own": {"host-passthrough", s.h1}} {
		if v, err := made(chief, name, "", c.model); err != nil || v.HostID != c.want {
			t.Errorf("%s is on %s: %v", c.model, v.HostName, err)
		}
	}
	s.wantRefused("on a named host", fleet.Invalid, "h1 does not support the CPU model EPYC-Rome", func() error { _, err := made(chief, "x", s.h1, "EPYC-Rome"); return err })
	s.wantRefused("a model that no host has", fleet.Invalid, "No host can take this VM. 2 hosts: no CPU model POWER9.", func() error { _, err := made(s.member, "x", "", "POWER9"); return err })
	v := s.createVM("web", fleet.Stopped)
	edit := func(model string) error {
		_, _, err := s.UpdateVM(t.Context(), chief, v.ID, editedSpec(s.getVM(v.ID), func(s *fleet.VMSpec) { s.CPU.Model = model }))
		return err
	}
	s.wantRefused("by an edit", fleet.Invalid, "h1 does not support the CPU model EPYC-Rome", func() error { return edit("EPYC-Rome") })
	if err := edit("Nehalem"); err != nil {
		t.Error(err)
	}
	s.execSQL(`UPDATE hosts SET status = status #- '{inventory,cpuModels}'`)
	if _, err := made(chief, "trusted", s.h1, "EPYC-Rome"); err != nil {
		t.Errorf("hosts that report no CPU models: %v", err)
	}
}

// Proposed CPU models come from the hosts, with models common to all hosts first. Actors who see no hosts get only the
// common models.
func TestCPUModelProposalsComeFromHosts(t *testing.T) {
	s := newProjectFixture(t)
	s.setCPUModels(s.h1, "Nehalem", "Penryn", "qemu64")
	s.setCPUModels(s.h2, "EPYC-Rome", "Penryn", "qemu64")
	all, err := s.CPUModels(t.Context(), chief)
	if want := []fleet.CPUModelUse{{Model: "Penryn", Hosts: 2, Of: 2}, {Model: "qemu64", Hosts: 2, Of: 2}, {Model: "EPYC-Rome", Hosts: 1, Of: 2}, {Model: "Nehalem", Hosts: 1, Of: 2}}; err != nil || !slices.Equal(all, want) {
		t.Errorf("%v %v", all, err)
	}
	plain, err := s.CPUModels(t.Context(), s.member)
	if want := []fleet.CPUModelUse{{Model: "Penryn"}, {Model: "qemu64"}}; err != nil || !slices.Equal(plain, want) {
		t.Errorf("a member reads %v %v", plain, err)
	}
}

// The model name "baseline" is replaced by a CPU model when the VM is created or edited. The VM keeps that model when
// hosts change.
func TestCPUBaselineResolvedOnceToCommonModel(t *testing.T) {
	s := newProjectFixture(t)
	s.setCPUModels(s.h1, "Nehalem", "Penryn", "Westmere")
	s.setCPUModels(s.h2, "EPYC-Rome", "Nehalem", "Penryn")
	spec := smallSpec
	spec.CPU.Model = fleet.BaselineModel
	v, err := s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: "web", Spec: spec})
	if err != nil || v.Spec.CPU.Model != "Nehalem" {
		t.Fatalf("%q: %v", v.Spec.CPU.Model, err)
	}
	s.reportPower(v.ID, fleet.Stopped)
	s.setCPUModels(s.h1, "Penryn")
	if now := s.getVM(v.ID).Spec.CPU.Model; now != "Nehalem" {
		t.Errorf("it has become %q", now)
	}
	if _, _, err := s.UpdateVM(t.Context(), s.member, v.ID, editedSpec(s.getVM(v.ID), func(s *fleet.VMSpec) { s.CPU.Model = fleet.BaselineModel })); err != nil || s.getVM(v.ID).Spec.CPU.Model != "Penryn" {
		t.Errorf("by an edit %q: %v", s.getVM(v.ID).Spec.CPU.Model, err)
	}
	s.execSQL(`UPDATE hosts SET status = status #- '{inventory,cpuModels}'`)
	s.wantRefused("hosts without CPU models", fleet.Invalid, "No named CPU model is supported by all hosts", func() error {
		_, err := s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: "other", Spec: spec})
		return err
	})
}
