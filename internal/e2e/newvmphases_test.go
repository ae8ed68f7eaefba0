//go:build linux && ordeal

package e2e

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// TestNewVMPhasesAreCreatingStartingRunning creates a VM that starts at once, on a real host and on a simulated one,
// and polls its phase. The phase may only change from creating to starting to running.
func TestNewVMPhasesAreCreatingStartingRunning(t *testing.T) {
	t.Parallel()
	for name, program := range map[string]struct {
		*sharedProgram
		project, pool, image, host string
	}{
		"libvirt":    {labProgram, "lab", "shared", "tiny-guest.qcow2", "host-1"},
		"simulation": {demoProgram, "shop", "shared", "debian-12.qcow2", "host-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := program.get(t).api()
			pool := a.poolByName(t, program.pool)
			for range 3 {
				vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
					"name": uniqueName("steady"), "projectId": a.projectByName(t, program.project).ID, "hostId": a.hostByName(t, program.host).ID, "start": true,
					"spec": map[string]any{"cpus": 1, "memoryMiB": 256, "disks": []any{
						map[string]any{"poolId": pool.ID, "image": map[string]any{"poolId": pool.ID, "volume": program.image}},
					}},
				})
				seen := a.phasesUntilRunning(t, vm)
				all := []fleet.Phase{fleet.PhaseCreating, fleet.PhaseStarting, fleet.PhaseRunning}
				// Polling may miss the short phase "starting", but must never return any other phase.
				if quick := slices.Delete(slices.Clone(all), 1, 2); !slices.Equal(seen, all) && !slices.Equal(seen, quick) {
					t.Errorf("shown: %v, want %v", seen, all)
				}
				requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodDelete, "/api/v1/vms/"+string(vm.ID)+"?disks=true&purge=true&confirm="+vm.Name, nil)
			}
		})
	}
}

// phasesUntilRunning returns the successive phases of a VM until the VM has been running for a second.
func (a api) phasesUntilRunning(t *testing.T, vm fleet.VMView) []fleet.Phase {
	t.Helper()
	seen := []fleet.Phase{vm.Phase}
	var since time.Time
	for deadline := time.Now().Add(guestLimit); time.Now().Before(deadline); {
		now := a.getVM(t, vm.ID)
		if now.Phase != seen[len(seen)-1] {
			seen = append(seen, now.Phase)
		}
		switch {
		case now.Phase != fleet.PhaseRunning || now.Generation > now.ObservedGeneration:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > time.Second: // the host's report after the start has arrived by now
			return seen
		}
	}
	t.Fatalf("the VM does not run: %v", seen)
	return nil
}
