package web

import (
	"net/url"
	"strconv"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
	"quantix/views/shell"
	vmview "quantix/views/vm"
)

// formValues is a submitted form as url.Values, for handlers that read the fields one by one.
type formValues struct{ url.Values }

func (in *formValues) read(sent url.Values) { in.Values = sent }

// showFirstBootForm shows the form for the first-boot data that the guest gets at the VM's next start.
func (s *Server) showFirstBootForm(c echo.Context, a fleet.Actor, in formValues, how formDisplay) error {
	ctx := c.Request().Context()
	vm, err := s.Control.GetVM(ctx, a, fleet.VMID(c.Param("id")))
	if err != nil {
		return err
	}
	p := vmview.FirstBootPage{VM: vm, Errors: how.errors, Form: vmview.FirstBootForm{Typed: in.Values, Errors: how.errors, Current: vm.Spec.FirstBoot}}
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
	if !how.wasRefused() {
		p.Form.Typed = url.Values{"generation": {strconv.FormatInt(vm.Generation, 10)}}
		fillFirstBootForm(p.Form.Typed, had.Content)
	}
	return s.showPageWithStatus(c, how.status, a, vmPageLayout(vm), vmview.FirstBootDialog(p))
}

// customizationsOfProject lists the customization specs that VMs of the project may use.
func (s *Server) customizationsOfProject(c echo.Context, a fleet.Actor, project fleet.ProjectID) ([]fleet.Customization, error) {
	all, err := s.Control.ListCustomizations(c.Request().Context(), a)
	out := all[:0]
	for _, one := range all {
		if one.ProjectID == "" || one.ProjectID == project {
			out = append(out, one)
		}
	}
	return out, err
}

func (s *Server) setFirstBoot(c echo.Context, a fleet.Actor, in formValues) (formResponse, error) {
	ctx, id := c.Request().Context(), fleet.VMID(c.Param("id"))
	generation, err := strconv.ParseInt(in.Get("generation"), 10, 64)
	if err != nil {
		return nil, unreadableFormError()
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
	return stayOnPage(views.VMPath(id), said), err
}

func (s *Server) listCustomizations(c echo.Context, a fleet.Actor) error {
	all, err := s.Control.ListCustomizations(c.Request().Context(), a)
	if err != nil {
		return err
	}
	return s.showPage(c, a, shell.PageLayout{Title: "Customization specs"}, vmview.CustomizationsPage(vmview.CustomizationList{Actor: a, Specs: all}))
}

func (s *Server) showNewCustomizationForm(c echo.Context, a fleet.Actor, in formValues, how formDisplay) (err error) {
	typed := in.Values
	if typed == nil {
		typed = url.Values{vmview.FirstBootKindField: {string(fleet.CloudInit)}}
	}
	p := vmview.CustomizationForm{Typed: typed, Errors: how.errors, Form: vmview.FirstBootForm{Typed: typed, Errors: how.errors, Spec: true}}
	projects := optionQuery{kind: "projects", chosen: []string{typed.Get("projectId")}, formAddress: "/customizations/new", showAll: c.QueryParam("all") != ""}
	if p.Projects, err = s.selectOptions(c.Request().Context(), a, projects); err != nil {
		return err
	}
	if policy.May(a, policy.InfraChange, "") {
		p.Projects.Options = append(p.Projects.Options, kit.Option{Text: "Fleet-wide: every project may use it"})
	}
	return s.showPageWithStatus(c, how.status, a, shell.PageLayout{Title: "New customization spec"}, vmview.CustomizationPage(p))
}

// customizationFromForm reads a customization spec from the form.
func customizationFromForm(typed url.Values, had fleet.FirstBoot) (control.CustomizationInput, error) {
	var checks fleet.Checks
	out := control.CustomizationInput{ProjectID: fleet.ProjectID(typed.Get("projectId")), Name: typed.Get("name"), Description: typed.Get("description")}
	if boot := firstBootFromForm(&checks, typed, had); boot != nil {
		out.FirstBoot = fleet.FirstBoot{Kind: boot.Kind, CloudInit: boot.CloudInit, UserData: boot.UserData, NetworkConfig: boot.NetworkConfig}
	}
	return out, checks.Err()
}

func (s *Server) createCustomization(c echo.Context, a fleet.Actor, in formValues) (formResponse, error) {
	want, err := customizationFromForm(in.Values, fleet.FirstBoot{})
	if err != nil {
		return nil, err
	}
	_, err = s.Control.CreateCustomization(c.Request().Context(), a, want)
	return redirectTo("/customizations"), err
}

func (s *Server) showCustomization(c echo.Context, a fleet.Actor, in formValues, how formDisplay) error {
	one, err := s.Control.GetCustomization(c.Request().Context(), a, fleet.CustomizationID(c.Param("id")))
	if err != nil {
		return err
	}
	p := vmview.CustomizationForm{ID: one.ID, Seen: one, Typed: in.Values, Errors: how.errors}
	switch {
	case one.Unreadable != "":
		p.Why, p.MayDelete = one.Unreadable, true
	case one.FirstBoot == nil:
		p.Why = "Only users who may change the spec see its content, which may contain secrets."
	case !how.wasRefused():
		p.Typed = url.Values{"name": {one.Name}, "description": {one.Description}, "generation": {strconv.FormatInt(one.Generation, 10)}}
		fillFirstBootForm(p.Typed, *one.FirstBoot)
	}
	p.Form = vmview.FirstBootForm{Typed: p.Typed, Errors: how.errors, Spec: true}
	if one.FirstBoot != nil {
		p.Form.OtherSettings = firstBootDataOutsideForm(*one.FirstBoot)
	}
	return s.showPageWithStatus(c, how.status, a, shell.PageLayout{Title: one.Name}, vmview.CustomizationPage(p))
}

func (s *Server) editCustomization(c echo.Context, a fleet.Actor, in formValues) (formResponse, error) {
	ctx, id := c.Request().Context(), fleet.CustomizationID(c.Param("id"))
	one, err := s.Control.GetCustomization(ctx, a, id)
	if err != nil {
		return nil, err
	}
	var had fleet.FirstBoot
	if one.FirstBoot != nil {
		had = *one.FirstBoot
	}
	want, err := customizationFromForm(in.Values, had)
	if err != nil {
		return nil, err
	}
	if want.IfGeneration, err = strconv.ParseInt(in.Get("generation"), 10, 64); err != nil {
		return nil, unreadableFormError()
	}
	_, err = s.Control.UpdateCustomization(ctx, a, id, want)
	return redirectTo("/customizations"), err
}

func customizationPageLayout(one fleet.Customization) shell.PageLayout {
	return shell.PageLayout{Title: one.Name}
}

func (s *Server) confirmDeleteCustomization() formRenderer[emptyForm] {
	return confirmDialogHandler(s, s.Control.GetCustomization, customizationPageLayout, vmview.DeleteCustomizationDialog)
}

func (s *Server) deleteCustomization(c echo.Context, a fleet.Actor, _ emptyForm) (formResponse, error) {
	return redirectTo("/customizations"), s.Control.DeleteCustomization(c.Request().Context(), a, fleet.CustomizationID(c.Param("id")))
}
