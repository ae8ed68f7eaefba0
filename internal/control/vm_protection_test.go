package control_test

import (
	"strings"
	"testing"
	"time"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

func (s *projectFixture) protectRequest(a fleet.Actor, id fleet.VMID, in control.ProtectVM) func() error {
	return func() error {
		_, err := s.SetVMProtection(s.t.Context(), a, id, in)
		return err
	}
}

func timeIn(d time.Duration) *time.Time {
	t := time.Now().Add(d)
	return &t
}

func TestInvalidVMProtectionRefused(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Running)
	for name, c := range map[string]struct {
		in   control.ProtectVM
		says string
	}{
		"a lock without a reason":      {control.ProtectVM{Locked: true}, "Give the reason"},
		"a lock with blanks":           {control.ProtectVM{Locked: true, Reason: "  \t "}, "Give the reason"},
		"a reason in two lines":        {control.ProtectVM{Locked: true, Reason: "a\nb"}, "one line"},
		"a reason with a NUL":          {control.ProtectVM{Locked: true, Reason: "a\x00b"}, "one line"},
		"a reason that is no text":     {control.ProtectVM{Locked: true, Reason: "\xff"}, "one line"},
		"a reason that is a book":      {control.ProtectVM{Locked: true, Reason: strings.Repeat("a", fleet.MaxLockReason+1)}, "one line"},
		"expired before":               {control.ProtectVM{ExpiresAt: timeIn(-time.Minute)}, "Choose a future time within 20 years."},
		"expires in a century":         {control.ProtectVM{ExpiresAt: timeIn(100 * 365 * 24 * time.Hour)}, "Choose a future time within 20 years."},
		"expires at no time":           {control.ProtectVM{ExpiresAt: &time.Time{}}, "Choose a future time within 20 years."},
		"is shut down at no time":      {control.ProtectVM{ExpiryStops: true}, "Enter the expiry time, or disable the shutdown at"},
		"wrong in everything it could": {control.ProtectVM{Locked: true, ExpiresAt: timeIn(-time.Hour)}, "2 fields"},
	} {
		s.wantRefused(name, fleet.Invalid, c.says, s.protectRequest(chief, v.ID, c.in))
	}
	s.wantRefused("a VM of another project", fleet.NotFound, "", s.protectRequest(s.blueMember, v.ID, control.ProtectVM{Protected: true}))
	s.wantRefused("a viewer", fleet.Forbidden, "", s.protectRequest(s.viewer, v.ID, control.ProtectVM{Protected: true}))
	s.wantRefused("no VM", fleet.NotFound, "", s.protectRequest(chief, fleet.NewID[fleet.VMID](), control.ProtectVM{}))
}

func TestDeleteRefusedForProtectedVM(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Stopped)
	if err := s.protectRequest(s.member, v.ID, control.ProtectVM{Protected: true})(); err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]fleet.Actor{"its member": s.member, "an administrator": chief} {
		s.wantRefused(name, fleet.Conflict, "protected from deletion", func() error {
			_, err := s.DeleteVM(t.Context(), a, v.ID, false, "")
			return err
		})
	}
	if now := s.getVM(v.ID); now.Generation != v.Generation || !now.Protection.Protected || now.Attention {
		t.Errorf("the VM is %+v", now.Protection)
	}
	if n := s.countRows("audit WHERE action = 'vm.protect' AND detail = 'protected from deletion'"); n != 1 {
		t.Errorf("the audit has %d lines", n)
	}
	if err := s.protectRequest(s.member, v.ID, control.ProtectVM{})(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.DeleteVM(t.Context(), s.member, v.ID, false, ""); err != nil {
		t.Errorf("no longer protected: %v", err)
	}
}

// Only administrators and the person who locked a VM can change or unlock it. Everybody who sees the VM sees the reason
// of the lock and the person's name.
func TestChangesRefusedForLockedVM(t *testing.T) {
	s := newProjectFixture(t)
	v := s.vmWithGuestAgent("web")
	colleague := s.addProjectMember("max", s.red, fleet.RoleMember)
	if err := s.protectRequest(s.member, v.ID, control.ProtectVM{Locked: true, Reason: "database upgrade"})(); err != nil {
		t.Fatal(err)
	}
	cpus := smallSpec
	cpus.CPUs = 2
	const says = "mia has locked the VM: database upgrade."
	for name, do := range map[string]func(fleet.Actor) error{
		"stop": func(a fleet.Actor) error {
			_, err := s.RequestPowerAction(t.Context(), a, v.ID, fleet.ActStop)
			return err
		},
		"edit": func(a fleet.Actor) error {
			_, _, err := s.UpdateVM(t.Context(), a, v.ID, control.UpdateVM{Spec: &cpus})
			return err
		},
		"rename": func(a fleet.Actor) error {
			name := "new"
			_, _, err := s.UpdateVM(t.Context(), a, v.ID, control.UpdateVM{Name: &name})
			return err
		},
		"delete":   func(a fleet.Actor) error { _, err := s.DeleteVM(t.Context(), a, v.ID, false, ""); return err },
		"unlock":   func(a fleet.Actor) error { return s.protectRequest(a, v.ID, control.ProtectVM{})() },
		"put back": func(a fleet.Actor) error { _, err := s.Reapply(t.Context(), a, v.ID, nil); return err },
		"freeze": func(a fleet.Actor) error {
			return s.guestRequest(a, v.ID, control.GuestRequest{Action: fleet.ActFreeze})()
		},
	} {
		s.wantRefused(name, fleet.Conflict, says, func() error { return do(colleague) })
	}
	task, err := s.RequestPowerActions(t.Context(), colleague, fleet.ActStop, []fleet.VMID{v.ID})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.childStates(task.ID); !strings.Contains(got, "failed") {
		t.Errorf("of many: %s", got)
	}
	seen, err := s.GetVM(t.Context(), colleague, v.ID)
	if err != nil || seen.ChangeRefusal != says || seen.Protection.Lock == nil || seen.Protection.Lock.Reason != "database upgrade" {
		t.Errorf("a colleague sees %q %+v, %v", seen.ChangeRefusal, seen.Protection.Lock, err)
	}
	for _, a := range seen.Actions() {
		if a.Allowed != (a.Action == fleet.ActConsole) || !a.Allowed && a.Reason != says {
			t.Errorf("%s: %+v", a.Action, a)
		}
	}
	for name, a := range map[string]fleet.Actor{"who locked it": s.member, "an administrator": chief} {
		if seen, err := s.GetVM(t.Context(), a, v.ID); err != nil || seen.ChangeRefusal != "" {
			t.Errorf("%s is barred: %q, %v", name, seen.ChangeRefusal, err)
		}
		if _, err := s.RequestPowerAction(t.Context(), a, v.ID, fleet.ActReset); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	was := s.getVM(v.ID).Protection.Lock
	if err := s.protectRequest(chief, v.ID, control.ProtectVM{Locked: true, Reason: "database upgrade", Protected: true})(); err != nil || *s.getVM(v.ID).Protection.Lock != *was {
		t.Errorf("an unchanged lock has another owner: %+v, %v", s.getVM(v.ID).Protection.Lock, err)
	}
	if err := s.protectRequest(chief, v.ID, control.ProtectVM{})(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RequestPowerAction(t.Context(), colleague, v.ID, fleet.ActStop); err != nil {
		t.Errorf("unlocked: %v", err)
	}
}

// A VM near its expiry needs attention, and is shut down at its expiry if its protection says so. A locked VM is not
// shut down. After the expiry time is moved into the future, the VM no longer needs attention.
func TestExpiredVMShutsDownIfConfigured(t *testing.T) {
	s := newProjectFixture(t)
	announced, stops, locked, later := s.createVM("told", fleet.Running), s.createVM("stops", fleet.Running), s.createVM("locked", fleet.Running), s.createVM("later", fleet.Running)
	until := func(v fleet.VMView, in control.ProtectVM) {
		t.Helper()
		if err := s.protectRequest(s.member, v.ID, in)(); err != nil {
			t.Fatal(err)
		}
	}
	until(announced, control.ProtectVM{ExpiresAt: timeIn(time.Hour)})
	until(stops, control.ProtectVM{ExpiresAt: timeIn(8 * 24 * time.Hour), ExpiryStops: true})
	until(locked, control.ProtectVM{ExpiresAt: timeIn(time.Hour), ExpiryStops: true, Locked: true, Reason: "migration"})
	until(later, control.ProtectVM{ExpiresAt: timeIn(30 * 24 * time.Hour), ExpiryStops: true})
	if v := s.getVM(announced.ID); v.Protection.Expiry != fleet.ExpiresSoon || !v.Attention || v.Status.Faults[0].Code != fleet.FaultExpiry {
		t.Errorf("within the notice it is %+v", v.Protection)
	}
	pass := func() {
		t.Helper()
		for range 2 {
			if err := s.ExpireVMs(t.Context(), fleet.SystemActor); err != nil {
				t.Fatal(err)
			}
		}
	}
	is := func(v fleet.VMView, want fleet.Expiry, jobs string) {
		t.Helper()
		now := s.getVM(v.ID)
		if now.Protection.Expiry != want || now.Attention != (want != "" && now.Phase != fleet.PhaseStopping) && now.Phase == fleet.PhaseRunning {
			t.Errorf("%s is %+v, attention %t", v.Name, now.Protection, now.Attention)
		}
		if got := s.jobList(fleet.SubjectVM(v.ID)); strings.TrimPrefix(strings.TrimPrefix(got, "vm.apply done"), ", ") != jobs {
			t.Errorf("%s: %s, want %s", v.Name, got, jobs)
		}
	}
	pass()
	is(stops, "", "")
	s.execSQL(`UPDATE vms SET expires_at = expires_at - interval '2 days'`)
	pass()
	is(announced, fleet.Expired, "")
	is(locked, fleet.Expired, "")
	is(stops, fleet.ExpiresSoon, "")
	s.execSQL(`UPDATE vms SET expires_at = now() WHERE id = $1`, stops.ID)
	pass()
	is(stops, fleet.Expired, "vm.shutdown queued")
	is(later, "", "")
	if v := s.getVM(stops.ID); v.Protection.Expiry != fleet.Expired || v.Spec.Power != fleet.Stopped {
		t.Errorf("at its end: %+v, %s", v.Protection, v.Spec.Power)
	}
	until(announced, control.ProtectVM{ExpiresAt: timeIn(90 * 24 * time.Hour)})
	if v := s.getVM(announced.ID); v.Protection.Expiry != "" || v.Attention || len(v.Status.Faults) != 0 {
		t.Errorf("extended, it is %+v", v.Protection)
	}
	stale := s.getVM(locked.ID).Protection.ExpiresAt
	// An expiry time in the past is accepted if unchanged.
	until(locked, control.ProtectVM{ExpiresAt: stale, Locked: true, Reason: "migration", Protected: true})
}
