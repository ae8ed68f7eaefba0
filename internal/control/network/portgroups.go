package network

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/assign"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// SetPortGroup adds a port group to a defined network, or changes the port group of that name. If mustBeNew is set, the
// name must be unused. Each host of the network applies the change at once, also to existing NICs.
func (n *Networks) SetPortGroup(ctx context.Context, a fleet.Actor, id fleet.NetworkID, in fleet.PortGroup, mustBeNew bool) ([]fleet.TaskID, error) {
	if in.SecurityGroups = slices.Compact(slices.Sorted(slices.Values(in.SecurityGroups))); len(in.SecurityGroups) == 0 {
		in.SecurityGroups = nil
	}
	return assign.ChangeNetwork(ctx, n.store, a, id, "portgroup.set", func(q *db.Queries, s *fleet.NetworkSpec) (string, error) {
		if err := checkDefaultGroups(ctx, q, in.SecurityGroups); err != nil {
			return "", err
		}
		switch g := s.PortGroupByName(in.Name); {
		case g != nil && mustBeNew:
			var checks fleet.Checks
			checks.Add("name", "The network has a port group named %s already. Choose another name.", in.Name)
			return "", checks.Err()
		case g != nil:
			*g = in
		default:
			s.PortGroups = append(s.PortGroups, in)
		}
		i := slices.IndexFunc(s.PortGroups, func(g fleet.PortGroup) bool { return g.Name == in.Name })
		var all fleet.Checks
		s.Check(&all, "spec")
		return in.Name + ": " + in.Text(), fleet.TrimFieldPrefix(all.Err(), fmt.Sprintf("spec.portGroups[%d].", i))
	})
}

// checkDefaultGroups refuses default security groups that are not global, because a port group serves NICs of all
// projects.
func checkDefaultGroups(ctx context.Context, q *db.Queries, ids []fleet.SecurityGroupID) error {
	if len(ids) > fleet.MaxNICGroups {
		return nil // the check of the network's spec refuses so many groups
	}
	usable, err := assign.UsableSecurityGroups(ctx, q, "", ids)
	if err != nil {
		return err
	}
	var checks fleet.Checks
	for i, id := range ids {
		if !usable[id] {
			checks.Add(fmt.Sprintf("securityGroups[%d]", i), "There is no such security group for all projects. A port group can only give security groups that all projects may use.")
		}
	}
	return checks.Err()
}

// DropPortGroup removes a port group from its network. The call is refused while VMs have NICs on the port group.
func (n *Networks) DropPortGroup(ctx context.Context, a fleet.Actor, id fleet.NetworkID, name string) ([]fleet.TaskID, error) {
	return assign.ChangeNetwork(ctx, n.store, a, id, "portgroup.drop", func(q *db.Queries, s *fleet.NetworkSpec) (string, error) {
		if s.PortGroupByName(name) == nil {
			return "", noPortGroupError()
		}
		vms, err := q.GroupNeeded(ctx, db.GroupNeededParams{NetworkID: string(id), PortGroup: name})
		if err != nil {
			return "", err
		}
		if len(vms) > 0 {
			if len(vms) > 3 {
				vms[3] = "others"
			}
			return "", fleet.Errorf(fleet.Conflict, "VMs have NICs on %s: %s. Connect these NICs elsewhere first.", name, strings.Join(vms, ", "))
		}
		s.PortGroups = slices.DeleteFunc(s.PortGroups, func(g fleet.PortGroup) bool { return g.Name == name })
		return name, nil
	})
}

func noPortGroupError() error {
	return fleet.Errorf(fleet.NotFound, "The network has no such port group.")
}

// GrantPortGroup makes a port group available to the VMs of a project, or of all projects if project is empty, even if
// the port group's network is restricted.
func (n *Networks) GrantPortGroup(ctx context.Context, a fleet.Actor, id fleet.NetworkID, group string, project fleet.ProjectID) error {
	grant := portGroupGrant{network: id, portGroup: group, project: project}
	return n.setPortGroupGrant(ctx, a, grant, "network.portgroup.grant", func(q *db.Queries, of *fleet.ProjectID) (int64, error) {
		return q.GrantPortGroup(ctx, db.GrantPortGroupParams{NetworkID: id, PortGroup: group, ProjectID: of})
	})
}

// RevokePortGroup removes a grant. VMs on the port group stay on it.
func (n *Networks) RevokePortGroup(ctx context.Context, a fleet.Actor, id fleet.NetworkID, group string, project fleet.ProjectID) error {
	grant := portGroupGrant{network: id, portGroup: group, project: project}
	return n.setPortGroupGrant(ctx, a, grant, "network.portgroup.revoke", func(q *db.Queries, of *fleet.ProjectID) (int64, error) {
		return q.RevokePortGroup(ctx, db.RevokePortGroupParams{NetworkID: id, PortGroup: group, ProjectID: of})
	})
}

// portGroupGrant identifies the grant of a port group to a project.
type portGroupGrant struct {
	network   fleet.NetworkID
	portGroup string
	project   fleet.ProjectID // empty: all projects
}

// setPortGroupGrant changes a grant and writes the audit line. set adds or removes the grant and returns the number of
// changed rows.
func (n *Networks) setPortGroupGrant(ctx context.Context, a fleet.Actor, grant portGroupGrant, action string, set func(*db.Queries, *fleet.ProjectID) (int64, error)) error {
	return assign.NetworkType.ChangeObject(ctx, n.store, a, string(grant.network), func(q *db.Queries, o assign.AssignableObject) error {
		specs, err := q.NetworkSpecs(ctx, []string{string(grant.network)})
		if err != nil {
			return err
		}
		if len(specs) == 0 || specs[0].Spec.PortGroupByName(grant.portGroup) == nil {
			return noPortGroupError()
		}
		name, of := "all projects", (*fleet.ProjectID)(nil)
		if grant.project != "" {
			if name, err = q.ProjectName(ctx, grant.project); err != nil {
				return store.NotFoundError(err, "project")
			}
			of = &grant.project
		}
		changed, err := set(q, of)
		if err != nil || changed == 0 {
			return err
		}
		return store.Audit(ctx, q, a, action, fleet.SubjectNetwork(grant.network), o.Name, grant.portGroup+" to "+name)
	})
}

// checkPortGroupsUsable refuses NICs on port groups that do not exist or that the project may not use. granted contains
// the indexes of NICs whose port group is granted to the project. Such a grant suffices, even if the network is closed to
// the project.
func checkPortGroupsUsable(ctx context.Context, q *db.Queries, a fleet.Actor, project fleet.ProjectID, nics []fleet.NIC, closed map[fleet.NetworkID]bool) (granted map[int]bool, err error) {
	params := db.GroupsForParams{ProjectID: string(project)}
	for _, n := range nics {
		if n.PortGroup != "" && n.NetworkID != "" {
			params.Ids = append(params.Ids, string(n.NetworkID))
		}
	}
	granted = map[int]bool{}
	if len(params.Ids) == 0 && !slices.ContainsFunc(nics, func(n fleet.NIC) bool { return n.PortGroup != "" }) {
		return granted, nil
	}
	rows, err := q.GroupsFor(ctx, params)
	if err != nil {
		return nil, err
	}
	all := policy.May(a, policy.InfraChange, "")
	var checks fleet.Checks
	for i, n := range nics {
		if n.PortGroup == "" {
			continue
		}
		k := slices.IndexFunc(rows, func(r db.GroupsForRow) bool { return r.ID == n.NetworkID && r.Name == n.PortGroup })
		switch {
		// An unknown port group or network, and one that the project may not use, are refused with the same text, so that the
		// error does not reveal which of them exist.
		case k < 0 || (rows[k].Restricted || closed[n.NetworkID]) && !rows[k].Granted && !all:
			checks.Add(fmt.Sprintf("spec.nics[%d].portGroup", i), "The network has no port group %s that is open to this project.", n.PortGroup)
		default:
			granted[i] = rows[k].Granted
		}
	}
	return granted, checks.Err()
}
