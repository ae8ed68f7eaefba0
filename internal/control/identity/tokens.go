package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/auth"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

const (
	maxTokens    = 100
	maxTokenName = 100 // bytes
	maxTokenLife = 10 * 365 * 24 * time.Hour
)

// ActorOfToken returns the user of an API token, with current permissions. a is anonymous and carries the remote
// address. Unknown, expired and deleted tokens and tokens of disabled users all return Unauthorized. A required
// password change does not block a token: only a session without that requirement can create one.
func (p *Identity) ActorOfToken(ctx context.Context, a fleet.Actor, secret string) (fleet.Actor, error) {
	if !strings.HasPrefix(secret, auth.TokenPrefix) {
		return fleet.Actor{}, invalidTokenError()
	}
	row, err := p.store.UserOfToken(ctx, auth.HashSecret(secret))
	if errors.Is(err, pgx.ErrNoRows) {
		return fleet.Actor{}, invalidTokenError()
	}
	if err != nil {
		return fleet.Actor{}, store.UserError(err)
	}
	projects, err := store.DecodeProjectRoles(row.Projects)
	return fleet.Actor{
		UserID: row.ID, Name: row.Name, Role: row.Role, Projects: projects, Session: string(row.TokenID), Token: row.TokenID, Address: a.Address,
	}, err
}

// CreateToken creates an API token for the actor. ttl is rounded to seconds; 0 means no expiry. A token created with
// another token expires no later than that token and is deleted with it. Only this call returns the secret. An actor
// who must change the password is rejected.
func (p *Identity) CreateToken(ctx context.Context, a fleet.Actor, name string, ttl time.Duration) (fleet.Token, error) {
	if err := policy.Check(a, policy.OwnAccount, ""); err != nil {
		return fleet.Token{}, err
	}
	switch {
	case a.UserID == "":
		return fleet.Token{}, fleet.Errorf(fleet.Forbidden, "Only a person can create API tokens.")
	case a.MustChangePassword:
		return fleet.Token{}, fleet.Errorf(fleet.Forbidden, "Change your password first.")
	}
	if err := checkNewToken(name, ttl); err != nil {
		return fleet.Token{}, err
	}
	secret := auth.NewSecret(auth.TokenPrefix)
	var token fleet.Token
	err := p.store.Tx(ctx, func(q *db.Queries) error {
		var notAfter *time.Time
		var madeWith *fleet.TokenID
		if a.Token != "" {
			var err error
			madeWith = &a.Token
			if notAfter, err = q.TokenEnd(ctx, a.Token); errors.Is(err, pgx.ErrNoRows) {
				return invalidTokenError()
			} else if err != nil {
				return err
			}
		}
		row, err := q.AddToken(ctx, db.AddTokenParams{
			ID: fleet.NewID[fleet.TokenID](), UserID: a.UserID, Name: name, Hash: auth.HashSecret(secret),
			TtlSeconds: ttl.Round(time.Second).Seconds(), NotAfter: notAfter, MadeWith: madeWith, Max: maxTokens,
		})
		if errors.Is(err, pgx.ErrNoRows) {
			return fleet.Errorf(fleet.Conflict, "You have %d API tokens already. Delete one that is not used.", maxTokens)
		}
		if err != nil {
			return err
		}
		token = tokenFromRow(row)
		return store.Audit(ctx, q, a, "token.create", tokenSubject(row.ID), name, "")
	})
	if err != nil {
		return fleet.Token{}, err
	}
	token.Secret = secret
	return token, nil
}

// DeleteToken deletes one of the actor's API tokens and all tokens that were created with it, because a thief of the
// token may have created some.
func (p *Identity) DeleteToken(ctx context.Context, a fleet.Actor, id fleet.TokenID) error {
	if err := policy.Check(a, policy.OwnAccount, ""); err != nil {
		return err
	}
	return p.store.Tx(ctx, func(q *db.Queries) error {
		made, err := q.CreatedWith(ctx, string(id))
		if err != nil {
			return err
		}
		name, err := q.DeleteToken(ctx, db.DeleteTokenParams{ID: id, UserID: a.UserID})
		if err != nil {
			return store.NotFoundError(err, "API token")
		}
		return store.Audit(ctx, q, a, "token.delete", tokenSubject(id), name, deletedTokensDetail(made))
	})
}

func deletedTokensDetail(tokens int64) string {
	if tokens == 0 {
		return ""
	}
	return fmt.Sprintf("and %d that were made with it", tokens)
}

func checkNewToken(name string, ttl time.Duration) error {
	var c fleet.Checks
	switch {
	case strings.TrimSpace(name) == "":
		c.Add("name", "Give a name that says what the token is for.")
	case len(name) > maxTokenName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		c.Add("name", "A token's name is one line of at most %d bytes.", maxTokenName)
	}
	if ttl < 0 || ttl > maxTokenLife || ttl > 0 && ttl < time.Minute {
		c.Add("ttl", "A token is valid for one minute to ten years, or without end.")
	}
	return c.Err()
}

func invalidTokenError() error {
	return fleet.Errorf(fleet.Unauthorized, "This API token is not valid. Make a new one in your account.")
}

func tokenFromRow(row db.Token) fleet.Token {
	return fleet.Token{
		ID: row.ID, UserID: row.UserID, Name: row.Name,
		CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt, LastUsedAt: row.LastUsedAt,
	}
}

func tokenSubject(id fleet.TokenID) fleet.Subject { return fleet.Subject("token:" + string(id)) }
