package views

import (
	"testing"

	"quantix/internal/fleet"
)

func TestObjectPathsEscapeSegments(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		VMPath("1"):                             "/vms/1",
		VMPath("1", "disks", "detach"):          "/vms/1/disks/detach",
		HostPath("2", "delete"):                 "/hosts/2/delete",
		DiscoveredVMPath("2", "a/../../vms"):    "/hosts/2/found/a%2F..%2F..%2Fvms", // the id comes from the host
		PoolPath("3", "hosts", "2", "retry"):    "/pools/3/hosts/2/retry",
		NetworkPath("4", "grants"):              "/networks/4/grants",
		ProjectPath("5"):                        "/projects/5",
		UserPath("6", "password"):               "/users/6/password",
		TaskPath("7", "cancel"):                 "/tasks/7/cancel",
		ContextMenuPath(fleet.TypeNetwork, "4"): "/menus/network/4",
		APITokenPath("8", "delete"):             "/account/tokens/8/delete",
		JoinTokenPath("9", "revoke"):            "/hosts/join/9/revoke",
		ProjectListPath(fleet.TypeTask, "5"):    "/tasks?project=5",
		TabPath(HostPath("2"), "storage"):       "/hosts/2?tab=storage",
	} {
		if got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

func TestTaskSubjectsLinkToTheirPages(t *testing.T) {
	t.Parallel()
	for subject, want := range map[fleet.Subject]string{
		"vm:1": "/vms/1", "host:2": "/hosts/2", "pool:3": "/pools/3", "net:4": "/networks/4", "project:5": "/projects/5", "user:6": "/users/6",
		"task:7": "/tasks/7", "token:8": "", "authority": "", "": "",
	} {
		if got := SubjectPath(subject); got != want {
			t.Errorf("%s leads to %q, not %q", subject, got, want)
		}
	}
}
