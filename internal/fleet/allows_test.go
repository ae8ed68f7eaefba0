package fleet_test

import (
	"testing"
	"time"

	"quantix/internal/fleet"
)

func TestWhatNounsAllow(t *testing.T) {
	t.Parallel()
	gone := time.Now()
	host := func(phase fleet.HostPhase, vms, leaving int) fleet.HostView {
		return fleet.HostView{Phase: phase, VMs: vms, Leaving: leaving}
	}
	cell := func(assigned bool, state fleet.PoolState) fleet.PoolHost {
		return fleet.PoolHost{HostName: "h1", Assigned: assigned, State: state}
	}
	self := fleet.User{ID: "u"}
	for name, c := range map[string]struct {
		of interface {
			Allows(fleet.Action) (bool, string)
		}
		action fleet.Action
		why    string
	}{
		"no VM":                        {host(fleet.HostOnline, 0, 0), fleet.ActDelete, ""},
		"a VM":                         {host(fleet.HostOnline, 1, 0), fleet.ActDelete, "It still has 1 VM. Delete them first."},
		"leaving, and heard":           {host(fleet.HostOnline, 2, 2), fleet.ActDelete, "It still has 2 VMs. Delete them first."},
		"leaving, and not heard":       {host(fleet.HostUnknown, 2, 2), fleet.ActDelete, ""},
		"one of two leaving, silent":   {host(fleet.HostUnknown, 2, 1), fleet.ActDelete, "It still has 1 VM. Delete them first."},
		"no conflict":                  {host(fleet.HostOnline, 0, 0), fleet.ActClearConflict, "Only one agent shows this host's identity."},
		"a conflict":                   {fleet.HostView{Host: fleet.Host{Conflict: "x"}}, fleet.ActClearConflict, ""},
		"pool":                         {fleet.Pool{}, fleet.ActAssign, ""},
		"pool that goes":               {fleet.Pool{DeletedAt: &gone}, fleet.ActDelete, "The pool is being deleted; it goes when its last host has released it."},
		"failed cell":                  {cell(true, fleet.PoolFailed), fleet.ActRetry, ""},
		"active cell":                  {cell(true, fleet.PoolActive), fleet.ActRetry, "The pool is active there."},
		"silent cell":                  {cell(true, fleet.PoolUnknown), fleet.ActRetry, "The host is not heard. It tries by itself when it is back."},
		"cell that is being released":  {cell(false, fleet.PoolFailed), fleet.ActRetry, "h1 is releasing it."},
		"cell released twice":          {cell(false, fleet.PoolFailed), fleet.ActRelease, "h1 is releasing it."},
		"network within":               {fleet.NetworkView{}, fleet.ActGrant, "A network that stays within libvirt is open to all projects."},
		"network that leads out":       {fleet.NetworkView{Restricted: true}, fleet.ActGrant, ""},
		"project with VMs":             {fleet.Project{VMs: 3}, fleet.ActDelete, "It still has 3 VMs. Delete them first."},
		"project":                      {fleet.Project{}, fleet.ActDelete, ""},
		"another noun's action":        {fleet.Project{}, fleet.ActStart, `There is no action "start".`},
		"a user by somebody else":      {by{self, "other"}, fleet.ActDelete, ""},
		"oneself":                      {by{self, "u"}, fleet.ActDelete, "You cannot delete yourself. Ask another administrator."},
		"one's own password by an act": {by{self, "u"}, fleet.ActPassword, "Change your own password on your account's page."},
	} {
		if ok, why := c.of.Allows(c.action); ok != (c.why == "") || why != c.why {
			t.Errorf("%s: %v %q, want %q", name, ok, why, c.why)
		}
	}
}

type by struct {
	fleet.User
	who fleet.UserID
}

func (b by) Allows(a fleet.Action) (bool, string) { return b.AllowsTo(b.who, a) }
