package web

import (
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views"
)

type bulkForm struct {
	Action string   `form:"action"`
	IDs    []string `form:"id"`
	Back   string   `form:"back"`
}

// actOnVMs asks one action of many VMs and leads to the page that shows what becomes of it, so that loading that page again
// asks nothing again.
func (s *Server) actOnVMs(c echo.Context, a fleet.Actor) error {
	in, err := decode[bulkForm](c)
	if err != nil {
		return err
	}
	act := fleet.Action(in.Action)
	switch {
	case act.Job() == "" || act == fleet.ActDelete || act == fleet.ActEdit:
		return fleet.Errorf(fleet.Malformed, "%q is nothing that can be asked of many VMs at once.", in.Action)
	case len(in.IDs) == 0:
		return fleet.Errorf(fleet.Malformed, "Select VMs first.")
	case len(in.IDs) > mostRows:
		return fleet.Errorf(fleet.TooLarge, "Select at most %d VMs at once.", mostRows)
	case slices.ContainsFunc(in.IDs, noID):
		return fleet.Errorf(fleet.Malformed, "The form cannot be read. Reload the page and try again.")
	}
	results := make(fleet.BulkResults, len(in.IDs))
	for i, id := range in.IDs {
		if results[i], err = s.actOnOne(c, a, fleet.VMID(id), act); err != nil {
			return err
		}
	}
	id, err := s.Control.KeepBulk(c.Request().Context(), a, act, results)
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, views.Link{Path: "/vms/bulk/" + string(id)}.With("back", localPath(in.Back)).String())
}

// noID tells text that can be nobody's id, and that the outcome should not repeat.
func noID(text string) bool {
	return len(text) != 36 || strings.Trim(text, "0123456789abcdef-") != ""
}

// actOnOne gives the refusal of one VM as its result; only an error that concerns all of them ends the whole.
func (s *Server) actOnOne(c echo.Context, a fleet.Actor, id fleet.VMID, act fleet.Action) (fleet.BulkResult, error) {
	r := fleet.BulkResult{VM: id, Name: string(id)}
	job, err := s.Control.ActVM(c.Request().Context(), a, id, act)
	switch fleet.CodeOf(err) {
	case "", fleet.Unavailable, fleet.Unauthorized:
		r.Task, r.Name = job.ID, job.SubjectName
		return r, err
	}
	r.Error = s.refuse(c, err).text()
	if vm, err := s.Control.GetVM(c.Request().Context(), a, id); err == nil {
		r.Name = vm.Name
	}
	return r, nil
}

func (s *Server) bulkPage(c echo.Context, a fleet.Actor) error {
	b, err := s.Control.GetBulk(c.Request().Context(), a, fleet.BulkID(c.Param("id")))
	if err != nil {
		return err
	}
	back := "/vms"
	if given := c.QueryParam("back"); given != "" {
		back = localPath(given)
	}
	return s.show(c, a, views.Frame{Title: b.Action.Word()}, views.Bulk(views.BulkPage{Bulk: b, Link: linkOf(c), Back: back}))
}
