package home

import (
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/testkit/rendered"
	"quantix/internal/usage"
)

func TestTopConsumersShowTextBarAndLink(t *testing.T) {
	t.Parallel()
	p := DashboardPage{Actor: fleet.Actor{UserID: "mara", Role: fleet.RoleAdmin}, Top: []usage.TopConsumers{
		{Title: "CPU", Unit: fleet.UnitPercent, VMs: []usage.Consumer{{ID: "v1", Name: "web", Value: 41.7}}, Hosts: []usage.Consumer{{ID: "h1", Name: "rack-1", Value: 80}}},
		{Title: "Disk", Unit: fleet.UnitBytesPerSecond, VMs: []usage.Consumer{{ID: "v1", Name: "web", Value: 4 << 20}, {ID: "v2", Name: "db", Value: 1 << 20}}},
		{Title: "Memory", Unit: fleet.UnitBytes},
	}}
	got := rendered.HTML(t, topConsumers(p))
	for _, want := range []string{`href="/vms/v1?tab=monitor"`, `href="/hosts/h1?tab=monitor"`, "42 %", `class="w-42`, "4 MiB/s", `class="w-100`, `class="w-25`, "No values of the last minutes."} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in %s", want, got)
		}
	}
}
