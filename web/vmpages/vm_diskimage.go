package vmpages

import (
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/views"
	vmview "quantix/views/vm"
	"quantix/web/form"
)

type diskImageForm struct {
	Name        string `form:"name"`
	Description string `form:"description"`
	Family      string `form:"family"`
	System      string `form:"system"`
	Release     string `form:"release"`
	Arch        string `form:"arch"`
}

// diskFromRequest returns the page of the VM in the path, the disk in the query, and the disk's number in the VM, counted
// from 1.
func (s *Site) diskFromRequest(c echo.Context, a fleet.Actor) (p vmview.Page, disk fleet.Disk, number int, err error) {
	if p, err = s.readVMPage(c, a, ""); err != nil {
		return p, disk, 0, err
	}
	ref := form.ParseVolumeValue(c.QueryParam("disk"))
	for i, d := range p.VM.Spec.Disks {
		if d.Ref() == ref {
			return p, d, i + 1, nil
		}
	}
	return p, disk, 0, fleet.Errorf(fleet.NotFound, "This VM has no such disk any more.")
}

func (s *Site) ShowDiskImageForm(c echo.Context, a fleet.Actor, in diskImageForm, how form.Display) error {
	p, disk, number, err := s.diskFromRequest(c, a)
	if err != nil {
		return err
	}
	out := vmview.DiskImagePage{
		VM: p.VM, Disk: disk, Number: number, Errors: how.Errors,
		In: vmview.DiskImageForm{Name: in.Name, Description: in.Description, Family: in.Family, System: in.System, Release: in.Release, Arch: in.Arch},
	}
	_, out.Why = p.VM.AllowsImage(disk.Ref())
	return s.ShowPageWithStatus(c, how.Status, a, vmPageLayout(p.VM), vmview.DiskImageDialog(out))
}

func (s *Site) CreateDiskImage(c echo.Context, a fleet.Actor, in diskImageForm) (form.Response, error) {
	id := fleet.VMID(c.Param("id"))
	image, _, err := s.Control.ImageOfDisk(c.Request().Context(), a, id, form.ParseVolumeValue(c.QueryParam("disk")), control.DiskImage{
		Name: strings.TrimSpace(in.Name), Description: strings.TrimSpace(in.Description),
		OS: form.NewOSFacts(in.Family, in.System, in.Release, in.Arch),
	})
	return form.RedirectTo(views.ImagePath(image)), err
}
