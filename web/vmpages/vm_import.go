package vmpages

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/vmcopy"
	"quantix/views"
	"quantix/views/kit"
	"quantix/views/shell"
	vmview "quantix/views/vm"
	"quantix/web/form"
	"quantix/web/options"
	"quantix/web/render"
)

// maxUploadPools is the maximum number of pools to which the import page links for uploads. Other pools have an upload
// button on their own pages.
const maxUploadPools = 12

func (s *Site) ShowImportPage(c echo.Context, a fleet.Actor) error {
	ctx := c.Request().Context()
	files, err := s.Control.ListAppliances(ctx, a)
	if err != nil {
		return err
	}
	p := vmview.ImportPage{Actor: a, Link: render.LinkToCurrentPage(c)}
	for _, v := range files {
		f := vmview.ImportFile{Volume: v.Volume, PoolID: v.PoolID, Pool: kit.NamedLink{Name: v.PoolName, Href: views.TabPath(views.PoolPath(v.PoolID), "volumes")}}
		if !v.Shared && len(v.Hosts) > 0 {
			f.HostID, f.Host = v.Hosts[0].ID, kit.NamedLink{Name: v.Hosts[0].Name}
		}
		_, f.Why = v.VolumeUse().Allows(fleet.ActImport)
		p.Files = append(p.Files, f)
	}
	found, err := s.Options.PoolOptions(ctx, a, options.Query{})
	if err != nil {
		return err
	}
	for _, o := range found[:min(len(found), maxUploadPools)] {
		name, _, _ := strings.Cut(o.Text, " · ")
		p.Pools = append(p.Pools, kit.NamedLink{Name: name, Href: views.PoolPath(fleet.PoolID(o.Value), "volumes", "upload")})
	}
	if p.Uploads, err = s.Control.ListUploads(ctx, a, ""); err != nil {
		return err
	}
	return s.ShowPage(c, a, shell.PageLayout{Title: "Import", Scripts: []string{render.UploadScript}}, vmview.ImportListPage(p))
}

// newVMSourceFromAppliance returns an appliance as the source of a new VM. If fresh is true, it prefills the form (typed)
// from the appliance.
func (s *Site) newVMSourceFromAppliance(c echo.Context, a fleet.Actor, of control.ApplianceFile, typed url.Values, fresh bool) (*vmview.NewVMSource, error) {
	v, err := s.Control.GetAppliance(c.Request().Context(), a, of)
	if err != nil {
		return nil, err
	}
	out := &vmview.NewVMSource{
		Title: "Import " + v.Name, Back: vmview.ImportPath, Disks: []string{}, Needs: v.Appliance.RequiredDrivers(), Left: v.Appliance.NotImported,
		Sent: map[string]string{"from.appliance.poolId": string(of.PoolID), "from.appliance.hostId": string(of.HostID), "from.appliance.volume": of.Volume},
		Note: applianceNote(v),
	}
	if ok, why := v.VolumeUse().Allows(fleet.ActImport); !ok {
		out.Note = why
	}
	if len(v.Hosts) > 0 {
		out.HostID = v.Hosts[0].ID
	}
	for i, d := range v.Appliance.Disks {
		word := fmt.Sprintf("Disk %d, empty (%s)", i+1, kit.Bytes(d.SizeBytes))
		if d.Format != "" {
			word = fmt.Sprintf("Disk %d from %s (%s)", i+1, strings.ToUpper(d.Format), kit.Bytes(d.SizeBytes))
		}
		out.Disks = append(out.Disks, word)
	}
	for _, n := range v.Appliance.NICs {
		word := "No network in the file"
		if n.Network != "" {
			word = "Network in the file: " + n.Network
		}
		if n.Model != "" {
			word += ", as " + n.Model
		}
		out.NICs = append(out.NICs, word)
	}
	if !fresh {
		return out, nil
	}
	spec := v.Appliance.Spec(of.PoolID)
	if err := fillSpecFormValues(typed, spec); err != nil {
		return nil, err
	}
	typed.Set("name", v.Appliance.VMName(v.Name))
	typed.Del("start")
	for i := range spec.Disks {
		typed.Set(fmt.Sprintf("spec.disks[%d].source", i), "clone")
	}
	for i, n := range v.Appliance.NICs {
		// vmview.Form selects the network with this name, or the default network if there is no network with this name
		typed.Set(fmt.Sprintf("spec.nics[%d].network", i), n.Network)
	}
	return out, nil
}

func applianceNote(v query.VolumeOn) string {
	words := []string{}
	if v.Appliance.OS != "" && v.Appliance.Family != "other" {
		words = append(words, "Guest OS in the file: "+v.Appliance.OS+".")
	}
	if v.Appliance.Product != "" {
		words = append(words, "Created by "+v.Appliance.Product+".")
	}
	words = append(words, "The disks are converted to qcow2 on "+hostNameOfVolume(v)+". The VM stays off until then. The file is kept.")
	return strings.Join(words, " ")
}

func hostNameOfVolume(v query.VolumeOn) string {
	if len(v.Hosts) == 0 {
		return "its host"
	}
	return v.Hosts[0].Name
}

type exportForm struct {
	What string `form:"what"`
	Pool string `form:"pool"`
}

func (s *Site) ShowExportForm(c echo.Context, a fleet.Actor, in exportForm, how form.Display) error {
	ctx := c.Request().Context()
	p, err := s.readVMPage(c, a, "")
	if err != nil {
		return err
	}
	out := vmview.ExportPage{VM: p.VM, Now: time.Now(), Errors: how.Errors, In: vmview.ExportForm{What: in.What, Pool: in.Pool}}
	if out.Files, err = s.Control.ListExports(ctx, a, p.VM.ID); err != nil {
		return err
	}
	if _, out.Why = vmcopy.AllowsExport(p.VM); out.Why == "" {
		names, err := s.Control.PoolNames(ctx, a, p.VM.Spec.Pools())
		if err != nil {
			return err
		}
		for _, id := range p.VM.Spec.Pools() {
			if names[id] != "" {
				out.Pools = append(out.Pools, kit.Option{Value: string(id), Text: names[id]})
			}
		}
	}
	return s.ShowPageWithStatus(c, how.Status, a, vmPageLayout(p.VM), vmview.ExportDialog(out))
}

func (s *Site) ExportVM(c echo.Context, a fleet.Actor, in exportForm) (form.Response, error) {
	id := fleet.VMID(c.Param("id"))
	order := control.NewExport{PoolID: fleet.PoolID(in.Pool)}
	format, disk, _ := strings.Cut(in.What, "/")
	order.Format = format
	var checks fleet.Checks
	if disk != "" {
		order.Disk = form.ParseField(&checks, "disk", disk, form.ParseNumber)
	}
	if err := checks.Err(); err != nil {
		return nil, err
	}
	e, err := s.Control.ExportVM(c.Request().Context(), a, id, order)
	return form.RedirectTo(views.VMPath(e.VMID, "export")), err
}

func (s *Site) DeleteExport(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	ctx, id := c.Request().Context(), fleet.ExportID(c.Param("id"))
	e, err := s.Control.GetExport(ctx, a, id)
	if err == nil {
		err = s.Control.DeleteExport(ctx, a, id)
	}
	return form.StayOnPage(views.VMPath(e.VMID, "export"), "Delete "+e.Volume+": queued on the host."), err
}
