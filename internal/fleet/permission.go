package fleet

// Permission is an action that a user may be allowed, worded to complete "You do not have permission to …". The
// tables of resource types and job kinds name the required permissions. Package policy decides who has them.
type Permission string

const (
	// Permissions within a project.
	MaySeeVMs    Permission = "see VMs"
	MayUseVMs    Permission = "use VMs"    // power and console
	MayChangeVMs Permission = "change VMs" // create, edit, delete
	// MayApproveVMs is also needed to create VMs without approval in a project whose new VMs need approval.
	MayApproveVMs Permission = "approve new VMs"

	// Permissions that apply to all projects and hosts.
	MaySeeInfra Permission = "see hosts"
	// MaySeeStorage is also given to project members, who choose pools and networks for their VMs.
	MaySeeStorage  Permission = "see pools and networks"
	MayChangeInfra Permission = "change hosts and pools"
	MaySeeTasks    Permission = "see tasks" // package control limits the list to tasks that the user may see
	MayManage      Permission = "manage users, projects and join tokens"
)

// Permissions are all permissions that roles grant.
var Permissions = []Permission{MaySeeVMs, MayUseVMs, MayChangeVMs, MayApproveVMs, MaySeeInfra, MaySeeStorage, MayChangeInfra, MaySeeTasks, MayManage}
