package control

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// SetAgentAddress notes where agents reach this portal, for programs that make join commands on the database beside it. It is no
// change that people ask for, and so has no audit line.
func (c *Control) SetAgentAddress(ctx context.Context, a fleet.Actor) error {
	if err := store.OnlySystem(a); err != nil {
		return err
	}
	return store.Err(c.store.SetAgentAddress(ctx, c.opts.AgentURL))
}

// ForgetAddress takes SetAgentAddress back, at the portal's end.
func (c *Control) ForgetAddress(ctx context.Context, a fleet.Actor) error {
	if err := store.OnlySystem(a); err != nil {
		return err
	}
	return store.Err(c.store.ForgetAddress(ctx, c.opts.AgentURL))
}

// AgentAddress is where agents reach the portal that runs on this database; empty where none does.
func (c *Control) AgentAddress(ctx context.Context, a fleet.Actor) (string, error) {
	if err := store.OnlySystem(a); err != nil {
		return "", err
	}
	url, err := c.store.AgentAddress(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return url, store.Err(err)
}
