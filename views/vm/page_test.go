package vm

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"quantix/internal/fleet"
	"quantix/internal/testkit/rendered"
	"quantix/views/kit"
)

// reportedVM is a VM that its host reported, some time ago, as running with 37 % load.
func reportedVM(phase fleet.Phase) fleet.VMView {
	cpu, started, seen := 74.0, noon.Add(-4*time.Hour), noon.Add(-45*time.Second)
	return fleet.VMView{
		VM: fleet.VM{
			Meta: fleet.Meta{ID: "1", Name: "web-01", HostID: "2", ProjectID: "3"},
			Spec: fleet.VMSpec{CPUs: 2, MemoryMiB: 4096},
			Status: &fleet.VMStatus{
				Power: fleet.Running, StartedAt: &started, NICs: []fleet.NICState{{Addresses: []string{"10.0.0.1"}}, {Addresses: []string{"10.0.0.2", "fe80::1"}}},
			},
		},
		Phase: phase, HostName: "h1", ProjectName: "shop", SeenAt: &fleet.ReportTime{Time: seen}, CPUPercent: &cpu,
	}
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestVMTabsAreLinks(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"summary", "monitor", "console", "configure", "events"} {
		here := 0
		for _, tab := range (Page{VM: reportedVM(fleet.PhaseRunning), Tab: key}).tabs() {
			want := map[string]string{"Summary": "/vms/1", "Console": "/vms/1/console"}[tab.Text]
			if want == "" {
				want = "/vms/1?tab=" + strings.ToLower(tab.Text)
			}
			if tab.Href != want {
				t.Errorf("%s leads to %s", tab.Text, tab.Href)
			}
			if tab.Here {
				here++
			}
		}
		if here != 1 {
			t.Errorf("%d tabs are current on %s", here, key)
		}
	}
}

func TestVMBreadcrumbsHideHostsFromTenants(t *testing.T) {
	t.Parallel()
	p := Page{VM: reportedVM(fleet.PhaseRunning), MaySeeHosts: true}
	if got := p.crumbs(); !cmp.Equal(got, []kit.Breadcrumb{{Text: "Virtual machines", Href: "/vms"}, {Text: "h1", Href: "/hosts/2"}}) {
		t.Errorf("an administrator sees %v", got)
	}
	if p.MaySeeHosts = false; len(p.crumbs()) != 1 {
		t.Errorf("a tenant sees %v", p.crumbs())
	}
}

func TestVMPageLabelsPoolsFieldsAndActions(t *testing.T) {
	t.Parallel()
	p := Page{VM: reportedVM(fleet.PhaseRunning), Pools: map[fleet.PoolID]string{"1": "fast"}, Actions: []fleet.ActionState{{Action: fleet.ActStart, Reason: "It runs."}}}
	if p.poolName("1") != "fast" || p.poolName("2") != "a pool" {
		t.Errorf("pools %q and %q", p.poolName("1"), p.poolName("2"))
	}
	if got := p.actionState(fleet.ActStart); got.Reason != "It runs." {
		t.Errorf("%+v", got)
	}
	if got := p.actionState(fleet.ActDelete); got.Allowed || got.Action != fleet.ActDelete {
		t.Errorf("an action without an action state: %+v", got)
	}
	if got := IPAddresses(p.VM); !cmp.Equal(got, []string{"10.0.0.1", "10.0.0.2", "fe80::1"}) {
		t.Errorf("addresses %v", got)
	}
	if p.VM.Status = nil; IPAddresses(p.VM) != nil {
		t.Error("a VM without a status has addresses")
	}
	for field, want := range map[string]string{"cpus": "vCPUs", "memoryMiB": "memory", "watchdog": "watchdog"} {
		if got := fieldLabel(field); got != want {
			t.Errorf("%s reads %q, not %q", field, got, want)
		}
	}
	for _, a := range fleet.VMActions {
		if actionIcons[a] == "" {
			t.Errorf("%s has no icon", a)
		}
	}
	if got := VolumeValue("p", "a b.qcow2"); got != "p/a b.qcow2" {
		t.Errorf("volume %q", got)
	}
}

// TestOfflineHostShowsNoCurrentValues checks that the page shows the last report of an offline host without a state
// chip, usage bar or number for current values.
func TestOfflineHostShowsNoCurrentValues(t *testing.T) {
	t.Parallel()
	vm := reportedVM(fleet.PhaseUnknown)
	page := Page{VM: vm, Tab: "summary", Now: noon, Actions: vm.Actions(), MaySeeHosts: true}
	if head := rendered.Text(t, pageHeader(page)); !strings.Contains(head, "web-01 Unknown") || strings.Contains(head, "Running") {
		t.Errorf("the head reads %q", head)
	}
	if head := rendered.HTML(t, pageHeader(page)); !strings.Contains(head, `title="Its host is offline. Last known: running."`) || strings.Contains(head, `class="chip ok"`) {
		t.Errorf("the head is %s", head)
	}
	summary := rendered.Text(t, summaryTab(page))
	for _, text := range []string{"h1 is offline. This page shows the last report.", "State Unknown last known: running", "Uptime – Accelerator"} {
		if !strings.Contains(summary, text) {
			t.Errorf("the summary lacks %q: %s", text, summary)
		}
	}
}
