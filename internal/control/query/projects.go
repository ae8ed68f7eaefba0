package query

import (
	"context"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

var projectSortOrders = sortOrders[fleet.Project]{
	"name":    {[]sortColumn{textColumn("p.name"), textColumn("p.id")}, func(p fleet.Project) []string { return []string{p.Name, string(p.ID)} }},
	"created": {[]sortColumn{timeColumn("p.created_at"), textColumn("p.id")}, func(p fleet.Project) []string { return []string{formatTime(p.CreatedAt), string(p.ID)} }},
}

var projectList = list[fleet.Project]{
	see: policy.VMSee, orders: projectSortOrders, sort: "name", keys: fleet.ProjectKeys, filter: listFilter{"name": lowerTextCondition("lower(p.name)")},
	restrict: func(s *statementBuilder, a fleet.Actor, project fleet.ProjectID) {
		s.whereProjectVisible(a, "p.id", project)
	},
	read: (*Queries).readProjects,
}

// ListProjects returns one page of the projects that the actor sees. VMs comes from the counters. Sorts: name
// (default), created.
func (b *Queries) ListProjects(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.Project], error) {
	return projectList.readPage(ctx, b, a, q)
}

func (b *Queries) readProjects(ctx context.Context, _ fleet.Actor, s *statementBuilder, tail string) ([]fleet.Project, error) {
	n, err := b.currentCounters(ctx)
	if err != nil {
		return nil, err
	}
	return collectRows(ctx, b, "SELECT p.id, p.name, p.description, p.created_at, COALESCE(p.default_pool_id, ''), COALESCE(p.default_network_id, ''), p.vm_rules FROM projects p"+s.whereClause()+tail, s,
		func(x pgx.CollectableRow) (v fleet.Project, err error) {
			err = x.Scan(&v.ID, &v.Name, &v.Description, &v.CreatedAt, &v.DefaultPoolID, &v.DefaultNetworkID, &v.VMRules)
			v.VMs = n.projects[v.ID].vms
			return v, err
		})
}

// GetProject returns one project that the actor sees.
func (b *Queries) GetProject(ctx context.Context, a fleet.Actor, id fleet.ProjectID) (fleet.Project, error) {
	if err := policy.Check(a, policy.VMSee, id); err != nil {
		return fleet.Project{}, store.UnknownProjectError(err)
	}
	row, err := b.store.GetProject(ctx, id)
	if err != nil {
		return fleet.Project{}, store.NotFoundError(err, "project")
	}
	n, err := b.currentCounters(ctx)
	if err != nil {
		return fleet.Project{}, err
	}
	p := fleet.Project{ID: row.ID, Name: row.Name, Description: row.Description, CreatedAt: row.CreatedAt, VMs: n.projects[id].vms, VMRules: row.VMRules}
	if row.DefaultPoolID != nil {
		p.DefaultPoolID = *row.DefaultPoolID
	}
	if row.DefaultNetworkID != nil {
		p.DefaultNetworkID = *row.DefaultNetworkID
	}
	return p, nil
}
