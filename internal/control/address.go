package control

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// SetAgentAddress records the URL where agents reach this portal. Commands that use the database directly read the URL
// to make join commands. The call writes no audit line, because the portal makes it without a user.
func (c *Control) SetAgentAddress(ctx context.Context, a fleet.Actor) error {
	if err := store.CheckSystemActor(a); err != nil {
		return err
	}
	return store.UserError(c.store.SetAgentAddress(ctx, c.opts.AgentURL))
}

// ForgetAddress removes the address recorded by SetAgentAddress. The portal calls it at shutdown.
func (c *Control) ForgetAddress(ctx context.Context, a fleet.Actor) error {
	if err := store.CheckSystemActor(a); err != nil {
		return err
	}
	return store.UserError(c.store.ForgetAddress(ctx, c.opts.AgentURL))
}

// AgentAddress returns the URL where agents reach the portal that uses this database, or "" if no portal runs.
func (c *Control) AgentAddress(ctx context.Context, a fleet.Actor) (string, error) {
	if err := store.CheckSystemActor(a); err != nil {
		return "", err
	}
	url, err := c.store.AgentAddress(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return url, store.UserError(err)
}
