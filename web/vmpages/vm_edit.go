package vmpages

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/quota"
	"quantix/views"
	"quantix/views/kit"
	vmview "quantix/views/vm"
	"quantix/web/form"
)

// newEditForm returns the edit form with the VM's current values.
func (s *Site) newEditForm(c echo.Context, a fleet.Actor, vm fleet.VMView) (vmview.Form, error) {
	f := vmview.Form{Edits: true, VM: vm.VM, GuestRuns: vm.HasGuest(), MaySeeHosts: policy.May(a, policy.InfraSee, ""), MayChangeHosts: policy.May(a, policy.InfraChange, "")}
	var err error
	was := encodeEditableVM(vm.VM)
	if err = s.applyPlannedEdit(c, a, &vm); err != nil {
		return f, err
	}
	if f.Typed, err = editFormValues(vm); err == nil {
		f.Typed.Set("was", was)
		err = s.fillEditVMChoices(c, a, &f, vm.ID)
	}
	if err == nil {
		f.Limits, err = s.quotaAfterEdit(c.Request().Context(), a, f.Typed, vm)
	}
	return f, err
}

// ShowEditForm shows the VM's page with the submitted form.
func (s *Site) ShowEditForm(c echo.Context, a fleet.Actor, in vmForm, how form.Display) error {
	p, err := s.readVMPage(c, a, "configure")
	if err != nil {
		return err
	}
	if err := s.fillVMTab(c, a, &p); err != nil {
		return err
	}
	p.Edit.Typed, p.Edit.Errors, p.Edit.MayOvercommit = in.Values, how.Errors, p.Edit.MayChangeHosts
	if how.WasRefused() {
		if p.Merge, err = s.mergePage(c.Request().Context(), a, in.Values, p.VM); err != nil {
			return err
		}
		if p.Merge != nil && in.Get("merged") == "" {
			p.Edit.Errors = kit.Errors{} // the merge page shows the conflict
		}
	}
	if err := s.fillEditVMChoices(c, a, &p.Edit, p.VM.ID); err != nil {
		return err
	}
	if p.Edit.Limits, err = s.quotaAfterEdit(c.Request().Context(), a, in.Values, p.VM); err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, vmPageLayout(p.VM), vmview.VMPage(p))
}

func (s *Site) EditVM(c echo.Context, a fleet.Actor, in vmForm) (form.Response, error) {
	if in.redrawOnly && in.prefillKey != vmview.PrefillSectionHeadings {
		return func(c echo.Context) error { return s.ShowEditForm(c, a, in, form.FirstDisplay) }, nil
	}
	ctx := c.Request().Context()
	vm, err := s.Control.GetVM(ctx, a, fleet.VMID(c.Param("id")))
	if err != nil {
		return nil, err
	}
	if in.prefillKey == vmview.PrefillSectionHeadings {
		f := vmview.Form{Typed: in.Values, Edits: true, VM: vm.VM, GuestRuns: vm.HasGuest()}
		limits, err := s.quotaAfterEdit(ctx, a, in.Values, vm)
		if err != nil {
			return nil, err
		}
		return func(c echo.Context) error {
			return s.WritePage(c, http.StatusOK, vmview.EditRefresh(f, in.sentValues, limits))
		}, nil
	}
	change, err := mergedChangeFromForm(in.Values, vm)
	if err != nil {
		return nil, err
	}
	_, _, err = s.Control.UpdateVM(ctx, a, vm.ID, change)
	return form.RedirectTo(views.VMPath(vm.ID)), err
}

// quotaAfterEdit returns the limits of the project after the edit. A form with errors changes nothing: its fields show the
// errors when it is sent.
func (s *Site) quotaAfterEdit(ctx context.Context, a fleet.Actor, typed url.Values, vm fleet.VMView) (out []quota.Line, err error) {
	var more quota.Usage
	if change, err := changeFromForm(typed, vm); err == nil {
		more = quota.Difference(quota.OfVM(*change.Spec), quota.OfVM(vm.Spec))
	}
	use, err := s.Control.ProjectUsage(ctx, a, vm.ProjectID)
	if err != nil {
		return nil, err
	}
	return editableLimits(use, more), nil
}

// editableLimits returns the limits of the project that an edit of a VM can reach.
func editableLimits(use quota.ProjectUsage, more quota.Usage) (out []quota.Line) {
	for _, l := range use.Lines(more) {
		if l.Key == quota.PoolsKey && l.After == l.Used {
			continue
		}
		if (l.Hard != nil || l.Soft != nil) && slices.Contains(quota.EditableKeys, l.Key) {
			out = append(out, l)
		}
	}
	return out
}

func changeFromForm(typed url.Values, vm fleet.VMView) (control.UpdateVM, error) {
	var checks fleet.Checks
	name, text, spec := strings.TrimSpace(typed.Get("name")), typed.Get("description"), specFromForm(&checks, typed, vm.Spec)
	restoreNICFilters(&spec, vm.Spec)
	generation, err := strconv.ParseInt(typed.Get("generation"), 10, 64)
	if err != nil {
		return control.UpdateVM{}, form.UnreadableFormError()
	}
	change := control.UpdateVM{
		Name: &name, Labels: form.ParseLabels(&checks, "labels", typed.Get("labels")), Description: &text, Spec: &spec, IfGeneration: generation,
		Overcommit: typed.Get("overcommit") != "",
	}
	return change, checks.Err()
}

// mergedChangeFromForm returns the change that the form requests. If another user changed the VM meanwhile, it merges
// both changes as the user chose in the form.
func mergedChangeFromForm(typed url.Values, vm fleet.VMView) (control.UpdateVM, error) {
	change, err := changeFromForm(typed, vm)
	if err != nil || typed.Get("merged") == "" || change.IfGeneration != vm.Generation {
		return change, err
	}
	both, fields, err := mergeConcurrentChanges(typed, change, vm)
	if err != nil {
		return change, err
	}
	var checks fleet.Checks
	for _, f := range fields {
		if f.Winner == "" {
			checks.Add("take."+f.Field, "Choose whose value of %s to keep: you and another user changed it.", strings.ToLower(f.Type))
		}
	}
	change.Name, change.Labels, change.Description, change.Spec = &both.Name, both.Labels, &both.Description, &both.Spec
	return change, checks.Err()
}

// restoreNICFilters copies the security groups and anti-spoofing of each NIC from was. The form has no fields for them,
// because they have a separate dialog.
func restoreNICFilters(spec *fleet.VMSpec, was fleet.VMSpec) {
	for i, n := range spec.NICs {
		for _, o := range was.NICs {
			if strings.EqualFold(o.MAC, n.MAC) {
				spec.NICs[i].SecurityGroups, spec.NICs[i].AntiSpoofing = o.SecurityGroups, o.AntiSpoofing
			}
		}
	}
}

// applyPlannedEdit sets vm to the values of the plan in the query, so that the form begins with these values. It does
// nothing without a plan, or if the VM has changed since the plan was made.
func (s *Site) applyPlannedEdit(c echo.Context, a fleet.Actor, vm *fleet.VMView) error {
	id := fleet.PlanID(c.QueryParam("plan"))
	if id == "" {
		return nil
	}
	order, err := s.Control.PlannedRequest(c.Request().Context(), a, id)
	if err != nil || order.Update == nil || order.VM != vm.ID || order.Update.IfGeneration != vm.Generation {
		return err
	}
	vm.Name, vm.Labels, vm.Description, vm.Spec = *order.Update.Name, order.Update.Labels, *order.Update.Description, *order.Update.Spec
	return nil
}
