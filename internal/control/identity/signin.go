package identity

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/auth"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// SignIn verifies a name and password. a is anonymous and carries the remote address and the browser's secret.
// LastSeenAt of the returned user is the start of the session in database time; the caller passes it to ActorOfSession later.
// All failures return the same Unauthorized error, after computations of the same duration. After several failures
// SignIn returns TooMany (see throttle.go).
func (p *Identity) SignIn(ctx context.Context, a fleet.Actor, name, password string) (fleet.User, error) {
	at, err := p.signInLimits(ctx, name, a)
	if err != nil {
		return fleet.User{}, err
	}
	if err := p.countAttempt(ctx, at); err != nil {
		return fleet.User{}, err
	}
	row, same, err := p.verifyPassword(ctx, name, password)
	if err != nil {
		return fleet.User{}, errors.Join(store.UserError(err), p.undoAttempt(context.WithoutCancel(ctx), at))
	}
	if !same || row.Disabled {
		return fleet.User{}, p.recordFailedSignIn(ctx, a, row)
	}
	var user fleet.User
	err = p.store.Tx(ctx, func(q *db.Queries) error {
		began, err := q.NoteSignIn(ctx, db.NoteSignInParams{ID: row.ID, PasswordHash: row.PasswordHash})
		if err != nil {
			return err
		}
		if user, err = getUser(ctx, q, row.ID); err != nil {
			return err
		}
		user.LastSeenAt = began
		if err := store.Audit(ctx, q, signInAuditActor(row, a), "user.signIn", userSubject(row.ID), row.Name, ""); err != nil {
			return err
		}
		return clearFailures(ctx, q, at)
	})
	if errors.Is(err, pgx.ErrNoRows) { // the user was changed after verify read the row
		return fleet.User{}, p.recordFailedSignIn(ctx, a, row)
	}
	return user, err
}

// verifyPassword reads the account and verifies the password. It takes as long for an unknown account, so that the
// duration does not reveal which accounts exist.
func (p *Identity) verifyPassword(ctx context.Context, name, password string) (row db.User, same bool, err error) {
	row, err = p.store.UserByName(ctx, name)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return row, false, err
	}
	same, err = auth.VerifyPassword(ctx, password, row.PasswordHash)
	return row, same, err
}

// recordFailedSignIn writes the failure to the audit log and returns the common error. Attempt limits also limit the
// number of these entries. Unknown names are not logged, because users may type their password into the name field.
func (p *Identity) recordFailedSignIn(ctx context.Context, a fleet.Actor, row db.User) error {
	subject, detail := userSubject(row.ID), "wrong password"
	switch {
	case row.ID == "":
		subject, detail = "user:", "no such user"
	case row.Disabled:
		detail = "the user is disabled"
	}
	if err := store.Audit(ctx, p.store.Queries, signInAuditActor(row, a), "user.signInFailed", subject, row.Name, detail); err != nil {
		return store.UserError(err)
	}
	return fleet.Errorf(fleet.Unauthorized, "The user name or the password is wrong.")
}

// signInAuditActor returns the actor for the audit entry of a sign-in.
func signInAuditActor(row db.User, a fleet.Actor) fleet.Actor {
	return fleet.Actor{UserID: row.ID, Name: row.Name, Address: a.Address}
}

// ActorOfSession returns the actor of a session that began at signedInAt (see SignIn and ChangePassword), with current
// permissions. It returns Unauthorized if the user is deleted or disabled, or if a change of password or role has ended
// the session. Only the system actor may call it; the caller adds Session and Address.
func (p *Identity) ActorOfSession(ctx context.Context, a fleet.Actor, id fleet.UserID, signedInAt time.Time) (fleet.Actor, error) {
	if err := store.CheckSystemActor(a); err != nil {
		return fleet.Actor{}, err
	}
	row, err := p.store.UserOfSession(ctx, db.UserOfSessionParams{ID: id, SignedInAt: signedInAt})
	if errors.Is(err, pgx.ErrNoRows) {
		return fleet.Actor{}, fleet.Errorf(fleet.Unauthorized, "Your session has ended. Sign in again.")
	}
	if err != nil {
		return fleet.Actor{}, store.UserError(err)
	}
	projects, err := store.DecodeProjectRoles(row.Projects)
	return fleet.Actor{UserID: row.ID, Name: row.Name, Role: row.Role, Projects: projects, MustChangePassword: row.MustChange}, err
}
