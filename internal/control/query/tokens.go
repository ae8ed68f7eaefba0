package query

import (
	"context"

	"github.com/jackc/pgx/v5"

	"quantix/internal/fleet"
	"quantix/internal/policy"
)

var joinTokenSortOrders = sortOrders[fleet.JoinToken]{
	"created": {[]sortColumn{timeColumn("j.created_at"), textColumn("j.id")}, func(t fleet.JoinToken) []string { return []string{formatTime(t.CreatedAt), string(t.ID)} }},
}

// ListJoinTokens returns one page of join tokens, newest first, without their secrets. Sort: created.
func (b *Queries) ListJoinTokens(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.JoinToken], error) {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return fleet.Page[fleet.JoinToken]{}, err
	}
	p, err := joinTokenSortOrders.parsePaging(q, "-created")
	if err != nil {
		return fleet.Page[fleet.JoinToken]{}, err
	}
	var s statementBuilder
	if err := s.whereNameMatches(fleet.JoinTokenKeys, q.Filter, "j.used_by"); err != nil {
		return fleet.Page[fleet.JoinToken]{}, err
	}
	tail := p.applyCursor(&s)
	items, err := collectRows(ctx, b, "SELECT j.id, COALESCE(j.host_id, ''), j.created_by, j.created_at, j.expires_at, j.used_at, j.used_by, j.revoked_at FROM join_tokens j"+s.whereClause()+tail, &s,
		func(x pgx.CollectableRow) (t fleet.JoinToken, err error) {
			err = x.Scan(&t.ID, &t.HostID, &t.CreatedBy, &t.CreatedAt, &t.ExpiresAt, &t.UsedAt, &t.UsedBy, &t.RevokedAt)
			return t, err
		})
	return p.buildPage(items), err
}

var tokenSortOrders = sortOrders[fleet.Token]{
	"name":    {[]sortColumn{textColumn("t.name"), textColumn("t.id")}, func(t fleet.Token) []string { return []string{t.Name, string(t.ID)} }},
	"created": {[]sortColumn{timeColumn("t.created_at"), textColumn("t.id")}, func(t fleet.Token) []string { return []string{formatTime(t.CreatedAt), string(t.ID)} }},
}

// ListTokens returns one page of the actor's own API tokens, without their secrets. Sorts: name (default), created.
func (b *Queries) ListTokens(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.Token], error) {
	if err := policy.Check(a, policy.OwnAccount, ""); err != nil {
		return fleet.Page[fleet.Token]{}, err
	}
	p, err := tokenSortOrders.parsePaging(q, "name")
	if err != nil {
		return fleet.Page[fleet.Token]{}, err
	}
	var s statementBuilder
	s.addCondition("t.user_id = " + s.addArg(string(a.UserID)))
	if err := s.whereNameMatches(fleet.TokenKeys, q.Filter, "t.name"); err != nil {
		return fleet.Page[fleet.Token]{}, err
	}
	tail := p.applyCursor(&s)
	items, err := collectRows(ctx, b, "SELECT t.id, t.user_id, t.name, t.created_at, t.expires_at, t.last_used_at FROM tokens t"+s.whereClause()+tail, &s,
		func(x pgx.CollectableRow) (t fleet.Token, err error) {
			err = x.Scan(&t.ID, &t.UserID, &t.Name, &t.CreatedAt, &t.ExpiresAt, &t.LastUsedAt)
			return t, err
		})
	return p.buildPage(items), err
}
