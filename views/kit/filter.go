package kit

// Filter is the filter box above a list.
type Filter struct {
	Link        Link   // address of the list as shown; the other values of the query stay when the filter changes
	Type        string // resource type, by which /complete suggests completions of the filter
	Label       string // "Filter VMs"
	Value       string
	Placeholder string
	Error       string // why the filter is invalid
}
