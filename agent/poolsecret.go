package agent

import (
	"context"
	"errors"
	"fmt"

	"quantix/internal/wire"
)

// applyPool fetches the credential of the pool's storage, passes it to the hypervisor, and applies the pool. Jobs do
// not contain credentials, and the agent does not store them.
func applyPool(ctx context.Context, a *Agent, j *job) error {
	if j.Pool == nil {
		return errors.New("the portal sent this job without its pool")
	}
	if j.Pool.Spec.Kind.Info().Secret != nil && j.Pool.Spec.User != "" {
		got, err := a.client.PoolSecret(ctx, j.Pool.ID)
		if err != nil {
			if e, ok := errors.AsType[*wire.Error](err); ok {
				return fmt.Errorf("the pool's credentials cannot be fetched: %s", e.Detail)
			}
			return fmt.Errorf("fetch the pool's credentials: %w", err)
		}
		if err := a.hypervisor.SetPoolSecret(ctx, *j.Pool, got.Secret); err != nil {
			return err
		}
	}
	return a.hypervisor.ApplyPool(ctx, *j.Pool)
}
