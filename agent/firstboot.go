package agent

import (
	"context"
	"errors"
	"fmt"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// fetchFirstBoot fetches the VM's first-boot data from the portal. Jobs do not contain the data, and the agent stores
// it only on the guest's first-boot disc.
func fetchFirstBoot(ctx context.Context, a *Agent, vm fleet.VM) (map[string][]byte, error) {
	got, err := a.client.FirstBoot(ctx, vm.ID, vm.Spec.FirstBoot)
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return nil, fmt.Errorf("the first-boot data cannot be fetched: %s", e.Detail)
	}
	if err != nil {
		return nil, fmt.Errorf("fetch the first-boot data: %w", err)
	}
	return got.Files, nil
}
