package agentapi

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/auth"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/wire"
)

// RenewHost issues a new certificate for a host. The key must be the one with which the host joined.
func (api *API) RenewHost(ctx context.Context, a fleet.Actor, csr string) (wire.Certificate, error) {
	if err := policy.Check(a, policy.ActAsAgent, ""); err != nil {
		return wire.Certificate{}, err
	}
	key, err := auth.CSRKeyHash(csr)
	if err != nil {
		return wire.Certificate{}, err
	}
	authority, err := api.loadAuthority(ctx)
	if err != nil {
		return wire.Certificate{}, err
	}
	cert, err := authority.IssueHost(a.HostID, csr)
	if err != nil {
		return wire.Certificate{}, err
	}
	err = api.store.Tx(ctx, func(q *db.Queries) error {
		host, err := q.HostKey(ctx, a.HostID)
		if err != nil {
			return hostRemovedError(err)
		}
		if err := checkSameKey(host.KeyHash, a); err != nil {
			return err
		}
		if string(key) != a.KeyHash {
			return fleet.Errorf(fleet.Invalid, "A certificate can be renewed only with the same key. To use another key, join the host again.")
		}
		if err := q.SetCertificateEnd(ctx, db.SetCertificateEndParams{HostID: a.HostID, CertificateEnd: time.Now().Add(auth.HostCertLife)}); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "host.renew", hostSubject(a.HostID), host.Name, "")
	})
	if err != nil {
		return wire.Certificate{}, err
	}
	return wire.Certificate{Cert: cert, CA: authority.CertPEM()}, nil
}

// checkSameKey rejects an agent whose key is not the one of the host's last join.
func checkSameKey(key []byte, a fleet.Actor) error {
	if key == nil || string(key) == a.KeyHash {
		return nil
	}
	return fleet.Errorf(fleet.Unauthorized, "This host has since joined again with another agent. Stop this agent and remove its data directory.")
}

// Authority returns the portals' certificate authority, and creates it on first use. Only the system actor may call it.
func (api *API) Authority(ctx context.Context, a fleet.Actor) (*auth.Authority, error) {
	if err := store.CheckSystemActor(a); err != nil {
		return nil, err
	}
	return api.loadAuthority(ctx)
}

// AuthorityCertificate returns the authority's own certificate, without its key. Only the system actor may call it.
func (api *API) AuthorityCertificate(ctx context.Context, a fleet.Actor) (*x509.Certificate, error) {
	if err := store.CheckSystemActor(a); err != nil {
		return nil, err
	}
	row, err := api.readOrCreateAuthority(ctx)
	if err != nil {
		return nil, err
	}
	return auth.ParseCertificate(row.CertPem)
}

// readOrCreateAuthority reads the authority's row, and creates it if it does not exist.
func (api *API) readOrCreateAuthority(ctx context.Context) (db.GetAuthorityRow, error) {
	row, err := api.store.GetAuthority(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		if err := api.createAuthority(ctx); err != nil {
			return row, err
		}
		row, err = api.store.GetAuthority(ctx)
	}
	if err != nil {
		return row, fmt.Errorf("load the authority: %w", store.UserError(err))
	}
	return row, nil
}

// authorityKeyLabel is the label under which the vault seals the authority's key.
const authorityKeyLabel = "key of the authority"

func (api *API) loadAuthority(ctx context.Context) (*auth.Authority, error) {
	row, err := api.readOrCreateAuthority(ctx)
	if err != nil {
		return nil, err
	}
	if row.KeyPem == nil {
		key, ok := api.vault.Unseal(authorityKeyLabel, row.Sealed)
		if !ok {
			return nil, fmt.Errorf("the key of the authority that signs hosts' certificates is encrypted with another key (%s) than this portal's (%s): "+
				"restore the file secrets.key with that key from a backup, or set its path in secretsKey", *row.ByKey, cmp.Or(api.vault.KeyID(), "none"))
		}
		return auth.ParseAuthority(row.CertPem, string(key))
	}
	if api.vault.KeyID() != "" {
		if err := api.sealAuthority(ctx, *row.KeyPem); err != nil {
			return nil, err
		}
	}
	return auth.ParseAuthority(row.CertPem, *row.KeyPem)
}

// sealAuthority seals a key that an older release stored in plain text.
func (api *API) sealAuthority(ctx context.Context, key string) error {
	sealed, err := api.vault.Seal(authorityKeyLabel, []byte(key))
	if err != nil {
		return err
	}
	return api.store.Tx(ctx, func(q *db.Queries) error {
		by := api.vault.KeyID()
		rows, err := q.SealAuthority(ctx, db.SealAuthorityParams{ByKey: &by, Sealed: sealed})
		if err != nil || rows == 0 {
			return err
		}
		return store.Audit(ctx, q, fleet.SystemActor, "authority.seal", "authority", "", "with the key "+by)
	})
}

// createAuthority stores a new authority unless one exists; of concurrent calls, the first wins. A portal without a
// vault stores the key in plain text.
func (api *API) createAuthority(ctx context.Context) error {
	made, err := auth.NewAuthority()
	if err != nil {
		return err
	}
	key, err := made.KeyPEM()
	if err != nil {
		return err
	}
	row := db.AddAuthorityParams{CertPem: made.CertPEM(), KeyPem: &key}
	if by := api.vault.KeyID(); by != "" {
		row.KeyPem, row.ByKey = nil, &by
		if row.Sealed, err = api.vault.Seal(authorityKeyLabel, []byte(key)); err != nil {
			return err
		}
	}
	return api.store.Tx(ctx, func(q *db.Queries) error {
		rows, err := q.AddAuthority(ctx, row)
		if err != nil || rows == 0 {
			return err
		}
		return store.Audit(ctx, q, fleet.SystemActor, "authority.create", "authority", "", "sha256 "+auth.Fingerprint(made.Certificate()))
	})
}
