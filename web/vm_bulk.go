package web

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

type bulkForm struct {
	Action fleet.Action `form:"action"`
	IDs    []fleet.VMID `form:"id"`
	Back   string       `form:"back"`
}

// actOnVMs asks one action of many VMs and leads to the task's page, so that loading that page again asks nothing again.
func (s *Server) actOnVMs(c echo.Context, a fleet.Actor, in bulkForm) (end, error) {
	task, err := s.Control.ActVMs(c.Request().Context(), a, in.Action, in.IDs)
	return leave(kit.Link{Path: "/tasks/" + string(task.ID)}.With("back", localPath(in.Back)).String()), err
}

// bulkPage leads on from where results of actions about many VMs stood before they were tasks.
func (s *Server) bulkPage(c echo.Context, _ fleet.Actor) error {
	l := kit.Link{Path: "/tasks/" + c.Param("id")}
	return c.Redirect(http.StatusMovedPermanently, l.With("back", localPath(c.QueryParam("back"))).String())
}
