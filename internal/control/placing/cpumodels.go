package placing

import (
	"context"
	"encoding/json"
	"fmt"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/placement"
)

// ResolveCPUModel replaces fleet.BaselineModel in the spec by the newest CPU model that all hosts support.
func ResolveCPUModel(ctx context.Context, q *db.Queries, spec *fleet.VMSpec) error {
	if spec.CPU.Model != fleet.BaselineModel {
		return nil
	}
	rows, err := q.CPUModelSets(ctx)
	if err != nil {
		return err
	}
	sets := make([][]string, len(rows))
	for i, r := range rows {
		if err := json.Unmarshal(r.Models, &sets[i]); err != nil {
			return fmt.Errorf("read the CPU models of %d hosts: %w", r.Hosts, err)
		}
	}
	if spec.CPU.Model = placement.NewestModel(sets); spec.CPU.Model == "" {
		var checks fleet.Checks
		checks.Add("spec.cpu.model", "No named CPU model is supported by all hosts. Choose another model.")
		return checks.Err()
	}
	return nil
}
