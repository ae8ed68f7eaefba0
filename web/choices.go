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

// mostChoices is how many options a select shows. Where there are more, one searches for a part of the text.
const mostChoices = 40

// pick is what somebody chooses from: a key of choosers, for a thing that it depends on.
type pick struct {
	typ  string
	of   string   // id of that thing; empty: none
	text string   // part of the text of the options to show
	now  []string // values that are shown in any case: those chosen now
	page string   // of the form, which shows all options where its query has "all": for browsers without scripts
	all  bool

	media    *query.Media            // where it was read for another choice already
	targets  []fleet.MigrationTarget // likewise
	pools    []fleet.PoolView        // likewise
	networks []fleet.NetworkView     // likewise
}

// chooser lists options. It may leave out those without c.text in theirs, and those that do not fit any more.
type chooser func(s *Server, ctx context.Context, a fleet.Actor, c pick) ([]kit.Option, error)

var choosers = map[string]chooser{
	"projects": (*Server).projectOptions, "hosts": (*Server).hostOptions, "pools": (*Server).poolOptions, "images": (*Server).imageOptions,
	"isos": (*Server).isoOptions, "discs": (*Server).discOptions, "files": (*Server).fileOptions, "networks": (*Server).networkOptions, "grants": (*Server).grantOptions, "image-grants": (*Server).imageGrantOptions, "members": (*Server).memberOptions,
	"vm-networks": (*Server).vmNetworkOptions, "luns": (*Server).lunOptions, "group-grants": (*Server).groupGrantOptions,
	"default-pools": (*Server).poolOptions, "default-networks": (*Server).projectNetworkOptions,
	"leave-targets": (*Server).migrateOptions, "vms": (*Server).vmOptions, "templates": (*Server).versionOptions, "template-grants": (*Server).templateGrantOptions,
}

// unchosen is the option that stands for no choice, where that is one.
var unchosen = map[string]string{"default-pools": "None (most free space)", "default-networks": "None (NAT network)", "luns": "Choose a volume", "hosts": "Choose for me", "images": "Choose an image", "isos": "Empty", "discs": "Empty", "files": "None", "leave-targets": "Choose the host", "vms": "Choose a VM", "templates": "Choose a template"}

// choose fills a select of a form.
func (s *Server) choose(ctx context.Context, a fleet.Actor, c pick) (kit.Choices, error) {
	all, err := choosers[c.typ](s, ctx, a, c)
	if err != nil {
		return kit.Choices{}, err
	}
	out := kit.Choices{Options: all}
	if len(all) > mostChoices && !c.all {
		out.Options = c.fitting(all)
		out.Search = kit.Link{Path: "/choices/" + c.typ}.With("of", c.of).String()
		page, _ := url.Parse(c.page) // written below
		out.All = kit.Link{Path: page.Path, Query: page.Query()}.With("all", "1").String()
	}
	if text, ok := unchosen[c.typ]; ok {
		out.Options = slices.Concat([]kit.Option{{Text: text}}, out.Options)
	}
	return out, nil
}

// fitting are the options with the text in theirs, as many as fit, and the present one.
func (c pick) fitting(all []kit.Option) []kit.Option {
	part := strings.ToLower(c.text)
	var out []kit.Option
	for _, o := range all {
		if !strings.Contains(strings.ToLower(o.Text), part) {
			continue
		}
		if len(out) < mostChoices || slices.Contains(c.now, o.Value) {
			out = append(out, o)
		}
	}
	return out
}

// choicesPage answers what is searched for among a select's options.
func (s *Server) choicesPage(c echo.Context, a fleet.Actor) error {
	q := pick{typ: c.Param("noun"), of: c.QueryParam("of"), text: strings.TrimSpace(c.QueryParam("q"))}
	list, ok := choosers[q.typ]
	if !ok {
		return fleet.Errorf(fleet.NotFound, "There are no such choices.")
	}
	all, err := list(s, c.Request().Context(), a, q)
	if err != nil {
		return err
	}
	found := q.fitting(all)
	// The first that fits is chosen; what stands for no choice comes first only where nothing was asked for.
	switch text, ok := unchosen[q.typ]; {
	case ok && q.text == "":
		found = slices.Insert(found, 0, kit.Option{Text: text})
	case ok:
		found = append(found, kit.Option{Text: text})
	case q.text == "" && (q.typ == "pools" || q.typ == "networks") && len(found) > 0: // none is the first of a list
		found = slices.Insert(found, 0, kit.Option{Text: "Default"})
	case len(found) == 0:
		found = []kit.Option{{Text: "Nothing has this in its name"}}
	}
	return s.write(c, http.StatusOK, kit.Options(found, ""))
}

// projectOptions are those in which the person may make VMs.
func (s *Server) projectOptions(ctx context.Context, a fleet.Actor, _ pick) ([]kit.Option, error) {
	return s.projectsThat(ctx, a, func(id fleet.ProjectID) bool { return policy.May(a, policy.VMChange, id) })
}

func (s *Server) projectsThat(ctx context.Context, a fleet.Actor, fit func(fleet.ProjectID) bool) ([]kit.Option, error) {
	projects, err := query.Every(ctx, a, fleet.Query{}, s.Control.ListProjects)
	var out []kit.Option
	for _, p := range projects {
		if fit(p.ID) {
			out = append(out, kit.Option{Value: string(p.ID), Text: p.Name})
		}
	}
	return out, err
}

// hostOptions asks the database for the few that are shown: there may be ten thousand.
func (s *Server) hostOptions(ctx context.Context, a fleet.Actor, c pick) ([]kit.Option, error) {
	if !policy.May(a, policy.InfraSee, "") || strings.ContainsAny(c.text, `"\`) {
		return nil, nil
	}
	list := s.Control.ListHosts
	q := fleet.Query{Limit: mostChoices + 1}
	if c.text != "" {
		q.Filter = strconv.Quote(c.text)
	}
	var hosts []fleet.HostView
	if c.all {
		var err error
		if hosts, err = query.Every(ctx, a, q, list); err != nil {
			return nil, err
		}
	} else {
		page, err := list(ctx, a, q)
		if err != nil {
			return nil, err
		}
		hosts = page.Items
	}
	for _, id := range c.now {
		if id == "" || slices.ContainsFunc(hosts, func(h fleet.HostView) bool { return string(h.ID) == id }) {
			continue
		}
		if h, err := s.Control.GetHost(ctx, a, fleet.HostID(id)); err == nil { // else it is gone: nothing is chosen
			hosts = append(hosts, h)
		}
	}
	var out []kit.Option
	for _, h := range hosts {
		text := h.Name
		if h.Phase != fleet.HostOnline {
			text += " (" + strings.ToLower(h.Phase.Word()) + ")"
		}
		out = append(out, kit.Option{Value: string(h.ID), Text: text})
	}
	return out, nil
}

func (s *Server) poolOptions(ctx context.Context, a fleet.Actor, c pick) ([]kit.Option, error) {
	pools, err := slices.Clone(c.pools), error(nil)
	if c.pools == nil {
		pools, err = query.Every(ctx, a, fleet.Query{}, s.Control.ListPools)
	}
	// The first is chosen where nobody chooses: it must be one that works.
	slices.SortStableFunc(pools, func(p, q fleet.PoolView) int { return cmp.Compare(useless(p), useless(q)) })
	var out []kit.Option
	for _, p := range pools {
		if is := p.Spec.Kind.Is(); is.Kind != "" && !is.Makes {
			continue // its volumes are chosen themselves
		}
		text := p.Name
		if useless(p) > 0 {
			text += " · healthy on no host"
		} else if p.Health.CapacityBytes > 0 {
			text += " · " + poolRoom(p.Health)
		}
		out = append(out, kit.Option{Value: string(p.ID), Text: text})
	}
	return out, err
}

func (s *Server) imageOptions(ctx context.Context, a fleet.Actor, c pick) ([]kit.Option, error) {
	library, err := s.Control.UsableImages(ctx, a, "")
	if err != nil {
		return nil, err
	}
	var out []kit.Option
	for _, v := range library {
		for _, x := range v.Versions {
			out = append(out, kit.Option{Value: vmview.LibraryImage(v.ID, x.ID), Text: query.ImageTitle(v, x)})
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
	for _, v := range c.media.Images { // who runs the hosts may take any other file, too
		if v.Published == nil {
			out = append(out, volumeChoice(v))
		}
	}
	return out, nil
}

// imageGrantOptions are the projects that the image c.of is not published to; none where it is published to all.
func (s *Server) imageGrantOptions(ctx context.Context, a fleet.Actor, c pick) ([]kit.Option, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	v, err := s.Control.GetImage(ctx, a, fleet.ImageID(c.of))
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
	out, err := s.projectsThat(ctx, a, func(id fleet.ProjectID) bool { return !open[id] })
	return append(out, kit.Option{Value: networkview.GrantAll, Text: "All projects"}), err
}

// templateGrantOptions are the projects that the template c.of is not published to; likewise.
func (s *Server) templateGrantOptions(ctx context.Context, a fleet.Actor, c pick) ([]kit.Option, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	v, err := s.Control.GetTemplate(ctx, a, fleet.TemplateID(c.of))
	if err != nil || v.OpenTo("") {
		return nil, err
	}
	out, err := s.projectsThat(ctx, a, func(id fleet.ProjectID) bool { return !v.OpenTo(id) })
	return append(out, kit.Option{Value: networkview.GrantAll, Text: "All projects"}), err
}

// lunOptions are volumes that their storage has made and no VM uses, for those who may give them away.
func (s *Server) lunOptions(ctx context.Context, a fleet.Actor, c pick) ([]kit.Option, error) {
	if !policy.May(a, policy.InfraChange, "") {
		return nil, nil
	}
	if c.media != nil {
		return volumeOptions(c.media.LUNs), nil
	}
	luns, err := s.Control.LUNs(ctx, a)
	return volumeOptions(luns), err
}

// isoOptions are the ISO images, with the present one also where its pool is not heard.
func (s *Server) isoOptions(ctx context.Context, a fleet.Actor, c pick) ([]kit.Option, error) {
	return s.mediaOptions(ctx, a, c, func(all *query.Media) []query.VolumeOn { return all.ISOs })
}

// discOptions are what goes into further drives: ISO images and floppies.
func (s *Server) discOptions(ctx context.Context, a fleet.Actor, c pick) ([]kit.Option, error) {
	return s.mediaOptions(ctx, a, c, func(all *query.Media) []query.VolumeOn {
		return slices.Concat(all.ISOs, plainOnes(all.Images, fleet.MaxFloppyBytes))
	})
}

// fileOptions are plain files, such as kernels.
func (s *Server) fileOptions(ctx context.Context, a fleet.Actor, c pick) ([]kit.Option, error) {
	return s.mediaOptions(ctx, a, c, func(all *query.Media) []query.VolumeOn { return plainOnes(all.Images, 1<<30) })
}

func (s *Server) mediaOptions(ctx context.Context, a fleet.Actor, c pick, of func(*query.Media) []query.VolumeOn) ([]kit.Option, error) {
	if c.media == nil {
		all, err := s.Control.Media(ctx, a)
		if err != nil {
			return nil, err
		}
		c.media = &all
	}
	return c.among(of(c.media)), nil
}

// plainOnes are the plain files of at most as many bytes.
func plainOnes(all []query.VolumeOn, most int64) []query.VolumeOn {
	return slices.DeleteFunc(slices.Clone(all), func(v query.VolumeOn) bool { return !v.IsPlain() || v.CapacityBytes > most })
}

// among are the volumes as options, and what is chosen now.
func (c pick) among(all []query.VolumeOn) []kit.Option {
	out := volumeOptions(all)
	for _, value := range c.now {
		now := volumeOf(value)
		if now.Volume != "" && !slices.ContainsFunc(out, func(o kit.Option) bool { return o.Value == value }) {
			out = append(out, kit.Option{Value: value, Text: now.Volume})
		}
	}
	return out
}

func volumeOptions(volumes []query.VolumeOn) (out []kit.Option) {
	for _, v := range volumes {
		out = append(out, volumeChoice(v))
	}
	return out
}

func (s *Server) networkOptions(ctx context.Context, a fleet.Actor, c pick) ([]kit.Option, error) {
	networks, err := c.networks, error(nil)
	if networks == nil {
		networks, err = s.Control.UsableNetworks(ctx, a)
	}
	var out []kit.Option
	for _, n := range networks {
		out = append(out, networkChoice(a, n))
	}
	if err != nil {
		return out, err
	}
	return s.withGroups(ctx, a, out, nil)
}

// projectNetworkOptions are the networks that are open to the project c.of, each by its id.
func (s *Server) projectNetworkOptions(ctx context.Context, a fleet.Actor, c pick) ([]kit.Option, error) {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return nil, err
	}
	networks, err := s.Control.UsableNetworks(ctx, a)
	var out []kit.Option
	for _, n := range networks {
		if n.OpenTo(fleet.ProjectID(c.of)) || slices.Contains(c.now, string(n.ID)) {
			out = append(out, kit.Option{Value: string(n.ID), Text: networkChoice(a, n).Text})
		}
	}
	return out, err
}

// vmNetworkOptions are those that the VM c.of can be put on. A NIC stays where it is, though nobody could put it there now.
func (s *Server) vmNetworkOptions(ctx context.Context, a fleet.Actor, c pick) ([]kit.Option, error) {
	networks, err := c.networks, error(nil)
	if networks == nil {
		networks, err = s.Control.NetworksFor(ctx, a, fleet.VMID(c.of))
	}
	var out []kit.Option
	for _, n := range networks {
		out = append(out, networkChoice(a, n))
	}
	if err == nil {
		out, err = s.withGroups(ctx, a, out, networks)
	}
	for _, value := range c.now {
		if _, name, ok := strings.Cut(value, ":"); ok && !slices.ContainsFunc(out, func(o kit.Option) bool { return o.Value == value }) {
			out = append(out, kit.Option{Value: value, Text: name})
		}
	}
	return out, err
}

// grantOptions are the projects that the network c.of is not open to; none where it is open to all.
func (s *Server) grantOptions(ctx context.Context, a fleet.Actor, c pick) ([]kit.Option, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	n, err := s.Control.NetworkBrief(ctx, a, fleet.NetworkID(c.of))
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
	out, err := s.projectsThat(ctx, a, func(id fleet.ProjectID) bool { return !open[id] })
	return append(out, kit.Option{Value: networkview.GrantAll, Text: "All projects"}), err
}

// memberOptions are the people who are no members of the project c.of yet, and whose role does not reach all projects anyway.
func (s *Server) memberOptions(ctx context.Context, a fleet.Actor, c pick) ([]kit.Option, error) {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return nil, err
	}
	members, err := s.Control.ListMembers(ctx, a, fleet.ProjectID(c.of))
	if err != nil {
		return nil, err
	}
	users, err := query.Every(ctx, a, fleet.Query{}, s.Control.ListUsers)
	var out []kit.Option
	for _, u := range users {
		isMember := slices.ContainsFunc(members, func(m identity.Member) bool { return m.UserID == u.ID })
		if !isMember && u.Role != fleet.RoleAdmin && u.Role != fleet.RoleOperator {
			out = append(out, kit.Option{Value: string(u.ID), Text: u.Name})
		}
	}
	return out, err
}
