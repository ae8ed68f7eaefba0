// Package pages serves the pages and forms of the portal, except those of VMs, which are in package web/vmpages, and
// the sign-in, which is in package web beside the sessions. The exported methods of Site are the handlers of the rows
// in web/routes.go. A resource type has files like those of pools: pools.go for the list, pool.go for the object's
// page, pool_new.go and others for its forms.
package pages

import (
	"context"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/labstack/echo/v4"

	"quantix/internal/auth"
	"quantix/internal/fleet"
	"quantix/web/options"
	"quantix/web/render"
)

// Site serves the pages and forms. All exported fields must be set before the first call of a method.
type Site struct {
	*render.Renderer
	Options      *options.Reader // options of the selects in forms
	Sessions     *scs.SessionManager
	Certificates func() []auth.Validity // this portal's certificates, for the dashboard

	// SignedInAt returns the sign-in time of the session in ctx.
	SignedInAt func(ctx context.Context) time.Time
	// BeginSession gives the browser a new session for the user. began is the session's start, as returned by control.
	BeginSession func(c echo.Context, user fleet.UserID, began time.Time) error
}
