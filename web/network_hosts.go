package web

import (
	"slices"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
	networkview "quantix/views/network"
)

func (s *Server) askAssignNetwork(c echo.Context, a fleet.Actor, in assignForm, how asked) error {
	ctx := c.Request().Context()
	n, err := s.Control.GetNetwork(ctx, a, fleet.NetworkID(c.Param("id")))
	if err != nil {
		return err
	}
	hosts, err := s.hostChoices(ctx, a, in.Hosts, func(h fleet.HostID) bool {
		return slices.ContainsFunc(n.Hosts, func(x fleet.NetworkHost) bool { return x.HostID == h && x.Assigned })
	}, nil)
	if err != nil {
		return err
	}
	return s.showAs(c, how.status, a, networkFrame(n), networkview.Assign(n, hosts, how.errors))
}

func (s *Server) assignNetwork(c echo.Context, a fleet.Actor, in assignForm) (end, error) {
	id := fleet.NetworkID(c.Param("id"))
	jobs, err := s.Control.AssignNetwork(c.Request().Context(), a, id, in.Hosts)
	return stay(views.NetworkPath(id), kit.Count(len(jobs), "host")+" will have the network."), err
}

func (s *Server) askReleaseNetwork(c echo.Context, a fleet.Actor, _ none, how asked) error {
	ctx := c.Request().Context()
	n, err := s.Control.NetworkBrief(ctx, a, fleet.NetworkID(c.Param("id")))
	if err != nil {
		return err
	}
	cell, err := s.Control.NetworkHost(ctx, a, n.ID, fleet.HostID(c.Param("host")))
	if err != nil {
		return err
	}
	return s.showAs(c, how.status, a, networkFrame(n), networkview.Release(n, cell, how.errors))
}

func (s *Server) releaseNetwork(c echo.Context, a fleet.Actor, _ none) (end, error) {
	id := fleet.NetworkID(c.Param("id"))
	_, err := s.Control.ReleaseNetwork(c.Request().Context(), a, id, fleet.HostID(c.Param("host")))
	return stay(views.NetworkPath(id), "The host will release the network."), err
}

func (s *Server) retryNetwork(c echo.Context, a fleet.Actor, _ none) (end, error) {
	id := fleet.NetworkID(c.Param("id"))
	_, err := s.Control.RetryNetwork(c.Request().Context(), a, id, fleet.HostID(c.Param("host")))
	return stay(views.NetworkPath(id), "The host will try again."), err
}

func (s *Server) askDeleteNetwork() asking[none] {
	return confirm(s, s.Control.NetworkBrief, networkFrame, networkview.Delete)
}

// deleteNetwork leads to the list: the network is gone from it, or says there what it still waits for.
func (s *Server) deleteNetwork(c echo.Context, a fleet.Actor, _ none) (end, error) {
	_, err := s.Control.DeleteNetwork(c.Request().Context(), a, fleet.NetworkID(c.Param("id")))
	return leave("/networks"), err
}
