package query

import (
	"context"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/filter"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/request"
)

var requestsByTime = sortOrder[request.Request]{[]sortColumn{timeColumn("rq.created_at"), textColumn("rq.id")}, func(v request.Request) []string {
	return []string{formatTime(v.CreatedAt), string(v.ID)}
}}

// requestFilter are the conditions of fleet.RequestKeys.
var requestFilter = listFilter{
	"state":   exactTextCondition("rq.state"),
	"kind":    exactTextCondition("rq.kind"),
	"project": lowerTextCondition("lower(p.name)"),
	"request": containsTextCondition("rq.name"),
	"who": sqlCondition(func(f filterScope, t filter.Term) string {
		return f.createdBySQL(f.actor, "rq.user_id", "rq.requested_by", t.Alternatives)
	}),
	"created": dayCondition("rq.created_at"),
	"uuid":    lowerTextCondition("rq.id"),
}

var requestList = list[request.Request]{
	name: "request", see: policy.VMSee, sort: "-created", keys: fleet.RequestKeys, filter: requestFilter, id: "rq.id", read: (*Queries).readRequests,
	restrict: func(s *statementBuilder, a fleet.Actor, project fleet.ProjectID) {
		s.whereProjectVisible(a, "rq.project_id", project)
	},
	orders: sortOrders[request.Request]{"created": requestsByTime},
}

func (b *Queries) readRequests(ctx context.Context, _ fleet.Actor, s *statementBuilder, tail string) ([]request.Request, error) {
	sql := `SELECT rq.id, rq.project_id, p.name, rq.kind, rq.name, rq.reason, rq.wanted, rq.generation, rq.state, COALESCE(rq.user_id, ''), rq.requested_by, rq.created_at,
		rq.decided_at, rq.decided_by, rq.comment, rq.result FROM requests rq JOIN projects p ON p.id = rq.project_id` + s.whereClause() + tail
	return collectRows(ctx, b, sql, s, func(row pgx.CollectableRow) (v request.Request, err error) {
		err = row.Scan(&v.ID, &v.ProjectID, &v.ProjectName, &v.Kind, &v.Name, &v.Reason, &v.Wanted, &v.Generation, &v.State, &v.UserID, &v.RequestedBy, &v.CreatedAt,
			&v.DecidedAt, &v.DecidedBy, &v.Comment, &v.Result)
		if v.State == request.Open {
			end := v.CreatedAt.Add(request.Lifetime)
			v.ExpiresAt = &end
		}
		return v, err
	})
}

// ListRequests returns one page of the requests of projects that the actor sees. Sorts: created.
func (b *Queries) ListRequests(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[request.Request], error) {
	return requestList.readPage(ctx, b, a, q)
}

// GetRequest returns one request of a project that the actor sees.
func (b *Queries) GetRequest(ctx context.Context, a fleet.Actor, id request.ID) (request.Request, error) {
	return requestList.readOne(ctx, b, a, string(id))
}

// maxListedRequests is the maximum number of requests that RequestsToDecide returns.
const maxListedRequests = 20

// RequestsToDecide returns the oldest open requests that the actor may decide. more says that there are others.
func (b *Queries) RequestsToDecide(ctx context.Context, a fleet.Actor) (out []request.Request, more bool, err error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return nil, false, err
	}
	var s statementBuilder
	var decidable []string
	for _, k := range request.Kinds {
		if !policy.May(a, k.Decide, "") {
			continue
		}
		of := "rq.kind = " + s.addKeyArg(string(k.Kind))
		if a.System || a.Role.Info().Fleet.Has(k.Decide) {
			decidable = append(decidable, of)
			continue
		}
		decidable = append(decidable, of+" AND "+s.oneOfSQL("rq.project_id", store.ProjectsWithPermission(a, k.Decide)))
	}
	if len(decidable) == 0 {
		return nil, false, nil
	}
	s.addCondition("rq.state = 'open'")
	s.addCondition(strings.Join(decidable, " OR "))
	out, err = b.readRequests(ctx, a, &s, " ORDER BY rq.created_at, rq.id LIMIT "+strconv.Itoa(maxListedRequests+1))
	if more = len(out) > maxListedRequests; more {
		out = out[:maxListedRequests]
	}
	return out, more, err
}
