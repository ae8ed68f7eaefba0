package vm

import (
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// DeletePage asks what is to go.
type DeletePage struct {
	VM     fleet.VMView
	Pools  map[fleet.PoolID]string
	Errors kit.Errors
}

// crumbsTo is the way to a dialog about a VM.
func crumbsTo(vm fleet.VMView) []kit.Crumb {
	return []kit.Crumb{{Text: "Virtual machines", Href: "/vms"}, {Text: vm.Name, Href: views.VMPath(vm.ID)}}
}
