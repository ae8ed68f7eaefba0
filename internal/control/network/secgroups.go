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
	"quantix/internal/secgroup"
)

// CreateSecurityGroup is the input of Networks.CreateSecurityGroup.
type CreateSecurityGroup struct {
	ProjectID fleet.ProjectID `json:"projectId,omitempty"` // empty: global, for all projects
	Name      string          `json:"name"`
	Spec      secgroup.Spec   `json:"spec"` // without rules: all egress and no ingress is allowed
}

// UpdateSecurityGroup is the input of Networks.UpdateSecurityGroup. nil fields do not change.
type UpdateSecurityGroup struct {
	Name *string `json:"name,omitempty"`
	// The complete spec; a rule without an id is new.
	Spec         *secgroup.Spec `json:"spec,omitempty"`
	IfGeneration int64          `json:"ifGeneration,omitempty"` // expected generation; 0: not checked
}

// CreateSecurityGroup writes a new group without NICs.
func (n *Networks) CreateSecurityGroup(ctx context.Context, a fleet.Actor, in CreateSecurityGroup) (secgroup.View, error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return secgroup.View{}, err
	}
	if err := policy.CheckOwner(a, in.ProjectID); err != nil {
		return secgroup.View{}, err
	}
	if in.Spec.Rules == nil {
		in.Spec.Rules = []secgroup.Rule{secgroup.AllowAllEgressRule()}
	}
	if err := checkSecurityGroup(in.Name, in.Spec); err != nil {
		return secgroup.View{}, err
	}
	in.Spec = withoutUnknownRuleIDs(in.Spec, secgroup.Spec{}).Normalized()
	id := fleet.NewID[fleet.SecurityGroupID]()
	add := db.AddSecurityGroupParams{ID: id, Name: in.Name, Spec: in.Spec}
	err := n.store.Tx(ctx, func(q *db.Queries) error {
		if in.ProjectID != "" {
			if _, err := q.ProjectName(ctx, in.ProjectID); err != nil {
				return store.NotFoundError(err, "project")
			}
			add.ProjectID = &in.ProjectID
		}
		if err := checkSecurityGroupLimit(ctx, q, add.ProjectID); err != nil {
			return err
		}
		if err := checkRemoteGroups(ctx, q, in.ProjectID, id, in.Spec); err != nil {
			return err
		}
		if err := q.AddSecurityGroup(ctx, add); err != nil {
			return securityGroupNameTakenError(err, in.Name)
		}
		return store.Audit(ctx, q, a, "secgroup.create", fleet.SubjectOf(fleet.TypeSecurityGroup, id), in.Name, describeRules(in.Spec))
	})
	if err != nil {
		return secgroup.View{}, err
	}
	return n.queries.GetSecurityGroup(ctx, a, id)
}

// checkSecurityGroupLimit refuses another group if the project, or the global scope, has reached its limit.
func checkSecurityGroupLimit(ctx context.Context, q *db.Queries, project *fleet.ProjectID) error {
	owner := ""
	if project != nil {
		owner = string(*project)
	}
	if err := q.AddSecurityGroupsAlone(ctx, owner); err != nil {
		return err
	}
	n, err := q.CountSecurityGroups(ctx, (*string)(project))
	if err == nil && n >= secgroup.MaxPerProject {
		err = fleet.Errorf(fleet.Conflict, "There are %d security groups, which is the maximum. Delete security groups without NICs first.", n)
	}
	return err
}

func checkSecurityGroup(name string, spec secgroup.Spec) error {
	var checks fleet.Checks
	fleet.CheckName(&checks, "name", name)
	spec.Check(&checks, "spec")
	return checks.Err()
}

// withoutUnknownRuleIDs returns the spec with new ids for rules that are not in the old spec. Packet counters are kept per rule
// id, so two groups of a NIC must not share an id.
func withoutUnknownRuleIDs(s, old secgroup.Spec) secgroup.Spec {
	s.Rules = slices.Clone(s.Rules)
	for i, r := range s.Rules {
		if !slices.ContainsFunc(old.Rules, func(o secgroup.Rule) bool { return o.ID == r.ID }) {
			s.Rules[i].ID = ""
		}
	}
	return s
}

// checkRemoteGroups refuses rules that refer to a group that the project may not use. Rules of global groups may refer
// only to global groups. A rule may refer to its own group, self.
func checkRemoteGroups(ctx context.Context, q *db.Queries, project fleet.ProjectID, self fleet.SecurityGroupID, spec secgroup.Spec) error {
	usable, err := assign.UsableSecurityGroups(ctx, q, project, spec.ReferencedGroups())
	if err != nil {
		return err
	}
	var checks fleet.Checks
	for i, r := range spec.Rules {
		if r.GroupID != "" && r.GroupID != self && !usable[r.GroupID] {
			checks.Add(fmt.Sprintf("spec.rules[%d].groupId", i), "There is no such security group.")
		}
	}
	return checks.Err()
}

func securityGroupNameTakenError(err error, name string) error {
	return store.NameTakenError(err, "security_group_name_taken", "A security group named %q exists already. Choose another name.", name)
}

// describeRules formats the rules for the audit line.
func describeRules(s secgroup.Spec) string {
	rules := make([]string, len(s.Rules))
	for i, r := range s.Rules {
		rules[i] = r.Text("group " + string(r.GroupID))
	}
	if len(rules) == 0 {
		return "no rules"
	}
	return strings.Join(rules, ", ")
}

// changeSecurityGroup locks a group that the actor may change, and calls do with it in the same transaction.
func (n *Networks) changeSecurityGroup(ctx context.Context, a fleet.Actor, id fleet.SecurityGroupID, do func(*db.Queries, db.SecurityGroup) error) error {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return err
	}
	if err := store.CheckID(id, "security group"); err != nil {
		return err
	}
	return n.store.Tx(ctx, func(q *db.Queries) error {
		row, err := q.LockSecurityGroup(ctx, id)
		if err != nil {
			return store.NotFoundError(err, "security group")
		}
		of := store.ProjectIDOrEmpty(row.ProjectID)
		if of != "" && !policy.May(a, policy.VMSee, of) {
			return store.NotFoundError(store.NoRows, "security group")
		}
		if err := policy.CheckOwner(a, of); err != nil {
			return err
		}
		if row.DeletedAt != nil {
			return fleet.Errorf(fleet.Conflict, "The security group %s is being deleted: some hosts have not removed it yet.", row.Name)
		}
		return do(q, row)
	})
}

// UpdateSecurityGroup changes a group. Hosts with member NICs of the group apply new rules at once, also to running
// guests.
func (n *Networks) UpdateSecurityGroup(ctx context.Context, a fleet.Actor, id fleet.SecurityGroupID, in UpdateSecurityGroup) (secgroup.View, error) {
	err := n.changeSecurityGroup(ctx, a, id, func(q *db.Queries, old db.SecurityGroup) error {
		if in.IfGeneration != 0 && in.IfGeneration != old.Generation {
			return store.ChangedMeanwhileError("security group", old.Generation, in.IfGeneration)
		}
		name, spec := old.Name, old.Spec
		if in.Name != nil {
			name = *in.Name
		}
		if in.Spec != nil {
			spec = *in.Spec
		}
		if err := checkSecurityGroup(name, spec); err != nil {
			return err
		}
		spec = withoutUnknownRuleIDs(spec, old.Spec).Normalized()
		if err := checkRemoteGroups(ctx, q, store.ProjectIDOrEmpty(old.ProjectID), id, spec); err != nil {
			return err
		}
		if _, err := q.ChangeSecurityGroup(ctx, db.ChangeSecurityGroupParams{ID: id, Name: name, Spec: spec}); err != nil {
			return securityGroupNameTakenError(err, name)
		}
		if err := assign.QueueSecurityGroupUpdates(ctx, q, a, id); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "secgroup.update", fleet.SubjectOf(fleet.TypeSecurityGroup, id), name, describeRules(spec))
	})
	if err != nil {
		return secgroup.View{}, err
	}
	return n.queries.GetSecurityGroup(ctx, a, id)
}

// DeleteSecurityGroup deletes a group without NICs that no other group's rules name.
func (n *Networks) DeleteSecurityGroup(ctx context.Context, a fleet.Actor, id fleet.SecurityGroupID) error {
	return n.changeSecurityGroup(ctx, a, id, func(q *db.Queries, old db.SecurityGroup) error {
		rows, err := q.SecurityGroupNeeded(ctx, id)
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			return securityGroupInUseError(a, old.Name, rows)
		}
		if err := assign.DeleteSecurityGroup(ctx, q, id); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "secgroup.delete", fleet.SubjectOf(fleet.TypeSecurityGroup, id), old.Name, "")
	})
}

// securityGroupInUseError returns the Conflict for the deletion of a group that is in use. It names only users of the
// group that the actor may see.
func securityGroupInUseError(a fleet.Actor, name string, rows []db.SecurityGroupNeededRow) error {
	var vms, groups, nets []string
	hidden := false
	for _, r := range rows {
		switch {
		case r.Project != "" && !policy.May(a, policy.VMSee, fleet.ProjectID(r.Project)):
			hidden = true
		case r.What == "vm":
			vms = append(vms, r.Name)
		case r.What == "net":
			nets = append(nets, r.Name)
		default:
			groups = append(groups, r.Name)
		}
	}
	var why []string
	if len(vms) > 0 {
		why = append(why, "VMs have NICs in it: "+strings.Join(vms, ", "))
	}
	if len(groups) > 0 {
		why = append(why, "rules of other groups name it: "+strings.Join(groups, ", "))
	}
	if len(nets) > 0 {
		why = append(why, "port groups of networks give it to NICs: "+strings.Join(nets, ", "))
	}
	if hidden {
		why = append(why, "objects of other projects use it")
	}
	return fleet.Errorf(fleet.Conflict, "The security group %s is in use: %s. Remove these references first.", name, strings.Join(why, "; "))
}

// RetrySecurityGroup asks all hosts that failed to apply the group to try again.
func (n *Networks) RetrySecurityGroup(ctx context.Context, a fleet.Actor, id fleet.SecurityGroupID) error {
	return n.changeSecurityGroup(ctx, a, id, func(q *db.Queries, old db.SecurityGroup) error {
		if err := q.ReviseSecurityGroup(ctx, id); err != nil {
			return err
		}
		if err := assign.QueueSecurityGroupUpdates(ctx, q, a, id); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "secgroup.retry", fleet.SubjectOf(fleet.TypeSecurityGroup, id), old.Name, "on all its hosts")
	})
}
