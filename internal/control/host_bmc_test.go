package control_test

import (
	"strings"
	"testing"

	"quantix/internal/bmc"
	"quantix/internal/control"
	"quantix/internal/control/hostpower"
	"quantix/internal/fleet"
	"quantix/internal/testkit/mockbmc"
)

// addBMC gives the host a mock BMC, which the portal has read once.
func (s *maintenanceFixture) addBMC(host fleet.HostID) *mockbmc.BMC {
	s.t.Helper()
	m, err := mockbmc.Start("127.0.0.1:0", mockbmc.IDRAC)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(m.Close)
	if _, err := s.SetBMC(s.t.Context(), chief, host, hostpower.BMCInput{Spec: bmc.Spec{Address: m.Address, User: mockbmc.User}, Password: mockbmc.Password}); err != nil {
		s.t.Fatal(err)
	}
	s.readBMCs()
	return m
}

// readBMCs reads the BMCs that are due.
func (s *maintenanceFixture) readBMCs() {
	s.t.Helper()
	claimed, err := s.ClaimBMCs(s.t.Context(), fleet.SystemActor)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, b := range claimed {
		if err := s.ReadBMC(s.t.Context(), fleet.SystemActor, b); err != nil {
			s.t.Fatal(err)
		}
	}
}

// runOrders does the next step of the power orders.
func (s *maintenanceFixture) runOrders() {
	s.t.Helper()
	s.markOnline()
	s.execSQL(`UPDATE host_power_orders SET due_at = now() WHERE step <> 'ended'`)
	claimed, err := s.ClaimPowerOrders(s.t.Context(), fleet.SystemActor)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, o := range claimed {
		if err := s.RunPowerOrder(s.t.Context(), fleet.SystemActor, o); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *maintenanceFixture) bmcOf(host fleet.HostID) bmc.BMC {
	s.t.Helper()
	b, err := s.GetBMC(s.t.Context(), chief, host)
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

func (s *maintenanceFixture) order(act fleet.Action) fleet.Task {
	s.t.Helper()
	task, err := s.RequestBMCPower(s.t.Context(), chief, s.h2, act, "h2")
	if err != nil {
		s.t.Fatal(err)
	}
	return task
}

func (s *maintenanceFixture) wantTask(task fleet.Task, state fleet.JobState, words string) {
	s.t.Helper()
	got, err := s.GetTask(s.t.Context(), chief, task.ID)
	if err != nil || got.State != state || !strings.Contains(got.Note+got.Error, words) {
		s.t.Errorf("the task is %s, %q, %q, %v, want %s %q", got.State, got.Note, got.Error, err, state, words)
	}
}

// maintainH2 lets h2, which has no VMs, enter maintenance.
func (s *maintenanceFixture) maintainH2() {
	s.t.Helper()
	if _, err := s.EnterMaintenance(s.t.Context(), chief, s.h2, control.EnterMaintenance{}); err != nil {
		s.t.Fatal(err)
	}
}

func TestBMCIsPinnedReadAndForgotten(t *testing.T) {
	s := newMaintenanceFixture(t)
	m := s.addBMC(s.h2)
	b := s.bmcOf(s.h2)
	if b.Fingerprint != m.Fingerprint() || b.Power != bmc.On || b.Reading.Model != "PowerEdge R650" || b.Checking || b.Error != "" {
		t.Errorf("the BMC is %+v, %+v", b, b.Reading)
	}
	if !s.getHost(s.h2).HasBMC {
		t.Error("the host has no BMC")
	}
	s.execSQL(`UPDATE host_bmcs SET read_at = now() - interval '1 hour'`)
	if got := s.bmcOf(s.h2); got.Power != bmc.Unknown {
		t.Errorf("an old reading counts as %s", got.Power)
	}
	if err := m.ChangeCertificate(); err != nil {
		t.Fatal(err)
	}
	_, before := m.Requests()
	if b, err := s.TestBMC(t.Context(), chief, s.h2); err != nil || !b.Checking {
		t.Fatalf("the test is %+v, %v", b, err)
	}
	s.readBMCs()
	if got := s.bmcOf(s.h2); !strings.Contains(got.Error, "has changed") || got.Checking {
		t.Errorf("with another certificate: %+v", got)
	}
	if _, after := m.Requests(); after != before {
		t.Error("the password was sent to another certificate")
	}
	edit := hostpower.BMCInput{Spec: b.Spec}
	edit.Fingerprint = m.Fingerprint()
	s.wantRefused("a kept password for another certificate", fleet.Invalid, "Enter the password again", func() error { _, err := s.SetBMC(t.Context(), chief, s.h2, edit); return err })
	edit.Password = mockbmc.Password
	if _, err := s.SetBMC(t.Context(), chief, s.h2, edit); err != nil {
		t.Fatal(err)
	}
	s.readBMCs()
	if got := s.bmcOf(s.h2); got.Error != "" || got.Power != bmc.On || got.Generation != b.Generation+1 {
		t.Errorf("after the edit: %+v", got)
	}
	if n := s.countRows("host_bmcs WHERE row(host_bmcs.*)::text LIKE '%" + mockbmc.Password + "%'"); n != 0 {
		t.Error("the password is stored in plain text")
	}
	if n := s.countRows("audit WHERE detail LIKE '%" + mockbmc.Password + "%'"); n != 0 {
		t.Error("the password is in the audit")
	}
	if err := s.DeleteBMC(t.Context(), chief, s.h2); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("without a BMC", fleet.NotFound, "no such BMC", func() error { _, err := s.GetBMC(t.Context(), chief, s.h2); return err })
}

func TestBMCAddressesAreRefused(t *testing.T) {
	s := newMaintenanceFixture(t)
	for _, address := range []string{"https://169.254.169.254", "http://10.0.8.11", "https://[::1]"} {
		s.wantRefused(address, fleet.Invalid, "", func() error {
			_, err := s.SetBMC(t.Context(), chief, s.h2, hostpower.BMCInput{Spec: bmc.Spec{Address: address, User: "root"}, Password: "x"})
			return err
		})
	}
}

// TestOneBadBMCDelaysNoOther checks that a claim contains each BMC once, and that errors lengthen the wait.
func TestOneBadBMCDelaysNoOther(t *testing.T) {
	s := newMaintenanceFixture(t)
	good, bad := s.addBMC(s.h1), s.addBMC(s.h2)
	bad.SetMode(mockbmc.Garbage)
	good.SetPower("Off")
	s.execSQL(`UPDATE host_bmcs SET due_at = now()`)
	s.readBMCs()
	if b := s.bmcOf(s.h1); b.Power != bmc.Off {
		t.Errorf("the good BMC is %+v", b)
	}
	if b := s.bmcOf(s.h2); !strings.Contains(b.Error, "not Redfish") || b.Reading == nil {
		t.Errorf("the bad BMC is %+v", b)
	}
	s.execSQL(`UPDATE host_bmcs SET due_at = now()`)
	claimed, err := s.ClaimBMCs(t.Context(), fleet.SystemActor)
	again, err2 := s.ClaimBMCs(t.Context(), fleet.SystemActor)
	if err != nil || err2 != nil || len(claimed) != 2 || len(again) != 0 {
		t.Errorf("%d and %d BMCs are claimed, %v, %v", len(claimed), len(again), err, err2)
	}
}

func TestForcedPowerNeedsMaintenanceOrFencing(t *testing.T) {
	s := newMaintenanceFixture(t)
	power := func(act fleet.Action, name string) func() error {
		return func() error {
			s.markOnline()
			_, err := s.RequestBMCPower(t.Context(), chief, s.h2, act, name)
			return err
		}
	}
	s.wantRefused("without a BMC", fleet.Conflict, "h2 has no BMC", power(fleet.ActForcePowerOff, "h2"))
	m := s.addBMC(s.h2)
	s.wantRefused("outside maintenance", fleet.Conflict, "h2 is not in maintenance.", power(fleet.ActForcePowerOff, "h2"))
	s.wantRefused("power-on of an online host", fleet.Conflict, "h2 is on", power(fleet.ActPowerOn, ""))
	s.maintainH2()
	s.wantRefused("without its name", fleet.Invalid, "Type the host's name, h2.", power(fleet.ActReset, "h1"))
	m.SetLag(1)
	task := s.order(fleet.ActForcePowerOff)
	s.wantRefused("beside another order", fleet.Conflict, "has not ended", power(fleet.ActReset, "h2"))
	s.runOrders() // sends
	s.wantTask(task, fleet.JobRunning, "waiting for the BMC")
	s.runOrders() // still on
	s.wantTask(task, fleet.JobRunning, "the BMC reports On")
	s.runOrders()
	s.wantTask(task, fleet.JobDone, "The BMC reports Off.")
	if b := s.bmcOf(s.h2); b.Power != bmc.Off {
		t.Errorf("the page shows %s", b.Power)
	}
	if got := m.Resets(); len(got) != 1 || got[0] != "ForceOff" {
		t.Errorf("the BMC got %v", got)
	}
	s.goOffline(s.h2)
	task, err := s.RequestBMCPower(t.Context(), chief, s.h2, fleet.ActPowerOn, "")
	if err != nil {
		t.Fatal(err)
	}
	s.runOrders()
	s.runOrders()
	s.runOrders()
	s.wantTask(task, fleet.JobFailed, "is on: its agent reports") // markOnline
}

// TestFencingEndsOnlyOfflineHosts checks that an order for an offline host is not carried out if the host is online again.
func TestFencingEndsOnlyOfflineHosts(t *testing.T) {
	s := newMaintenanceFixture(t)
	m := s.addBMC(s.h2)
	s.markOnline()
	s.goOffline(s.h2)
	s.wantRefused("without its name", fleet.Invalid, "Type the host's name", func() error {
		_, err := s.RequestBMCPower(t.Context(), chief, s.h2, fleet.ActForcePowerOff, "")
		return err
	})
	task := s.order(fleet.ActForcePowerOff)
	s.runOrders() // marks the host online
	s.wantTask(task, fleet.JobFailed, "online again")
	if n := len(m.Resets()); n != 0 {
		t.Errorf("%d commands were sent", n)
	}
	if n := s.countRows("audit WHERE action = 'host.power-off' AND detail LIKE 'fencing%'"); n != 1 {
		t.Errorf("%d audit lines of fencing", n)
	}
}

// TestLyingBMCFailsTheTask checks that an accepted command without an effect ends in an error with the BMC's state.
func TestLyingBMCFailsTheTask(t *testing.T) {
	s := newMaintenanceFixture(t)
	m := s.addBMC(s.h2)
	s.maintainH2()
	m.SetMode(mockbmc.Lies)
	task := s.order(fleet.ActForcePowerOff)
	s.runOrders()
	s.execSQL(`UPDATE host_power_orders SET deadline_at = now() - interval '1 second'`)
	s.runOrders()
	s.wantTask(task, fleet.JobFailed, "still reports On after 2 minutes")
	m.SetMode(mockbmc.Refuses)
	task = s.order(fleet.ActForcePowerOff)
	s.runOrders()
	s.wantTask(task, fleet.JobFailed, "locked by another console")
}

// TestResetIsSentAtMostOnce checks that a reset in doubt ends as unknown: after a lost answer, and after a portal that ended
// while it sent the command.
func TestResetIsSentAtMostOnce(t *testing.T) {
	s := newMaintenanceFixture(t)
	m := s.addBMC(s.h2)
	s.maintainH2()
	m.SetMode(mockbmc.DropsReset)
	task := s.order(fleet.ActReset)
	s.runOrders()
	s.runOrders()
	s.wantTask(task, fleet.JobUnknown, "may have been reset")
	m.SetMode(mockbmc.Honest)
	task = s.order(fleet.ActReset)
	s.markOnline()
	if claimed, err := s.ClaimPowerOrders(t.Context(), fleet.SystemActor); err != nil || len(claimed) != 1 {
		t.Fatalf("claimed %+v, %v", claimed, err)
	}
	s.execSQL(`UPDATE host_power_orders SET leased_until = now() - interval '1 second' WHERE step = 'sending'`)
	s.runOrders()
	s.wantTask(task, fleet.JobUnknown, "The portal ended while it sent the command")
	if n := len(m.Resets()); n != 1 {
		t.Errorf("the BMC got %d resets, want the one without an answer", n)
	}
	task = s.order(fleet.ActReset)
	if _, err := s.CancelTask(t.Context(), chief, task.ID); err != nil {
		t.Fatal(err)
	}
	s.runOrders()
	s.wantTask(task, fleet.JobCancelled, "")
	if n := len(m.Resets()); n != 1 {
		t.Errorf("a cancelled reset was sent")
	}
	task = s.order(fleet.ActReset)
	s.runOrders()
	s.runOrders()
	s.wantTask(task, fleet.JobDone, "The BMC reports On.")
}
