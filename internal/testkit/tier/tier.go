// Package tier divides the tests. The gate is what `task test` runs. The ordeal is all that needs more time: files with the build
// tag "ordeal", which `task ordeal` runs in shards.
package tier

import (
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
)

// SeedVariable names the environment variable with the seed of a run; without it every run draws its own.
const SeedVariable = "QUANTIX_TEST_SEED"

// Seed is the seed of this run, a number from 0 on. The same seed picks the same places to cut off.
var Seed = sync.OnceValue(func() int {
	if n, err := strconv.Atoi(os.Getenv(SeedVariable)); err == nil && n >= 0 {
		return n
	}
	return rand.IntN(1 << 20) //nolint:gosec // not a secret
})

// Offset is the first of every n-th places that this run takes, 0 … every-1. Runs with different seeds take different places.
// The test's log names the seed, so that a failure can be repeated.
func Offset(t testing.TB, every int) int {
	t.Helper()
	t.Logf("places %d, %d, … of every %d: repeat with %s=%d", Seed()%every, Seed()%every+every, every, SeedVariable, Seed())
	return Seed() % every
}
