package vmpages

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/vmedit"
	"quantix/views"
	"quantix/views/kit"
	"quantix/views/shell"
	vmview "quantix/views/vm"
	"quantix/web/form"
)

// bulkEditForm holds the typed values of the bulk edit form.
type bulkEditForm struct{ url.Values }

// ReadForm sets the form to the values that the browser sent.
func (in *bulkEditForm) ReadForm(sent url.Values) { in.Values = sent }

func (in bulkEditForm) ids() (out []fleet.VMID) {
	for _, id := range in.Values["id"] {
		out = append(out, fleet.VMID(id))
	}
	return out
}

// edit returns the bulk edit with the typed values of the ticked fields.
func (in bulkEditForm) edit() (vmedit.BulkEdit, error) {
	var checks fleet.Checks
	out := vmedit.BulkEdit{Labels: map[string]*string{}, Fields: map[string]json.RawMessage{}}
	for k, v := range form.ParseLabels(&checks, "labels", in.Get("labels")) {
		out.Labels[k] = &v
	}
	for line := range strings.Lines(in.Get("unlabel")) {
		if key := strings.TrimSpace(line); key != "" {
			if out.Labels[key] != nil {
				checks.Add("unlabel", "The label %q cannot be both set and removed.", key)
			}
			out.Labels[key] = nil
		}
	}
	spec := specFromForm(&checks, in.Values, fleet.VMSpec{})
	for _, f := range vmedit.BulkFields() {
		if in.Get("set."+f.Name) == "" {
			continue
		}
		text, err := json.Marshal(f.Value(spec))
		if err != nil {
			return out, err
		}
		out.Fields[f.Name] = text
	}
	return out, checks.Err()
}

// ShowBulkEditForm shows the bulk edit form for selected VMs, or for all VMs that match a filter.
func (s *Site) ShowBulkEditForm(c echo.Context, a fleet.Actor, in bulkEditForm, how form.Display) error {
	if in.Values == nil {
		ids, err := s.selectedVMIDs(c.Request().Context(), a, c.Request().URL.Query())
		if err != nil {
			return err
		}
		in = newBulkEditForm(ids)
	}
	return s.showBulkEdit(c, a, in, how, nil)
}

// newBulkEditForm returns the form for these VMs with default values.
func newBulkEditForm(ids []string) bulkEditForm {
	return bulkEditForm{url.Values{"id": ids, "spec.cpus": {"2"}, "spec.memoryMiB": {"2", "GiB"}, "spec.firmware": {string(fleet.BIOS)}}}
}

func (s *Site) showBulkEdit(c echo.Context, a fleet.Actor, in bulkEditForm, how form.Display, preview *vmview.BulkEditPreview) error {
	models, err := s.Control.CPUModels(c.Request().Context(), a)
	if err != nil {
		return err
	}
	p := vmview.BulkEditData{IDs: in.ids(), Preview: preview, Form: vmview.Form{Typed: in.Values, Errors: how.Errors, CPUModels: models, MayChangeHosts: policy.May(a, policy.InfraChange, "")}}
	return s.ShowPageWithStatus(c, how.Status, a, shell.PageLayout{Title: "Edit VMs"}, vmview.BulkEditPage(p))
}

// selectedVMIDs returns the VM ids in q, or the ids of all VMs that match the filter in q.
func (s *Site) selectedVMIDs(ctx context.Context, a fleet.Actor, q url.Values) ([]string, error) {
	if ids := q["id"]; len(ids) > 0 || !q.Has("filter") {
		if len(ids) == 0 {
			return nil, fleet.Errorf(fleet.Malformed, "Select VMs first.")
		}
		if len(ids) > control.MaxBulkVMs {
			return nil, fleet.Errorf(fleet.TooLarge, "Select at most %d VMs at once.", control.MaxBulkVMs)
		}
		return ids, nil
	}
	ask := fleet.Query{Filter: q.Get("filter"), Project: fleet.ProjectID(q.Get("project"))}
	var out []string
	for {
		page, err := s.Control.ListVMsBriefly(ctx, a, ask)
		if err != nil {
			return nil, err
		}
		for _, vm := range page.Items {
			out = append(out, string(vm.ID))
		}
		switch {
		case len(out) > control.MaxBulkVMs:
			return nil, fleet.Errorf(fleet.TooLarge, "The filter matches more than %d VMs. Add a word to the filter to select fewer VMs.", control.MaxBulkVMs)
		case page.Next == "" && len(out) == 0:
			return nil, fleet.Errorf(fleet.NotFound, "The filter matches no VM.")
		case page.Next == "":
			return out, nil
		}
		ask.After = page.Next
	}
}

// SubmitBulkEdit shows the form for a selection, shows a preview, or applies the edit and redirects to its task. The
// selection is in the request body, because proxies refuse addresses with hundreds of ids.
func (s *Site) SubmitBulkEdit(c echo.Context, a fleet.Actor, in bulkEditForm) (form.Response, error) {
	if in.Get("step") == "select" {
		ids, err := s.selectedVMIDs(c.Request().Context(), a, url.Values{"id": in.Values["id"]})
		return func(c echo.Context) error { return s.showBulkEdit(c, a, newBulkEditForm(ids), form.FirstDisplay, nil) }, err
	}
	edit, err := in.edit()
	if err != nil {
		return nil, err
	}
	ctx := c.Request().Context()
	if in.Get("step") == "do" {
		task, err := s.Control.EditVMs(ctx, a, in.ids(), edit)
		return form.RedirectTo(kit.Link{Path: views.TaskPath(task.ID)}.With("back", "/vms").String()), err
	}
	b, err := s.Control.PreviewEdit(ctx, a, in.ids(), edit)
	if err != nil {
		return nil, err
	}
	preview := vmview.BulkEditPreview{Now: b.Now, NextBoot: b.NextBoot, Same: b.Same, Left: b.Left, Refused: slices.Clone(b.Refused)}
	return func(c echo.Context) error { return s.showBulkEdit(c, a, in, form.FirstDisplay, &preview) }, nil
}
