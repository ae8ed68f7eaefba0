package vmpages

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/vmedit"
	"quantix/views"
	"quantix/views/kit"
	"quantix/views/shell"
	vmview "quantix/views/vm"
	"quantix/web/form"
	"quantix/web/options"
)

// CompareVMsPage compares two VMs field by field, or a VM and a template version. The query has two VM ids from a
// list's selection, one VM id from a VM's page, and none from a template's page.
func (s *Site) CompareVMsPage(c echo.Context, a fleet.Actor) error {
	ctx := c.Request().Context()
	ids := c.Request().URL.Query()["id"]
	with, template := fleet.VMID(c.QueryParam("with")), c.QueryParam("template")
	switch {
	case len(ids) == 2 && with == "" && template == "":
		with = fleet.VMID(ids[1])
	case len(ids) == 0 && template == "":
		return fleet.Errorf(fleet.Malformed, "Select two VMs to compare.")
	case len(ids) > 1:
		return fleet.Errorf(fleet.Malformed, "Only two VMs can be compared. Select two, not %d.", len(ids))
	case with != "" && template != "":
		return fleet.Errorf(fleet.Malformed, "A VM can be compared with another VM or with a template, not with both at once.")
	}
	p := vmview.ComparePage{All: c.QueryParam("all") != ""}
	var err error
	if len(ids) > 0 && ids[0] != "" {
		if p.Left, err = s.Control.GetVM(ctx, a, fleet.VMID(ids[0])); err != nil {
			return err
		}
	}
	if with != "" {
		if p.Right, err = s.Control.GetVM(ctx, a, with); err != nil {
			return err
		}
		p.Rows = vmedit.CompareVMs(p.Left.VM, p.Right.VM)
	}
	if template != "" {
		if p.Template, p.Version, err = s.Options.TemplateVersion(ctx, a, template); err != nil {
			return err
		}
		template = views.TemplateVersionValue(p.Template.ID, p.Version.ID)
		if p.Left.ID != "" {
			p.Rows = vmedit.CompareTemplate(p.Left, p.Template, *p.Version)
		}
	}
	all := c.QueryParam("every") != ""
	if p.VMs, err = s.Options.Choices(ctx, a, options.Query{Kind: "vms", Chosen: []string{string(with)}, FormAddress: p.BaseAddress(), ShowAll: all}); err != nil {
		return err
	}
	frame := shell.PageLayout{Title: "Compare " + p.Template.Name}
	if p.Left.ID != "" {
		frame = shell.PageLayout{Title: "Compare " + p.Left.Name, ObjectKeys: []string{"vm:" + string(p.Left.ID)}}
		if p.Templates, err = s.Options.Choices(ctx, a, options.Query{Kind: "templates", ParentID: string(p.Left.ID), Chosen: []string{template}, FormAddress: p.BaseAddress(), ShowAll: all}); err != nil {
			return err
		}
	}
	return s.ShowPage(c, a, frame, vmview.ComparisonPage(p))
}

// editableVM holds the fields of a VM that the edit form changes.
type editableVM struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels"`
	Description string            `json:"description"`
	Spec        fleet.VMSpec      `json:"spec"`
}

// encodeEditableVM encodes the VM as JSON for a hidden field of the edit form. The difference between this field and the
// form's other fields are the user's own changes.
func encodeEditableVM(vm fleet.VM) string {
	text, err := json.Marshal(editableVM{Name: vm.Name, Labels: vm.Labels, Description: vm.Description, Spec: vm.Spec})
	if err != nil {
		panic(err) // not reached: plain values always encode
	}
	return string(text)
}

// mergeConcurrentChanges merges the user's change with the changes that others made to the VM meanwhile. fields are all
// fields that someone changed. If the user and another changed the same field, the form's value "take.<field>" decides.
func mergeConcurrentChanges(typed url.Values, change control.UpdateVM, vm fleet.VMView) (merged fleet.VM, fields []vmedit.MergedField, err error) {
	var was editableVM
	if err := json.Unmarshal([]byte(typed.Get("was")), &was); err != nil {
		return merged, nil, form.UnreadableFormError()
	}
	as := func(name string, labels map[string]string, description string, spec fleet.VMSpec) fleet.VM {
		out := vm.VM
		out.Name, out.Labels, out.Description, out.Spec = name, labels, description, spec
		return out
	}
	restoreOmittedNICFields(change.Spec.NICs, was.Spec.NICs)
	chosen := map[string]vmedit.MergeSide{}
	for name, texts := range typed {
		if field, ok := strings.CutPrefix(name, "take."); ok && len(texts) > 0 {
			chosen[field] = vmedit.MergeSide(texts[0])
		}
	}
	merged, fields = vmedit.MergeEdits(as(was.Name, was.Labels, was.Description, was.Spec), as(*change.Name, change.Labels, *change.Description, *change.Spec), vm.VM, chosen)
	return merged, fields, nil
}

// restoreOmittedNICFields completes NICs from a form, which contain only the network and the MAC address. Unchanged NICs get all
// their other values from was, changed NICs only their security groups and anti-spoofing.
func restoreOmittedNICFields(nics, was []fleet.NIC) {
	for i, n := range nics {
		for _, o := range was {
			switch {
			case !strings.EqualFold(n.MAC, o.MAC):
			case n.Network == o.Network && n.Bridge == o.Bridge && n.PortGroup == o.PortGroup:
				nics[i] = o
			default:
				nics[i].SecurityGroups, nics[i].AntiSpoofing = o.SecurityGroups, o.AntiSpoofing
			}
		}
	}
}

// mergePage returns the page that lets the user merge two changes; nil if nobody else has changed the VM meanwhile.
func (s *Site) mergePage(ctx context.Context, a fleet.Actor, typed url.Values, vm fleet.VMView) (*vmview.MergePage, error) {
	if typed.Get("was") == "" || typed.Get("merged") == "" && typed.Get("generation") == strconv.FormatInt(vm.Generation, 10) {
		return nil, nil
	}
	change, err := changeFromForm(typed, vm)
	if err != nil {
		return nil, nil //nolint:nilerr // the form is shown with its errors
	}
	out := &vmview.MergePage{Generation: vm.Generation}
	if _, out.Fields, err = mergeConcurrentChanges(typed, change, vm); err != nil || len(out.Fields) == 0 {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(typed)) {
		if strings.HasPrefix(name, "take.") || name == "generation" || name == "merged" {
			continue
		}
		for _, text := range typed[name] {
			out.Sent = append(out.Sent, kit.FormValue{Name: name, Value: text})
		}
	}
	history, err := s.Control.VMHistory(ctx, a, vm.ID)
	if err != nil {
		return nil, err
	}
	for _, e := range history.Audit {
		if e.Action != "vm.plan" {
			out.By = e.Actor
			break
		}
	}
	return out, nil
}
