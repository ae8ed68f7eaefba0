package query

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/secgroup"
)

// maxMembersShown is the maximum number of member NICs that a group's page lists.
const maxMembersShown = 200

var securityGroupSortOrders = sortOrders[secgroup.View]{
	"name": {[]sortColumn{textColumn("g.name"), textColumn("g.id")}, func(v secgroup.View) []string { return []string{v.Name, string(v.ID)} }},
}

// securityGroupSQL returns SQL that selects security groups under the alias g. It counts only member NICs of VMs that
// the actor sees.
func securityGroupSQL(s *statementBuilder, a fleet.Actor) string {
	nicCount := "SELECT count(*) FROM nic_groups n JOIN vms v ON v.id = n.vm_id WHERE v.recycled_at IS NULL AND n.group_id = g.id"
	if !policy.SeesAllProjects(a) {
		nicCount = "SELECT count(*) FROM nic_groups n JOIN vms v ON v.id = n.vm_id WHERE v.recycled_at IS NULL AND n.group_id = g.id AND " + s.oneOfSQL("v.project_id", store.VisibleProjects(a))
	}
	return `SELECT g.id, COALESCE(g.project_id, ''), COALESCE(p.name, ''), g.name, g.spec, g.generation, g.revision, g.created_at, g.deleted_at, (` + nicCount + `)
		FROM security_groups g LEFT JOIN projects p ON p.id = g.project_id`
}

var securityGroupList = list[secgroup.View]{
	name: "security group", see: policy.VMSee, orders: securityGroupSortOrders, sort: "name", keys: fleet.SecurityGroupKeys, id: "g.id",
	filter: listFilter{"name": lowerTextCondition("lower(g.name)")},
	restrict: func(s *statementBuilder, a fleet.Actor, project fleet.ProjectID) {
		s.whereOwnerVisible(a, "g.project_id", project)
	},
	read: (*Queries).readSecurityGroups,
}

// ListSecurityGroups returns one page of the groups of the actor's projects and of the global groups. Sort: name.
func (b *Queries) ListSecurityGroups(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[secgroup.View], error) {
	return securityGroupList.readPage(ctx, b, a, q)
}

func (b *Queries) readSecurityGroups(ctx context.Context, a fleet.Actor, s *statementBuilder, tail string) ([]secgroup.View, error) {
	sql := securityGroupSQL(s, a)
	views, err := collectRows(ctx, b, sql+s.whereClause()+tail, s, func(x pgx.CollectableRow) (v secgroup.View, err error) {
		err = x.Scan(&v.ID, &v.ProjectID, &v.ProjectName, &v.Name, &v.Spec, &v.Generation, &v.Revision, &v.CreatedAt, &v.DeletedAt, &v.NICs)
		return v, err
	})
	if err != nil || len(views) == 0 {
		return views, err
	}
	return views, b.addGroupHosts(ctx, a, views)
}

// addGroupHosts fills in the hosts of each group and the group's state on each. Actors who cannot see hosts get only
// the number of hosts, the states and the errors.
func (b *Queries) addGroupHosts(ctx context.Context, a fleet.Actor, views []secgroup.View) error {
	at := make(map[string]*secgroup.View, len(views))
	ids := make([]string, len(views))
	for i := range views {
		ids[i] = string(views[i].ID)
		at[ids[i]] = &views[i]
		views[i].Hosts = []secgroup.Host{}
	}
	rows, err := b.store.SecurityGroupHosts(ctx, ids)
	if err != nil {
		return store.UserError(err)
	}
	for _, r := range rows {
		v := at[r.ID]
		h := secgroup.Host{HostID: r.HostID, HostName: r.HostName, Revision: r.ObservedGeneration, Leaving: r.Leaving}
		if len(r.Status) > 0 {
			if err := json.Unmarshal(r.Status, &h.Status); err != nil {
				return err
			}
		}
		h.State = h.StateAt(v.Revision, r.Fresh)
		if !store.SeesHosts(a) { // a tenant learns the group's states, but not their numbers of hosts
			n := &v.SeverityCounts
			n.Add(h.State.Severity(), 1)
			n.OK, n.Warn, n.Bad, n.Unknown = min(1, n.OK), min(1, n.Warn), min(1, n.Bad), min(1, n.Unknown)
			continue
		}
		v.SeverityCounts.Add(h.State.Severity(), 1)
		if len(v.Hosts) < fleet.HostStatusesListed {
			v.Hosts = append(v.Hosts, h)
		}
	}
	for i := range views {
		slices.SortStableFunc(views[i].Hosts, func(x, y secgroup.Host) int {
			return hostStatusRank(x.State.Severity(), false) - hostStatusRank(y.State.Severity(), false)
		})
	}
	return nil
}

// GetSecurityGroup returns one group, its member NICs of VMs that the actor sees, and the names of the groups
// referenced by its rules.
func (b *Queries) GetSecurityGroup(ctx context.Context, a fleet.Actor, id fleet.SecurityGroupID) (secgroup.View, error) {
	v, err := securityGroupList.readOne(ctx, b, a, string(id))
	if err != nil {
		return v, err
	}
	if v.Names, err = b.securityGroupNames(ctx, a, v.Spec.ReferencedGroups()); err != nil {
		return v, err
	}
	if v.Count, err = b.groupPacketCounts(ctx, a, v.Group); err != nil {
		return v, err
	}
	rows, err := b.store.MembersOf(ctx, db.MembersOfParams{ID: id, AllProjects: policy.SeesAllProjects(a), Projects: store.VisibleProjects(a), Most: maxMembersShown})
	if err != nil {
		return v, store.UserError(err)
	}
	v.Members = make([]secgroup.Member, len(rows))
	for i, r := range rows {
		v.Members[i] = secgroup.Member{VMID: r.VMID, VMName: r.Name, MAC: r.Mac}
		if err := json.Unmarshal(r.Addresses, &v.Members[i].Addresses); err != nil {
			return v, err
		}
	}
	return v, nil
}

// securityGroupNames returns, by ID, the names of those groups that the actor may see.
func (b *Queries) securityGroupNames(ctx context.Context, a fleet.Actor, ids []fleet.SecurityGroupID) (map[string]string, error) {
	names := map[string]string{}
	if len(ids) == 0 {
		return names, nil
	}
	var s statementBuilder
	s.addCondition("g.id = ANY (" + s.addKeyArg(store.ToStrings(ids)) + "::text[])")
	s.whereOwnerVisible(a, "g.project_id", "")
	_, err := collectRows(ctx, b, "SELECT g.id, g.name FROM security_groups g"+s.whereClause(), &s, func(x pgx.CollectableRow) (none struct{}, err error) {
		var id, name string
		err = x.Scan(&id, &name)
		names[id] = name
		return none, err
	})
	return names, err
}

// SecurityGroupsForProject lists the groups that NICs of a project's VMs can use, by name: the project's own and the
// global ones.
func (b *Queries) SecurityGroupsForProject(ctx context.Context, a fleet.Actor, project fleet.ProjectID) ([]secgroup.View, error) {
	if err := policy.Check(a, policy.VMSee, project); err != nil {
		return nil, store.UnknownProjectError(err)
	}
	var s statementBuilder
	s.addCondition("g.project_id IS NULL OR g.project_id = " + s.addKeyArg(string(project)))
	s.addCondition("g.deleted_at IS NULL")
	return b.readSecurityGroups(ctx, a, &s, " ORDER BY g.name, g.id")
}

// SharedSecurityGroups lists the global groups by name.
func (b *Queries) SharedSecurityGroups(ctx context.Context, a fleet.Actor) ([]secgroup.View, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return nil, err
	}
	var s statementBuilder
	s.addCondition("g.project_id IS NULL AND g.deleted_at IS NULL")
	return b.readSecurityGroups(ctx, a, &s, " ORDER BY g.name, g.id")
}

// addUnappliedSecurityGroups adds rows to the Needs attention list for security groups that hosts failed to apply. Those hosts
// still apply the previous filters.
func (b *Queries) addUnappliedSecurityGroups(ctx context.Context, a fleet.Actor, o *fleet.Overview, shown map[fleet.Subject]bool) error {
	rows, err := b.store.SecurityGroupsFailed(ctx, db.SecurityGroupsFailedParams{AllProjects: policy.SeesAllProjects(a), Projects: store.VisibleProjects(a)})
	if err != nil {
		return store.UserError(err)
	}
	var groups attentionCauses
	for _, r := range rows {
		shown[fleet.SubjectOf(fleet.TypeSecurityGroup, r.ID)] = true
		text := fmt.Sprintf("Not applied on %s: %s", r.HostName, r.Words)
		if r.Hosts > 1 {
			text = fmt.Sprintf("Not applied on %d hosts; %s: %s", r.Hosts, r.HostName, r.Words)
		}
		if !store.SeesHosts(a) {
			text = "Not applied everywhere: " + store.RedactText(r.Words, r.HostName)
		}
		groups.Add(fleet.AttentionCause{
			Kind: string(fleet.TypeSecurityGroup), Severity: fleet.SeverityBad, Text: text, Count: 1, List: "/security-groups",
			Objects: []fleet.AttentionObject{{ID: string(r.ID), Name: r.Name}},
		})
	}
	o.Attention = append(o.Attention, groups.Rows...)
	return nil
}
