package agent

import (
	"context"
	"errors"
	"fmt"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// poolSetUpHandler returns a handler that fetches the credential of the pool's storage, passes it to the hypervisor, and
// sets up the pool with apply. Jobs do not contain credentials, and the agent does not store them.
func poolSetUpHandler(apply func(hypervisor.Storage, context.Context, fleet.Pool) error) func(context.Context, *Agent, *job) error {
	return func(ctx context.Context, a *Agent, j *job) error {
		if j.Pool == nil {
			return errors.New("the portal sent this job without its pool")
		}
		if err := storePoolSecret(ctx, a, *j.Pool); err != nil {
			return err
		}
		return apply(a.hypervisor, ctx, *j.Pool)
	}
}

// storePoolSecret fetches the pool's credentials, if it has any, and stores them in the hypervisor.
func storePoolSecret(ctx context.Context, a *Agent, p fleet.Pool) error {
	if p.Spec.Kind.Info().Secret == nil || p.Spec.User == "" {
		return nil
	}
	got, err := a.client.PoolSecret(ctx, p.ID)
	if err != nil {
		if e, ok := errors.AsType[*wire.Error](err); ok {
			return fmt.Errorf("the pool's credentials cannot be fetched: %s", e.Detail)
		}
		return fmt.Errorf("fetch the pool's credentials: %w", err)
	}
	a.secrets.add(got.Secret)
	return a.hypervisor.SetPoolSecret(ctx, p, got.Secret)
}
