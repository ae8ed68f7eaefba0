package views

import (
	"testing"

	"quantix/internal/fleet"
)

func TestWhereThingsAre(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		VMPath("1"):                                                  "/vms/1",
		VMPath("1", "disks", "detach"):                               "/vms/1/disks/detach",
		HostPath("2", "delete"):                                      "/hosts/2/delete",
		FoundPath("2", "a/../../vms"):                                "/hosts/2/found/a%2F..%2F..%2Fvms", // a host says what the id is
		PoolPath("3", "hosts", "2", "retry"):                         "/pools/3/hosts/2/retry",
		NetworkPath("4", "grants"):                                   "/networks/4/grants",
		ProjectPath("5"):                                             "/projects/5",
		UserPath("6", "password"):                                    "/users/6/password",
		TaskPath("7", "cancel"):                                      "/tasks/7/cancel",
		MenuPath(fleet.NounNetwork, "4"):                             "/menus/network/4",
		TokenPath("8", "delete"):                                     "/account/tokens/8/delete",
		JoinTokenPath("9", "revoke"):                                 "/hosts/join/9/revoke",
		CutPath(fleet.NounTask, "5"):                                 "/tasks?project=5",
		TabPath(HostPath("2"), "storage"):                            "/hosts/2?tab=storage",
		foundLink(fleet.Found{Kind: "found", ID: "2/1"}):             "/hosts/2/found/1",
		foundLink(fleet.Found{Kind: "project", ID: "5"}):             "/vms?project=5",
		foundLink(fleet.Found{Kind: "network", ID: "4"}):             "/networks/4",
		(&TreeItem{Kind: "foundVM", HostID: "2", ID: "1"}).href():    "/hosts/2/found/1",
		(&TreeItem{Kind: "found", HostID: "2"}).href():               "/vms?tab=found",
		(&TreeItem{Kind: "project", ID: "5"}).href():                 "/vms?project=5",
		(&TreeItem{Kind: "pool", ID: "3"}).href():                    "/pools/3",
		(&TreeItem{Kind: "storage"}).href():                          "/pools",
		(&TreeItem{Kind: "label"}).href():                            "/vms",
		(&TreeItem{Kind: "pool", Key: "pool:3", ID: "3"}).liveKeys(): "pool:3",
		(&TreeItem{Kind: "host", Key: "host:2", ID: "2"}).liveKeys(): "host:2 vms",
		(&TreeItem{Kind: "project", Key: "project:5"}).liveKeys():    "vms",
		(&TreeItem{Kind: "vm", Key: "vm:1", ID: "1"}).liveKeys():     "vms",
		(&TreeItem{Kind: "network", ID: "4"}).menu():                 "/menus/network/4",
		(&TreeItem{Kind: "project", ID: "5"}).menu():                 "",
	} {
		if got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
