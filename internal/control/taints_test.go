package control_test

import (
	"testing"

	"quantix/internal/control"
	"quantix/internal/control/hosts"
	"quantix/internal/fleet"
)

// changeHost changes the host's spec with change.
func (s *projectFixture) changeHost(host fleet.HostID, change func(*fleet.HostSpec)) error {
	s.t.Helper()
	h, err := s.GetHost(s.t.Context(), chief, host)
	if err != nil {
		return err
	}
	change(&h.Spec)
	_, err = s.UpdateHost(s.t.Context(), chief, host, hosts.UpdateHost{Spec: h.Spec})
	return err
}

// specWithLabels returns the spec of a new host, with labels.
func specWithLabels(labels map[string]string) fleet.HostSpec {
	s := fleet.DefaultHostSpec()
	s.Labels = labels
	return s
}

func parseTaints(texts []string) (out []fleet.Taint) {
	for _, t := range texts {
		out = append(out, fleet.ParseTaint(t))
	}
	return out
}

func (s *projectFixture) setTaints(host fleet.HostID, taints ...string) {
	s.t.Helper()
	if err := s.changeHost(host, func(h *fleet.HostSpec) { h.Taints = parseTaints(taints) }); err != nil {
		s.t.Fatalf("set the taints %q: %v", taints, err)
	}
}

func (s *projectFixture) createTolerant(a fleet.Actor, name string, host fleet.HostID, tolerations string) (fleet.VMView, error) {
	spec := smallSpec
	spec.Placement.Tolerations = tolerations
	return s.CreateVM(s.t.Context(), a, control.CreateVM{ProjectID: s.red, HostID: host, Name: name, Spec: spec})
}

// A tainted host accepts only VMs that tolerate its taints. Existing VMs stay and can be edited.
func TestTaintedHostNeedsToleration(t *testing.T) {
	s := newProjectFixture(t)
	existing := s.createVM("there", fleet.Running) // on h1, which has the most free memory
	s.setTaints(s.h1, "gpu=a100", "maintenance")
	one, err := s.createTolerant(chief, "one", "", "")
	if err != nil || one.HostID != s.h2 {
		t.Fatalf("a VM that tolerates nothing is on %s: %v", one.HostName, err)
	}
	s.wantRefused("by its name", fleet.Invalid, "h1 has the taint gpu=a100, maintenance, which the VM does not tolerate", func() error { _, err := s.createTolerant(chief, "two", s.h1, ""); return err })
	s.wantRefused("with one of two tolerations", fleet.Invalid, "h1 has the taint maintenance, which", func() error { _, err := s.createTolerant(chief, "two", s.h1, "gpu"); return err })
	s.wantRefused("with another value of the taint", fleet.Invalid, "h1 has the taint gpu=a100, which", func() error { _, err := s.createTolerant(chief, "two", s.h1, "gpu=l40s maintenance"); return err })
	for name, tolerations := range map[string]string{"by-key": "gpu maintenance", "by-value": "maintenance gpu=a100", "by-all": "*"} {
		if v, err := s.createTolerant(chief, name, "", tolerations); err != nil || v.HostID != s.h1 {
			t.Errorf("%s: on %s: %v", name, v.HostName, err)
		}
	}
	if _, _, err := s.UpdateVM(t.Context(), s.member, existing.ID, editedSpec(s.getVM(existing.ID), func(v *fleet.VMSpec) { v.MemoryMiB = 512 })); err != nil {
		t.Errorf("an edit of an existing VM: %v", err)
	}
	if v := s.getVM(existing.ID); v.HostID != s.h1 || v.Attention {
		t.Errorf("an existing VM is on %s, attention %t", v.HostName, v.Attention)
	}
	s.setTaints(s.h1)
	if v, err := s.createTolerant(chief, "free", "", ""); err != nil || v.HostID != s.h1 {
		t.Errorf("without taints on %s: %v", v.HostName, err)
	}
	for text, taints := range map[string][]string{
		"write gpu or gpu=a100": {"GPU"}, "is listed twice": {"gpu", "gpu:NoSchedule"}, `there is no effect "Never"`: {"gpu:Never"}, "at most 16 taints": make([]string, 17), `Taint "a=b c"`: {"a=b c"}, `Taint "*"`: {"*"},
	} {
		s.wantRefused(text, fleet.Invalid, text, func() error {
			return s.changeHost(s.h1, func(h *fleet.HostSpec) { h.Taints = parseTaints(taints) })
		})
	}
}

// Tenants cannot set tolerations and cannot see the hosts' taints.
func TestTenantsCannotSetTolerations(t *testing.T) {
	s := newProjectFixture(t)
	s.setTaints(s.h1, "gpu")
	s.setTaints(s.h2, "secret")
	s.wantRefused("a member's VM", fleet.Invalid, "No host can take this VM. 2 hosts: reserved for other VMs by a taint.", func() error { _, err := s.createTolerant(s.member, "one", "", ""); return err })
	for _, tolerations := range []string{"gpu", "*"} {
		s.wantRefused("a member's toleration", fleet.Invalid, "Only those who may change infrastructure may choose tolerations", func() error { _, err := s.createTolerant(s.member, "one", "", tolerations); return err })
	}
	v, err := s.createTolerant(chief, "one", "", "gpu")
	if err != nil {
		t.Fatal(err)
	}
	s.reportPower(v.ID, fleet.Stopped)
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '1 hour'`)
	s.wantRefused("a member's edit, while the host is offline", fleet.Invalid, "Only those who may change infrastructure", func() error {
		_, _, err := s.UpdateVM(t.Context(), s.member, v.ID, editedSpec(s.getVM(v.ID), func(v *fleet.VMSpec) { v.Placement.Tolerations = "*" }))
		return err
	})
	if _, _, err := s.UpdateVM(t.Context(), s.member, v.ID, editedSpec(s.getVM(v.ID), func(v *fleet.VMSpec) { v.Placement.Tolerations = "" })); err != nil {
		t.Errorf("a member removes the toleration: %v", err)
	}
}

// Policy fields that nothing uses yet are checked, stored and returned, and no job is queued for them.
func TestPolicyFieldsWithoutEffectAreStored(t *testing.T) {
	s := newProjectFixture(t)
	spec := smallSpec
	spec.Policy.HAPriority, spec.Migration = "high", fleet.VMMigration{PostCopy: true, DowntimeMs: 300}
	v, err := s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: "web", Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	s.reportPower(v.ID, fleet.Running)
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '1 hour'`)
	changed := editedSpec(s.getVM(v.ID), func(v *fleet.VMSpec) { v.Policy.HAPriority, v.Migration.DowntimeMs = "never", 0 })
	if _, _, err := s.UpdateVM(t.Context(), s.member, v.ID, changed); err != nil {
		t.Fatal(err)
	}
	if now := s.getVM(v.ID).Spec; now.Policy.HAPriority != "never" || now.Migration != (fleet.VMMigration{PostCopy: true}) {
		t.Errorf("%+v %+v", now.Policy, now.Migration)
	}
	if n := s.countRows("audit WHERE detail LIKE '%HA priority High → Never, maximum downtime 300 ms → default%'"); n != 1 {
		t.Errorf("%d audit lines of the change", n)
	}
}
