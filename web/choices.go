package web

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/identity"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views/kit"
	networkview "quantix/views/network"
	vmview "quantix/views/vm"
)

// maxOptions is the maximum number of options that a select shows. Users find other options by text search.
const maxOptions = 40

// optionQuery is one query for the options of a select. typ is the kind of the options, a key of choosers.
type optionQuery struct {
	kind        string
	parentID    string   // id of the object that the options are for, such as a project; empty: none
	text        string   // search text; only options that contain it are shown
	chosen      []string // currently chosen values, which are always shown
	formAddress string   // address of the form; with "all" in its query the form shows all options, for browsers without scripts
	showAll     bool

	media    *query.Media            // set if another select of the same form has already read them
	targets  []fleet.MigrationTarget // set if already read
	pools    []fleet.PoolView        // set if already read
	networks []fleet.NetworkView     // set if already read
}

// optionReader lists the options of one kind of select. It may omit options that do not contain c.text, and those
// beyond the limit.
type optionReader func(s *Server, ctx context.Context, a fleet.Actor, c optionQuery) ([]kit.Option, error)

var optionReaders = map[string]optionReader{
	"projects": (*Server).projectOptions, "hosts": (*Server).hostOptions, "pools": (*Server).poolOptions, "images": (*Server).imageOptions,
	"isos": (*Server).isoOptions, "discs": (*Server).discOptions, "files": (*Server).fileOptions, "networks": (*Server).networkOptions, "grants": (*Server).networkGrantOptions, "image-grants": (*Server).imageGrantOptions, "members": (*Server).memberOptions,
	"vm-networks": (*Server).vmNetworkOptions, "luns": (*Server).lunOptions, "group-grants": (*Server).portGroupGrantOptions,
	"default-pools": (*Server).poolOptions, "default-networks": (*Server).projectNetworkOptions,
	"leave-targets": (*Server).migrateOptions, "vms": (*Server).vmOptions, "templates": (*Server).versionOptions, "template-grants": (*Server).templateGrantOptions,
}

// emptyOptionTexts is the text of the option that chooses nothing, by key of choosers.
var emptyOptionTexts = map[string]string{"default-pools": "None (most free space)", "default-networks": "None (NAT network)", "luns": "Choose a volume", "hosts": "Choose for me", "images": "Choose an image", "isos": "Empty", "discs": "Empty", "files": "None", "leave-targets": "Choose the host", "vms": "Choose a VM", "templates": "Choose a template"}

// selectOptions returns the options of a form's select, with the chosen options and a link to all options.
func (s *Server) selectOptions(ctx context.Context, a fleet.Actor, c optionQuery) (kit.SelectChoices, error) {
	all, err := optionReaders[c.kind](s, ctx, a, c)
	if err != nil {
		return kit.SelectChoices{}, err
	}
	out := kit.SelectChoices{Options: all}
	if len(all) > maxOptions && !c.showAll {
		out.Options = c.matchingOptions(all)
		out.Search = kit.Link{Path: "/choices/" + c.kind}.With("of", c.parentID).String()
		page, _ := url.Parse(c.formAddress) // the page's template wrote the address, so it parses
		out.All = kit.Link{Path: page.Path, Query: page.Query()}.With("all", "1").String()
	}
	if text, ok := emptyOptionTexts[c.kind]; ok {
		out.Options = slices.Concat([]kit.Option{{Text: text}}, out.Options)
	}
	return out, nil
}

// matchingOptions returns the options that contain the search text, up to the limit. The chosen options are always
// included.
func (c optionQuery) matchingOptions(all []kit.Option) []kit.Option {
	part := strings.ToLower(c.text)
	var out []kit.Option
	for _, o := range all {
		if !strings.Contains(strings.ToLower(o.Text), part) {
			continue
		}
		if len(out) < maxOptions || slices.Contains(c.chosen, o.Value) {
			out = append(out, o)
		}
	}
	return out
}

// showSelectOptions returns the options of a select that match the search text.
func (s *Server) showSelectOptions(c echo.Context, a fleet.Actor) error {
	q := optionQuery{kind: c.Param("noun"), parentID: c.QueryParam("of"), text: strings.TrimSpace(c.QueryParam("q"))}
	list, ok := optionReaders[q.kind]
	if !ok {
		return fleet.Errorf(fleet.NotFound, "There is no select of this kind.")
	}
	all, err := list(s, c.Request().Context(), a, q)
	if err != nil {
		return err
	}
	found := q.matchingOptions(all)
	// Browsers choose the first option, so a search puts its first match there. Without a search text the option for
	// "no choice" comes first.
	switch text, ok := emptyOptionTexts[q.kind]; {
	case ok && q.text == "":
		found = slices.Insert(found, 0, kit.Option{Text: text})
	case ok:
		found = append(found, kit.Option{Text: text})
	// pools and networks have "Default" in place of "no choice"
	case q.text == "" && (q.kind == "pools" || q.kind == "networks") && len(found) > 0:
		found = slices.Insert(found, 0, kit.Option{Text: "Default"})
	case len(found) == 0:
		found = []kit.Option{{Text: "No name contains this text"}}
	}
	return s.writePage(c, http.StatusOK, kit.OptionElements(found, ""))
}

// projectOptions lists the projects where the user may create VMs.
func (s *Server) projectOptions(ctx context.Context, a fleet.Actor, _ optionQuery) ([]kit.Option, error) {
	return s.projectOptionsWhere(ctx, a, func(id fleet.ProjectID) bool { return policy.May(a, policy.VMChange, id) })
}

func (s *Server) projectOptionsWhere(ctx context.Context, a fleet.Actor, fit func(fleet.ProjectID) bool) ([]kit.Option, error) {
	projects, err := query.ReadAllPages(ctx, a, fleet.Query{}, s.Control.ListProjects)
	var out []kit.Option
	for _, p := range projects {
		if fit(p.ID) {
			out = append(out, kit.Option{Value: string(p.ID), Text: p.Name})
		}
	}
	return out, err
}

// hostOptions lists hosts. It reads only the hosts that the select shows, because there may be ten thousand.
func (s *Server) hostOptions(ctx context.Context, a fleet.Actor, c optionQuery) ([]kit.Option, error) {
	if !policy.May(a, policy.InfraSee, "") || strings.ContainsAny(c.text, `"\`) {
		return nil, nil
	}
	list := s.Control.ListHosts
	q := fleet.Query{Limit: maxOptions + 1}
	if c.text != "" {
		q.Filter = strconv.Quote(c.text)
	}
	var hosts []fleet.HostView
	if c.showAll {
		var err error
		if hosts, err = query.ReadAllPages(ctx, a, q, list); err != nil {
			return nil, err
		}
	} else {
		page, err := list(ctx, a, q)
		if err != nil {
			return nil, err
		}
		hosts = page.Items
	}
	for _, id := range c.chosen {
		if id == "" || slices.ContainsFunc(hosts, func(h fleet.HostView) bool { return string(h.ID) == id }) {
			continue
		}
		// if the host no longer exists, nothing is chosen
		if h, err := s.Control.GetHost(ctx, a, fleet.HostID(id)); err == nil {
			hosts = append(hosts, h)
		}
	}
	var out []kit.Option
	for _, h := range hosts {
		text := h.Name
		if h.Phase != fleet.HostOnline {
			text += " (" + strings.ToLower(h.Phase.DisplayName()) + ")"
		}
		out = append(out, kit.Option{Value: string(h.ID), Text: text})
	}
	return out, nil
}

func (s *Server) poolOptions(ctx context.Context, a fleet.Actor, c optionQuery) ([]kit.Option, error) {
	pools, err := slices.Clone(c.pools), error(nil)
	if c.pools == nil {
		pools, err = query.ReadAllPages(ctx, a, fleet.Query{}, s.Control.ListPools)
	}
	// Forms choose the first pool by default, so usable pools come first.
	slices.SortStableFunc(pools, func(p, q fleet.PoolView) int { return cmp.Compare(poolUnusableRank(p), poolUnusableRank(q)) })
	var out []kit.Option
	for _, p := range pools {
		if is := p.Spec.Kind.Info(); is.Kind != "" && !is.CreatesVolumes {
			continue // raw disks of a block pool are chosen individually
		}
		text := p.Name
		if poolUnusableRank(p) > 0 {
			text += " · healthy on no host"
		} else if p.Health.CapacityBytes > 0 {
			text += " · " + poolFreeSpaceText(p.Health)
		}
		out = append(out, kit.Option{Value: string(p.ID), Text: text})
	}
	return out, err
}

func (s *Server) imageOptions(ctx context.Context, a fleet.Actor, c optionQuery) ([]kit.Option, error) {
	library, err := s.Control.UsableImages(ctx, a, "")
	if err != nil {
		return nil, err
	}
	var out []kit.Option
	for _, v := range library {
		for _, x := range v.Versions {
			out = append(out, kit.Option{Value: vmview.LibraryImageValue(v.ID, x.ID), Text: query.ImageTitle(v, x)})
		}
	}
	if !policy.May(a, policy.InfraChange, "") {
		return out, nil
	}
	if c.media == nil {
		all, err := s.Control.Media(ctx, a)
		if err != nil {
			return nil, err
		}
		c.media = &all
	}
	for _, v := range c.media.Images { // unpublished images, which only infrastructure administrators may use
		if v.Published == nil {
			out = append(out, volumeOption(v))
		}
	}
	return out, nil
}

// imageGrantOptions lists the projects that image c.parentID is not published to; none if the image is published to
// all.
func (s *Server) imageGrantOptions(ctx context.Context, a fleet.Actor, c optionQuery) ([]kit.Option, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	v, err := s.Control.GetImage(ctx, a, fleet.ImageID(c.parentID))
	if err != nil {
		return nil, err
	}
	open := map[fleet.ProjectID]bool{}
	for _, g := range v.Grants {
		open[g.ProjectID] = true
	}
	if open[""] {
		return nil, nil
	}
	out, err := s.projectOptionsWhere(ctx, a, func(id fleet.ProjectID) bool { return !open[id] })
	return append(out, kit.Option{Value: networkview.GrantToAllProjects, Text: "All projects"}), err
}

// templateGrantOptions lists the projects that template c.parentID is not published to; none if the template is
// published to all.
func (s *Server) templateGrantOptions(ctx context.Context, a fleet.Actor, c optionQuery) ([]kit.Option, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	v, err := s.Control.GetTemplate(ctx, a, fleet.TemplateID(c.parentID))
	if err != nil || v.OpenTo("") {
		return nil, err
	}
	out, err := s.projectOptionsWhere(ctx, a, func(id fleet.ProjectID) bool { return !v.OpenTo(id) })
	return append(out, kit.Option{Value: networkview.GrantToAllProjects, Text: "All projects"}), err
}

func (s *Server) networkOptions(ctx context.Context, a fleet.Actor, c optionQuery) ([]kit.Option, error) {
	networks, err := c.networks, error(nil)
	if networks == nil {
		networks, err = s.Control.UsableNetworks(ctx, a)
	}
	var out []kit.Option
	for _, n := range networks {
		out = append(out, networkOption(a, n))
	}
	if err != nil {
		return out, err
	}
	return s.appendPortGroupOptions(ctx, a, out, nil)
}

// projectNetworkOptions lists the networks that project c.parentID may use; the option values are network ids.
func (s *Server) projectNetworkOptions(ctx context.Context, a fleet.Actor, c optionQuery) ([]kit.Option, error) {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return nil, err
	}
	networks, err := s.Control.UsableNetworks(ctx, a)
	var out []kit.Option
	for _, n := range networks {
		if n.OpenTo(fleet.ProjectID(c.parentID)) || slices.Contains(c.chosen, string(n.ID)) {
			out = append(out, kit.Option{Value: string(n.ID), Text: networkOption(a, n).Text})
		}
	}
	return out, err
}

// vmNetworkOptions lists the networks for VM c.parentID. A NIC keeps its current network, even where the user could
// not choose it now.
func (s *Server) vmNetworkOptions(ctx context.Context, a fleet.Actor, c optionQuery) ([]kit.Option, error) {
	networks, err := c.networks, error(nil)
	if networks == nil {
		networks, err = s.Control.NetworksForVM(ctx, a, fleet.VMID(c.parentID))
	}
	var out []kit.Option
	for _, n := range networks {
		out = append(out, networkOption(a, n))
	}
	if err == nil {
		out, err = s.appendPortGroupOptions(ctx, a, out, networks)
	}
	for _, value := range c.chosen {
		if _, name, ok := strings.Cut(value, ":"); ok && !slices.ContainsFunc(out, func(o kit.Option) bool { return o.Value == value }) {
			out = append(out, kit.Option{Value: value, Text: name})
		}
	}
	return out, err
}

// networkGrantOptions lists the projects without access to network c.parentID; none if all projects have access.
func (s *Server) networkGrantOptions(ctx context.Context, a fleet.Actor, c optionQuery) ([]kit.Option, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	n, err := s.Control.NetworkBrief(ctx, a, fleet.NetworkID(c.parentID))
	if err != nil {
		return nil, err
	}
	open := map[fleet.ProjectID]bool{}
	for _, g := range n.Grants {
		open[g.ProjectID] = true
	}
	if open[""] {
		return nil, nil
	}
	out, err := s.projectOptionsWhere(ctx, a, func(id fleet.ProjectID) bool { return !open[id] })
	return append(out, kit.Option{Value: networkview.GrantToAllProjects, Text: "All projects"}), err
}

// memberOptions lists the users who can become members of project c.parentID: users who are not members yet and have
// no role in all projects.
func (s *Server) memberOptions(ctx context.Context, a fleet.Actor, c optionQuery) ([]kit.Option, error) {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return nil, err
	}
	members, err := s.Control.ListMembers(ctx, a, fleet.ProjectID(c.parentID))
	if err != nil {
		return nil, err
	}
	users, err := query.ReadAllPages(ctx, a, fleet.Query{}, s.Control.ListUsers)
	var out []kit.Option
	for _, u := range users {
		isMember := slices.ContainsFunc(members, func(m identity.Member) bool { return m.UserID == u.ID })
		if !isMember && !u.Role.Info().Fleet.Has(fleet.MayChangeVMs) {
			out = append(out, kit.Option{Value: string(u.ID), Text: u.Name})
		}
	}
	return out, err
}
