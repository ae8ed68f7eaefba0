package hosts

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/auth"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/wire"
)

// CreateJoinToken creates a token with which one machine can join within 15 minutes, as a new host or again as the
// given host. Only this response contains the token's secret and the join command.
func (hs *Hosts) CreateJoinToken(ctx context.Context, a fleet.Actor, host fleet.HostID) (fleet.JoinToken, error) {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return fleet.JoinToken{}, err
	}
	var again *fleet.HostID
	if host != "" {
		if err := store.CheckID(host, "host"); err != nil {
			return fleet.JoinToken{}, err
		}
		again = &host
	}
	if hs.agentURL == "" {
		return fleet.JoinToken{}, fleet.Errorf(fleet.Unavailable,
			"No portal uses this database now, and the settings contain no address of the portal for agents. Start the portal, or set --agent-url.")
	}
	certificate, err := hs.agents.AuthorityCertificate(ctx, fleet.SystemActor)
	if err != nil {
		return fleet.JoinToken{}, err
	}
	secret := wire.NewJoinToken(certificate.Raw)
	var token fleet.JoinToken
	err = hs.store.Tx(ctx, func(q *db.Queries) error {
		if err := q.DropOldJoinTokens(ctx); err != nil {
			return err
		}
		name := ""
		if again != nil {
			var err error
			if name, err = q.HostName(ctx, host); err != nil {
				return store.NotFoundError(err, "host")
			}
		}
		row, err := q.AddJoinToken(ctx, db.AddJoinTokenParams{
			ID: fleet.NewID[fleet.JoinTokenID](), Hash: auth.HashSecret(secret), CreatedBy: a.Name, HostID: again,
		})
		if err != nil {
			return err
		}
		token = joinTokenFromRow(row)
		return store.Audit(ctx, q, a, "joinToken.create", joinTokenSubject(row.ID), name, "")
	})
	if err != nil {
		return fleet.JoinToken{}, err
	}
	token.Secret = secret
	token.Command = "sudo quantix agent join --portal " + hs.agentURL + " --token " + secret
	return token, nil
}

// RevokeJoinToken ends an unused token. Revoking it twice is no error.
func (hs *Hosts) RevokeJoinToken(ctx context.Context, a fleet.Actor, id fleet.JoinTokenID) error {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return err
	}
	return hs.store.Tx(ctx, func(q *db.Queries) error {
		_, err := q.RevokeJoinToken(ctx, id)
		if errors.Is(err, pgx.ErrNoRows) {
			row, err := q.GetJoinToken(ctx, id)
			if err != nil {
				return store.NotFoundError(err, "join token")
			}
			return fleet.Errorf(fleet.Conflict, "The host %q has joined with this token already. Delete the host if Quantix should not manage it.", row.UsedBy)
		}
		if err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "joinToken.revoke", joinTokenSubject(id), "", "")
	})
}

func joinTokenFromRow(row db.JoinToken) fleet.JoinToken {
	t := fleet.JoinToken{
		ID: row.ID, CreatedBy: row.CreatedBy, CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt,
		UsedAt: row.UsedAt, UsedBy: row.UsedBy, RevokedAt: row.RevokedAt,
	}
	if row.HostID != nil {
		t.HostID = *row.HostID
	}
	return t
}

func joinTokenSubject(id fleet.JoinTokenID) fleet.Subject {
	return fleet.Subject("joinToken:" + string(id))
}
