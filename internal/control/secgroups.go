package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"quantix/db"
	"quantix/internal/control/assign"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// CreateSecurityGroup asks for a new security group.
type CreateSecurityGroup struct {
	ProjectID fleet.ProjectID         `json:"projectId,omitempty"` // empty: the fleet's, which every project may use
	Name      string                  `json:"name"`
	Spec      fleet.SecurityGroupSpec `json:"spec"` // rules left out: all may go out, and nothing come in
}

// UpdateSecurityGroup changes what is not nil.
type UpdateSecurityGroup struct {
	Name         *string                  `json:"name,omitempty"`
	Spec         *fleet.SecurityGroupSpec `json:"spec,omitempty"`         // the whole spec; a rule without an id is a new one
	IfGeneration int64                    `json:"ifGeneration,omitempty"` // refuse where the group is at another generation; 0: do not ask
}

// mayGroups refuses who may not change the groups of the project, or the fleet's.
func mayGroups(a fleet.Actor, project fleet.ProjectID) error {
	if project == "" {
		return policy.Check(a, policy.InfraChange, "")
	}
	return policy.Check(a, policy.VMChange, project)
}

// CreateSecurityGroup writes a new group. No card is in it yet.
func (c *Control) CreateSecurityGroup(ctx context.Context, a fleet.Actor, in CreateSecurityGroup) (fleet.SecurityGroupView, error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return fleet.SecurityGroupView{}, err
	}
	if err := mayGroups(a, in.ProjectID); err != nil {
		return fleet.SecurityGroupView{}, err
	}
	if in.Spec.Rules == nil {
		in.Spec.Rules = []fleet.SecurityRule{fleet.AllowAllOut()}
	}
	if err := checkGroup(in.Name, in.Spec); err != nil {
		return fleet.SecurityGroupView{}, err
	}
	in.Spec = ownRules(in.Spec, fleet.SecurityGroupSpec{}).Tidy()
	id := fleet.NewID[fleet.SecurityGroupID]()
	add := db.AddSecurityGroupParams{ID: id, Name: in.Name, Spec: in.Spec}
	err := c.store.Tx(ctx, func(q *db.Queries) error {
		if in.ProjectID != "" {
			if _, err := q.ProjectName(ctx, in.ProjectID); err != nil {
				return store.NotFound(err, "project")
			}
			add.ProjectID = &in.ProjectID
		}
		if err := roomForGroup(ctx, q, add.ProjectID); err != nil {
			return err
		}
		if err := checkRemotes(ctx, q, in.ProjectID, id, in.Spec); err != nil {
			return err
		}
		if err := q.AddSecurityGroup(ctx, add); err != nil {
			return groupNameTaken(err, in.Name)
		}
		return store.Audit(ctx, q, a, "secgroup.create", fleet.SubjectOf(fleet.TypeSecurityGroup, id), in.Name, inRules(in.Spec))
	})
	if err != nil {
		return fleet.SecurityGroupView{}, err
	}
	return c.GetSecurityGroup(ctx, a, id)
}

// roomForGroup refuses one more where a project, or the fleet, has as many as it may.
func roomForGroup(ctx context.Context, q *db.Queries, project *fleet.ProjectID) error {
	whose := ""
	if project != nil {
		whose = string(*project)
	}
	if err := q.AddSecurityGroupsAlone(ctx, whose); err != nil {
		return err
	}
	n, err := q.CountSecurityGroups(ctx, (*string)(project))
	if err == nil && n >= fleet.MaxProjectGroups {
		err = fleet.Errorf(fleet.Conflict, "There are %d security groups already, which is as many as there may be. Delete some that no card is in.", n)
	}
	return err
}

func checkGroup(name string, spec fleet.SecurityGroupSpec) error {
	var checks fleet.Checks
	fleet.CheckName(&checks, "name", name)
	spec.Check(&checks, "spec")
	return checks.Err()
}

// ownRules is the spec with new ids for rules that are not the group's yet: two groups of a card must not have rules of one id, as packets are
// counted by it.
func ownRules(s, old fleet.SecurityGroupSpec) fleet.SecurityGroupSpec {
	s.Rules = slices.Clone(s.Rules)
	for i, r := range s.Rules {
		if !slices.ContainsFunc(old.Rules, func(o fleet.SecurityRule) bool { return o.ID == r.ID }) {
			s.Rules[i].ID = ""
		}
	}
	return s
}

// checkRemotes refuses rules that name a group which the project may not: those of the fleet may name the fleet's alone. A group may name itself.
func checkRemotes(ctx context.Context, q *db.Queries, project fleet.ProjectID, self fleet.SecurityGroupID, spec fleet.SecurityGroupSpec) error {
	held, err := assign.HeldSecurityGroups(ctx, q, project, spec.Refers())
	if err != nil {
		return err
	}
	var checks fleet.Checks
	for i, r := range spec.Rules {
		if r.GroupID != "" && r.GroupID != self && !held[r.GroupID] {
			checks.Add(fmt.Sprintf("spec.rules[%d].groupId", i), "There is no such security group.")
		}
	}
	return checks.Err()
}

func groupNameTaken(err error, name string) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.ConstraintName == "security_group_name_taken" {
		text := fmt.Sprintf("A security group named %q exists already. Choose another name.", name)
		return &fleet.Error{Code: fleet.Conflict, Message: text, Fields: []fleet.FieldError{{Field: "name", Message: text}}}
	}
	return err
}

// inRules is a spec in the audit.
func inRules(s fleet.SecurityGroupSpec) string {
	words := make([]string, len(s.Rules))
	for i, r := range s.Rules {
		words[i] = r.Words("group " + string(r.GroupID))
	}
	if len(words) == 0 {
		return "no rules"
	}
	return strings.Join(words, ", ")
}

// changeGroup runs do with the locked group of somebody who may change it.
func (c *Control) changeGroup(ctx context.Context, a fleet.Actor, id fleet.SecurityGroupID, do func(*db.Queries, db.SecurityGroup) error) error {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return err
	}
	if err := store.CheckID(id, "security group"); err != nil {
		return err
	}
	return c.store.Tx(ctx, func(q *db.Queries) error {
		row, err := q.LockSecurityGroup(ctx, id)
		if err != nil {
			return store.NotFound(err, "security group")
		}
		of := store.ProjectOf(row.ProjectID)
		if of != "" && !policy.May(a, policy.VMSee, of) {
			return store.NotFound(store.NoRows, "security group")
		}
		if err := mayGroups(a, of); err != nil {
			return err
		}
		if row.DeletedAt != nil {
			return fleet.Errorf(fleet.Conflict, "The security group %s is being deleted: its hosts have yet to remove it.", row.Name)
		}
		return do(q, row)
	})
}

// UpdateSecurityGroup changes a group. Hosts with cards in it take new rules at once, also for guests that run.
func (c *Control) UpdateSecurityGroup(ctx context.Context, a fleet.Actor, id fleet.SecurityGroupID, in UpdateSecurityGroup) (fleet.SecurityGroupView, error) {
	err := c.changeGroup(ctx, a, id, func(q *db.Queries, old db.SecurityGroup) error {
		if in.IfGeneration != 0 && in.IfGeneration != old.Generation {
			return changedMeanwhile("security group", old.Generation, in.IfGeneration)
		}
		name, spec := old.Name, old.Spec
		if in.Name != nil {
			name = *in.Name
		}
		if in.Spec != nil {
			spec = *in.Spec
		}
		if err := checkGroup(name, spec); err != nil {
			return err
		}
		spec = ownRules(spec, old.Spec).Tidy()
		if err := checkRemotes(ctx, q, store.ProjectOf(old.ProjectID), id, spec); err != nil {
			return err
		}
		if _, err := q.ChangeSecurityGroup(ctx, db.ChangeSecurityGroupParams{ID: id, Name: name, Spec: spec}); err != nil {
			return groupNameTaken(err, name)
		}
		if err := assign.PushSecurityGroups(ctx, q, a, id); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "secgroup.update", fleet.SubjectOf(fleet.TypeSecurityGroup, id), name, inRules(spec))
	})
	if err != nil {
		return fleet.SecurityGroupView{}, err
	}
	return c.GetSecurityGroup(ctx, a, id)
}

// DeleteSecurityGroup deletes a group that no card is in and no other group's rules name.
func (c *Control) DeleteSecurityGroup(ctx context.Context, a fleet.Actor, id fleet.SecurityGroupID) error {
	return c.changeGroup(ctx, a, id, func(q *db.Queries, old db.SecurityGroup) error {
		rows, err := q.SecurityGroupNeeded(ctx, id)
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			return groupNeeded(a, old.Name, rows)
		}
		if err := assign.DeleteSecurityGroup(ctx, q, id); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "secgroup.delete", fleet.SubjectOf(fleet.TypeSecurityGroup, id), old.Name, "")
	})
}

// groupNeeded refuses to delete a group, and names what needs it as far as the actor may see that.
func groupNeeded(a fleet.Actor, name string, rows []db.SecurityGroupNeededRow) error {
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
		why = append(why, "VMs have cards in it: "+strings.Join(vms, ", "))
	}
	if len(groups) > 0 {
		why = append(why, "rules of other groups name it: "+strings.Join(groups, ", "))
	}
	if len(nets) > 0 {
		why = append(why, "port groups of networks give it to cards: "+strings.Join(nets, ", "))
	}
	if hidden {
		why = append(why, "others use it")
	}
	return fleet.Errorf(fleet.Conflict, "The security group %s is needed. %s. Take it out there first.", name, strings.Join(why, "; "))
}

// RetrySecurityGroup has all hosts where the group could not be applied try again.
func (c *Control) RetrySecurityGroup(ctx context.Context, a fleet.Actor, id fleet.SecurityGroupID) error {
	return c.changeGroup(ctx, a, id, func(q *db.Queries, old db.SecurityGroup) error {
		if err := q.ReviseSecurityGroup(ctx, id); err != nil {
			return err
		}
		if err := assign.PushSecurityGroups(ctx, q, a, id); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "secgroup.retry", fleet.SubjectOf(fleet.TypeSecurityGroup, id), old.Name, "on all its hosts")
	})
}
