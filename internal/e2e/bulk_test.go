//go:build linux && ordeal

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

// TestBulkStartSurvivesPortalKills starts 500 VMs with one bulk action and kills the portal twice: once after
// PostgreSQL has committed some child tasks but before the portal has the response, and once at an arbitrary moment.
// Every child task must run exactly once.
func TestBulkStartSurvivesPortalKills(t *testing.T) {
	t.Parallel()
	name := uniqueName("bulk")
	pg := newPostgres(t, name+"-pg")
	gate := newGate(t, pg.URL())
	p := newPortal(t, name, "--database-url", gate.url)
	p.startMockAgent("mock-1")
	a := p.api()
	ids := createVMs(t, a, a.hostByName(t, "mock-1").ID, control.MaxBulkVMs)

	held := gate.holdCommit("savepoint sp_20") // the portal creates twenty child tasks in one transaction
	order := map[string]any{"action": "start", "ids": ids}
	task := requestJSON[fleet.Task](t, a.withIdempotencyKey("the same key"), http.StatusAccepted, http.MethodPost, "/api/v1/vms/actions", order)
	if task.State.IsFinal() || task.Steps == nil || *task.Steps != (fleet.Steps{Queued: len(ids)}) {
		t.Fatalf("the bulk task is %+v with the steps %+v", task, task.Steps)
	}
	select {
	case <-held:
	case <-t.Context().Done():
		t.Fatal("no child task was created")
	}
	p.kill()
	gate.releaseCommit()
	sql, err := pgx.Connect(t.Context(), pg.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sql.Close(context.WithoutCancel(t.Context())) })
	count := func(question string) (n int) {
		t.Helper()
		if err := sql.QueryRow(t.Context(), question).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(`SELECT count(*) FROM tasks WHERE pending`); n != len(ids)-20 {
		t.Fatalf("%d child tasks pending when the portal was killed", n)
	}

	p.start(name)
	again := requestJSON[fleet.Task](t, a.withIdempotencyKey("the same key"), http.StatusAccepted, http.MethodPost, "/api/v1/vms/actions", order)
	if again.ID != task.ID {
		t.Errorf("the repeated request created another task")
	}
	eventually(t, stepLimit, "more child tasks to be created", func() (bool, string) {
		n := count(`SELECT count(*) FROM tasks WHERE pending`)
		return n < len(ids)-20, fmt.Sprintf("%d pending", n)
	})
	p.kill()
	t.Logf("killed again with %d child tasks pending", count(`SELECT count(*) FROM tasks WHERE pending`))
	p.start(name)

	eventually(t, fleet.Lease+4*stepLimit, "the end of the task", func() (bool, string) {
		task = requestJSON[fleet.Task](t, a, http.StatusOK, http.MethodGet, "/api/v1/tasks/"+string(task.ID), nil)
		return task.State.IsFinal(), fmt.Sprintf("%+v", *task.Steps)
	})
	if task.State != fleet.JobDone || *task.Steps != (fleet.Steps{Done: len(ids)}) {
		t.Errorf("the bulk task is %s: %+v", task.State, *task.Steps)
	}
	parts := listAllPages[fleet.Task](t, a, "/api/v1/tasks?sort=created&filter=parent:"+string(task.ID))
	var about []fleet.VMID
	for _, part := range parts {
		_, id := part.Subject.ResourceAndID()
		if about = append(about, fleet.VMID(id)); part.State != fleet.JobDone || part.Error != "" {
			t.Errorf("%s %s: %s %s", part.Title(), part.SubjectName, part.State, part.Error)
		}
	}
	if !slices.Equal(about, ids) {
		t.Errorf("%d child tasks, in another order than requested", len(about))
	}
	// Each start must have exactly one generation, one job and one audit entry.
	for question, want := range map[string]int{
		`SELECT count(*) FROM jobs WHERE kind = 'vm.start'`:                  len(ids),
		`SELECT count(*) FROM audit WHERE action = 'vm.start'`:               len(ids),
		`SELECT count(DISTINCT name) FROM audit WHERE action = 'vm.start'`:   len(ids),
		`SELECT count(*) FROM audit WHERE action = 'vms.start'`:              1,
		`SELECT count(*) FROM vms WHERE generation = 2`:                      len(ids),
		`SELECT count(*) FROM vms WHERE status->>'power' = 'running'`:        len(ids),
		`SELECT count(*) FROM tasks WHERE state IN ('queued', 'running')`:    0,
		`SELECT count(*) FROM tasks WHERE kind = 'vm.start' AND listed`:      1,
		`SELECT count(*) FROM tasks WHERE steps IS NOT NULL AND attempt = 0`: 1,
	} {
		if n := count(question); n != want {
			t.Errorf("%s: %d, want %d", question, n, want)
		}
	}
}

// createVMs creates n VMs on a host and waits until all exist and are off. Their memory may exceed the host's memory.
func createVMs(t *testing.T, a api, host fleet.HostID, n int) []fleet.VMID {
	t.Helper()
	project := requestJSON[fleet.Project](t, a, http.StatusCreated, http.MethodPost, "/api/v1/projects", map[string]any{"name": "many"})
	ids := make([]fleet.VMID, n)
	var creators sync.WaitGroup
	for from := range 4 {
		creators.Go(func() {
			for i := from; i < n && !t.Failed(); i += 4 {
				got, err := a.send(t.Context(), http.MethodPost, "/api/v1/vms", map[string]any{
					"name": fmt.Sprintf("vm-%03d", i), "projectId": project.ID, "hostId": host, "spec": map[string]any{"cpus": 1, "memoryMiB": fleet.MinMemoryMiB},
					"overcommit": true, // four vCPUs per hardware thread are exceeded
				})
				if err != nil || got.status != http.StatusCreated {
					t.Errorf("create a VM: %d %s %v", got.status, got.body, err)
				}
			}
		})
	}
	if creators.Wait(); t.Failed() {
		t.FailNow()
	}
	eventually(t, 4*stepLimit, "the VMs", func() (bool, string) {
		off := listAllPages[fleet.VMView](t, a, "/api/v1/vms?sort=name&filter=state:stopped")
		for i, vm := range off {
			ids[i] = vm.ID
		}
		return len(off) == n, fmt.Sprintf("%d are there", len(off))
	})
	return ids
}

// listAllPages returns all items of a list, page by page.
func listAllPages[T any](t *testing.T, a api, path string) (all []T) {
	t.Helper()
	for after := ""; ; {
		page := requestJSON[fleet.Page[T]](t, a, http.StatusOK, http.MethodGet, path+"&limit=200&after="+after, nil)
		if all, after = append(all, page.Items...), page.Next; after == "" {
			return all
		}
	}
}
