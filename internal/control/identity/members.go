package identity

import (
	"context"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Member is a user's role in one project.
type Member struct {
	UserID fleet.UserID `json:"userId"`
	Name   string       `json:"name"`
	Role   fleet.Role   `json:"role"` // one of fleet.ProjectRoles
}

// ListMembers returns a project's members by name. Users with a global role are not included.
func (p *Identity) ListMembers(ctx context.Context, a fleet.Actor, project fleet.ProjectID) ([]Member, error) {
	if err := policy.Check(a, policy.VMSee, project); err != nil {
		return nil, store.UnknownProjectError(err)
	}
	if _, err := p.store.GetProject(ctx, project); err != nil {
		return nil, store.NotFoundError(err, "project")
	}
	rows, err := p.store.ListMembers(ctx, project)
	if err != nil {
		return nil, store.UserError(err)
	}
	members := make([]Member, len(rows))
	for i, row := range rows {
		members[i] = Member{UserID: row.UserID, Name: row.Name, Role: row.Role}
	}
	return members, nil
}

// SetMember sets a user's role in a project to one of fleet.ProjectRoles. The empty role removes the user.
func (p *Identity) SetMember(ctx context.Context, a fleet.Actor, project fleet.ProjectID, user fleet.UserID, role fleet.Role) error {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return err
	}
	var checks fleet.Checks
	fleet.CheckRole(&checks, role, fleet.ProjectRoles())
	if err := checks.Err(); err != nil {
		return err
	}
	return p.store.Tx(ctx, func(q *db.Queries) error {
		names, err := q.ProjectAndUser(ctx, db.ProjectAndUserParams{ProjectID: project, UserID: user})
		if err != nil {
			return store.NotFoundError(err, "project or user")
		}
		if role == fleet.RoleNone {
			rows, err := q.RemoveMember(ctx, db.RemoveMemberParams{ProjectID: project, UserID: user})
			if err != nil || rows == 0 {
				return err
			}
			return store.Audit(ctx, q, a, "project.removeMember", projectSubject(project), names.Project, names.Person)
		}
		if err := q.SetMember(ctx, db.SetMemberParams{ProjectID: project, UserID: user, Role: role}); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "project.setMember", projectSubject(project), names.Project, names.Person+" as "+string(role))
	})
}
