package home

import (
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/quota"
	"quantix/internal/usage"
)

// TenantDashboard are the parts of the start page of users who do not see hosts.
type TenantDashboard struct {
	Projects     []TenantProject
	MoreProjects bool
	Expiring     []usage.ExpiringVM
	Tasks        []fleet.Task // the newest ones
}

// TenantProject is a project with what it uses.
type TenantProject struct {
	Project   fleet.Project
	Usage     quota.ProjectUsage
	PoolNames map[fleet.PoolID]string
}

// mayCreate reports whether the actor may create VMs in one of the projects.
func (p DashboardPage) mayCreate() bool { return policy.May(p.Actor, policy.VMChange, "") }

func (p DashboardPage) noVMsText() string {
	if p.mayCreate() {
		return "Create your first VM. The form shows what it uses of your quota."
	}
	return "Your projects have no VMs. Members of a project create them."
}
