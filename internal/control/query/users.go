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

var joinTokenSortOrders = sortOrders[fleet.JoinToken]{
	"created": {[]sortColumn{timeColumn("j.created_at"), textColumn("j.id")}, func(t fleet.JoinToken) []string { return []string{formatTime(t.CreatedAt), string(t.ID)} }},
}

var joinTokenList = list[fleet.JoinToken]{
	see: policy.Manage, orders: joinTokenSortOrders, sort: "-created", keys: fleet.JoinTokenKeys, filter: listFilter{"name": lowerTextCondition("lower(j.used_by)")},
	read: (*Queries).readJoinTokens,
}

// ListJoinTokens returns one page of join tokens, newest first, without their secrets. Sort: created.
func (b *Queries) ListJoinTokens(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.JoinToken], error) {
	return joinTokenList.readPage(ctx, b, a, q)
}

func (b *Queries) readJoinTokens(ctx context.Context, _ fleet.Actor, s *statementBuilder, tail string) ([]fleet.JoinToken, error) {
	return collectRows(ctx, b, "SELECT j.id, COALESCE(j.host_id, ''), j.created_by, j.created_at, j.expires_at, j.used_at, j.used_by, j.revoked_at FROM join_tokens j"+s.whereClause()+tail, s,
		func(x pgx.CollectableRow) (t fleet.JoinToken, err error) {
			err = x.Scan(&t.ID, &t.HostID, &t.CreatedBy, &t.CreatedAt, &t.ExpiresAt, &t.UsedAt, &t.UsedBy, &t.RevokedAt)
			return t, err
		})
}

var tokenSortOrders = sortOrders[fleet.Token]{
	"name":    {[]sortColumn{textColumn("t.name"), textColumn("t.id")}, func(t fleet.Token) []string { return []string{t.Name, string(t.ID)} }},
	"created": {[]sortColumn{timeColumn("t.created_at"), textColumn("t.id")}, func(t fleet.Token) []string { return []string{formatTime(t.CreatedAt), string(t.ID)} }},
}

var tokenList = list[fleet.Token]{
	see: policy.OwnAccount, orders: tokenSortOrders, sort: "name", keys: fleet.TokenKeys, filter: listFilter{"name": lowerTextCondition("lower(t.name)")},
	restrict: func(s *statementBuilder, a fleet.Actor, _ fleet.ProjectID) {
		s.addCondition("t.user_id = " + s.addArg(string(a.UserID)))
	},
	read: (*Queries).readTokens,
}

// ListTokens returns one page of the actor's own API tokens, without their secrets. Sorts: name (default), created.
func (b *Queries) ListTokens(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.Token], error) {
	return tokenList.readPage(ctx, b, a, q)
}

func (b *Queries) readTokens(ctx context.Context, _ fleet.Actor, s *statementBuilder, tail string) ([]fleet.Token, error) {
	return collectRows(ctx, b, "SELECT t.id, t.user_id, t.name, t.created_at, t.expires_at, t.last_used_at FROM tokens t"+s.whereClause()+tail, s,
		func(x pgx.CollectableRow) (t fleet.Token, err error) {
			err = x.Scan(&t.ID, &t.UserID, &t.Name, &t.CreatedAt, &t.ExpiresAt, &t.LastUsedAt)
			return t, err
		})
}
