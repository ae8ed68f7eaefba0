package vmpages

import (
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/shell"
	vmview "quantix/views/vm"
	"quantix/web/form"
)

// PlanVMEdit creates a plan of the form's changes and redirects to the plan's page.
func (s *Site) PlanVMEdit(c echo.Context, a fleet.Actor, in vmForm) (form.Response, error) {
	if in.redrawOnly {
		return func(c echo.Context) error { return s.ShowEditForm(c, a, in, form.FirstDisplay) }, nil
	}
	ctx := c.Request().Context()
	vm, err := s.Control.GetVM(ctx, a, fleet.VMID(c.Param("id")))
	if err != nil {
		return nil, err
	}
	change, err := mergedChangeFromForm(in.Values, vm)
	if err != nil {
		return nil, err
	}
	plan, err := s.Control.PlanVM(ctx, a, vm.ID, change)
	if err == nil && plan.ID == "" {
		err = fleet.Errorf(fleet.Conflict, "The form changes nothing, so there is nothing to review.")
	}
	return form.RedirectTo(views.PlanPath(plan.ID)), err
}

// PlanNewVM creates a plan of the form's new VM and redirects to the plan's page.
func (s *Site) PlanNewVM(c echo.Context, a fleet.Actor, in vmForm) (form.Response, error) {
	if in.redrawOnly {
		return s.redrawNewVMForm(c, a, in)
	}
	want, series, err := newVMFromForm(in.Values)
	if err != nil {
		return nil, err
	}
	if series.Count > 1 || strings.ContainsAny(want.Name, "{}") {
		var checks fleet.Checks
		checks.Add("name", "Only one VM can be reviewed at a time. Give one name without a counter, or create the VMs without a review.")
		return nil, checks.Err()
	}
	plan, err := s.Control.PlanNewVM(c.Request().Context(), a, want)
	return form.RedirectTo(views.PlanPath(plan.ID)), err
}

func (s *Site) PlanPage(c echo.Context, a fleet.Actor, _ form.EmptyForm, how form.Display) error {
	plan, err := s.Control.GetPlan(c.Request().Context(), a, fleet.PlanID(c.Param("id")))
	if err != nil {
		return err
	}
	f := shell.PageLayout{Title: "Review " + plan.Name}
	if plan.VMID != "" {
		f.ObjectKeys = []string{"project:" + string(plan.ProjectID), "host:" + string(plan.HostID), "vm:" + string(plan.VMID)}
	}
	return s.ShowPageWithStatus(c, how.Status, a, f, vmview.PlanBody(vmview.PlanPage{Plan: plan, Errors: how.Errors, Now: time.Now()}))
}

func (s *Site) ExecutePlan(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	vm, err := s.Control.ExecutePlan(c.Request().Context(), a, fleet.PlanID(c.Param("id")))
	return form.RedirectTo(views.VMPath(vm)), err
}
