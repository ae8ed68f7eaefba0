package hosts

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// SetAgentAddress records the URL where agents reach this portal. A command that creates join tokens directly in the
// database reads this URL. SetAgentAddress writes no audit line, because the portal calls it without a user.
func (hs *Hosts) SetAgentAddress(ctx context.Context, a fleet.Actor) error {
	if err := store.CheckSystemActor(a); err != nil {
		return err
	}
	return store.UserError(hs.store.SetAgentAddress(ctx, hs.agentURL))
}

// ForgetAgentAddress removes the address recorded by SetAgentAddress. The portal calls it at shutdown.
func (hs *Hosts) ForgetAgentAddress(ctx context.Context, a fleet.Actor) error {
	if err := store.CheckSystemActor(a); err != nil {
		return err
	}
	return store.UserError(hs.store.ForgetAddress(ctx, hs.agentURL))
}

// AgentAddress returns the URL where agents reach the portal, or "" if no portal is running on this database.
func (hs *Hosts) AgentAddress(ctx context.Context, a fleet.Actor) (string, error) {
	if err := store.CheckSystemActor(a); err != nil {
		return "", err
	}
	url, err := hs.store.AgentAddress(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return url, store.UserError(err)
}
