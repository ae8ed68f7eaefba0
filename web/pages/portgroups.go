package pages

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	networkview "quantix/views/network"
	"quantix/web/form"
	"quantix/web/options"
)

// readPortGroupsTab returns the data of a network's port groups tab.
func (s *Site) readPortGroupsTab(c echo.Context, a fleet.Actor, id fleet.NetworkID) (t networkview.PortGroupsTab, err error) {
	ctx := c.Request().Context()
	if t.All, err = s.Control.PortGroups(ctx, a, id); err != nil || !policy.May(a, policy.InfraChange, "") {
		return t, err
	}
	t.Projects, err = s.Options.Choices(ctx, a, options.Query{Kind: "group-grants", FormAddress: portGroupsTabPath(c), ShowAll: c.QueryParam("all") != ""})
	return t, err
}

func portGroupsTabPath(c echo.Context) string {
	return views.TabPath(views.NetworkPath(fleet.NetworkID(c.Param("id"))), "groups")
}

type portGroupForm struct {
	Old         string `form:"old"`
	Name        string `form:"name"`
	Description string `form:"description"`
	Restricted  string `form:"restricted"`
	VLAN        string `form:"vlan"`
	Trunk       string `form:"trunk"`
	ToAverage   string `form:"toAverage"`
	ToPeak      string `form:"toPeak"`
	ToBurst     string `form:"toBurst"`
	FromAverage string `form:"fromAverage"`
	FromPeak    string `form:"fromPeak"`
	FromBurst   string `form:"fromBurst"`

	Groups       []fleet.SecurityGroupID `form:"secgroup"`
	AntiSpoofing string                  `form:"guard"` // "on" or "off"; empty: the default
}

func (in portGroupForm) view() networkview.PortGroupForm {
	return networkview.PortGroupForm{
		Name: in.Name, Description: in.Description, VLAN: in.VLAN, Trunk: in.Trunk, Restricted: in.Restricted != "",
		AntiSpoofing: in.AntiSpoofing, ToAverage: in.ToAverage, ToPeak: in.ToPeak, ToBurst: in.ToBurst, FromAverage: in.FromAverage, FromPeak: in.FromPeak, FromBurst: in.FromBurst,
	}
}

// group returns the port group as typed.
func (in portGroupForm) group(checks *fleet.Checks) fleet.PortGroup {
	number := func(field, text string) int {
		text = strings.TrimSpace(text)
		if text == "" {
			return 0
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			checks.Add(field, "Enter a whole number above 0, not %q.", text)
		}
		return n
	}
	rate := func(field, average, peak, burst string) *fleet.Rate {
		r := fleet.Rate{AverageKiB: number(field, average), PeakKiB: number(field, peak), BurstKiB: number(field, burst)}
		if r == (fleet.Rate{}) {
			return nil
		}
		return &r
	}
	g := fleet.PortGroup{
		Name: strings.TrimSpace(in.Name), Description: strings.TrimSpace(in.Description), Restricted: in.Restricted != "",
		ToGuest: rate("toGuest", in.ToAverage, in.ToPeak, in.ToBurst), FromGuest: rate("fromGuest", in.FromAverage, in.FromPeak, in.FromBurst),
	}
	g.SecurityGroups = in.Groups
	if in.AntiSpoofing != "" {
		guard := in.AntiSpoofing == "on"
		g.AntiSpoofing = &guard
	}
	v := fleet.VLAN{ID: number("vlan", in.VLAN)}
	for _, word := range splitAddressWords(in.Trunk) {
		v.Trunk = append(v.Trunk, number("vlan", word))
	}
	if v.ID != 0 || len(v.Trunk) > 0 {
		g.VLAN = &v
	}
	return g
}

func (s *Site) ShowPortGroupForm(c echo.Context, a fleet.Actor, in portGroupForm, how form.Display) error {
	n, err := s.Control.NetworkBrief(c.Request().Context(), a, fleet.NetworkID(c.Param("id")))
	if err != nil {
		return err
	}
	if n.Spec == nil {
		return fleet.Errorf(fleet.Conflict, "This network was discovered on hosts. Only networks that are defined in Quantix can have port groups.")
	}
	p := networkview.PortGroupPage{Network: n, Old: in.Old, In: in.view(), Errors: how.Errors}
	chosen := in.Groups
	if name := c.QueryParam("name"); name != "" && !how.WasRefused() {
		g := n.Spec.PortGroupByName(name)
		if g == nil {
			return fleet.Errorf(fleet.NotFound, "The network has no such port group.")
		}
		p.Old, p.In, chosen = name, networkview.PortGroupFormOf(*g), g.SecurityGroups
	}
	all, err := s.Control.SharedSecurityGroups(c.Request().Context(), a)
	if err != nil {
		return err
	}
	for _, g := range all {
		p.Groups = append(p.Groups, networkview.SecurityGroupChoice{ID: g.ID, Name: g.Name, Rules: len(g.Spec.Rules), Chosen: slices.Contains(chosen, g.ID)})
	}
	return s.ShowPageWithStatus(c, how.Status, a, networkPageLayout(n), networkview.PortGroupDialog(p))
}

func (s *Site) SetPortGroup(c echo.Context, a fleet.Actor, in portGroupForm) (form.Response, error) {
	var checks fleet.Checks
	g := in.group(&checks)
	if err := checks.Err(); err != nil {
		return nil, err
	}
	ctx, id := c.Request().Context(), fleet.NetworkID(c.Param("id"))
	if in.Old != "" { // a port group that was deleted while its form was open must not be created again
		n, err := s.Control.NetworkBrief(ctx, a, id)
		if err != nil {
			return nil, err
		}
		if n.Spec == nil || n.Spec.PortGroupByName(in.Old) == nil || in.Old != g.Name {
			return nil, fleet.Errorf(fleet.NotFound, "The network has no port group %s any more.", in.Old)
		}
	}
	tasks, err := s.Control.SetPortGroup(ctx, a, id, g, in.Old == "")
	return form.StayOnPage(portGroupsTabPath(c), "Port group "+g.Name+queuedOnHostsText(len(tasks))), err
}

func (s *Site) DeletePortGroup(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	tasks, err := s.Control.DropPortGroup(c.Request().Context(), a, fleet.NetworkID(c.Param("id")), c.Param("group"))
	return form.StayOnPage(portGroupsTabPath(c), "The port group "+c.Param("group")+" is deleted"+queuedOnHostsText(len(tasks))), err
}

type portGroupGrantForm struct {
	Group   string `form:"group"`
	Project string `form:"project"`
	Revoke  string `form:"revoke"`
}

func (s *Site) SetPortGroupGrant(c echo.Context, a fleet.Actor, in portGroupGrantForm) (form.Response, error) {
	set, word := s.Control.GrantPortGroup, "open"
	if in.Revoke != "" {
		set, word = s.Control.RevokePortGroup, "closed"
	}
	err := setGrant(c, a, func(ctx context.Context, a fleet.Actor, id fleet.NetworkID, project fleet.ProjectID) error {
		return set(ctx, a, id, in.Group, project)
	}, fleet.NetworkID(c.Param("id")), in.Project)
	return form.StayOnPage(portGroupsTabPath(c), "The port group "+in.Group+" is "+word+"."), err
}
