package options

import (
	"context"
	"slices"
	"strings"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views/kit"
	vmview "quantix/views/vm"
)

func (r *Reader) networkOptions(ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error) {
	networks, err := c.Networks, error(nil)
	if networks == nil {
		networks, err = r.Control.UsableNetworks(ctx, a)
	}
	var out []kit.Option
	for _, n := range networks {
		out = append(out, networkOption(a, n))
	}
	if err != nil {
		return out, err
	}
	return r.appendPortGroupOptions(ctx, a, out, nil)
}

// projectNetworkOptions lists the networks that project c.ParentID may use; the option values are network ids.
func (r *Reader) projectNetworkOptions(ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error) {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return nil, err
	}
	networks, err := r.Control.UsableNetworks(ctx, a)
	var out []kit.Option
	for _, n := range networks {
		if n.OpenToProject(fleet.ProjectID(c.ParentID)) || slices.Contains(c.Chosen, string(n.ID)) {
			out = append(out, kit.Option{Value: string(n.ID), Text: networkOption(a, n).Text})
		}
	}
	return out, err
}

// vmNetworkOptions lists the networks for VM c.ParentID. It includes the current networks of the VM's NICs, even those
// that the user may no longer choose.
func (r *Reader) vmNetworkOptions(ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error) {
	networks, err := c.Networks, error(nil)
	if networks == nil {
		networks, err = r.Control.NetworksForVM(ctx, a, fleet.VMID(c.ParentID))
	}
	var out []kit.Option
	for _, n := range networks {
		out = append(out, networkOption(a, n))
	}
	if err == nil {
		out, err = r.appendPortGroupOptions(ctx, a, out, networks)
	}
	for _, value := range c.Chosen {
		if _, name, ok := strings.Cut(value, ":"); ok && !slices.ContainsFunc(out, func(o kit.Option) bool { return o.Value == value }) {
			out = append(out, kit.Option{Value: value, Text: name})
		}
	}
	return out, err
}

// networkGrantOptions lists the projects that network c.ParentID is not published to; none if it is published to all.
func (r *Reader) networkGrantOptions(ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	n, err := r.Control.NetworkBrief(ctx, a, fleet.NetworkID(c.ParentID))
	if err != nil {
		return nil, err
	}
	return r.grantOptions(ctx, a, c, fleet.ProjectGrants(n.Grants))
}

func networkOption(a fleet.Actor, n fleet.NetworkView) kit.Option {
	kind := "network"
	if n.Kind == fleet.NetworkBridge {
		kind = "bridge"
	}
	text := kind + " " + n.Name
	if policy.May(a, policy.InfraSee, "") {
		text += " · " + kit.CountText(n.Health.Hosts, "host")
	} else if n.Health.Active == 0 {
		text += " · not available now"
	}
	return kit.Option{Value: vmview.NetworkValue(n.Kind, n.Name), Text: text + onlyInText(a, fleet.ProjectGrants(n.Grants))}
}

// onlyInText names the user's projects that a pool or network is published to; empty: to all, or the user may use it in
// every project, or has only one project.
func onlyInText(a fleet.Actor, grants []fleet.ProjectGrant) string {
	if fleet.GrantedTo("", grants) || policy.May(a, policy.InfraChange, "") || len(a.Projects) == 1 {
		return ""
	}
	var projects []string
	for _, g := range grants {
		projects = append(projects, g.ProjectName)
	}
	return " · only in " + strings.Join(projects, ", ")
}

// portGroupOption returns the select option that connects a NIC to a port group.
func portGroupOption(network, group string) kit.Option {
	return kit.Option{Value: string(fleet.NetworkLibvirt) + ":" + network + "/" + group, Text: "network " + network + " · port group " + group}
}

// appendPortGroupOptions appends to out the port groups that the user may connect NICs to: of the given networks, or of
// all networks if none is given.
func (r *Reader) appendPortGroupOptions(ctx context.Context, a fleet.Actor, out []kit.Option, of []fleet.NetworkView) ([]kit.Option, error) {
	groups, err := r.Control.UsablePortGroups(ctx, a)
	for _, g := range groups {
		if of == nil || slices.ContainsFunc(of, func(n fleet.NetworkView) bool { return n.ID == g.NetworkID }) {
			out = append(out, portGroupOption(g.Network, g.Name))
		}
	}
	return out, err
}

// portGroupGrantOptions lists the projects that can get access to a port group, and a first option for all projects.
func (r *Reader) portGroupGrantOptions(ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	projects, err := r.projectOptions(ctx, a, c)
	return append([]kit.Option{{Value: kit.GrantToAllProjects, Text: "All projects"}}, projects...), err
}
