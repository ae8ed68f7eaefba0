package vmpages

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
	"quantix/web/api"
	"quantix/web/form"
	"quantix/web/options"
)

// formValues is a submitted form as url.Values, for handlers that read single fields.
type formValues struct{ url.Values }

// ReadForm sets the form to the values that the browser sent.
func (in *formValues) ReadForm(sent url.Values) { in.Values = sent }

func (s *Site) ListCustomizations(c echo.Context, a fleet.Actor) error {
	all, err := s.Control.ListCustomizations(c.Request().Context(), a)
	if err != nil {
		return err
	}
	return s.ShowPage(c, a, shell.PageLayout{Title: "Customization specs"}, vmview.CustomizationsPage(vmview.CustomizationList{Actor: a, Specs: all}))
}

func (s *Site) ShowNewCustomizationForm(c echo.Context, a fleet.Actor, in formValues, how form.Display) (err error) {
	typed := in.Values
	if typed == nil {
		typed = url.Values{vmview.FirstBootKindField: {string(fleet.CloudInit)}}
	}
	p := vmview.CustomizationForm{Actor: a, Typed: typed, Errors: how.Errors, Form: vmview.FirstBootForm{Typed: typed, Errors: how.Errors, Spec: true}}
	projects := options.Query{Kind: "projects", Chosen: []string{typed.Get("projectId")}, FormAddress: "/customizations/new", ShowAll: c.QueryParam("all") != ""}
	if p.Projects, err = s.Options.Choices(c.Request().Context(), a, projects); err != nil {
		return err
	}
	if policy.May(a, policy.InfraChange, "") {
		p.Projects.Options = append(p.Projects.Options, kit.Option{Text: "Fleet-wide"})
	}
	return s.ShowPageWithStatus(c, how.Status, a, shell.PageLayout{Title: "New customization spec"}, vmview.CustomizationPage(p))
}

// customizationFromForm reads a customization spec from the form.
func customizationFromForm(typed url.Values, had fleet.FirstBoot) (control.CustomizationInput, error) {
	var checks fleet.Checks
	out := control.CustomizationInput{ProjectID: fleet.ProjectID(typed.Get("projectId")), Name: typed.Get("name"), Description: typed.Get("description"), Public: typed.Get("public") != ""}
	if boot := firstBootFromForm(&checks, typed, had); boot != nil {
		out.FirstBoot = fleet.FirstBoot{Kind: boot.Kind, CloudInit: boot.CloudInit, UserData: boot.UserData, NetworkConfig: boot.NetworkConfig}
	}
	return out, checks.Err()
}

func (s *Site) CreateCustomization(c echo.Context, a fleet.Actor, in formValues) (form.Response, error) {
	want, err := customizationFromForm(in.Values, fleet.FirstBoot{})
	if err != nil {
		return nil, err
	}
	made, err := s.Control.CreateCustomization(c.Request().Context(), a, want)
	if made.ProjectID == "" && !want.Public {
		return form.RedirectTo(views.CustomizationPath(made.ID)), err // the page publishes the spec
	}
	return form.RedirectTo("/customizations"), err
}

func (s *Site) ShowCustomization(c echo.Context, a fleet.Actor, in formValues, how form.Display) error {
	p, err := s.readCustomizationPage(c, a, in, how)
	if err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, customizationPageLayout(p.Seen), vmview.CustomizationPage(p))
}

// readCustomizationPage reads the page of a spec, with the form as stored or as typed.
func (s *Site) readCustomizationPage(c echo.Context, a fleet.Actor, in formValues, how form.Display) (p vmview.CustomizationForm, err error) {
	ctx := c.Request().Context()
	one, err := s.Control.GetCustomization(ctx, a, fleet.CustomizationID(c.Param("id")))
	if err != nil {
		return p, err
	}
	p = vmview.CustomizationForm{Actor: a, ID: one.ID, Seen: one, Typed: in.Values, Errors: how.Errors}
	switch {
	case one.Unreadable != "":
		p.Why, p.MayDelete = one.Unreadable, true
	case one.FirstBoot == nil:
		p.Why = "Only users who may change the spec see its content, which may contain secrets."
	case !how.WasRefused():
		p.Typed = url.Values{"name": {one.Name}, "description": {one.Description}, "generation": {strconv.FormatInt(one.Generation, 10)}}
		fillFirstBootForm(p.Typed, *one.FirstBoot)
	}
	p.Form = vmview.FirstBootForm{Typed: p.Typed, Errors: how.Errors, Spec: true}
	if one.FirstBoot != nil {
		p.Form.OtherSettings = firstBootDataOutsideForm(*one.FirstBoot)
	}
	if p.Publish = vmview.NewCustomizationPublishing(a, one); p.Publish == nil || !p.Publish.MayPublish {
		return p, nil
	}
	p.Publish.Projects, err = s.Options.Choices(ctx, a, options.Query{
		Kind: "customization-grants", ParentID: string(one.ID), Chosen: []string{kit.GrantToAllProjects},
		FormAddress: views.CustomizationPath(one.ID), ShowAll: c.QueryParam("all") != "",
	})
	return p, err
}

// customizationGrantForm is a submitted form that publishes a spec or withdraws it.
type customizationGrantForm struct {
	Project string `form:"project"`
	Revoke  string `form:"revoke"`
}

// ShowCustomizationGrants shows the page of a spec, with the result of a change of its grants.
func (s *Site) ShowCustomizationGrants(c echo.Context, a fleet.Actor, _ customizationGrantForm, how form.Display) error {
	p, err := s.readCustomizationPage(c, a, formValues{}, form.FirstDisplay)
	if err != nil {
		return err
	}
	if p.Publish != nil {
		p.Publish.Errors = how.Errors
	} else {
		p.Errors = how.Errors // a spec of a project
	}
	return s.ShowPageWithStatus(c, how.Status, a, customizationPageLayout(p.Seen), vmview.CustomizationPage(p))
}

// SetCustomizationGrant publishes a spec to a project, or withdraws it from the project.
func (s *Site) SetCustomizationGrant(c echo.Context, a fleet.Actor, in customizationGrantForm) (form.Response, error) {
	set := s.Control.GrantCustomization
	if in.Revoke != "" {
		set = s.Control.RevokeCustomization
	}
	id := fleet.CustomizationID(c.Param("id"))
	err := set(c.Request().Context(), a, id, api.ParseGrantProjectID(in.Project))
	return form.Redraw(views.CustomizationPath(id), func(c echo.Context) error {
		return s.ShowCustomizationGrants(c, a, in, form.FirstDisplay)
	}), err
}

func (s *Site) EditCustomization(c echo.Context, a fleet.Actor, in formValues) (form.Response, error) {
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
		return nil, form.UnreadableFormError()
	}
	_, err = s.Control.UpdateCustomization(ctx, a, id, want)
	return form.RedirectTo("/customizations"), err
}

func customizationPageLayout(one fleet.Customization) shell.PageLayout {
	return shell.PageLayout{Title: one.Name}
}

func (s *Site) ConfirmDeleteCustomization() form.Renderer[form.EmptyForm] {
	return form.ConfirmDialog(s.Renderer, s.Control.GetCustomization, customizationPageLayout, vmview.DeleteCustomizationDialog)
}

func (s *Site) DeleteCustomization(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	return form.RedirectTo("/customizations"), s.Control.DeleteCustomization(c.Request().Context(), a, fleet.CustomizationID(c.Param("id")))
}
