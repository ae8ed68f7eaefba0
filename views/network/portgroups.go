package network

import (
	"strconv"
	"strings"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// PortGroupsTab lists a network's port groups, with the form that grants a port group to a project.
type PortGroupsTab struct {
	All      []fleet.PortGroupUse
	Group    string // port group chosen in the form
	Projects kit.SelectChoices
	Errors   kit.Errors
}

// PortGroupForm holds the values that a person typed for a port group.
type PortGroupForm struct {
	Name, Description, VLAN, Trunk   string
	ToAverage, ToPeak, ToBurst       string
	FromAverage, FromPeak, FromBurst string
	Restricted                       bool
	AntiSpoofing                     string // "on", "off"; empty: the default
}

// SecurityGroupChoice is a choice of a security group for a port group's NICs.
type SecurityGroupChoice struct {
	ID     fleet.SecurityGroupID
	Name   string
	Rules  int
	Chosen bool
}

var antiSpoofingOptions = []kit.Option{
	{Value: "", Text: "default: on for tenants' NICs"}, {Value: "on", Text: "on"}, {Value: "off", Text: "off, for tenants' NICs too"},
}

// PortGroupPage is the dialog of a new or existing port group.
type PortGroupPage struct {
	Network fleet.NetworkView
	Old     string // name of the existing port group; empty: a new one
	In      PortGroupForm
	Groups  []SecurityGroupChoice // security groups of the fleet
	Errors  kit.Errors
}

// PortGroupFormOf returns the form values of an existing port group.
func PortGroupFormOf(g fleet.PortGroup) PortGroupForm {
	f := PortGroupForm{Name: g.Name, Description: g.Description, Restricted: g.Restricted}
	f.ToAverage, f.ToPeak, f.ToBurst = rateTexts(g.ToGuest)
	f.FromAverage, f.FromPeak, f.FromBurst = rateTexts(g.FromGuest)
	if g.AntiSpoofing != nil {
		f.AntiSpoofing = map[bool]string{true: "on", false: "off"}[*g.AntiSpoofing]
	}
	if g.VLAN != nil {
		f.VLAN = numberOrEmpty(g.VLAN.ID)
		ids := make([]string, len(g.VLAN.Trunk))
		for i, id := range g.VLAN.Trunk {
			ids[i] = strconv.Itoa(id)
		}
		f.Trunk = strings.Join(ids, ", ")
	}
	return f
}

func rateTexts(r *fleet.Rate) (average, peak, burst string) {
	if r == nil {
		return "", "", ""
	}
	return numberOrEmpty(r.AverageKiB), numberOrEmpty(r.PeakKiB), numberOrEmpty(r.BurstKiB)
}

func numberOrEmpty(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func portGroupsPath(id fleet.NetworkID) string { return views.NetworkPath(id, "port-groups") }

func (p PortGroupPage) dialog() kit.Dialog {
	d := kit.Dialog{Title: "New port group in " + p.Network.Name, Action: portGroupsPath(p.Network.ID), Button: "Create port group", Back: views.TabPath(views.NetworkPath(p.Network.ID), "groups")}
	if p.Old != "" {
		d.Title, d.Button = "Port group "+p.Old, "Save"
	}
	return d
}

// whyNoVLANTags is the reason why the network does not support VLAN tags; empty: the network supports them.
func whyNoVLANTags(n fleet.NetworkView) string { return kit.RefusalReason(n.Spec.TagsVLANs()) }

// whyNoNICFilters is the reason why hosts cannot filter the traffic of the network's NICs; empty: hosts can filter it.
func whyNoNICFilters(n fleet.NetworkView) string { return kit.RefusalReason(n.Spec.FiltersNICs()) }

func (p Page) newPortGroupAction() kit.ActionButton {
	_, why := p.Network.Allows(fleet.ActAssign)
	return kit.ActionButton{Icon: "plus", Word: "New port group", Href: portGroupsPath(p.Network.ID), Dialog: true}.DisableFor(why).DisableFor(p.changeRefusal()).RequirePermission(p.Actor, policy.InfraChange)
}

func (p Page) portGroupActions(g fleet.PortGroupUse) []kit.ActionButton {
	at, back := portGroupsPath(p.Network.ID), views.TabPath(views.NetworkPath(p.Network.ID), "groups")
	remove := kit.ActionButton{
		Icon: "trash-2", Word: "Delete " + g.Name, Danger: true, Post: views.NetworkPath(p.Network.ID, "port-groups", g.Name, "delete"), Back: back,
		Confirm: "Delete the port group " + g.Name + "?",
	}
	if g.VMs > 0 {
		remove.Why = kit.CountText(g.VMs, "VM") + " with NICs in this port group: connect these NICs to another network first."
	}
	acts := []kit.ActionButton{kit.ActionButton{Icon: "pencil", Word: "Change", Href: kit.Link{Path: at}.With("name", g.Name).String(), Dialog: true}.DisableFor(p.changeRefusal()).RequirePermission(p.Actor, policy.InfraChange)}
	for _, x := range g.Grants {
		acts = append(acts, kit.ActionButton{
			Icon: "lock", Word: "Stop sharing with " + strings.ToLower(kit.GranteeName(fleet.ProjectGrant(x))[:1]) + kit.GranteeName(fleet.ProjectGrant(x))[1:] + "; connected VMs stay", Post: views.NetworkPath(p.Network.ID, "group-grants"), Back: back,
			PostValues: []kit.FormValue{{Name: "group", Value: g.Name}, {Name: "project", Value: kit.GrantValue(fleet.ProjectGrant(x))}, {Name: "revoke", Value: "yes"}},
		}.RequirePermission(p.Actor, policy.InfraChange))
	}
	return append(acts, remove.DisableFor(p.changeRefusal()).RequirePermission(p.Actor, policy.InfraChange))
}

// portGroupUsersText describes who may use the port group besides infrastructure administrators.
func portGroupUsersText(g fleet.PortGroupUse) string {
	var names []string
	for _, x := range g.Grants {
		names = append(names, kit.GranteeName(fleet.ProjectGrant(x)))
	}
	if !g.Restricted {
		names = append(names, "all who can use the network")
	}
	return kit.TextOrDash(strings.Join(names, ", "))
}
