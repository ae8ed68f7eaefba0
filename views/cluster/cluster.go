// Package cluster renders clusters of hosts: the list, one cluster with its hosts and VMs, and its forms.
package cluster

import (
	"slices"
	"strconv"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// ListPage is the list of clusters.
type ListPage struct {
	kit.List
	Actor    fleet.Actor
	Clusters []fleet.ClusterView
}

func (p *ListPage) table() kit.Table[fleet.ClusterView] {
	return kit.Table[fleet.ClusterView]{
		List: &p.List, ID: "cluster-rows", Live: "clusters", Every: "30s", Label: "Clusters", Type: "cluster", Head: kit.NameColumn,
		Items: p.Clusters, HasRowMenus: true, EmptyContent: emptyListNote(),
		Row: func(v *fleet.ClusterView) kit.Row {
			return kit.Row{ID: "cluster-" + string(v.ID), Name: v.Name, Href: views.ClusterPath(v.ID), Menu: views.ContextMenuPath(fleet.TypeCluster, v.ID)}
		},
		RowCells: row,
	}
}

func (p *ListPage) tabs() []kit.Tab {
	tabs := []kit.Tab{{Text: "Hosts", Href: "/hosts"}}
	for _, t := range kit.ResourceTabs(fleet.TypeHost) {
		t.Here = t.Href == fleet.TypeCluster.Info().Path
		tabs = append(tabs, t)
	}
	return tabs
}

func newClusterAction(a fleet.Actor) kit.ActionButton {
	return kit.ActionButton{Icon: "plus", Word: "New cluster", Href: "/clusters/new", Dialog: true}.RequirePermission(a, policy.InfraChange)
}

// Page shows one cluster. Only the list of the current tab is filled.
type Page struct {
	Actor   fleet.Actor
	Link    kit.Link // address of the page as shown
	Tab     string
	Cluster fleet.ClusterView
	Now     time.Time
	Hosts   []fleet.HostView
	VMs     []fleet.VMView
	Prev    string // cursors of the previous and next page of the tab's list
	Next    string
	Form    Form

	ChartRange string // tab monitor: key of the charts' range
}

// charts describes the charts of the tab monitor.
func (p Page) charts() kit.MetricChartsView {
	return kit.MetricChartsView{Source: p.path("metrics"), Name: p.Cluster.Name, Range: p.ChartRange, Page: kit.Link{Path: p.path()}.With("tab", "monitor")}
}

func (p Page) tabs() []kit.Tab {
	return kit.LinkTabs(kit.Link{Path: p.path()}, "tab", p.Tab,
		kit.Tab{Key: "summary", Text: "Summary"}, kit.Tab{Key: "monitor", Text: "Monitor"}, kit.Tab{Key: "hosts", Text: "Hosts", Count: strconv.Itoa(p.Cluster.Hosts)},
		kit.Tab{Key: "vms", Text: "VMs"}, kit.Tab{Key: "configure", Text: "Configure"})
}

// Tabs are the keys of the cluster page's tabs; the first tab is the default.
func Tabs() []string { return kit.TabKeys(Page{}.tabs()) }

func (p Page) path(below ...string) string { return views.ClusterPath(p.Cluster.ID, below...) }

// usage returns the sums over the hosts, or an empty value for actors who cannot see hosts.
func (p Page) usage() fleet.ClusterUsage {
	if p.Cluster.Usage == nil {
		return fleet.ClusterUsage{}
	}
	return *p.Cluster.Usage
}

// liveKeys are the wake-up keys of the current tab.
func (p Page) liveKeys() string {
	if p.Tab == "vms" {
		return "cluster:" + string(p.Cluster.ID) + " vms"
	}
	return "cluster:" + string(p.Cluster.ID) + " hosts vms"
}

// Actions returns the actions on the cluster, for the menus and the head of its page.
func Actions(a fleet.Actor, v fleet.ClusterView) []kit.ActionButton {
	path, can := views.ClusterPath(v.ID), policy.RestrictActions(a, "cluster", "", v.Actions())
	return []kit.ActionButton{
		{Icon: "layers", Word: "Open", Href: path},
		{Icon: "server", Word: "Hosts of this cluster", Href: views.TabPath(path, "hosts")},
		kit.ActionButton{Icon: "plus", Word: "New VM", Href: "/vms/new?cluster=" + string(v.ID)}.RequirePermission(a, policy.VMChange),
		kit.ActionButton{Icon: "plus", Word: "Add hosts", Href: views.ClusterPath(v.ID, "hosts"), Dialog: true}.WithReasonFrom(can, fleet.ActAddHosts),
		kit.ActionButton{Icon: "pencil", Word: "Settings", Href: views.TabPath(path, "configure")}.WithReasonFrom(can, fleet.ActEdit),
		kit.ActionButton{Icon: "trash-2", Word: "Delete cluster", Href: views.ClusterPath(v.ID, "delete"), Dialog: true, Danger: true}.WithReasonFrom(can, fleet.ActDelete),
	}
}

// Form holds the settings of a cluster, as typed. An empty ID is a new cluster.
type Form struct {
	ID                    fleet.ClusterID
	Name, Description     string
	CPUModel, Placement   string
	CPURatio, MemoryRatio string
	Generation            int64
	Models                []fleet.CPUModelUse // CPU models of hosts
	Errors                kit.Errors
}

// modelOptions are the choices of the CPU baseline. A chosen model that no host supports is added.
func (f Form) modelOptions() []kit.Option {
	out := []kit.Option{{Text: "None (best of the host)"}}
	for _, m := range f.Models {
		text := m.Model + " · on " + strconv.Itoa(m.Hosts) + " of " + kit.CountText(m.Of, "host")
		if m.Hosts == m.Of {
			text = m.Model + " · on all hosts"
		}
		out = append(out, kit.Option{Value: m.Model, Text: text})
	}
	if !slices.ContainsFunc(out, func(o kit.Option) bool { return o.Value == f.CPUModel }) {
		out = append(out, kit.Option{Value: f.CPUModel, Text: f.CPUModel})
	}
	return out
}

func placementOptions() []kit.Option {
	out := make([]kit.Option, len(fleet.ClusterPlacements))
	for i, o := range fleet.ClusterPlacements {
		out[i] = kit.Option{Value: o.Value, Text: o.Text}
	}
	return out
}

func placementText(s fleet.ClusterSpec) string {
	return kit.OptionText(placementOptions(), string(s.Placement))
}

// ratioText formats an overcommit ratio of the cluster.
func ratioText(ratio, standard float64) string {
	if ratio == 0 {
		return kit.RatioText(standard) + " (default)"
	}
	return kit.RatioText(ratio)
}
