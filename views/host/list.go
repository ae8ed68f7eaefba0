package host

import (
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/internal/healthevent"
	"quantix/internal/policy"
	"quantix/internal/usage"
	"quantix/views/kit"
)

// ListPage is the list of hosts.
type ListPage struct {
	kit.List
	Actor fleet.Actor
	Tab   string // "all", "attention" or "monitor"
	Hosts []fleet.HostView
	Total fleet.HostTotals

	Health map[fleet.HostID]healthevent.Summary // of hosts with open conditions

	Recent     map[fleet.HostID]*usage.Recent // only with a column of the last hour
	ChartRange string                         // tab monitor: key of the charts' range
}

func (p *ListPage) table() kit.Table[fleet.HostView] {
	return kit.Table[fleet.HostView]{
		List: &p.List, ID: "host-rows", Live: "hosts", Every: "10s", Label: "Hosts", Type: "host", Head: kit.NameColumn, Items: p.Hosts, HasRowMenus: true, EmptyContent: emptyListNote(p),
		Row: hostRow,
		RowCells: func(shown kit.Columns, h *fleet.HostView) templ.Component {
			return row(shown, h, p.Recent[h.ID], p.Health[h.ID], p.Now)
		},
	}
}

func addHostAction(a fleet.Actor) kit.ActionButton {
	return kit.ActionButton{Icon: "plus", Word: "Add host", Href: "/hosts/join"}.RequirePermission(a, policy.Manage)
}

func (p *ListPage) summary() string {
	total := p.Total.PoweredOff
	for _, n := range p.Total.Phases {
		total += n
	}
	if total == 0 {
		return ""
	}
	words := []string{strconv.Itoa(total)}
	for _, ph := range fleet.HostPhases {
		if n := p.Total.Phases[ph]; n > 0 {
			words = append(words, strconv.Itoa(n)+" "+strings.ToLower(ph.DisplayName()))
		}
	}
	if p.Total.PoweredOff > 0 {
		words = append(words, strconv.Itoa(p.Total.PoweredOff)+" "+strings.ToLower(fleet.LifecycleOffline.DisplayName()))
	}
	return strings.Join(words, " · ")
}

func (p *ListPage) tabs() []kit.Tab {
	attention, n := "", 0
	for ph, count := range p.Total.Phases {
		if ph != fleet.HostOnline {
			n += count
		}
	}
	if n > 0 {
		attention = strconv.Itoa(n)
	}
	tabs := kit.LinkTabs(p.Link.FirstPage(), "tab", p.Tab, kit.Tab{Key: "all", Text: "All"}, kit.Tab{Key: "attention", Text: "Needs attention", Count: attention, Severity: "bad"})
	tabs = append(tabs, kit.ResourceTabs(fleet.TypeHost)...)
	tabs = append(tabs, kit.Tab{Text: "Monitor", Href: FleetMonitorPath, Here: p.Tab == "monitor"})
	if policy.May(p.Actor, policy.Manage, "") {
		tabs = append(tabs, kit.Tab{Text: "Join tokens", Href: "/hosts/join"})
	}
	return tabs
}

// FleetMonitorPath is the address of the charts of all hosts.
const FleetMonitorPath = "/hosts/monitor"

// charts describes the charts of all hosts.
func (p *ListPage) charts() kit.MetricChartsView {
	return kit.MetricChartsView{Source: "/hosts/metrics", Name: "hosts", Range: p.ChartRange, Page: kit.Link{Path: FleetMonitorPath}}
}
