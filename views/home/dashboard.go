// Package home renders the start page and the global search.
package home

import (
	"cmp"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/request"
	"quantix/internal/usage"
	"quantix/views/alarm"
	"quantix/views/kit"
)

// DashboardPage is the start page.
type DashboardPage struct {
	Overview fleet.Overview // Attention has only causes without an alarm rule
	Alarms   alarm.OpenPage
	Requests []request.Request // that the actor may decide
	More     bool              // there are more requests
	Top      []usage.TopConsumers
	Actor    fleet.Actor
	Now      time.Time
	Tenant   *TenantDashboard // nil: the actor sees hosts
}

func (p DashboardPage) hostCounts() (all, online int) {
	for ph, n := range p.Overview.Hosts {
		all += n
		if ph == fleet.HostOnline {
			online = n
		}
	}
	return all, online
}

func (p DashboardPage) vmCounts() (all, running int) {
	for ph, n := range p.Overview.VMs {
		all += n
		if ph == fleet.PhaseRunning { // the same number as in the list of phases on this page
			running = n
		}
	}
	return all, running
}

func (p DashboardPage) poolCounts() (all, ok int) {
	for t, n := range p.Overview.Pools {
		all += n
		if t == fleet.SeverityOK || t == fleet.SeverityIdle { // a pool without hosts has no failure
			ok += n
		}
	}
	return all, ok
}

func (p DashboardPage) seesHosts() bool { return policy.May(p.Actor, policy.InfraSee, "") }

// needsAttentionRowID is the element id of a row in the Needs attention list. An object with several causes has one row
// for each cause.
func needsAttentionRowID(x fleet.AttentionCause) string {
	if len(x.Objects) == 0 {
		return "attention-" + x.Kind + "-" + strings.TrimPrefix(x.List, "/"+x.Kind+"s?filter=")
	}
	cause := fnv.New32a()
	_, _ = cause.Write([]byte(x.Text))
	return "attention-" + x.Kind + "-" + x.Objects[0].ID + "-" + strconv.FormatUint(uint64(cause.Sum32()), 36)
}

// needsAttentionTypeNames are the resource types whose name on the page differs from the type's key.
var needsAttentionTypeNames = map[string]string{string(fleet.TypeVM): "VM", string(fleet.TypeSecurityGroup): "security group", string(fleet.TypeNetwork): "network"}

// needsAttentionCountText describes the number of objects in a Needs attention row: "3 pools".
func needsAttentionCountText(x fleet.AttentionCause) string {
	word := cmp.Or(needsAttentionTypeNames[x.Kind], x.Kind)
	if x.Count == 0 {
		return word // the number of objects is unknown
	}
	return kit.CountText(x.Count, word)
}

// needsAttentionHostName names the host with the cause, for a Needs attention row about one object.
func needsAttentionHostName(x fleet.AttentionCause) string {
	if x.Count == 1 && len(x.Objects) == 1 && x.Objects[0].Text != "" {
		return "(" + x.Objects[0].Text + ")"
	}
	return ""
}

func pluralWord(n int, singular string) string {
	if n == 1 {
		return singular
	}
	return singular + "s"
}

func needOrNeeds(n int) string {
	if n == 1 {
		return "needs"
	}
	return "need"
}

// tabs are the dashboard's links to the lists that the actor may see.
func (p DashboardPage) tabs() []kit.Tab {
	tabs := []kit.Tab{{Text: "Overview", Href: "/", Here: true}, {Text: "VMs", Href: "/vms"}}
	if p.seesHosts() {
		tabs = append(tabs, kit.Tab{Text: "Hosts", Href: "/hosts"})
	}
	return append(tabs, kit.Tab{Text: "Storage", Href: "/pools"}, kit.Tab{Text: "Networks", Href: "/networks"}, kit.Tab{Text: "Images", Href: "/images"}, kit.Tab{Text: "Templates", Href: "/templates"}, kit.Tab{Text: "Alarms", Href: "/alarms"}, kit.Tab{Text: "Tasks", Href: "/tasks"}, kit.Tab{Text: "Requests", Href: "/requests"})
}

// consumerText formats a top consumer's value: "42 %", "1.5 GiB" or "12 MiB/s".
func consumerText(unit fleet.MetricUnit, v float64) string {
	switch unit {
	case fleet.UnitPercent:
		return strconv.FormatFloat(v, 'f', 0, 64) + " %"
	case fleet.UnitBytesPerSecond:
		return kit.Bytes(int64(v)) + "/s"
	}
	return kit.Bytes(int64(v))
}

// consumerPercent is the length of a top consumer's bar: the value in percent, or its share of the highest value.
func consumerPercent(unit fleet.MetricUnit, c usage.Consumer, all []usage.Consumer) int {
	if unit == fleet.UnitPercent {
		return int(min(100, c.Value+0.5))
	}
	return int(100*c.Value/all[0].Value + 0.5)
}
