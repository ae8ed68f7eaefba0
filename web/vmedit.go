package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/views"
)

// editForm is the form as the VM is now, with what there is to choose from.
func (s *Server) editForm(ctx context.Context, a fleet.Actor, vm fleet.VMView) (views.VMForm, error) {
	f := views.VMForm{Edits: true, On: vm.On()}
	var err error
	if f.Typed, err = typedOf(vm); err != nil {
		return f, err
	}
	if f.ISOs, err = s.isoChoices(ctx, a, vm.Spec.ISO); err != nil {
		return f, err
	}
	networks, err := s.Control.NetworksFor(ctx, a, vm.ID)
	for _, n := range networks {
		f.Networks = append(f.Networks, networkChoice(a, n))
	}
	for i, n := range vm.Spec.NICs { // a card stays where it is, though nobody could put it there now
		on := views.Option{Value: f.Typed.Get(fmt.Sprintf("spec.nics[%d].network", i)), Text: cmp.Or(n.Network, n.Bridge)}
		if !slices.ContainsFunc(f.Networks, func(o views.Option) bool { return o.Value == on.Value }) {
			f.Networks = append(f.Networks, on)
		}
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
