package storage

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/assign"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/wire"
)

// ChangePoolSecret replaces the secret with which hosts log in to a pool's storage. All hosts of the pool set the pool
// up again with the new secret. A running guest uses the new secret from its next start on. No response, job or audit
// line contains the secret.
func (st *Storage) ChangePoolSecret(ctx context.Context, a fleet.Actor, id fleet.PoolID, secret string) ([]fleet.TaskID, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	var tasks []fleet.TaskID
	err := assign.PoolType.ChangeObject(ctx, st.store, a, string(id), func(q *db.Queries, o assign.AssignableObject) error {
		spec, err := ReadPoolSpec(ctx, q, id)
		if err != nil {
			return err
		}
		if ok, why := (fleet.Pool{Spec: spec}).Allows(fleet.ActCredentials); !ok {
			return fleet.RefusalError(why)
		}
		var checks fleet.Checks
		if spec.CheckSecret(&checks, "secret", secret); checks.Err() != nil {
			return checks.Err()
		}
		if err := st.storePoolSecret(ctx, q, a, id, secret); err != nil {
			return err
		}
		if tasks, err = o.QueueRepeatedSetup(ctx, q, a); err != nil {
			return err
		}
		return o.Audit(ctx, q, a, "credentials", "of "+spec.User)
	})
	return tasks, err
}

// storePoolSecret stores the secret encrypted, with a key that is not in the database.
func (st *Storage) storePoolSecret(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.PoolID, secret string) error {
	by := st.vault.KeyID()
	if by == "" {
		return fleet.Errorf(fleet.Conflict, "This portal has no key to encrypt credentials. Set secretsKey in the portal's settings.")
	}
	sealed, err := st.vault.Seal(poolSecretLabel(id), []byte(secret))
	if err != nil {
		return err
	}
	return q.SetPoolSecret(ctx, db.SetPoolSecretParams{PoolID: id, ByKey: by, Sealed: sealed, SetBy: a.Name})
}

// poolSecretLabel binds an encrypted secret to one pool: it cannot be decrypted for another pool's row.
func poolSecretLabel(id fleet.PoolID) string { return "secret of pool " + string(id) }

// PoolSecret returns a pool's secret to a host that has the pool assigned. All other callers are refused.
func (st *Storage) PoolSecret(ctx context.Context, a fleet.Actor, id fleet.PoolID) (wire.PoolSecret, error) {
	if err := policy.Check(a, policy.ActAsAgent, ""); err != nil {
		return wire.PoolSecret{}, err
	}
	if err := store.CheckID(id, "pool"); err != nil {
		return wire.PoolSecret{}, err
	}
	row, err := st.store.PoolSecretFor(ctx, db.PoolSecretForParams{PoolID: id, HostID: a.HostID})
	if errors.Is(err, pgx.ErrNoRows) {
		return wire.PoolSecret{}, fleet.Errorf(fleet.NotFound, "There are no credentials of this pool for this host.")
	}
	if err != nil {
		return wire.PoolSecret{}, store.UserError(err)
	}
	secret, ok := st.vault.Unseal(poolSecretLabel(id), row.Sealed)
	if !ok {
		return wire.PoolSecret{}, fleet.Errorf(fleet.Conflict, "The portal cannot decrypt the pool's credentials: a portal with another key (%s) encrypted them. Give all portals the same secretsKey, or change the pool's credentials.", row.ByKey)
	}
	return wire.PoolSecret{Secret: string(secret)}, nil
}
