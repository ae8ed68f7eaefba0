package web

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/views"
)

// editForm is the form as the VM is now, with what there is to choose from.
func (s *Server) editForm(c echo.Context, a fleet.Actor, vm fleet.VMView) (views.VMForm, error) {
	f := views.VMForm{Edits: true, On: vm.On()}
	var err error
	if f.Typed, err = typedOf(vm); err == nil {
		err = s.editChoices(c, a, &f, vm.ID)
	}
	return f, err
}

func (s *Server) editVM(c echo.Context, a fleet.Actor) error {
	typed, again, err := typedVM(c)
	if err != nil {
		return err
	}
	p, err := s.vmOf(c, a, "configure")
	if err != nil {
		return err
	}
	change, err := editOf(typed, p.VM)
	if err == nil && !again {
		_, _, err = s.Control.UpdateVM(c.Request().Context(), a, p.VM.ID, change)
	}
	e, status, refused := formErrors(err)
	switch {
	case again:
		e, status = views.Errors{}, http.StatusOK
	case refused:
	case err != nil:
		return err
	default:
		return s.leave(c, views.VMPath(p.VM.ID))
	}
	if err := s.fillTab(c, a, &p); err != nil {
		return err
	}
	p.Edit.Typed, p.Edit.Errors = typed, e
	if err := s.editChoices(c, a, &p.Edit, p.VM.ID); err != nil {
		return err
	}
	return s.showAs(c, formStatus(c, status), a, vmFrame(p.VM), views.VM(p))
}

func editOf(typed url.Values, vm fleet.VMView) (control.UpdateVM, error) {
	var checks fleet.Checks
	name, text, spec := strings.TrimSpace(typed.Get("name")), typed.Get("description"), specOf(&checks, typed, vm.Spec)
	generation, err := strconv.ParseInt(typed.Get("generation"), 10, 64)
	if err != nil {
		return control.UpdateVM{}, unreadable()
	}
	return control.UpdateVM{
		Name: &name, Labels: labelsOf(&checks, "labels", typed.Get("labels")), Description: &text, Spec: &spec, IfGeneration: generation,
	}, checks.Err()
}
