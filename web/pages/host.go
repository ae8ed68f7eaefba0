package pages

import (
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/hosts"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/views"
	hostview "quantix/views/host"
	"quantix/views/kit"
	"quantix/views/shell"
	"quantix/web/form"
	"quantix/web/render"
)

func hostPageLayout(h fleet.HostView) shell.PageLayout {
	return shell.PageLayout{Title: h.Name, ObjectKeys: []string{"host:" + string(h.ID)}}
}

func (s *Site) HostPage(c echo.Context, a fleet.Actor) error {
	tab, err := requestedTab(c, hostview.Tabs(), "host")
	if err != nil {
		return err
	}
	h, err := s.Control.GetHost(c.Request().Context(), a, fleet.HostID(c.Param("id")))
	if err != nil {
		return err
	}
	p := hostview.Page{Actor: a, Link: render.LinkToCurrentPage(c), Tab: tab, Host: h, Now: time.Now(), Form: newHostForm(h)}
	if render.HTMXTarget(c) != "host-head" {
		if err := s.fillHostTab(c, a, &p); err != nil {
			return err
		}
	}
	return s.ShowPage(c, a, hostPageLayout(h), hostview.HostPage(p))
}

// fillHostTab reads the data of the page's current tab.
func (s *Site) fillHostTab(c echo.Context, a fleet.Actor, p *hostview.Page) (err error) {
	ctx, q := c.Request().Context(), render.QueryFromURL(c)
	q.Filter = "host:" + strconv.Quote(p.Host.Name)
	switch p.Tab {
	case "vms":
		vms, err := s.Control.ListVMs(ctx, a, q)
		if err != nil {
			return err
		}
		p.VMs, p.Prev, p.Next = vms.Items, vms.Prev, vms.Next
		p.Found, err = query.ReadAllPages(ctx, a, fleet.Query{Filter: q.Filter}, s.Control.ListDiscoveredVMs)
		return err
	case "storage":
		p.Pools, err = s.Control.PoolsOnHost(ctx, a, p.Host.ID)
	case "networks":
		p.Networks, err = s.Control.NetworksOnHost(ctx, a, p.Host.ID)
	case "hardware":
		p.Devices, err = s.Control.HostDevicesOf(ctx, a, p.Host.ID)
	case "topology":
		p.Topology, err = s.Control.HostTopology(ctx, a, p.Host.ID)
	case "tasks":
		tasks, err := s.Control.ListTasks(ctx, a, q)
		p.Tasks, p.Prev, p.Next = tasks.Items, tasks.Prev, tasks.Next
		return err
	}
	return err
}

type hostForm struct {
	Labels      string `form:"labels"`
	Taints      string `form:"taints"`
	Description string `form:"description"`
	Generation  string `form:"generation"`
}

// generation returns the generation in the form's hidden field; 0 if the field is missing, which disables the check for
// concurrent edits.
func (in hostForm) generation() int64 {
	n, _ := strconv.ParseInt(in.Generation, 10, 64)
	return n
}

func newHostForm(h fleet.HostView) hostview.SettingsForm {
	return hostview.SettingsForm{Labels: kit.LabelLines(h.Spec.Labels), Taints: strings.Join(h.Spec.Taints, "\n"), Description: h.Spec.Description, Generation: h.Generation}
}

// ShowHostForm shows the host's page with the typed form.
func (s *Site) ShowHostForm(c echo.Context, a fleet.Actor, in hostForm, how form.Display) error {
	h, err := s.Control.GetHost(c.Request().Context(), a, fleet.HostID(c.Param("id")))
	if err != nil {
		return err
	}
	link := kit.Link{Path: views.HostPath(h.ID)}.With("tab", "configure")
	f := hostview.SettingsForm{Labels: in.Labels, Taints: in.Taints, Description: in.Description, Generation: in.generation(), Errors: how.Errors}
	p := hostview.Page{Actor: a, Link: link, Tab: "configure", Host: h, Now: time.Now(), Form: f}
	return s.ShowPageWithStatus(c, how.Status, a, hostPageLayout(h), hostview.HostPage(p))
}

func (s *Site) EditHost(c echo.Context, a fleet.Actor, in hostForm) (form.Response, error) {
	var checks fleet.Checks
	change := hosts.UpdateHost{Labels: form.ParseLabels(&checks, "labels", in.Labels), Description: &in.Description, IfGeneration: in.generation()}
	change.Taints = append([]string{}, strings.Fields(in.Taints)...)
	if err := checks.Err(); err != nil {
		return nil, err
	}
	id := fleet.HostID(c.Param("id"))
	_, err := s.Control.UpdateHost(c.Request().Context(), a, id, change)
	return form.RedirectTo(views.HostPath(id)), err
}

func (s *Site) ClearHostConflict(c echo.Context, a fleet.Actor, _ form.Empty) (form.Response, error) {
	id := fleet.HostID(c.Param("id"))
	return form.StayOnPage(views.HostPath(id), "The conflict is cleared."), s.Control.ClearConflict(c.Request().Context(), a, id)
}

func (s *Site) ConfirmDeleteHost() form.Renderer[form.Empty] {
	return form.ConfirmDialog(s.Renderer, s.Control.GetHost, hostPageLayout, hostview.DeleteDialog)
}

func (s *Site) DeleteHost(c echo.Context, a fleet.Actor, _ form.Empty) (form.Response, error) {
	return form.RedirectTo("/hosts"), s.Control.DeleteHost(c.Request().Context(), a, fleet.HostID(c.Param("id")))
}

// HostMenu returns the handler of the host's action menu.
func (s *Site) HostMenu() func(echo.Context, fleet.Actor) error {
	return actionMenu(s, s.Control.GetHost, hostPageLayout, hostview.Actions)
}
