package control

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/auth"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// UserInput is what an administrator says about a user.
type UserInput struct {
	Name     string     `json:"name"`
	Role     fleet.Role `json:"role"` // admin, operator, viewer, or empty: only what projects grant
	Disabled bool       `json:"disabled"`
}

func (in UserInput) check() error {
	var c fleet.Checks
	fleet.CheckUserName(&c, "name", in.Name)
	switch in.Role {
	case fleet.RoleAdmin, fleet.RoleOperator, fleet.RoleViewer, fleet.RoleNone:
	default:
		c.Add("role", `A role is "admin", "operator", "viewer" or empty.`)
	}
	return c.Err()
}

// EnsureAdmin makes the user "admin" with a one-time password where there is no user at all. Only the portal may call it;
// of portals that start at once, one makes it.
func (c *Control) EnsureAdmin(ctx context.Context, a fleet.Actor) (password string, made bool, err error) {
	if err := onlySystem(a); err != nil {
		return "", false, err
	}
	if exists, err := c.q.HasUsers(ctx); err != nil || exists {
		return "", false, dbError(err)
	}
	password = auth.NewPassword()
	hash, err := auth.HashPassword(ctx, password)
	if err != nil {
		return "", false, err
	}
	err = c.tx(ctx, func(q *db.Queries) error {
		id := fleet.NewID[fleet.UserID]()
		rows, err := q.AddFirstUser(ctx, db.AddFirstUserParams{ID: id, Name: "admin", Role: fleet.RoleAdmin, PasswordHash: hash})
		if made = rows > 0; err != nil || !made {
			return err
		}
		return audit(ctx, q, a, "user.create", userSubject(id), "admin", "role admin, first start")
	})
	if err != nil || !made {
		return "", false, err
	}
	return password, true, nil
}

var userOrders = orders[fleet.User]{
	"name":    {[]column{textColumn("u.name"), textColumn("u.id")}, func(u fleet.User) []string { return []string{u.Name, string(u.ID)} }},
	"created": {[]column{timeColumn("u.created_at"), textColumn("u.id")}, func(u fleet.User) []string { return []string{stamp(u.CreatedAt), string(u.ID)} }},
}

// ListUsers returns one page of users. Sorts: name (its own), created.
func (c *Control) ListUsers(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.User], error) {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return fleet.Page[fleet.User]{}, err
	}
	p, err := userOrders.page(q, "name")
	if err != nil {
		return fleet.Page[fleet.User]{}, err
	}
	terms, err := fleet.ParseFilter(fleet.UserKeys, q.Filter)
	if err != nil {
		return fleet.Page[fleet.User]{}, err
	}
	var s statement
	for _, t := range terms {
		switch t.Key {
		case "name":
			s.not(t.Not, s.text("lower(u.name)", lower(t.Any)))
		case "role":
			s.not(t.Not, s.text("COALESCE(NULLIF(u.role, ''), 'none')", t.Any))
		}
	}
	tail := p.apply(&s)
	items, err := collect(ctx, c, userRows+s.conditions()+tail, &s, func(x pgx.CollectableRow) (fleet.User, error) {
		var row db.User
		var projects []byte
		if err := x.Scan(&row.ID, &row.Name, &row.Role, &row.MustChange, &row.Disabled, &row.CreatedAt, &row.LastSeenAt, &projects); err != nil {
			return fleet.User{}, err
		}
		return userWith(row, projects)
	})
	return p.cut(items), err
}

const userRows = `SELECT u.id, u.name, u.role, u.must_change, u.disabled, u.created_at, u.last_seen_at,
	COALESCE((SELECT jsonb_object_agg(m.project_id, m.role) FROM project_members m WHERE m.user_id = u.id), '{}') FROM users u`

// GetUser returns one user; everybody may ask for themselves.
func (c *Control) GetUser(ctx context.Context, a fleet.Actor, id fleet.UserID) (fleet.User, error) {
	right := policy.Manage
	if a.UserID == id {
		right = policy.Self
	}
	if err := policy.Check(a, right, ""); err != nil {
		return fleet.User{}, err
	}
	return getUser(ctx, c.q, id)
}

// CreateUser makes a user with a one-time password, which is shown once and must be changed at the first sign-in.
func (c *Control) CreateUser(ctx context.Context, a fleet.Actor, in UserInput) (user fleet.User, oneTimePassword string, err error) {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return fleet.User{}, "", err
	}
	if err := in.check(); err != nil {
		return fleet.User{}, "", err
	}
	password := auth.NewPassword()
	hash, err := auth.HashPassword(ctx, password)
	if err != nil {
		return fleet.User{}, "", err
	}
	err = c.tx(ctx, func(q *db.Queries) error {
		row, err := q.AddUser(ctx, db.AddUserParams{
			ID: fleet.NewID[fleet.UserID](), Name: in.Name, Role: in.Role, PasswordHash: hash, Disabled: in.Disabled,
		})
		if err != nil {
			return err
		}
		user = userOf(row)
		return audit(ctx, q, a, "user.create", userSubject(row.ID), row.Name, in.words())
	})
	if err != nil {
		return fleet.User{}, "", err
	}
	return user, password, nil
}

// UpdateUser replaces what UserInput holds. Another role, and being disabled, end the user's sessions. One's own role stays,
// and so does the last administrator.
func (c *Control) UpdateUser(ctx context.Context, a fleet.Actor, id fleet.UserID, in UserInput) (user fleet.User, err error) {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return fleet.User{}, err
	}
	if err := in.check(); err != nil {
		return fleet.User{}, err
	}
	err = c.tx(ctx, func(q *db.Queries) error {
		admins, err := q.LockAdmins(ctx)
		if err != nil {
			return err
		}
		old, err := q.LockUser(ctx, id)
		if err != nil {
			return notFound(err, "user")
		}
		if a.UserID == id && (in.Role != old.Role || in.Disabled) {
			return fleet.Errorf(fleet.Conflict, "You cannot disable yourself or change your own role. Ask another administrator.")
		}
		if in.Role != fleet.RoleAdmin || in.Disabled {
			if err := keepAnAdmin(admins, old); err != nil {
				return err
			}
		}
		row, err := q.ChangeUser(ctx, db.ChangeUserParams{ID: id, Name: in.Name, Role: in.Role, Disabled: in.Disabled})
		if err != nil {
			return err
		}
		if err := audit(ctx, q, a, "user.update", userSubject(id), row.Name, in.words()); err != nil {
			return err
		}
		user, err = getUser(ctx, q, id)
		return err
	})
	return user, err
}

// DeleteUser removes a user with their sessions, API tokens and memberships. Oneself and the last administrator stay.
func (c *Control) DeleteUser(ctx context.Context, a fleet.Actor, id fleet.UserID) error {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return err
	}
	if ok, why := (fleet.User{ID: id}).AllowsTo(a.UserID, fleet.ActDelete); !ok {
		return fleet.Errorf(fleet.Conflict, "%s", why)
	}
	return c.tx(ctx, func(q *db.Queries) error {
		admins, err := q.LockAdmins(ctx)
		if err != nil {
			return err
		}
		old, err := q.LockUser(ctx, id)
		if err != nil {
			return notFound(err, "user")
		}
		if err := keepAnAdmin(admins, old); err != nil {
			return err
		}
		if err := q.DeleteUser(ctx, id); err != nil {
			return err
		}
		return audit(ctx, q, a, "user.delete", userSubject(id), old.Name, "")
	})
}

// keepAnAdmin refuses to take away the only one of the locked administrators.
func keepAnAdmin(admins []fleet.UserID, user db.User) error {
	if len(admins) == 1 && slices.Contains(admins, user.ID) {
		return fleet.Errorf(fleet.Conflict, "%s is the last administrator. Make another user an administrator first.", user.Name)
	}
	return nil
}

func (in UserInput) words() string {
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
		return fleet.User{}, notFound(err, "user")
	}
	return userWith(row.User, row.Projects)
}

func userWith(row db.User, projects []byte) (fleet.User, error) {
	user := userOf(row)
	var err error
	user.Projects, err = projectRoles(projects)
	return user, err
}

func userOf(row db.User) fleet.User {
	return fleet.User{
		ID: row.ID, Name: row.Name, Role: row.Role, Projects: map[fleet.ProjectID]fleet.Role{},
		MustChange: row.MustChange, Disabled: row.Disabled, CreatedAt: row.CreatedAt, LastSeenAt: row.LastSeenAt,
	}
}

// projectRoles reads the object that the queries of users aggregate.
func projectRoles(object []byte) (map[fleet.ProjectID]fleet.Role, error) {
	roles := map[fleet.ProjectID]fleet.Role{}
	if err := json.Unmarshal(object, &roles); err != nil {
		return nil, fmt.Errorf("read project roles: %w", err)
	}
	return roles, nil
}

func userSubject(id fleet.UserID) fleet.Subject { return fleet.Subject("user:" + string(id)) }
