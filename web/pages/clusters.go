package pages

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/hosts"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	clusterview "quantix/views/cluster"
	"quantix/views/kit"
	"quantix/views/shell"
	"quantix/web/form"
	"quantix/web/render"
)

func (s *Site) ListClusters(c echo.Context, a fleet.Actor) (err error) {
	f := kit.Filter{Label: "Filter clusters", Placeholder: "name:rack* hosts>4 baseline:skylake"}
	p := &clusterview.ListPage{List: s.NewList(c, "clusters", "name", clusterview.Columns, f), Actor: a}
	if p.Clusters, err = render.FillList(c, a, &p.List, render.QueryFromURL(c), s.Control.ListClusters); err != nil {
		return err
	}
	return s.ShowList(c, a, shell.PageLayout{Title: "Clusters"}, p.List, clusterview.List(p))
}

func (s *Site) ExportClusters(c echo.Context, a fleet.Actor) error {
	return render.ExportCSV(s.Renderer, c, a, "clusters.csv", render.QueryFromURL(c), s.Control.ListClusters, clusterview.CSV)
}

func clusterPageLayout(v fleet.ClusterView) shell.PageLayout {
	return shell.PageLayout{Title: v.Name, ObjectKeys: []string{string(fleet.SubjectOf(fleet.TypeCluster, v.ID))}}
}

func (s *Site) ClusterPage(c echo.Context, a fleet.Actor) error {
	tab, err := requestedTab(c, clusterview.Tabs(), "cluster")
	if err != nil {
		return err
	}
	get := s.Control.GetCluster
	if tab == "configure" || tab == "monitor" || render.HTMXTarget(c) == "cluster-head" { // they do not show the sums over the hosts
		get = s.Control.ClusterBrief
	}
	v, err := get(c.Request().Context(), a, fleet.ClusterID(c.Param("id")))
	if err != nil {
		return err
	}
	p := clusterview.Page{Actor: a, Link: render.LinkToCurrentPage(c), Tab: tab, Cluster: v, Now: time.Now(), ChartRange: c.QueryParam("range")}
	if render.HTMXTarget(c) != "cluster-head" {
		if err := s.fillClusterTab(c, a, &p); err != nil {
			return err
		}
	}
	layout := clusterPageLayout(v)
	if tab == "monitor" {
		layout.Scripts = []string{kit.ChartScript}
	}
	return s.ShowPage(c, a, layout, clusterview.ClusterPage(p))
}

// fillClusterTab reads the data of the page's current tab.
func (s *Site) fillClusterTab(c echo.Context, a fleet.Actor, p *clusterview.Page) (err error) {
	ctx, q := c.Request().Context(), render.QueryFromURL(c)
	q.Filter = "cluster:" + strconv.Quote(p.Cluster.Name)
	switch p.Tab {
	case "hosts":
		page, err := s.Control.ListHosts(ctx, a, q)
		p.Hosts, p.Prev, p.Next = page.Items, page.Prev, page.Next
		return err
	case "vms":
		page, err := s.Control.ListVMs(ctx, a, q)
		p.VMs, p.Prev, p.Next = page.Items, page.Prev, page.Next
		return err
	case "configure":
		p.Form = newClusterForm(p.Cluster)
		p.Form.Models, err = s.baselineModels(ctx, a)
	}
	return err
}

// baselineModels returns the CPU models for the form, for users who may change clusters.
func (s *Site) baselineModels(ctx context.Context, a fleet.Actor) ([]fleet.CPUModelUse, error) {
	if !policy.May(a, policy.InfraChange, "") {
		return nil, nil
	}
	return s.Control.CPUModels(ctx, a)
}

type clusterForm struct {
	Name        string `form:"name"`
	Description string `form:"description"`
	CPUModel    string `form:"cpuModel"`
	Placement   string `form:"placement"`
	CPURatio    string `form:"cpuRatio"`
	MemoryRatio string `form:"memoryRatio"`
	Generation  string `form:"generation"`
}

// input parses the form.
func (in clusterForm) input() (hosts.ClusterInput, error) {
	var checks fleet.Checks
	out := hosts.ClusterInput{Name: strings.TrimSpace(in.Name), IfGeneration: form.ParseGeneration(in.Generation), Spec: fleet.ClusterSpec{
		Description: in.Description, CPUModel: in.CPUModel, Placement: fleet.ClusterPlacement(in.Placement),
		Overcommit: fleet.Overcommit{
			CPU:    form.ParseField(&checks, "spec.overcommit.cpu", in.CPURatio, form.ParseRatio),
			Memory: form.ParseField(&checks, "spec.overcommit.memory", in.MemoryRatio, form.ParseRatio),
		},
	}}
	if checks.Err() != nil {
		fleet.CheckName(&checks, "name", out.Name)
	}
	return out, checks.Err()
}

// typed returns the form as typed.
func (in clusterForm) typed(id fleet.ClusterID, errs kit.Errors) clusterview.Form {
	return clusterview.Form{
		ID: id, Name: in.Name, Description: in.Description, CPUModel: in.CPUModel, Placement: in.Placement,
		CPURatio: in.CPURatio, MemoryRatio: in.MemoryRatio, Generation: form.ParseGeneration(in.Generation), Errors: errs,
	}
}

func newClusterForm(v fleet.ClusterView) clusterview.Form {
	return clusterview.Form{
		ID: v.ID, Name: v.Name, Description: v.Spec.Description, CPUModel: v.Spec.CPUModel, Placement: string(v.Spec.Placement),
		CPURatio: form.RatioText(v.Spec.Overcommit.CPU), MemoryRatio: form.RatioText(v.Spec.Overcommit.Memory), Generation: v.Generation,
	}
}

// ShowNewClusterForm shows the dialog that creates a cluster.
func (s *Site) ShowNewClusterForm(c echo.Context, a fleet.Actor, in clusterForm, how form.Display) (err error) {
	f := in.typed("", how.Errors)
	if f.Models, err = s.baselineModels(c.Request().Context(), a); err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, shell.PageLayout{Title: "New cluster"}, clusterview.NewForm(f))
}

func (s *Site) CreateCluster(c echo.Context, a fleet.Actor, in clusterForm) (form.Response, error) {
	want, err := in.input()
	if err != nil {
		return nil, err
	}
	v, err := s.Control.CreateCluster(c.Request().Context(), a, want)
	return form.RedirectTo(views.ClusterPath(v.ID)), err
}

// ShowClusterForm shows the cluster's page with the typed form.
func (s *Site) ShowClusterForm(c echo.Context, a fleet.Actor, in clusterForm, how form.Display) error {
	ctx := c.Request().Context()
	v, err := s.Control.ClusterBrief(ctx, a, fleet.ClusterID(c.Param("id")))
	if err != nil {
		return err
	}
	p := clusterview.Page{Actor: a, Link: kit.Link{Path: views.ClusterPath(v.ID)}.With("tab", "configure"), Tab: "configure", Cluster: v, Now: time.Now(), Form: in.typed(v.ID, how.Errors)}
	if p.Form.Models, err = s.baselineModels(ctx, a); err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, clusterPageLayout(v), clusterview.ClusterPage(p))
}

func (s *Site) EditCluster(c echo.Context, a fleet.Actor, in clusterForm) (form.Response, error) {
	want, err := in.input()
	if err != nil {
		return nil, err
	}
	id := fleet.ClusterID(c.Param("id"))
	_, err = s.Control.UpdateCluster(c.Request().Context(), a, id, want)
	return form.RedirectTo(views.ClusterPath(id)), err
}

// maxAddableHosts is the maximum number of hosts in the dialog that adds hosts to a cluster.
const maxAddableHosts = 500

// ShowAddHostsForm shows the dialog that moves hosts into the cluster, with the hosts of other clusters.
func (s *Site) ShowAddHostsForm(c echo.Context, a fleet.Actor, in assignForm, how form.Display) error {
	ctx := c.Request().Context()
	v, err := s.Control.ClusterBrief(ctx, a, fleet.ClusterID(c.Param("id")))
	if err != nil {
		return err
	}
	page, err := s.Control.ListHosts(ctx, a, fleet.Query{Filter: "-cluster:" + strconv.Quote(v.Name), Limit: maxAddableHosts})
	if err != nil {
		return err
	}
	choices := make([]kit.HostChoice, len(page.Items))
	for i, h := range page.Items {
		choices[i] = kit.HostChoice{ID: h.ID, Name: h.Name, Phase: h.Phase}
		for _, id := range in.Hosts {
			choices[i].Chosen = choices[i].Chosen || id == h.ID
		}
		if h.Status == nil {
			continue
		}
		if gap := h.Status.Inventory.GapOf(v.Spec.CPUModel); gap != nil {
			choices[i].MissingCapabilities = []kit.MissingCapability{{Text: gap.Text(h.Name, "cluster's baseline")}}
		}
	}
	return s.ShowPageWithStatus(c, how.Status, a, clusterPageLayout(v), clusterview.AddHostsDialog(v, choices, page.Next != "", how.Errors))
}

func (s *Site) AddHostsToCluster(c echo.Context, a fleet.Actor, in assignForm) (form.Response, error) {
	id := fleet.ClusterID(c.Param("id"))
	err := s.Control.AddHostsToCluster(c.Request().Context(), a, id, in.Hosts)
	return form.StayOnPage(views.TabPath(views.ClusterPath(id), "hosts"), "Added "+kit.CountText(len(in.Hosts), "host")+" to the cluster."), err
}

func (s *Site) ConfirmDeleteCluster() form.Renderer[form.EmptyForm] {
	return form.ConfirmDialog(s.Renderer, s.Control.ClusterBrief, clusterPageLayout, clusterview.DeleteDialog)
}

func (s *Site) DeleteCluster(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	return form.RedirectTo("/clusters"), s.Control.DeleteCluster(c.Request().Context(), a, fleet.ClusterID(c.Param("id")))
}

// ClusterMenu returns the handler of the cluster's action menu.
func (s *Site) ClusterMenu() func(echo.Context, fleet.Actor) error {
	return actionMenu(s, s.Control.ClusterBrief, clusterPageLayout, clusterview.Actions)
}
