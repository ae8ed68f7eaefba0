package vmpages

import (
	"net/url"
	"strconv"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	vmview "quantix/views/vm"
	"quantix/web/form"
)

// ShowFirstBootForm shows the form of the first-boot data that the guest reads at the VM's next start.
func (s *Site) ShowFirstBootForm(c echo.Context, a fleet.Actor, in formValues, how form.Display) error {
	ctx := c.Request().Context()
	vm, err := s.Control.GetVM(ctx, a, fleet.VMID(c.Param("id")))
	if err != nil {
		return err
	}
	p := vmview.FirstBootPage{VM: vm, Errors: how.Errors, Form: vmview.FirstBootForm{Typed: in.Values, Errors: how.Errors, Current: vm.Spec.FirstBoot}}
	if p.Form.Specs, err = s.customizationsOfProject(c, a, vm.ProjectID); err != nil {
		return err
	}
	_, p.Why = vm.Allows(fleet.ActEdit)
	had, err := s.Control.FirstBoot(ctx, a, vm.ID)
	switch {
	case err == nil:
		p.SetBy, p.SetAt = had.SetBy, had.SetAt.UTC().Format("2006-01-02 15:04 UTC")
		p.Form.OtherSettings = firstBootDataOutsideForm(had.Content)
	case fleet.CodeOf(err) != fleet.NotFound && fleet.CodeOf(err) != fleet.Conflict:
		return err
	}
	if !how.WasRefused() {
		p.Form.Typed = url.Values{"generation": {strconv.FormatInt(vm.Generation, 10)}}
		fillFirstBootForm(p.Form.Typed, had.Content)
	}
	return s.ShowPageWithStatus(c, how.Status, a, vmPageLayout(vm), vmview.FirstBootDialog(p))
}

// customizationsForForm lists the customization specs for the form of a new VM. As long as no project is chosen, these are
// all that the actor may see.
func (s *Site) customizationsForForm(c echo.Context, a fleet.Actor, project fleet.ProjectID) ([]fleet.Customization, error) {
	if project == "" {
		return s.Control.ListCustomizations(c.Request().Context(), a)
	}
	return s.customizationsOfProject(c, a, project)
}

// customizationsOfProject lists the customization specs that VMs of the project may use.
func (s *Site) customizationsOfProject(c echo.Context, a fleet.Actor, project fleet.ProjectID) ([]fleet.Customization, error) {
	all, err := s.Control.ListCustomizations(c.Request().Context(), a)
	out, runs := all[:0], policy.May(a, policy.InfraChange, "")
	for _, one := range all {
		if one.ProjectID == project || one.ProjectID == "" && (runs || fleet.GrantedTo(project, one.Grants)) {
			out = append(out, one)
		}
	}
	return out, err
}

func (s *Site) SetFirstBoot(c echo.Context, a fleet.Actor, in formValues) (form.Response, error) {
	ctx, id := c.Request().Context(), fleet.VMID(c.Param("id"))
	generation, err := strconv.ParseInt(in.Get("generation"), 10, 64)
	if err != nil {
		return nil, form.UnreadableFormError()
	}
	had, err := s.Control.FirstBoot(ctx, a, id)
	if err != nil && fleet.CodeOf(err) != fleet.NotFound && fleet.CodeOf(err) != fleet.Conflict {
		return nil, err
	}
	var checks fleet.Checks
	want := firstBootFromForm(&checks, in.Values, had.Content)
	if err := checks.Err(); err != nil {
		return nil, err
	}
	if want == nil {
		want = &control.FirstBootInput{}
	}
	want.IfGeneration = generation
	_, task, err := s.Control.SetFirstBoot(ctx, a, id, *want)
	said := "The guest gets the new data at its next start."
	if task == "" {
		said = "Nothing changed."
	}
	return form.StayOnPage(views.VMPath(id), said), err
}
