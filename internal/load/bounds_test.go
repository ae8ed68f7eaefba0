package load_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"quantix/internal/load"
)

func TestNegativeOptionsRefused(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]load.Options{
		"hosts": {Hosts: -1}, "VMs": {Hosts: 1, VMs: -1}, "pools": {Hosts: 1, Pools: -1}, "tabs": {Hosts: 1, Tabs: -1}, "people": {Hosts: 1, People: -1},
		"changes": {Hosts: 1, Change: -1}, "no number": {Hosts: 1, Change: math.NaN()}, "pause": {Hosts: 1, Pause: -time.Second}, "time": {Hosts: 1, For: -time.Second},
	} {
		if _, err := load.Run(t.Context(), o); err == nil || !strings.HasPrefix(err.Error(), "a load") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
