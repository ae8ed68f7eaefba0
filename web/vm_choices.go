package web

import (
	"fmt"
	"slices"
	"strings"

	"quantix/internal/control/browse"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
	vmview "quantix/views/vm"

	"github.com/labstack/echo/v4"
)

// choices fills the form's lists with what the person may choose from.
func (s *Server) choices(c echo.Context, a fleet.Actor, f *vmview.Form) error {
	return s.fillChoices(c, a, f, "/vms/new", "", map[string]*kit.Choices{
		"projects": &f.Projects, "hosts": &f.Hosts, "pools": &f.Pools, "images": &f.Images, "isos": &f.ISOs, "networks": &f.Networks, "luns": &f.LUNs, "discs": &f.Discs, "files": &f.Files,
	})
}

// editChoices is choices for a VM that is there.
func (s *Server) editChoices(c echo.Context, a fleet.Actor, f *vmview.Form, vm fleet.VMID) error {
	return s.fillChoices(c, a, f, views.TabPath(views.VMPath(vm), "configure"), string(vm), map[string]*kit.Choices{
		"isos": &f.ISOs, "vm-networks": &f.Networks, "pools": &f.Pools, "images": &f.Images, "luns": &f.LUNs, "discs": &f.Discs, "files": &f.Files,
	})
}

// fillChoices reads the options for each list, among them those that are typed.
func (s *Server) fillChoices(c echo.Context, a fleet.Actor, f *vmview.Form, page, of string, lists map[string]*kit.Choices) error {
	now := map[string][]string{"projects": f.Typed["projectId"], "hosts": f.Typed["hostId"], "isos": f.Typed["spec.iso"]}
	for name, values := range f.Typed {
		noun := map[string]string{"poolId": "pools", "image": "images", "lun": "luns", "network": "networks", "medium": "discs", "kernel": "files", "initrd": "files"}[name[strings.LastIndexByte(name, '.')+1:]]
		now[noun] = append(now[noun], values...)
	}
	now["vm-networks"] = now["networks"]
	var err error
	if f.CPUModels, err = s.Control.CPUModels(c.Request().Context(), a); err != nil {
		return err
	}
	media, err := s.Control.Media(c.Request().Context(), a)
	if err != nil {
		return err
	}
	for noun, to := range lists {
		q := pick{noun: noun, now: now[noun], page: page, all: c.QueryParam("all") != "", media: &media}
		if noun == "vm-networks" {
			q.of = of
		}
		var err error
		if *to, err = s.choose(c.Request().Context(), a, q); err != nil {
			return err
		}
	}
	return nil
}

func networkChoice(a fleet.Actor, n fleet.NetworkView) kit.Option {
	kind := "network"
	if n.Kind == fleet.NetworkBridge {
		kind = "bridge"
	}
	text := fmt.Sprintf("%s %s · %s", kind, n.Name, kit.Count(n.Health.Hosts, "host"))
	everywhere := slices.ContainsFunc(n.Grants, func(g fleet.NetworkGrant) bool { return g.ProjectID == "" })
	if n.Restricted && !everywhere && !policy.May(a, policy.InfraChange, "") {
		var projects []string
		for _, g := range n.Grants {
			projects = append(projects, g.ProjectName)
		}
		text += " · only in " + strings.Join(projects, ", ")
	}
	return kit.Option{Value: string(n.Kind) + ":" + n.Name, Text: text}
}

// poolRoom says how much may be promised to new disks before somebody has to say that more is.
func poolRoom(h fleet.PoolHealth) string {
	text := kit.Bytes(h.AvailableBytes) + " free"
	switch {
	case h.Full > 0:
		text += ", full"
	case h.PromisedBytes >= h.AvailableBytes && h.PromisedBytes > 0:
		text += ", all of it promised"
	case h.PromisedBytes > 0:
		text += ", " + kit.Bytes(h.PromisedBytes) + " of it promised"
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

func volumeChoice(v browse.VolumeOn) kit.Option {
	text := v.Name + " · " + kit.Bytes(v.CapacityBytes) + " · " + v.PoolName
	if !v.Shared && len(v.Hosts) > 0 {
		var hosts []string
		for _, h := range v.Hosts {
			hosts = append(hosts, h.Name)
		}
		text += " on " + strings.Join(hosts, ", ")
	}
	return kit.Option{Value: vmview.Volume(v.PoolID, v.Name), Text: text}
}
