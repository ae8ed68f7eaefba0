package web

import (
	"slices"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
	poolview "quantix/views/pool"
)

type assignForm struct {
	Hosts []fleet.HostID `form:"host"`
}

func (s *Server) askAssign(c echo.Context, a fleet.Actor, in assignForm, how asked) error {
	ctx := c.Request().Context()
	v, err := s.Control.GetPool(ctx, a, fleet.PoolID(c.Param("id")))
	if err != nil {
		return err
	}
	hosts, err := s.hostChoices(ctx, a, in.Hosts, func(h fleet.HostID) bool {
		return slices.ContainsFunc(v.Hosts, func(p fleet.PoolHost) bool { return p.HostID == h && p.Assigned })
	}, lacksFor(v.Spec.Kind))
	if err != nil {
		return err
	}
	return s.showAs(c, how.status, a, poolFrame(v), poolview.Assign(v, hosts, how.errors))
}

func (s *Server) assignPool(c echo.Context, a fleet.Actor, in assignForm) (end, error) {
	id := fleet.PoolID(c.Param("id"))
	jobs, err := s.Control.AssignPool(c.Request().Context(), a, id, in.Hosts)
	return stay(views.PoolPath(id), kit.Count(len(jobs), "host")+" will have the pool."), err
}

func (s *Server) askRelease(c echo.Context, a fleet.Actor, _ none, how asked) error {
	ctx := c.Request().Context()
	v, err := s.Control.GetPool(ctx, a, fleet.PoolID(c.Param("id")))
	if err != nil {
		return err
	}
	cell, err := s.Control.PoolHost(ctx, a, v.ID, fleet.HostID(c.Param("host")))
	if err != nil {
		return err
	}
	return s.showAs(c, how.status, a, poolFrame(v), poolview.Release(v, cell, how.errors))
}

func (s *Server) releasePool(c echo.Context, a fleet.Actor, _ none) (end, error) {
	id := fleet.PoolID(c.Param("id"))
	_, err := s.Control.ReleasePool(c.Request().Context(), a, id, fleet.HostID(c.Param("host")))
	return stay(views.PoolPath(id), "The host will release the pool."), err
}

func (s *Server) retryPool(c echo.Context, a fleet.Actor, _ none) (end, error) {
	id := fleet.PoolID(c.Param("id"))
	_, err := s.Control.RetryPool(c.Request().Context(), a, id, fleet.HostID(c.Param("host")))
	return stay(views.PoolPath(id), "The host will try again."), err
}
