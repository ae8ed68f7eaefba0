// Package options lists the options of the selects in forms: options.go has the kinds of selects and the search, the
// other files read the options of one resource type.
package options

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"quantix/internal/control"
	"quantix/internal/control/identity"
	"quantix/internal/control/query"
	"quantix/internal/flavor"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views/kit"
	vmview "quantix/views/vm"
)

// maxOptions is the maximum number of options that a select shows. Users find other options by text search.
const maxOptions = 40

// Reader reads the options of selects.
type Reader struct{ Control *control.Control }

// Query is one query for the options of a select. Kind is a key of optionReaders.
type Query struct {
	Kind        string
	ParentID    string   // id of the object that the options are for, such as a project; empty: none
	Text        string   // search text; only options that contain it are shown
	Chosen      []string // currently chosen values, which are always shown
	FormAddress string   // address of the form. With "all" in its query, the form shows all options, for browsers without JavaScript.
	ShowAll     bool

	Media    *query.Media            // set if another select of the same form has already read them
	Targets  []fleet.MigrationTarget // set if already read
	Pools    []fleet.PoolView        // set if already read
	Networks []fleet.NetworkView     // set if already read
}

// optionReader lists the options of one kind of select. It may omit options that do not contain c.Text, and options
// beyond maxOptions.
type optionReader func(r *Reader, ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error)

var optionReaders = map[string]optionReader{
	"projects": (*Reader).projectOptions, "hosts": (*Reader).hostOptions, "pools": (*Reader).PoolOptions, "images": (*Reader).imageOptions,
	"isos": (*Reader).isoOptions, "discs": (*Reader).removableMediaOptions, "files": (*Reader).fileOptions, "networks": (*Reader).networkOptions, "grants": (*Reader).networkGrantOptions, "pool-grants": (*Reader).poolGrantOptions, "image-grants": (*Reader).imageGrantOptions, "members": (*Reader).memberOptions,
	"vm-networks": (*Reader).vmNetworkOptions, "luns": (*Reader).lunOptions, "group-grants": (*Reader).portGroupGrantOptions,
	"default-pools": (*Reader).projectPoolOptions, "quota-pools": (*Reader).PoolOptions, "default-networks": (*Reader).projectNetworkOptions,
	"leave-targets": (*Reader).migrationTargetOptions, "vms": (*Reader).vmOptions, "templates": (*Reader).templateVersionOptions, "template-grants": (*Reader).templateGrantOptions,
	"flavor-grants": (*Reader).flavorGrantOptions, "request-pools": (*Reader).unpublishedPoolOptions, "request-networks": (*Reader).unpublishedNetworkOptions,
	"customization-grants": (*Reader).customizationGrantOptions,
	"device-classes":       (*Reader).deviceClassOptions, "device-class-grants": (*Reader).deviceClassGrantOptions,
}

// emptyOptionTexts is the text of the option that chooses nothing, by key of optionReaders.
var emptyOptionTexts = map[string]string{"default-pools": "None", "quota-pools": "None", "default-networks": "None", "luns": "Choose a volume", "hosts": "Choose for me", "images": "Choose an image", "isos": "Empty", "discs": "Empty", "files": "None", "leave-targets": "Choose the host", "vms": "Choose a VM", "templates": "Choose a template", "request-pools": "Choose a pool", "request-networks": "Choose a network", "device-classes": "Choose a device class"}

// chooseProjectText is the first option of the selects of projects that an object can be published to. No project is
// preselected.
const chooseProjectText = "Choose a project"

// isGrantKind reports whether the select lists projects that an object can be published to.
func isGrantKind(kind string) bool { return kind == "grants" || strings.HasSuffix(kind, "-grants") }

// Choices returns the options of a form's select, with the chosen options and a link to all options.
func (r *Reader) Choices(ctx context.Context, a fleet.Actor, c Query) (kit.SelectChoices, error) {
	all, err := optionReaders[c.Kind](r, ctx, a, c)
	if err != nil {
		return kit.SelectChoices{}, err
	}
	out := kit.SelectChoices{Options: all}
	if len(all) > maxOptions && !c.ShowAll {
		out.Options = c.matchingOptions(all)
		out.Search = kit.Link{Path: "/choices/" + c.Kind}.With("of", c.ParentID).String()
		page, _ := url.Parse(c.FormAddress) // the page's template wrote the address, so it parses
		out.All = kit.Link{Path: page.Path, Query: page.Query()}.With("all", "1").String()
	}
	if isGrantKind(c.Kind) && len(out.Options) > 0 {
		out.Options = slices.Concat([]kit.Option{{Text: chooseProjectText}}, out.Options)
	}
	if text, ok := emptyOptionTexts[c.Kind]; ok {
		out.Options = slices.Concat([]kit.Option{{Text: text}}, out.Options)
	}
	return out, nil
}

// matchingOptions returns the options that contain the search text, up to the limit. The chosen options are always
// included.
func (c Query) matchingOptions(all []kit.Option) []kit.Option {
	part := strings.ToLower(c.Text)
	var out []kit.Option
	for _, o := range all {
		if !strings.Contains(strings.ToLower(o.Text), part) {
			continue
		}
		if len(out) < maxOptions || slices.Contains(c.Chosen, o.Value) {
			out = append(out, o)
		}
	}
	return out
}

// Search returns the options of a select that match the query's search text, as the select shows them.
func (r *Reader) Search(ctx context.Context, a fleet.Actor, q Query) ([]kit.Option, error) {
	list, ok := optionReaders[q.Kind]
	if !ok {
		return nil, fleet.Errorf(fleet.NotFound, "This kind of option list does not exist.")
	}
	all, err := list(r, ctx, a, q)
	if err != nil {
		return nil, err
	}
	found := q.matchingOptions(all)
	// Browsers preselect the first option. After a search, the first option is the first match. Without a search text,
	// the first option is the empty option, which chooses nothing.
	switch text, ok := emptyOptionTexts[q.Kind]; {
	case isGrantKind(q.Kind) && q.Text == "" && len(found) > 0:
		found = slices.Insert(found, 0, kit.Option{Text: chooseProjectText})
	case ok && q.Text == "":
		found = slices.Insert(found, 0, kit.Option{Text: text})
	case ok:
		found = append(found, kit.Option{Text: text})
	// Selects of pools and networks have the option "Default" instead of an empty option.
	case q.Text == "" && (q.Kind == "pools" || q.Kind == "networks") && len(found) > 0:
		found = slices.Insert(found, 0, kit.Option{Text: "Default"})
	case len(found) == 0:
		found = []kit.Option{{Text: "No name contains this text"}}
	}
	return found, nil
}

// projectOptions lists the projects where the user may create VMs.
func (r *Reader) projectOptions(ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error) {
	return r.projectOptionsWhere(ctx, a, c, func(id fleet.ProjectID) bool { return policy.May(a, policy.VMChange, id) })
}

// projectOptionsWhere lists projects that fit. It reads only as many as the select shows, because there may be ten
// thousand.
func (r *Reader) projectOptionsWhere(ctx context.Context, a fleet.Actor, c Query, fit func(fleet.ProjectID) bool) ([]kit.Option, error) {
	if strings.ContainsAny(c.Text, `"\`) {
		return nil, nil
	}
	q := fleet.Query{Limit: 4 * maxOptions}
	if c.Text != "" {
		q.Filter = strconv.Quote(c.Text)
	}
	var out []kit.Option
	add := func(p fleet.Project) {
		if fit(p.ID) && !slices.ContainsFunc(out, func(o kit.Option) bool { return o.Value == string(p.ID) }) {
			out = append(out, kit.Option{Value: string(p.ID), Text: p.Name})
		}
	}
	for more := true; more && (c.ShowAll || len(out) <= maxOptions); more = q.After != "" {
		page, err := r.Control.ListProjects(ctx, a, q)
		if err != nil {
			return nil, err
		}
		for _, p := range page.Items {
			add(p)
		}
		q.After = page.Next
	}
	for _, id := range c.Chosen {
		if !fleet.IsID(id) {
			continue
		}
		if p, err := r.Control.GetProject(ctx, a, fleet.ProjectID(id)); err == nil { // one that does not exist is omitted
			add(p)
		}
	}
	return out, nil
}

// hostOptions lists hosts. It reads only the hosts that the select shows, because there may be ten thousand.
func (r *Reader) hostOptions(ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error) {
	if !policy.May(a, policy.InfraSee, "") || strings.ContainsAny(c.Text, `"\`) {
		return nil, nil
	}
	list := r.Control.ListHosts
	q := fleet.Query{Limit: maxOptions + 1}
	if c.Text != "" {
		q.Filter = strconv.Quote(c.Text)
	}
	var hosts []fleet.HostView
	if c.ShowAll {
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
	for _, id := range c.Chosen {
		if id == "" || slices.ContainsFunc(hosts, func(h fleet.HostView) bool { return string(h.ID) == id }) {
			continue
		}
		// A chosen host that no longer exists is omitted.
		if h, err := r.Control.GetHost(ctx, a, fleet.HostID(id)); err == nil {
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

func (r *Reader) imageOptions(ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error) {
	library, err := r.Control.UsableImages(ctx, a, "")
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
	if c.Media == nil {
		all, err := r.Control.Media(ctx, a)
		if err != nil {
			return nil, err
		}
		c.Media = &all
	}
	for _, v := range c.Media.Images { // unpublished images, which only infrastructure administrators may use
		if v.Published == nil {
			out = append(out, volumeOption(v))
		}
	}
	return out, nil
}

// grantOptions lists the projects that an object with the grants is not published to; none if it is published to all.
func (r *Reader) grantOptions(ctx context.Context, a fleet.Actor, c Query, grants []fleet.ProjectGrant) ([]kit.Option, error) {
	if fleet.GrantedTo("", grants) {
		return nil, nil
	}
	out, err := r.projectOptionsWhere(ctx, a, c, func(id fleet.ProjectID) bool { return !fleet.GrantedTo(id, grants) })
	return slices.Insert(out, 0, kit.Option{Value: kit.GrantToAllProjects, Text: "All projects"}), err
}

// imageGrantOptions lists the projects that image c.ParentID is not published to; none if the image is published to
// all.
func (r *Reader) imageGrantOptions(ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	v, err := r.Control.GetImage(ctx, a, fleet.ImageID(c.ParentID))
	if err != nil {
		return nil, err
	}
	return r.grantOptions(ctx, a, c, fleet.ProjectGrants(v.Grants))
}

// templateGrantOptions lists the projects that template c.ParentID is not published to; none if the template is
// published to all.
func (r *Reader) templateGrantOptions(ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	v, err := r.Control.GetTemplate(ctx, a, fleet.TemplateID(c.ParentID))
	if err != nil {
		return nil, err
	}
	return r.grantOptions(ctx, a, c, fleet.ProjectGrants(v.Grants))
}

// flavorGrantOptions lists the projects that flavor c.ParentID is not published to; none if the flavor is published to
// all.
func (r *Reader) flavorGrantOptions(ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	v, err := r.Control.GetFlavor(ctx, a, flavor.ID(c.ParentID))
	if err != nil {
		return nil, err
	}
	return r.grantOptions(ctx, a, c, fleet.ProjectGrants(v.Grants))
}

// customizationGrantOptions lists the projects that the fleet-wide customization spec c.ParentID is not published to; none
// if it is published to all.
func (r *Reader) customizationGrantOptions(ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	v, err := r.Control.GetCustomization(ctx, a, fleet.CustomizationID(c.ParentID))
	if err != nil || v.ProjectID != "" {
		return nil, err
	}
	return r.grantOptions(ctx, a, c, v.Grants)
}

// memberOptions lists the users who can become members of project c.ParentID: users who are not members yet and have no
// role in all projects.
func (r *Reader) memberOptions(ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error) {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return nil, err
	}
	members, err := r.Control.ListMembers(ctx, a, fleet.ProjectID(c.ParentID))
	if err != nil {
		return nil, err
	}
	users, err := query.ReadAllPages(ctx, a, fleet.Query{}, r.Control.ListUsers)
	var out []kit.Option
	for _, u := range users {
		isMember := slices.ContainsFunc(members, func(m identity.Member) bool { return m.UserID == u.ID })
		if !isMember && !u.Role.Info().Fleet.Has(fleet.MayChangeVMs) {
			out = append(out, kit.Option{Value: string(u.ID), Text: u.Name})
		}
	}
	return out, err
}
