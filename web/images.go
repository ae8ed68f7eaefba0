package web

import (
	"context"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/views"
)

// imageOf reads which volume of the pool in the path is meant.
func imageOf(c echo.Context) control.Image {
	return control.Image{PoolID: fleet.PoolID(c.Param("id")), Volume: c.QueryParam("volume"), HostID: fleet.HostID(c.QueryParam("host"))}
}

func (s *Server) publishImage(c echo.Context, a fleet.Actor) error {
	in := imageOf(c)
	if err := s.Control.PublishImage(c.Request().Context(), a, in); err != nil {
		return err
	}
	return s.stay(c, views.TabPath(views.PoolPath(in.PoolID), "volumes"), "Tenants may use "+in.Volume+" now.")
}

func (s *Server) withdrawImage(c echo.Context, a fleet.Actor) error {
	in := imageOf(c)
	if err := s.Control.WithdrawImage(c.Request().Context(), a, in); err != nil {
		return err
	}
	return s.stay(c, views.TabPath(views.PoolPath(in.PoolID), "volumes"), "Tenants are not offered "+in.Volume+" any more.")
}

// imageInput names a volume of a pool.
type imageInput struct {
	PoolPath
	Volume string       `path:"volume" maxLength:"255"`
	Host   fleet.HostID `query:"host" doc:"Of a local pool: the host whose file it is; left out: every host that has it"`
}

func (in *imageInput) image() control.Image {
	return control.Image{PoolID: in.ID, Volume: in.Volume, HostID: in.Host}
}

func (s *Server) apiPublishImage(ctx context.Context, a fleet.Actor, in *imageInput) (*nothing, error) {
	return nil, s.Control.PublishImage(ctx, a, in.image())
}

func (s *Server) apiWithdrawImage(ctx context.Context, a fleet.Actor, in *imageInput) (*nothing, error) {
	return nil, s.Control.WithdrawImage(ctx, a, in.image())
}
