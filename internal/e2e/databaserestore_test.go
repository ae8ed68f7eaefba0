//go:build linux && ordeal

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/internal/fleet"
	"quantix/internal/pglocal"
)

// TestDatabaseRestoreShowsLaterChangesAsDrift dumps the portal's database, changes VMs, and restores the dump. Actions
// must then work as before. The changes made after the dump must show as drift and must not be reverted. The agents'
// sessions stay the same.
func TestDatabaseRestoreShowsLaterChangesAsDrift(t *testing.T) {
	t.Parallel()
	name := uniqueName("restored")
	pg := newPostgres(t, name+"-pg")
	p := newPortal(t, name, "--database-url", pg.URL())
	p.startMockAgent("mock-1")
	a := p.api()
	project := requestJSON[fleet.Project](t, a, http.StatusCreated, http.MethodPost, "/api/v1/projects", map[string]any{"name": "kept"})
	create := func(name string) fleet.VMView {
		vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms",
			map[string]any{"name": name, "projectId": project.ID, "spec": map[string]any{"cpus": 1, "memoryMiB": 128}})
		return a.waitPhase(t, stepLimit, vm.ID, fleet.PhaseStopped)
	}
	act := func(vm fleet.VMView, action string) fleet.Task {
		return requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, "/api/v1/vms/"+string(vm.ID)+"/actions", map[string]any{"action": action})
	}
	edited, cycled := create("edited"), create("ran")

	dump := filepath.Join(root, name+".dump")
	postgresProgram(t, "pg_dump", "--format=custom", "--file="+dump, pg.URL())
	requestJSON[fleet.VMView](t, a, http.StatusOK, http.MethodPatch, "/api/v1/vms/"+string(edited.ID), map[string]any{"spec": map[string]any{"cpus": 2}})
	a.waitPhase(t, stepLimit, edited.ID, fleet.PhaseStopped)
	for range 8 {
		a.ensurePhase(t, cycled.ID, fleet.PhaseRunning)
		a.ensurePhase(t, cycled.ID, fleet.PhaseStopped)
	}
	p.kill()
	restoreDump(t, pg.URL(), dump)
	p.start(name)

	// The first job after the restore gets an epoch that the host has already seen. The job must still complete within
	// its first lease.
	began := time.Now()
	a.waitTask(t, act(cycled, "start"), fleet.JobDone)
	if took := time.Since(began); took > fleet.Lease {
		t.Errorf("the first job after the restore took %s", took)
	}
	drifted := func(when string) {
		t.Helper()
		eventually(t, stepLimit, "the drift "+when, func() (bool, string) {
			vm := a.getVM(t, edited.ID)
			return vm.Spec.CPUs == 1 && vm.Status.CPUs == 2 && len(vm.Status.Drift) == 1 && vm.Status.Drift[0].Field == "cpus",
				fmt.Sprintf("%+v %+v", vm.Spec, vm.Status)
		})
	}
	drifted("after the restore")
	a.waitTask(t, act(edited, "start"), fleet.JobDone)
	drifted("after a start")
}

// postgresProgram runs one of PostgreSQL's client programs.
func postgresProgram(t *testing.T, program string, args ...string) {
	t.Helper()
	bin, err := pglocal.FindBinaries()
	if err == nil { // PATH may have links to only some of the programs; the others are in the links' target directory
		bin, err = filepath.EvalSymlinks(filepath.Join(bin, "postgres"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := commandOutput(t.Context(), filepath.Join(filepath.Dir(bin), program), args...); err != nil {
		t.Fatalf("%s: %v: %s", program, err, out)
	}
}

// restoreDump replaces the database at the given URL by the content of a dump.
func restoreDump(t *testing.T, address, dump string) {
	t.Helper()
	conf, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	database := pgx.Identifier{conf.Database}.Sanitize()
	conf.Database = "postgres"
	conn, err := pgx.ConnectConfig(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, sql := range []string{"DROP DATABASE " + database + " WITH (FORCE)", "CREATE DATABASE " + database} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	postgresProgram(t, "pg_restore", "--exit-on-error", "--dbname="+address, dump)
}
