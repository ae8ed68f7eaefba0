package control

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"quantix/internal/fleet"
)

// TellAddress notes where agents reach this portal, for programs that make join commands on the database beside it. It is no
// change that people ask for, and so has no audit line.
func (c *Control) TellAddress(ctx context.Context, a fleet.Actor) error {
	if err := onlySystem(a); err != nil {
		return err
	}
	return dbError(c.q.TellAddress(ctx, c.opts.AgentURL))
}

// ForgetAddress takes TellAddress back, at the portal's end.
func (c *Control) ForgetAddress(ctx context.Context, a fleet.Actor) error {
	if err := onlySystem(a); err != nil {
		return err
	}
	return dbError(c.q.ForgetAddress(ctx, c.opts.AgentURL))
}

// ToldAddress is where agents reach the portal that runs on this database; empty where none does.
func (c *Control) ToldAddress(ctx context.Context, a fleet.Actor) (string, error) {
	if err := onlySystem(a); err != nil {
		return "", err
	}
	url, err := c.q.ToldAddress(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return url, dbError(err)
}
