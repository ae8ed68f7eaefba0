package pages

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/bmc"
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
	p := hostview.Page{Actor: a, Link: render.LinkToCurrentPage(c), Tab: tab, Host: h, Now: time.Now(), ChartRange: c.QueryParam("range")}
	summaries, err := s.Control.HealthOfHosts(c.Request().Context(), a, []fleet.HostID{h.ID})
	if err != nil {
		return err
	}
	p.Summary = summaries[h.ID]
	if render.HTMXTarget(c) != "host-head" {
		if p.Progress, err = s.Control.MaintenanceProgress(c.Request().Context(), a, h.ID); err != nil {
			return err
		}
		if p.Policies, err = s.hostPolicies(c, a, h.ID); err != nil {
			return err
		}
		if err := s.fillHostTab(c, a, &p); err != nil {
			return err
		}
	}
	layout := hostPageLayout(h)
	if tab == "monitor" {
		layout.Scripts = []string{kit.ChartScript}
		if p.Alarms, err = s.alarmsOf(c, a, fleet.SubjectOf(fleet.TypeHost, h.ID)); err != nil {
			return err
		}
	}
	return s.ShowPage(c, a, layout, hostview.HostPage(p))
}

// fillHostTab reads the data of the page's current tab.
func (s *Site) fillHostTab(c echo.Context, a fleet.Actor, p *hostview.Page) (err error) {
	ctx, q := c.Request().Context(), render.QueryFromURL(c)
	q.Filter = "host:" + strconv.Quote(p.Host.Name)
	switch p.Tab {
	case "summary":
		if p.Host.HasBMC {
			var b bmc.BMC
			b, err = s.Control.GetBMC(ctx, a, p.Host.ID)
			p.BMC = &b
		}
	case "health":
		return s.fillHealthTab(c, a, p)
	case "vms":
		vms, err := s.Control.ListVMs(ctx, a, q)
		if err != nil {
			return err
		}
		p.VMs, p.Prev, p.Next = vms.Items, vms.Prev, vms.Next
		p.Found, err = query.ReadAllPages(ctx, a, fleet.Query{Filter: q.Filter}, s.Control.ListDiscoveredVMs)
		return err
	case "storage":
		if p.Pools, err = s.Control.PoolsOnHost(ctx, a, p.Host.ID); err == nil {
			p.FoundPools, err = s.Control.DiscoveredPools(ctx, a, p.Host.ID)
		}
	case "networks":
		p.Networks, err = s.Control.NetworksOnHost(ctx, a, p.Host.ID)
	case "hardware":
		if p.Devices, err = s.Control.HostDevicesOf(ctx, a, p.Host.ID); err == nil {
			p.DeviceClasses, err = s.Control.ClassesOfHost(ctx, a, p.Host.ID)
		}
	case "topology":
		p.Topology, err = s.Control.HostTopology(ctx, a, p.Host.ID)
	case "configure":
		p.Form = newHostForm(p.Host)
		return s.fillHostClusters(ctx, a, p)
	case "diagnostics", "agent-log":
		return s.fillHostCommands(c, a, p)
	case "tasks":
		tasks, err := s.Control.ListTasks(ctx, a, q)
		p.Tasks, p.Prev, p.Next = tasks.Items, tasks.Prev, tasks.Next
		return err
	}
	return err
}

// fillHostClusters fills the form with the clusters, and the ratios that the host's cluster sets.
func (s *Site) fillHostClusters(ctx context.Context, a fleet.Actor, p *hostview.Page) error {
	clusters, err := s.Control.AllClusters(ctx, a)
	p.Form.Defaults = fleet.DefaultOvercommit
	for _, v := range clusters {
		p.Form.Clusters = append(p.Form.Clusters, kit.Option{Value: string(v.ID), Text: v.Name})
		if v.ID == p.Host.ClusterID {
			p.Form.Defaults = v.Spec.Overcommit.Or(fleet.DefaultOvercommit)
		}
	}
	return err
}

type hostForm struct {
	ClusterID      string `form:"clusterId"`
	Labels         string `form:"labels"`
	Taints         string `form:"taints"`
	Description    string `form:"description"`
	Schedulable    string `form:"schedulable"`
	Compute        string `form:"compute"`
	Storage        string `form:"storage"`
	ControlPlane   string `form:"controlPlane"`
	CPURatio       string `form:"cpuRatio"`
	MemoryRatio    string `form:"memoryRatio"`
	ReservedCPU    string `form:"reservedCpu"`
	ReservedMiB    string `form:"reservedMiB"`
	ReportInterval string `form:"reportInterval"`
	Generation     string `form:"generation"`
}

// settings returns the form as typed.
func (in hostForm) settings(errs kit.Errors) hostview.SettingsForm {
	return hostview.SettingsForm{
		ClusterID: in.ClusterID, Labels: in.Labels, Taints: in.Taints, Description: in.Description, Schedulable: in.Schedulable != "",
		Roles:    fleet.HostRoles{Compute: in.Compute != "", Storage: in.Storage != "", ControlPlane: in.ControlPlane != ""},
		CPURatio: in.CPURatio, MemoryRatio: in.MemoryRatio, ReservedCPU: in.ReservedCPU, ReservedMiB: in.ReservedMiB, ReportInterval: in.ReportInterval,
		Generation: form.ParseGeneration(in.Generation), Errors: errs,
	}
}

// spec parses the form.
func (in hostForm) spec() (fleet.HostSpec, error) {
	var checks fleet.Checks
	f := in.settings(kit.Errors{})
	s := fleet.HostSpec{
		Labels: form.ParseLabels(&checks, "spec.labels", in.Labels), Description: in.Description, Schedulable: f.Schedulable, Roles: f.Roles,
		Overcommit: fleet.Overcommit{
			CPU:    form.ParseField(&checks, "spec.overcommit.cpu", in.CPURatio, form.ParseRatio),
			Memory: form.ParseField(&checks, "spec.overcommit.memory", in.MemoryRatio, form.ParseRatio),
		},
		ReportInterval: form.ParseField(&checks, "spec.reportInterval", in.ReportInterval, form.ParseNumber),
		Reserved:       fleet.HostReserved{CPU: form.ParseField(&checks, "spec.reserved.cpu", in.ReservedCPU, form.ParseNumber)},
	}
	for t := range strings.FieldsSeq(in.Taints) {
		s.Taints = append(s.Taints, fleet.ParseTaint(t))
	}
	if strings.TrimSpace(in.ReservedMiB) != "" {
		mib := int64(form.ParseField(&checks, "spec.reserved.memoryMiB", in.ReservedMiB, form.ParseNumber))
		s.Reserved.MemoryMiB = &mib
	}
	return s, checks.Err()
}

func newHostForm(h fleet.HostView) hostview.SettingsForm {
	s := h.Spec
	f := hostview.SettingsForm{
		ClusterID: string(h.ClusterID), Labels: kit.LabelLines(s.Labels), Taints: hostview.TaintLines(s.Taints), Description: s.Description, Schedulable: s.Schedulable, Roles: s.Roles,
		CPURatio: form.RatioText(s.Overcommit.CPU), MemoryRatio: form.RatioText(s.Overcommit.Memory), Generation: h.Generation,
	}
	if s.ReportInterval > 0 {
		f.ReportInterval = strconv.Itoa(s.ReportInterval)
	}
	if s.Reserved.CPU > 0 {
		f.ReservedCPU = strconv.Itoa(s.Reserved.CPU)
	}
	if s.Reserved.MemoryMiB != nil {
		f.ReservedMiB = strconv.FormatInt(*s.Reserved.MemoryMiB, 10)
	}
	return f
}

// ShowHostForm shows the host's page with the typed form.
func (s *Site) ShowHostForm(c echo.Context, a fleet.Actor, in hostForm, how form.Display) error {
	h, err := s.Control.GetHost(c.Request().Context(), a, fleet.HostID(c.Param("id")))
	if err != nil {
		return err
	}
	link := kit.Link{Path: views.HostPath(h.ID)}.With("tab", "configure")
	p := hostview.Page{Actor: a, Link: link, Tab: "configure", Host: h, Now: time.Now(), Form: in.settings(how.Errors)}
	if p.Policies, err = s.hostPolicies(c, a, h.ID); err != nil {
		return err
	}
	if err := s.fillHostClusters(c.Request().Context(), a, &p); err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, hostPageLayout(h), hostview.HostPage(p))
}

func (s *Site) EditHost(c echo.Context, a fleet.Actor, in hostForm) (form.Response, error) {
	spec, err := in.spec()
	if err != nil {
		return nil, err
	}
	id := fleet.HostID(c.Param("id"))
	_, err = s.Control.UpdateHost(c.Request().Context(), a, id, hosts.UpdateHost{Spec: spec, ClusterID: fleet.ClusterID(in.ClusterID), IfGeneration: form.ParseGeneration(in.Generation)})
	return form.RedirectTo(views.HostPath(id)), err
}

// CordonHost returns the handler that cordons or uncordons the host.
func (s *Site) CordonHost(act fleet.Action) form.Action[form.EmptyForm] {
	text := "The host is cordoned: no VM is placed on it."
	if act == fleet.ActUncordon {
		text = "The host is schedulable: VMs may be placed on it."
	}
	return func(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
		id := fleet.HostID(c.Param("id"))
		return form.StayOnPage(views.HostPath(id), text), s.Control.CordonHost(c.Request().Context(), a, id, act)
	}
}

func (s *Site) ClearHostConflict(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	id := fleet.HostID(c.Param("id"))
	return form.StayOnPage(views.HostPath(id), "The conflict is cleared."), s.Control.ClearConflict(c.Request().Context(), a, id)
}

func (s *Site) ConfirmDeleteHost() form.Renderer[form.EmptyForm] {
	return form.ConfirmDialog(s.Renderer, s.Control.GetHost, hostPageLayout, hostview.DeleteDialog)
}

func (s *Site) DeleteHost(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	return form.RedirectTo("/hosts"), s.Control.DeleteHost(c.Request().Context(), a, fleet.HostID(c.Param("id")))
}

// HostMenu returns the handler of the host's action menu.
func (s *Site) HostMenu() func(echo.Context, fleet.Actor) error {
	return actionMenu(s, s.Control.GetHost, hostPageLayout, hostview.Actions)
}
