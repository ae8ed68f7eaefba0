package query

import (
	"context"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

var userSortOrders = sortOrders[fleet.User]{
	"name":    {[]sortColumn{textColumn("u.name"), textColumn("u.id")}, func(u fleet.User) []string { return []string{u.Name, string(u.ID)} }},
	"created": {[]sortColumn{timeColumn("u.created_at"), textColumn("u.id")}, func(u fleet.User) []string { return []string{formatTime(u.CreatedAt), string(u.ID)} }},
}

// userFilter are the conditions of fleet.UserKeys.
var userFilter = listFilter{
	"name": lowerTextCondition("lower(u.name)"),
	"role": exactTextCondition("COALESCE(NULLIF(u.role, ''), 'none')"),
}

var userList = list[fleet.User]{
	see: policy.Manage, orders: userSortOrders, sort: "name", keys: fleet.UserKeys, filter: userFilter, read: (*Queries).readUsers,
}

// ListUsers returns one page of users. Sorts: name (default), created.
func (b *Queries) ListUsers(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.User], error) {
	return userList.readPage(ctx, b, a, q)
}

func (b *Queries) readUsers(ctx context.Context, _ fleet.Actor, s *statementBuilder, tail string) ([]fleet.User, error) {
	return collectRows(ctx, b, userRowsSQL+s.whereClause()+tail, s, func(x pgx.CollectableRow) (fleet.User, error) {
		var row db.User
		var projects []byte
		if err := x.Scan(&row.ID, &row.Name, &row.Role, &row.MustChange, &row.Disabled, &row.CreatedAt, &row.LastSeenAt, &projects); err != nil {
			return fleet.User{}, err
		}
		return store.UserWithProjects(row, projects)
	})
}

const userRowsSQL = `SELECT u.id, u.name, u.role, u.must_change, u.disabled, u.created_at, u.last_seen_at,
	COALESCE((SELECT jsonb_object_agg(m.project_id, m.role) FROM project_members m WHERE m.user_id = u.id), '{}') FROM users u`
