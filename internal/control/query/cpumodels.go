package query

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// cpuModelsMaxAge is how long the CPU models of all hosts are cached. Every VM form reads them, and they change only
// when host software is updated.
const cpuModelsMaxAge = 10 * time.Second

// cachedCPUModels is the cached list of CPU models and the time it was read.
type cachedCPUModels struct {
	at     time.Time
	models []fleet.CPUModelUse
}

// CPUModels returns the named CPU models that hosts support for guests, with those first that most hosts support. An
// actor who cannot see hosts gets only models supported by all hosts, without host counts.
func (b *Queries) CPUModels(ctx context.Context, a fleet.Actor) ([]fleet.CPUModelUse, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return nil, err
	}
	all, err := b.cpuModelUses(ctx)
	if err != nil || store.SeesHosts(a) {
		return all, err
	}
	var out []fleet.CPUModelUse
	for _, m := range all {
		if m.Hosts == m.Of {
			out = append(out, fleet.CPUModelUse{Model: m.Model})
		}
	}
	return out, nil
}

func (b *Queries) cpuModelUses(ctx context.Context) ([]fleet.CPUModelUse, error) {
	if known := b.models.Load(); known != nil && time.Since(known.at) < cpuModelsMaxAge {
		return known.models, nil
	}
	began := time.Now()
	sets, err := b.store.CPUModelSets(ctx)
	if err != nil {
		return nil, store.UserError(err)
	}
	hosts, on := 0, map[string]int{}
	for _, set := range sets {
		var models []string
		if err := json.Unmarshal(set.Models, &models); err != nil {
			return nil, fmt.Errorf("read the CPU models of %d hosts: %w", set.Hosts, err)
		}
		hosts += int(set.Hosts)
		for _, m := range models {
			on[m] += int(set.Hosts)
		}
	}
	var all []fleet.CPUModelUse
	for m, n := range on {
		all = append(all, fleet.CPUModelUse{Model: m, Hosts: n, Of: hosts})
	}
	slices.SortFunc(all, func(x, y fleet.CPUModelUse) int {
		return cmp.Or(cmp.Compare(y.Hosts, x.Hosts), strings.Compare(x.Model, y.Model))
	})
	b.models.Store(&cachedCPUModels{began, all})
	return all, nil
}
