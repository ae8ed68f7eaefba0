package vmpages

import (
	"slices"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/views"
	vmview "quantix/views/vm"
	"quantix/web/form"
)

// missingDiskPage returns the data of a dialog about the missing disk in the path. It returns NotFound if the disk is
// no longer missing.
func (s *Site) missingDiskPage(c echo.Context, a fleet.Actor) (vmview.DiskPage, error) {
	p, err := s.readVMPage(c, a, "")
	if err != nil {
		return vmview.DiskPage{}, err
	}
	ref := form.ParseVolumeValue(c.QueryParam("disk"))
	i := slices.IndexFunc(p.VM.Spec.Disks, func(d fleet.Disk) bool { return d.Ref() == ref })
	fault := p.VM.MissingDiskFault(ref)
	if i < 0 || fault == nil {
		return vmview.DiskPage{}, fleet.Errorf(fleet.NotFound, "This disk of the VM is no longer missing.")
	}
	pools, err := s.poolNamesOfVM(c.Request().Context(), a, p.VM)
	d := p.VM.Spec.Disks[i]
	in := vmview.ReplacementDiskForm{Volume: control.NewDiskName(p.VM, d)}
	if d.SizeBytes > 0 {
		in.Size = form.GiBText(d.SizeBytes)
	}
	return vmview.DiskPage{VM: p.VM, Disk: d, Pool: pools[d.PoolID], Text: fault.Text, In: in}, err
}

func (s *Site) ConfirmDetachDisk(c echo.Context, a fleet.Actor, _ form.EmptyForm, how form.Display) error {
	p, err := s.missingDiskPage(c, a)
	if err != nil {
		return err
	}
	p.Errors = how.Errors
	return s.ShowPageWithStatus(c, how.Status, a, vmPageLayout(p.VM), vmview.DetachDiskDialog(p))
}

func (s *Site) DetachDisk(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	id := fleet.VMID(c.Param("id"))
	_, _, err := s.Control.DetachDisk(c.Request().Context(), a, id, form.ParseVolumeValue(c.QueryParam("disk")))
	return form.StayOnPage(views.VMPath(id), "The disk is removed from the VM."), err
}

type replaceDiskForm struct {
	Volume  string `form:"volume"`
	Size    string `form:"size"`
	Content string `form:"content"`
}

func (s *Site) ShowReplaceDiskForm(c echo.Context, a fleet.Actor, in replaceDiskForm, how form.Display) error {
	p, err := s.missingDiskPage(c, a)
	if err != nil {
		return err
	}
	if how.WasRefused() {
		p.In, p.Errors = vmview.ReplacementDiskForm{Volume: in.Volume, Size: in.Size, Content: in.Content}, how.Errors
	}
	return s.ShowPageWithStatus(c, how.Status, a, vmPageLayout(p.VM), vmview.ReplaceDiskDialog(p))
}

func (s *Site) ReplaceDisk(c echo.Context, a fleet.Actor, in replaceDiskForm) (form.Response, error) {
	var checks fleet.Checks
	disk := control.NewDisk{Volume: in.Volume, SizeBytes: form.ParseField(&checks, "sizeBytes", in.Size, form.ParseDiskSize), Clone: in.Content == "clone"}
	if err := checks.Err(); err != nil {
		return nil, err
	}
	id := fleet.VMID(c.Param("id"))
	_, _, err := s.Control.ReplaceDisk(c.Request().Context(), a, id, form.ParseVolumeValue(c.QueryParam("disk")), disk)
	return form.StayOnPage(views.VMPath(id), "The new disk is queued on the host."), err
}

// driftForm names one field with drift, with the host's value that the page showed.
type driftForm struct {
	Field  string `form:"field"`
	Actual string `form:"actual"`
}

func (in driftForm) seen() map[string]string { return map[string]string{in.Field: in.Actual} }

func (s *Site) AcceptDrift(c echo.Context, a fleet.Actor, in driftForm) (form.Response, error) {
	id := fleet.VMID(c.Param("id"))
	_, _, err := s.Control.AcceptDrift(c.Request().Context(), a, id, in.seen())
	return form.StayOnPage(views.VMPath(id), "The drift is accepted: the VM's settings are now those on the host."), err
}

func (s *Site) IgnoreDrift(c echo.Context, a fleet.Actor, in driftForm) (form.Response, error) {
	id := fleet.VMID(c.Param("id"))
	_, err := s.Control.IgnoreDrift(c.Request().Context(), a, id, in.seen())
	return form.StayOnPage(views.VMPath(id), "The drift is ignored until the host's value or the VM's setting changes."), err
}

func (s *Site) ShowDrift(c echo.Context, a fleet.Actor, in driftForm) (form.Response, error) {
	id := fleet.VMID(c.Param("id"))
	_, err := s.Control.ShowDrift(c.Request().Context(), a, id, []string{in.Field})
	return form.StayOnPage(views.VMPath(id), "The drift is shown again."), err
}

// ReapplyVM reapplies one field, or all if the form names none.
func (s *Site) ReapplyVM(c echo.Context, a fleet.Actor, in driftForm) (form.Response, error) {
	id := fleet.VMID(c.Param("id"))
	var fields []string
	if in.Field != "" {
		fields = []string{in.Field}
	}
	job, err := s.Control.Reapply(c.Request().Context(), a, id, fields)
	return form.StayOnPage(views.VMPath(id), "Reapply "+job.SubjectName+": queued on "+job.HostName+"."), err
}

func (s *Site) SetVMHost(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	id := fleet.VMID(c.Param("id"))
	vm, err := s.Control.ChooseVMHost(c.Request().Context(), a, id, fleet.HostID(c.Param("host")))
	return form.StayOnPage(views.VMPath(id), vm.Name+" is on "+vm.HostName+"."), err
}
