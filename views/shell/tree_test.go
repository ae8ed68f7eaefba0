package shell

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantix/internal/fleet"
)

func TestVisibleTreeViewsDependOnRole(t *testing.T) {
	t.Parallel()
	member := fleet.Actor{UserID: "mia", Projects: map[fleet.ProjectID]fleet.Role{"1": fleet.RoleMember}}
	for name, c := range map[string]struct {
		actor fleet.Actor
		want  []string
	}{
		"admin":   {fleet.Actor{UserID: "ann", Role: fleet.RoleAdmin}, []string{"hosts", "vms", "storage", "networks"}},
		"member":  {member, []string{"vms", "storage", "networks"}},
		"no role": {fleet.Actor{UserID: "bob"}, nil},
	} {
		if got := VisibleTreeViews(c.actor); !cmp.Equal(got, c.want) {
			t.Errorf("%s sees %v, not %v", name, got, c.want)
		}
	}
}

func TestTreeRowsLinkToObjects(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		(&TreeItem{Kind: "foundVM", HostID: "2", ID: "1"}).pagePath(): "/hosts/2/found/1",
		(&TreeItem{Kind: "found", HostID: "2"}).pagePath():            "/vms?tab=found",
		(&TreeItem{Kind: "project", ID: "5"}).pagePath():              "/vms?project=5",
		(&TreeItem{Kind: "pool", ID: "3"}).pagePath():                 "/pools/3",
		(&TreeItem{Kind: "storage"}).pagePath():                       "/pools",
		(&TreeItem{Kind: "label"}).pagePath():                         "/vms",
		(&TreeItem{Kind: "pool", Key: "pool:3", ID: "3"}).liveKeys():  "pool:3",
		(&TreeItem{Kind: "host", Key: "host:2", ID: "2"}).liveKeys():  "host:2 vms",
		(&TreeItem{Kind: "project", Key: "project:5"}).liveKeys():     "vms",
		(&TreeItem{Kind: "vm", Key: "vm:1", ID: "1"}).liveKeys():      "vms",
		(&TreeItem{Kind: "network", ID: "4"}).menuPath():              "/menus/network/4",
		(&TreeItem{Kind: "vm", ID: "4", Key: "vm:4"}).menuPath():      "/menus/*",
		(&TreeItem{Kind: "project", ID: "5"}).menuPath():              "",
	} {
		if got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
