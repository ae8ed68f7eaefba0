package pages

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/bin"
	"quantix/internal/control/recycling"
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
	binview "quantix/views/recyclebin"
	"quantix/views/shell"
	"quantix/web/form"
	"quantix/web/render"
)

const recycleBinPath = "/recycle-bin"

func (s *Site) ListRecycleBin(c echo.Context, a fleet.Actor) error {
	f := kit.Filter{Label: "Filter the recycle bin", Placeholder: "name:web* project:shop purge<2026-01-31"}
	p := &binview.ListPage{List: s.NewList(c, "recycle-bin", "-deleted", binview.Columns, f), Actor: a}
	settings, err := s.Control.BinSettings(c.Request().Context(), a, "")
	if err != nil {
		return err
	}
	p.Settings = settings.Settings
	if p.Items, err = render.FillList(c, a, &p.List, render.QueryFromURL(c), s.Control.ListRecycleBin); err != nil {
		return err
	}
	return s.ShowList(c, a, shell.PageLayout{Title: "Recycle bin"}, p.List, binview.List(p))
}

func (s *Site) ExportRecycleBin(c echo.Context, a fleet.Actor) error {
	return render.ExportCSV(s.Renderer, c, a, "recycle-bin.csv", render.QueryFromURL(c), s.Control.ListRecycleBin, binview.CSV)
}

func recycledLayout(i bin.Item) shell.PageLayout {
	return shell.PageLayout{Title: i.Name, Project: i.ProjectID, ProjectName: i.ProjectName}
}

// RecycledPage shows one VM in the recycle bin.
func (s *Site) RecycledPage(c echo.Context, a fleet.Actor) error {
	i, err := s.Control.GetRecycled(c.Request().Context(), a, fleet.VMID(c.Param("id")))
	if err != nil {
		return err
	}
	return s.ShowPage(c, a, recycledLayout(i), binview.ItemBody(binview.ItemPage{Actor: a, Item: i, Now: time.Now()}))
}

// RecycledMenu returns the handler of the menu of a VM in the recycle bin.
func (s *Site) RecycledMenu() func(echo.Context, fleet.Actor) error {
	return actionMenu(s, s.Control.GetRecycled, recycledLayout, binview.Actions)
}

type restoreForm struct {
	Name string `form:"name"`
}

func (s *Site) ShowRestoreForm(c echo.Context, a fleet.Actor, in restoreForm, how form.Display) error {
	i, err := s.Control.GetRecycled(c.Request().Context(), a, fleet.VMID(c.Param("id")))
	if err != nil {
		return err
	}
	if !how.WasRefused() {
		in.Name = i.Name
	}
	return s.ShowPageWithStatus(c, how.Status, a, recycledLayout(i), binview.RestoreDialog(binview.RestoreDialogPage{Item: i, Name: in.Name, Errors: how.Errors}))
}

func (s *Site) RestoreVM(c echo.Context, a fleet.Actor, in restoreForm) (form.Response, error) {
	id := fleet.VMID(c.Param("id"))
	_, err := s.Control.RestoreRecycled(c.Request().Context(), a, id, recycling.RestoreVM{Name: strings.TrimSpace(in.Name)})
	return form.RedirectTo(views.VMPath(id)), err
}

type purgeForm struct {
	Confirm string `form:"confirm"`
}

func (s *Site) ShowPurgeForm(c echo.Context, a fleet.Actor, _ purgeForm, how form.Display) error {
	i, err := s.Control.GetRecycled(c.Request().Context(), a, fleet.VMID(c.Param("id")))
	if err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, recycledLayout(i), binview.PurgeDialog(i, how.Errors))
}

func (s *Site) PurgeVM(c echo.Context, a fleet.Actor, in purgeForm) (form.Response, error) {
	_, err := s.Control.PurgeRecycled(c.Request().Context(), a, fleet.VMID(c.Param("id")), in.Confirm)
	return form.RedirectTo(recycleBinPath), err
}

type purgeManyForm struct {
	IDs       []fleet.VMID `form:"id"`
	Confirmed string       `form:"sure"` // empty: the dialog is not confirmed yet
	Confirm   string       `form:"confirm"`
}

// ShowPurgeManyForm shows the dialog that purges the selected VMs.
func (s *Site) ShowPurgeManyForm(c echo.Context, a fleet.Actor, in purgeManyForm, how form.Display) error {
	p := binview.PurgeManyPage{Errors: how.Errors}
	for _, id := range in.IDs {
		i, err := s.Control.GetRecycled(c.Request().Context(), a, id)
		if err != nil && fleet.CodeOf(err) != fleet.NotFound {
			return err
		}
		if err == nil {
			p.Items = append(p.Items, i)
		}
	}
	if len(p.Items) == 0 {
		return fleet.Errorf(fleet.NotFound, "None of these VMs is in the recycle bin any more. Reload the page.")
	}
	return s.ShowPageWithStatus(c, how.Status, a, shell.PageLayout{Title: "Recycle bin"}, binview.PurgeManyDialog(p))
}

func (s *Site) PurgeVMs(c echo.Context, a fleet.Actor, in purgeManyForm) (form.Response, error) {
	if len(in.IDs) == 0 {
		return nil, fleet.Errorf(fleet.Malformed, "Select the VMs to purge.")
	}
	if len(in.IDs) > recycling.MaxPurges {
		return nil, fleet.Errorf(fleet.Malformed, "At most %d VMs can be purged at once. Select fewer.", recycling.MaxPurges)
	}
	if in.Confirmed == "" {
		return func(c echo.Context) error { return s.ShowPurgeManyForm(c, a, in, form.FirstDisplay) }, nil
	}
	if n := strconv.Itoa(len(in.IDs)); strings.TrimSpace(in.Confirm) != n {
		var checks fleet.Checks
		checks.Add("confirm", "Type %s, the number of VMs, to purge them.", n)
		return nil, checks.Err()
	}
	results, err := s.Control.PurgeAllRecycled(c.Request().Context(), a, in.IDs)
	if err != nil {
		return nil, err
	}
	done, text := 0, ""
	for _, r := range results {
		if r.Error == nil {
			done++
		} else if text == "" {
			text = " " + r.Name + " stays: " + r.Error.Error()
		}
	}
	return form.StayOnPage(recycleBinPath, fmt.Sprintf("%d of %s are being purged.", done, kit.CountText(len(results), "VM"))+text), nil
}

type binSettingsForm struct {
	Days    string `form:"days"`
	Counted string `form:"counted"`
}

// overrides parses the form. Empty fields are as the fleet.
func (in binSettingsForm) overrides() (out bin.Overrides, err error) {
	var checks fleet.Checks
	if in.Days != "" {
		out.Days = new(form.ParseField(&checks, "days", in.Days, form.ParseNumber))
	}
	if in.Counted != "" {
		out.Counted = new(in.Counted == "yes")
	}
	return out, checks.Err()
}

func countedText(counted *bool) string {
	if counted == nil {
		return ""
	}
	return map[bool]string{true: "yes", false: "no"}[*counted]
}

// ShowBinSettings shows the settings of the fleet, or of the project in the path.
func (s *Site) ShowBinSettings(c echo.Context, a fleet.Actor, in binSettingsForm, how form.Display) error {
	ctx, id := c.Request().Context(), fleet.ProjectID(c.Param("id"))
	p, layout := binview.SettingsPage{Project: id, Days: in.Days, Counted: in.Counted, Errors: how.Errors}, shell.PageLayout{Title: "Recycle bin"}
	if id != "" {
		project, err := s.Control.GetProject(ctx, a, id)
		if err != nil {
			return err
		}
		p.ProjectName, layout = project.Name, projectPageLayout(project)
	}
	now, err := s.Control.BinSettings(ctx, a, id)
	if err != nil {
		return err
	}
	p.Fleet = now.Fleet
	if how.WasRefused() {
		return s.ShowPageWithStatus(c, how.Status, a, layout, binview.SettingsDialog(p))
	}
	own := now.Own
	if id == "" {
		own = bin.Overrides{Days: &now.Days, Counted: &now.Counted}
	}
	if p.Counted = countedText(own.Counted); own.Days != nil {
		p.Days = strconv.Itoa(*own.Days)
	}
	return s.ShowPageWithStatus(c, how.Status, a, layout, binview.SettingsDialog(p))
}

func (s *Site) SetFleetBin(c echo.Context, a fleet.Actor, in binSettingsForm) (form.Response, error) {
	to, err := in.overrides()
	if err == nil && to.Days == nil {
		var checks fleet.Checks
		checks.Add("days", "Enter the number of days.")
		err = checks.Err()
	}
	if err == nil {
		err = s.Control.SetFleetBin(c.Request().Context(), a, bin.Settings{Days: *to.Days, Counted: to.Counted == nil || *to.Counted})
	}
	return form.RedirectTo(recycleBinPath), err
}

func (s *Site) SetProjectBin(c echo.Context, a fleet.Actor, in binSettingsForm) (form.Response, error) {
	id := fleet.ProjectID(c.Param("id"))
	to, err := in.overrides()
	if err == nil {
		_, err = s.Control.SetProjectBin(c.Request().Context(), a, id, to)
	}
	return form.StayOnPage(views.ProjectPath(id), "The settings of the recycle bin are saved."), err
}
