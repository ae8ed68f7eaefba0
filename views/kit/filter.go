package kit

// Filter is the box above a list.
type Filter struct {
	Link        Link   // of the list as it is shown: its other values stay when the filter changes
	Type        string // of /complete
	Label       string // "Filter VMs"
	Value       string
	Placeholder string
	Error       string // why the filter cannot be understood
}
