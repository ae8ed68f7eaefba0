package identity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/auth"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// ChangePassword sets the actor's password and ends all the actor's sessions. With endTokens it also deletes the
// actor's API tokens. It returns the start of the caller's new session, in database time. Attempts with a wrong old
// password are limited like sign-ins.
func (p *Identity) ChangePassword(ctx context.Context, a fleet.Actor, old, password string, endTokens bool) (signedInAt time.Time, err error) {
	if err := policy.Check(a, policy.OwnAccount, ""); err != nil {
		return time.Time{}, err
	}
	user, err := p.getUserRow(ctx, p.store.Queries, a.UserID)
	if err != nil {
		return time.Time{}, err
	}
	var checks fleet.Checks
	auth.CheckPassword(&checks, "new", user.Name, password)
	if password == old {
		checks.Add("new", "The new password is the same as the old one. Choose another.")
	}
	if err := checks.Err(); err != nil {
		return time.Time{}, err
	}
	if err := p.verifyOldPassword(ctx, a, user, old); err != nil {
		return time.Time{}, err
	}
	return p.storePassword(ctx, a, user, password, passwordOptions{endTokens: endTokens})
}

// verifyOldPassword verifies the old password. Its failures count separately from sign-ins, so that guesses in a stolen
// session do not lock the user out.
func (p *Identity) verifyOldPassword(ctx context.Context, a fleet.Actor, user db.User, old string) error {
	at := append(attemptLimits{{"password:" + string(user.ID), freeAttemptsPerAccountAndNetwork, true}}, clientAddressLimits(a)...)
	if err := p.countAttempt(ctx, at); err != nil {
		return err
	}
	same, err := auth.VerifyPassword(ctx, old, user.PasswordHash)
	if err != nil {
		return errors.Join(store.UserError(err), p.undoAttempt(context.WithoutCancel(ctx), at))
	}
	if !same {
		if err := store.Audit(ctx, p.store.Queries, a, "user.passwordFailed", userSubject(user.ID), user.Name, "wrong password"); err != nil {
			return store.UserError(err)
		}
		var checks fleet.Checks
		checks.Add("old", "This is not your current password.")
		return checks.Err()
	}
	return p.store.Tx(ctx, func(q *db.Queries) error { return clearFailures(ctx, q, at) })
}

// SetPassword sets a one-time password for another user. It ends the user's sessions and deletes the user's known
// browsers and API tokens, because any of them may be compromised.
func (p *Identity) SetPassword(ctx context.Context, a fleet.Actor, id fleet.UserID, password string) error {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return err
	}
	if ok, why := (fleet.User{ID: id}).AllowsActionBy(a.UserID, fleet.ActPassword); !ok {
		return fleet.RefusalError(why)
	}
	user, err := p.getUserRow(ctx, p.store.Queries, id)
	if err != nil {
		return err
	}
	var checks fleet.Checks
	auth.CheckPassword(&checks, "password", user.Name, password)
	if err := checks.Err(); err != nil {
		return err
	}
	same, err := auth.VerifyPassword(ctx, password, user.PasswordHash)
	if err != nil {
		return store.UserError(err)
	}
	if same {
		checks.Add("password", "This is the user's current password. Choose another.")
		return checks.Err()
	}
	_, err = p.storePassword(ctx, a, user, password, passwordOptions{mustChange: true, endTokens: true})
	return err
}

// passwordOptions holds the options of a password change.
type passwordOptions struct {
	mustChange bool // the user must change it at the next sign-in
	endTokens  bool // delete the user's API tokens
}

func (p *Identity) storePassword(ctx context.Context, a fleet.Actor, user db.User, password string, is passwordOptions) (from time.Time, err error) {
	hash, err := auth.HashPassword(ctx, password)
	if err != nil {
		return time.Time{}, store.UserError(err)
	}
	err = p.store.Tx(ctx, func(q *db.Queries) error {
		from, err = q.ChangePassword(ctx, db.ChangePasswordParams{
			ID: user.ID, PasswordHash: hash, MustChange: is.mustChange, OldHash: user.PasswordHash,
		})
		if errors.Is(err, pgx.ErrNoRows) {
			return fleet.Errorf(fleet.Conflict, "The password was changed by somebody else a moment ago. Try again.")
		}
		if err != nil {
			return err
		}
		detail := ""
		if is.endTokens {
			tokens, err := q.DeleteTokensOf(ctx, user.ID)
			if err != nil {
				return err
			}
			detail = fmt.Sprintf("API tokens deleted: %d", tokens)
		}
		if !is.mustChange {
			return store.Audit(ctx, q, a, "user.changePassword", userSubject(user.ID), user.Name, detail)
		}
		if err := q.ForgetBrowsersOf(ctx, user.ID); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "user.setPassword", userSubject(user.ID), user.Name, detail)
	})
	return from, err
}

func (p *Identity) getUserRow(ctx context.Context, q *db.Queries, id fleet.UserID) (db.User, error) {
	row, err := q.GetUser(ctx, id)
	if err != nil {
		return db.User{}, store.NotFoundError(err, "user")
	}
	return row.User, nil
}
