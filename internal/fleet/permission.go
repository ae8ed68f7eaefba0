package fleet

// Permission is one thing that an actor may be allowed to do, in words that end "You have no right to …". The tables of nouns and
// kinds name the rights that they take; package policy says who has them.
type Permission string

const (
	// In a project.
	MaySeeVMs    Permission = "see VMs"
	MayUseVMs    Permission = "use VMs"    // power and console
	MayChangeVMs Permission = "change VMs" // create, edit, delete

	// Of the whole fleet.
	MaySeeInfra    Permission = "see hosts"
	MaySeeStorage  Permission = "see pools and networks" // also project members: they choose from them
	MayChangeInfra Permission = "change hosts and pools"
	MaySeeTasks    Permission = "see tasks" // control cuts them to what the actor may see
	MayManage      Permission = "manage users, projects and join tokens"
)
