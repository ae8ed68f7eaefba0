// Package home is the start page and the search for everything.
package home

import (
	"time"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views/kit"
)

// DashboardPage is the start page.
type DashboardPage struct {
	Overview fleet.Overview
	Actor    fleet.Actor
	Now      time.Time
}

func (p DashboardPage) hosts() (all, online int) {
	for ph, n := range p.Overview.Hosts {
		all += n
		if ph == fleet.HostOnline {
			online = n
		}
	}
	return all, online
}

func (p DashboardPage) vms() (all, running int) {
	for ph, n := range p.Overview.VMs {
		all += n
		if ph == fleet.PhaseRunning || ph == fleet.PhaseNeedsRestart {
			running += n
		}
	}
	return all, running
}

func (p DashboardPage) pools() (all, ok int) {
	for t, n := range p.Overview.Pools {
		all += n
		if t == fleet.ToneOK {
			ok = n
		}
	}
	return all, ok
}

func (p DashboardPage) infra() bool { return policy.May(p.Actor, policy.InfraSee, "") }

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

func needs(n int) string {
	if n == 1 {
		return "needs"
	}
	return "need"
}

// tabs lead to the lists that the person may see.
func (p DashboardPage) tabs() []kit.Tab {
	tabs := []kit.Tab{{Text: "Overview", Href: "/", Here: true}, {Text: "VMs", Href: "/vms"}}
	if p.infra() {
		tabs = append(tabs, kit.Tab{Text: "Hosts", Href: "/hosts"})
	}
	return append(tabs, kit.Tab{Text: "Storage", Href: "/pools"}, kit.Tab{Text: "Networks", Href: "/networks"}, kit.Tab{Text: "Images", Href: "/images"}, kit.Tab{Text: "Templates", Href: "/templates"}, kit.Tab{Text: "Tasks", Href: "/tasks"})
}
