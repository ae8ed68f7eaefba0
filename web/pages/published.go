package pages

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/web/form"
)

// volumeToPublish returns the volume to publish: the pool is in the path, the volume and host are in the query.
func volumeToPublish(c echo.Context) control.ImageFile {
	return control.ImageFile{PoolID: fleet.PoolID(c.Param("id")), Volume: c.QueryParam("volume"), HostID: fleet.HostID(c.QueryParam("host"))}
}

func (s *Site) PublishImage(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	in := volumeToPublish(c)
	return form.StayOnPage(volumesTabPath(in), "Tenants may use "+in.Volume+" now."), s.Control.PublishImage(c.Request().Context(), a, in)
}

func (s *Site) WithdrawImage(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	in := volumeToPublish(c)
	return form.StayOnPage(volumesTabPath(in), in.Volume+" is withdrawn from tenants."), s.Control.WithdrawImage(c.Request().Context(), a, in)
}

func volumesTabPath(in control.ImageFile) string {
	return views.TabPath(views.PoolPath(in.PoolID), "volumes")
}
