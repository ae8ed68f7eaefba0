// Package vmpages serves the pages and forms of VMs. The exported methods of Site are the handlers of the rows in
// web/routes.go. vms.go has the list of VMs, vm.go the page of one VM, and each other file one of its forms or tabs,
// such as vm_new.go and vm_snapshots.go.
package vmpages

import (
	"github.com/alexedwards/scs/v2"

	"quantix/web/options"
	"quantix/web/render"
)

// Site serves the pages and forms of VMs. All exported fields must be set before the first call of a method.
type Site struct {
	*render.Renderer
	Options  *options.Reader // options of the selects in forms
	Sessions *scs.SessionManager
}
