// Package tier divides the tests into two tiers. `task test` runs the tier "gate". The tier "ordeal" consists of longer
// tests in files with the build tag "ordeal"; `task ordeal` runs it in shards.
package tier

import (
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
)

// SeedVariable is the environment variable with the seed of a run. The default is a random seed.
const SeedVariable = "QUANTIX_TEST_SEED"

// Seed is the seed of this run, at least 0. Runs with the same seed interrupt programs at the same points.
var Seed = sync.OnceValue(func() int {
	if n, err := strconv.Atoi(os.Getenv(SeedVariable)); err == nil && n >= 0 {
		return n
	}
	return rand.IntN(1 << 20) //nolint:gosec // not a secret
})

// InterruptionOffset returns the number of the first interruption point to test, from 0 to step-1, for a test that then
// tests every point at a distance of step. Different seeds select different points. The test's log contains the seed,
// so that a failure can be repeated.
func InterruptionOffset(t testing.TB, step int) int {
	t.Helper()
	t.Logf("interruption points %d, %d, … of every %d: repeat with %s=%d", Seed()%step, Seed()%step+step, step, SeedVariable, Seed())
	return Seed() % step
}
