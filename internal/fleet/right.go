package fleet

// Right is one thing that an actor may be allowed to do, in words that end "You have no right to …". The tables of nouns and
// kinds name the rights that they take; package policy says who has them.
type Right string

const (
	// In a project.
	MaySeeVMs    Right = "see VMs"
	MayUseVMs    Right = "use VMs"    // power and console
	MayChangeVMs Right = "change VMs" // create, edit, delete

	// Of the whole fleet.
	MaySeeInfra    Right = "see hosts"
	MaySeeStorage  Right = "see pools and networks" // also project members: they choose from them
	MayChangeInfra Right = "change hosts and pools"
	MaySeeTasks    Right = "see tasks" // control cuts them to what the actor may see
	MayManage      Right = "manage users, projects and join tokens"
)
