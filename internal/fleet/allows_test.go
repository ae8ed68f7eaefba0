package fleet_test

import (
	"testing"
	"time"

	"quantix/internal/fleet"
)

func TestHostPoolProjectAndUserActionsRefusedWithReason(t *testing.T) {
	t.Parallel()
	gone := time.Now()
	host := func(phase fleet.HostPhase, vms, leaving int) fleet.HostView {
		return fleet.HostView{Phase: phase, VMs: vms, Deleting: leaving}
	}
	poolOn := func(assigned bool, state fleet.PoolState) fleet.PoolHost {
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
		"no VM":                       {host(fleet.HostOnline, 0, 0), fleet.ActDelete, ""},
		"one VM":                      {host(fleet.HostOnline, 1, 0), fleet.ActDelete, "The host still has 1 VM. Delete them first."},
		"leaving, host online":        {host(fleet.HostOnline, 2, 2), fleet.ActDelete, "The host still has 2 VMs. Delete them first."},
		"leaving, host offline":       {host(fleet.HostUnknown, 2, 2), fleet.ActDelete, ""},
		"one of two leaving, offline": {host(fleet.HostUnknown, 2, 1), fleet.ActDelete, "The host still has 1 VM. Delete them first."},
		"without conflict":            {host(fleet.HostOnline, 0, 0), fleet.ActClearConflict, "Only one agent shows this host's identity."},
		"a conflict":                  {fleet.HostView{Host: fleet.Host{Conflict: "x"}}, fleet.ActClearConflict, ""},
		"pool":                        {fleet.Pool{}, fleet.ActAssign, ""},
		"pool being deleted":          {fleet.Pool{DeletedAt: &gone}, fleet.ActDelete, "The pool is being deleted. The deletion ends when the last host has released the pool."},
		"failed on host":              {poolOn(true, fleet.PoolFailed), fleet.ActRetry, ""},
		"active on host":              {poolOn(true, fleet.PoolActive), fleet.ActRetry, "The pool is active there."},
		"host offline":                {poolOn(true, fleet.PoolUnknown), fleet.ActRetry, "The host is offline. It retries when it is online again."},
		"retry during release":        {poolOn(false, fleet.PoolFailed), fleet.ActRetry, "h1 is releasing the pool."},
		"release during release":      {poolOn(false, fleet.PoolFailed), fleet.ActRelease, "h1 is releasing the pool."},
		"any network":                 {fleet.NetworkView{}, fleet.ActGrant, ""},
		"project with VMs":            {fleet.Project{VMs: 3}, fleet.ActDelete, "The project still has 3 VMs. Delete them first."},
		"project":                     {fleet.Project{}, fleet.ActDelete, ""},
		"action of another type":      {fleet.Project{}, fleet.ActStart, `There is no action "start".`},
		"user by another user":        {userActedOnBy{self, "other"}, fleet.ActDelete, ""},
		"own user":                    {userActedOnBy{self, "u"}, fleet.ActDelete, "You cannot delete yourself. Ask another administrator."},
		"own password":                {userActedOnBy{self, "u"}, fleet.ActPassword, "Change your own password on your account's page."},
	} {
		if ok, why := c.of.Allows(c.action); ok != (c.why == "") || why != c.why {
			t.Errorf("%s: %v %q, want %q", name, ok, why, c.why)
		}
	}
}

type userActedOnBy struct {
	fleet.User
	who fleet.UserID
}

func (b userActedOnBy) Allows(a fleet.Action) (bool, string) { return b.AllowsActionBy(b.who, a) }
