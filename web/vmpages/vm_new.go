package vmpages

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/flavor"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/vmedit"
	"quantix/views"
	"quantix/views/shell"
	vmview "quantix/views/vm"
	"quantix/web/form"
	"quantix/web/idempotency"
)

// ShowNewVMForm shows the form of a new VM with the usual defaults.
func (s *Site) ShowNewVMForm(c echo.Context, a fleet.Actor, in vmForm, how form.Display) error {
	fresh := in.Values == nil
	if fresh {
		plan, err := s.plannedFormValues(c, a)
		if err != nil {
			return err
		}
		in.Values, fresh = plan, plan == nil
	}
	if fresh {
		in.Values = url.Values{
			"key": {fleet.NewID[string]()}, "projectId": {c.QueryParam("project")}, "hostId": {c.QueryParam("host")}, "clusterId": {c.QueryParam("cluster")},
			"spec.cpus": {"2"}, "spec.memoryMiB": {"2", "GiB"}, "spec.firmware": {string(fleet.BIOS)}, "start": {"yes"}, "source": {string(vmedit.SourceImage)},
		}
	}
	from, images, err := s.readNewVMSource(c, a, in.Values, fresh)
	if err != nil {
		return err
	}
	runs := policy.May(a, policy.InfraChange, "")
	f := vmview.Form{Typed: in.Values, Errors: how.Errors, MayOvercommit: !fresh && runs, MayChangeHosts: runs, MaySeeHosts: policy.May(a, policy.InfraSee, ""), Source: from}
	if err = s.fillNewVMChoices(c, a, &f); err == nil {
		f.Specs, err = s.customizationsForForm(c, a, fleet.ProjectID(in.Get("projectId")))
	}
	if err != nil {
		return err
	}
	f.Images = prependOptions(f.Images, images)
	if fresh && from == nil && len(f.Pools.Options) > 0 {
		addFormRow(in.Values, "spec.disks")
	}
	if fresh && from == nil && len(f.Images.Options) < 2 {
		in.Values.Set("source", string(vmedit.SourceISO))
	}
	if fresh && from == nil {
		prefillFromSource(in.Values, vmedit.VMSource(in.Get("source")))
	}
	f.Wizard = vmview.Wizard{Source: vmedit.VMSource(in.Get("source")), Preset: in.Get("preset"), Notes: in.notes, XMLImported: in.xmlImported}
	if fresh && from == nil && len(f.Networks.Options) > 0 {
		addFormRow(in.Values, "spec.nics")
	}
	fillRuleValues(&f)
	if f.MoreQuota, err = s.moreQuotaPath(c, a, in.Values, how.Errors); err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, shell.PageLayout{Title: f.Title()}, vmview.NewVMPage(f))
}

// fillRuleValues fills in the values that the project sets and the form does not have yet: the flavor of the VM's size,
// the expiry, and the size of the chosen flavor.
func fillRuleValues(f *vmview.Form) {
	if hasSize := f.Source != nil || f.Typed.Get("name") != ""; hasSize && !f.Typed.Has(vmview.FlavorField) && f.Typed.Has("spec.cpus") {
		var ignored fleet.Checks
		if v := flavor.FlavorOfSize(f.Rules.Flavors, flavor.VM{Spec: specFromForm(&ignored, f.Typed, fleet.VMSpec{})}); v != nil {
			f.Typed.Set(vmview.FlavorField, string(v.ID))
		}
	}
	if !f.Typed.Has(vmview.ExpiryField) && f.Rules.ExpiryDays > 0 {
		f.Typed.Set(vmview.ExpiryField, strconv.Itoa(f.Rules.ExpiryDays))
	}
	f.ApplyFlavor(memoryFormValues, form.GiBText)
	if !f.Typed.Has("spec.cpus") {
		f.Typed["spec.cpus"], f.Typed["spec.memoryMiB"] = []string{"2"}, []string{"2", "GiB"}
	}
}

func (s *Site) CreateVM(c echo.Context, a fleet.Actor, in vmForm) (form.Response, error) {
	if in.redrawOnly {
		return s.redrawNewVMForm(c, a, in)
	}
	want, series, err := newVMFromForm(in.Values)
	if err != nil {
		return nil, err
	}
	ctx := c.Request().Context()
	if asked, err := s.requestVM(ctx, a, in.Values, want, series); asked != nil || err != nil {
		return asked, err
	}
	if series.Count > 1 || strings.ContainsAny(want.Name, "{}") {
		many := control.CreateVMs{CreateVM: want, BulkNames: series}
		task, err := createOncePerForm(ctx, s, a, in.Get("key"), many, func(ctx context.Context) (fleet.TaskID, error) {
			task, err := s.Control.CreateVMs(ctx, a, many)
			return task.ID, err
		})
		return form.RedirectTo(views.TaskPath(task)), err
	}
	vm, err := createOncePerForm(ctx, s, a, in.Get("key"), want, func(ctx context.Context) (fleet.VMID, error) {
		vm, err := s.Control.CreateVM(ctx, a, want)
		return vm.ID, err
	})
	return form.RedirectTo(views.VMPath(vm)), err
}

// newVMFromForm returns the new VM of the form, and the number and names of the VMs of a bulk create.
func newVMFromForm(in url.Values) (control.CreateVM, vmedit.BulkNames, error) {
	var checks fleet.Checks
	want := control.CreateVM{
		ProjectID: fleet.ProjectID(in.Get("projectId")), HostID: fleet.HostID(in.Get("hostId")), ClusterID: fleet.ClusterID(in.Get("clusterId")), Name: strings.TrimSpace(in.Get("name")),
		Labels: form.ParseLabels(&checks, "labels", in.Get("labels")), Description: in.Get("description"),
		Spec: specFromForm(&checks, in, fleet.VMSpec{}), From: vmSourceFromForm(in), Start: in.Get("start") != "", Overcommit: in.Get("overcommit") != "",
		FirstBoot: firstBootFromForm(&checks, in, fleet.FirstBoot{}), FlavorID: flavor.ID(in.Get(vmview.FlavorField)),
	}
	if in.Has(vmview.ExpiryField) {
		days := form.ParseField(&checks, vmview.ExpiryField, in.Get(vmview.ExpiryField), form.ParseNumber)
		want.ExpiryDays = &days
	}
	series := bulkNamesFromForm(&checks, in)
	if checks.Err() != nil {
		// The form shows all errors at once, so this code adds the errors that control would find later.
		var rest fleet.Checks
		series.ExpandPattern(&rest, want.Name)
		want.Spec.Power = fleet.Stopped
		want.Spec.Check(&rest, "spec")
		return want, series, form.JoinErrors(&checks, rest.Err())
	}
	return want, series, nil
}

// createOncePerForm runs do only once for the same form, even if the browser sends the form twice. form is the form's
// idempotency key. A second call returns the id from the first call.
func createOncePerForm[I ~string](ctx context.Context, s *Site, a fleet.Actor, form string, want any, do func(context.Context) (I, error)) (I, error) {
	request, err := json.Marshal(want)
	if err != nil {
		return "", err
	}
	id, _, err := idempotency.Run(ctx, s.Control, a, control.IdempotencyKey{Name: form, Request: request, Secret: s.Sessions.Token(ctx)}, do)
	return id, err
}

// redrawNewVMForm shows the form of a new VM again after a button that adds a row, removes a row or prefills the form.
func (s *Site) redrawNewVMForm(c echo.Context, a fleet.Actor, in vmForm) (form.Response, error) {
	how := form.FirstDisplay
	if in.prefillKey != "" {
		err := s.prefillNewVM(c.Request().Context(), a, &in)
		e, status, ok := form.ErrorsFrom(err)
		switch {
		case ok:
			how = form.Display{Status: form.RefusedFormStatus(c, status), Errors: e}
		case err != nil:
			return nil, err
		}
	}
	return func(c echo.Context) error { return s.ShowNewVMForm(c, a, in, how) }, nil
}

// plannedFormValues returns the form values that the plan in the query was made from; nil if the query names no plan.
func (s *Site) plannedFormValues(c echo.Context, a fleet.Actor) (url.Values, error) {
	id := fleet.PlanID(c.QueryParam("plan"))
	if id == "" {
		return nil, nil
	}
	order, err := s.Control.PlannedRequest(c.Request().Context(), a, id)
	if err != nil || order.Create == nil {
		return nil, err
	}
	typed, err := newVMFormValues(*order.Create)
	if err == nil {
		typed.Set("key", fleet.NewID[string]())
		typed.Set("source", string(vmedit.SourceBlank))
		if len(order.Create.Spec.Disks) > 0 && (order.Create.Spec.Disks[0].Image != nil || order.Create.Spec.Disks[0].ImageID != "") {
			typed.Set("source", string(vmedit.SourceImage))
		} else if order.Create.Spec.ISO != nil {
			typed.Set("source", string(vmedit.SourceISO))
		}
	}
	return typed, err
}
