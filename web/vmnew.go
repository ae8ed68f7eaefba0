package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
)

type vmForm struct {
	Key         string       `form:"key"`
	Name        string       `form:"name"`
	Project     string       `form:"project"`
	Host        string       `form:"host"`
	Labels      string       `form:"labels"`
	Description string       `form:"description"`
	CPUs        string       `form:"cpus"`
	Memory      string       `form:"memory"`
	Unit        string       `form:"unit"`
	Firmware    string       `form:"firmware"`
	ISO         string       `form:"iso"`
	Start       string       `form:"start"`
	Overcommit  string       `form:"overcommit"`
	Disks       []vmFormDisk `form:"disks"`
	NICs        []vmFormNIC  `form:"nics"`
	Add         string       `form:"add"`  // "disk", "nic": without scripts
	Drop        string       `form:"drop"` // "disk:0", "nic:1"
}

type vmFormDisk struct {
	Source string `form:"source"`
	Pool   string `form:"pool"`
	Size   string `form:"size"`
	Image  string `form:"image"`
}

type vmFormNIC struct {
	On  string `form:"on"`
	MAC string `form:"mac"`
}

func (s *Server) newVM(c echo.Context, a fleet.Actor) error {
	f := views.VMForm{
		Key: fleet.NewID[string](), Project: c.QueryParam("project"), Host: c.QueryParam("host"),
		CPUs: "2", Memory: "2", Unit: "GiB", Firmware: string(fleet.BIOS), Start: true,
	}
	if err := s.choices(c, a, &f); err != nil {
		return err
	}
	if len(f.Pools.Options) > 0 {
		f.Disks = []views.DiskRow{{Source: "empty", Size: "20"}}
	}
	if len(f.Networks.Options) > 0 {
		f.NICs = []views.NICRow{{}}
	}
	return s.show(c, a, views.Frame{Title: "New VM"}, views.NewVM(f))
}

func (s *Server) createVM(c echo.Context, a fleet.Actor) error {
	in, err := decode[vmForm](c)
	if err != nil {
		return err
	}
	in.dropGaps()
	if in.Add != "" || in.Drop != "" {
		in.changeRows()
		return s.showForm(c, a, http.StatusOK, in, views.Errors{})
	}
	var checks fleet.Checks
	ask := in.read(&checks)
	if err = checks.Err(); err == nil {
		var vm fleet.VMID
		if vm, err = s.createOnce(c.Request().Context(), a, in.Key, ask); err == nil {
			return s.leave(c, views.VMPath(vm))
		}
	} else if spec := ask.Spec; true {
		// What control would say about the rest is said at once, not after the first correction.
		var rest fleet.Checks
		fleet.CheckName(&rest, "name", ask.Name)
		spec.Power = fleet.Stopped
		spec.Check(&rest, "spec")
		err = merge(&checks, rest.Err())
	}
	e, status, ok := formErrors(err)
	if !ok {
		return err
	}
	return s.showForm(c, a, formStatus(c, status), in, e)
}

// createOnce makes one VM of a form that is sent twice.
func (s *Server) createOnce(ctx context.Context, a fleet.Actor, form string, ask control.CreateVM) (fleet.VMID, error) {
	request, err := json.Marshal(ask)
	if err != nil {
		return "", err
	}
	k := control.Key{Name: form, Request: request, Secret: s.Sessions.Token(ctx)}
	return once(ctx, s, a, k, func(ctx context.Context) (fleet.VMID, error) {
		vm, err := s.Control.CreateVM(ctx, a, ask)
		return vm.ID, err
	})
}

// showForm shows again what was typed, with what is wrong.
func (s *Server) showForm(c echo.Context, a fleet.Actor, status int, in vmForm, e views.Errors) error {
	f := views.VMForm{
		Key: in.Key, Name: in.Name, Project: in.Project, Host: in.Host, Labels: in.Labels, Description: in.Description,
		CPUs: in.CPUs, Memory: in.Memory, Unit: in.Unit, Firmware: in.Firmware, ISO: in.ISO, Start: in.Start != "", Errors: e,
		Overcommit: in.Overcommit != "", MayOvercommit: policy.May(a, policy.InfraChange, ""),
	}
	for _, d := range in.Disks {
		f.Disks = append(f.Disks, views.DiskRow(d))
	}
	for _, n := range in.NICs {
		f.NICs = append(f.NICs, views.NICRow(n))
	}
	if err := s.choices(c, a, &f); err != nil {
		return err
	}
	return s.showAs(c, status, a, views.Frame{Title: "New VM"}, views.NewVM(f))
}

// dropGaps takes out rows that were removed in the browser: their numbers are missing in what was sent.
func (in *vmForm) dropGaps() {
	in.Disks = slices.DeleteFunc(in.Disks, func(d vmFormDisk) bool { return d == vmFormDisk{} })
	in.NICs = slices.DeleteFunc(in.NICs, func(n vmFormNIC) bool { return n == vmFormNIC{} })
}

// changeRows adds or removes a row for a browser without scripts.
func (in *vmForm) changeRows() {
	switch in.Add {
	case "disk":
		in.Disks = append(in.Disks, vmFormDisk{Source: "empty", Size: "20"})
	case "nic":
		in.NICs = append(in.NICs, vmFormNIC{})
	}
	noun, text, _ := strings.Cut(in.Drop, ":")
	i, err := strconv.Atoi(text)
	switch {
	case err != nil || i < 0:
	case noun == "disk" && i < len(in.Disks):
		in.Disks = slices.Delete(in.Disks, i, i+1)
	case noun == "nic" && i < len(in.NICs):
		in.NICs = slices.Delete(in.NICs, i, i+1)
	}
}

func (in vmForm) read(checks *fleet.Checks) control.CreateVM {
	out := control.CreateVM{
		ProjectID: fleet.ProjectID(in.Project), HostID: fleet.HostID(in.Host), Name: strings.TrimSpace(in.Name),
		Labels: labelsOf(checks, "labels", in.Labels), Description: in.Description, Start: in.Start != "", Overcommit: in.Overcommit != "",
		Spec: fleet.VMSpec{
			CPUs: number(checks, "spec.cpus", in.CPUs), MemoryMiB: memoryOf(checks, "spec.memoryMiB", in.Memory, in.Unit),
			Firmware: fleet.Firmware(in.Firmware), Disks: []fleet.Disk{}, NICs: []fleet.NIC{},
		},
	}
	for i, d := range in.Disks {
		disk := fleet.Disk{PoolID: fleet.PoolID(d.Pool), SizeBytes: sizeOf(checks, fmt.Sprintf("spec.disks[%d].sizeBytes", i), d.Size)}
		if d.Source == "image" {
			image := volumeOf(d.Image)
			disk.Image = &image
		}
		out.Spec.Disks = append(out.Spec.Disks, disk)
	}
	for _, n := range in.NICs {
		nic := fleet.NIC{MAC: strings.TrimSpace(n.MAC)}
		switch kind, name, _ := strings.Cut(n.On, ":"); fleet.NetworkKind(kind) {
		case fleet.NetworkLibvirt:
			nic.Network = name
		case fleet.NetworkBridge:
			nic.Bridge = name
		}
		out.Spec.NICs = append(out.Spec.NICs, nic)
	}
	if iso := volumeOf(in.ISO); iso != (fleet.Volref{}) {
		out.Spec.ISO = &iso
	}
	return out
}

// choices fills the form's lists with what the person may choose from.
func (s *Server) choices(c echo.Context, a fleet.Actor, f *views.VMForm) error {
	now := map[string][]string{"projects": {f.Project}, "hosts": {f.Host}, "isos": {f.ISO}}
	for _, d := range f.Disks {
		now["pools"], now["images"] = append(now["pools"], d.Pool), append(now["images"], d.Image)
	}
	for _, n := range f.NICs {
		now["networks"] = append(now["networks"], n.On)
	}
	for noun, to := range map[string]*views.Choices{
		"projects": &f.Projects, "hosts": &f.Hosts, "pools": &f.Pools, "images": &f.Images, "isos": &f.ISOs, "networks": &f.Networks,
	} {
		var err error
		if *to, err = s.choose(c.Request().Context(), a, pick{noun: noun, now: now[noun], page: "/vms/new", all: c.QueryParam("all") != ""}); err != nil {
			return err
		}
	}
	return nil
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
