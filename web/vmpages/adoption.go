package vmpages

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
	"quantix/views/shell"
	vmview "quantix/views/vm"
	"quantix/views/vmlist"
	"quantix/web/form"
	"quantix/web/options"
	"quantix/web/render"
)

type adoptForm struct {
	Project fleet.ProjectID `form:"projectId"`
	Name    string          `form:"name"`
}

// ShowAdoptForm shows the dialog that adopts an unmanaged VM, with what the portal knows about it.
func (s *Site) ShowAdoptForm(c echo.Context, a fleet.Actor, in adoptForm, how form.Display) error {
	ctx := c.Request().Context()
	p, layout, err := s.readDiscoveredVMPage(c, a, "summary")
	if fleet.CodeOf(err) == fleet.NotFound && how.Errors.Form != "" { // for example, somebody else has adopted the VM
		return fleet.Errorf(fleet.Conflict, "%s", how.Errors.Form)
	}
	if fleet.CodeOf(err) == fleet.NotFound {
		if path := s.adoptedVMPath(c, a); path != "" {
			return c.Redirect(http.StatusSeeOther, path)
		}
	}
	if err != nil {
		return err
	}
	out := vmlist.AdoptPage{VM: p.VM, Project: string(in.Project), Name: in.Name, Errors: how.Errors}
	if out.Projects, err = s.projectChoices(c, a, out.Project, views.DiscoveredVMPath(p.VM.HostID, p.VM.ID, "adopt")); err != nil {
		return err
	}
	if in.Project == "" && len(out.Projects.Options) > 0 { // the reasons hold for any project, except a taken name
		in.Project = fleet.ProjectID(out.Projects.Options[len(out.Projects.Options)-1].Value)
	}
	if in.Project != "" {
		if out.Plan, err = s.Control.PlanAdoption(ctx, a, p.VM.HostID, p.VM.ID, control.AdoptVM{ProjectID: in.Project, Name: in.Name}); err != nil && fleet.CodeOf(err) != fleet.NotFound {
			return err
		}
	}
	return s.ShowPageWithStatus(c, how.Status, a, layout, vmlist.AdoptDialog(out))
}

// projectChoices are the choices of the project of adopted VMs.
func (s *Site) projectChoices(c echo.Context, a fleet.Actor, chosen, address string) (kit.SelectChoices, error) {
	out, err := s.Options.Choices(c.Request().Context(), a, options.Query{Kind: "projects", Chosen: []string{chosen}, FormAddress: address, ShowAll: c.QueryParam("all") != ""})
	if chosen == "" && len(out.Options) > 1 {
		out.Options = append([]kit.Option{{Text: "Choose a project"}}, out.Options...)
	}
	return out, err
}

// AdoptVM requests the adoption of an unmanaged VM.
func (s *Site) AdoptVM(c echo.Context, a fleet.Actor, in adoptForm) (form.Response, error) {
	host, id := fleet.HostID(c.Param("host")), fleet.VMID(c.Param("id"))
	task, err := s.Control.AdoptVM(c.Request().Context(), a, host, id, control.AdoptVM{ProjectID: in.Project, Name: strings.TrimSpace(in.Name)})
	return form.RedirectTo(kit.Link{Path: "/tasks/" + string(task.ID)}.With("back", "/vms?tab=found").String()), err
}

type adoptManyForm struct {
	VMs       []string        `form:"id"` // each "host/UUID"
	Back      string          `form:"back"`
	Confirmed string          `form:"sure"` // empty: the dialog is not confirmed yet
	Project   fleet.ProjectID `form:"projectId"`
}

func (in adoptManyForm) refs() []control.DiscoveredVMRef { return discoveredRefs(in.VMs) }

// discoveredRefs are the unmanaged VMs that values of the form "host/UUID" name; other values are left out.
func discoveredRefs(values []string) (out []control.DiscoveredVMRef) {
	for _, v := range values {
		host, id, ok := strings.Cut(v, "/")
		if ok && fleet.IsID(host) && fleet.IsID(id) {
			out = append(out, control.DiscoveredVMRef{HostID: fleet.HostID(host), ID: fleet.VMID(id)})
		}
	}
	return out
}

// AdoptVMs requests the adoption of the selected unmanaged VMs. Without a confirmation it shows the dialog.
func (s *Site) AdoptVMs(c echo.Context, a fleet.Actor, in adoptManyForm) (form.Response, error) {
	if in.Confirmed == "" {
		return func(c echo.Context) error { return s.ShowAdoptManyForm(c, a, in, form.FirstDisplay) }, nil
	}
	task, err := s.Control.AdoptVMs(c.Request().Context(), a, in.refs(), in.Project)
	return form.RedirectTo(kit.Link{Path: "/tasks/" + string(task.ID)}.With("back", render.LocalPathOrRoot(in.Back)).String()), err
}

// ShowAdoptManyForm shows the dialog that adopts several unmanaged VMs.
func (s *Site) ShowAdoptManyForm(c echo.Context, a fleet.Actor, in adoptManyForm, how form.Display) error {
	if len(in.refs()) == 0 {
		return fleet.Errorf(fleet.Malformed, "Select the VMs to adopt.")
	}
	p := vmlist.AdoptManyPage{VMs: in.VMs, Back: render.LocalPathOrRoot(in.Back), Project: string(in.Project), Errors: how.Errors}
	var err error
	if p.Projects, err = s.projectChoices(c, a, p.Project, "/vms"); err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, shell.PageLayout{Title: "Virtual machines"}, vmlist.AdoptManyDialog(p))
}

type discoveredActionsForm struct {
	Action    fleet.Action `form:"action"`
	VMs       []string     `form:"id"` // each "host/UUID"
	Back      string       `form:"back"`
	Confirmed string       `form:"sure"` // empty: the dialog is not confirmed yet
}

// StartDiscoveredVMActions starts a power action on the selected unmanaged VMs and redirects to the task's page. Actions
// that interrupt guests show a dialog first.
func (s *Site) StartDiscoveredVMActions(c echo.Context, a fleet.Actor, in discoveredActionsForm) (form.Response, error) {
	if in.Confirmed == "" && vmlist.BulkActionOpensDialog(in.Action) {
		return func(c echo.Context) error { return s.ShowDiscoveredVMActions(c, a, in, form.FirstDisplay) }, nil
	}
	task, err := s.Control.RequestDiscoveredVMActions(c.Request().Context(), a, in.Action, discoveredRefs(in.VMs))
	return form.RedirectTo(kit.Link{Path: "/tasks/" + string(task.ID)}.With("back", render.LocalPathOrRoot(in.Back)).String()), err
}

// ShowDiscoveredVMActions shows the dialog before a power action on the selected unmanaged VMs.
func (s *Site) ShowDiscoveredVMActions(c echo.Context, a fleet.Actor, in discoveredActionsForm, how form.Display) error {
	if len(discoveredRefs(in.VMs)) == 0 {
		return fleet.Errorf(fleet.Malformed, "Select VMs first.")
	}
	if how.Errors.Form != "" || !vmlist.BulkActionOpensDialog(in.Action) {
		return fleet.Errorf(fleet.Invalid, "%s", cmp.Or(how.Errors.Form, how.Errors.At("action")))
	}
	return s.ShowPageWithStatus(c, how.Status, a, shell.PageLayout{Title: "Virtual machines"}, vmlist.DiscoveredActionDialog(vmlist.DiscoveredActionPage{
		Action: in.Action, VMs: in.VMs, Back: render.LocalPathOrRoot(in.Back), Errors: how.Errors,
	}))
}

// DiscoveredVMMenu shows the action menu of an unmanaged VM in a list.
func (s *Site) DiscoveredVMMenu(c echo.Context, a fleet.Actor) error {
	p, _, err := s.readDiscoveredVMPage(c, a, "summary")
	if err != nil {
		return err
	}
	return s.WriteFragment(c, a, p.VM.Name, vmlist.DiscoveredVMMenu(p))
}

// adoptedVMPath returns the page of the VM that the unmanaged VM in the path has become; empty: there is none that the
// actor sees.
func (s *Site) adoptedVMPath(c echo.Context, a fleet.Actor) string {
	vm, err := s.Control.GetVM(c.Request().Context(), a, fleet.VMID(c.Param("id")))
	if err != nil || !policy.May(a, policy.InfraSee, "") {
		return ""
	}
	return (&url.URL{Path: views.VMPath(vm.ID)}).String()
}

// ShowReleaseForm shows the dialog that releases a VM.
func (s *Site) ShowReleaseForm(c echo.Context, a fleet.Actor, _ form.EmptyForm, how form.Display) error {
	p, err := s.readVMPage(c, a, "")
	if err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, vmPageLayout(p.VM), vmview.ReleaseDialog(p.VM, how.Errors))
}

// ReleaseVM requests the release of a VM.
func (s *Site) ReleaseVM(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	task, err := s.Control.ReleaseVM(c.Request().Context(), a, fleet.VMID(c.Param("id")))
	return form.RedirectTo(kit.Link{Path: "/tasks/" + string(task.ID)}.With("back", "/vms").String()), err
}
