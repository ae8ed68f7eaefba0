package web

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/control/browse"
	"quantix/internal/fleet"
	"quantix/views"
)

type poolForm struct {
	Name        string         `form:"name"`
	Kind        string         `form:"kind"`
	Path        string         `form:"path"`
	Server      string         `form:"server"`
	Export      string         `form:"export"`
	Shared      string         `form:"shared"`
	Description string         `form:"description"`
	Hosts       []fleet.HostID `form:"host"`
}

// spec leaves out what belongs to the other kind: without scripts the form shows both.
func (in poolForm) spec() fleet.PoolSpec {
	spec := fleet.PoolSpec{Kind: fleet.PoolKind(in.Kind), Path: strings.TrimSpace(in.Path), Description: in.Description, Shared: in.Shared != ""}
	if spec.Kind == fleet.PoolNFS {
		spec.Server, spec.Export, spec.Shared = strings.TrimSpace(in.Server), strings.TrimSpace(in.Export), true
	}
	return spec
}

func (s *Server) newPool(c echo.Context, a fleet.Actor) error {
	return s.askPool(c, a, http.StatusOK, views.PoolForm{Kind: string(fleet.PoolDir)}, nil)
}

func (s *Server) askPool(c echo.Context, a fleet.Actor, status int, f views.PoolForm, chosen []fleet.HostID) error {
	var err error
	if f.Hosts, err = s.hostChoices(c.Request().Context(), a, nil, chosen); err != nil {
		return err
	}
	return s.showAs(c, status, a, views.Frame{Title: "New pool"}, views.NewPool(f))
}

// hostChoices are the hosts to tick, but those that have the pool already and keep it.
func (s *Server) hostChoices(ctx context.Context, a fleet.Actor, have []fleet.PoolHost, chosen []fleet.HostID) ([]views.HostChoice, error) {
	hosts, err := browse.Every(ctx, a, fleet.Query{}, s.Control.ListHosts)
	if err != nil {
		return nil, err
	}
	var out []views.HostChoice
	for _, h := range hosts {
		if !slices.ContainsFunc(have, func(p fleet.PoolHost) bool { return p.HostID == h.ID && p.Assigned }) {
			out = append(out, views.HostChoice{ID: h.ID, Name: h.Name, Phase: h.Phase, Chosen: slices.Contains(chosen, h.ID)})
		}
	}
	return out, nil
}

func (s *Server) createPool(c echo.Context, a fleet.Actor) error {
	in, err := decode[poolForm](c)
	if err != nil {
		return err
	}
	pool, err := s.Control.CreatePool(c.Request().Context(), a, control.CreatePool{Name: strings.TrimSpace(in.Name), Spec: in.spec(), HostIDs: in.Hosts})
	if e, status, ok := formErrors(err); ok {
		f := views.PoolForm{
			Name: in.Name, Kind: in.Kind, Path: in.Path, Server: in.Server, Export: in.Export, Description: in.Description, Shared: in.Shared != "", Errors: e,
		}
		return s.askPool(c, a, formStatus(c, status), f, in.Hosts)
	}
	if err != nil {
		return err
	}
	return s.leave(c, views.PoolPath(pool.ID))
}

type assignForm struct {
	Hosts []fleet.HostID `form:"host"`
}

func (s *Server) assignPoolPage(c echo.Context, a fleet.Actor) error {
	return s.askAssign(c, a, http.StatusOK, nil, views.Errors{})
}

func (s *Server) askAssign(c echo.Context, a fleet.Actor, status int, chosen []fleet.HostID, e views.Errors) error {
	ctx := c.Request().Context()
	v, err := s.Control.GetPool(ctx, a, fleet.PoolID(c.Param("id")))
	if err != nil {
		return err
	}
	hosts, err := s.hostChoices(ctx, a, v.Hosts, chosen)
	if err != nil {
		return err
	}
	return s.showAs(c, status, a, poolFrame(v), views.PoolAssign(v, hosts, e))
}

func (s *Server) assignPool(c echo.Context, a fleet.Actor) error {
	in, err := decode[assignForm](c)
	if err != nil {
		return err
	}
	id := fleet.PoolID(c.Param("id"))
	jobs, err := s.Control.AssignPool(c.Request().Context(), a, id, in.Hosts)
	if e, status, ok := formErrors(err); ok {
		return s.askAssign(c, a, formStatus(c, status), in.Hosts, e)
	}
	if err != nil {
		return err
	}
	return s.stay(c, views.PoolPath(id), views.Count(len(jobs), "host")+" will have the pool.")
}

func (s *Server) releasePoolPage(c echo.Context, a fleet.Actor) error {
	return s.askRelease(c, a, http.StatusOK, views.Errors{})
}

func (s *Server) askRelease(c echo.Context, a fleet.Actor, status int, e views.Errors) error {
	v, err := s.Control.GetPool(c.Request().Context(), a, fleet.PoolID(c.Param("id")))
	if err != nil {
		return err
	}
	i := slices.IndexFunc(v.Hosts, func(h fleet.PoolHost) bool { return string(h.HostID) == c.Param("host") })
	if i < 0 {
		return fleet.Errorf(fleet.NotFound, "The pool is not assigned to this host.")
	}
	return s.showAs(c, status, a, poolFrame(v), views.PoolRelease(v, v.Hosts[i], e))
}

func (s *Server) releasePool(c echo.Context, a fleet.Actor) error {
	id := fleet.PoolID(c.Param("id"))
	_, err := s.Control.ReleasePool(c.Request().Context(), a, id, fleet.HostID(c.Param("host")))
	if e, status, ok := formErrors(err); ok {
		return s.askRelease(c, a, formStatus(c, status), e)
	}
	if err != nil {
		return err
	}
	return s.stay(c, views.PoolPath(id), "The host will release the pool.")
}

func (s *Server) retryPool(c echo.Context, a fleet.Actor) error {
	id := fleet.PoolID(c.Param("id"))
	if _, err := s.Control.RetryPool(c.Request().Context(), a, id, fleet.HostID(c.Param("host"))); err != nil {
		return err
	}
	return s.stay(c, views.PoolPath(id), "The host will try again.")
}

func (s *Server) deletePoolPage(c echo.Context, a fleet.Actor) error {
	return s.askDeletePool(c, a, http.StatusOK, views.Errors{})
}

func (s *Server) askDeletePool(c echo.Context, a fleet.Actor, status int, e views.Errors) error {
	v, err := s.Control.GetPool(c.Request().Context(), a, fleet.PoolID(c.Param("id")))
	if err != nil {
		return err
	}
	return s.showAs(c, status, a, poolFrame(v), views.PoolDelete(v, e))
}

// deletePool leads to the list: the pool is gone from it, or says there what it still waits for.
func (s *Server) deletePool(c echo.Context, a fleet.Actor) error {
	id := fleet.PoolID(c.Param("id"))
	_, err := s.Control.DeletePool(c.Request().Context(), a, id)
	if e, status, ok := formErrors(err); ok {
		return s.askDeletePool(c, a, formStatus(c, status), e)
	}
	if err != nil {
		return err
	}
	return s.leave(c, "/pools")
}
