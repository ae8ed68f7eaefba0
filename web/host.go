package web

import (
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/views"
	hostview "quantix/views/host"
	"quantix/views/kit"
)

type hostForm struct {
	Labels      string `form:"labels"`
	Description string `form:"description"`
	Generation  string `form:"generation"`
}

func hostFormOf(h fleet.HostView) hostview.Form {
	return hostview.Form{Labels: kit.LabelText(h.Spec.Labels), Description: h.Spec.Description, Generation: h.Generation}
}

func (s *Server) editHost(c echo.Context, a fleet.Actor) error {
	ctx, id := c.Request().Context(), fleet.HostID(c.Param("id"))
	in, err := decode[hostForm](c)
	if err != nil {
		return err
	}
	var checks fleet.Checks
	generation, _ := strconv.ParseInt(in.Generation, 10, 64) // hidden; a form without it does not ask for a generation
	change := control.UpdateHost{Labels: labelsOf(&checks, "labels", in.Labels), Description: &in.Description, IfGeneration: generation}
	if err = checks.Err(); err == nil {
		_, err = s.Control.UpdateHost(ctx, a, id, change)
	}
	if e, status, ok := formErrors(err); ok {
		h, err := s.Control.GetHost(ctx, a, id)
		if err != nil {
			return err
		}
		f := hostview.Form{Labels: in.Labels, Description: in.Description, Generation: generation, Errors: e}
		link := kit.Link{Path: views.HostPath(id)}.With("tab", "configure")
		p := hostview.Page{Actor: a, Link: link, Tab: "configure", Host: h, Now: time.Now(), Form: f}
		return s.showAs(c, formStatus(c, status), a, hostFrame(h), hostview.Show(p))
	}
	if err != nil {
		return err
	}
	return s.leave(c, views.HostPath(id))
}

func (s *Server) clearConflict(c echo.Context, a fleet.Actor) error {
	id := fleet.HostID(c.Param("id"))
	if err := s.Control.ClearConflict(c.Request().Context(), a, id); err != nil {
		return err
	}
	return s.stay(c, views.HostPath(id), "The conflict is cleared.")
}

func (s *Server) deleteHostPage(c echo.Context, a fleet.Actor) error {
	return s.askDeleteHost(c, a, http.StatusOK, kit.Errors{})
}

func (s *Server) askDeleteHost(c echo.Context, a fleet.Actor, status int, e kit.Errors) error {
	h, err := s.Control.GetHost(c.Request().Context(), a, fleet.HostID(c.Param("id")))
	if err != nil {
		return err
	}
	return s.showAs(c, status, a, hostFrame(h), hostview.Delete(h, e))
}

func (s *Server) deleteHost(c echo.Context, a fleet.Actor) error {
	err := s.Control.DeleteHost(c.Request().Context(), a, fleet.HostID(c.Param("id")))
	if e, status, ok := formErrors(err); ok {
		return s.askDeleteHost(c, a, formStatus(c, status), e)
	}
	if err != nil {
		return err
	}
	return s.leave(c, "/hosts")
}
