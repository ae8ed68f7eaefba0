package agent

import (
	"context"
	"errors"
	"fmt"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// firstBoot fetches the VM's first-boot data. It is fetched only when it is needed: no job contains it, and the agent
// stores it only on the guest's disc.
func firstBoot(ctx context.Context, a *Agent, vm fleet.VM) (map[string][]byte, error) {
	got, err := a.client.FirstBoot(ctx, vm.ID, vm.Spec.FirstBoot)
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return nil, fmt.Errorf("what the guest is told when it first starts cannot be fetched: %s", e.Detail)
	}
	if err != nil {
		return nil, fmt.Errorf("fetch what the guest is told when it first starts: %w", err)
	}
	return got.Files, nil
}
