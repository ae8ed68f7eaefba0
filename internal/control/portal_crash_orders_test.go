//go:build ordeal

package control_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/vmedit"
)

// portalRequest calls a use case of the portal and returns the response.
type portalRequest func(ctx context.Context, portal *control.Control) (any, error)

// crashScenario is a request during which the portal crashes.
type crashScenario struct {
	crashPointDistance int // the value of crashFixture.every for this scenario
	minCrashPoints     int // minimum number of crash points
	// prepare creates the objects that the request needs, and returns the request.
	prepare func(m *crashFixture) portalRequest
	// checkResult checks the outcome, in addition to equality with a run without crashes.
	checkResult func(m *crashFixture)
}

// createRequest returns a request for a new VM.
func (m *crashFixture) createRequest(in control.CreateVM) portalRequest {
	in.ProjectID = m.red
	return func(ctx context.Context, portal *control.Control) (any, error) {
		return portal.CreateVM(ctx, chief, in)
	}
}

// vmWithTwoDisks returns a VM that is off, with disks in two pools.
func (m *crashFixture) vmWithTwoDisks() fleet.VMView {
	return m.stoppedVM("web", fleet.Disk{PoolID: m.local, SizeBytes: 1 << 20}, fleet.Disk{PoolID: m.nfs, SizeBytes: 2 << 20})
}

func (m *crashFixture) wantDisks(name string, n int) {
	m.t.Helper()
	if made := queryWithArgs[int](m.projectFixture, `SELECT jsonb_array_length(spec->'disks') FROM vms WHERE name = $1 AND observed_generation = generation`, name); made != n {
		m.t.Errorf("%s has %d disks, not %d", name, made, n)
	}
}

var crashScenarios = map[string]crashScenario{
	"a VM is cloned": {1, 60, func(m *crashFixture) portalRequest {
		return m.createRequest(control.CreateVM{Name: "web-2", From: &control.VMSource{VMID: m.vmWithTwoDisks().ID}})
	}, func(m *crashFixture) { m.wantDisks("web-2", 2) }},
	"a VM is made from a snapshot": {4, 30, func(m *crashFixture) portalRequest {
		vm := m.vmWithTwoDisks()
		base, _ := m.reportTwoSnapshots(vm)
		return m.createRequest(control.CreateVM{Name: "then", From: &control.VMSource{VMID: vm.ID, SnapshotID: base, PoolID: m.nfs}})
	}, func(m *crashFixture) { m.wantDisks("then", 1) }},
	"a linked VM is made from a template": {4, 30, func(m *crashFixture) portalRequest {
		return m.createRequest(control.CreateVM{Name: "linked", Start: true, From: &control.VMSource{TemplateID: m.newTemplate("Web", m.vmWithTwoDisks()).ID}})
	}, func(m *crashFixture) { m.wantDisks("linked", 2) }},
	"a VM with full disks is made from a template": {4, 30, func(m *crashFixture) portalRequest {
		return m.createRequest(control.CreateVM{Name: "full", From: &control.VMSource{TemplateID: m.newTemplate("Web", m.vmWithTwoDisks()).ID, Full: true, PoolID: m.nfs}})
	}, func(m *crashFixture) { m.wantDisks("full", 2) }},
	"a VM is made on a host without its image": {4, 30, func(m *crashFixture) portalRequest {
		spec := smallSpec
		spec.Disks = []fleet.Disk{{PoolID: m.nfs, ImageID: m.imageOnOneHost(), Overlay: true}}
		return m.createRequest(control.CreateVM{Name: "apart", HostID: m.h1, Spec: spec})
	}, func(m *crashFixture) { m.wantDisks("apart", 1) }},
	"a VM is made on a host that receives its image": {4, 30, func(m *crashFixture) portalRequest {
		spec := smallSpec
		spec.Disks = []fleet.Disk{{PoolID: m.local, ImageID: m.imageOnOneHost(), Overlay: true}}
		return m.createRequest(control.CreateVM{Name: "afar", HostID: m.h2, Spec: spec})
	}, func(m *crashFixture) { m.wantDisks("afar", 1) }},
	"an appliance is imported": {4, 30, func(m *crashFixture) portalRequest {
		return m.createRequest(control.CreateVM{Name: "imported", Start: true, From: &control.VMSource{Appliance: m.addAppliance(m.nfs, "web.ova")}})
	}, func(m *crashFixture) { m.wantDisks("imported", 2) }},
	"several VMs are made": {9, 45, func(m *crashFixture) portalRequest {
		in := control.CreateVMs{CreateVM: control.CreateVM{ProjectID: m.red, Name: "w-{n}", From: &control.VMSource{TemplateID: m.newTemplate("Web", m.stoppedVM("web")).ID}}, BulkNames: vmedit.BulkNames{Count: 3}}
		return func(ctx context.Context, portal *control.Control) (any, error) {
			return portal.CreateVMs(ctx, chief, in)
		}
	}, func(m *crashFixture) {
		for _, name := range []string{"w-1", "w-2", "w-3"} {
			m.wantDisks(name, 1)
		}
	}},
	"a snapshot is taken": {1, 20, func(m *crashFixture) portalRequest {
		vm := m.vmWithTwoDisks()
		return func(ctx context.Context, portal *control.Control) (any, error) {
			return portal.TakeSnapshot(ctx, chief, vm.ID, control.NewSnapshot{Name: "one", Memory: true})
		}
	}, func(m *crashFixture) { m.wantSnapshots("one") }},
	"a VM is reverted to a snapshot": {1, 20, func(m *crashFixture) portalRequest {
		vm := m.vmWithTwoDisks()
		base, _ := m.reportTwoSnapshots(vm)
		return func(ctx context.Context, portal *control.Control) (any, error) {
			return portal.RevertSnapshot(ctx, chief, vm.ID, base, control.RevertSnapshot{Start: true})
		}
	}, func(m *crashFixture) { m.wantSnapshots("base", "tip") }},
	"a snapshot is deleted": {1, 20, func(m *crashFixture) portalRequest {
		vm := m.vmWithTwoDisks()
		base, _ := m.reportTwoSnapshots(vm)
		return func(ctx context.Context, portal *control.Control) (any, error) {
			return portal.DeleteSnapshot(ctx, chief, vm.ID, base, false)
		}
	}, func(m *crashFixture) { m.wantSnapshots("tip") }},
}

func (m *crashFixture) wantSnapshots(names ...string) {
	m.t.Helper()
	want, err := json.Marshal(names)
	if err != nil {
		m.t.Fatal(err)
	}
	if !queryWithArgs[bool](m.projectFixture, `SELECT jsonb_path_query_array(status, '$.snapshots.snapshots[*].name') = $1::jsonb FROM vms`, string(want)) {
		m.t.Errorf("not with the snapshots %s:\n%s", want, m.outcomeText())
	}
}

// The portal crashes before each SQL statement of the four steps of a request: the request itself, the start of pending
// children, the claim and the result of a job. Each step is done completely or not at all, and the next portal repeats
// it. The outcome equals that of a run without crashes. Repeating a step whose response was lost changes nothing.
func TestRequestsSurvivePortalCrashBeforeAnyStatement(t *testing.T) {
	t.Parallel()
	for name, o := range crashScenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			came := map[bool]string{}
			var mu sync.Mutex
			for _, every := range []int{0, o.crashPointDistance} {
				ends := every > 0
				t.Run(map[bool]string{false: "without crashes", true: "with crashes"}[ends], func(t *testing.T) {
					m := newCrashFixture(t, every)
					m.sendRequest(o.prepare(m))
					m.runJobs()
					o.checkResult(m)
					mu.Lock()
					came[ends] = m.outcomeText()
					mu.Unlock()
					if t.Logf("the portal crashed at %d points", m.crashPoints); ends && m.crashPoints < o.minCrashPoints {
						t.Errorf("the portal crashed at %d points, fewer than %d", m.crashPoints, o.minCrashPoints)
					}
				})
			}
			t.Cleanup(func() { // after both subtests
				if came[true] != came[false] && !t.Failed() {
					t.Errorf("the outcome with crashes is\n%s\nand without crashes\n%s", came[true], came[false])
				}
			})
		})
	}
}
