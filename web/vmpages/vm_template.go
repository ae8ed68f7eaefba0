package vmpages

import (
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/vmcopy"
	"quantix/views"
	templateview "quantix/views/template"
	"quantix/web/form"
)

// newTemplateForm is the form that creates a template, or a new version of one, from a VM.
type newTemplateForm struct {
	Name        string `form:"name"`
	Description string `form:"description"`
	Family      string `form:"family"`
	System      string `form:"system"`
	Release     string `form:"release"`
	Arch        string `form:"arch"`
	To          string `form:"to"`
	Disks       string `form:"disks"`
	Note        string `form:"note"`
}

func (in newTemplateForm) view() templateview.FormValues {
	return templateview.FormValues{
		Name: in.Name, Description: in.Description, Family: in.Family, System: in.System, Release: in.Release, Arch: in.Arch, To: in.To, Note: in.Note,
		OfImages: in.Disks == "images",
	}
}

// ShowTemplateForm shows the form that creates a template from the VM in the path.
func (s *Site) ShowTemplateForm(c echo.Context, a fleet.Actor, in newTemplateForm, how form.Display) error {
	p, err := s.readVMPage(c, a, "")
	if err != nil {
		return err
	}
	if err := policy.Check(a, policy.VMChange, p.VM.ProjectID); err != nil {
		return err
	}
	f := templateview.Form{VM: p.VM, In: in.view(), Errors: how.Errors}
	if !how.WasRefused() {
		ok, _ := vmcopy.AllowsTemplate(p.VM)
		f.In.OfImages = !ok
	}
	// A new version belongs to a template of the same project. The form offers at most 200 templates; the API accepts
	// the ID of any template.
	own, err := s.Control.ListTemplates(c.Request().Context(), a, fleet.Query{Filter: "project:" + strconv.Quote(p.VM.ProjectName), Limit: 200})
	if err != nil {
		return err
	}
	for _, v := range own.Items {
		if v.ProjectID == p.VM.ProjectID {
			f.OwnTemplates = append(f.OwnTemplates, v)
		}
	}
	return s.ShowPageWithStatus(c, how.Status, a, vmPageLayout(p.VM), templateview.CreateForm(f))
}

func (s *Site) CreateTemplate(c echo.Context, a fleet.Actor, in newTemplateForm) (form.Response, error) {
	ctx := c.Request().Context()
	of := control.TemplateSource{VMID: fleet.VMID(c.Param("id")), OfImages: in.Disks == "images", Note: strings.TrimSpace(in.Note)}
	if to := fleet.TemplateID(in.To); to != "" {
		_, err := s.Control.AddTemplateVersion(ctx, a, to, of)
		return form.RedirectTo(views.TemplatePath(to)), err
	}
	id, _, err := s.Control.AddTemplate(ctx, a, control.NewTemplate{
		Name: strings.TrimSpace(in.Name), Description: strings.TrimSpace(in.Description), OS: form.NewOSFacts(in.Family, in.System, in.Release, in.Arch), TemplateSource: of,
	})
	return form.RedirectTo(views.TemplatePath(id)), err
}
