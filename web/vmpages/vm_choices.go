package vmpages

import (
	"context"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/vmedit"
	"quantix/views"
	"quantix/views/kit"
	vmview "quantix/views/vm"
	"quantix/web/options"
)

// fillNewVMChoices fills the selects of the form of a new VM with the options that the user may choose.
func (s *Site) fillNewVMChoices(c echo.Context, a fleet.Actor, f *vmview.Form) error {
	if err := s.fillClusters(c.Request().Context(), a, f); err != nil {
		return err
	}
	return s.readVMFormChoices(c, a, f, "/vms/new", "", map[string]*kit.SelectChoices{
		"projects": &f.Projects, "hosts": &f.Hosts, "pools": &f.Pools, "images": &f.Images, "isos": &f.ISOs, "networks": &f.Networks, "luns": &f.LUNs, "discs": &f.Discs, "files": &f.Files,
		"device-classes": &f.DeviceClasses,
	})
}

// fillClusters fills the form of a new VM with all clusters, and with the cluster of the chosen host if the user may see
// hosts.
func (s *Site) fillClusters(ctx context.Context, a fleet.Actor, f *vmview.Form) (err error) {
	if f.Clusters, err = s.Control.AllClusters(ctx, a); err != nil {
		return err
	}
	host := fleet.HostID(f.Typed.Get("hostId"))
	if host == "" || len(f.Clusters) < 2 || !policy.May(a, policy.InfraSee, "") {
		return nil
	}
	h, err := s.Control.GetHost(ctx, a, host)
	if err != nil && fleet.CodeOf(err) != fleet.NotFound { // control reports a removed host when the VM is created
		return err
	}
	f.HostCluster = h.ClusterID
	return nil
}

// fillEditVMChoices is fillNewVMChoices for the form that edits vm.
func (s *Site) fillEditVMChoices(c echo.Context, a fleet.Actor, f *vmview.Form, vm fleet.VMID) error {
	return s.readVMFormChoices(c, a, f, views.TabPath(views.VMPath(vm), "configure"), string(vm), map[string]*kit.SelectChoices{
		"isos": &f.ISOs, "vm-networks": &f.Networks, "pools": &f.Pools, "images": &f.Images, "luns": &f.LUNs, "discs": &f.Discs, "files": &f.Files,
		"device-classes": &f.DeviceClasses,
	})
}

// readVMFormChoices reads the options of each select in lists, by kind (see package options). The chosen options are
// always included.
func (s *Site) readVMFormChoices(c echo.Context, a fleet.Actor, f *vmview.Form, page, of string, lists map[string]*kit.SelectChoices) error {
	now := map[string][]string{"projects": f.Typed["projectId"], "hosts": f.Typed["hostId"], "isos": f.Typed["spec.iso"]}
	for name, values := range f.Typed {
		typ := map[string]string{"poolId": "pools", "image": "images", "lun": "luns", "network": "networks", "medium": "discs", "kernel": "files", "initrd": "files", "classId": "device-classes"}[name[strings.LastIndexByte(name, '.')+1:]]
		now[typ] = append(now[typ], values...)
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
	_, edits := lists["vm-networks"]
	pools, err := s.Control.UsablePools(c.Request().Context(), a, f.VM.ProjectID)
	if err != nil {
		return err
	}
	networks, err := s.usableNetworks(c, a, edits, fleet.VMID(of))
	if err != nil {
		return err
	}
	project := f.VM.ProjectID
	fill := func(typ string) (err error) {
		q := options.Query{Kind: typ, Chosen: now[typ], FormAddress: page, ShowAll: c.QueryParam("all") != "", Media: &media, Pools: pools, Networks: networks}
		if typ == "vm-networks" {
			q.ParentID = of
		}
		if typ == "device-classes" {
			q.ParentID = string(project)
		}
		*lists[typ], err = s.Options.Choices(c.Request().Context(), a, q)
		return err
	}
	if !edits {
		if err := fill("projects"); err != nil {
			return err
		}
		if project = fleet.ProjectID(f.Typed.Get("projectId")); project == "" && len(f.Projects.Options) > 0 {
			project = fleet.ProjectID(f.Projects.Options[0].Value)
		}
	}
	if !edits {
		if f.Rules, err = s.rulesOfProject(c.Request().Context(), a, project); err != nil {
			return err
		}
	}
	if f.Default, err = s.defaultPoolAndNetwork(c.Request().Context(), a, f, project, pools, networks); err != nil {
		return err
	}
	now["pools"] = append(now["pools"], string(f.Default.Pool.ID))
	now["networks"] = append(now["networks"], vmview.NetworkValue(f.Default.Network.Kind, f.Default.Network.Name))
	for typ := range lists {
		if err := fill(typ); err != nil {
			return err
		}
	}
	return nil
}

// usableNetworks returns the networks that a new VM can use. If edits is true, it returns the networks that the
// existing VM can use.
func (s *Site) usableNetworks(c echo.Context, a fleet.Actor, edits bool, vm fleet.VMID) ([]fleet.NetworkView, error) {
	if edits {
		return s.Control.NetworksForVM(c.Request().Context(), a, vm)
	}
	return s.Control.UsableNetworks(c.Request().Context(), a)
}

// defaultPoolAndNetwork returns the pool and the network that the form preselects for new devices. These are the
// defaults of the project and host. An edited VM with disks has the pool of its first disk as default.
func (s *Site) defaultPoolAndNetwork(ctx context.Context, a fleet.Actor, f *vmview.Form, project fleet.ProjectID, pools []fleet.PoolView, networks []fleet.NetworkView) (vmedit.Defaults, error) {
	if project == "" {
		return vmedit.Defaults{}, nil
	}
	host, cluster := fleet.HostID(f.Typed.Get("hostId")), fleet.ClusterID(f.Typed.Get("clusterId"))
	if (host != "" || cluster != "") && !f.Edits {
		return noDefaultsIfNotFound(s.Control.VMDefaults(ctx, a, project, host, cluster))
	}
	out, err := noDefaultsIfNotFound(s.Control.VMDefaultsFromCandidates(ctx, a, project, pools, networks))
	if len(f.VM.Spec.Disks) > 0 {
		at := f.VM.Spec.Disks[0].PoolID
		if i := slices.IndexFunc(pools, func(p fleet.PoolView) bool { return p.ID == at && p.SupportsNewDisks() }); i >= 0 {
			out.Pool = vmedit.DefaultPool{ID: at, Name: pools[i].Name, Why: "pool of the first disk"}
		}
	}
	return out, err
}

// noDefaultsIfNotFound returns empty defaults instead of NotFound, so that the form stays usable if the project was
// deleted or is hidden. control reports the error when the VM is created.
func noDefaultsIfNotFound(d vmedit.Defaults, err error) (vmedit.Defaults, error) {
	if fleet.CodeOf(err) == fleet.NotFound {
		return vmedit.Defaults{}, nil
	}
	return d, err
}
