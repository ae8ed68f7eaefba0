package web

import (
	"os"
	"strings"
	"testing"

	"quantix/internal/fleet"
	clusterview "quantix/views/cluster"
	hostview "quantix/views/host"
	imageview "quantix/views/image"
	"quantix/views/kit"
	networkview "quantix/views/network"
	poolview "quantix/views/pool"
	taskview "quantix/views/task"
	templateview "quantix/views/template"
	"quantix/views/vmlist"
)

// unfilteredColumns maps each visible column without a filter key to the reason.
var unfilteredColumns = map[string]string{
	"found/Last seen":          "the state unknown marks outdated reports",
	"hosts/Last seen":          "the state says whether a host is online",
	"networks/Health":          "the health of a network is that of its hosts: its page filters by health:",
	"networks/Mode":            "kind: separates the modes",
	"networks/Subnets":         "the search finds networks by address",
	"images/Version":           "versions are numbers of each image",
	"images/Copies":            "pool: names the pool of a copy",
	"images/Owner":             "an image belongs to everybody or to a template",
	"templates/Newest version": "versions are numbers of each template",
	"templates/Hardware":       "several values in one column",
	"templates/VMs":            "the template's page lists its VMs",
	"tasks/Started":            "the list is in this order",
	"tasks/Progress":           "state: separates running tasks",
	"tasks/Result":             "state: separates failed tasks",
}

// The first word of a visible column's heading is also a filter key of the list.
func TestVisibleColumnsHaveFilterKeys(t *testing.T) {
	t.Parallel()
	used := 0
	for list, columns := range map[string]kit.Columns{
		"vms": vmlist.Columns, "hosts": hostview.Columns, "clusters": clusterview.Columns, "pools": poolview.Columns, "networks": networkview.Columns, "images": imageview.Columns,
		"templates": templateview.Columns, "tasks": taskview.Columns, "found": vmlist.DiscoveredVMColumns,
	} {
		resource, known := fleet.ResourceTypeByPlural(list)
		if !known {
			t.Fatalf("no resource %q", list)
		}
		for _, c := range columns {
			word, _, _ := strings.Cut(strings.ToLower(c.Label), " ")
			_, found := resource.Filter.Find(word)
			switch reason := unfilteredColumns[list+"/"+c.Label]; {
			case found && reason != "":
				t.Errorf("%s/%s has a filter; remove its reason", list, c.Label)
			case !found && reason == "" && !c.OnRequest:
				t.Errorf("the column %s/%s has no filter key %q", list, c.Label, word)
			case reason != "":
				used++
			}
		}
	}
	if used != len(unfilteredColumns) {
		t.Errorf("%d reasons name no column", len(unfilteredColumns)-used)
	}
}

// The manual's table of filter keys is complete.
func TestManualNamesAllFilterKeys(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../static/docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	for list, keys := range map[string]fleet.FilterKeys{
		"VMs": fleet.VMKeys, "hosts": fleet.HostKeys, "clusters": fleet.ClusterKeys, "pools": fleet.PoolKeys, "networks": fleet.NetworkKeys, "images": fleet.ImageKeys,
		"templates": fleet.TemplateKeys, "tasks": fleet.TaskKeys, "users": fleet.UserKeys, "discovered VMs": fleet.DiscoveredKeys,
	} {
		cells := make([]string, len(keys))
		for i, k := range keys {
			cells[i] = "`" + k.Key + "`"
			if k.Unit != fleet.UnitNone {
				cells[i] = "`" + k.Key + ">`"
			}
		}
		row := "| " + list + " | " + strings.Join(cells, " ") + " |\n"
		if !strings.Contains(string(text), row) {
			t.Errorf("api.md has no line %q", row)
		}
	}
}
