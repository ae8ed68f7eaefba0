package web

import (
	"github.com/alexedwards/scs/v2"

	"quantix/web/options"
	"quantix/web/render"
)

// vmSite serves the pages and forms of VMs. All exported fields must be set before the first call of a method.
type vmSite struct {
	*render.Renderer
	Options  *options.Reader // options of the selects in forms
	Sessions *scs.SessionManager
}
