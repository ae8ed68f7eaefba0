package web

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views"
)

type bulkForm struct {
	Action string       `form:"action"`
	IDs    []fleet.VMID `form:"id"`
	Back   string       `form:"back"`
}

// actOnVMs asks one action of many VMs and leads to the task's page, so that loading that page again asks nothing again.
func (s *Server) actOnVMs(c echo.Context, a fleet.Actor) error {
	in, err := decode[bulkForm](c)
	if err != nil {
		return err
	}
	task, err := s.Control.ActVMs(c.Request().Context(), a, fleet.Action(in.Action), in.IDs)
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, views.Link{Path: "/tasks/" + string(task.ID)}.With("back", localPath(in.Back)).String())
}

// bulkPage leads on from where results of actions about many VMs stood before they were tasks.
func (s *Server) bulkPage(c echo.Context, _ fleet.Actor) error {
	l := views.Link{Path: "/tasks/" + c.Param("id")}
	return c.Redirect(http.StatusMovedPermanently, l.With("back", localPath(c.QueryParam("back"))).String())
}

type actOnVMsInput struct {
	Body struct {
		Action fleet.Action `json:"action" doc:"start, shutdown, stop, reboot, reset, pause or resume"`
		IDs    []fleet.VMID `json:"ids" doc:"of the VMs, 500 at most"`
	}
}

func (s *Server) apiActOnVMs(ctx context.Context, a fleet.Actor, in *actOnVMsInput) (*taskOutput, error) {
	task, err := s.Control.ActVMs(ctx, a, in.Body.Action, in.Body.IDs)
	return &taskOutput{task}, err
}
