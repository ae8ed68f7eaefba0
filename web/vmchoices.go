package web

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
)

// choices fills the form's lists with what the person may choose from.
func (s *Server) choices(ctx context.Context, a fleet.Actor, f *views.VMForm) error {
	projects, err := control.Every(ctx, a, fleet.Query{}, s.Control.ListProjects)
	if err != nil {
		return err
	}
	for _, p := range projects {
		if policy.May(a, policy.VMChange, p.ID) {
			f.Projects = append(f.Projects, views.Option{Value: string(p.ID), Text: p.Name})
		}
	}
	f.Hosts = []views.Option{{Value: "", Text: "Choose for me"}}
	if policy.May(a, policy.InfraSee, "") {
		hosts, err := s.Control.ListHosts(ctx, a, fleet.Query{Limit: 500})
		if err != nil {
			return err
		}
		for _, h := range hosts.Items {
			text := h.Name
			if h.Phase != fleet.HostOnline {
				text += " (" + strings.ToLower(h.Phase.Word()) + ")"
			}
			f.Hosts = append(f.Hosts, views.Option{Value: string(h.ID), Text: text})
		}
	}
	return s.storageChoices(ctx, a, f)
}

func (s *Server) storageChoices(ctx context.Context, a fleet.Actor, f *views.VMForm) error {
	pools, err := s.Control.ListPools(ctx, a, fleet.Query{Limit: 500})
	if err != nil {
		return err
	}
	// The first is chosen where nobody chooses: it must be one that works.
	slices.SortStableFunc(pools.Items, func(p, q fleet.PoolView) int { return useless(p) - useless(q) })
	for _, p := range pools.Items {
		text := p.Name
		if useless(p) > 0 {
			text += " · healthy on no host"
		} else if p.Health.CapacityBytes > 0 {
			text += " · " + poolRoom(p.Health)
		}
		f.Pools = append(f.Pools, views.Option{Value: string(p.ID), Text: text})
	}
	images, err := s.Control.Images(ctx, a)
	if err != nil {
		return err
	}
	f.Images = []views.Option{{Value: "", Text: "Choose an image"}}
	for _, v := range images {
		f.Images = append(f.Images, volumeChoice(v))
	}
	if f.ISOs, err = s.isoChoices(ctx, a, nil); err != nil {
		return err
	}
	networks, err := s.Control.UsableNetworks(ctx, a)
	for _, n := range networks {
		f.Networks = append(f.Networks, networkChoice(a, n))
	}
	return err
}

func networkChoice(a fleet.Actor, n fleet.NetworkView) views.Option {
	kind := "network"
	if n.Kind == fleet.NetworkBridge {
		kind = "bridge"
	}
	text := fmt.Sprintf("%s %s · %s", kind, n.Name, views.Count(len(n.Hosts), "host"))
	everywhere := slices.ContainsFunc(n.Grants, func(g fleet.NetworkGrant) bool { return g.ProjectID == "" })
	if n.Restricted && !everywhere && !policy.May(a, policy.InfraChange, "") {
		var projects []string
		for _, g := range n.Grants {
			projects = append(projects, g.ProjectName)
		}
		text += " · only in " + strings.Join(projects, ", ")
	}
	return views.Option{Value: string(n.Kind) + ":" + n.Name, Text: text}
}

// poolRoom says how much may be promised to new disks before somebody has to say that more is.
func poolRoom(h fleet.PoolHealth) string {
	text := views.Bytes(h.AvailableBytes) + " free"
	switch {
	case h.Full > 0:
		text += ", full"
	case h.PromisedBytes >= h.AvailableBytes && h.PromisedBytes > 0:
		text += ", all of it promised"
	case h.PromisedBytes > 0:
		text += ", " + views.Bytes(h.PromisedBytes) + " of it promised"
	}
	return text
}

// useless is 1 for a pool in which no host can make a disk now, else 0.
func useless(p fleet.PoolView) int {
	if p.Health.Healthy == 0 || p.DeletedAt != nil {
		return 1
	}
	return 0
}

// isoChoices are the ISO images, with the present one also where its pool is not heard.
func (s *Server) isoChoices(ctx context.Context, a fleet.Actor, now *fleet.Volref) ([]views.Option, error) {
	isos, err := s.Control.ISOs(ctx, a)
	if err != nil {
		return nil, err
	}
	out := []views.Option{{Value: "", Text: "Empty"}}
	for _, v := range isos {
		out = append(out, volumeChoice(v))
	}
	if now == nil {
		return out, nil
	}
	value := views.Volume(now.PoolID, now.Volume)
	if !slices.ContainsFunc(out, func(o views.Option) bool { return o.Value == value }) {
		out = append(out, views.Option{Value: value, Text: now.Volume})
	}
	return out, nil
}

func volumeChoice(v control.VolumeOn) views.Option {
	text := v.Name + " · " + views.Bytes(v.CapacityBytes) + " · " + v.PoolName
	if !v.Shared && len(v.Hosts) > 0 {
		var hosts []string
		for _, h := range v.Hosts {
			hosts = append(hosts, h.Name)
		}
		text += " on " + strings.Join(hosts, ", ")
	}
	return views.Option{Value: views.Volume(v.PoolID, v.Name), Text: text}
}
