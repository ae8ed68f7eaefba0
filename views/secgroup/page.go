// Package secgroup renders security groups: the list, one group with its rules, NICs and hosts, and the packet test.
package secgroup

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"quantix/internal/connectivity"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/secgroup"
	"quantix/views"
	"quantix/views/kit"
)

// ListPage is the list of security groups.
type ListPage struct {
	kit.List
	Actor  fleet.Actor
	Groups []secgroup.View
}

func (p *ListPage) table() kit.Table[secgroup.View] {
	return kit.Table[secgroup.View]{
		List: &p.List, ID: "secgroup-rows", Live: "security-groups", Every: "10s", Label: "Security groups", Type: "security group", Head: kit.NameColumn,
		Items: p.Groups, EmptyContent: emptyListNote(p),
		Row: func(g *secgroup.View) kit.Row {
			return kit.Row{ID: "secgroup-" + string(g.ID), Name: g.Name, Href: views.SecurityGroupPath(g.ID)}
		},
		RowCells: func(shown kit.Columns, g *secgroup.View) templ.Component { return row(p.Actor, shown, g) },
	}
}

// stateText describes the group's state: for tenants in words alone, for others with the number of hosts.
func stateText(a fleet.Actor, words, prefix string, hosts int) string {
	switch {
	case !policy.May(a, policy.InfraSee, ""):
		return words
	case hosts == 0:
		return prefix
	}
	return prefix + kit.CountText(hosts, "host")
}

// ColumnsFor are the columns of the list for the actor.
func ColumnsFor(a fleet.Actor) kit.Columns {
	columns := slices.Clone(Columns)
	if !policy.May(a, policy.InfraSee, "") {
		columns[slices.IndexFunc(columns, func(c kit.Column) bool { return c.Key == "hosts" })].Label = "State"
	}
	return columns
}

func newGroupAction(a fleet.Actor) kit.ActionButton {
	return kit.ActionButton{Icon: "plus", Word: "New security group", Href: "/security-groups/new"}.RequirePermission(a, policy.VMChange)
}

// Form is the form of a new group, or of an existing group's name and description.
type Form struct {
	ID                fleet.SecurityGroupID // empty: a new group
	Project           string
	Name, Description string
	Projects          kit.SelectChoices
	Fleet             bool // the actor may create fleet-wide groups
	Errors            kit.Errors
}

// Page shows one security group.
type Page struct {
	Actor  fleet.Actor
	Link   kit.Link
	Tab    string
	Group  secgroup.View
	Rule   RuleForm
	Groups []kit.Option // groups that rules may refer to
	Now    time.Time
}

// RuleForm is the form of a new rule.
type RuleForm struct {
	Direction, Protocol, Ports, Remote, CIDR, Description string
	Errors                                                kit.Errors
}

func (p Page) path(below ...string) string { return views.SecurityGroupPath(p.Group.ID, below...) }

func (p Page) tabs() []kit.Tab {
	return kit.LinkTabs(kit.Link{Path: p.path()}, "tab", p.Tab, kit.TabsFor(p.Actor,
		kit.Tab{Key: "rules", Text: "Rules", Count: strconv.Itoa(len(p.Group.Spec.Rules))}, kit.Tab{Key: "nics", Text: "NICs", Count: strconv.Itoa(p.Group.NICs)},
		kit.Tab{Key: "hosts", Text: "Hosts", Count: strconv.Itoa(len(p.Group.Hosts)), Hosts: true})...)
}

// Tabs are the keys of the tabs that the actor sees on a security group's page; the first tab is the default.
func Tabs(a fleet.Actor) []string { return kit.TabKeys(Page{Actor: a}.tabs()) }

func (p Page) seesHosts() bool { return policy.May(p.Actor, policy.InfraSee, "") }

// whyNotEdit is the reason why the actor may not change the group; empty: the actor may change it.
func (p Page) whyNotEdit() string {
	switch {
	case p.Group.DeletedAt != nil:
		return "The security group is being deleted."
	case p.Group.ProjectID == "" && !policy.May(p.Actor, policy.InfraChange, ""):
		return "This security group is fleet-wide: every project can use it, but only operators and administrators can change it."
	case p.Group.ProjectID != "" && !policy.May(p.Actor, policy.VMChange, p.Group.ProjectID):
		return "You do not have permission to change VMs of the group's project. Ask an administrator."
	}
	return ""
}

// changing disables or removes an action that changes the group, as the actor's permissions require.
func (p Page) changing(a kit.ActionButton) kit.ActionButton {
	r := policy.VMChange
	if p.Group.ProjectID == "" {
		r = policy.InfraChange
	}
	return a.DisableFor(p.whyNotEdit()).RequirePermissionIn(p.Actor, r, p.Group.ProjectID)
}

func (p Page) actions() []kit.ActionButton {
	var retry string
	if p.Group.SeverityCounts.Bad == 0 {
		retry = "No host failed to apply the group."
	}
	word := "Retry on failed hosts"
	if slices.ContainsFunc(p.Group.Hosts, func(h secgroup.Host) bool { return h.State == secgroup.Changed }) {
		word = "Reapply on changed hosts"
	}
	return []kit.ActionButton{
		{Icon: "search", Word: "Traffic test", Href: "/security-groups/test"},
		p.changing(kit.ActionButton{Icon: "pencil", Word: "Name and description", Href: p.path("edit"), Dialog: true}),
		p.changing(kit.ActionButton{Icon: "rotate-cw", Word: word, Post: p.path("retry"), Back: p.path(), Why: retry, Absent: !p.seesHosts()}),
		p.changing(kit.ActionButton{Icon: "trash-2", Word: "Delete security group", Href: p.path("delete"), Dialog: true, Danger: true}),
	}
}

func (p Page) ruleActions(r secgroup.Rule) []kit.ActionButton {
	return []kit.ActionButton{p.changing(kit.ActionButton{
		Icon: "trash-2", Word: "Remove rule", Label: "Remove the rule " + p.ruleText(r), Post: p.path("rules"), ReplaceTarget: "#rules", Danger: true, Back: p.path(),
		PostValues: []kit.FormValue{{Name: "remove", Value: r.ID}},
	})}
}

func (p Page) ruleText(r secgroup.Rule) string { return r.Text(p.remoteGroupText(r)) }

func (p Page) remoteGroupText(r secgroup.Rule) string {
	if r.GroupID == p.Group.ID {
		return "members of this group"
	}
	if name := p.Group.Names[string(r.GroupID)]; name != "" {
		return "members of " + name
	}
	return "members of another group"
}

// remoteText describes the remote side of a rule: an address range, the members of a group, or anybody.
func (p Page) remoteText(r secgroup.Rule) string {
	switch {
	case r.CIDR != "":
		return r.CIDR
	case r.GroupID != "":
		return p.remoteGroupText(r)
	}
	return "anybody"
}

func ownerName(g secgroup.View) string {
	if g.ProjectID == "" {
		return "Fleet"
	}
	return g.ProjectName
}

// sortedRules returns the rules, inbound rules first.
func (p Page) sortedRules() []secgroup.Rule {
	out := slices.Clone(p.Group.Spec.Rules)
	slices.SortStableFunc(out, func(a, b secgroup.Rule) int { return strings.Compare(string(b.Direction), string(a.Direction)) })
	return out
}

func directionText(d secgroup.Direction) string {
	if d == secgroup.Egress {
		return "out"
	}
	return "in"
}

var (
	directionOptions = []kit.Option{{Value: "ingress", Text: "in (to the NIC)"}, {Value: "egress", Text: "out (from the NIC)"}}
	protocolOptions  = []kit.Option{{Value: "tcp", Text: "TCP"}, {Value: "udp", Text: "UDP"}, {Value: "icmp", Text: "ICMP"}, {Value: "icmpv6", Text: "ICMPv6"}, {Value: "any", Text: "any"}}
)

// remoteOptions are the choices for a rule's remote side.
func (p Page) remoteOptions() []kit.Option {
	return slices.Concat([]kit.Option{{Value: "anybody", Text: "anybody"}, {Value: "cidr", Text: "addresses …"}}, p.Groups)
}

// PacketTestPage is the page that tests whether the filters would pass a packet between two endpoints.
type PacketTestPage struct {
	Actor                                    fleet.Actor
	From, FromNIC, To, ToNIC, Protocol, Port string
	VMs                                      []string // VM names to choose from
	Answer                                   *connectivity.PassAnswer
	Errors                                   kit.Errors
}

var testProtocolOptions = protocolOptions[:4]

// NICFilterForm is the form of a NIC's filters.
type NICFilterForm struct {
	VM           fleet.VMView
	MAC          string
	AntiSpoofing bool
	MayTurnOff   bool // the actor may turn anti-spoofing off
	Groups       []SecurityGroupChoice
	PortGroup    string // port group whose default security groups the NIC has; empty: the NIC has its own groups
	Errors       kit.Errors
}

// SecurityGroupChoice is a security group that can be chosen for a NIC.
type SecurityGroupChoice struct {
	ID     fleet.SecurityGroupID
	Name   string
	Owner  string
	Rules  int
	Chosen bool
}

// SecurityGroupChoices returns all groups as choices. The groups in chosen, which the NIC already has, are selected.
func SecurityGroupChoices(all []secgroup.View, chosen []fleet.SecurityGroupID) []SecurityGroupChoice {
	out := make([]SecurityGroupChoice, len(all))
	for i, g := range all {
		out[i] = SecurityGroupChoice{g.ID, g.Name, ownerName(g), len(g.Spec.Rules), slices.Contains(chosen, g.ID)}
	}
	return out
}

// packetCountText formats a number of packets: "3 packets".
func packetCountText(n int64) string {
	if n == 1 {
		return "1 packet"
	}
	return strconv.FormatInt(n, 10) + " packets"
}

// portGroupText describes the NIC settings that come from its port group.
func portGroupText(c secgroup.NICFilter) string {
	if len(c.ByPortGroup) > 1 {
		return "from the port group " + c.PortGroup
	}
	what := "security groups"
	if c.ByPortGroup[0] == "antiSpoofing" {
		what = "anti-spoofing " + map[bool]string{true: "on", false: "off"}[c.AntiSpoofing]
	}
	return what + " from the port group " + c.PortGroup
}
