package identity

import (
	"context"
	"slices"

	"quantix/db"
	"quantix/internal/auth"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// UserInput is an administrator's input for a user.
type UserInput struct {
	Name     string     `json:"name"`
	Role     fleet.Role `json:"role"` // one of fleet.FleetRoles; empty: project roles only
	Disabled bool       `json:"disabled"`
}

func (in UserInput) checkFields() error {
	var c fleet.Checks
	fleet.CheckUserName(&c, "name", in.Name)
	fleet.CheckRole(&c, in.Role, fleet.FleetRoles())
	return c.Err()
}

// EnsureAdmin creates the user "admin" with a one-time password if there are no users. If several portals start at
// once, only one creates the user. Only the system actor may call EnsureAdmin.
func (p *Identity) EnsureAdmin(ctx context.Context, a fleet.Actor) (password string, made bool, err error) {
	if err := store.CheckSystemActor(a); err != nil {
		return "", false, err
	}
	if exists, err := p.store.HasUsers(ctx); err != nil || exists {
		return "", false, store.UserError(err)
	}
	password = auth.NewPassword()
	hash, err := auth.HashPassword(ctx, password)
	if err != nil {
		return "", false, err
	}
	err = p.store.Tx(ctx, func(q *db.Queries) error {
		id := fleet.NewID[fleet.UserID]()
		rows, err := q.AddFirstUser(ctx, db.AddFirstUserParams{ID: id, Name: "admin", Role: fleet.RoleAdmin, PasswordHash: hash})
		if made = rows > 0; err != nil || !made {
			return err
		}
		return store.Audit(ctx, q, a, "user.create", userSubject(id), "admin", "role admin, first start")
	})
	if err != nil || !made {
		return "", false, err
	}
	return password, true, nil
}

// GetUser returns one user. Every user may read its own entry.
func (p *Identity) GetUser(ctx context.Context, a fleet.Actor, id fleet.UserID) (fleet.User, error) {
	permission := policy.Manage
	if a.UserID == id {
		permission = policy.OwnAccount
	}
	if err := policy.Check(a, permission, ""); err != nil {
		return fleet.User{}, err
	}
	return getUser(ctx, p.store.Queries, id)
}

// CreateUser creates a user with a one-time password, which is returned once and must be changed at the first sign-in.
func (p *Identity) CreateUser(ctx context.Context, a fleet.Actor, in UserInput) (user fleet.User, oneTimePassword string, err error) {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return fleet.User{}, "", err
	}
	if err := in.checkFields(); err != nil {
		return fleet.User{}, "", err
	}
	password := auth.NewPassword()
	hash, err := auth.HashPassword(ctx, password)
	if err != nil {
		return fleet.User{}, "", err
	}
	err = p.store.Tx(ctx, func(q *db.Queries) error {
		row, err := q.AddUser(ctx, db.AddUserParams{
			ID: fleet.NewID[fleet.UserID](), Name: in.Name, Role: in.Role, PasswordHash: hash, Disabled: in.Disabled,
		})
		if err != nil {
			return err
		}
		user = store.UserFromRow(row)
		return store.Audit(ctx, q, a, "user.create", userSubject(row.ID), row.Name, in.auditDetail())
	})
	if err != nil {
		return fleet.User{}, "", err
	}
	return user, password, nil
}

// UpdateUser replaces the user's data with the input. A new role or disabling ends the user's sessions. Administrators
// cannot change their own role, and the last administrator is protected.
func (p *Identity) UpdateUser(ctx context.Context, a fleet.Actor, id fleet.UserID, in UserInput) (user fleet.User, err error) {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return fleet.User{}, err
	}
	if err := in.checkFields(); err != nil {
		return fleet.User{}, err
	}
	err = p.store.Tx(ctx, func(q *db.Queries) error {
		admins, err := q.LockAdmins(ctx)
		if err != nil {
			return err
		}
		old, err := q.LockUser(ctx, id)
		if err != nil {
			return store.NotFoundError(err, "user")
		}
		if a.UserID == id && (in.Role != old.Role || in.Disabled) {
			return fleet.Errorf(fleet.Conflict, "You cannot disable yourself or change your own role. Ask another administrator.")
		}
		if in.Role != fleet.RoleAdmin || in.Disabled {
			if err := checkLastAdmin(admins, old); err != nil {
				return err
			}
		}
		row, err := q.ChangeUser(ctx, db.ChangeUserParams{ID: id, Name: in.Name, Role: in.Role, Disabled: in.Disabled})
		if err != nil {
			return err
		}
		if err := store.Audit(ctx, q, a, "user.update", userSubject(id), row.Name, in.auditDetail()); err != nil {
			return err
		}
		user, err = getUser(ctx, q, id)
		return err
	})
	return user, err
}

// DeleteUser deletes a user with sessions, API tokens and memberships. Users cannot delete themselves, and the last
// administrator is protected.
func (p *Identity) DeleteUser(ctx context.Context, a fleet.Actor, id fleet.UserID) error {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return err
	}
	if ok, why := (fleet.User{ID: id}).AllowsActionBy(a.UserID, fleet.ActDelete); !ok {
		return fleet.RefusalError(why)
	}
	return p.store.Tx(ctx, func(q *db.Queries) error {
		admins, err := q.LockAdmins(ctx)
		if err != nil {
			return err
		}
		old, err := q.LockUser(ctx, id)
		if err != nil {
			return store.NotFoundError(err, "user")
		}
		if err := checkLastAdmin(admins, old); err != nil {
			return err
		}
		if err := q.DeleteUser(ctx, id); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "user.delete", userSubject(id), old.Name, "")
	})
}

// checkLastAdmin returns a conflict if the user is the only administrator. The rows of all administrators must be
// locked.
func checkLastAdmin(admins []fleet.UserID, user db.User) error {
	if len(admins) == 1 && slices.Contains(admins, user.ID) {
		return fleet.Errorf(fleet.Conflict, "%s is the last administrator. Make another user an administrator first.", user.Name)
	}
	return nil
}

func (in UserInput) auditDetail() string {
	role := string(in.Role)
	if role == "" {
		role = "none"
	}
	if in.Disabled {
		return "role " + role + ", disabled"
	}
	return "role " + role
}

func getUser(ctx context.Context, q *db.Queries, id fleet.UserID) (fleet.User, error) {
	row, err := q.GetUser(ctx, id)
	if err != nil {
		return fleet.User{}, store.NotFoundError(err, "user")
	}
	return store.UserWithProjects(row.User, row.Projects)
}

func userSubject(id fleet.UserID) fleet.Subject { return fleet.Subject("user:" + string(id)) }
